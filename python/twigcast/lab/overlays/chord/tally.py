"""The measures of the distributed automaton without exchanging a message (for millions of queries).

Message counts, latencies and loads of a network that does not change are functions of the automaton, the message and
the places of the keys. Indexing walks and the branches of the recursive method need not be simulated one by one: all
branches that reach one state with one element behave alike from there on, so it is enough to know how many there are
and the longest way to them; and elements with one label path behave alike, in all messages. A test compares every
number with the simulator's.

States are looked at a label path at a time, as arrays. What the self-loops and the `*` edges of the states at a path
lead to is the same for every longer path, so only the edges with its last name are followed for each.

An automaton too large for one machine is tallied in parts (`twigcast.lab.overlays.chord.parts`): a network counts what
concerns a range of its states, and passes through the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from twigcast.lab.overlays.chord.automaton import EPSILON_CODE, Automaton, Integers, Numbers
from twigcast.lab.overlays.chord.label_paths import LabelPath, merge_documents
from twigcast.lab.overlays.chord.positions import RingPositions
from twigcast.overlay.documents import Document
from twigcast.overlay.errors import ImpossibleSetting


@dataclass(slots=True)
class FilteringTally:
    """The measures of one published message.

    Attributes:
        messages: Logical messages.
        hops: Routed hops of all of them.
        latency_steps: Longest chain of logical messages.
        latency_hops: Longest chain of routed hops.
        matched: Queries matched.
    """

    messages: int = 0
    hops: int = 0
    latency_steps: int = 0
    latency_hops: int = 0
    matched: int = 0

    def add(self, other: FilteringTally) -> None:
        """Adds what concerns other states, of the same message."""
        self.messages += other.messages
        self.hops += other.hops
        self.latency_steps = max(self.latency_steps, other.latency_steps)
        self.latency_hops = max(self.latency_hops, other.latency_hops)
        self.matched += other.matched


class Reached(NamedTuple):
    """States that messages reach.

    Attributes:
        states: The states, each once.
        branches: How many branches of the recursive method reach each with one element.
        path_counts: Hops of the longest way to each.
    """

    states: Integers
    branches: Integers
    path_counts: Integers

    @staticmethod
    def of(states: Integers, branches: Integers, routes: Integers) -> Reached:
        """Gathers what reaches the same state."""
        if not len(states):
            return Reached(states, branches, routes)
        order = np.argsort(states, kind="stable")
        states = states[order]
        firsts = np.flatnonzero(np.concatenate(([True], states[1:] != states[:-1])))
        return Reached(
            states[firsts], np.add.reduceat(branches[order], firsts), np.maximum.reduceat(routes[order], firsts)
        )

    def and_(self, other: Reached) -> Reached:
        """Returns these states and others."""
        return Reached(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class ElementTraffic(NamedTuple):
    """The messages that an element causes: what they reach, how many there are, and their routed hops."""

    reached: Reached
    messages: int
    hops: int


class Network:
    """An automaton on a ring.

    Attributes:
        automaton: The automaton.
        positions: The ring.
        owners: For every state the node that owns it.
        load: Filtering messages received, by host.
        accesses: Messages for every state.
        copies: Extra holders of hot states, by state (load shedding).
        counted: The states whose messages, load, matches and storage are counted.
    """

    def __init__(self, automaton: Automaton, positions: RingPositions, counted: range | None = None) -> None:
        """Assigns all states to peers.

        Args:
            automaton: The automaton.
            positions: The ring.
            counted: Count only what concerns these states; all by default.
        """
        self.counted = range(len(automaton)) if counted is None else counted
        self.automaton = automaton
        self.positions = positions
        self.owners: Numbers = positions.owners(automaton.digests())
        self.accesses: Integers = np.zeros(len(automaton), np.int64)
        self.load: npt.NDArray[np.float64] = np.zeros(positions.hosts)
        self.copies: dict[int, list[int]] = {}
        self._from_parent, self._from_above = self._steps()

    def _steps(self) -> tuple[Integers, Integers]:
        """For every state the hops from its parent's owner, and from the one above a self-looping parent."""
        automaton, owners = self.automaton, self.owners
        parents = np.maximum(automaton.parent, 0)
        near = self.positions.hops(owners[parents], owners).astype(np.int64)
        below = np.flatnonzero(automaton.label[parents] == EPSILON_CODE)
        far = np.zeros(len(automaton), np.int64)
        far[below] = self.positions.hops(owners[parents[parents[below]]], owners[below])
        return near, far

    def storage(self) -> tuple[list[int], list[int]]:
        """Returns per host the transitions and states stored, with l = 0 (copies of self-looping children included)."""
        hosts, automaton = self.positions.host[self.owners], self.automaton
        size = automaton.transitions()
        above = np.flatnonzero(automaton.epsilon >= 0)
        size[above] += automaton.transitions()[automaton.epsilon[above]]
        count = self.positions.hosts
        part = slice(self.counted.start, self.counted.stop)
        hosts, size = hosts[part], size[part]
        states = np.bincount(hosts, minlength=count)
        return np.bincount(hosts, size, count).astype(np.int64).tolist(), states.tolist()

    def shed(self, share: float = 0.10, replicas: int = 10, window: int = 100) -> int:
        """Copies hot states, by the accesses counted so far, until no peer has one. Returns how many are copied.

        A peer sheds its hottest state when that takes more than a share of the peer's messages; peers with fewer than
        `window` messages measure nothing. The start state is always copied.
        """
        seen = np.flatnonzero(self.accesses)
        seen = seen[np.lexsort((-self.accesses[seen], self.owners[seen]))]
        firsts = np.flatnonzero(np.diff(self.owners[seen], prepend=-1))
        hot = {0}
        for states in np.split(seen, firsts[1:]):
            total = int(self.accesses[states].sum())
            for state in states.tolist():
                accesses = int(self.accesses[state])
                if total < window or accesses <= share * total:
                    break
                hot.add(state)
                total -= accesses - accesses // (replicas + 1)
        for state in sorted(hot):
            key = self.automaton.key(state)
            self.copies[state] = [self.positions.owner(f"{key}#{copy}") for copy in range(1, replicas + 1)]
        return len(hot)

    # The recursive method.

    def publish(self, document: Document, publisher: int) -> FilteringTally:
        """Counts the recursive method with l = 0 for one message."""
        return self.publish_all([document], [publisher])[0]

    def publish_all(self, documents: Sequence[Document], publishers: Sequence[int]) -> list[FilteringTally]:
        """Counts the recursive method with l = 0 for many messages at once, branch by branch.

        Args:
            documents: The messages.
            publishers: The node that publishes each.
        """
        first = self.positions.hops(publishers, int(self.owners[0])).tolist()
        once = int(0 in self.counted)
        tallies = [FilteringTally(once, once * hops, 1, hops) for hops in first]
        accesses: Integers = np.zeros(len(self.automaton), np.int64)
        accesses[0] = len(documents)
        batch = _Batch(tallies, first, accesses, _Matched(self.automaton, len(documents), self.counted))
        one = np.ones(1, np.int64)
        self._descend(merge_documents(documents), Reached(0 * one, one, 0 * one), 1, batch)
        self._note_accesses(accesses)
        batch.matched.count(tallies)
        return tallies

    def _descend(self, path: LabelPath, active: Reached, depth: int, batch: _Batch) -> None:
        """Go on from the states that a label path leads to."""
        sources = _Sources.of(self.automaton, active)
        anyway = self._anyway(active, sources)
        elements = documents = 0
        for below in path.below.values():
            named = self._named(sources, below.label)
            longest = max(
                (int(t.reached.path_counts.max()) for t in (anyway, named) if len(t.reached.states)), default=-1
            )
            if longest < 0:
                continue
            self._count(below, anyway.messages + named.messages, anyway.hops + named.hops, longest, depth, batch)
            some, having = sum(below.counts.values()), below.documents()
            batch.note(named.reached, some, having)
            elements += some
            documents |= having
            if below.below:
                self._descend(below, anyway.reached.and_(named.reached), depth + 1, batch)
        batch.note(anyway.reached, elements, documents)

    @staticmethod
    def _count(below: LabelPath, messages: int, hops: int, longest: int, depth: int, batch: _Batch) -> None:
        for number, count in below.counts.items():
            tally = batch.tallies[number]
            tally.messages += count * messages
            tally.hops += count * hops
            tally.latency_steps = max(tally.latency_steps, depth + 1)
            tally.latency_hops = max(tally.latency_hops, batch.first[number] + longest)

    def _anyway(self, active: Reached, sources: _Sources) -> ElementTraffic:
        """What any element leads to: self-looping states, and `*` edges."""
        automaton, count = self.automaton, len(active.states)
        loops = np.flatnonzero(automaton.label[active.states] == EPSILON_CODE)
        wild = automaton.wildcard[sources.states].astype(np.int64)
        edges = np.flatnonzero(wild >= 0)
        # A self-loop leads to where the branch is already; an edge to a self-looping state from the one above it.
        entered = np.arange(count, len(sources.states))
        targets = np.concatenate((active.states[loops], sources.states[entered], wild[edges]))
        steps = np.concatenate(
            (
                np.zeros(len(loops), np.int64),
                self._from_parent[sources.states[entered]],
                self._hops(sources, edges, wild[edges]),
            )
        )
        return self._traffic(targets, sources, np.concatenate((loops, entered, edges)), steps)

    def _named(self, sources: _Sources, label: str) -> ElementTraffic:
        """What an element leads to by its name."""
        edges, targets = self.automaton.named(sources.states, label)
        return self._traffic(targets, sources, edges, self._hops(sources, edges, targets))

    def _traffic(self, targets: Integers, sources: _Sources, edges: Integers, steps: Integers) -> ElementTraffic:
        branches = sources.branches[edges]
        reached = Reached.of(targets, branches, sources.path_counts[edges] + steps)
        if len(self.counted) < len(self.automaton):
            branches = np.where((targets >= self.counted.start) & (targets < self.counted.stop), branches, 0)
        return ElementTraffic(reached, int(branches.sum()), int((branches * steps).sum()))

    def _hops(self, sources: _Sources, edges: Integers, targets: Integers) -> Integers:
        """Hops of the messages along edges: sent by the owner of the source, or of the state above it."""
        return np.where(edges < sources.direct, self._from_parent[targets], self._from_above[targets])

    def _note_accesses(self, accesses: Integers) -> None:
        accesses[: self.counted.start] = accesses[self.counted.stop :] = 0
        self.accesses += accesses
        shares = accesses.astype(np.float64)
        for state, holders in self.copies.items():
            shares[state] /= len(holders) + 1
            for holder in holders:
                self.load[self.positions.host[holder]] += shares[state]
        self.load += np.bincount(self.positions.host[self.owners], shares, self.positions.hosts)

    # The iterative method.

    def publish_iteratively(self, document: Document, publisher: int) -> FilteringTally:
        """Counts the iterative method for one message."""
        return self.publish_all_iteratively([document], [publisher])[0]

    def publish_all_iteratively(self, documents: Sequence[Document], publishers: Sequence[int]) -> list[FilteringTally]:
        """Counts the iterative method: the publisher asks for each active state at each element, and waits for answers.

        Raises:
            ImpossibleSetting: Not all states are counted: how long a request takes depends on all others.
        """
        if len(self.counted) < len(self.automaton):
            raise ImpossibleSetting("counted", self.counted, "all states for the iterative method")
        tallies = [FilteringTally() for _ in documents]
        costs = {publisher: self._question(publisher) for publisher in set(publishers)}
        batch = _Questions(tallies, publishers, costs, _Matched(self.automaton, len(documents), self.counted))
        self._ask(merge_documents(documents), np.zeros(1, np.int64), batch)
        batch.matched.count(tallies)
        return tallies

    def _question(self, publisher: int) -> Numbers:
        """Hops of a question to every node, and of its answer."""
        positions = self.positions
        routes = positions.hops(publisher, np.arange(len(positions)))
        routes += positions.host != positions.host[publisher]
        return routes

    def _ask(self, path: LabelPath, active: Integers, batch: _Questions) -> None:
        """Ask for the states that are active at a label path, once for every element below it."""
        costs: dict[int, tuple[int, int]] = {}
        owners = self.owners[active]
        sources = _Sources.of(self.automaton, Reached(active, active, active))
        anyway = self._reached_anyway(active, sources)
        documents = 0
        for below in path.below.values():
            for number, count in below.counts.items():
                publisher, tally = batch.publishers[number], batch.tallies[number]
                if publisher not in costs:
                    routes = batch.costs[publisher][owners]
                    costs[publisher] = int(routes.sum()), int(routes.max())
                hops, slowest = costs[publisher]
                tally.messages += 2 * count * len(active)
                tally.hops += count * hops
                tally.latency_steps += 2 * count
                tally.latency_hops += count * slowest
            named = np.unique(self.automaton.named(sources.states, below.label)[1])
            having = below.documents()
            batch.matched.note(named, having)
            documents |= having
            if below.below and len(anyway) + len(named):
                self._ask(below, np.concatenate((anyway, named)), batch)
        batch.matched.note(anyway, documents)

    def _reached_anyway(self, active: Integers, sources: _Sources) -> Integers:
        """The states any element leads to."""
        automaton = self.automaton
        loops = active[automaton.label[active] == EPSILON_CODE]
        wild = automaton.wildcard[sources.states]
        return np.unique(np.concatenate((loops, sources.states[sources.direct :], wild[wild >= 0])))


