"""States of the distributed automaton and the store a peer keeps them in (Miliaraki 2008, section 4).

A state's key is the string of labels that leads to it, so that any peer can compute where its neighbours are. A state
owns its *fragment*: copies of the states that can be reached from it by at most l symbols, where edges into
self-looping states are free. With l = 0 the fragment holds just the self-looping child, if there is one.

Copies of a state on several peers may be changed while they cannot see each other, so a state is built to be merged: an
edge carries a version that only grows (negative: the edge is gone), a registration the version its subscriber gave it.
Merging takes the newer of each; it is commutative, associative and idempotent. Where an edge was passed at one peer and
dropped at another that did not know of it, it stays: an edge left over costs a message now and then, a missing one
would lose matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from twigcast.overlay.chord.table import identifier_of_key
from twigcast.overlay.core import HEADER_BYTES, Address
from twigcast.overlay.paths import EPSILON, WILDCARD, Predicate


class SubscriptionRef(NamedTuple):
    """A subscriber's address, with his own key of a subscription."""

    subscriber: Address
    key: str


class PartClaim(NamedTuple):
    """One linear part of a subscription, as an accepting state lists it."""

    subscription: SubscriptionRef  #: Whose it is.
    part: int = 0  #: Number of the part; 0 is the main path.
    plan: tuple[tuple[int, int], ...] = ()  #: Parent and anchor of every part; empty for a query of one part.


class Registration(NamedTuple):
    """The making or withdrawal of a claim.

    Versions are counted by the subscriber, also over its lives. The time, by its clock, only serves to forget.
    """

    version: int
    present: bool
    time: float = 0.0


class Shedding(NamedTuple):
    """The copies of a state at extra holders. This travels with the state, so that its next owner has it."""

    version: int = 0  #: Grows with every change; the newer of two wins.
    copies: int = 0  #: Number of extra holders; 0 for none.


class StateRecord(NamedTuple):
    """A state as it travels."""

    key: str
    edges: tuple[tuple[str, int], ...]
    accepted: tuple[tuple[tuple[Predicate, ...], tuple[tuple[PartClaim, Registration], ...]], ...]
    edge_version: int
    fragment: tuple[StateRecord, ...]
    shedding: Shedding = Shedding()

    def size_bytes(self) -> int:
        """Returns the estimated bytes of key, edges, claims and fragment."""
        own = HEADER_BYTES + len(self.key) + sum(len(label) + 8 for label, _ in self.edges)
        claims = sum(16 * len(predicates) + 32 * len(claims) for predicates, claims in self.accepted)
        return own + claims + sum(copy.size_bytes() for copy in self.fragment)


