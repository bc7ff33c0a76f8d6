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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from twigcast.broker.errors import IdReused
from twigcast.broker.urgency import Urgency
from twigcast.lifecycle.chains import Effect, Relation
from twigcast.registration import NO_PARAMS, Dialect, Params
from twigcast.registration import Subscription as Query
from twigcast.windows.declarations import Window
from twigcast.windows.results import query_params


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
    expires: float | None = None
    """When it expires."""
    used: float | None = None
    """When it was used last, about: see :data:`~twigcast.broker.api.access.USES_SECONDS`."""
    previous_digest: bytes | None = None
    """Digest of the secret that it had before it was rotated."""
    previous_until: float | None = None
    """The end of the time for which the former secret is still accepted."""
    sources: frozenset[str] | None = None
    """The only sources that it may publish as; ``None``: all."""
    subscribers: frozenset[str] | None = None
    """The only subscribers whose deliveries it may receive; ``None``: all, and whatever else its scope permits."""
    certificates: frozenset[str] | None = None
    """The certificates, by SHA-256 fingerprint, with one of which its requests have to come; ``None``: with none."""

    def valid_until(self, digest: bytes) -> float | None:
        """Returns the end of the time for which one of its secrets is accepted; ``None`` if there is no end."""
        ends = [self.expires, None if digest == self.digest else self.previous_until]
        return min((end for end in ends if end is not None), default=None)


SourceKind = Literal["push", "rss", "atom", "http-folder"]

UpdateMode = Literal["ignore", "updated", "content"]
"""When an entry of a feed is published again that changed under its id: never, with a later date, or always."""


DoctypePolicy = Literal["allow", "strip", "refuse"]
"""What is done with a DOCTYPE: subscribers get it, or the message without it, or such messages are rejected."""


ValidationMode = Literal["off", "annotate", "reject"]
"""What is done with messages that the DTD or the schema of their source does not allow: nothing, a note to the
publisher, or they are rejected."""


@dataclass(frozen=True, slots=True, eq=False)
class Intake:
    """A way to take the messages of a source, other than the usual one."""

    doctype: DoctypePolicy = "strip"
    fault: Callable[[bytes], tuple[int | None, str] | None] | None = None
    """Returns line and reason of what the source's DTD or schema does not allow in a message."""
    rejects: bool = False
    """Whether a message with a fault is rejected."""
    profile: str | None = None
    """How its messages say what they update or cancel, as :func:`~twigcast.lifecycle.profiles.profile_text`."""
    enrich: Callable[[bytes, bytes], tuple[bytes, bytes, int, int]] | None = None
    """Returns a message, in its two forms, with what is found for it in look-up tables, and how many rows there were
    and how many there were not; raises RejectedMessage."""


USUAL: Final = Intake()


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
    """Text of a DTD that its messages are said to follow."""
    paused: bool = False
    state: Mapping[str, Any] = field(default_factory=dict)
    """State of polling: ``etag``, ``last_modified``, ``last_poll``, ``last_error``, ``failures``."""
    updates: UpdateMode = "ignore"
    follow: Sequence[str] = ()
    """Media types of the linked documents that are published in place of entries."""
    follow_hosts: Sequence[str] = ()
    """Hosts beside that of the feed to which links may lead."""
    doctype: DoctypePolicy = "strip"
    validation: ValidationMode = "off"
    profile: str | None = None
    """See :attr:`Intake.profile`."""
    lookups: Sequence[Mapping[str, Any]] = ()
    """How its messages are enriched from tables: see :class:`~twigcast.broker.lookup_tables.LookupSettings`."""
    xsd: str | None = None
    """Text of a schema, in XML Schema, that its messages are said to follow."""


DIGEST_BYTES: Final = 16
"""Bytes of the digest of a publication: as many as nobody finds two bodies for by chance."""


