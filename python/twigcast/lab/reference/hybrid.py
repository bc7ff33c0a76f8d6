"""Diao's Hybrid, half way between XFilter and YFilter (Diao 2005, section 4.4.1 and appendix B).

Each path is cut at every ``*`` and every ``//`` into maximal *substrings* of child steps with names. All substrings
of all paths share one trie. A trie node that ends a substring owns a *candidate list*; only first substrings are
candidates at the start. At a start tag a search begins at the root of the trie and every search that was alive at the
parent goes on; a reached trie node has its candidates checked as in XFilter, and the next substring of a candidate
that passes becomes a candidate until the end tag. So substrings are shared, the transitions between them are not.

As in :mod:`.xfilter` the distance between the ends of two substrings is a minimum where a ``//`` lies between (it is at
least the length of the second substring, so that they do not overlap: ``/a/b//b/c`` does not match
``<a><b><c/></b></a>``), and steps at the end of a path that are ``*`` get a node that any element passes.
``published=True`` drops the minimum, as published.

Not to be confused with :mod:`.boone` and :mod:`.dai`, which split the set of queries.

Not supported: nothing of the path-query language; as published, paths that end in ``*``.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial

from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import OutsideFragment, PathQuery
from twigcast.lab.reference.path_algorithm import PathAlgorithm, StoredPath
from twigcast.lab.reference.selection import Selectivity, path_matches_at


class TrieNode:
    """A node of the trie of substrings."""

    __slots__ = ("candidates", "children", "name", "parent", "users")

    def __init__(self, parent: TrieNode | None, name: str) -> None:
        self.parent = parent
        self.name = name
        self.children: dict[str, TrieNode] = {}
        self.candidates: list[Candidate] = []
        self.users = 0
        """How many substrings of stored paths end here."""


@dataclass(eq=False, slots=True)
class ListNode:
    """One substring of one path."""

    stored: StoredPath
    position: int
    """NodePosition: 1, 2, ... within the path."""
    end: TrieNode
    """Where in the trie the substring ends; the node of ``*`` for an end in ``*``."""
    distance: int
    """RelativePos: levels between the last element of the substring before and the last of this one."""
    exact: bool
    """No ``//`` between; else the distance is a minimum."""
    next: ListNode | None = None


@dataclass(eq=False, slots=True)
class Candidate:
    """A substring that is being looked for, and the level at which it must end."""

    node: ListNode
    level: int

    def passes(self, element: Element, published: bool) -> bool:
        """Checks the level."""
        if self.node.exact:
            return element.level == self.level
        return published or element.level >= self.level


@dataclass(frozen=True, slots=True)
class Substring:
    """A part of a path that :func:`substrings` cuts."""

    names: tuple[str, ...]
    """Child steps with names; ``("*",)`` for steps at the end of a path that are ``*``."""
    distance: int
    exact: bool


def substrings(path: PathQuery) -> list[Substring]:
    """Returns the maximal substrings of a path."""
    results: list[Substring] = []
    names: list[str] = []
    distance, exact = 0, True

    def cut() -> None:
        nonlocal names, distance, exact
        if names:
            results.append(Substring(tuple(names), distance, exact))
            names, distance, exact = [], 0, True

    for step in path.steps:
        if step.axis == "//" or step.name == "*":
            cut()
        distance += 1
        exact = exact and step.axis == "/"
        if step.name != "*":
            names.append(step.name)
    cut()
    if distance:
        results.append(Substring(("*",), distance, exact))
    return results


class DiaoHybrid(PathAlgorithm):
    """The trie of substrings.

    Args:
        selectivity: Estimates for predicate sorting.
        published: The level check as published (not exact).
    """

    title = "Hybrid (Diao)"
    source = "Diao 2005, section 4.4.1 and appendix B"

    def __init__(self, selectivity: Selectivity | None = None, *, published: bool = False) -> None:
        super().__init__(selectivity)
        self._published = published
        self.root = TrieNode(None, "")
        self._any = TrieNode(None, "*")
        self._trie_nodes = 0
        self._nodes: dict[StoredPath, list[ListNode]] = {}

    def _check_path(self, path: PathQuery) -> None:
        if self._published and path.steps[-1].name == "*":
            raise OutsideFragment("the Hybrid as published: a path that ends in *", str(path))

    def _insert_path(self, stored: StoredPath) -> None:
        nodes: list[ListNode] = []
        for substring in substrings(stored.path):
            end = self._any if substring.names == ("*",) else self._trie_end(substring.names)
            end.users += 1
            nodes.append(ListNode(stored, len(nodes) + 1, end, substring.distance, substring.exact))
        for node, following in itertools.pairwise(nodes):
            node.next = following
        nodes[0].end.candidates.append(Candidate(nodes[0], nodes[0].distance))
        self._nodes[stored] = nodes

    def _trie_end(self, names: tuple[str, ...]) -> TrieNode:
        node = self.root
        for name in names:
            if name not in node.children:
                node.children[name] = TrieNode(node, name)
                self._trie_nodes += 1
            node = node.children[name]
        return node

    def _delete_path(self, stored: StoredPath) -> None:
        for node in self._nodes.pop(stored):
            end = node.end
            end.candidates = [candidate for candidate in end.candidates if candidate.node.stored is not stored]
            end.users -= 1
            while end.parent is not None and not end.users and not end.children:
                del end.parent.children[end.name]
                self._trie_nodes -= 1
                end = end.parent

    def _size(self) -> int:
        return self._trie_nodes + sum(map(len, self._nodes.values()))

    def _begin(self, document: Element) -> None:
        self._searches: list[list[TrieNode]] = [[]]
        self._copies: list[list[Candidate]] = []

    def _open(self, element: Element) -> None:
        reached = [
            search.children[element.name]
            for search in (self.root, *self._searches[-1])
            if element.name in search.children
        ]
        self._searches.append(reached)
        checked = [candidate for node in (*reached, self._any) for candidate in node.candidates]
        self.counters.transitions += len(reached) + len(checked)
        self.counters.active_states_peak = max(self.counters.active_states_peak, len(reached) + len(checked))
        copies: dict[int, Candidate] = {}
        results: dict[StoredPath, None] = {}
        for candidate in checked:
            if not candidate.passes(element, self._published):
                continue
            following = candidate.node.next
            if following is None:
                results[candidate.node.stored] = None
            else:
                copies[id(following)] = Candidate(following, element.level + following.distance)
        for copy in copies.values():
            copy.node.end.candidates.append(copy)
        self._copies.append(list(copies.values()))
        for stored in results:
            self._visit(stored, partial(path_matches_at, stored.steps, element))

    def _close(self, element: Element) -> None:
        self._searches.pop()
        for copy in reversed(self._copies.pop()):
            left = copy.node.end.candidates.pop()
            assert left is copy
