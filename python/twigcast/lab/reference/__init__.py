"""The published filtering algorithms, one readable module each, in pure Python.

They are written to be read next to the papers, to check the compiled engine against, and to reproduce the published
figures with; for work, use :class:`twigcast.SubscriptionSet`. All have the same small interface (:class:`Algorithm`)::

    >>> from twigcast.query import Path, child, descendant
    >>> from twigcast.lab.reference import ALGORITHMS
    >>> yfilter = ALGORITHMS["yfilter"]()
    >>> yfilter.add("Q1", Path.absolute(child("a"), descendant("c")))
    >>> yfilter.match(b"<a><b><c/></b></a>")
    {'Q1'}

What lives where:

- ``language``, ``events``: what the algorithms take in: path queries, and the event stream of a message
- ``algorithm``: the interface, and the counters
- ``selection``, ``np_filter``, ``path_algorithm``: predicates and nested paths on top of linear paths
- ``xfilter``, ``hybrid`` (Diao's), ``nfa`` and ``yfilter``, ``yfilter_inline``, ``lazy_dfa``: Diao 2005
- ``afilter``, ``gfilter``, ``boone``, ``bfilter``, ``dai``: as described by Dai 2009
- ``bfilter_published``, ``yfilter_release``, ``published`` modes: what was printed or released, where not exact
- ``draw``: the worked examples of the documentation

*Diao 2005*: Y. Diao, Query Processing for Large-Scale XML Message Brokering, PhD thesis, UC Berkeley, 2005. *Dai 2009*:
L. Dai, BFilter, a XML Message Filtering and Matching Approach in Publish/Subscribe Systems, MCS thesis, Carleton, 2009.
"""

from collections.abc import Callable

from twigcast.lab.reference.afilter import AFilter
from twigcast.lab.reference.algorithm import Algorithm, Counters
from twigcast.lab.reference.bfilter import BFilter
from twigcast.lab.reference.bfilter_published import BFilterPublished
from twigcast.lab.reference.boone import BooneHybrid
from twigcast.lab.reference.dai import DaiHybrid
from twigcast.lab.reference.gfilter import GFilter
from twigcast.lab.reference.hybrid import DiaoHybrid
from twigcast.lab.reference.language import OutsideFragment, PathQuery, path_query
from twigcast.lab.reference.lazy_dfa import LazyDFA
from twigcast.lab.reference.xfilter import XFilter
from twigcast.lab.reference.yfilter import YFilter
from twigcast.lab.reference.yfilter_inline import YFilterInline
from twigcast.lab.reference.yfilter_release import YFilterRelease

ALGORITHMS: dict[str, Callable[[], Algorithm]] = {
    "xfilter-basic": lambda: XFilter(list_balance=False),
    "xfilter": XFilter,
    "hybrid-diao": DiaoHybrid,
    "yfilter": YFilter,
    "yfilter-inline": YFilterInline,
    "lazy-dfa": LazyDFA,
    "afilter": AFilter,
    "afilter-prefix": lambda: AFilter(prefix_caching=True),
    "afilter-suffix": lambda: AFilter(suffix_clustering=True),
    "afilter-prefix-suffix": lambda: AFilter(prefix_caching=True, suffix_clustering=True),
    "gfilter": GFilter,
    "bfilter": BFilter,
    "hybrid-boone": BooneHybrid,
    "hybrid-dai": DaiHybrid,
}
"""The algorithms by name, as factories. All are exact on the queries that they accept."""

PUBLISHED: dict[str, Callable[[], Algorithm]] = {
    "xfilter-published": lambda: XFilter(published=True),
    "hybrid-diao-published": lambda: DiaoHybrid(published=True),
    "yfilter-inline-published": lambda: YFilterInline(published=True),
    "bfilter-published": BFilterPublished,
    "yfilter-1.0": YFilterRelease,
}
"""Modes that follow the printed rules, or released software, where these are not exact; for comparisons only."""

__all__ = [
    "ALGORITHMS",
    "PUBLISHED",
    "AFilter",
    "Algorithm",
    "BFilter",
    "BFilterPublished",
    "BooneHybrid",
    "Counters",
    "DaiHybrid",
    "DiaoHybrid",
    "GFilter",
    "LazyDFA",
    "OutsideFragment",
    "PathQuery",
    "XFilter",
    "YFilter",
    "YFilterInline",
    "YFilterRelease",
    "path_query",
]
