"""BFilter: twigs by their branch points (Dai 2009, chapter 3), corrected.

A query is a tree of *sub-queries*. A sub-query is rooted at a step that carries predicates (the first step always
counts) and has *paths*: its nested paths and what follows on the main path. A path ends where the next predicates
are; the step there roots a sub-query of its own, and the path to it is a *transit branch*; the others are *tangling
branches*. The query index is YFilter's automaton: the state at a sub-query's root is marked as its *branch point*,
the end of each path accepts for that path.

Run: an element that reaches a branch point state is the root of a *portion* of the sub-query. A path that ends becomes
a candidate of the portion it started in, found along the predecessor pointers; the first one opens it, since a portion
to which no path leads decides nothing. At the end tag of a portion's root the sub-query is matched iff the root's
conditions hold and each path has a candidate whose conditions hold; it then is the candidate of the transit branches
that lead to it, and the portion is dropped. Candidates thus live only while their root is open. A query is matched when
its sub-query 0 is, and the portion of the message that proves it is known at that moment: :attr:`BFilter.portions`.

The published procedure (:mod:`.bfilter_published`) demands that the root of every sub-query is a branch point of the
message, too, and keeps one flag for each sub-query; it is not exact. Here the demand is what it is sound for, a quick
test: the root must have two children only if two branches start with child steps to different names. And the source
has one level of nesting (a chain of sub-queries), we have any.

Not supported: nothing of the path-query language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from twigcast.lab.reference.algorithm import Algorithm
from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import LocationStep, PathQuery
from twigcast.lab.reference.nfa import NFA, Entry, Run, State
from twigcast.lab.reference.selection import PathMatch


@dataclass(eq=False, slots=True)
class Branch:
    """A path of a sub-query, from the step after its root."""

    owner: SubQuery
    steps: tuple[LocationStep, ...]
    """With their conditions; those of the last step of a transit branch are the child's."""
    child: SubQuery | None = None
    """The sub-query that the path leads to, if it is a transit branch."""

    has_conditions: bool = field(init=False)
    """Whether a candidate has to be looked at."""

    def __post_init__(self) -> None:
        self.has_conditions = any(step.conditions for step in self.steps)

    def holds(self, match: PathMatch) -> bool:
        """Returns whether the conditions hold for a candidate, once all its elements are complete."""
        return all(step.conditions_hold(element) for step, element in zip(self.steps, match, strict=True))


@dataclass(eq=False, slots=True)
class SubQuery:
    """Q{m,n}: what is decided at one branch point."""

    query_id: str
    number: int
    root: LocationStep
    """The step at the branch point, with its predicates."""
    parent: Branch | None
    """The transit branch that leads here; none for sub-query 0."""
    branches: list[Branch] = field(default_factory=list)
    needs_branching: bool = False
    """Whether the root must have two children: two branches start with child steps to different names."""

    def __str__(self) -> str:
        return f"Q{{{self.query_id},{self.number}}}"


def sub_queries(query_id: str, query: PathQuery) -> list[SubQuery]:
    """Returns the tree of sub-queries of a query, in order of their numbers."""
    created: list[SubQuery] = []

    def build(steps: Sequence[LocationStep], parent: Branch | None) -> SubQuery:
        sub_query = SubQuery(query_id, len(created), steps[0], parent)
        created.append(sub_query)
        for path in (*(nested.steps for nested in steps[0].nested_paths), steps[1:]):
            if path:
                sub_query.branches.append(grow(sub_query, path))
        firsts = {branch.steps[0].name for branch in sub_query.branches if branch.steps[0].axis == "/"}
        sub_query.needs_branching = len(firsts - {"*"}) >= 2
        return sub_query

    def grow(owner: SubQuery, steps: Sequence[LocationStep]) -> Branch:
        cut = next((index for index, step in enumerate(steps) if step.nested_paths), None)
        if cut is None:
            return Branch(owner, tuple(steps))
        branch = Branch(owner, (*steps[:cut], steps[cut].bare))
        branch.child = build(steps[cut:], branch)
        return branch

    build(query.steps, None)
    return created


class Candidate(NamedTuple):
    """Elements for a path of a sub-query."""

    match: PathMatch
    below: frozenset[int]
    """What proves the sub-query at the end of a transit branch."""


@dataclass(eq=False, slots=True)
class Portion:
    """A sub-query at work under one open element."""

    sub_query: SubQuery
    begin: Entry[Mark]
    """The branch point state as its root reached it."""
    candidates: dict[Branch, list[Candidate]] = field(default_factory=dict)
    """By path; only the first of a path without conditions."""

    @property
    def root(self) -> Element:
        """The element that it is rooted at."""
        return self.begin.element


class _Walks:
    """The ways from an entry of the runtime stack back to where a path began, by the length of the path.

    They lead to the portions in which a path that ends here may have started; all queries with such a path share them.
    """

    def __init__(self, active: Entry[Mark]) -> None:
        self._active = active
        self._by_length: dict[int, list[tuple[PathMatch, Entry[Mark]]]] = {}

    def of(self, length: int) -> list[tuple[PathMatch, Entry[Mark]]]:
        """The elements of the path's steps, and the entry of its sub-query's root."""
        if length not in self._by_length:
            self._by_length[length] = list(self._active.walks(length))
        return self._by_length[length]


