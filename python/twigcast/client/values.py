"""What the client answers with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message that is durably stored."""

    seq: int
    """Its sequence number."""
    id: str
    matches: int
    """How many subscriptions it matched."""
    duplicate: bool = False
    """It was there already, under this id from this source; nothing was delivered anew."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Accepted:
        """From the broker's answer."""
        return cls(result["seq"], result["id"], result["matches"], result["status"] == "duplicate")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message of a batch that was rejected. The broker keeps it, whole."""

    number: int
    """Among the rejected ones."""
    id: str | None
    code: str
    reason: str
    line: int | None
    column: int | None

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Rejected:
        """From the broker's answer."""
        return cls(result["rejected"], result["id"], result["code"], result["reason"], result["line"], result["column"])


@dataclass(frozen=True, slots=True)
class Publication:
    """A message to be published in a batch."""

    xml: bytes | str
    id: str | None = None
    """A message is accepted once under an id from one source."""
    source: str | None = None
    """``None``: that of the batch."""


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
    """``None`` in lists without messages themselves."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Message:
        """From the broker's answer."""
        return cls(**{**result, "received": _time(result["received"])})


@dataclass(frozen=True, slots=True)
class Messages:
    """A page of messages."""

    messages: Sequence[Message]
    cursor: int
    """As ``after`` it lists what came later, and subscribes to exactly what came later."""
    more: bool

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Messages:
        """From the broker's answer."""
        return cls([Message.of(item) for item in result["messages"]], result["cursor"], result["more"])


@dataclass(frozen=True, slots=True)
class Webhook:
    """Deliveries are posted to a URL, signed if there is a secret."""

    url: str
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as the broker has it."""

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
    """Whether a replay of the past goes on."""
    pending: int | None
    """Deliveries that wait for its subscriber; only where one subscription was asked for."""
    warnings: Sequence[str]
    """What looks wrong with the query, when it is new."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Subscription:
        """From the broker's answer."""
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
    """For acknowledgement, and to recognise one that comes twice."""
    key: str
    """Of the subscription."""
    xml: str | None
    """The message, or the result of a query that rewrites."""
    seq: int
    message: str
    """The id of the message."""
    source: str
    received: datetime
    redelivered: bool
    """It may have come before."""
    rewritten: bool
    """``xml`` is the result of a query that rewrites."""

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> Delivery:
        """From the broker's answer."""
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
    """What is known of a query. True when it is one."""

    valid: bool
    normal_form: str | None
    route: str | None
    reason: str | None
    """Why it runs so, or what is wrong."""
    warnings: Sequence[str]
    column: int | None
    """Place of the error, in characters from 1."""
    expected: Sequence[str]
    caret: str | None
    """The place of the error, as two lines of text."""

    def __bool__(self) -> bool:
        return self.valid

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> QueryReport:
        """From the broker's answer."""
        return cls(**{name: result[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a query matches a message or not. True when it matches; ``str()`` tells it to people."""

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
    """A delivery that the broker gave up."""

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
        """From the broker's answer."""
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
    """What became of an import."""

    lines: int
    added: int
    replaced: int
    refused: int
    errors: Sequence[RefusedLine]
    """Of the first lines that were refused."""
