"""The values that the methods of the clients take and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list."""

    items: Sequence[T]
    next: str | None
    """The start of the next page, or ``None`` on the last one."""


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message that is durably stored."""

    seq: int
    """Its sequence number."""
    id: str
    matches: int
    """Number of subscriptions that it matched."""
    duplicate: bool = False
    """Whether a message with this id from this source was stored already; if so, nothing new was delivered."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Accepted:
        """Reads it from the answer of the broker."""
        return cls(result["seq"], result["id"], result["matches"], result["status"] == "duplicate")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message of a batch that was rejected. The broker keeps all of it."""

    number: int
    """Its number among the rejected messages of the broker."""
    id: str | None
    code: str
    reason: str
    line: int | None
    column: int | None

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Rejected:
        """Reads it from the answer of the broker."""
        return cls(result["rejected"], result["id"], result["code"], result["reason"], result["line"], result["column"])


@dataclass(frozen=True, slots=True)
class Publication:
    """A message to be published in a batch."""

    xml: bytes | str
    id: str | None = None
    """The broker accepts one message per id and source."""
    source: str | None = None
    """Its source; ``None`` for that of the batch."""


@dataclass(frozen=True, slots=True)
class Message:
    """A stored message."""

    seq: int
    id: str
    source: str
    received: datetime
    matches: int
    bytes: int
    xml: str | None
    """The message itself; ``None`` in lists without it."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Message:
        """Reads it from the answer of the broker."""
        return cls(**{**result, "received": _time(result["received"])})


@dataclass(frozen=True, slots=True)
class Messages:
    """A page of messages."""

    messages: Sequence[Message]
    cursor: int
    """The position after this page: as ``after``, or as the start of a subscription, it excludes what is here."""
    more: bool

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Messages:
        """Reads it from the answer of the broker."""
        return cls([Message.of(item) for item in result["messages"]], result["cursor"], result["more"])


@dataclass(frozen=True, slots=True)
class Webhook:
    """A URL that deliveries are posted to, signed if there is a secret."""

    url: str
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of the broker."""

    key: str
    query: str
    namespaces: Mapping[str, str]
    dialect: str
    subscriber: str
    kind: str
    url: str | None
    state: Literal["active", "paused", "suspended"]
    reason: str | None
    """Why the broker suspended it."""
    created: datetime
    replaying: bool
    """Whether past messages are still being replayed."""
    pending: int | None
    """Deliveries that wait for its subscriber; ``None`` in lists."""
    warnings: Sequence[str]
    """What looks wrong with the query, if it is new."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Subscription:
        """Reads it from the answer of the broker."""
        return cls(
            key=result["key"],
            query=result["query"],
            namespaces=result["namespaces"],
            dialect=result["dialect"],
            subscriber=result["subscriber"],
            kind=result["delivery"]["kind"],
            url=result["delivery"]["url"],
            state=result["state"],
            reason=result["reason"],
            created=_time(result["created"]),
            replaying=result["replay"] is not None,
            pending=result["pending"],
            warnings=result["warnings"],
        )


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message for one subscription."""

    id: str
    """Its id for acknowledgement, which also identifies repeated deliveries."""
    key: str
    """The key of the subscription."""
    xml: str | None
    """The message, or the result of a query that rewrites."""
    seq: int
    message: str
    """The id of the message."""
    source: str
    received: datetime
    redelivered: bool
    """Whether it may have come before."""
    rewritten: bool
    """Whether ``xml`` is the result of a query that rewrites."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Delivery:
        """Reads it from the answer of the broker."""
        return cls(
            id=result["id"],
            key=result["key"],
            xml=result.get("xml"),
            seq=result["seq"],
            message=result["message"],
            source=result["source"],
            received=_time(result["received"]),
            redelivered=result["redelivered"],
            rewritten=result["rewritten"],
        )


@dataclass(frozen=True, slots=True)
class QueryReport:
    """The result of checking a query, which is true if the query is valid."""

    valid: bool
    normal_form: str | None
    route: str | None
    reason: str | None
    """The reason for the route, or what is wrong with the query."""
    warnings: Sequence[str]
    column: int | None
    """Position of the error, in characters from 1."""
    expected: Sequence[str]
    caret: str | None
    """The position of the error, as two lines of text."""

    def __bool__(self) -> bool:
        return self.valid

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> QueryReport:
        """Reads it from the answer of the broker."""
        return cls(**{name: result[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True, slots=True)
class Explanation:
    """The reason why a query matches a message or not. It is true if the query matches; ``str()`` returns its text."""

    key: str | None
    query: str
    matches: bool
    text: str
    details: Mapping[str, Any]

    def __bool__(self) -> bool:
        return self.matches

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A delivery that the broker has given up."""

    dead_letter: int
    """Its number."""
    key: str
    seq: int
    message: str
    attempts: int
    reason: str
    at: datetime
    xml: str

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> DeadLetter:
        """Reads it from the answer of the broker."""
        return cls(**{**result, "at": _time(result["at"])})


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line of an import that was refused."""

    line: int
    key: str | None
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """The outcome of an import."""

    lines: int
    added: int
    replaced: int
    refused: int
    errors: Sequence[RefusedLine]
    """The errors of the first lines that were refused."""
