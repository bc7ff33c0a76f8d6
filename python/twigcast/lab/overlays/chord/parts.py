"""The tally in parts, for automata that are too large for one machine, or to use many (ours).

Queries are parted by their first few labels, a range of keys each: every part's automaton is a set of subtrees of the
whole one, with the way down to them. Whatever happens at a state depends on the states above it alone. So each part
counts what concerns its own states, below the cut, and the *trunk*, an automaton of the beginnings of all queries,
what concerns those above. Messages, hops, matches, loads and storage of the parts and the trunk add up to those of the
whole, and latencies are the longest of them; a test holds the sum equal to the tally of the whole, number for number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import numpy.typing as npt

from twigcast.lab.overlays.chord.automaton import Automaton, Codes, EncodedPaths, Integers
from twigcast.lab.overlays.chord.positions import RingPositions
from twigcast.lab.overlays.chord.tally import FilteringTally, Network
from twigcast.overlay.documents import Document

_PRIME = np.uint64(0x100000001B3)


@dataclass(slots=True)
class PartTally:
    """The tally of one part of an automaton, of the trunk, or of several together.

    Attributes:
        queries: Queries whose accepting states lie there.
        walked: Messages that indexing them took.
        states: States.
        messages: The measures of every message.
        load: Filtering messages received, by host.
        transitions: Transitions stored, by host.
        stored: States stored, by host.
    """

    queries: int
    walked: int
    states: int
    messages: list[FilteringTally]
    load: npt.NDArray[np.float64]
    transitions: Integers
    stored: Integers

    def add(self, other: PartTally) -> PartTally:
        """Adds another part of the same automaton, under the same messages."""
        self.queries += other.queries
        self.walked += other.walked
        self.states += other.states
        for own, more in zip(self.messages, other.messages, strict=True):
            own.add(more)
        self.load += other.load
        self.transitions += other.transitions
        self.stored += other.stored
        return self


def total(parts: Iterable[PartTally]) -> PartTally:
    """Returns all parts together. The first one is added to."""
    return reduce(PartTally.add, parts)


def part_paths(rows: Codes, cut: int, parts: int) -> Iterator[tuple[int, Integers]]:
    """Yields the paths of each part that has any: (part, positions in `rows`).

    Paths with the same first `cut` labels belong together, so the same path always belongs to the same part.
    """
    mixed: npt.NDArray[np.uint64] = np.full(len(rows), 0xCBF29CE484222325, np.uint64)
    for column in rows[:, :cut].T:
        mixed = (mixed ^ column.astype(np.uint64)) * _PRIME
    belongs = (mixed >> np.uint64(32)) % np.uint64(parts)
    for part in range(parts):
        positions = np.flatnonzero(belongs == part)
        if len(positions):
            yield part, positions


def trunk_rows(rows: Codes, cut: int) -> Codes:
    """Returns the beginnings of a part's paths that the trunk needs, one label beyond the edges at the cut.

    Equal beginnings are one, but a path that ends above the cut is as many queries as there are of it.
    """
    longer = _longer(rows, cut)
    return np.concatenate((rows[~longer, : cut + 1], np.unique(rows[longer, : cut + 1], axis=0)))


@dataclass(frozen=True, slots=True)
class Cut:
    """The cut of an automaton that is tallied in parts.

    Attributes:
        cut: States at least so many labels from the start belong to parts, the others to the trunk.
        positions: The ring.
        documents: The messages.
        publishers: The node that publishes each.
    """

    cut: int
    positions: RingPositions
    documents: Sequence[Document]
    publishers: Sequence[int]

    def part(self, paths: EncodedPaths) -> PartTally:
        """Counts what concerns the states below the cut."""
        automaton = Automaton(paths)
        return self._tally(
            paths, automaton, range(self._first(automaton), len(automaton)), _longer(paths.rows, self.cut)
        )

    def trunk(self, paths: EncodedPaths) -> PartTally:
        """Counts what concerns the states above the cut, from the beginnings of all paths."""
        automaton = Automaton(paths)
        return self._tally(paths, automaton, range(self._first(automaton)), ~_longer(paths.rows, self.cut))

    def _first(self, automaton: Automaton) -> int:
        return automaton.levels[min(self.cut, len(automaton.levels) - 1)]

    def _tally(
        self, paths: EncodedPaths, automaton: Automaton, counted: range, own: npt.NDArray[np.bool_]
    ) -> PartTally:
        network = Network(automaton, self.positions, counted)
        messages = network.publish_all(self.documents, self.publishers)
        transitions, stored = network.storage()
        queries = int(own.sum())
        return PartTally(
            queries,
            int(np.count_nonzero(paths.rows[own])) + queries,
            len(counted),
            messages,
            network.load,
            np.array(transitions, np.int64),
            np.array(stored, np.int64),
        )


def _longer(rows: Codes, cut: int) -> npt.NDArray[np.bool_]:
    """Which paths end at the cut or below it."""
    count, width = rows.shape
    longer: npt.NDArray[np.bool_] = rows[:, cut - 1] != 0 if 0 < cut <= width else np.full(count, cut == 0, np.bool_)
    return longer
