"""The messages of the ring and of the automaton on it (Miliaraki 2008; the ones of ours are marked)."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from twigcast.overlay.chord.states import PartClaim, Registration, StateRecord, SubscriptionRef
from twigcast.overlay.chord.table import Ref
from twigcast.overlay.core import Address, Traffic, carries
from twigcast.overlay.documents import Document
from twigcast.overlay.paths import Predicate

_REF_BYTES = 26


#: What a state accepts: claims, with their versions, by the predicates that they depend on.
Accepted: TypeAlias = tuple[tuple[tuple[Predicate, ...], tuple[tuple[PartClaim, Registration], ...]], ...]


def _records_bytes(records: tuple[StateRecord, ...]) -> int:
    return sum(record.size_bytes() for record in records)


def _claims_bytes(accepted: Accepted) -> int:
    return sum(16 * len(predicates) + 32 * len(claims) for predicates, claims in accepted)


# The ring.


@carries(Traffic.MAINTENANCE, 4)
class FindSuccessor(NamedTuple):
    """A routed question for the owner of an identifier. `token` comes back with the answer."""

    token: int


@carries(Traffic.MAINTENANCE, _REF_BYTES + 8)
class SuccessorReply(NamedTuple):
    """The answer to `FindSuccessor`, with the hops of the question."""

    token: int
    ref: Ref
    hops: int


@carries(Traffic.MAINTENANCE, _REF_BYTES)
class Join(NamedTuple):
    """The request of a new node to join, routed to its identifier: the owner takes it in as predecessor."""

    ref: Ref


@carries(Traffic.MAINTENANCE, lambda m: _REF_BYTES * (1 + len(m.successors)) + _records_bytes(m.records))
class Welcome(NamedTuple):
    """The answer to a new node: its predecessor, its successors, and the states that it owns from now on."""

    predecessor: Ref
    successors: tuple[Ref, ...]
    records: tuple[StateRecord, ...]


@carries(Traffic.MAINTENANCE, lambda m: len(m.reason))
class Refuse(NamedTuple):
    """The refusal to let a new node join at its identifier. Final if trying again cannot help."""

    reason: str
    final: bool


@carries(Traffic.MAINTENANCE, 0)
class GetNeighbours(NamedTuple):
    """The question of stabilise for the predecessor and the successors of a node."""


@carries(Traffic.MAINTENANCE, lambda m: _REF_BYTES * (1 + len(m.successors)))
class Neighbours(NamedTuple):
    """The answer to `GetNeighbours`."""

    predecessor: Ref | None
    successors: tuple[Ref, ...]


@carries(Traffic.MAINTENANCE, _REF_BYTES)
class NotifyPredecessor(NamedTuple):
    """The notify of Chord: the sender may be the receiver's predecessor."""

    ref: Ref


@carries(Traffic.MAINTENANCE, 0)
class PredecessorPing(NamedTuple):
    """A sign of life. The acknowledgement of the link is the answer."""


@carries(Traffic.MAINTENANCE, lambda m: _REF_BYTES * (2 + len(m.successors)) + _records_bytes(m.records))
class LeaveRing(NamedTuple):
    """The notice of a leaving node: to its successor with its states, to its predecessor without."""

    leaver: Ref
    predecessor: Ref | None
    successors: tuple[Ref, ...]
    records: tuple[StateRecord, ...]
    span: int


@carries(Traffic.MAINTENANCE, 20 + _REF_BYTES)
class Located(NamedTuple):
    """An answer to the origin of a routed message: the owner of its identifier (ours; for the cache of addresses)."""

    identifier: int
    ref: Ref


# Copies.


@carries(Traffic.REPLICATION, lambda m: 4 + _records_bytes(m.records))
class Replicate(NamedTuple):
    """The states to merge. With a token, the sender waits for `Stored` (ours)."""

    records: tuple[StateRecord, ...]
    token: int = -1


@carries(Traffic.REPLICATION, 4)
class Stored(NamedTuple):
    """The answer to a `Release`, or to a `Replicate` or `Shed` with a token (ours)."""

    token: int


@carries(Traffic.REPLICATION, 44)
class Pull(NamedTuple):
    """A request for the states in (low, high] that the receiver holds (ours)."""

    low: int
    high: int
    token: int


