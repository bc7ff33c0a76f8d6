"""Overlays in simulation: the nodes of `twigcast.overlay` without a network.

- ``simulator``: a driver with a virtual clock and seeded faults; ``ordered``: links that keep the order of messages
- ``journal``, ``counters``, ``trace``, ``checkers``: what happened, how much of it, and whether it was right
- ``chord``, ``codd``, ``onyx``: scenarios and measures of each network
- ``simulations``, ``options``, ``commands``: ``twigcast overlay simulate``
- ``draw``, ``illustrate``: rings, trees, maps and loads as SVG, by matplotlib
"""