MessageName = tuple[int, str, str]
"""The identity of a message: tenant, source, the publisher's id."""


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
    intake: Intake = field(default=USUAL, compare=False, repr=False)
    """The settings of the source when the message is published."""
    priority: int | None = None
    """From 0 to 9; ``None`` where the publisher says nothing."""
    deadline: float | None = None
    """When it is of no use any more, in seconds since the epoch."""

    @property
    def name(self) -> MessageName:
        """The identity of the message among all messages."""
        return self.tenant_id, self.source, self.message_id or ""

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
    """A short DOCTYPE with the ID attributes that the message declared, if any. Subscribers do not get it."""
    priority: int | None = None
    """See :attr:`Submission.priority`."""
    deadline: float | None = None
    """See :attr:`Submission.deadline`."""
    digest: bytes | None = None
    """See :meth:`Submission.digest`. ``None`` where any body counts as a repetition: for ids that the broker assigned,
    messages of other brokers, and those stored by older brokers."""

    @property
    def with_ids(self) -> bytes:
        """The message as queries are evaluated on it: with its ID attributes, for ``id()``."""
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
    invalid: str | None = None
    """The reason why the DTD of its source does not allow it; ``None`` if the DTD does, or is not asked."""
    effect: Effect | None = None
    """The effect of the message on its matter, by the profile of its source; ``None`` without one."""
    trouble: str | None = None
    """The facts of the profile that could not be read."""


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
"""The outcome of one message of a publication."""


PULL: Final = "pull"
"""The kind of all deliveries that the subscriber fetches: pull, Server-Sent Events, WebSocket, Atom."""


SHARED: Final = "shared"
"""The value of the setting ``queue`` with which workers share the deliveries of a subscriber; else they are ordered."""

BY_URGENCY: Final = "urgency"
"""The value of the setting ``order`` with which the most urgent delivery is next; else the first one published is."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The settings of a queue whose deliveries are shared out among workers."""

    lease_seconds: float = 30.0
    """How long a worker has a delivery, unless it asks for another time."""
    attempts_max: int = 5
    """How often a delivery is handed out before it becomes a dead letter."""
    is_by_urgency: bool = False
    """Whether the most urgent delivery is next, not the first one published."""


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

    @property
    def sharing(self) -> Sharing | None:
        """The settings of a queue that workers share; ``None`` for an ordered one."""
        if self.is_pushed or self.options.get("queue") != SHARED:
            return None
        return Sharing(self.options["lease_seconds"], self.options["attempts_max"], self.is_by_urgency)

    @property
    def is_by_urgency(self) -> bool:
        """Returns whether the most urgent delivery is next, not the first one published."""
        return self.options.get("order") == BY_URGENCY


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
    """It is suspended. If it has the subscriber for itself, it resumes when half of the queue is done, and gets the
    messages that it missed."""
    DROP_OLDEST = "drop_oldest"
    """Its oldest pending deliveries are dropped."""
    DEAD_LETTER = "dead_letter"
    """Its oldest pending deliveries become dead letters."""
    REFUSE = "refuse"
    """Messages that it matches are refused to their publishers until some deliveries are acknowledged."""


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
    """The first message that it misses while it is suspended for a full queue; replay begins there."""
    follow: bool | None = None
    """Whether it gets updates and the end of what it got though these do not match; ``None``: as the profile of their
    source says."""
    window: Window | None = None
    """When it is told; ``None``: of each message as it comes."""
    urgency: Urgency | None = None
    """The priority and the deadline of its deliveries; ``None``: those of the messages alone."""

    @property
    def query_params(self) -> Params:
        """The parameters of its query, with empty ones for the values of a change."""
        query = Query(self.key, self.query, self.namespaces, self.dialect, "", self.params)
        return query_params(self.window, query)

    @property
    def is_draining(self) -> bool:
        """Returns whether it is suspended until its queue is half empty."""
        return self.state is SubscriptionState.SUSPENDED and self.missed_from is not None

    @property
    def is_served(self) -> bool:
        """Returns whether it gets its messages: at once, or later if it is draining."""
        return self.state is SubscriptionState.ACTIVE or self.is_draining


