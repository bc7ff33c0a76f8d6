"""The worked examples of the documentation, drawn by the algorithms themselves.

``python -m twigcast.lab.reference.draw docs/algorithms`` runs every example and brings the pages up to date: tables
between the comments ``<!-- drawn: name -->`` and ``<!-- end -->``, pictures in ``figures/``. A test fails when a page
is not what the code draws.

What lives where: ``svg``: trees and graphs as pictures; ``tables``: Markdown; ``paths``, ``twigs``: the examples;
``comparison``: all algorithms on one workload; ``pages``: putting it into the pages.
"""

from twigcast.lab.reference.draw.pages import redraw

__all__ = ["redraw"]
