"""The measures of the distributed automaton without exchanging a message (for millions of queries).

Message counts, latencies and loads of a network that does not change are functions of the automaton, the message and
the places of the keys. Indexing walks and the branches of the recursive method need not be simulated one by one: all
branches that reach one state with one element behave alike from there on, so it is enough to know how many there are
and the longest way to them; and elements with one label path behave alike, in all messages. A test compares every
number with the simulator's.

The automaton is kept as integer arrays and dictionaries; it can be built for 10^7 queries on one machine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twigcast.overlay.chord.identifiers import identifier_of_address
from twigcast.overlay.chord.label_paths import LabelPath, merge_documents
from twigcast.overlay.documents import Document
from twigcast.overlay.paths import EPSILON, WILDCARD

import hashlib  # isort: skip


class Automaton:
    """The shared automaton of a set of linear paths: states in order of creation, the start state first.

    Attributes:
        edges: For every state its edges, label to state.
        parent: For every state the state before it.
        label: For every state the label of the edge that leads to it.
        accepting: For every state the number of queries it accepts.
        queries: Number of queries.
        walked: Messages that indexing took: one for every state of every query's automaton.
    """

    def __init__(self) -> None:
        self.edges: list[dict[str, int] | None] = [None]
        self.parent: list[int] = [-1]
        self.label: list[str] = ["start"]
        self.accepting: list[int] = [0]
        self.queries = 0
        self.walked = 0

    def add(self, labels: Sequence[str]) -> int:
        """Index a query; returns its accepting state."""
        state = 0
        for label in labels:
            edges = self.edges[state]
            if edges is None:
                edges = self.edges[state] = {}
            target = edges.get(label)
            if target is None:
                target = edges[label] = len(self.parent)
                self.edges.append(None)
                self.parent.append(state)
                self.label.append(label)
                self.accepting.append(0)
            state = target
        self.accepting[state] += 1
        self.queries += 1
        self.walked += len(labels) + 1
        return state

    def __len__(self) -> int:
        return len(self.parent)

    def targets(self, state: int, label: str) -> list[int]:
        """States reached from a state by an element (the rules of `State.targets`)."""
        edges = self.edges[state]
        found = [state] if self.label[state] == EPSILON else []
        if not edges:
            return found
        if label in edges:
            found.append(edges[label])
        if WILDCARD in edges:
            found.append(edges[WILDCARD])
        if EPSILON in edges:
            found.extend(self.targets(edges[EPSILON], label))
        return found

    def transitions(self, state: int) -> int:
        """Edges of a state, and its self-loop."""
        edges = self.edges[state]
        return (len(edges) if edges else 0) + (self.label[state] == EPSILON)

    def keys(self) -> Iterable[str]:
        """Keys of all states, in order."""
        keys: list[str] = []
        for parent, label in zip(self.parent, self.label, strict=True):
            key = label if parent < 0 else f"{keys[parent]}/{label}"
            keys.append(key)
            yield key


class Places:
    """A converged ring as arrays: who owns a key, and how many hops a lookup takes.

    Args:
        hosts: Number of hosts.
        virtual_nodes: Places of each.
        bits: Size of the circle.
    """

    def __init__(self, hosts: int, virtual_nodes: int = 1, bits: int = 160) -> None:
        self.bits = bits
        self.hosts = hosts
        self.virtual_nodes = virtual_nodes
        count = hosts * virtual_nodes
        refs = sorted((identifier_of_address(address, bits), address) for address in range(count))
        self.identifiers = [identifier for identifier, _ in refs]
        self.addresses = [address for _, address in refs]
        self.index_of = {address: index for index, address in enumerate(self.addresses)}
        self._hops: dict[tuple[int, int], int] = {}
        self._fingers: list[list[int] | None] = [None] * count

    def owner(self, key: str) -> int:
        """Index (in order of place) of the owner of a key."""
        digest = hashlib.sha1(key.encode(), usedforsecurity=False).digest()
        identifier = int.from_bytes(digest, "big") % (1 << self.bits)
        return bisect_left(self.identifiers, identifier) % len(self.identifiers)

    def host(self, index: int) -> int:
        """Host of the node at an index."""
        return self.addresses[index] // self.virtual_nodes

    def hops(self, start: int, end: int) -> int:
        """Hops over the network of a lookup from one node for a key of another (indexes)."""
        if start == end:
            return 0
        known = self._hops.get((start, end))
        if known is not None:
            return known
        count = len(self.identifiers)
        gap = (end - start) % count
        following = start
        # Fingers by rank: gaps of the distinct fingers in nodes. The last one strictly before the owner is next,
        # or the successor.
        best = 1
        for rank in self._finger_ranks(start):
            if rank < gap:
                best = max(best, rank)
        following = (start + best) % count
        hops = int(self.host(start) != self.host(following)) + self.hops(following, end)
        self._hops[start, end] = hops
        return hops

    def _finger_ranks(self, start: int) -> list[int]:
        known = self._fingers[start]
        if known is not None:
            return known
        circle = 1 << self.bits
        count = len(self.identifiers)
        own = self.identifiers[start]
        ranks: list[int] = []
        power = 0
        while power < self.bits:
            index = bisect_left(self.identifiers, (own + (1 << power)) % circle) % count
            rank = (index - start) % count
            if rank == 0:
                break
            ranks.append(rank)
            power = ((self.identifiers[index] - own) % circle).bit_length()
        # A node also knows its successors, as many as fit its list.
        self._fingers[start] = ranks
        return ranks


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


@dataclass(slots=True)
class Network:
    """An automaton on a ring.

    Attributes:
        automaton: The automaton.
        places: The ring.
        owners: For every state the index of its owner.
        load: Filtering messages received, by host.
        copies: Extra holders of hot states, by state (load shedding).
    """

    automaton: Automaton
    places: Places
    owners: list[int] = field(default_factory=list)
    load: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    accesses: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    copies: dict[int, list[int]] = field(default_factory=dict)

    def place_states(self) -> None:
        """Find the owners of states that have none yet."""
        known = len(self.owners)
        for number, key in enumerate(self.automaton.keys()):
            if number >= known:
                self.owners.append(self.places.owner(key))

    def storage(self) -> tuple[list[int], list[int]]:
        """Per host: transitions stored and states stored, with l = 0 (copies of self-looping children included)."""
        transitions = [0] * self.places.hosts
        states = [0] * self.places.hosts
        automaton = self.automaton
        for state, owner in enumerate(self.owners):
            host = self.places.host(owner)
            transitions[host] += automaton.transitions(state)
            states[host] += 1
            edges = automaton.edges[state]
            below = edges.get(EPSILON) if edges else None
            if below is not None:
                transitions[host] += automaton.transitions(below)
        return transitions, states

    def shed(self, share: float = 0.10, replicas: int = 10, window: int = 100) -> int:
        """Copy hot states, by the accesses counted so far, until no peer has one. Returns how many are copied.

        A peer sheds its hottest state when that takes more than a share of the peer's messages; peers with fewer than
        `window` messages measure nothing. The start state is always copied.
        """
        keys = list(self.automaton.keys())
        by_owner: dict[int, list[int]] = defaultdict(list)
        for state in self.accesses:
            by_owner[self.owners[state]].append(state)
        hot = {0}
        for states in by_owner.values():
            total = sum(self.accesses[state] for state in states)
            for state in sorted(states, key=lambda state: -self.accesses[state]):
                if total < window or self.accesses[state] <= share * total:
                    break
                hot.add(state)
                total -= self.accesses[state] - self.accesses[state] // (replicas + 1)
        for state in sorted(hot):
            self.copies[state] = [self.places.owner(f"{keys[state]}#{copy}") for copy in range(1, replicas + 1)]
        return len(hot)

    def publish(self, document: Document, publisher: int) -> FilteringTally:
        """The recursive method with l = 0 for one message."""
        return self.publish_all([document], [publisher])[0]

    def publish_all(self, documents: Sequence[Document], publishers: Sequence[int]) -> list[FilteringTally]:
        """The recursive method with l = 0, by counting branches, for many messages at once.

        Args:
            documents: The messages.
            publishers: Index of the publishing node of each.
        """
        first = [self.places.hops(publisher, self.owners[0]) for publisher in publishers]
        tallies = [FilteringTally(1, hops, 1, hops) for hops in first]
        accesses: dict[int, int] = defaultdict(int, {0: len(documents)})
        matched: dict[int, int] = defaultdict(int)
        self._descend(merge_documents(documents), {0: (1, 0)}, 1, _Batch(tallies, first, accesses, matched))
        self._note_accesses(accesses)
        self._count_matches(tallies, matched)
        return tallies

    def _descend(self, path: LabelPath, states: dict[int, tuple[int, int]], depth: int, batch: _Batch) -> None:
        """Go on from the states that a label path leads to: state -> (branches, hops of the longest way)."""
        accepting, accesses, matched = self.automaton.accepting, batch.accesses, batch.matched
        for below in path.below.values():
            reached, messages, hops = self._reach(states, below.label)
            if not reached:
                continue
            longest = max(way for _, way in reached.values())
            elements = documents = 0
            for number, count in below.counts.items():
                tally = batch.tallies[number]
                tally.messages += count * messages
                tally.hops += count * hops
                tally.latency_steps = max(tally.latency_steps, depth + 1)
                tally.latency_hops = max(tally.latency_hops, batch.first[number] + longest)
                elements += count
                documents |= 1 << number
            for state, (branches, _) in reached.items():
                accesses[state] += branches * elements
                if accepting[state]:
                    matched[state] |= documents
            if below.below:
                self._descend(below, reached, depth + 1, batch)

    def _reach(self, states: dict[int, tuple[int, int]], label: str) -> tuple[dict[int, tuple[int, int]], int, int]:
        """What an element leads to from these states: states, messages, routed hops."""
        automaton, owners, hops_between = self.automaton, self.owners, self.places.hops
        reached: dict[int, tuple[int, int]] = {}
        messages = hops = 0
        for state, (branches, way) in states.items():
            for target in automaton.targets(state, label):
                step = hops_between(owners[state], owners[target])
                messages += branches
                hops += branches * step
                before = reached.get(target)
                if before is None:
                    reached[target] = branches, way + step
                else:
                    reached[target] = before[0] + branches, max(before[1], way + step)
        return reached, messages, hops

    def _note_accesses(self, accesses: Mapping[int, int]) -> None:
        places, owners, load = self.places, self.owners, self.load
        for state, number in accesses.items():
            self.accesses[state] += number
            holders = self.copies.get(state, ())
            share = number / (len(holders) + 1) if holders else number
            load[places.host(owners[state])] += share
            for holder in holders:
                load[places.host(holder)] += share

    def _count_matches(self, tallies: Sequence[FilteringTally], matched: Mapping[int, int]) -> None:
        queries: dict[int, int] = defaultdict(int)
        for state, documents in matched.items():
            queries[documents] += self.automaton.accepting[state]
        for documents, count in queries.items():
            while documents:
                lowest = documents & -documents
                tallies[lowest.bit_length() - 1].matched += count
                documents ^= lowest

    def publish_iteratively(self, document: Document, publisher: int) -> FilteringTally:
        """The iterative method for one message."""
        return self.publish_all_iteratively([document], [publisher])[0]

    def publish_all_iteratively(self, documents: Sequence[Document], publishers: Sequence[int]) -> list[FilteringTally]:
        """The iterative method: the publisher asks for every active state at every element, and waits for answers."""
        tallies = [FilteringTally() for _ in documents]
        matched: dict[int, int] = defaultdict(int)
        self._ask(merge_documents(documents), {0}, _Questions(tallies, publishers, matched))
        self._count_matches(tallies, matched)
        return tallies

    def _ask(self, path: LabelPath, states: set[int], batch: _Questions) -> None:
        """Ask for the states that are active at a label path, once for every element below it."""
        asked: dict[int, int] = defaultdict(int)
        for state in states:
            asked[self.owners[state]] += 1
        costs: dict[int, tuple[int, int]] = {}
        for below in path.below.values():
            documents = 0
            for number, count in below.counts.items():
                publisher, tally = batch.publishers[number], batch.tallies[number]
                if publisher not in costs:
                    costs[publisher] = self._question(asked, publisher)
                hops, slowest = costs[publisher]
                tally.messages += 2 * count * len(states)
                tally.hops += count * hops
                tally.latency_steps += 2 * count
                tally.latency_hops += count * slowest
                documents |= 1 << number
            reached = {target for state in states for target in self.automaton.targets(state, below.label)}
            for state in reached:
                if self.automaton.accepting[state]:
                    batch.matched[state] |= documents
            if reached and below.below:
                self._ask(below, reached, batch)

    def _question(self, asked: Mapping[int, int], publisher: int) -> tuple[int, int]:
        """Hops of all questions and answers for one element, and of the slowest."""
        places = self.places
        host = places.host(publisher)
        hops = slowest = 0
        for owner, number in asked.items():
            way = places.hops(publisher, owner) + int(places.host(owner) != host)
            hops += number * way
            slowest = max(slowest, way)
        return hops, slowest


@dataclass(frozen=True, slots=True)
class _Batch:
    """What is gathered while messages are published recursively."""

    tallies: Sequence[FilteringTally]
    first: Sequence[int]
    accesses: dict[int, int]
    matched: dict[int, int]


@dataclass(frozen=True, slots=True)
class _Questions:
    """What is gathered while messages are published iteratively."""

    tallies: Sequence[FilteringTally]
    publishers: Sequence[int]
    matched: dict[int, int]


def labels_of(path: str) -> list[str]:
    """The labels of a plain path in text, `/a//b/*`, as the generator makes it: names, wildcards, no predicates."""
    return [step or EPSILON for step in path[1:].split("/")]
