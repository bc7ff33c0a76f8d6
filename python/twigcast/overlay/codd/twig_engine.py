"""The engine of twig queries: of one node, or shared by all nodes of a simulation."""

from __future__ import annotations

from collections.abc import Iterable

from twigcast.overlay.codd.engine import Item, Query
from twigcast.overlay.codd.summary import DataSummary
from twigcast.overlay.codd.twigs import Twig, contains, nodes_of, shortened, structural_match, twig_matches
from twigcast.overlay.paths import WILDCARD

#: Documents whose answers are remembered. A node asks for those of the present, and of a reorganisation's window.
_ANSWERS_MAX = 1 << 14


class TwigEngine:
    """Twig queries over XML documents; item contents are `Document`s."""

    def __init__(self) -> None:
        self._numbers: dict[Twig, int] = {}
        self._twigs: list[Twig] = []
        self._answers: dict[int, tuple[int, int]] = {}

    def mask(self, queries: Iterable[Query]) -> int:
        """Returns the queries as bits. It numbers them as they turn up."""
        mask = 0
        for query in queries:
            assert isinstance(query, Twig)
            number = self._numbers.get(query)
            if number is None:
                number = self._numbers[query] = len(self._twigs)
                self._twigs.append(query)
            mask |= 1 << number
        return mask

    def set_answer(self, number: int, satisfied: Iterable[Query]) -> None:
        """Sets what a document satisfies, if another engine has evaluated all queries numbered so far."""
        self._answers[number] = (self.mask(satisfied), len(self._twigs))

    def satisfied(self, item: Item) -> int:
        """Evaluates the queries that are not yet evaluated on an item."""
        answer, existing = self._answers.get(item.number, (0, 0))
        if existing < len(self._twigs):
            for number in range(existing, len(self._twigs)):
                if twig_matches(self._twigs[number], item.content):
                    answer |= 1 << number
            self._answers[item.number] = (answer, len(self._twigs))
            if len(self._answers) > _ANSWERS_MAX:
                del self._answers[next(iter(self._answers))]
        return answer

    def similarity(self, one: Query, other: Query) -> float:
        """Returns the structural match."""
        assert isinstance(one, Twig)
        assert isinstance(other, Twig)
        return structural_match(one, other)

    def summarise(self, queries: frozenset[Query], limit: int) -> frozenset[Query]:
        """Drops queries that others contain, then shortens the largest until few enough are left."""
        twigs = sorted((query for query in queries if isinstance(query, Twig)), key=repr)
        kept = _without_contained(twigs)
        while len(kept) > limit:
            largest = max(kept, key=lambda twig: (twig.size(), repr(twig)))
            if largest.size() == 1 and largest.label == WILDCARD:
                break
            kept = _without_contained([*(twig for twig in kept if twig != largest), shortened(largest)])
        return frozenset(kept)

    def new_summary(self, window: int) -> DataSummary:
        """Returns a data summary tree."""
        return DataSummary(window)

    def query_bytes(self, query: Query) -> int:
        """Returns the size of a query: a label and an edge for each node."""
        assert isinstance(query, Twig)
        return sum(len(node.label) + 2 + 8 * len(node.tests) for node in nodes_of(query))


def _without_contained(twigs: list[Twig]) -> list[Twig]:
    kept: list[Twig] = []
    for twig in twigs:
        if not any(contains(other, twig) for other in kept):
            kept = [other for other in kept if not contains(twig, other)]
            kept.append(twig)
    return kept
