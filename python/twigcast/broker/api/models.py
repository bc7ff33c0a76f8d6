"""Bodies of requests and responses. The OpenAPI description is made from these."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    model_validator,
)

from twigcast.broker.api.context import Name
from twigcast.broker.api.envelopes import as_text
from twigcast.broker.config import TenantLimits
from twigcast.broker.delivery.channel import Text as Text
from twigcast.broker.delivery.channel import Url as Url
from twigcast.broker.delivery.channels import DELIVERY_KINDS, AnySettings, PullSettings
from twigcast.broker.model import (
    ClockState,
    DeliveryId,
    OverflowPolicy,
    Scope,
    Source,
    StoredMessage,
    StoredSubscription,
    SubscriptionState,
    UpdateMode,
)
from twigcast.broker.options import refused_dialect
from twigcast.errors import InvalidContext
from twigcast.overlay.onyx.registry.description import read_description
from twigcast.registration import Dialect
from twigcast.subscription_items import dialect_with_numbers

if TYPE_CHECKING:
    from twigcast.broker.overlay.reports import MessageRoute, OverlayReport
    from twigcast.overlay.onyx.network.reports import LinkReport


class Model(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


class ObjectOut(Model):
    """A body of a response that shows an object, whose attributes it takes."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def of(cls, item: object) -> Self:
        """Returns an object as the API shows it."""
        return cls.model_validate(item)


def _shared(model: type[BaseModel], item: object) -> dict[str, Any]:
    """Returns those attributes of an object that are fields of a model."""
    return {name: getattr(item, name) for name in model.model_fields if hasattr(item, name)}


def _moment(value: float | datetime) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromtimestamp(value, UTC)


Moment = Annotated[datetime, BeforeValidator(_moment)]
"""A time, also from seconds since the epoch."""

Xml = Annotated[str, BeforeValidator(as_text)]
"""XML as text, from bytes."""

OptionalText = Annotated[str | None, BeforeValidator(lambda value: value or None)]
"""A text, null if it is empty."""

NumberText = Annotated[str, BeforeValidator(str)]
"""A number of up to 62 bits as a text."""


def _dialect(value: Dialect) -> Dialect:
    if (reason := refused_dialect(value)) is not None:
        raise ValueError(reason)
    return value


BrokerDialect = Annotated[Dialect, AfterValidator(_dialect)]
"""A dialect of queries that this broker accepts."""

Namespaces = dict[Text, Text]
ParameterValueIn = StrictBool | StrictInt | StrictFloat | Text
ParamsIn = dict[Text, ParameterValueIn | list[ParameterValueIn]]
"""Prefix to namespace."""

NUMBER_MAX: Final = 1 << 62
"""Largest number of a stored object."""


def delivery_id(text: str) -> DeliveryId:
    """Returns the id of a delivery; raises ValueError if the text is none."""
    result = DeliveryId.parse(text)
    if max(result) > NUMBER_MAX:
        raise ValueError(f"{text!r} is no delivery id: its numbers are too large")
    return result


def _delivery_id_text(value: str) -> str:
    delivery_id(value)
    return value


DeliveryIdText = Annotated[str, StringConstraints(max_length=41), AfterValidator(_delivery_id_text)]
"""An id of a delivery, such as ``1234-56``."""


class CountOut(Model):
    """A number of objects."""

    count: int


class ProblemOut(BaseModel):
    """A problem (RFC 9457)."""

    type: str = Field(description="`urn:twigcast:problem:` and the code.")
    title: str
    status: int
    detail: str
    code: str
    request_id: str | None = None


class Start(Model):
    """The message with which a subscription begins; one of these fields."""

    seq: int | None = Field(default=None, ge=0, le=1 << 62, description="With the message of this sequence number.")
    after: int | None = Field(default=None, ge=0, le=1 << 62, description="Right after this cursor.")
    time: datetime | None = Field(default=None, description="With the first message received at or after this time.")
    message: Name | None = Field(default=None, description="With the message of this id.")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        names = list(type(self).model_fields)
        if len(self.model_fields_set.intersection(names)) != 1:
            raise ValueError(f"give one of {', '.join(names[:-1])} and {names[-1]}")
        return self


class SeekIn(Start):
    """The message with which a subscription begins anew; one of these fields."""

    delivery: DeliveryIdText | None = Field(default=None, description="With this delivery.")
    now: Literal[True] | None = Field(default=None, description="With the next message; nothing pending is delivered.")


