"""YFilter with predicates at the machine's states: Inline (Diao 2005, section 5.1.1 and appendix C).

Every state has a *predicate table*: which conditions of which queries are on the step that ends there. A start tag
follows the automaton and then tests, for each target state, the conditions in its table on the new element; the
element joins the *satisfied set* of each condition that holds, and leaves it at its end tag. When a target state
accepts, the sets of each of its queries are looked at.

As published (``published=True``) a query matches when, for each of its steps, some element is in the sets of all the
step's conditions. The sets do not tell which path the element lies on: ``//a[@x=1]/b`` matches ``<a x="1"><a
x="2"><b/></a></a>`` by this rule, because the outer ``a`` is still open. Otherwise the elements of some path match
must be in the sets, which is exact.

Not supported: nested paths; as published, conditions on text too, which are not decided at the start tag.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from twigcast.lab.reference.algorithm import Algorithm, Counters
from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import OutsideFragment, PathQuery
from twigcast.lab.reference.nfa import NFA, Entry, Run, State
from twigcast.lab.reference.selection import PathMatch, SelectionPostponed, StepCondition, conditions_of


@dataclass(eq=False, slots=True)
class TableEntry:
    """A line of a state's predicate table, with its satisfied set for the current message."""

    query_id: str
    condition: StepCondition
    satisfied: set[int]
    """Identifiers of open elements."""

    @property
    def step_index(self) -> int:
        """The step that the condition is on."""
        return self.condition.step_index

    @property
    def is_blocking(self) -> bool:
        """True if it is decided at end tags."""
        return self.condition.step.is_blocking(self.condition.predicate_index)

    def test(self, element: Element) -> bool:
        """Returns whether the condition holds at an element."""
        return self.condition.step.holds(self.condition.predicate_index, element)

    def is_ready(self, match: PathMatch) -> bool:
        """Returns whether the set has the answer for the step's element."""
        return self.condition.is_ready(match)

    def holds(self, match: PathMatch) -> bool:
        """Returns whether the step's element is in the set."""
        return match[self.step_index].id in self.satisfied


@dataclass(eq=False, slots=True)
class Stored:
    """A query, its conditions, and the states that its steps end at."""

    query_id: str
    conditions: tuple[TableEntry, ...]
    states: tuple[State[TableEntry | Stored], ...]

    def some_element_for_each_step(self) -> bool:
        """Applies the published rule."""
        for step in {entry.step_index for entry in self.conditions}:
            if not set.intersection(*(entry.satisfied for entry in self.conditions if entry.step_index == step)):
                return False
        return True


class YFilterInline(Algorithm):
    """The automaton with predicate tables.

    Args:
        published: Decide by the satisfied sets alone (not exact).
    """

    title = "YFilter, Inline"
    source = "Diao 2005, section 5.1.1 and appendix C"

    def __init__(self, *, published: bool = False) -> None:
        super().__init__()
        self._published = published
        self.nfa: NFA[TableEntry | Stored] = NFA()
        self._stored: dict[str, Stored] = {}

    def _insert(self, query_id: str, query: PathQuery) -> None:
        if not query.is_simple:
            raise OutsideFragment("Inline: a nested path", str(query))
        entries = tuple(TableEntry(query_id, condition, set()) for condition in conditions_of(query))
        if self._published and any(entry.is_blocking for entry in entries):
            raise OutsideFragment("Inline as published: a condition on text", str(query))
        states = tuple(self.nfa.insert(query.steps))
        stored = self._stored[query_id] = Stored(query_id, entries, states)
        for entry in entries:
            states[entry.step_index].outputs.append(entry)
        states[-1].outputs.append(stored)

    def _delete(self, query_id: str, query: PathQuery) -> None:
        stored = self._stored.pop(query_id)
        for entry in stored.conditions:
            stored.states[entry.step_index].outputs.remove(entry)
        stored.states[-1].outputs.remove(stored)
        self.nfa.prune(stored.states[-1])

    def _size(self) -> int:
        return self.nfa.size

    def _start_document(self, document: Element) -> None:
        self._run = Run(self.nfa, document, self.counters)
        # What counts as an evaluation is the test of an element, not the look at a set.
        self._selection = SelectionPostponed(Counters())
        self._undo: list[list[TableEntry]] = []
        self._blocked: list[list[TableEntry]] = []
        for stored in self._stored.values():
            for entry in stored.conditions:
                entry.satisfied.clear()

    def _start_element(self, element: Element) -> None:
        self._undo.append([])
        self._blocked.append([])
        reached = [entry for entry in self._run.start_element(element) if not entry.state.is_descendant_child]
        for active in reached:
            for line in active.state.outputs:
                if isinstance(line, TableEntry) and line.query_id not in self._selection.matched:
                    if line.is_blocking:
                        self._blocked[-1].append(line)
                    else:
                        self._test(line, element)
        for active in reached:
            for line in active.state.outputs:
                if isinstance(line, Stored) and line.query_id not in self._selection.matched:
                    self.counters.accepting_visits += 1
                    self._accept(line, active)

    def _test(self, line: TableEntry, element: Element) -> None:
        self.counters.predicate_evaluations += 1
        if line.test(element):
            line.satisfied.add(element.id)
            self._undo[-1].append(line)

    def _accept(self, stored: Stored, active: Entry[TableEntry | Stored]) -> None:
        if self._published:
            if stored.some_element_for_each_step():
                self._selection.matched.add(stored.query_id)
            return
        select = partial(self._selection.select, stored.query_id, conditions=stored.conditions)
        for match in active.path_matches() if stored.conditions else [()]:
            self.counters.path_matches += len(match) > 0
            select(match)
            if stored.query_id in self._selection.matched:
                return

    def _end_element(self, element: Element) -> None:
        self._run.end_element()
        for line in self._blocked.pop():
            self._test(line, element)
        self._selection.end_element(element)
        for line in self._undo.pop():
            line.satisfied.discard(element.id)

    def _end_document(self, document: Element) -> set[str]:
        return set(self._selection.matched)
