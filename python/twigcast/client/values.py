"""The values that the methods of the clients take and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Generic, Literal, Self, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list."""

    items: Sequence[T]
    next: str | None
    """The start of the next page, or ``None`` on the last one."""


class _Answer:
    """A value that is read from an answer of the broker."""

    __slots__ = ()

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Reads it from an answer, whose members have the names of its fields."""
        return cls._read(answer)

    @classmethod
    def _read(cls, answer: Mapping[str, Any], **more: Any) -> Self:
        """Returns the value with ``more`` for the fields that no member has the name of."""
        values = {item.name: answer[item.name] for item in fields(cls) if item.name not in more}  # type: ignore[arg-type]
        times = {
            item.name: datetime.fromisoformat(values[item.name])
            for item in fields(cls)  # type: ignore[arg-type]
            if item.type in {"datetime", "datetime | None"} and values.get(item.name)
        }
        return cls(**values | times | more)


Relation = Literal["entered", "updated", "left", "cancelled", "expired"]
"""The relation of a delivery to what its subscription got before."""


@dataclass(frozen=True, slots=True)
class Accepted(_Answer):
    """A message that is durably stored."""

    seq: int
    """Its sequence number."""
    id: str
    matches: int
    """Number of subscriptions that it matched."""
    duplicate: bool = False
    """Whether a message with this id from this source was stored already; if so, nothing new was delivered."""
    invalid: str | None = None
    """The reason why the DTD of its source does not allow it; ``None`` if the DTD does, or is not asked."""
    effect: str | None = None
    """The effect of the message by the profile of its source, such as ``first``, ``update`` or ``duplicate``; ``None``
    without a profile."""
    trouble: str | None = None
    """What the profile of its source could not read of it."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Reads it from an answer."""
        more = {name: answer.get(name) for name in ("invalid", "effect", "trouble")}
        return cls._read(answer, duplicate=answer["status"] == "duplicate", **more)


@dataclass(frozen=True, slots=True)
class Rejected(_Answer):
    """A message of a batch that was rejected. The broker keeps all of it."""

    number: int
    """Its number among the rejected messages of the broker."""
    id: str | None
    code: str
    reason: str
    line: int | None
    column: int | None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Reads it from an answer."""
        return cls._read(answer, number=answer["rejected"])


@dataclass(frozen=True, slots=True)
class Refused(_Answer):
    """A message of a batch that was not stored, since its source published another body under its id."""

    id: str
    code: str
    reason: str
    seq: int
    """The sequence number of the message that has the id."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A message to be published in a batch."""

    xml: bytes | str
    id: str | None = None
    """The broker accepts one message per id and source."""
    source: str | None = None
    """Its source; ``None`` for that of the batch."""
    priority: int | None = None
    """From 0 to 9; ``None`` for that of the batch."""
    deadline: datetime | str | None = None
    """When it is of no use any more, as a time or as a period such as ``"5 min"``; ``None`` for that of the batch."""


@dataclass(frozen=True, slots=True)
class Message(_Answer):
    """A stored message."""

    seq: int
    id: str
    source: str
    received: datetime
    matches: int
    bytes: int
    priority: int | None
    """Its priority, from 0 to 9; ``None`` where its publisher said nothing."""
    deadline: datetime | None
    """When it is of no use any more; ``None``: never."""
    xml: str | None
    """The message itself; ``None`` in lists without it."""


@dataclass(frozen=True, slots=True)
class Messages(_Answer):
    """A page of messages."""

    messages: Sequence[Message]
    cursor: int
    """The position after this page: as ``after``, or as the start of a subscription, it excludes what is here."""
    more: bool

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Reads it from an answer."""
        return cls._read(answer, messages=[Message.of(item) for item in answer["messages"]])


@dataclass(frozen=True, slots=True)
class Webhook:
    """A URL that deliveries are posted to, signed if there is a secret."""

    url: str
    secret: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Subscription(_Answer):
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
    etag: str
    """Its entity tag: see the argument ``only_if`` of calls that change it."""
    replaying: bool
    """Whether past messages are still being replayed."""
    pending: int | None
    """Deliveries that wait for its subscriber; ``None`` in lists."""
    warnings: Sequence[str]
    """What looks wrong with the query, if it is new."""
    delivery: Mapping[str, Any]
    """The settings of its channel but for the secret, as the API shows them."""
    overflow: Literal["suspend", "drop_oldest", "dead_letter", "refuse"]
    """What happens when too much waits for its subscriber."""
    missed_from: int | None
    """The first message that it misses while it is suspended since too much waits; it gets them later."""
    params: Mapping[str, Any]
    """The values of the query's parameters."""
    follow: bool | None
    """Whether it gets the updates and the end of what it got though these do not match; ``None``: as the profile of
    their source says."""
    when: Mapping[str, Any] | None
    """When it is told; ``None``: of each message as it comes."""
    urgency: Mapping[str, Any] | None
    """How urgent its deliveries are: ``priority``, ``deadline``, and ``overdue``, which says what happens to those that
    are too late; ``None``: as their messages are."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Reads it from an answer."""
        delivery = answer["delivery"]
        return cls._read(answer, kind=delivery["kind"], url=delivery["url"], replaying=answer["replay"] is not None)