@carries(Traffic.REPLICATION, lambda m: 4 + _records_bytes(m.records))
class Pulled(NamedTuple):
    """The answer to `Pull` (ours)."""

    token: int
    records: tuple[StateRecord, ...]


@carries(Traffic.REPLICATION, 56)
class RangeDigest(NamedTuple):
    """The hash of the owner's states in (low, high]. The replica answers with its states if they differ (ours)."""

    low: int
    high: int
    digest: bytes


# Indexing.


@carries(Traffic.INDEXING, lambda m: 32 + sum(len(label) + 1 for label in m.labels) + 16 * len(m.predicates))
class IndexQuery(NamedTuple):
    """A linear part of a query on its walk along its automaton. A withdrawal takes the same walk (ours)."""

    labels: tuple[str, ...]  #: The edges of the part's automaton.
    predicates: tuple[Predicate, ...]  #: Its conditions.
    claim: PartClaim  #: Whose it is.
    depth: int  #: Number of labels consumed; the receiver owns that state.
    registration: Registration  #: The making of the claim, or its withdrawal.
    edge_version: int = 0  #: Version of the edge passed last.


@carries(Traffic.INDEXING, lambda m: len(m.claim.subscription.key) + 16)
class Indexed(NamedTuple):
    """A notice to the subscriber that the walk has reached its end (ours)."""

    claim: PartClaim
    version: int  #: Of the registration.


@carries(Traffic.INDEXING, lambda m: len(m.parent) + len(m.label) + 8)
class PruneEdge(NamedTuple):
    """A request to the parent of an empty state to drop the edge, unless it was passed since (ours)."""

    parent: str
    label: str
    version: int


@carries(Traffic.INDEXING, lambda m: len(m.key) + 8)
class EdgePruned(NamedTuple):
    """The answer to the child: the edge of this version is gone (ours)."""

    key: str
    version: int


@carries(Traffic.INDEXING, lambda m: len(m.ancestor) + len(m.state) + len(m.label))
class CopyEdgeGone(NamedTuple):
    """A notice to an ancestor with a copy of `state` in its fragment: this edge of the state is gone (ours)."""

    ancestor: str
    state: str
    label: str


# Filtering.


class Publication(NamedTuple):
    """One attempt at publishing a message or a fragment of it. The message is known by its publisher and its name."""

    name: str
    publisher: Address
    attempt: int  #: A number that the publisher has given to nothing else.
    confirm: bool
    document: Document


class PathMatch(NamedTuple):
    """A match of the labels so far, from which a branch of the recursive method goes on."""

    at: int  #: Index of the element that led there; -1 for the document node.
    path: tuple[int, ...]  #: Indexes of the elements consumed so far, one a step.


def _expand_bytes(message: RecExpand) -> int:
    document, matches = message.publication.document, message.matches
    content = document.size_bytes
    if not message.whole:
        content = min(content, sum(document.subtree_size(match.at) for match in matches))
    return 16 + content + len(message.key) + sum(8 * (1 + len(match.path)) for match in matches)


@carries(Traffic.FILTERING, _expand_bytes)
class RecExpand(NamedTuple):
    """A step of the recursive method: the receiver continues below some elements in the state with this key."""

    key: str  #: The state.
    publication: Publication  #: The message.
    matches: tuple[PathMatch, ...]  #: Where it continues; one, unless peers bundle branches.
    steps: int = 0  #: Logical steps so far.
    hops: int = 0  #: Routed hops before this message was sent.
    copy: int = 0  #: Which holder of a hot state was chosen; 0 for the owner.
    whole: bool = True  #: The whole message travels, not just the parts below these elements.
    #: Number of this expansion, by which the publisher learns that it was done; 0 where it does not care.
    ticket: int = 0


@carries(Traffic.CONTROL, lambda m: len(m.name) + 20 + 16 * len(m.failed))
class Branched(NamedTuple):
    """A report to the publisher that what has this ticket is done (ours; confirms a publication)."""

    name: str  #: The message.
    attempt: int  #: The attempt at publishing.
    ticket: int  #: The ticket of what was done.
    spawned: int  #: The tickets of what it led to, combined by exclusive or.
    failed: tuple[SubscriptionRef, ...] = ()  #: The subscriptions whose subscriber could not be notified.


