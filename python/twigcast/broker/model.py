"""The values that the broker stores and passes on.

A *queue* is the ordered queue of deliveries of one subscriber. A subscription that names no subscriber has a
subscriber of its own, under its key. Streams, pulls, webhooks and feeds all read queues.

Each accepted message gets a *sequence number*, which grows over all tenants and may have gaps. A delivery
is the pair of a message and a subscription, so its id is made of both numbers, and sorts as they do. Times are for
people and retention; no order depends on a clock.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from twigcast.broker.errors import IdReused
from twigcast.registration import NO_PARAMS, Dialect, Params


class Scope(enum.StrEnum):
    """A permission of a token."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"


_XML_DECLARATION: Final = tuple(b"<?xml" + space for space in (b" ", b"\t", b"\r", b"\n"))


@dataclass(frozen=True, slots=True)
class Tenant:
    """A party that sees only its own sources, messages and subscriptions."""

    id: int
    name: str
    limits: Mapping[str, int] = field(default_factory=dict)
    """Limits that differ from the broker's: see ``config.TenantLimits``."""


@dataclass(frozen=True, slots=True)
class Token:
    """An API token, without its secret, which is never stored."""

    id: int
    tenant_id: int
    name: str
    scopes: frozenset[Scope]
    digest: bytes
    """SHA-256 of the secret, which is random and long, so that no slow hash is needed."""
    created: float


SourceKind = Literal["push", "rss", "atom", "http-folder"]

UpdateMode = Literal["ignore", "updated", "content"]
"""When an entry of a feed is published again that changed under its id: never, with a later date, or always."""


@dataclass(frozen=True, slots=True)
class Source:
    """An origin of messages: a publisher that pushes, or a feed that the broker polls."""

    id: int
    tenant_id: int
    name: str
    kind: SourceKind
    url: str | None = None
    """Address of the feed."""
    interval: float = 300.0
    """Seconds between polls."""
    dtd: str | None = None
    """Text of a DTD that its messages are said to follow; used for hints, not for validation."""
    paused: bool = False
    state: Mapping[str, Any] = field(default_factory=dict)
    """State of polling: ``etag``, ``last_modified``, ``last_poll``, ``last_error``, ``failures``."""
    updates: UpdateMode = "ignore"
    follow: Sequence[str] = ()
    """Media types of the linked documents that are published in place of entries."""
    follow_hosts: Sequence[str] = ()
    """Hosts beside that of the feed to which links may lead."""


DIGEST_BYTES: Final = 16
"""Bytes of the digest of a publication: as many as nobody finds two bodies for by chance."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A message as it is published, before it is read."""

    tenant_id: int
    body: bytes
    source: str = "default"
    message_id: str | None = None
    """The publisher's own id. A message with the same id from the same source is accepted once."""
    charset: str | None = None
    """Charset of the transport; it overrides the declaration in the document (RFC 7303)."""

    def digest(self) -> bytes:
        """Returns a digest of the bytes that were sent: a repetition has the same, another message has not."""
        return hashlib.sha256(self.body).digest()[:DIGEST_BYTES]


@dataclass(frozen=True, slots=True, eq=False)
class StoredMessage:
    """An accepted message. All its deliveries share the object, so that forms of it can be cached by identity."""

    seq: int
    tenant_id: int
    source: str
    message_id: str
    received: float
    """Seconds since the epoch."""
    xml: bytes
    matches: int = 0
    id_types: bytes | None = None
    """A short DOCTYPE with the ID attributes that the message declared, if there were any. Nobody is handed that."""
    digest: bytes | None = None
    """See :meth:`Submission.digest`. ``None`` where any body counts as a repetition: for ids that the broker assigned,
    messages of other brokers, and those stored by older brokers."""

    @property
    def with_ids(self) -> bytes:
        """The message as queries are evaluated on it: ``id()`` finds what it found when the message came."""
        if not self.id_types:
            return self.xml
        start = self.id_types_start
        return self.xml[:start] + self.id_types + self.xml[start:]

    @property
    def id_types_start(self) -> int:
        """Returns where :attr:`id_types` stand in :attr:`with_ids`: nothing may stand before an XML declaration."""
        return self.xml.index(b"?>") + 2 if self.xml.startswith(_XML_DECLARATION) else 0


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer to a publisher, once the message is durably stored."""

    seq: int
    message_id: str
    matches: int
    duplicate: bool = False
    """Whether it was stored before under this id; then nothing was delivered again."""


@dataclass(frozen=True, slots=True)
class RejectedRecord:
    """A message that could not be processed, stored whole with the reason."""

    id: int
    tenant_id: int
    source: str
    message_id: str | None
    received: float
    body: bytes
    code: str
    reason: str
    line: int | None = None
    column: int | None = None


PublishOutcome: TypeAlias = Accepted | RejectedRecord | IdReused
"""What becomes of one message of a publication."""


PULL: Final = "pull"
"""The kind of all deliveries that the subscriber fetches: pull, Server-Sent Events, WebSocket, Atom."""


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """The way in which a subscriber receives its deliveries."""

    kind: str = PULL
    """``pull``, or the name of a channel in :mod:`twigcast.broker.delivery.channels`."""
    url: str | None = None
    """Address of the receiver, if the channel sends to a URL."""
    secret: str | None = None
    """Key of signatures. Stored so that it can be read again, since signing needs it (see
    :mod:`twigcast.broker.store.sealing`), and never shown."""
    expires: float | None = None
    """End of a WebSub lease, in seconds since the epoch."""
    topic: str | None = None
    """Topic URL of a WebSub subscription, as its subscriber writes it."""
    content_filter: str | None = None
    """XPath expression that narrows the topic of a WebSub subscription; already part of the query."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the channel."""
    previous_secret: str | None = None
    """The key that ``secret`` replaces: until it is removed, requests are signed with both."""

    @property
    def is_pushed(self) -> bool:
        """Returns whether the broker sends the deliveries through a channel."""
        return self.kind != PULL