def _as_numbers(values: Any) -> Any:
    """Returns the fields of a query, with the dialect that reads numbers as they say."""
    if not isinstance(values, dict) or values.get("numbers") is None:
        return values
    dialect = values.get("dialect")
    try:
        read = dialect_with_numbers("xpath" if dialect is None else dialect, values["numbers"])
    except (InvalidContext, TypeError) as error:
        raise ValueError(str(error)) from None
    return {**values, "dialect": read}


NumbersIn = Annotated[
    Literal["xs:double"] | None,
    Field(
        description="`xs:double`: texts compared with numbers may have exponents, as in the dialect `doubles`.",
    ),
]


class QueryIn(Model):
    """A query."""

    _read_numbers = model_validator(mode="before")(_as_numbers)

    query: Text = Field(description="XPath, or For-Where-Return.", examples=["//alert[severity = 'high']"])
    namespaces: Namespaces = Field(
        default_factory=dict, description="Prefix to namespace; the empty prefix stands for element names without one."
    )
    dialect: BrokerDialect = Field(
        default="xpath",
        description="`legacy`: the spellings of older papers as well; `doubles`: numbers with exponents; "
        "`xquery`: all of XQuery, where there is Saxon.",
    )
    params: ParamsIn = Field(
        default_factory=dict,
        description="The values of `$name` in the query, by name: texts, numbers, truth values, or lists of these.",
        examples=[{"kind": "storm", "areas": ["coast", "lake"]}],
    )
    numbers: NumbersIn = None


class ReplacementIn(QueryIn):
    """A subscription under an existing key."""

    subscriber: Name | None = Field(
        default=None,
        description="The owner of the queue that its deliveries join; by default it has its own, under its key.",
    )
    delivery: AnySettings = Field(default_factory=PullSettings)
    overflow: OverflowPolicy = Field(
        default=OverflowPolicy.SUSPEND,
        description="What happens when more than `pending_max` deliveries wait for its subscriber: `suspend` it until "
        "half of them are done, and then deliver what it missed too; `drop_oldest` ones; `dead_letter` the oldest "
        "ones; `refuse` the publishers of messages that it matches.",
    )
    from_: Start | None = Field(
        default=None, alias="from", description="The stored message with which it begins; by default the next message."
    )


class SubscriptionIn(ReplacementIn):
    """A subscription."""

    key: Name = Field(description="Your own identifier of it.", examples=["flood-desk"])


class SubscriptionPatch(Model):
    """The changes of a subscription."""

    _read_numbers = model_validator(mode="before")(_as_numbers)

    query: Text | None = None
    namespaces: Namespaces | None = None
    dialect: BrokerDialect | None = None
    params: ParamsIn | None = None
    numbers: NumbersIn = None
    delivery: AnySettings | None = None
    overflow: OverflowPolicy | None = None
    state: Literal["active", "paused"] | None = None


class DeliveryOut(BaseModel):
    """The destination of deliveries. Further settings of a channel follow under their own names."""

    model_config = ConfigDict(extra="allow")

    kind: str = Field(json_schema_extra={"enum": list(DELIVERY_KINDS)})
    url: str | None
    signed: bool = Field(description="Whether there is a secret.")
    expires: Moment | None = Field(description="End of a WebSub lease.")


class ReplayOut(Model):
    """The progress of a replay."""

    next: int
    end: int


class SubscriptionOut(Model):
    """A subscription."""

    key: str
    query: str
    namespaces: dict[str, str]
    dialect: Dialect
    params: dict[str, Any] = Field(description="The values of the query's parameters, by name.")
    subscriber: str
    delivery: DeliveryOut
    state: SubscriptionState
    reason: str | None = Field(description="Why the broker suspended it.")
    created: Moment
    replay: ReplayOut | None = Field(description="The progress of a replay, while it runs.")
    overflow: OverflowPolicy = Field(description="What happens when too much waits for its subscriber.")
    missed_from: int | None = Field(
        description="The first message that it misses while it is suspended since too much waits; it gets them later."
    )
    pending: int | None = Field(
        default=None,
        description="Deliveries that wait for its subscriber; only in the response about one subscription.",
    )
    warnings: list[str] = Field(default_factory=list, description="What looks wrong with the query, when it is new.")

    @classmethod
    def of(
        cls, subscription: StoredSubscription, *, pending: int | None = None, warnings: tuple[str, ...] = ()
    ) -> Self:
        """Returns a subscription as the API shows it."""
        replay = None
        if subscription.replay_next is not None and subscription.replay_end is not None:
            replay = ReplayOut(next=subscription.replay_next, end=subscription.replay_end)
        delivery = DeliveryOut(
            **_shared(DeliveryOut, subscription.delivery),
            signed=subscription.delivery.secret is not None,
            **subscription.delivery.options,
        )
        more = {"delivery": delivery, "replay": replay, "pending": pending, "warnings": list(warnings)}
        return cls.model_validate(_shared(cls, subscription) | more)


