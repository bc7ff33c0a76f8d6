"""What a node asks its parent for: its own query and what its children ask for, kept small (CoDD, section 2).

Queries are counted, so that an announcement changes only when the first node of a subtree asks for something or the
last one stops. With a limit, the announcement is a widening of the true union: never narrower, but shorter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from twigcast.overlay.codd.engine import Engine, Query


class AggregateFilter:
    """The union of the queries of a subtree, and its announcement.

    Attributes:
        counts: How many links (the node itself, its children) ask for each query.
        announced: What the parent has been told.
    """

    __slots__ = ("_engine", "_limit", "announced", "counts")

    def __init__(self, engine: Engine, limit: int) -> None:
        self._engine = engine
        self._limit = limit
        self.counts: Counter[Query] = Counter()
        self.announced: frozenset[Query] = frozenset()

    def change(self, added: Iterable[Query], removed: Iterable[Query]) -> tuple[frozenset[Query], frozenset[Query]]:
        """Count queries in and out.

        Returns:
            What to add to and to remove from the announcement.
        """
        come: set[Query] = set()
        gone: set[Query] = set()
        for query in added:
            self.counts[query] += 1
            if self.counts[query] == 1:
                come.add(query)
        for query in removed:
            self.counts[query] -= 1
            if self.counts[query] <= 0:
                del self.counts[query]
                gone.add(query)
        if not come and not gone:
            return frozenset(), frozenset()
        if not self._limit:
            self.announced = (self.announced | come) - (gone - come)
            come_only, gone_only = frozenset(come - gone), frozenset(gone - come)
            return come_only, gone_only
        return self._announce(self._wanted())

    def _wanted(self) -> frozenset[Query]:
        whole = frozenset(self.counts)
        return self._engine.summarise(whole, self._limit) if self._limit and len(whole) > self._limit else whole

    def _announce(self, wanted: frozenset[Query]) -> tuple[frozenset[Query], frozenset[Query]]:
        before, self.announced = self.announced, wanted
        if before == wanted:
            return frozenset(), frozenset()
        return wanted - before, before - wanted