@dataclass(slots=True, eq=False)
class State:
    """One state, or the copy of one inside a fragment. Tables that are often empty are `None` then, to save memory."""

    key: str  #: Labels from the start state, joined by slashes.
    edges: dict[str, int] = field(default_factory=dict)  #: By label, the version of the edge; negative: removed.
    #: Claims by the predicates that they depend on, so that equal predicates are evaluated once.
    accepted: dict[tuple[Predicate, ...], dict[PartClaim, Registration]] | None = None
    edge_version: int = 0  #: Version of the edge that leads here, as the parent's peer counted it.
    fragment: dict[str, State] | None = None  #: Copies of the states within reach, by key.
    shedding: Shedding = field(default_factory=Shedding)  #: Extra holders of a hot state.
    informed: set[Address] | None = None  #: Requesters that know of them.
    walked: dict[str, float] | None = None  #: By label, when a query last passed the edge, as far as is known here.
    pruned: int = -1  #: Version of the edge that led here, once it is known to be gone.

    @property
    def loops(self) -> bool:
        """True for a state with a self-loop."""
        return self.key.endswith("/" + EPSILON)

    def transitions(self) -> int:
        """Returns the size of the state as the paper counts it: edges, and the self-loop."""
        return sum(version > 0 for version in self.edges.values()) + self.loops

    def has_edge(self, label: str) -> bool:
        """Returns whether there is an edge with this label."""
        return self.edges.get(label, 0) > 0

    def walk_edge(self, label: str) -> int:
        """Notes the passage of a query over an edge, and creates a missing one. Returns its new version."""
        version = abs(self.edges.get(label, 0)) + 1
        self.edges[label] = version
        return version

    def is_quiet(self, label: str, now: float, age: float) -> bool:
        """Returns whether no query passed an edge for so long. The time of an edge not seen before counts from now."""
        if self.walked is None:
            self.walked = {}
        return now - self.walked.setdefault(label, now) >= age

    def note_walk(self, label: str, now: float) -> None:
        """Notes the passage of a query over an edge."""
        if self.walked is None:
            self.walked = {}
        self.walked[label] = now

    def drop_edge(self, label: str, version: int) -> bool:
        """Removes an edge unless a query passed it since `version`. Returns whether it is gone."""
        if self.edges.get(label, 0) <= 0:
            return True
        if self.edges[label] != version:
            return False
        self.edges[label] = -version - 1
        return True

    def register(self, predicates: tuple[Predicate, ...], claim: PartClaim, registration: Registration) -> None:
        """Notes a claim, or its withdrawal, unless something newer is registered."""
        if self.accepted is None:
            self.accepted = {}
        claims = self.accepted.setdefault(predicates, {})
        existing = claims.get(claim)
        if existing is None or existing < registration:
            claims[claim] = registration

    def is_empty(self) -> bool:
        """Returns whether nothing depends on the state any more."""
        if any(version > 0 for version in self.edges.values()):
            return False
        groups = self.accepted.values() if self.accepted else ()
        return not any(registration.present for claims in groups for registration in claims.values())

    def copy_of(self, key: str) -> State:
        """Returns the fragment's copy of a state, and creates a missing one."""
        if self.fragment is None:
            self.fragment = {}
        copy = self.fragment.get(key)
        if copy is None:
            copy = self.fragment[key] = State(key)
        return copy

    def targets(self, label: str, fragment: State) -> Iterator[tuple[str, bool]]:
        """Yields the keys of the states reached by an element, and whether it was consumed (not by a self-loop).

        The self-looping child is in the fragment of the state `fragment`.
        """
        key = self.key
        if self.has_edge(label):
            yield f"{key}/{label}", True
        if self.has_edge(WILDCARD):
            yield f"{key}/{WILDCARD}", True
        if self.loops:
            yield key, False
        elif self.has_edge(EPSILON):
            below = f"{key}/{EPSILON}"
            copy = fragment.fragment.get(below) if fragment.fragment else None
            if copy is not None:
                yield from copy.targets(label, fragment)

    def record(self) -> StateRecord:
        """Returns the state as it travels."""
        groups = self.accepted or {}
        return StateRecord(
            self.key,
            tuple(sorted(self.edges.items())),
            tuple(
                (predicates, tuple(sorted(claims.items()))) for predicates, claims in sorted(groups.items(), key=repr)
            ),
            self.edge_version,
            tuple(self.fragment[key].record() for key in sorted(self.fragment)) if self.fragment else (),
            self.shedding,
        )

    def merge(self, record: StateRecord) -> None:
        """Takes over what is newer in a copy from elsewhere."""
        for label, version in record.edges:
            existing = self.edges.get(label, 0)
            if abs(version) > abs(existing) or (abs(version) == abs(existing) and version > existing):
                self.edges[label] = version
        for predicates, claims in record.accepted:
            for claim, registration in claims:
                self.register(predicates, claim, registration)
        self.edge_version = max(self.edge_version, record.edge_version)
        self.shedding = max(self.shedding, record.shedding)
        for copy in record.fragment:
            self.copy_of(copy.key).merge(copy)

    def forget_withdrawn(self, before: float) -> None:
        """Drops the notes of claims that were withdrawn long ago."""
        for predicates, claims in list((self.accepted or {}).items()):
            for claim in [c for c, r in claims.items() if not r.present and r.time < before]:
                del claims[claim]
            if not claims and self.accepted:
                del self.accepted[predicates]


@dataclass(slots=True, eq=False)
class StateStore:
    """The states a peer holds, as owner or as replica, by key."""

    bits: int
    states: dict[str, State] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.states)

    def get(self, key: str) -> State | None:
        """Returns the state with a key, if held."""
        return self.states.get(key)

    def ensure(self, key: str) -> State:
        """Returns the state with a key, and creates a missing one."""
        state = self.states.get(key)
        if state is None:
            state = self.states[key] = State(key)
        return state

    def merge(self, records: Iterable[StateRecord]) -> None:
        """Takes over what is newer in states from elsewhere."""
        for record in records:
            self.ensure(record.key).merge(record)

    def in_range(self, low: int, high: int) -> list[State]:
        """Returns the states with keys in (low, high], in the order of their keys' text."""
        circle = 1 << self.bits
        span = (high - low) % circle or circle
        return [
            state
            for key, state in sorted(self.states.items())
            if 0 < ((identifier_of_key(key, self.bits) - low) % circle or circle) <= span
        ]
