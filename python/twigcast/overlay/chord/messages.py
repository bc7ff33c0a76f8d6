"""The messages of the ring and of the automaton on it (Miliaraki 2008; the ones of ours are marked)."""

from __future__ import annotations

from typing import NamedTuple

from twigcast.overlay.chord.identifiers import Ref
from twigcast.overlay.chord.states import PartClaim, StateRecord, SubscriptionRef
from twigcast.overlay.core import HEADER_BYTES, Address, Traffic, carries
from twigcast.overlay.documents import Document
from twigcast.overlay.paths import Predicate

_REF_BYTES = 26


def _records_bytes(records: tuple[StateRecord, ...]) -> int:
    return sum(record.size_bytes() for record in records)


# The ring.


@carries(Traffic.MAINTENANCE)
class FindSuccessor(NamedTuple):
    """Routed to a place: who answers for it? `token` comes back with the answer."""

    token: int

    def size_bytes(self) -> int:
        """A header and a number."""
        return HEADER_BYTES + 4


@carries(Traffic.MAINTENANCE)
class SuccessorReply(NamedTuple):
    """The answer, with the hops the question took."""

    token: int
    ref: Ref
    hops: int

    def size_bytes(self) -> int:
        """A header, a reference, two numbers."""
        return HEADER_BYTES + _REF_BYTES + 8


@carries(Traffic.MAINTENANCE)
class Join(NamedTuple):
    """Routed to the place of a new node: take me in before you."""

    ref: Ref

    def size_bytes(self) -> int:
        """A header and a reference."""
        return HEADER_BYTES + _REF_BYTES


@carries(Traffic.MAINTENANCE)
class Welcome(NamedTuple):
    """To a new node: its predecessor, its successors, and the states that are its own from now on."""

    predecessor: Ref
    successors: tuple[Ref, ...]
    records: tuple[StateRecord, ...]

    def size_bytes(self) -> int:
        """References and states."""
        return HEADER_BYTES + _REF_BYTES * (1 + len(self.successors)) + _records_bytes(self.records)


@carries(Traffic.MAINTENANCE)
class Refuse(NamedTuple):
    """To a new node: you cannot join there. Final where trying again cannot help."""

    reason: str
    final: bool

    def size_bytes(self) -> int:
        """A header and a text."""
        return HEADER_BYTES + len(self.reason)


@carries(Traffic.MAINTENANCE)
class GetNeighbours(NamedTuple):
    """Stabilise: who is before you, who is after you?"""

    def size_bytes(self) -> int:
        """A header."""
        return HEADER_BYTES


@carries(Traffic.MAINTENANCE)
class Neighbours(NamedTuple):
    """The answer."""

    predecessor: Ref | None
    successors: tuple[Ref, ...]

    def size_bytes(self) -> int:
        """References."""
        return HEADER_BYTES + _REF_BYTES * (1 + len(self.successors))


@carries(Traffic.MAINTENANCE)
class NotifyPredecessor(NamedTuple):
    """Chord's notify: I may be your predecessor."""

    ref: Ref

    def size_bytes(self) -> int:
        """A header and a reference."""
        return HEADER_BYTES + _REF_BYTES


@carries(Traffic.MAINTENANCE)
class PredecessorPing(NamedTuple):
    """Are you there? The link's acknowledgement is the answer."""

    def size_bytes(self) -> int:
        """A header."""
        return HEADER_BYTES


@carries(Traffic.MAINTENANCE)
class LeaveRing(NamedTuple):
    """A node leaves in good order: to the successor with its states, to the predecessor without."""

    leaver: Ref
    predecessor: Ref | None
    successors: tuple[Ref, ...]
    records: tuple[StateRecord, ...]
    span: int

    def size_bytes(self) -> int:
        """References and states."""
        return HEADER_BYTES + _REF_BYTES * (2 + len(self.successors)) + _records_bytes(self.records)


@carries(Traffic.MAINTENANCE)
class Located(NamedTuple):
    """To the origin of a routed message: I answer for this place (ours; for the cache of addresses)."""

    identifier: int
    ref: Ref

    def size_bytes(self) -> int:
        """A header, a place, a reference."""
        return HEADER_BYTES + 20 + _REF_BYTES


# Copies.


@carries(Traffic.REPLICATION)
class Replicate(NamedTuple):
    """States to merge; with a token the sender waits for `Stored` (ours)."""

    records: tuple[StateRecord, ...]
    token: int = -1

    def size_bytes(self) -> int:
        """States and a number."""
        return HEADER_BYTES + 4 + _records_bytes(self.records)


