"""Boone's Hybrid: a deterministic trie for plain child paths, AFilter for the others (Dai 2009, section 2.3.4).

"Simple" means here: no ``*`` and no ``//``. Simple paths are a trie of names, which is a deterministic automaton:
there is exactly one active node for each open element (or none). The others are verified backwards from their last
label as in the core of AFilter, without its caches and with one compact stack of the open elements instead of a stack
for each label.

What it gains depends on the share of simple paths. Nested paths, which the source leaves out, are decomposed and put
together by NP-Filter; their parts may land on different sides.

Not to be confused with :mod:`.hybrid`, which cuts each path, and :mod:`.dai`.

Not supported: nothing of the path-query language.
"""

from __future__ import annotations

from functools import partial

from twigcast.lab.reference.events import Element
from twigcast.lab.reference.path_algorithm import PathAlgorithm, StoredPath
from twigcast.lab.reference.selection import Selectivity, ends_at, path_matches_at


class TrieState:
    """A state of the deterministic automaton."""

    __slots__ = ("accepts", "children", "name", "parent")

    def __init__(self, parent: TrieState | None, name: str) -> None:
        self.parent = parent
        self.name = name
        self.children: dict[str, TrieState] = {}
        self.accepts: list[StoredPath] = []


class BooneHybrid(PathAlgorithm):
    """A trie and a backward matcher side by side.

    Args:
        selectivity: Estimates for predicate sorting.
    """

    title = "Hybrid (Boone)"
    source = "Dai 2009, section 2.3.4"

    def __init__(self, selectivity: Selectivity | None = None) -> None:
        super().__init__(selectivity)
        self.root = TrieState(None, "")
        self._trie_states = 1
        self.triggers: dict[str, list[StoredPath]] = {}
        """The paths that are not simple, by their last label."""

    @staticmethod
    def is_simple(stored: StoredPath) -> bool:
        """Returns whether a path has no ``*`` and no ``//``."""
        return all(step.axis == "/" and step.name != "*" for step in stored.steps)

    def _insert_path(self, stored: StoredPath) -> None:
        if self.is_simple(stored):
            self._trie_end(stored).accepts.append(stored)
        else:
            self.triggers.setdefault(stored.steps[-1].name, []).append(stored)

    def _trie_end(self, stored: StoredPath) -> TrieState:
        state = self.root
        for step in stored.steps:
            if step.name not in state.children:
                state.children[step.name] = TrieState(state, step.name)
                self._trie_states += 1
            state = state.children[step.name]
        return state

    def _delete_path(self, stored: StoredPath) -> None:
        if not self.is_simple(stored):
            label = stored.steps[-1].name
            self.triggers[label].remove(stored)
            if not self.triggers[label]:
                del self.triggers[label]
            return
        state = self._trie_end(stored)
        state.accepts.remove(stored)
        while state.parent is not None and not state.accepts and not state.children:
            del state.parent.children[state.name]
            self._trie_states -= 1
            state = state.parent

    def _size(self) -> int:
        """Trie states, and steps of the other paths."""
        return self._trie_states + sum(len(stored.steps) for paths in self.triggers.values() for stored in paths)

    def _begin(self, document: Element) -> None:
        self._active: list[TrieState | None] = [self.root]

    def _open(self, element: Element) -> None:
        above = self._active[-1]
        state = None if above is None else above.children.get(element.name)
        self._active.append(state)
        self.counters.active_states_peak = max(self.counters.active_states_peak, len(self._active))
        if state is not None:
            self.counters.transitions += 1
            for stored in state.accepts:
                self._visit(stored, lambda: [(*reversed(list(element.ancestors())), element)])
        for label in (element.name, "*"):
            for stored in self.triggers.get(label, ()):
                self.counters.transitions += 1
                if ends_at(stored.steps, element):
                    self._visit(stored, partial(path_matches_at, stored.steps, element))

    def _close(self, element: Element) -> None:
        self._active.pop()
