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


@carries(Traffic.MAINTENANCE, content=4)
class FindSuccessor(NamedTuple):
    """A routed question for the owner of an identifier. `token` comes back with the answer."""

    token: int


@carries(Traffic.MAINTENANCE, content=_REF_BYTES + 8)
class SuccessorReply(NamedTuple):
    """The answer to `FindSuccessor`, with the hops of the question."""

    token: int
    ref: Ref
    hops: int


@carries(Traffic.MAINTENANCE, content=_REF_BYTES)
class Join(NamedTuple):
    """The request of a new node to join, routed to its identifier: the owner takes it in as predecessor."""

    ref: Ref


@carries(Traffic.MAINTENANCE)
class Welcome(NamedTuple):
    """The answer to a new node: its predecessor, its successors, and the states that it owns from now on."""

    predecessor: Ref
    successors: tuple[Ref, ...]
    records: tuple[StateRecord, ...]

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + _REF_BYTES * (1 + len(self.successors)) + _records_bytes(self.records)


@carries(Traffic.MAINTENANCE)
class Refuse(NamedTuple):
    """The refusal to let a new node join at its identifier. Final if trying again cannot help."""

    reason: str
    final: bool

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.reason)


@carries(Traffic.MAINTENANCE, content=0)
class GetNeighbours(NamedTuple):
    """The question of stabilise for the predecessor and the successors of a node."""


@carries(Traffic.MAINTENANCE)
class Neighbours(NamedTuple):
    """The answer to `GetNeighbours`."""

    predecessor: Ref | None
    successors: tuple[Ref, ...]

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + _REF_BYTES * (1 + len(self.successors))


@carries(Traffic.MAINTENANCE, content=_REF_BYTES)
class NotifyPredecessor(NamedTuple):
    """The notify of Chord: the sender may be the receiver's predecessor."""

    ref: Ref


@carries(Traffic.MAINTENANCE, content=0)
class PredecessorPing(NamedTuple):
    """A sign of life. The acknowledgement of the link is the answer."""


@carries(Traffic.MAINTENANCE)
class LeaveRing(NamedTuple):
    """The goodbye of a node: to its successor with its states, to its predecessor without."""

    leaver: Ref
    predecessor: Ref | None
    successors: tuple[Ref, ...]
    records: tuple[StateRecord, ...]
    span: int

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + _REF_BYTES * (2 + len(self.successors)) + _records_bytes(self.records)


@carries(Traffic.MAINTENANCE, content=20 + _REF_BYTES)
class Located(NamedTuple):
    """An answer to the origin of a routed message: the owner of its identifier (ours; for the cache of addresses)."""

    identifier: int
    ref: Ref


# Copies.


@carries(Traffic.REPLICATION)
class Replicate(NamedTuple):
    """The states to merge. With a token, the sender waits for `Stored` (ours)."""

    records: tuple[StateRecord, ...]
    token: int = -1

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 4 + _records_bytes(self.records)


@carries(Traffic.REPLICATION, content=4)
class Stored(NamedTuple):
    """The answer to a `Release`, or to a `Replicate` or `Shed` with a token (ours)."""

    token: int


@carries(Traffic.REPLICATION, content=44)
class Pull(NamedTuple):
    """A request for the states in (low, high] that the receiver holds (ours)."""

    low: int
    high: int
    token: int


@carries(Traffic.REPLICATION)
class Pulled(NamedTuple):
    """The answer to `Pull` (ours)."""

    token: int
    records: tuple[StateRecord, ...]

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 4 + _records_bytes(self.records)


@carries(Traffic.REPLICATION, content=56)
class RangeDigest(NamedTuple):
    """The hash of the owner's states in (low, high]. The replica answers with its states if they differ (ours)."""

    low: int
    high: int
    digest: bytes


# Indexing.


