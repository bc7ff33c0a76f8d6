"""BFilter as published (Dai 2009, sections 3.2 to 3.4 and appendices A and B), read literally. Not exact.

A query is a *chain* of sub-queries Q{m,0}, Q{m,1}, ...: the first step roots sub-query 0, and every further step of the
main path with nested paths roots the next. A sub-query's paths are its nested paths and, for the last, the rest of the
main path; the others have a *transit branch* to the next root. One flag for each sub-query says that it is matched.

Runtime: besides the automaton's stack an element stack, the *document branch stack* (open elements that have more
than one child, and the root) and the *query branch stack* (pairs of an element and a sub-query whose root state it
reached).

At an end tag, an element in both stacks is where its sub-queries are matched: the child sub-query must be matched, and
every path must have a candidate. An element in the query stack only makes its sub-queries *unmatched*: the message does
not branch where the query does. A sub-query that is matched together with its descendants ignores further portions of
the message; otherwise a new portion first deletes the old candidates.

What is wrong with it: a twig may match although its branching step is at an element with one child, or inside an
element that fails; one flag does not remember under which element a sub-query was matched. :mod:`.bfilter` is the
corrected procedure. The text is silent on one point: a transit branch without conditions counts as found when its
sub-query is matched.

Not supported: nested paths within nested paths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from twigcast.lab.reference.algorithm import Algorithm
from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import LocationStep, OutsideFragment, PathQuery
from twigcast.lab.reference.nfa import NFA, Entry, Run, State
from twigcast.lab.reference.selection import PathMatch


@dataclass(eq=False, slots=True)
class Branch:
    """A path of a sub-query, from the step after its root; or its transit branch."""

    owner: SubQuery
    steps: tuple[LocationStep, ...]
    is_transit: bool
    candidates: list[PathMatch] = field(default_factory=list)
    """Elements of the root and of each step, for the current portion."""

    @property
    def has_conditions(self) -> bool:
        """True if a candidate's elements have to be examined."""
        return any(step.conditions for step in self.steps)

    def holds(self, match: PathMatch) -> bool:
        """Returns whether a candidate passes the conditions on its steps, at the end tag of its root."""
        return all(step.conditions_hold(element) for step, element in zip(self.steps, match[1:], strict=True))


@dataclass(eq=False, slots=True)
class SubQuery:
    """Q{m,n}."""

    query_id: str
    number: int
    root: LocationStep
    child: SubQuery | None = None
    transit_here: Branch | None = None
    """The parent's transit branch, which ends at this root."""
    branches: list[Branch] = field(default_factory=list)
    is_matched: bool = False

    def chain(self) -> list[SubQuery]:
        """Returns the sub-query and its descendants."""
        return [self, *(self.child.chain() if self.child else ())]

    @property
    def is_complete(self) -> bool:
        """Matched together with its descendants."""
        return all(sub_query.is_matched for sub_query in self.chain())

    def delete_candidates(self) -> int:
        """Forgets the portion. Returns how many candidates it had."""
        deleted = sum(len(branch.candidates) for branch in self.branches)
        for branch in self.branches:
            branch.candidates.clear()
        return deleted

    def cancel(self) -> None:
        """Marks the sub-query as unmatched, with all descendants."""
        for sub_query in self.chain():
            sub_query.is_matched = False

    def __str__(self) -> str:
        return f"Q{{{self.query_id},{self.number}}}"


def chain_of(query_id: str, query: PathQuery) -> SubQuery:
    """Returns sub-query 0 of the chain of sub-queries of a query."""
    for step in query.steps:
        if any(not nested.is_simple for nested in step.nested_paths):
            raise OutsideFragment("BFilter as published: a nested path within a nested path", str(query))
    roots = [0, *(index for index, step in enumerate(query.steps) if index and step.nested_paths)]
    below: SubQuery | None = None
    for number in reversed(range(len(roots))):
        begin = roots[number]
        end = roots[number + 1] + 1 if below else len(query.steps)
        sub_query = SubQuery(query_id, number, query.steps[begin], below)
        sub_query.branches = [Branch(sub_query, nested.steps, False) for nested in query.steps[begin].nested_paths]
        if begin + 1 < end:
            rest = Branch(sub_query, query.steps[begin + 1 : end], below is not None)
            sub_query.branches.append(rest)
            if below is not None:
                below.transit_here = rest
        below = sub_query
    assert below is not None
    return below


Mark: TypeAlias = SubQuery | Branch


