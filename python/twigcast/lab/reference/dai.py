"""Dai's hybrid proposal: simple queries to YFilter, twigs to BFilter (Dai 2009, section 4.5 and chapter 5).

BFilter wraps parts of YFilter, so that it is slower than YFilter on queries without nested paths; the author proposes
to split the set of queries by that. (He proposes to run both in parallel, too, which pure Python does not gain from.)

Not to be confused with :mod:`.hybrid`, which cuts each path, and :mod:`.boone`.

Not supported: nothing of the path-query language.
"""

from __future__ import annotations

from twigcast.lab.reference.algorithm import Algorithm, Counters
from twigcast.lab.reference.bfilter import BFilter
from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import PathQuery
from twigcast.lab.reference.selection import Selectivity
from twigcast.lab.reference.yfilter import YFilter


class DaiHybrid(Algorithm):
    """YFilter and BFilter side by side, over one stream of events.

    Args:
        selectivity: Estimates for predicate sorting in YFilter.
    """

    title = "Hybrid (Dai)"
    source = "Dai 2009, section 4.5 and chapter 5"

    def __init__(self, selectivity: Selectivity | None = None) -> None:
        super().__init__()
        self.simple = YFilter(selectivity)
        self.complex = BFilter()
        self._share_counters(self.counters)

    def _share_counters(self, counters: Counters) -> None:
        self.simple.counters = self.complex.counters = counters

    def _side(self, query: PathQuery) -> Algorithm:
        return self.simple if query.is_simple else self.complex

    def _insert(self, query_id: str, query: PathQuery) -> None:
        self._side(query).add(query_id, query)

    def _delete(self, query_id: str, query: PathQuery) -> None:
        self._side(query).remove(query_id)

    def _size(self) -> int:
        return self.simple.nfa.size + self.complex.nfa.size

    def _start_document(self, document: Element) -> None:
        self.simple._start_document(document)
        self.complex._start_document(document)

    def _start_element(self, element: Element) -> None:
        self.simple._start_element(element)
        self.complex._start_element(element)

    def _end_element(self, element: Element) -> None:
        self.simple._end_element(element)
        self.complex._end_element(element)

    def _end_document(self, document: Element) -> set[str]:
        return self.simple._end_document(document) | self.complex._end_document(document)