@carries(Traffic.REPLICATION)
class Stored(NamedTuple):
    """The answer to a `Release`, or to a `Replicate` or `Shed` with a token (ours)."""

    token: int

    def size_bytes(self) -> int:
        """A header and a number."""
        return HEADER_BYTES + 4


@carries(Traffic.REPLICATION)
class Pull(NamedTuple):
    """Send me the states in (low, high] that you hold (ours)."""

    low: int
    high: int
    token: int

    def size_bytes(self) -> int:
        """A header and three numbers."""
        return HEADER_BYTES + 44


@carries(Traffic.REPLICATION)
class Pulled(NamedTuple):
    """The answer."""

    token: int
    records: tuple[StateRecord, ...]

    def size_bytes(self) -> int:
        """States and a number."""
        return HEADER_BYTES + 4 + _records_bytes(self.records)


@carries(Traffic.REPLICATION)
class RangeDigest(NamedTuple):
    """The owner's states in (low, high], as one hash; the replica answers with its own where they differ (ours)."""

    low: int
    high: int
    digest: bytes

    def size_bytes(self) -> int:
        """A header, two places, a hash."""
        return HEADER_BYTES + 56


# Indexing.


@carries(Traffic.INDEXING)
class IndexQuery(NamedTuple):
    """One linear part of a query on its walk along its automaton; withdrawn by the same walk (ours: `present`).

    Attributes:
        labels: The edges of the part's automaton.
        predicates: Its conditions.
        claim: Whose it is.
        depth: Number of labels consumed; the receiver owns that state.
        time: The subscriber's clock when he registered or withdrew.
        present: False to withdraw.
        edge_version: Version of the edge passed last.
    """

    labels: tuple[str, ...]
    predicates: tuple[Predicate, ...]
    claim: PartClaim
    depth: int
    time: float
    present: bool = True
    edge_version: float = 0

    def size_bytes(self) -> int:
        """Labels, conditions, subscriber."""
        return HEADER_BYTES + 32 + sum(len(label) + 1 for label in self.labels) + 16 * len(self.predicates)


@carries(Traffic.INDEXING)
class Indexed(NamedTuple):
    """To the subscriber: the walk has reached its end (ours)."""

    claim: PartClaim
    time: float

    def size_bytes(self) -> int:
        """A header, a key, two numbers."""
        return HEADER_BYTES + len(self.claim.subscription.key) + 16


@carries(Traffic.INDEXING)
class PruneEdge(NamedTuple):
    """To the parent of a state that nothing depends on: drop the edge, unless it was passed since (ours)."""

    parent: str
    label: str
    version: float

    def size_bytes(self) -> int:
        """A key, a label, a number."""
        return HEADER_BYTES + len(self.parent) + len(self.label) + 8


@carries(Traffic.INDEXING)
class EdgePruned(NamedTuple):
    """Back to the child: the edge of this version is gone (ours)."""

    key: str
    version: float

    def size_bytes(self) -> int:
        """A key and a number."""
        return HEADER_BYTES + len(self.key) + 8


@carries(Traffic.INDEXING)
class CopyEdgeGone(NamedTuple):
    """To an ancestor whose fragment holds a copy of `state`: its edge is gone since `time` (ours)."""

    ancestor: str
    state: str
    label: str
    time: float

    def size_bytes(self) -> int:
        """Two keys, a label, a number."""
        return HEADER_BYTES + len(self.ancestor) + len(self.state) + len(self.label) + 8


# Filtering.


class Publication(NamedTuple):
    """One attempt at publishing a message or a fragment of it."""

    name: str
    publisher: Address
    attempt: int
    confirm: bool
    document: Document


@carries(Traffic.FILTERING)
class RecExpand(NamedTuple):
    """Recursive method: continue below element `at` in the state with this key.

    Attributes:
        key: The state.
        publication: The message.
        at: Index of the element that led here; -1 for the document node.
        path: Indexes of the elements consumed so far, one a step.
        steps: Logical steps so far.
        hops: Routed hops before this message was sent.
        copy: Which holder of a hot state was chosen; 0 for the owner.
        whole: The whole message travels, not just the part below `at`.
        ticket: Number of this expansion, by which the publisher learns that it was done; 0 where it does not care.
    """

    key: str
    publication: Publication
    at: int
    path: tuple[int, ...]
    steps: int = 0
    hops: int = 0
    copy: int = 0
    whole: bool = True
    ticket: int = 0

    def size_bytes(self) -> int:
        """The message, the key, the path."""
        document = self.publication.document
        content = document.size_bytes if self.whole else document.subtree_size(self.at)
        return HEADER_BYTES + 24 + content + len(self.key) + 8 * len(self.path)


