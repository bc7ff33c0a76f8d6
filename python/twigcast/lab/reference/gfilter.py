"""GFilter: twigs from the leaves upwards (Dai 2009, section 2.3.5).

A query is a tree pattern (for filtering, the matching part of a generalized tree pattern, GTP). It is taken apart so
that *suffixes* are shared, as YFilter shares prefixes: a *suffix node* is a step together with everything below it in
the query, and equal ones of different queries are one node. A node at a branching step is *marked* ("+").

Evaluation is in post-order, at end tags. The *TOP encoding* (tree of path) keeps two tables for each open element:
``PCTable``, the suffix nodes satisfied at its children, and ``ADTable``, those satisfied at proper descendants. At
the end tag of e a suffix node is satisfied iff its name test and conditions hold at e and each of its continuations
is in the PCTable (child axis) or ADTable (descendant axis) of e; a marked node so demands all its parts at the same
element. What is satisfied enters the tables of the parent. Each element is looked at once, however many nested equal
elements there are.

The tables encode the result tuples as well: :meth:`GFilter.result_tuples`.

Not supported: nothing of the path-query language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias

from twigcast.lab.reference.algorithm import Algorithm
from twigcast.lab.reference.events import Element, Event
from twigcast.lab.reference.language import LocationStep, NestedPath, PathQuery
from twigcast.lab.reference.selection import PathMatch
from twigcast.query import Query

Continuation: TypeAlias = "tuple[str, SuffixNode]"
"""Axis and suffix node of what must be found below."""


class SuffixNode:
    """A step and all that is below it in the query, shared by the queries that end so."""

    __slots__ = ("before", "continuations", "number", "queries", "step", "users")

    def __init__(self, number: int, step: LocationStep, continuations: tuple[Continuation, ...]) -> None:
        self.number = number
        self.step = step
        """Name and conditions; the axis before it belongs to the user of the node."""
        self.continuations = continuations
        self.before: dict[str, list[SuffixNode]] = {"/": [], "//": []}
        """By axis, the nodes that have this one as a continuation."""
        self.queries: dict[str, list[str]] = {"/": [], "//": []}
        """By the axis of their first step, the queries that begin here."""
        self.users = 0
        """Nodes and queries that refer to this one."""

    @property
    def is_marked(self) -> bool:
        """A branching step, or where a query begins."""
        return len(self.continuations) > 1 or any(self.queries.values())

    def __repr__(self) -> str:
        below = ", ".join(f"{axis}{node.number}" for axis, node in self.continuations)
        return f"{self.number}{'+' if self.is_marked else ''}: {str(self.step)[1:]} [{below}]"


@dataclass(eq=False, slots=True)
class Satisfied:
    """A suffix node satisfied at an element, with that element's tables."""

    element: Element
    tables: Tables


@dataclass(eq=False, slots=True)
class Tables:
    """The TOP encoding of an open element."""

    pc: dict[SuffixNode, list[Satisfied]] = field(default_factory=dict)
    ad: dict[SuffixNode, list[Satisfied]] = field(default_factory=dict)

    def holds(self, continuation: Continuation) -> bool:
        """Returns whether a continuation is satisfied below."""
        axis, node = continuation
        return node in (self.pc if axis == "/" else self.ad)


