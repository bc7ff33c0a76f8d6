"""Values that the store returns, beside those of :mod:`twigcast.broker.model`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from twigcast.broker.model import DeliveryId


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