@carries(Traffic.CONTROL)
class Branched(NamedTuple):
    """To the publisher: the expansion with this ticket was done (ours; confirms a publication).

    Attributes:
        name: The message.
        attempt: The attempt at publishing.
        ticket: The ticket of what was done.
        spawned: The tickets of what it led to, combined by exclusive or.
    """

    name: str
    attempt: int
    ticket: int
    spawned: int

    def size_bytes(self) -> int:
        """A header, a name, three numbers."""
        return HEADER_BYTES + len(self.name) + 20


@carries(Traffic.FILTERING)
class ExpandState(NamedTuple):
    """Iterative method: which states follow from this one on an element?"""

    key: str
    label: str
    token: int
    hops: int = 0

    def size_bytes(self) -> int:
        """A key, a label, a number."""
        return HEADER_BYTES + len(self.key) + len(self.label) + 8


@carries(Traffic.FILTERING)
class CollectAccepted(NamedTuple):
    """Iterative method: whom does this state accept? Asked for states that are not expanded any further (ours)."""

    key: str
    token: int
    hops: int = 0

    def size_bytes(self) -> int:
        """A key and a number."""
        return HEADER_BYTES + len(self.key) + 8


@carries(Traffic.FILTERING)
class Expanded(NamedTuple):
    """The answer to both: next states (and whether the element was consumed), claims with their predicates."""

    token: int
    targets: tuple[tuple[str, bool], ...]
    accepted: tuple[tuple[tuple[Predicate, ...], tuple[PartClaim, ...]], ...]
    hops: int

    def size_bytes(self) -> int:
        """Keys and claims."""
        claims = sum(16 * len(predicates) + 24 * len(claims) for predicates, claims in self.accepted)
        return HEADER_BYTES + 8 + sum(len(key) + 2 for key, _ in self.targets) + claims


@carries(Traffic.FILTERING)
class Collected(NamedTuple):
    """The answer to `CollectAccepted`."""

    token: int
    accepted: tuple[tuple[tuple[Predicate, ...], tuple[PartClaim, ...]], ...]
    hops: int

    def size_bytes(self) -> int:
        """Claims."""
        return HEADER_BYTES + 8 + sum(16 * len(predicates) + 24 * len(claims) for predicates, claims in self.accepted)


@carries(Traffic.FILTERING)
class PartMatch(NamedTuple):
    """To the meeting point of a branching query: a part matched at these elements (ours).

    Attributes:
        name: The message.
        claim: Subscription, part and plan.
        elements: L of the elements at the part's own anchor and at the anchors of the parts that hang on it.
        publisher: Who wants to know that the match arrived; -1 for nobody.
        attempt: The attempt at publishing.
        ticket: As in `RecExpand`.
    """

    name: str
    claim: PartClaim
    elements: tuple[int, ...]
    publisher: Address
    attempt: int
    ticket: int = 0

    def size_bytes(self) -> int:
        """Names, plan and elements."""
        return HEADER_BYTES + 16 + len(self.name) + 8 * len(self.claim.plan) + 4 * len(self.elements)


@carries(Traffic.NOTIFICATION)
class Notify(NamedTuple):
    """To a subscriber: these subscriptions match the message."""

    name: str
    keys: tuple[str, ...]

    def size_bytes(self) -> int:
        """A name and the keys."""
        return HEADER_BYTES + len(self.name) + sum(len(key) + 1 for key in self.keys)


# What a peer delivers to its application.


class Notification(NamedTuple):
    """A subscription of this peer matches a message; delivered once."""

    name: str
    key: str


class Subscribed(NamedTuple):
    """The overlay has this peer's subscription (or its withdrawal) in all its replicas."""

    subscription: SubscriptionRef
    present: bool


class Published(NamedTuple):
    """A publication of this peer is complete: every branch was followed."""

    name: str
    attempts: int


class RingFailure(NamedTuple):
    """Something this peer was asked to do failed for good."""

    what: str
    reason: str


class Joined(NamedTuple):
    """This peer is part of the ring."""

    ref: Ref


class Visited(NamedTuple):
    """An expansion took place here (for measurements)."""

    name: str
    key: str
    steps: int
    hops: int


class Suspected(NamedTuple):
    """Another peer told something that cannot be true."""

    address: Address
    claim: str