class SubscriptionsOut(Model):
    """A page of subscriptions, in order of their keys."""

    subscriptions: list[SubscriptionOut]
    next: str | None = Field(description="As `after` it gives the next page; null on the last one.")


class ErrorOut(ObjectOut):
    """An error of one subscription."""

    at: Moment
    reason: str
    seq: int | None = Field(description="The message concerned.")
    count: int = Field(description="The number of deliveries concerned.")


class ErrorsOut(Model):
    """The latest errors, newest first."""

    errors: list[ErrorOut]


class CheckOut(Model):
    """The properties of a query."""

    valid: bool
    normal_form: str | None = Field(default=None, description="The query as the engine runs it.")
    route: str | None = Field(default=None, description="How it runs.")
    reason: str | None = Field(default=None, description="Why it runs so; if it is not valid, what is wrong.")
    cover: str | None = Field(default=None, description="The values that lead to it.")
    cost: str | None = Field(default=None, description="What it costs on a message, in words.")
    warnings: list[str] = Field(default_factory=list)
    code: str | None = Field(default=None, description="The kind of error.")
    column: int | None = Field(default=None, description="Place of the error, in characters from 1.")
    expected: list[str] = Field(default_factory=list, description="What could stand there instead.")
    caret: str | None = Field(default=None, description="The place of the error, as two lines of text.")