@carries(Traffic.INDEXING)
class IndexQuery(NamedTuple):
    """One linear part of a query on its walk along its automaton; a withdrawal takes the same walk (ours: `present`).

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
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 32 + sum(len(label) + 1 for label in self.labels) + 16 * len(self.predicates)


@carries(Traffic.INDEXING)
class Indexed(NamedTuple):
    """A notice to the subscriber that the walk has reached its end (ours)."""

    claim: PartClaim
    time: float

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.claim.subscription.key) + 16


@carries(Traffic.INDEXING)
class PruneEdge(NamedTuple):
    """A request to the parent of an empty state to drop the edge, unless it was passed since (ours)."""

    parent: str
    label: str
    version: float

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.parent) + len(self.label) + 8


@carries(Traffic.INDEXING)
class EdgePruned(NamedTuple):
    """The answer to the child: the edge of this version is gone (ours)."""

    key: str
    version: float

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.key) + 8


@carries(Traffic.INDEXING)
class CopyEdgeGone(NamedTuple):
    """A notice to an ancestor with a copy of `state` in its fragment: its edge is gone since `time` (ours)."""

    ancestor: str
    state: str
    label: str
    time: float

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
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
    """A step of the recursive method: the receiver continues below element `at` in the state with this key.

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
        """Returns the estimated bytes on a wire."""
        document = self.publication.document
        content = document.size_bytes if self.whole else document.subtree_size(self.at)
        return HEADER_BYTES + 24 + content + len(self.key) + 8 * len(self.path)


@carries(Traffic.CONTROL)
class Branched(NamedTuple):
    """A report to the publisher that the expansion with this ticket is done (ours; confirms a publication).

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
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.name) + 20


@carries(Traffic.FILTERING)
class ExpandState(NamedTuple):
    """A question of the iterative method for the states that follow from this one on an element."""

    key: str
    label: str
    token: int
    hops: int = 0

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.key) + len(self.label) + 8


@carries(Traffic.FILTERING)
class CollectAccepted(NamedTuple):
    """A question of the iterative method for the claims of a state that is not expanded any further (ours)."""

    key: str
    token: int
    hops: int = 0

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.key) + 8


@carries(Traffic.FILTERING)
class Expanded(NamedTuple):
    """The answer to `ExpandState`: the next states (and whether the element was consumed), and the claims."""

    token: int
    targets: tuple[tuple[str, bool], ...]
    accepted: tuple[tuple[tuple[Predicate, ...], tuple[PartClaim, ...]], ...]
    hops: int

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        claims = sum(16 * len(predicates) + 24 * len(claims) for predicates, claims in self.accepted)
        return HEADER_BYTES + 8 + sum(len(key) + 2 for key, _ in self.targets) + claims


@carries(Traffic.FILTERING)
class Collected(NamedTuple):
    """The answer to `CollectAccepted`."""

    token: int
    accepted: tuple[tuple[tuple[Predicate, ...], tuple[PartClaim, ...]], ...]
    hops: int

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 8 + sum(16 * len(predicates) + 24 * len(claims) for predicates, claims in self.accepted)


@carries(Traffic.FILTERING)
class PartMatch(NamedTuple):
    """A report to the meeting point of a branching query: a part matched at these elements (ours).

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
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + 16 + len(self.name) + 8 * len(self.claim.plan) + 4 * len(self.elements)


@carries(Traffic.NOTIFICATION)
class Notify(NamedTuple):
    """A notice to a subscriber that these subscriptions match the message."""

    name: str
    keys: tuple[str, ...]

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return HEADER_BYTES + len(self.name) + sum(len(key) + 1 for key in self.keys)


# What a peer delivers to its application.


class Notification(NamedTuple):
    """A match of a subscription of this peer with a message. It is delivered once."""

    name: str
    key: str


class Subscribed(NamedTuple):
    """A confirmation that all replicas have this peer's subscription, or its withdrawal."""

    subscription: SubscriptionRef
    present: bool


class Published(NamedTuple):
    """A confirmation that a publication of this peer is complete: every branch was followed."""

    name: str
    attempts: int


class RingFailure(NamedTuple):
    """The final failure of a request of this peer's application."""

    what: str
    reason: str


class Joined(NamedTuple):
    """The event that this peer has become part of the ring."""

    ref: Ref


class Visited(NamedTuple):
    """An expansion that took place here, for measurements."""

    name: str
    key: str
    steps: int
    hops: int


class Suspected(NamedTuple):
    """A statement of another peer that cannot be true."""

    address: Address
    claim: str