class GFilter(Algorithm):
    """The forest of suffix nodes.

    Args:
        keep_results: Keep all of what the tables encode, for :meth:`result_tuples`; otherwise one witness for each.
    """

    title = "GFilter"
    source = "Dai 2009, section 2.3.5"

    def __init__(self, *, keep_results: bool = False) -> None:
        super().__init__()
        self._keep_results = keep_results
        self._created = 0
        self._nodes: dict[tuple[LocationStep, tuple[Continuation, ...]], SuffixNode] = {}
        self._leaves: dict[str, list[SuffixNode]] = {}
        """The nodes of last labels, where matching starts, by name."""
        self._roots: dict[str, SuffixNode] = {}

    def suffix_nodes(self) -> list[SuffixNode]:
        """Returns the forest, in order of creation."""
        return list(self._nodes.values())

    def _insert(self, query_id: str, query: PathQuery) -> None:
        node = self._suffix(query.steps)
        node.users += 1
        node.queries[query.steps[0].axis].append(query_id)
        self._roots[query_id] = node

    def _suffix(self, steps: Sequence[LocationStep]) -> SuffixNode:
        """The node of a path, made if it is new."""
        step, rest = steps[0], steps[1:]
        parts = [*(path.steps for path in step.nested_paths), *([rest] if rest else [])]
        continuations = tuple((part[0].axis, self._suffix(part)) for part in parts)
        if not self._keep_results:
            # `[b][b]` matches like `[b]`, but has more results.
            continuations = tuple(dict.fromkeys(continuations))
        conditions = tuple(predicate for predicate in step.predicates if not isinstance(predicate, NestedPath))
        test = LocationStep("/", step.name, conditions)
        node = self._nodes.get((test, continuations))
        if node is None:
            self._created += 1
            node = self._nodes[test, continuations] = SuffixNode(self._created, test, continuations)
            for axis, below in continuations:
                below.users += 1
                below.before[axis].append(node)
            if not continuations:
                self._leaves.setdefault(test.name, []).append(node)
        return node

    def _delete(self, query_id: str, query: PathQuery) -> None:
        node = self._roots.pop(query_id)
        node.queries[query.steps[0].axis].remove(query_id)
        self._release(node)

    def _release(self, node: SuffixNode) -> None:
        node.users -= 1
        if node.users:
            return
        del self._nodes[node.step, node.continuations]
        if not node.continuations:
            self._leaves[node.step.name].remove(node)
        for axis, below in node.continuations:
            below.before[axis].remove(node)
            self._release(below)

    def _size(self) -> int:
        return len(self._nodes)

    def _start_document(self, document: Element) -> None:
        self._stack = [Tables()]
        self._matched: set[str] = set()

    def _start_element(self, element: Element) -> None:
        self._stack.append(Tables())

    def _end_element(self, element: Element) -> None:
        tables, above = self._stack.pop(), self._stack[-1]
        satisfied = [node for node in self._possible(element, tables) if self._is_satisfied(node, element, tables)]
        result = Satisfied(element, tables)
        for node in satisfied:
            self._enter(above.pc, node, [result])
            self._enter(above.ad, node, [result])
        for node, below in tables.ad.items():
            self._enter(above.ad, node, below)
        held = sum(len(entry.pc) + len(entry.ad) for entry in self._stack)
        self.counters.candidates_peak = max(self.counters.candidates_peak, held)

    def _possible(self, element: Element, tables: Tables) -> list[SuffixNode]:
        """The nodes worth testing: last labels, and those with a continuation in the tables."""
        possible = dict.fromkeys([*self._leaves.get(element.name, ()), *self._leaves.get("*", ())])
        for axis, table in (("/", tables.pc), ("//", tables.ad)):
            for below in table:
                possible.update(dict.fromkeys(node for node in below.before[axis] if node.step.accepts(element)))
        return list(possible)

    def _is_satisfied(self, node: SuffixNode, element: Element, tables: Tables) -> bool:
        self.counters.transitions += 1
        if not all(tables.holds(continuation) for continuation in node.continuations):
            return False
        self.counters.accepting_visits += node.is_marked
        self.counters.predicate_evaluations += len(node.step.predicates)
        return node.step.conditions_hold(element)

    def _enter(self, table: dict[SuffixNode, list[Satisfied]], node: SuffixNode, results: list[Satisfied]) -> None:
        if node not in table:
            table[node] = list(results) if self._keep_results else results[:1]
        elif self._keep_results:
            table[node].extend(results)

    def _end_document(self, document: Element) -> set[str]:
        tables = self._stack[0]
        for axis, table in (("/", tables.pc), ("//", tables.ad)):
            for node in table:
                self._matched.update(node.queries[axis])
        return self._matched

    def result_tuples(self, query: Query, events: Sequence[Event]) -> set[PathMatch]:
        """Returns the result tuples of a query on a message: an element for each step, nested paths first."""
        evaluator = GFilter(keep_results=True)
        evaluator.add("", query)
        evaluator.match_events(events)
        root = evaluator._roots[""]
        table = evaluator._stack[0].pc if root.queries["/"] else evaluator._stack[0].ad
        return {row for result in table.get(root, ()) for row in _rows(root, result)}


def _rows(node: SuffixNode, result: Satisfied) -> Iterator[PathMatch]:
    """All ways to fill a suffix node and what is below it, once it is satisfied at an element."""
    below = [
        [
            row
            for witness in (result.tables.pc if axis == "/" else result.tables.ad)[part]
            for row in _rows(part, witness)
        ]
        for axis, part in node.continuations
    ]
    for choice in product(*below):
        yield (result.element, *(element for row in choice for element in row))
