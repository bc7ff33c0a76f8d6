"""The shared automaton as arrays, so that 10^7 queries fit one machine, and the paths it is built of.

The automaton is built level by level: among the queries that go on, those in one state with one next label share the
next state. So states come in order of their distance from the start state, the children of a state lie together, and
(parent, label) rises from state to state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from twigcast.overlay.paths import EPSILON, WILDCARD

Integers: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = npt.NDArray[np.int32]
Codes: TypeAlias = npt.NDArray[np.uint16]

_NONE: Final = 0
EPSILON_CODE: Final = 1
WILDCARD_CODE: Final = 2


class EncodedPaths:
    """Linear paths as rows of label codes, padded with zeros.

    Attributes:
        rows: A row for every path.
        names: The label of every code.
        codes: The code of every label.
    """

    def __init__(self, paths: Iterable[Sequence[str]], names: Iterable[str] = ()) -> None:
        """Gives every label a code.

        Args:
            paths: The labels of each path, as in `LinearPart.labels`.
            names: Labels that come first, so that sets of paths encoded apart have the same codes.
        """
        self.codes: dict[str, int] = {"": _NONE, EPSILON: EPSILON_CODE, WILDCARD: WILDCARD_CODE}
        for name in names:
            self.codes.setdefault(name, len(self.codes))
        flat: list[int] = []
        lengths: list[int] = []
        code_of = self.codes.setdefault
        for path in paths:
            flat.extend([code_of(label, len(self.codes)) for label in path])
            lengths.append(len(path))
        self.names = list(self.codes)
        sizes = np.array(lengths, np.int64)
        self.rows: Codes = np.zeros((len(sizes), max(lengths, default=0)), np.uint16)
        self.rows[np.arange(self.rows.shape[1]) < sizes[:, None]] = np.array(flat, np.uint16)

    def with_rows(self, rows: Codes) -> EncodedPaths:
        """Returns other paths with the same codes."""
        other = EncodedPaths(())
        other.codes, other.names, other.rows = self.codes, self.names, rows
        return other

    def __len__(self) -> int:
        return len(self.rows)


class Automaton:
    """The shared automaton of linear paths; state 0 is the start state.

    Attributes:
        parent: For every state the state before it.
        label: For every state the code of the label of the edge that leads to it.
        accepting: For every state the number of queries it accepts.
        wildcard: For every state the one that a `*` edge leads to, or -1.
        epsilon: The same for the edge to a self-looping state.
        levels: The first state of every level (distance from the start state), and the number of states.
        queries: Number of queries.
        walked: Messages that indexing took: one for every state of every query's automaton.
    """

    def __init__(self, paths: EncodedPaths, count: int | None = None) -> None:
        """Builds the automaton of some paths.

        Args:
            paths: The queries.
            count: Take only the first so many.
        """
        rows = paths.rows[:count]
        self.names = paths.names
        self.codes = paths.codes
        self.queries = len(rows)
        self.walked = int(np.count_nonzero(rows)) + self.queries
        self._build(rows)
        self.wildcard = self._single_edges(WILDCARD_CODE)
        self.epsilon = self._single_edges(EPSILON_CODE)
        order = np.argsort(self.label, kind="stable").astype(np.int32)
        bounds = np.searchsorted(self.label[order], np.arange(len(self.names) + 1))
        #: For every code the states that an edge with this label leads to, and their parents, which rise.
        self._by_label = [(self.parent[order[start:end]], order[start:end]) for start, end in pairwise(bounds)]

    def _build(self, rows: Codes) -> None:
        at = np.zeros(len(rows), np.int64)
        parents, labels = [np.array([-1], np.int32)], [np.array([_NONE], np.uint16)]
        self.levels = [0, 1]
        going = np.arange(len(rows))
        width = np.int64(len(self.names))
        for column in rows.T:
            going = going[column[going] != _NONE]
            if not len(going):
                break
            edges, which = np.unique(at[going] * width + column[going], return_inverse=True)
            parents.append((edges // width).astype(np.int32))
            labels.append((edges % width).astype(np.uint16))
            at[going] = self.levels[-1] + which
            self.levels.append(self.levels[-1] + len(edges))
        self.parent: Numbers = np.concatenate(parents)
        self.label: Codes = np.concatenate(labels)
        self.accepting: Integers = np.bincount(at, minlength=len(self.parent))

    def _single_edges(self, code: int) -> Numbers:
        targets = np.full(len(self), -1, np.int32)
        result = np.flatnonzero(self.label == code)
        targets[self.parent[result]] = result
        return targets

    def __len__(self) -> int:
        return len(self.parent)

    def named(self, states: Numbers | Integers, label: str) -> tuple[Integers, Integers]:
        """Follows the edges with a name.

        Returns the positions in `states` that have one, and the states behind these.
        """
        sources, targets = self._by_label[self.codes.get(label, _NONE)]
        if not len(targets) or label not in self.codes:
            return _NOTHING, _NOTHING
        positions = np.minimum(np.searchsorted(sources, states), len(sources) - 1)
        result = np.flatnonzero(sources[positions] == states)
        return result, targets[positions[result]].astype(np.int64)

    def transitions(self) -> Integers:
        """Returns for every state the number of its edges, the self-loop included."""
        edges: Integers = np.bincount(self.parent[1:], minlength=len(self))
        edges += self.label == EPSILON_CODE
        return edges

    def key(self, state: int) -> str:
        """Returns the key of a state."""
        labels = []
        while state:
            labels.append(self.names[self.label[state]])
            state = int(self.parent[state])
        return "/".join(("start", *reversed(labels)))

    def keys(self) -> Iterator[str]:
        """Returns the keys of all states, in order."""
        above = ["start"]
        yield "start"
        for before, first, end in zip(self.levels, self.levels[1:], self.levels[2:], strict=False):
            parents = (self.parent[first:end] - before).tolist()
            labels = [self.names[code] for code in self.label[first:end].tolist()]
            above = [f"{above[parent]}/{label}" for parent, label in zip(parents, labels, strict=True)]
            yield from above

    def digests(self) -> Iterator[bytes]:
        """Returns the SHA-1 digests of all keys, in order."""
        for key in self.keys():
            yield hashlib.sha1(key.encode(), usedforsecurity=False).digest()


_NOTHING: Final[Integers] = np.zeros(0, np.int64)


def labels_of(path: str) -> list[str]:
    """Returns the labels of a plain path in text, such as `/a//b/*`: names and wildcards, no predicates."""
    return [step or EPSILON for step in path[1:].split("/")]