@carries(Traffic.FILTERING, lambda m: len(m.key) + len(m.label) + 8)
class ExpandState(NamedTuple):
    """A question of the iterative method for the states that follow from this one on an element."""

    key: str
    label: str
    token: int
    hops: int = 0


@carries(Traffic.FILTERING, lambda m: len(m.key) + 8)
class CollectAccepted(NamedTuple):
    """A question of the iterative method for the claims of a state that is not expanded any further (ours)."""

    key: str
    token: int
    hops: int = 0


@carries(Traffic.FILTERING, lambda m: 8 + sum(len(key) + 2 for key, _ in m.targets) + _claims_bytes(m.accepted))
class Expanded(NamedTuple):
    """The answer to `ExpandState`: the next states (and whether the element was consumed), and the claims."""

    token: int
    targets: tuple[tuple[str, bool], ...]
    accepted: Accepted
    hops: int


@carries(Traffic.FILTERING, lambda m: 8 + _claims_bytes(m.accepted))
class Collected(NamedTuple):
    """The answer to `CollectAccepted`."""

    token: int
    accepted: Accepted
    hops: int


@carries(Traffic.FILTERING, lambda m: 24 + len(m.name) + 8 * len(m.claim.plan) + 4 * sum(map(len, m.matches)))
class PartMatch(NamedTuple):
    """A report to the meeting point of a branching query: where a part has matched (ours)."""

    name: str  #: The message, by its publisher.
    publisher: Address
    claim: PartClaim  #: Subscription, part and plan.
    version: int  #: Of the subscription.
    #: Of each match, L of the elements at the part's own anchor and at the anchors of the parts that hang on it.
    matches: tuple[tuple[int, ...], ...]
    attempt: int  #: The attempt at publishing.
    ticket: int = 0  #: As in `RecExpand`.


@carries(Traffic.NOTIFICATION, lambda m: 24 + len(m.name) + sum(len(key) + 9 for key, _ in m.subscriptions))
class Notify(NamedTuple):
    """A notice to a subscriber that these subscriptions match the message."""

    name: str  #: The message, by its publisher.
    publisher: Address
    subscriptions: tuple[tuple[str, int], ...]  #: The key and version of each.
    attempt: int  #: The attempt at publishing.
    ticket: int = 0  #: As in `RecExpand`.


# Load shedding (section 6.4).


@carries(Traffic.BALANCING, lambda m: 12 + m.record.size_bytes())
class Shed(NamedTuple):
    """The present version of a hot state, routed to the position of copy number `copy`."""

    record: StateRecord  #: The state.
    copy: int  #: Which copy.
    token: int = -1  #: For the answer (`Stored`), where the owner waits for it.
    question: int = -1  #: The number of the `CopyRequest` that this answers.


@carries(Traffic.BALANCING, lambda m: len(m.key) + 8)
class CopyRequest(NamedTuple):
    """A request for a hot state, routed to its owner by a holder that has no copy yet."""

    key: str
    copy: int
    question: int


@carries(Traffic.BALANCING, lambda m: len(m.key) + 16)
class Release(NamedTuple):
    """A request to a holder to drop copies up to this version, since the state is no longer hot.

    It answers `Stored`.
    """

    key: str
    copy: int
    version: int
    token: int


@carries(Traffic.BALANCING, lambda m: len(m.key) + 4)
class ReplicaInfo(NamedTuple):
    """A notice to a requester that the state has this many copies, of which it may choose."""

    key: str
    copies: int


# What a peer delivers to its application.


class Notification(NamedTuple):
    """A match of a subscription of this peer with a message. It is delivered once."""

    name: str  #: The message, by its publisher.
    key: str
    publisher: Address


class Subscribed(NamedTuple):
    """A confirmation that all replicas have this peer's subscription, or its withdrawal."""

    subscription: SubscriptionRef
    present: bool


class Published(NamedTuple):
    """A confirmation that a publication of this peer is complete.

    Every branch was followed, and every notification has arrived, but for those that failed.
    """

    name: str
    attempts: int
    failed: tuple[SubscriptionRef, ...] = ()  #: The subscriptions whose subscriber could not be notified.


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