class PlainSubscriptions(NamedTuple):
    """The columns of active subscriptions of one tenant without anything rare: what the hub needs of them at the start.

    Rare is what :class:`StoredSubscription` has beside key, query, dialect of the engine, queue, and the kind of its
    delivery. Of a million subscriptions nearly all are plain, and an object for each takes longer than all that is
    done with it.
    """

    tenant_id: int
    ids: Sequence[int]
    queues: Sequence[int]
    keys: Sequence[str]
    queries: Sequence[str]
    namespaces: Sequence[Mapping[str, str] | None]
    dialects: Sequence[Dialect]
    pushed: Sequence[bool]
    """Whether deliveries are sent through a channel."""


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
    follow: bool | None = None
    """See :attr:`StoredSubscription.follow`."""
    window: Window | None = None
    """See :attr:`StoredSubscription.window`."""
    urgency: Urgency | None = None
    """See :attr:`StoredSubscription.urgency`."""


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

    @property
    def window(self) -> Window | None:
        """Returns the window of the subscription, which stays."""
        return self.subscription.window


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


class Receipt(NamedTuple):
    """A delivery as a worker got it: with the number of the attempt, which another worker does not have."""

    id: DeliveryId
    attempt: int | None = None
    """The number of the attempt; ``None`` stands for the present one."""

    def __str__(self) -> str:
        return str(self.id) if self.attempt is None else f"{self.id}-{self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Receipt:
        """Returns the receipt, or the id alone, that is written as ``text``; raises ValueError if it is neither."""
        head, _, attempt = text.rpartition("-")
        if "-" not in head:
            return cls(DeliveryId.parse(text))
        if not (attempt.isascii() and attempt.isdigit()):
            raise ValueError(f"{text!r} is no receipt; one looks like 1234-56-2")
        return cls(DeliveryId.parse(head), int(attempt))


class StoredLease(NamedTuple):
    """A delivery of a shared queue that a worker has or had, as it is stored."""

    queue_id: int
    id: DeliveryId
    attempts: int
    until: float
    """When it may be handed out again, in seconds since the epoch."""
    seconds: float
    """The length of the lease or delay in seconds. It never lasts longer, even if the clock is set back."""
    is_held: bool = True
    """Whether a worker has it; otherwise it was given back, with a delay."""


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
    attempt: int = 0
    """How often it was handed out to workers, this time included; 0 where that is not counted."""
    relation: Relation | None = None
    """What it is to the subscriber beside what it got before; ``None`` where its source has no profile."""
    window_note: str | None = None
    """Of which messages a window tells with it, as JSON; ``None`` where the subscription has no window."""
    due: float | None = None
    """When it is too late, in seconds since the epoch."""

    def is_overdue(self, now: float) -> bool:
        """Returns whether it is too late."""
        return self.due is not None and self.due <= now

    @property
    def body(self) -> bytes:
        """The bytes that the subscriber receives."""
        return self.message.xml if self.payload is None else self.payload


@dataclass(frozen=True, slots=True)
class ClockState:
    """The clock of the broker, as retention sees it."""

    now: float
    """The time of the clock, in seconds since the epoch."""
    expected: float
    """The time of a clock that has run steadily since the broker's clock was last confirmed."""
    is_confirmed: bool
    """Whether the two agree, or nothing is old enough to expire. Otherwise nothing expires by age."""


class NewDelivery(NamedTuple):
    """A delivery to be stored."""

    queue_id: int
    seq: int
    subscription_id: int
    payload: bytes | None
    relation: Relation | None = None
    window_note: str | None = None
    """See :attr:`QueuedDelivery.window_note`."""


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
    """A pause of a query in XQuery: a range of stored messages that the query skips."""

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
    sharing: Sharing | None = None
    """The settings of a queue that workers share; ``None`` for an ordered one."""


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
    """The time since which there has always been a reader, in seconds since the epoch; ``None`` without one."""


@dataclass(frozen=True, slots=True)
class AttemptState:
    """The attempts at the pending deliveries of a queue that is pushed, or shared by workers."""

    in_flight: int
    """Deliveries that are being sent, or that workers have; delayed ones of workers too."""
    attempts: int
    """Failed attempts at the first delivery of a pushed queue; of a shared one, the most attempts at a leased
    delivery."""
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