class ExplainIn(Model):
    """A request to explain queries on a message."""

    _read_numbers = model_validator(mode="before")(_as_numbers)

    query: Text | None = Field(default=None, description="A query; or")
    namespaces: Namespaces = Field(default_factory=dict)
    dialect: BrokerDialect = "xpath"
    params: ParamsIn = Field(default_factory=dict)
    numbers: NumbersIn = None
    key: Name | None = Field(default=None, description="that of a subscription; or")
    subscriber: Name | None = Field(default=None, description="all those of a subscriber.")
    after: Name | None = Field(
        default=None, description="The key after which the next page of a subscriber's subscriptions begins."
    )
    xml: Text | None = Field(default=None, description="A message; or")
    seq: int | None = Field(default=None, ge=0, le=1 << 62, description="a stored one; or")
    message: Name | None = Field(default=None, description="a stored one, by its id.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if sum(value is not None for value in (self.query, self.key, self.subscriber)) != 1:
            raise ValueError("give one of query, key and subscriber")
        if self.after is not None and self.subscriber is None:
            raise ValueError("after is for a subscriber")
        if sum(value is not None for value in (self.xml, self.seq, self.message)) != 1:
            raise ValueError("give one of xml, seq and message")
        return self


class ExplanationOut(Model):
    """An explanation why a query matches a message or not."""

    key: str | None = Field(description="The key of the subscription, if it is one.")
    query: str
    matches: bool
    text: str = Field(description="The explanation for people: `+` marks what the message has, `-` where it fails.")
    details: dict[str, Any] = Field(description="The same as plain values.")


class ExplanationsOut(Model):
    """Explanations of all requested queries."""

    explanations: list[ExplanationOut]
    next: str | None = Field(default=None, description="`after` of the next page, if the subscriber has more.")


class AcceptedOut(Model):
    """A stored message."""

    status: Literal["accepted", "duplicate"] = Field(
        description="`duplicate`: it was stored before, under this id from this source; nothing was delivered again."
    )
    seq: int = Field(description="Its sequence number.")
    id: str = Field(description="Its id: the publisher's, or one that the broker assigned.")
    matches: int = Field(description="The number of subscriptions that it matched.")


class RejectedInBatch(Model):
    """A message of a batch that was rejected."""

    status: Literal["rejected"]
    rejected: int = Field(description="The number under which it is stored: `GET /rejected/{number}`.")
    id: str | None
    code: str
    reason: str
    line: int | None
    column: int | None


class RefusedInBatch(Model):
    """A message of a batch that was not stored."""

    status: Literal["refused"]
    code: str = Field(description="`id-reused`: its source published another body under its id.")
    id: str
    reason: str
    seq: int = Field(description="The sequence number of the message that has the id.")


class BatchOut(Model):
    """The results of the messages of a batch, in their order."""

    accepted: int
    duplicates: int
    rejected: int
    refused: int
    results: list[AcceptedOut | RejectedInBatch | RefusedInBatch]


class MessageOut(Model):
    """A message."""

    seq: int
    id: str
    source: str
    received: Moment
    matches: int
    bytes: int
    xml: str | None = Field(default=None, description="The message itself; in lists only if requested.")

    @classmethod
    def of(cls, message: StoredMessage, *, whole: bool) -> Self:
        """Returns a stored message as the API shows it, without its body unless it is to be ``whole``."""
        xml = as_text(message.xml) if whole else None
        return cls.model_validate(
            {**_shared(cls, message), "id": message.message_id, "bytes": len(message.xml), "xml": xml}
        )


class MessagesOut(Model):
    """A page of messages."""

    messages: list[MessageOut]
    cursor: int = Field(
        description="Says how far this list reaches. As `after` it lists what came later; a subscription with "
        '`"from": {"after": cursor}` gets exactly what came later.'
    )
    more: bool = Field(description="Whether there are more already.")


class RejectedOut(ObjectOut):
    """A rejected message, and why."""

    rejected: int = Field(validation_alias="id", description="Its number among the rejected ones.")
    id: str | None = Field(validation_alias="message_id")
    source: str
    received: Moment
    code: str
    reason: str
    line: int | None
    column: int | None
    bytes: Annotated[int, BeforeValidator(len)] = Field(validation_alias="body")


class RejectedListOut(Model):
    """A page of rejected messages, newest first."""

    rejected: list[RejectedOut]
    next: int | None = Field(description="As `before` it gives the next page; null on the last one.")


class EnvelopeOut(Model):
    """A delivery."""

    id: str = Field(description="The id for acknowledgement, and to recognise a delivery that comes twice.")
    key: str = Field(description="Of the subscription.")
    redelivered: bool = Field(description="Whether it may have been delivered before.")
    rewritten: bool = Field(description="Whether `xml` is the result of a query that rewrites.")
    seq: int
    message: str = Field(description="The id of the message.")
    source: str
    received: datetime
    xml: str | None = Field(default=None, description="The message or the result; left out with `bodies=false`.")


class EnvelopesOut(Model):
    """Deliveries."""

    deliveries: list[EnvelopeOut]


class AckIn(Model):
    """Deliveries that are processed."""

    subscriber: Name
    ids: list[DeliveryIdText] = Field(default_factory=list, max_length=100_000, description="Single deliveries, or")
    up_to: DeliveryIdText | None = Field(default=None, description="all up to this one.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if bool(self.ids) == (self.up_to is not None):
            raise ValueError("give either ids or up_to")
        return self


class NackIn(Model):
    """Deliveries that were pulled and are released."""

    subscriber: Name
    ids: list[DeliveryIdText] = Field(min_length=1, max_length=100_000)
    delay: float = Field(default=0.0, ge=0, le=86_400, description="Seconds before they are handed out again.")


class TicketIn(Model):
    """The subscriber of a ticket."""

    subscriber: Name


class TicketOut(Model):
    """A ticket."""

    ticket: str = Field(description="A parameter of the query string of a stream: `?subscriber=...&ticket=...`.")
    seconds: float = Field(description="The time during which it opens streams.")


class ConsumerOut(Model):
    """A subscriber as it reads its queue."""

    subscriber: str
    kind: str = Field(description="How its deliveries reach it: `pull`, or the channel that sends them.")
    pending: int | None = Field(description="Deliveries that wait for it; null if there was no time to count them.")
    oldest: int | None = Field(description="Sequence number of the oldest message that waits; null if none was read.")
    oldest_pending_seconds: float | None = Field(description="Time since that was received.")
    in_flight: int = Field(description="Deliveries that are leased, delayed, or being sent.")
    attempts: int = Field(description="Failed attempts to send the first one.")
    next_retry: Moment | None = Field(description="When sending is tried again.")
    readers: int = Field(description="Its open streams and waiting pulls.")
    connected_since: Moment | None = Field(description="Since when it has always had one; null without one.")


class ConsumersOut(Model):
    """A page of subscribers, in order of their names."""

    consumers: list[ConsumerOut]
    next: str | None = Field(description="As `after` it gives the next page; null on the last one.")


class SkipIn(Model):
    """The number of pending deliveries to take out of the way."""

    count: int = Field(default=1, ge=1, le=10_000)
    dead_letter: bool = Field(default=True, description="Whether they become dead letters; otherwise they are gone.")


class DeadLetterOut(ObjectOut):
    """A delivery that was given up."""

    dead_letter: int = Field(validation_alias="id", description="Its number.")
    key: str
    seq: int
    message: str = Field(validation_alias="message_id")
    attempts: int
    reason: str
    at: Moment
    xml: Xml = Field(validation_alias="body")


class DeadLettersOut(Model):
    """A page of dead letters, newest first."""

    dead_letters: list[DeadLetterOut]
    next: int | None = Field(description="As `before` it gives the next page; null on the last one.")


class DeadLettersIn(Model):
    """A choice of dead letters."""

    dead_letters: list[Annotated[int, Field(ge=0, le=1 << 62)]] = Field(min_length=1, max_length=10_000)


MediaRange = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9!#$&^_.+*-]{1,100}/[A-Za-z0-9!#$&^_.+*-]{1,100}$", to_lower=True),
]
HostPattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:*-]{1,253}$", to_lower=True)]