@dataclass(frozen=True, slots=True)
class Delivery(_Answer):
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
    attempt: int | None = None
    """How often it was handed out to workers of a shared queue; ``None`` from an ordered queue."""
    receipt: str | None = None
    """Names it in this attempt; ``None`` from an ordered queue."""
    relation: Relation | None = None
    """What it is beside what the subscription got before; ``None`` where its source has no profile."""
    window: Mapping[str, Any] | None = None
    """Of which messages it tells: ``kind``, ``key``, ``messages`` (their sequence numbers), and of ``changed`` ``old``
    and ``new``; ``None`` where the subscription has no window."""
    overdue: bool = False
    """Whether it is too late, by the deadline of its message or its subscription."""
    priority: int | None = None
    """The priority of the message, if it has one."""
    deadline: datetime | None = None
    """The deadline of the message, if it has one."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Reads it from an answer."""
        left_out = "xml", "attempt", "receipt", "relation", "window", "priority", "deadline"
        return cls._read(dict.fromkeys(left_out) | {"overdue": False} | dict(answer))


@dataclass(frozen=True, slots=True)
class WindowKey(_Answer):
    """The state of one key of a window."""

    key: str
    """The value of ``by``."""
    state: str
    """In words, such as ``2 of 3 since 2026-12-01T10:02:00Z``."""
    due: datetime
    """When something is to be told, or what is known is forgotten, if nothing comes."""


@dataclass(frozen=True, slots=True)
class MessageLifecycle(_Answer):
    """The life cycle of a matter: messages that update and cancel each other, and who got them."""

    profile: str
    state: Literal["in force", "cancelled", "expired"]
    expires: datetime | None
    messages: Sequence[Mapping[str, Any]]
    """Its messages in the order in which they came, each with ``seq``, ``identity``, ``version``, ``effect`` and
    ``at``."""
    deliveries: Sequence[Mapping[str, Any]]
    """Who got which of them, each with ``seq``, ``key`` and ``relation``."""


@dataclass(frozen=True, slots=True)
class Extended(_Answer):
    """The outcome of extending leases."""

    extended: int
    """How many go on."""
    lost: Sequence[str]
    """The receipts of those that were over: another worker may have the delivery."""


@dataclass(frozen=True, slots=True)
class QueryReport(_Answer):
    """The result of checking a query, which is true if the query is valid."""

    valid: bool
    normal_form: str | None
    route: str | None
    reason: str | None
    """The reason for the route, or what is wrong with the query."""
    cover: str | None
    """The values that lead to it, in words."""
    cost: str | None
    """What it costs on a message, in words."""
    warnings: Sequence[str]
    column: int | None
    """Position of the error, in characters from 1."""
    expected: Sequence[str]
    caret: str | None
    """The position of the error, as two lines of text."""

    def __bool__(self) -> bool:
        return self.valid


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
class Consumer(_Answer):
    """A subscriber as it reads its queue."""

    subscriber: str
    kind: str
    """How its deliveries reach it: ``pull``, or the channel that sends them."""
    pending: int | None
    """Deliveries that wait for it; ``None`` in a list if there was no time to count them."""
    oldest: int | None
    """Sequence number of the oldest message that waits."""
    oldest_pending_seconds: float | None
    in_flight: int
    """Deliveries that are leased, delayed, or being sent."""
    queue: Literal["ordered", "shared"]
    """Whether workers share its queue."""
    attempts: int
    """Failed attempts to send the first one; of a shared queue the most attempts at one delivery."""
    next_retry: datetime | None
    readers: int
    """Its open streams and waiting pulls."""
    connected_since: datetime | None
    """The time since which it has always had a reader."""


@dataclass(frozen=True, slots=True)
class PollRefusal(_Answer):
    """Something that a poll could not publish."""

    id: str
    """The id of the entry, the name of the file, or the address of the linked document."""
    reason: str
    line: int | None
    """In the feed; of a linked document or file, in that."""
    column: int | None