class _Sources(NamedTuple):
    """States whose edges are followed: the active ones, then the self-looping ones that these lead to.

    `direct` is the number of the active ones.
    """

    states: Integers
    branches: Integers
    path_counts: Integers
    direct: int

    @staticmethod
    def of(automaton: Automaton, active: Reached) -> _Sources:
        entered = automaton.epsilon[active.states]
        above = np.flatnonzero(entered >= 0)
        return _Sources(
            np.concatenate((active.states, entered[above])),
            np.concatenate((active.branches, active.branches[above])),
            np.concatenate((active.path_counts, active.path_counts[above])),
            len(active.states),
        )


class _Matched:
    """Which documents reach which accepting states: a row of bits for every state that one has reached."""

    def __init__(self, automaton: Automaton, documents: int, counted: range) -> None:
        self._accepting = automaton.accepting.copy()
        self._accepting[: counted.start] = self._accepting[counted.stop :] = 0
        self._row_of: Numbers = np.full(len(automaton), -1, np.int32)
        self._documents = documents
        self._used = 0
        self._rows: npt.NDArray[np.uint64] = np.zeros((1024, -(-documents // 64)), "<u8")

    def note(self, states: Integers, documents: int) -> None:
        """Some documents (as bits) reach some states, each given once."""
        states = states[self._accepting[states] > 0]
        if not len(states) or not documents:
            return
        new = states[self._row_of[states] < 0]
        self._row_of[new] = np.arange(self._used, self._used + len(new))
        self._used += len(new)
        if self._used > len(self._rows):
            more = np.zeros((max(self._used, len(self._rows)), self._rows.shape[1]), "<u8")
            self._rows = np.concatenate((self._rows, more))
        bits = np.frombuffer(documents.to_bytes(8 * self._rows.shape[1], "little"), "<u8")
        self._rows[self._row_of[states]] |= bits

    def count(self, tallies: Sequence[FilteringTally]) -> None:
        """Add up the queries that each document has matched."""
        reached = np.flatnonzero(self._row_of >= 0)
        totals: Integers = np.zeros(len(tallies), np.int64)
        for begin in range(0, len(reached), _ROWS):
            states = reached[begin : begin + _ROWS]
            bits = np.unpackbits(self._rows[self._row_of[states]].view(np.uint8), axis=1, bitorder="little")
            totals += self._accepting[states] @ bits[:, : len(tallies)]
        for tally, total in zip(tallies, totals.tolist(), strict=True):
            tally.matched += total


_ROWS = 1 << 13
"""Rows of bits that are added up at once, to bound memory."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is gathered while messages are published recursively."""

    tallies: Sequence[FilteringTally]
    first: Sequence[int]
    accesses: Integers
    matched: _Matched

    def note(self, reached: Reached, elements: int, documents: int) -> None:
        """States are reached with so many elements of some documents."""
        self.accesses[reached.states] += reached.branches * elements
        self.matched.note(reached.states, documents)


@dataclass(frozen=True, slots=True)
class _Questions:
    """What is gathered while messages are published iteratively."""

    tallies: Sequence[FilteringTally]
    publishers: Sequence[int]
    costs: dict[int, Numbers] = field(repr=False)
    matched: _Matched = field(repr=False)