class SourceIn(Model):
    """The settings of a source."""

    kind: Literal["push", "rss", "atom", "http-folder"] = Field(
        default="push", description="`push`: the source publishes by itself; all others are polled."
    )
    url: Url | None = Field(default=None, description="The address that is polled.")
    interval: float = Field(default=300.0, ge=1, le=86_400 * 31, description="Seconds between polls.")
    dtd: Text | None = Field(
        default=None,
        description="The text of a DTD that its messages are said to follow. It is stored with the source.",
    )
    paused: bool = False
    updates: UpdateMode = Field(
        default="ignore",
        description="Whether an entry that changes under its id is published again: `updated` with a later date of "
        "its own (`updated`, `pubDate`, ...) or, without any date, with other content; `content` whenever its "
        "content is another.",
    )
    follow: list[MediaRange] = Field(
        default_factory=list,
        max_length=20,
        description="Media types of links, such as `application/cap+xml`, or `*/*`. The document behind the first such "
        "link of an entry is published in place of the entry.",
    )
    follow_hosts: list[HostPattern] = Field(
        default_factory=list,
        max_length=100,
        description="Hosts beside that of the feed to which these links may lead: `name`, `name:port`, `*.domain`, "
        "or `*` for all that are not private.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.kind == "push") != (self.url is None):
            raise ValueError("a source that is polled needs a url, one that pushes has none")
        if self.kind not in ("rss", "atom") and (self.updates != "ignore" or self.follow or self.follow_hosts):
            raise ValueError("updates, follow and follow_hosts are settings of feeds: of the kinds rss and atom")
        return self


class PollRefusalOut(Model):
    """Something that a poll could not publish."""

    id: str = Field(description="The id of the entry, the name of the file, or the address of the document.")
    reason: str
    line: int | None = Field(description="In the feed; of a linked document or file, in that.")
    column: int | None


class PollOut(Model):
    """The report of a poll."""

    at: Moment
    seconds: float
    status: int | None = Field(description="The status of the answer; null if there was none.")
    bytes: int = Field(description="Unpacked bytes of the feed, and of the documents that were fetched.")
    took: int = Field(description="New messages.")
    updated: int = Field(description="Messages that are updates.")
    skipped: dict[str, int] = Field(
        description="Entries by the reason why they were not published: `known`; `changed`, but the source publishes "
        "no such update; `repeated` in the same feed; `given up` after failed attempts."
    )
    refused: list[PollRefusalOut] = Field(description="What could not be published, up to 20.")
    refused_count: int
    warnings: list[str] = Field(description="What is wrong with the feed, and was read nevertheless.")
    error: str | None = Field(description="Why the poll failed.")
    next_poll: Moment | None


class PollsOut(Model):
    """The last polls of a source, newest first. Of several that brought nothing only the last is kept."""

    polls: list[PollOut]


class SourceOut(SourceIn):
    """A source."""

    name: str
    last_poll: datetime | None
    last_error: str | None
    failures: int
    warnings: list[str] = Field(description="What is wrong with the feed as it was read last.")
    last_report: PollOut | None = Field(description="What the last poll took, updated, skipped and refused.")

    @classmethod
    def of(cls, source: Source) -> Self:
        """Returns a source as the API shows it."""
        at = source.state.get("last_poll")
        error = source.state.get("last_error")
        reports = source.state.get("reports")
        lists = {"follow": list(source.follow), "follow_hosts": list(source.follow_hosts)}
        return cls.model_construct(
            **_shared(cls, source) | lists,
            last_poll=None if at is None else _moment(float(at)),
            last_error=None if error is None else str(error),
            failures=int(source.state.get("failures", 0)),
            warnings=list(source.state.get("warnings") or ()),
            last_report=PollOut.model_validate(reports[0]) if reports else None,
        )


class SourcesOut(Model):
    """All sources."""

    sources: list[SourceOut]


class TenantIn(Model):
    """A new tenant."""

    name: Name
    limits: dict[str, int] = Field(default_factory=dict, description="Limits that differ from the broker's.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        TenantLimits(**self.limits)
        return self


class LimitsIn(Model):
    """The limits of a tenant."""

    limits: dict[str, int]

    @model_validator(mode="after")
    def _fits(self) -> Self:
        TenantLimits(**self.limits)
        return self


class TenantOut(ObjectOut):
    """A tenant."""

    name: str
    limits: dict[str, int]


class ErasedOut(Model):
    """An erased tenant."""

    name: str
    is_done: bool = Field(description="Whether nothing of it is left; otherwise the broker is still removing it.")


class ClockOut(Model):
    """The clock of the broker."""

    now: Moment = Field(description="What it says.")
    expected: Moment = Field(description="What it would say, had it gone on evenly since it was last confirmed.")
    step_seconds: float = Field(description="The difference.")
    is_confirmed: bool = Field(
        description="Whether messages expire by it. It is false after a jump, while messages are old enough to expire."
    )

    @classmethod
    def of_state(cls, state: ClockState) -> Self:
        """Reads it from the clock of retention."""
        return cls(
            now=datetime.fromtimestamp(state.now, UTC),
            expected=datetime.fromtimestamp(state.expected, UTC),
            step_seconds=round(state.now - state.expected, 3),
            is_confirmed=state.is_confirmed,
        )


class TenantsOut(Model):
    """All tenants."""

    tenants: list[TenantOut]


class TokenIn(Model):
    """A requested token."""

    name: Name = Field(description="Its purpose.")
    scopes: list[Scope] = Field(min_length=1, max_length=3)
    tenant: Name | None = Field(default=None, description="The tenant, for operators; by default your own.")


class TokenOut(ObjectOut):
    """A token, without its secret."""

    id: int
    name: str
    scopes: Annotated[list[Scope], BeforeValidator(sorted)]
    created: Moment


class NewTokenOut(TokenOut):
    """A new token."""

    token: str = Field(description="The token itself. It is not stored, and never shown again.")


class TokensOut(Model):
    """The tokens of a tenant."""

    tokens: list[TokenOut]


class WhoOut(Model):
    """The sender of a request."""

    tenant: str
    token: TokenOut
    operator: bool = Field(description="Whether the token administers the whole broker.")


class StatisticsOut(ObjectOut):
    """The counts of what the tenant has stored."""

    messages: int
    rejected: int
    subscriptions: int
    subscribers: int = Field(validation_alias="lanes")
    pending: int
    dead_letters: int
    bytes: int


class LinkOut(Model):
    """A link to a neighbouring broker."""

    name: str
    identity: NumberText = Field(description="Its number in the overlay, as a text: it has up to 62 bits.")
    where: str = Field(description="The address that was dialed, or from which it was dialed.")
    dialed: bool = Field(description="Whether this broker dialed.")
    secure: bool = Field(description="Whether both have shown certificates.")
    software: str
    since: Moment
    round_trip: float | None = Field(description="Seconds.")
    clock_ahead: float | None = Field(description="By how many seconds its clock is ahead of ours.")
    queue_frames: int
    queue_bytes: int
    sent_frames: int
    sent_bytes: int
    received_frames: int
    received_bytes: int
    sends: str = Field(description="Form in which messages go to it, such as `text` or `dictionary+zstd`.")
    receives: str = Field(description="Form in which they come.")
    table: int = Field(description="Disjuncts of the routing queries that it has sent here.")
    messages_sent: int = Field(description="Messages forwarded to it since the link began.")
    messages_left_out: int = Field(description="Messages not forwarded to it, since no subscription there matched.")

    @classmethod
    def of(cls, link: LinkReport, table: int, flow: tuple[int, int]) -> Self:
        """Returns a link as the API shows it."""
        more = {"clock_ahead": link.skew, "table": table, "messages_sent": flow[0], "messages_left_out": flow[1]}
        return cls.model_validate(_shared(cls, link) | more)


class DialOut(ObjectOut):
    """A broker that is dialled, and not reached."""

    url: str
    attempts: int
    reason: str | None
    at: Moment | None


class LinkFaultOut(ObjectOut):
    """A broker that was refused, or a link that broke."""

    at: Moment
    kind: str
    peer: str
    reason: str


class NeighbourOut(Model):
    """A link between two brokers, as the overlay reports it."""

    name: str
    cost: int = Field(description="The round trip in milliseconds, rounded up.")


class PeerOut(Model):
    """A broker of the overlay."""

    name: str
    identity: str
    label: str = Field(description="Its name and address.")
    url: str | None = Field(description="Its address for clients, if it publishes one.")
    location: tuple[float, float] = Field(
        serialization_alias="place", description="Its position on the map that the brokers agree on."
    )
    holds_registry: bool = Field(description="Whether it holds the registry.")
    neighbours: list[NeighbourOut]
    towards: str | None = Field(description="The neighbour towards it; null for this broker.")
    horizon: int | None = Field(description="All its messages up to this number have arrived here.")
    missing: int = Field(description="Numbers of missing messages, which are requested again.")


class RegistryOut(ObjectOut):
    """The registry of sources and profiles, as this broker sees it."""

    holders: list[str] = Field(description="Names of the brokers that hold it; empty if none does.")
    role: str | None = Field(description="leader, follower or candidate; null if this broker does not hold it.")
    leader: str | None = Field(description="The leader, if it is known here.")
    entries: int = Field(description="Number of applied entries of the log that this broker holds.")


class OverlayOut(Model):
    """The overlay as this broker sees it."""

    name: str
    identity: str
    incarnation: int
    where: str
    links: list[LinkOut]
    not_reached: list[DialOut]
    troubles: list[LinkFaultOut] = Field(description="The latest, the newest last.")
    trouble_counts: dict[str, int]
    brokers: list[PeerOut]
    published: int = Field(description="Messages published here since the start.")
    stored: int = Field(description="Messages of other brokers that a subscription here matched.")
    unwanted: int = Field(description="Messages of other brokers that no subscription here matched.")
    already_stored: int = Field(
        serialization_alias="known", description="Messages of other brokers that were stored already."
    )
    reduced: int = Field(description="Times that only a part of a message was forwarded.")
    reduced_bytes: int = Field(description="Bytes saved by that.")
    insufficient: int = Field(
        description="Parts of messages that did not suffice here, so that the whole was requested."
    )
    refused: int = Field(description="Messages of other brokers that are stored as rejected.")
    asked_again: int = Field(description="Messages published here that other brokers requested again.")
    lost: int = Field(description="Times that they requested messages that retention had removed.")
    waiting_messages: int = Field(description="Messages of other brokers that wait for the store.")
    waiting_bytes: int
    wishes_waiting: int = Field(description="Subscriptions whose routing queries are not made yet.")
    wishes_generalised: int = Field(
        description="Subscriptions whose routing query matches more than they do: an exact one is too large."
    )
    registry: RegistryOut
    sources: int = Field(description="Sources that are registered in the overlay.")

    @classmethod
    def of(cls, report: OverlayReport) -> Self:
        """Returns it as the API shows it."""
        received, tallies = report.received, report.tallies
        return cls(
            name=report.name,
            identity=str(report.identity),
            incarnation=report.incarnation,
            where=report.where,
            links=[
                LinkOut.of(
                    link, report.status.tables.get(link.identity, 0), report.status.flows.get(link.identity, (0, 0))
                )
                for link in report.links
            ],
            not_reached=[DialOut.of(dial) for dial in report.dials],
            troubles=[LinkFaultOut.of(trouble) for trouble in report.troubles],
            trouble_counts=report.trouble_counts,
            brokers=_peers(report),
            published=tallies.published,
            stored=received.stored,
            unwanted=received.unwanted,
            already_stored=received.already_stored,
            reduced=report.status.counts.get("reduced", 0),
            reduced_bytes=report.status.counts.get("reduced_bytes", 0),
            insufficient=report.status.counts.get("insufficient", 0),
            refused=received.refused,
            asked_again=tallies.recovered,
            lost=tallies.lost + received.lost,
            waiting_messages=report.waiting_messages,
            waiting_bytes=report.waiting_bytes,
            wishes_waiting=report.interests_waiting,
            wishes_generalised=report.interests_generalised,
            registry=RegistryOut.of(report.registry),
            sources=report.sources,
        )


def _peers(report: OverlayReport) -> list[PeerOut]:
    status = report.status
    results = []
    for peer in status.peers:
        towards = status.parents.get(peer.identity)
        description = read_description(peer.label)
        results.append(
            PeerOut(
                name=report.name_of(peer.identity),
                identity=str(peer.identity),
                label=description.label,
                url=description.url or None,
                location=description.location,
                holds_registry=description.name in report.registry.holders,
                neighbours=[NeighbourOut(name=report.name_of(one), cost=cost) for one, cost in peer.links],
                towards=None if towards is None else report.name_of(towards),
                horizon=status.horizons.get(peer.identity),
                missing=status.gaps.get(peer.identity, 0),
            )
        )
    return sorted(results, key=lambda peer: peer.name)


class BranchOut(Model):
    """The decision about a message on one link."""

    neighbour: str
    behind: bool = Field(
        description="Whether the neighbour is behind this broker, as seen from the root of the message."
    )
    taken: bool = Field(description="Whether the message is forwarded there.")
    wanted: list[str] = Field(description="Routing queries there that match it, in the scope of its tenant.")
    reduced: str | None = Field(
        description="The query whose result is sent instead of the message; null if the message is sent."
    )


class RouteOut(Model):
    """The route of a message through the overlay."""

    root: str = Field(description="The broker that accepted it first.")
    number: int = Field(description="Its number there.")
    passed: list[str] = Field(description="The brokers that it passed, this one last.")
    links: list[BranchOut] = Field(description="Decisions by the present routing tables.")

    @classmethod
    def of(cls, route: MessageRoute) -> Self:
        """Returns it as the API shows it."""
        links = [
            BranchOut(
                neighbour=name,
                behind=branch.is_child,
                taken=branch.is_child and bool(branch.interests),
                wanted=list(branch.interests),
                reduced=branch.reduced or None,
            )
            for name, branch in route.branches
        ]
        return cls(root=route.root, number=route.number, passed=route.passed, links=links)


class RegistrationIn(Model):
    """A source to be registered."""

    location: tuple[float, float] = Field(
        (0.0, 0.0),
        alias="place",
        description="Its position on the map of `overlay_place`: a broker near it becomes its root.",
    )
    dtd: str = Field("", max_length=512 << 10, description="Its schema, as a DTD; empty if there is none.")
    rate: float = Field(1.0, ge=0, le=1e9, description="Messages a second that it expects to publish.")
    size: int = Field(1_000, ge=0, le=1 << 40, description="Bytes of a message that it expects.")


class ChosenOut(ObjectOut):
    """A chosen broker."""

    name: str
    url: OptionalText = Field(description="Its address for clients; null if it publishes none.")


class ChoiceOut(ObjectOut):
    """The broker that serves a source or a subscriber."""

    broker: ChosenOut
    backup: ChosenOut | None = Field(description="The broker that would replace it.")


class RegisteredOut(ChoiceOut):
    """A registered source: where it publishes, and with which key."""

    key: str = Field(description="To be sent as `Twigcast-Source-Key` with each message, and to change the source.")


class SourceEntryOut(Model):
    """A source in the catalogue."""

    name: str
    root: str = Field(description="The broker at which it publishes.")
    url: str | None = Field(description="The address of that broker; null if it publishes none.")
    version: int = Field(description="Grows with each change.")
    rate: float
    size: int
    dtd: str | None = Field(description="Its schema; null if it was not requested, or there is none.")


class CatalogueOut(Model):
    """The catalogue of an overlay, for one tenant."""

    sources: list[SourceEntryOut]


class ProfileIn(Model):
    """The expected subscriptions of a subscriber, for which a broker is chosen."""

    query: str = Field(max_length=1 << 20)
    namespaces: dict[str, str] = Field(default_factory=dict)
    location: tuple[float, float] = Field((0.0, 0.0), alias="place", description="The position of the subscriber.")


class MovedOut(Model):
    """The new brokers of the sources and profiles of a broker that is gone."""

    sources: int = Field(description="Sources that publish at another broker now.")
    profiles: int = Field(description="Profiles whose host is another broker now.")
