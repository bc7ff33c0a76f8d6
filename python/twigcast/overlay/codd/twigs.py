"""XML as the data model: twig queries, their structural match, and their widening (CoDD, section 3.1).

A twig is a tree of labels with child and descendant edges. A query's value tests are kept at their node; the data
summary ignores them (its answer is an upper bound), matching does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from twigcast.overlay.codd.engine import Item, Query
from twigcast.overlay.codd.summary import DataSummary
from twigcast.overlay.documents import Document
from twigcast.overlay.paths import EPSILON, WILDCARD, Condition, holds, linear_parts
from twigcast.query import Path


class Twig(NamedTuple):
    """A node of a twig query.

    Attributes:
        label: Name or `*`.
        descendant: Reached by a descendant edge rather than a child edge.
        tests: Conditions on the element.
        branches: Nodes below.
    """

    label: str
    descendant: bool
    tests: tuple[Condition, ...] = ()
    branches: tuple[Twig, ...] = ()

    def size(self) -> int:
        """Number of nodes."""
        return 1 + sum(branch.size() for branch in self.branches)


def twig_of(query: Path) -> Twig:
    """A path query as a twig.

    Raises:
        UndistributableQuery: The query is outside the overlays' subset.
    """
    parts = linear_parts(query)

    def build(part: int, step: int) -> Twig:
        steps = _steps(parts[part].labels)
        label, descendant = steps[step]
        tests = tuple(p.test for p in parts[part].predicates if p.step == step)
        branches = [build(part, step + 1)] if step + 1 < len(steps) else []
        for number, other in enumerate(parts):
            if other.parent == part and other.anchor == step:
                branches.append(build(number, step + 1))
        return Twig(label, descendant, tests, tuple(branches))

    return build(0, 0)


def _steps(labels: tuple[str, ...]) -> list[tuple[str, bool]]:
    steps: list[tuple[str, bool]] = []
    descendant = False
    for label in labels:
        if label == EPSILON:
            descendant = True
        else:
            steps.append((label, descendant))
            descendant = False
    return steps


def twig_matches(twig: Twig, document: Document) -> bool:
    """Whether a document satisfies a twig query: every node maps to an element that keeps labels, edges and tests."""
    return any(_matches_at(twig, document, index, {}) for index in _candidates(twig, document, -1))


def _candidates(twig: Twig, document: Document, above: int) -> Iterator[int]:
    if not twig.descendant:
        yield from document.children[above]
    elif above < 0:
        yield from range(len(document.elements))
    else:
        right = document.elements[above].right
        index = above + 1
        while index < len(document.elements) and document.elements[index].left < right:
            yield index
            index += 1


def _matches_at(twig: Twig, document: Document, index: int, memo: dict[tuple[int, int], bool]) -> bool:
    key = (id(twig), index)
    known = memo.get(key)
    if known is None:
        element = document.elements[index]
        known = memo[key] = (
            twig.label in (WILDCARD, element.label)
            and all(holds(test, element) for test in twig.tests)
            and all(
                any(_matches_at(branch, document, below, memo) for below in _candidates(branch, document, index))
                for branch in twig.branches
            )
        )
    return known


@lru_cache(maxsize=1 << 16)
def contains(wide: Twig, narrow: Twig) -> bool:
    """Whether every document that satisfies `narrow` surely satisfies `wide` (by homomorphism: sound, not complete)."""
    return any(_maps(wide, node) for node in _targets(wide, Twig("", False, (), (narrow,))))


def _targets(wide: Twig, above: Twig) -> Iterator[Twig]:
    """Nodes below `above` to which a branch `wide` may be mapped."""
    for branch in above.branches:
        if wide.descendant:
            yield branch
            yield from _targets(wide, branch)
        elif not branch.descendant:
            yield branch


def _maps(wide: Twig, narrow: Twig) -> bool:
    return (
        wide.label in (WILDCARD, narrow.label)
        and set(wide.tests) <= set(narrow.tests)
        and all(any(_maps(branch, node) for node in _targets(branch, narrow)) for branch in wide.branches)
    )


@lru_cache(maxsize=1 << 16)
def structural_match(one: Twig, other: Twig) -> float:
    """Estimate of how much two queries have in common, from the queries alone (section 3.1.2).

    Share of the nodes of the one that can be mapped on nodes of the other with compatible labels, edges and tests; 1
    where one contains the other, 0 where they demand different values of one attribute.
    """
    if contains(one, other) or contains(other, one):
        return 1.0
    if _contradict(one, other):
        return 0.0
    return max(_mapped(one, other), _mapped(other, one)) / max(one.size(), other.size())


def _mapped(one: Twig, other: Twig) -> int:
    """Most nodes of `one` that can be mapped, when its root is mapped on `other`'s root or something below."""
    best = 0
    for node in _all(other):
        best = max(best, _mapped_at(one, node))
    return best