class SubscriptionState(enum.StrEnum):
    """The state of a subscription."""

    ACTIVE = "active"
    PAUSED = "paused"
    """Paused by its owner: new messages do not count for it. Pending deliveries can be fetched; they are not pushed."""
    SUSPENDED = "suspended"
    """Suspended by the broker, for a recorded reason, until its owner resumes it."""


class OverflowPolicy(enum.StrEnum):
    """A choice of what happens to a subscription when too many deliveries wait for its subscriber."""

    SUSPEND = "suspend"
    """It is suspended; alone with its subscriber, it resumes when half of that is done, with what it missed."""
    DROP_OLDEST = "drop_oldest"
    """Its oldest pending deliveries are dropped."""
    DEAD_LETTER = "dead_letter"
    """Its oldest pending deliveries become dead letters."""
    REFUSE = "refuse"
    """Publishers of messages that it matches are refused until something is done."""


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """A standing query and the destination of its results."""

    id: int
    """Never used again after a deletion."""
    tenant_id: int
    key: str
    query: str
    queue_id: int
    subscriber: str
    namespaces: Mapping[str, str] = field(default_factory=dict)
    dialect: Dialect = "xpath"
    delivery: DeliverySettings = field(default_factory=DeliverySettings)
    state: SubscriptionState = SubscriptionState.ACTIVE
    reason: str | None = None
    """Why it is suspended."""
    created: float = 0.0
    replay_next: int | None = None
    """The next sequence number of replay; ``None`` without replay, or after its end."""
    replay_end: int | None = None
    """The last sequence number of replay; live matching began right after it."""
    params: Params = field(default_factory=dict)
    """The values of the query's parameters."""
    overflow: OverflowPolicy = OverflowPolicy.SUSPEND
    missed_from: int | None = None
    """The first message that it misses while it is suspended since too much waits; it is replayed from there on."""

    @property
    def is_draining(self) -> bool:
        """Returns whether it is suspended only until less waits for its subscriber."""
        return self.state is SubscriptionState.SUSPENDED and self.missed_from is not None

    @property
    def is_served(self) -> bool:
        """Returns whether it gets its messages: at once, or later if it is draining."""
        return self.state is SubscriptionState.ACTIVE or self.is_draining


@dataclass(frozen=True, slots=True)
class NewSubscription:
    """A requested subscription."""

    tenant_id: int
    key: str
    query: str
    namespaces: Mapping[str, str] = field(default_factory=dict)
    dialect: Dialect = "xpath"
    subscriber: str | None = None
    """``None`` stands for the key. Only ``pull`` deliveries can share a subscriber."""
    delivery: DeliverySettings = field(default_factory=DeliverySettings)
    replay_from: int | None = None
    """The first sequence number to replay; needs a subscriber of its own that is new."""
    overflow: OverflowPolicy = OverflowPolicy.SUSPEND
    params: Params = field(default_factory=dict)
    """The values of the query's parameters."""


class NewQuery(NamedTuple):
    """A new query for an existing subscription."""

    subscription: StoredSubscription
    query: str
    namespaces: Mapping[str, str]
    dialect: Dialect
    params: Params = NO_PARAMS

    @property
    def key(self) -> str:
        """Key of the subscription."""
        return self.subscription.key


