"""YFilter's automaton: one nondeterministic machine for all paths (Diao 2005, section 4.3).

A location step becomes a fragment of the machine:

======  ==========================================================
``/a``  s -a-> t
``/*``  s -*-> t
``//a`` s -ε-> d, d loops on every name, d -a-> t
``//*`` s -ε-> d, d loops on every name, d -*-> t
======  ==========================================================

d is a *descendant-child* state; a state has at most one, shared by all ``//`` steps that leave it. Without the ε edge
a ``/b`` that leaves the same state would inherit the loop. Common prefixes are stored once: insertion walks along
existing edges as far as they go and grows a branch for the rest. ``*`` is a symbol like the names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from twigcast.lab.reference.algorithm import Counters
from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import LocationStep
from twigcast.lab.reference.selection import PathMatch

Output = TypeVar("Output")

EPSILON = "ε"
"""The symbol of the edge into a descendant-child state."""


class State(Generic[Output]):
    """A machine state. The loop of a descendant-child is implied by its flag."""

    __slots__ = ("edges", "id", "is_descendant_child", "outputs", "parent", "symbol")

    def __init__(self, number: int, parent: State[Output] | None, symbol: str) -> None:
        self.id = number
        self.parent = parent
        self.symbol = symbol
        """The label of the edge from the parent."""
        self.is_descendant_child = symbol == EPSILON
        self.edges: dict[str, State[Output]] = {}
        """Target by symbol: a name, ``*``, or ε."""
        self.outputs: list[Output] = []
        """What is reported when the state is reached; not empty: the state is accepting."""

    def __repr__(self) -> str:
        return f"State({self.id})"


class NFA(Generic[Output]):
    """The machine and its maintenance (Diao 2005, section 4.3.2)."""

    def __init__(self) -> None:
        self._created = 0
        self.size = 0
        self.initial: State[Output] = self._grow(None, "")

    def insert(self, steps: Sequence[LocationStep], start: State[Output] | None = None) -> list[State[Output]]:
        """Inserts a path, if it is missing. Returns the states its steps end at, one for each step.

        Args:
            steps: The path.
            start: Where it begins; the initial state if not given.
        """
        state = start or self.initial
        ends = []
        for step in steps:
            for symbol in (EPSILON, step.name) if step.axis == "//" else (step.name,):
                state = state.edges.get(symbol) or self._grow(state, symbol)
            ends.append(state)
        return ends

    def prune(self, state: State[Output]) -> None:
        """Removes a state that has neither outputs nor edges, and then its parent, and so on."""
        while state.parent is not None and not state.outputs and not state.edges:
            if state.parent.edges.pop(state.symbol, None) is None:
                return
            self.size -= 1
            state = state.parent

    def _grow(self, parent: State[Output] | None, symbol: str) -> State[Output]:
        self._created += 1
        self.size += 1
        state = State(self._created, parent, symbol)
        if parent is not None:
            parent.edges[symbol] = state
        return state

    def states(self) -> Iterator[State[Output]]:
        """Yields all states, by their numbers."""
        reached = [self.initial]
        for state in reached:
            reached.extend(state.edges.values())
        yield from sorted(reached, key=lambda state: state.id)


class Entry(Generic[Output]):
    """A state in a set on the runtime stack: by which element it was reached, and from which entries below."""

    __slots__ = ("element", "predecessors", "state")

    def __init__(self, state: State[Output], element: Element) -> None:
        self.state = state
        self.element = element
        self.predecessors: list[Entry[Output]] = []

    def path_matches(self) -> Iterator[PathMatch]:
        """Yields the element sequences that drove the machine here, read backwards along the predecessors.

        Elements that only took a loop into a descendant-child state are dropped (Diao 2005, section 5.1.2).
        """
        for match, _ in self.walks():
            yield match

    def walks(self, length: int | None = None) -> Iterator[tuple[PathMatch, Entry[Output]]]:
        """Yields the last ``length`` steps of these (all if ``None``), each with the entry where it begins."""
        results: list[tuple[Entry[Output], PathMatch, int | None]] = [(self, (), length)]
        while results:
            entry, match, rest = results.pop()
            looped = entry.state.is_descendant_child
            if (rest == 0 and not looped) or not entry.predecessors:
                yield match, entry
                continue
            if not looped:
                match = (entry.element, *match)
                rest = None if rest is None else rest - 1
            results.extend((below, match, rest) for below in entry.predecessors)

    def __repr__(self) -> str:
        return f"{self.state.id}@{self.element!r}"


class Run(Generic[Output]):
    """One message through the machine: the runtime stack of active-state sets (Diao 2005, section 4.3.3)."""

    def __init__(self, nfa: NFA[Output], document: Element, counters: Counters) -> None:
        self._counters = counters
        self.stack: list[list[Entry[Output]]] = [[Entry(nfa.initial, document)]]

    def start_element(self, element: Element) -> list[Entry[Output]]:
        """Pushes the target set of the active states and returns it, each state once."""
        targets: dict[int, Entry[Output]] = {}
        followed = 0
        for source in self.stack[-1]:
            followed += self._follow(source, source.state, element, targets)
            descendant_child = source.state.edges.get(EPSILON)
            if descendant_child is not None:
                followed += self._follow(source, descendant_child, element, targets)
        active = list(targets.values())
        self._counters.transitions += followed
        self._counters.active_states_peak = max(self._counters.active_states_peak, len(active))
        self.stack.append(active)
        return active

    def end_element(self) -> None:
        """Returns to the state set of the element's parent."""
        self.stack.pop()

    @staticmethod
    def _follow(
        source: Entry[Output], state: State[Output], element: Element, targets: dict[int, Entry[Output]]
    ) -> int:
        """The edges with the element's name and ``*``, and the loop of a descendant-child; how many there are."""
        followed = 0
        edges = state.edges
        for target in (edges.get(element.name), edges.get("*"), state if state.is_descendant_child else None):
            if target is not None:
                followed += 1
                entry = targets.get(target.id)
                if entry is None:
                    entry = targets[target.id] = Entry(target, element)
                entry.predecessors.append(source)
        return followed
