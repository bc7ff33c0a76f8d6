"""The values that the broker stores and passes on.

A *queue* is the ordered queue of deliveries of one subscriber. A subscription that names no subscriber has a
subscriber of its own, under its key. Streams, pulls, webhooks and feeds all read queues.

Each accepted message gets a *sequence number*, which grows over all tenants and may have gaps. A delivery
is the pair of a message and a subscription, so its id is made of both numbers, and sorts as they do. Times are for
people and retention; no order depends on a clock.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from twigcast.registration import Dialect


class Scope(enum.StrEnum):
    """A permission of a token."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"


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
    """Key of signatures. Stored as it is, since signing needs it, and never shown."""
    expires: float | None = None
    """End of a WebSub lease, in seconds since the epoch."""
    topic: str | None = None
    """Topic URL of a WebSub subscription, as its subscriber writes it."""
    content_filter: str | None = None
    """XPath expression that narrows the topic of a WebSub subscription; already part of the query."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of the channel."""

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


class NewQuery(NamedTuple):
    """A new query for an existing subscription."""

    subscription: StoredSubscription
    query: str
    namespaces: Mapping[str, str]
    dialect: Dialect


class DeliveryId(NamedTuple):
    """The identity of a delivery, for acknowledgement and deduplication; ordered as deliveries are."""

    seq: int
    subscription_id: int

    def __str__(self) -> str:
        return f"{self.seq}-{self.subscription_id}"

    @classmethod
    def parse(cls, text: str) -> DeliveryId:
        """Returns the id written as ``text``.

        Raises:
            ValueError: It is no delivery id.
        """
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