class BFilterPublished(Algorithm):
    """The published procedure.

    Args:
        tracing: Keep a :attr:`trace` of what end tags decide.
    """

    title = "BFilter, as published"
    source = "Dai 2009, sections 3.2 to 3.4"

    def __init__(self, *, tracing: bool = False) -> None:
        super().__init__()
        self.nfa: NFA[Mark] = NFA()
        self.trace: list[tuple[Element, str, str]] = []
        """Element whose end tag it was; sub-query; ``matched``, ``failed`` or ``cancelled``."""
        self._tracing = tracing
        self._chains: dict[str, SubQuery] = {}
        self._marks: dict[str, list[tuple[State[Mark], Mark]]] = {}

    def _insert(self, query_id: str, query: PathQuery) -> None:
        first = self._chains[query_id] = chain_of(query_id, query)
        marks = self._marks[query_id] = []
        state = self.nfa.insert([first.root])[-1]
        for sub_query in first.chain():
            marks.append((state, sub_query))
            for branch in sub_query.branches:
                end = self.nfa.insert(branch.steps, state)[-1]
                marks.append((end, branch))
            if sub_query.child is not None:
                # The end of the transit branch is where the next sub-query starts.
                state = end
        for end, mark in marks:
            end.outputs.append(mark)

    def _delete(self, query_id: str, query: PathQuery) -> None:
        del self._chains[query_id]
        marks = self._marks.pop(query_id)
        for state, mark in marks:
            state.outputs.remove(mark)
        for state, _ in reversed(marks):
            self.nfa.prune(state)

    def _size(self) -> int:
        return self.nfa.size

    def _start_document(self, document: Element) -> None:
        self._run = Run(self.nfa, document, self.counters)
        self._document_branches: set[int] = set()
        self._query_branches: list[list[tuple[SubQuery, Entry[Mark]]]] = []
        self.trace = []
        self._held = 0
        for first in self._chains.values():
            first.cancel()
            for sub_query in first.chain():
                sub_query.delete_candidates()

    def _start_element(self, element: Element) -> None:
        parent = element.parent
        assert parent is not None
        if parent.level == 0:
            self._document_branches.add(element.id)
        elif len(parent.children) > 1:
            # The event before was an end tag.
            self._document_branches.add(parent.id)
        reached: list[tuple[SubQuery, Entry[Mark]]] = []
        self._query_branches.append(reached)
        for active in self._run.start_element(element):
            for mark in active.state.outputs:
                if isinstance(mark, Branch):
                    if not mark.is_transit:
                        self._save_candidate(mark, active)
                elif not mark.is_complete:
                    self._held -= sum(sub_query.delete_candidates() for sub_query in mark.chain())
                    reached.append((mark, active))

    def _save_candidate(self, branch: Branch, active: Entry[Mark]) -> None:
        """A path has ended: keep the elements from the innermost open root to here."""
        for match, begin in active.walks(len(branch.steps)):
            self.counters.path_matches += 1
            branch.candidates.append((begin.element, *match))
            self._held += 1
            if not branch.has_conditions:
                break
        self.counters.candidates_peak = max(self.counters.candidates_peak, self._held)

    def _end_element(self, element: Element) -> None:
        self._run.end_element()
        branching = element.id in self._document_branches
        for sub_query, active in self._query_branches.pop():
            if sub_query.is_complete:
                continue
            if not branching:
                sub_query.cancel()
                self._note(element, sub_query, "cancelled")
            elif self._matches(sub_query, element):
                sub_query.is_matched = True
                if sub_query.transit_here is not None:
                    self._save_candidate(sub_query.transit_here, active)
                self._note(element, sub_query, "matched")
            else:
                sub_query.cancel()
                self._note(element, sub_query, "failed")
            if branching:
                self._held -= sub_query.delete_candidates()

    def _matches(self, sub_query: SubQuery, element: Element) -> bool:
        if sub_query.child is not None and not sub_query.child.is_matched:
            return False
        self.counters.accepting_visits += 1
        self.counters.predicate_evaluations += len(sub_query.root.conditions)
        return sub_query.root.conditions_hold(element) and all(
            any(branch.holds(match) for match in branch.candidates)
            for branch in sub_query.branches
            if branch.has_conditions or not branch.is_transit
        )

    def _note(self, element: Element, sub_query: SubQuery, outcome: str) -> None:
        if self._tracing:
            self.trace.append((element, str(sub_query), outcome))

    def _end_document(self, document: Element) -> set[str]:
        return {query_id for query_id, first in self._chains.items() if first.is_matched}