class DeliveryId(NamedTuple):
    """The identity of a delivery, for acknowledgement and deduplication; ordered as deliveries are."""

    seq: int
    subscription_id: int

    def __str__(self) -> str:
        return f"{self.seq}-{self.subscription_id}"

    @classmethod
    def parse(cls, text: str) -> DeliveryId:
        """Returns the id written as ``text``; raises ValueError if it is none."""
        seq, dash, subscription_id = text.partition("-")
        if not (dash and seq.isascii() and seq.isdigit() and subscription_id.isascii() and subscription_id.isdigit()):
            raise ValueError(f"{text!r} is no delivery id; one looks like 1234-56")
        return cls(int(seq), int(subscription_id))


class QueuedDelivery(NamedTuple):
    """A message for one subscription, in a queue."""

    id: DeliveryId
    queue_id: int
    key: str
    """Key of the subscription."""
    message: StoredMessage
    payload: bytes | None = None
    """The result of a query that rewrites; ``None`` for the message itself."""
    redelivered: bool = False
    """Whether it may have reached the subscriber before."""

    @property
    def body(self) -> bytes:
        """The bytes that the subscriber receives."""
        return self.message.xml if self.payload is None else self.payload


@dataclass(frozen=True, slots=True)
class ClockState:
    """The clock of the broker, as retention sees it."""

    now: float
    """What the clock says, in seconds since the epoch."""
    expected: float
    """What it would say, had it gone on evenly since it was last confirmed."""
    is_confirmed: bool
    """Whether the two agree, or nothing is old enough to expire. Otherwise nothing expires by age."""


class NewDelivery(NamedTuple):
    """A delivery to be stored."""

    queue_id: int
    seq: int
    subscription_id: int
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A delivery that was given up, until someone redrives or removes it."""

    id: int
    tenant_id: int
    subscription_id: int
    key: str
    seq: int
    message_id: str
    attempts: int
    reason: str
    at: float
    body: bytes


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """A failure for one subscription that did not affect the others."""

    subscription_id: int
    at: float
    reason: str
    seq: int | None = None
    """The message concerned, if there is one."""
    count: int = 1
    """Number of deliveries concerned."""


class Pause(NamedTuple):
    """A pause of a query in XQuery: a range of messages that do not count for it when it reaches them."""

    first_seq: int
    last_seq: int | None
    """``None`` while the pause lasts."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of one queue."""

    id: int
    tenant_id: int
    subscriber: str
    acked: int
    """All deliveries up to this sequence number are acknowledged."""
    kind: str = PULL
    """How its deliveries reach the subscriber: the kind of its delivery settings."""


class QueueLag(NamedTuple):
    """The lag of a queue that has something pending."""

    queue_id: int
    tenant_id: int
    pending: int
    oldest_seq: int
    """Sequence number of the oldest pending message."""
    oldest_received: float
    """When that was received, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class QueueReading:
    """The readers of a queue, and what they have."""

    in_flight: int
    """Deliveries that are leased, or released with a delay."""
    readers: int
    """Open streams and waiting pulls."""
    since: float | None
    """Since when there has always been a reader, in seconds since the epoch; ``None`` without one."""


@dataclass(frozen=True, slots=True)
class PushState:
    """The pushing of a queue with pending deliveries."""

    in_flight: int
    """Deliveries that are being sent."""
    attempts: int
    """Failed attempts at the first delivery."""
    next_retry: float | None
    """Time of the next attempt, in seconds since the epoch; ``None`` if none has to wait."""


@dataclass(frozen=True, slots=True)
class QueuePosition:
    """A position in a queue: right after this delivery."""

    seq: int
    subscription_id: int = 1 << 62
    """By default beyond all subscriptions: reading goes on with the next message."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """The attempts to push the first delivery of a queue."""

    id: DeliveryId
    count: int
    first_at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class WebSubRequest:
    """A request of a WebSub subscriber as it was sent."""

    base_url: str
    """The broker's address as the subscriber uses it."""
    form: Mapping[str, Sequence[str]]
    """The parameters, each with its values."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The counts of what is stored, and its size in bytes."""

    messages: int
    rejected: int
    subscriptions: int
    lanes: int
    pending: int
    dead_letters: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MessageSummary:
    """A message without its body."""

    seq: int
    source: str
    message_id: str
    received: float
    matches: int
    size: int
    """Bytes of the body."""


@dataclass(frozen=True, slots=True)
class OverlayIdentity:
    """The identity of a broker in an overlay."""

    name: str
    instance: bytes
    """16 random bytes, made with the store."""
    incarnation: int
    """A number that grows with each start."""


@dataclass(frozen=True, slots=True)
class RootState:
    """The state of another broker of the overlay."""

    name: str
    horizon: int | None
    """All its messages up to this number are known; ``None`` if none was requested yet."""
    seen: float
    """Time of the last change, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a message that another broker accepted."""

    root: int
    number: int
    """Its number there."""
    route: tuple[int, ...]
    """The brokers that it passed."""