Mark: TypeAlias = SubQuery | Branch
"""A state's output: a branch point, or the end of a path."""


class BFilter(Algorithm):
    """Sub-queries over YFilter's automaton, decided portion by portion."""

    title = "BFilter"
    source = "Dai 2009, chapter 3"

    def __init__(self) -> None:
        super().__init__()
        self.nfa: NFA[Mark] = NFA()
        self.portions: dict[str, tuple[int, ...]] = {}
        """For the queries that the last message matched: the elements of the message that prove it, in document
        order."""
        self._marks: dict[str, list[tuple[State[Mark], Mark]]] = {}

    def _insert(self, query_id: str, query: PathQuery) -> None:
        marks = self._marks[query_id] = []
        states: dict[SubQuery, State[Mark]] = {}
        for sub_query in sub_queries(query_id, query):
            if sub_query.parent is None:
                states[sub_query] = self.nfa.insert([sub_query.root])[-1]
            marks.append((states[sub_query], sub_query))
            for branch in sub_query.branches:
                end = self.nfa.insert(branch.steps, states[sub_query])[-1]
                if branch.child is None:
                    marks.append((end, branch))
                else:
                    states[branch.child] = end
        for state, mark in marks:
            state.outputs.append(mark)

    def _delete(self, query_id: str, query: PathQuery) -> None:
        marks = self._marks.pop(query_id)
        for state, mark in marks:
            state.outputs.remove(mark)
        for state, _ in reversed(marks):
            self.nfa.prune(state)

    def _size(self) -> int:
        return self.nfa.size

    def _start_document(self, document: Element) -> None:
        self._run = Run(self.nfa, document, self.counters)
        self._open_portions: dict[int, dict[SubQuery, Portion]] = {}
        self._candidates = 0
        self.portions = {}

    def _start_element(self, element: Element) -> None:
        self._open_portions[element.id] = {}
        for active in self._run.start_element(element):
            if not active.state.outputs:
                continue
            walks = _Walks(active)
            for mark in active.state.outputs:
                if isinstance(mark, Branch):
                    if mark.owner.query_id not in self.portions:
                        self._end_of_path(mark, walks)
                elif not mark.branches and mark.query_id not in self.portions:
                    self._portion(mark, active)

    def _end_of_path(self, branch: Branch, walks: _Walks) -> None:
        for match, begin in walks.of(len(branch.steps)):
            self.counters.path_matches += 1
            self._candidate(branch, begin, match, frozenset())

    def _portion(self, sub_query: SubQuery, begin: Entry[Mark]) -> Portion:
        """The portion of a sub-query at a root, opened if it is not yet."""
        opened = self._open_portions[begin.element.id]
        if sub_query not in opened:
            opened[sub_query] = Portion(sub_query, begin)
            self._hold(1)
        return opened[sub_query]

    def _candidate(self, branch: Branch, begin: Entry[Mark], match: PathMatch, below: frozenset[int]) -> None:
        candidates = self._portion(branch.owner, begin).candidates.setdefault(branch, [])
        if not candidates or branch.has_conditions:
            candidates.append(Candidate(match, below))
            self._hold(1)

    def _hold(self, change: int) -> None:
        self._candidates += change
        self.counters.candidates_peak = max(self.counters.candidates_peak, self._candidates)

    def _end_element(self, element: Element) -> None:
        self._run.end_element()
        for portion in self._open_portions.pop(element.id).values():
            self._hold(-1 - sum(map(len, portion.candidates.values())))
            if portion.sub_query.query_id not in self.portions:
                proof = self._match(portion)
                if proof is not None:
                    self._report(portion, proof)

    def _match(self, portion: Portion) -> frozenset[int] | None:
        """The elements that prove the sub-query under a root whose end tag is here; none if it does not match."""
        sub_query, root = portion.sub_query, portion.root
        if len(portion.candidates) < len(sub_query.branches):
            return None
        if len(root.children) < 2 and sub_query.needs_branching:
            return None
        self.counters.accepting_visits += 1
        self.counters.predicate_evaluations += len(sub_query.root.conditions)
        if not sub_query.root.conditions_hold(root):
            return None
        proof = {root.id}
        for branch in sub_query.branches:
            result = self._first_that_holds(branch, portion.candidates[branch])
            if result is None:
                return None
            proof |= result.below
            proof.update(element.id for element in result.match)
        return frozenset(proof)

    def _first_that_holds(self, branch: Branch, candidates: list[Candidate]) -> Candidate | None:
        if not branch.has_conditions:
            return candidates[0]
        for candidate in candidates:
            self.counters.predicate_evaluations += 1
            if branch.holds(candidate.match):
                return candidate
        return None

    def _report(self, portion: Portion, proof: frozenset[int]) -> None:
        """A matched sub-query is a candidate of the portions above; sub-query 0 decides the query."""
        branch = portion.sub_query.parent
        if branch is None:
            self.portions[portion.sub_query.query_id] = tuple(sorted(proof))
            return
        for match, begin in portion.begin.walks(len(branch.steps)):
            self.counters.path_matches += 1
            self._candidate(branch, begin, match, proof)

    def _end_document(self, document: Element) -> set[str]:
        return set(self.portions)
