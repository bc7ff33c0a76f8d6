"""The requests of a node to its parent: its own query and those of its children, kept small (CoDD, section 2).

Queries are counted, so that an announcement changes only when the first node of a subtree asks for something or the
last one stops. With a limit, the announcement is a widening of the true union: never narrower, but shorter.
"""

from __future__ import annotations

from collections.abc import Iterable

from twigcast.overlay.codd.engine import Engine, Query


class AggregateFilter:
    """The union of the queries of a subtree, and its announcement."""

    __slots__ = ("_engine", "_limit", "_limited", "counts")

    def __init__(self, engine: Engine, limit: int) -> None:
        self._engine = engine
        self._limit = limit
        self._limited: frozenset[Query] = frozenset()
        self.counts: dict[Query, int] = {}  #: How many links (the node itself, its children) ask for each query.

    @property
    def announced(self) -> frozenset[Query]:
        """The queries that were announced to the parent."""
        return self._limited if self._limit else frozenset(self.counts)

    def change(self, added: Iterable[Query], removed: Iterable[Query]) -> tuple[frozenset[Query], frozenset[Query]]:
        """Counts queries in and out. Returns what to add to and to remove from the announcement."""
        counts = self.counts
        come: set[Query] = set()
        gone: set[Query] = set()
        for query in added:
            counts[query] = times = counts.get(query, 0) + 1
            if times == 1:
                come.add(query)
        for query in removed:
            counts[query] = times = counts.get(query, 0) - 1
            if times <= 0:
                del counts[query]
                gone.add(query)
        if not come and not gone:
            return frozenset(), frozenset()
        if not self._limit:
            return frozenset(come - gone), frozenset(gone - come)
        return self._announce(self._needed())

    def _needed(self) -> frozenset[Query]:
        whole = frozenset(self.counts)
        return self._engine.summarise(whole, self._limit) if len(whole) > self._limit else whole

    def _announce(self, requested: frozenset[Query]) -> tuple[frozenset[Query], frozenset[Query]]:
        before, self._limited = self._limited, requested
        if before == requested:
            return frozenset(), frozenset()
        return requested - before, before - requested