@dataclass(frozen=True, slots=True)
class PollReport(_Answer):
    """The report of one poll of a source."""

    at: datetime
    seconds: float
    status: int | None
    """The status of the answer; ``None`` if there was none."""
    bytes: int
    took: int
    """Number of new messages."""
    updated: int
    """Number of messages that are updates."""
    skipped: Mapping[str, int]
    """Number of entries by the reason why they were not published."""
    refused: Sequence[PollRefusal]
    """What could not be published, up to 20."""
    refused_count: int
    warnings: Sequence[str]
    """What is wrong with the feed, and was read nevertheless."""
    error: str | None
    """Why the poll failed."""
    next_poll: datetime | None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Reads it from an answer."""
        return cls._read(answer, refused=[PollRefusal.of(item) for item in answer["refused"]])


@dataclass(frozen=True, slots=True)
class Source(_Answer):
    """An origin of messages."""

    name: str
    kind: Literal["push", "rss", "atom", "http-folder"]
    url: str | None
    interval: float
    """Seconds between polls."""
    dtd: str | None
    xsd: str | None
    paused: bool
    updates: Literal["ignore", "updated", "content"]
    follow: Sequence[str]
    follow_hosts: Sequence[str]
    doctype: Literal["allow", "strip", "refuse"]
    validation: Literal["off", "annotate", "reject"]
    profile: str | Mapping[str, Any] | None
    """The profile that says which messages update or cancel others."""
    lookups: Sequence[Mapping[str, Any]]
    """How its messages are enriched from tables."""
    etag: str
    last_poll: datetime | None
    last_error: str | None
    failures: int
    """Failed polls in a row."""
    warnings: Sequence[str]
    """What is wrong with the feed as it was read last."""
    last_report: PollReport | None

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Reads it from an answer."""
        report = answer["last_report"]
        return cls._read(answer, last_report=None if report is None else PollReport.of(report))


@dataclass(frozen=True, slots=True)
class LookupTable(_Answer):
    """A table from which messages are enriched."""

    name: str
    version: int
    """Grows with each table that is stored."""
    updated: datetime
    key: str
    """The column by which rows are found."""
    columns: Sequence[str]
    rows: int
    """The number of rows."""
    bytes: int
    """As it is stored."""
    etag: str


@dataclass(frozen=True, slots=True)
class DeadLetter(_Answer):
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


@dataclass(frozen=True, slots=True)
class Tenant(_Answer):
    """A party that sees only its own sources, messages and subscriptions."""

    name: str
    limits: Mapping[str, int]
    """Its limits that differ from the broker's."""


@dataclass(frozen=True, slots=True)
class Token(_Answer):
    """An API token, without its secret."""

    id: int
    name: str
    scopes: Sequence[str]
    created: datetime
    expires: datetime | None
    """When it expires."""
    used: datetime | None
    """When it was used last, to a minute or so."""
    previous_until: datetime | None
    """The end of the time for which the secret before the last rotation is still accepted."""
    sources: Sequence[str] | None
    """The only sources that it may publish as."""
    subscribers: Sequence[str] | None
    """The only subscribers whose deliveries it may receive."""
    certificates: Sequence[str] | None
    """The SHA-256 fingerprints of the client certificates with one of which its requests have to come."""


@dataclass(frozen=True, slots=True)
class NewToken(_Answer):
    """A new token, with its secret, which the broker never shows again."""

    id: int
    name: str
    scopes: Sequence[str]
    created: datetime
    expires: datetime | None
    used: datetime | None
    previous_until: datetime | None
    sources: Sequence[str] | None
    subscribers: Sequence[str] | None
    certificates: Sequence[str] | None
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Identity(_Answer):
    """The owner of a token, and what it permits."""

    tenant: str
    token: Token
    operator: bool
    """Whether the token administers the whole broker."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Reads it from an answer."""
        return cls._read(answer, token=Token.of(answer["token"]))


@dataclass(frozen=True, slots=True)
class Clock(_Answer):
    """The clock of a broker."""

    now: datetime
    expected: datetime
    """The time of a clock that has run steadily since the broker's clock was last confirmed."""
    step_seconds: float
    """The difference."""
    is_confirmed: bool
    """Whether messages expire by it."""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Self:
        """Reads it from an answer."""
        now, expected = (datetime.fromisoformat(answer[name]) for name in ("now", "expected"))
        return cls._read(answer, now=now, expected=expected)


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
