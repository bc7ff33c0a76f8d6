"""XML as the data model: twig queries, their structural match, and their widening (CoDD, section 3.1).

A twig is a tree of labels with child and descendant edges. A query's value tests are kept at their node; the data
summary ignores them (its answer is an upper bound), matching does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from twigcast.overlay.documents import Document
from twigcast.overlay.paths import EPSILON, WILDCARD, Condition, holds, linear_parts
from twigcast.query import Path


class Twig(NamedTuple):
    """A node of a twig query."""

    label: str  #: Name or `*`.
    descendant: bool  #: Reached by a descendant edge rather than a child edge.
    tests: tuple[Condition, ...] = ()  #: Conditions on the element.
    branches: tuple[Twig, ...] = ()  #: Nodes below.

    def size(self) -> int:
        """Returns the number of nodes."""
        return 1 + sum(branch.size() for branch in self.branches)


def twig_of(query: Path) -> Twig:
    """Returns a path query as a twig.

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
    """Returns whether a document satisfies a twig: each node maps to an element that keeps labels, edges and tests."""
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
    existing = memo.get(key)
    if existing is None:
        element = document.elements[index]
        existing = memo[key] = (
            twig.label in (WILDCARD, element.label)
            and all(holds(test, element) for test in twig.tests)
            and all(
                any(_matches_at(branch, document, below, memo) for below in _candidates(branch, document, index))
                for branch in twig.branches
            )
        )
    return existing


@lru_cache(maxsize=1 << 16)
def contains(wide: Twig, narrow: Twig) -> bool:
    """Returns whether every match of `narrow` surely matches `wide` (by homomorphism: sound, not complete)."""
    return any(_maps(wide, node) for node in _targets(wide, Twig("", False, (), (narrow,))))


def _targets(wide: Twig, above: Twig) -> Iterator[Twig]:
    """Yields the nodes below `above` to which a branch `wide` may be mapped."""
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
    """Estimates how much two queries have in common, from the queries alone (section 3.1.2).

    Share of the nodes of the one that can be mapped on nodes of the other with compatible labels, edges and tests; 1
    where one contains the other, 0 where they demand different values of one attribute.
    """
    if contains(one, other) or contains(other, one):
        return 1.0
    if _contradict(one, other):
        return 0.0
    return max(_mapped(one, other), _mapped(other, one)) / max(one.size(), other.size())


def _mapped(one: Twig, other: Twig) -> int:
    """Returns the greatest number of nodes of `one` that can be mapped, its root on any node of `other`."""
    best = 0
    for node in nodes_of(other):
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


def nodes_of(twig: Twig) -> Iterator[Twig]:
    """Yields all nodes of a twig, its root first."""
    yield twig
    yield from _all_below(twig)


def _all_below(twig: Twig) -> Iterator[Twig]:
    for branch in twig.branches:
        yield from nodes_of(branch)


def _contradict(one: Twig, other: Twig) -> bool:
    """Returns whether the roots, on child edges with one name, require different values of one attribute."""
    if one.descendant or other.descendant or one.label != other.label:
        return False
    requested = {test.name: test.constant for test in one.tests if test.what == "attribute" and test.operator == "="}
    return any(
        test.what == "attribute" and test.operator == "=" and requested.get(test.name, test.constant) != test.constant
        for test in other.tests
    )


def shortened(twig: Twig) -> Twig:
    """Returns a wider query: without its deepest nodes, or, for a single node, any document at all."""
    if not twig.branches:
        return Twig(WILDCARD, True)
    if all(not branch.branches for branch in twig.branches):
        return twig._replace(branches=())
    return twig._replace(branches=tuple(shortened(branch) for branch in twig.branches if branch.branches))