def _mapped_at(one: Twig, node: Twig) -> int:
    if WILDCARD not in (one.label, node.label) and one.label != node.label:
        return 0
    count = 1
    for branch in one.branches:
        below = _all_below(node) if branch.descendant else iter(node.branches)
        count += max((_mapped_at(branch, target) for target in below), default=0)
    return count


def _all(twig: Twig) -> Iterator[Twig]:
    yield twig
    yield from _all_below(twig)


def _all_below(twig: Twig) -> Iterator[Twig]:
    for branch in twig.branches:
        yield from _all(branch)


def _contradict(one: Twig, other: Twig) -> bool:
    """Whether the roots of both, on child edges with one name, demand different values of one attribute."""
    if one.descendant or other.descendant or one.label != other.label:
        return False
    wanted = {test.name: test.constant for test in one.tests if test.what == "attribute" and test.operator == "="}
    return any(
        test.what == "attribute" and test.operator == "=" and wanted.get(test.name, test.constant) != test.constant
        for test in other.tests
    )


def shortened(twig: Twig) -> Twig:
    """A wider query: without its deepest nodes, or, for a single node, any document at all."""
    if not twig.branches:
        return Twig(WILDCARD, True)
    if all(not branch.branches for branch in twig.branches):
        return twig._replace(branches=())
    return twig._replace(branches=tuple(shortened(branch) for branch in twig.branches if branch.branches))


class TwigEngine:
    """Twig queries over XML documents; item contents are `Document`s."""

    def __init__(self) -> None:
        self._numbers: dict[Twig, int] = {}
        self._twigs: list[Twig] = []
        self._answers: dict[int, tuple[int, int]] = {}

    def mask(self, queries: Iterable[Query]) -> int:
        """Number the queries as they turn up."""
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
        """Tell what a document satisfies, where another engine has evaluated all queries numbered so far."""
        self._answers[number] = (self.mask(satisfied), len(self._twigs))

    def satisfied(self, item: Item) -> int:
        """Evaluate the queries that are not yet evaluated on an item."""
        answer, known = self._answers.get(item.number, (0, 0))
        if known < len(self._twigs):
            for number in range(known, len(self._twigs)):
                if twig_matches(self._twigs[number], item.content):
                    answer |= 1 << number
            self._answers[item.number] = (answer, len(self._twigs))
        return answer

    def similarity(self, one: Query, other: Query) -> float:
        """Structural match."""
        assert isinstance(one, Twig)
        assert isinstance(other, Twig)
        return structural_match(one, other)

    def summarise(self, queries: frozenset[Query], limit: int) -> frozenset[Query]:
        """Drop queries that others contain; then shorten the largest until few enough are left."""
        twigs = sorted((query for query in queries if isinstance(query, Twig)), key=repr)
        kept = _without_contained(twigs)
        while len(kept) > limit:
            largest = max(kept, key=lambda twig: (twig.size(), repr(twig)))
            if largest.size() == 1 and largest.label == WILDCARD:
                break
            kept = _without_contained([*(twig for twig in kept if twig != largest), shortened(largest)])
        return frozenset(kept)

    def new_summary(self, window: int) -> DataSummary:
        """A data summary tree."""
        return DataSummary(window)

    def query_bytes(self, query: Query) -> int:
        """A label and an edge a node."""
        assert isinstance(query, Twig)
        return sum(len(node.label) + 2 + 8 * len(node.tests) for node in _all(query))


def _without_contained(twigs: list[Twig]) -> list[Twig]:
    kept: list[Twig] = []
    for twig in twigs:
        if not any(contains(other, twig) for other in kept):
            kept = [other for other in kept if not contains(twig, other)]
            kept.append(twig)
    return kept
