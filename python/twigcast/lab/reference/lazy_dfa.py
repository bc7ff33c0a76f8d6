"""The lazy DFA: YFilter's automaton made deterministic while it runs (Diao 2005, sections 4.3.5 and 4.5; XMLTK).

Each set of active NFA states that a message leads to becomes one DFA state, made when it is first met and kept: from
then on, an event costs one table look-up, however many queries there are. The whole subset construction can explode;
the states that messages really lead to are few. The memory is bounded all the same: when ``states_max`` is reached
the table is emptied, and the rest of the message is run on the NFA. Any insertion or deletion empties it too. Results
never change.

A DFA state does not tell which elements led to it, so path matches, needed for predicates and nested paths, are
looked up along the open elements.

Not supported: nothing of the path-query language.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from twigcast.lab.reference.events import Element
from twigcast.lab.reference.nfa import EPSILON, NFA, State
from twigcast.lab.reference.path_algorithm import PathAlgorithm, StoredPath
from twigcast.lab.reference.selection import Selectivity, path_matches_at

OTHER = ""
"""The symbol of all names that no path has."""


class DFAState:
    """A set of NFA states, with the transitions found so far."""

    __slots__ = ("members", "outputs", "transitions")

    def __init__(self, members: frozenset[State[StoredPath]]) -> None:
        self.members = members
        self.transitions: dict[str, DFAState] = {}
        ordered = sorted(members, key=lambda state: state.id)
        self.outputs: list[StoredPath] = [stored for state in ordered for stored in state.outputs]


class LazyDFA(PathAlgorithm):
    """The NFA with a bounded table of deterministic states.

    Args:
        selectivity: Estimates for predicate sorting.
        states_max: How many deterministic states to keep.
    """

    title = "Lazy DFA"
    source = "Diao 2005, sections 4.3.5 and 4.5"

    def __init__(self, selectivity: Selectivity | None = None, *, states_max: int = 10_000) -> None:
        super().__init__(selectivity)
        if states_max < 1:
            raise ValueError("states_max must be at least 1")
        self.nfa: NFA[StoredPath] = NFA()
        self.flushes = 0
        """How often the table was full."""
        self._ends: dict[StoredPath, State[StoredPath]] = {}
        self._names: Counter[str] = Counter()
        self._states_max = states_max
        self._table: dict[frozenset[State[StoredPath]], DFAState] = {}

    @property
    def deterministic_states(self) -> int:
        """The number of deterministic states that are kept at present."""
        return len(self._table)

    def _insert_path(self, stored: StoredPath) -> None:
        end = self.nfa.insert(stored.steps)[-1]
        end.outputs.append(stored)
        self._ends[stored] = end
        self._names.update(step.name for step in stored.steps)
        self._table.clear()

    def _delete_path(self, stored: StoredPath) -> None:
        end = self._ends.pop(stored)
        end.outputs.remove(stored)
        self.nfa.prune(end)
        self._names -= Counter(step.name for step in stored.steps)
        self._table.clear()

    def _size(self) -> int:
        return self.nfa.size

    def _begin(self, document: Element) -> None:
        self._caching = True
        self._stack = [self._state(frozenset({self.nfa.initial}))]

    def _open(self, element: Element) -> None:
        source = self._stack[-1]
        symbol = element.name if element.name in self._names else OTHER
        target = source.transitions.get(symbol)
        self.counters.transitions += 1
        if target is None:
            target = self._state(self._follow(source.members, symbol))
            if self._caching:
                source.transitions[symbol] = target
        self.counters.active_states_peak = max(self.counters.active_states_peak, len(target.members))
        self._stack.append(target)
        for stored in target.outputs:
            self._visit(stored, partial(path_matches_at, stored.steps, element))

    def _close(self, element: Element) -> None:
        self._stack.pop()

    def _state(self, members: frozenset[State[StoredPath]]) -> DFAState:
        if members in self._table:
            return self._table[members]
        state = DFAState(members)
        if self._caching and len(self._table) == self._states_max:
            self.flushes += 1
            for kept in self._table.values():
                # States still on the stack must not keep the dropped ones alive.
                kept.transitions.clear()
            self._table.clear()
            self._caching = False
        if self._caching:
            self._table[members] = state
        return state

    def _follow(self, members: frozenset[State[StoredPath]], symbol: str) -> frozenset[State[StoredPath]]:
        """The target set, by the rules of the NFA (section 4.3.3)."""
        targets: set[State[StoredPath]] = set()
        for member in members:
            for state in (member, member.edges.get(EPSILON)):
                if state is None:
                    continue
                reached = (state.edges.get(symbol), state.edges.get("*"), state if state.is_descendant_child else None)
                targets.update(target for target in reached if target is not None)
                self.counters.transitions += sum(target is not None for target in reached)
        return frozenset(targets)
