"""Bodies of requests and responses. The OpenAPI description is made from these."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    FailFast,
    Field,
    PlainValidator,
    StringConstraints,
    model_validator,
)

from twigcast.broker.api.context import Name, check_kept
from twigcast.broker.api.envelopes import as_text
from twigcast.broker.api.preconditions import tag_of_source, tag_of_subscription, tag_of_table
from twigcast.broker.config import TenantLimits
from twigcast.broker.delivery.channel import Text as Text
from twigcast.broker.delivery.channel import Url as Url
from twigcast.broker.delivery.channels import DELIVERY_KINDS, AnySettings, PullSettings
from twigcast.broker.errors import Invalid
from twigcast.broker.lookup_tables import COLUMNS_MAX, LOOKUPS_MAX, Missing, TableSummary, check_element
from twigcast.broker.model import (
    ClockState,
    DeliveryId,
    DoctypePolicy,
    OverflowPolicy,
    Receipt,
    Scope,
    Source,
    StoredMessage,
    StoredSubscription,
    SubscriptionState,
    UpdateMode,
    ValidationMode,
)
from twigcast.broker.options import refused_dialect
from twigcast.broker.urgency import PRIORITY_MAX, OverduePolicy, Urgency
from twigcast.errors import InvalidContext
from twigcast.lifecycle.builtin import BUILTIN
from twigcast.lifecycle.chains import Chain, ChainState, Effect, Relation
from twigcast.overlay.onyx.registry.description import read_description
from twigcast.reading.text import NO_CHARACTER, half_pair
from twigcast.registration import Dialect
from twigcast.subscription_items import dialect_with_numbers
from twigcast.windows.declarations import Window, WindowKind, read_period, read_window
from twigcast.windows.status import status_text

if TYPE_CHECKING:
    from twigcast.broker.overlay.reports import MessageRoute, OverlayReport
    from twigcast.broker.store.windows import StoredWindow
    from twigcast.overlay.onyx.network.reports import LinkReport


class Model(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


class RequestBody(Model):
    """A body of a request. JSON has types: `"10"` is not taken for 10, nor `true` for 1."""

    model_config = ConfigDict(strict=True)


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


def _written_time(value: object) -> object:
    """Returns a time as it is; raises ValueError for a number, of which nobody knows the unit."""
    if not isinstance(value, str | datetime):
        raise ValueError("a time is written as text, such as 2026-01-31T12:00:00Z")
    return value


TimeIn = Annotated[datetime, Field(strict=False), BeforeValidator(_written_time)]
AwareTimeIn = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_written_time)]


def _truth(value: object) -> object:
    """Returns a value as it is; raises ValueError for a number that equals a truth value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError("true is due here")
    return value


TrueIn = Annotated[Literal[True], BeforeValidator(_truth)]
OverflowIn = Annotated[OverflowPolicy, Field(strict=False)]
ScopeIn = Annotated[Scope, Field(strict=False)]
LocationIn = Annotated[tuple[float, float], Field(strict=False)]
"""A position on the map of an overlay."""

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
"""Prefix to namespace."""

_SCALARS: Final = frozenset({bool, int, float, str})


def _params(value: object) -> object:
    """Returns the values of parameters; raises ValueError for what no parameter can be.

    Lists have up to a hundred thousand values: these are looked at together.
    """
    if not isinstance(value, dict):
        raise ValueError("an object is due here, of values by name")
    for name, item in value.items():
        values = item if isinstance(item, list) else [item]
        if not _SCALARS.issuperset(map(type, values)):
            raise ValueError(f"{name[:100]}: a value is a text, a number, true, false, or a list of these")
        texts = [name, *(one for one in values if type(one) is str)]
        if half_pair("".join(texts)) is not None:
            raise ValueError(f"{name[:100]!a}: {NO_CHARACTER}")
        if not all(math.isfinite(one) for one in values if type(one) is float):
            raise ValueError(f"{name[:100]}: a number must be finite")
    return value


_ValueIn = bool | int | float | str
ParamsIn = Annotated[
    dict[str, Any], PlainValidator(_params, json_schema_input_type=dict[str, _ValueIn | list[_ValueIn]])
]
"""The values of parameters, by name."""

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


def receipt(text: str) -> Receipt:
    """Returns a receipt of a worker, or an id alone; raises ValueError if the text is neither."""
    result = Receipt.parse(text)
    if max(result.id) > NUMBER_MAX or (result.attempt or 0) > NUMBER_MAX:
        raise ValueError(f"{text!r} is no receipt: its numbers are too large")
    return result


def _receipt_text(value: str) -> str:
    receipt(value)
    return value


IDS_MAX: Final = 10_000
"""The most deliveries that one request may name."""

DeliveryIdText = Annotated[str, StringConstraints(max_length=41), AfterValidator(_delivery_id_text)]
"""An id of a delivery, such as ``1234-56``."""

ReceiptText = Annotated[str, StringConstraints(max_length=62), AfterValidator(_receipt_text)]
"""An id of a delivery, such as ``1234-56``, or a receipt of a worker, such as ``1234-56-2``."""


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


class Start(RequestBody):
    """The message with which a subscription begins; one of these fields."""

    seq: int | None = Field(default=None, ge=0, le=1 << 62, description="With the message of this sequence number.")
    after: int | None = Field(default=None, ge=0, le=1 << 62, description="Right after this cursor.")
    time: TimeIn | None = Field(default=None, description="With the first message received at or after this time.")
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
    now: TrueIn | None = Field(default=None, description="With the next message; nothing pending is delivered.")


def _as_numbers(values: Any) -> Any:
    """Returns the fields of a query, with the dialect that reads numbers as they say."""
    if not isinstance(values, dict) or not isinstance(values.get("numbers"), str):
        return values
    if not isinstance(values.get("dialect"), str | None):
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


class QueryIn(RequestBody):
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


def _checked_when(when: dict[str, Any] | None) -> dict[str, Any] | None:
    if when is not None:
        read_window(when)
    return when


WhenIn = Annotated[
    dict[str, Any] | None,
    AfterValidator(_checked_when),
    Field(examples=[{"at_least": 3, "within": "10 min", "by": "string(//area)"}]),
]


def _checked_period(text: str) -> str:
    read_period(text, "deadline")
    return text


_WHEN: Final = (
    "When it is told: one of `at_least` (a number) with `within`; `sequence` (a condition that the second message "
    "meets) with `within`; `absence`, `throttle` or `digest` (a time); `changed` (an expression). Beside it `by`, an "
    "expression whose value messages are grouped by, and `at` with `lateness`, where messages say when they happened. "
    "By default it is told of each message as it comes."
)


class UrgencyIn(RequestBody):
    """The urgency of the deliveries of a subscription."""

    priority: int | None = Field(
        default=None,
        ge=0,
        le=PRIORITY_MAX,
        description="From 0 to 9. A delivery has the higher one of this and of that of its message; 4 where neither "
        "says anything.",
    )
    deadline: Annotated[str, AfterValidator(_checked_period)] | None = Field(
        default=None,
        description="How long after a message was received its delivery is of use, such as `5 min`. A delivery has the "
        "earlier one of this and of that of its message.",
    )
    overdue: Annotated[OverduePolicy, Field(strict=False)] = Field(
        default=OverduePolicy.MARK,
        description="What happens to deliveries that are too late: `mark` them (`overdue` is true, and by urgency they "
        "come last), or `drop` them (the errors of the subscription say how many).",
    )

    def urgency(self) -> Urgency | None:
        """Returns it as the broker has it; `None` if it says nothing."""
        seconds = None if self.deadline is None else read_period(self.deadline, "deadline")
        made = Urgency(self.priority, seconds, self.overdue)
        return None if made == Urgency() else made


class ReplacementIn(QueryIn):
    """A subscription under an existing key."""

    subscriber: Name | None = Field(
        default=None,
        description="The owner of the queue that its deliveries join; by default it has its own, under its key.",
    )
    delivery: AnySettings = Field(default_factory=PullSettings)
    overflow: OverflowIn = Field(
        default=OverflowPolicy.SUSPEND,
        description="What happens when more than `pending_max` deliveries wait for its subscriber: `suspend` it until "
        "half of them are done, and then deliver what it missed too; `drop_oldest` ones; `dead_letter` the oldest "
        "ones; `refuse` the publishers of messages that it matches.",
    )
    follow: bool | None = Field(
        default=None,
        description="Whether it gets the updates and the end of messages that it got though these do not match; by "
        "default as the profile of their source says.",
    )
    when: WhenIn = Field(default=None, description=_WHEN)
    urgency: UrgencyIn | None = Field(
        default=None,
        description="How urgent its deliveries are, and what happens to those that are too late; by default as their "
        "messages are.",
    )
    from_: Start | None = Field(
        default=None, alias="from", description="The stored message with which it begins; by default the next message."
    )


class SubscriptionIn(ReplacementIn):
    """A subscription."""

    key: Name = Field(description="Your own identifier of it.", examples=["flood-desk"])


class SubscriptionPatch(RequestBody):
    """The changes of a subscription."""

    _read_numbers = model_validator(mode="before")(_as_numbers)

    query: Text | None = None
    namespaces: Namespaces | None = None
    dialect: BrokerDialect | None = None
    params: ParamsIn | None = None
    numbers: NumbersIn = None
    delivery: AnySettings | None = None
    overflow: OverflowIn | None = None
    follow: bool | None = None
    when: WhenIn = None
    urgency: UrgencyIn | None = None
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


class UrgencyOut(Model):
    """The urgency of the deliveries of a subscription."""

    priority: int | None
    deadline: str | None = Field(description="How long after a message was received its delivery is of use.")
    overdue: OverduePolicy = Field(description="What happens to deliveries that are too late.")

    @classmethod
    def of_urgency(cls, urgency: Urgency) -> Self:
        """Returns it as the API shows it."""
        return cls.model_validate(
            {"priority": None, "deadline": None, "overdue": urgency.overdue} | urgency.as_mapping()
        )


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
    follow: bool | None = Field(
        description="Whether it gets the updates and the end of what it got though these do not match; null: as the "
        "profile of their source says."
    )
    when: dict[str, Any] | None = Field(
        description="When it is told, beside what it is told of; null: of each message as it comes."
    )
    urgency: UrgencyOut | None = Field(
        description="How urgent its deliveries are, and what happens to those too late; null: as their messages are."
    )
    missed_from: int | None = Field(
        description="The first message that it misses while it is suspended since too much waits; it gets them later."
    )
    pending: int | None = Field(
        default=None,
        description="Deliveries that wait for its subscriber; only in the response about one subscription.",
    )
    warnings: list[str] = Field(default_factory=list, description="What looks wrong with the query, when it is new.")
    etag: str = Field(description="Its entity tag, for `If-Match`.")

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
        when = None if subscription.window is None else subscription.window.as_mapping()
        urgency = None if subscription.urgency is None else UrgencyOut.of_urgency(subscription.urgency)
        more: dict[str, Any] = {"delivery": delivery, "replay": replay, "when": when, "urgency": urgency}
        more |= {"pending": pending, "warnings": list(warnings)}
        tag = tag_of_subscription(subscription)
        return cls.model_validate(_shared(cls, subscription) | more | {"etag": tag})


class WindowStateOut(Model):
    """The state of one key of a window."""

    key: str = Field(description="The value of `by`; empty without it.")
    state: str = Field(description="In words, such as `2 of 3 since 2026-12-01T10:02:00Z`.")
    due: Moment = Field(description="When something is to be told, or what is known is forgotten, if nothing comes.")


class WindowOut(Model):
    """The state of the window of a subscription."""

    when: dict[str, Any]
    keys: list[WindowStateOut]
    next: str | None = Field(description="As `after` it gives the next page; null on the last one.")

    @classmethod
    def of(cls, window: Window, states: Sequence[StoredWindow], *, following: str | None) -> Self:
        """Returns it as the API shows it."""
        keys = [
            WindowStateOut.model_validate(
                {"key": one.window_key, "state": status_text(window, one.state), "due": one.state.due}
            )
            for one in states
        ]
        return cls(when=window.as_mapping(), keys=keys, next=following)


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


class ExplainIn(RequestBody):
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
    invalid: str | None = Field(
        default=None, description="What the DTD of its source does not allow in it; left out if there is nothing."
    )
    effect: Effect | None = Field(
        default=None,
        description="What it turned out to be, by the profile of its source; left out without one. A `duplicate` by "
        "its content, and what is `superseded` by a message that came before it, goes to nobody who has the matter.",
    )
    trouble: str | None = Field(
        default=None, description="What the profile of its source could not read of it; left out if there is nothing."
    )


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
    priority: int | None = Field(description="Its priority, from 0 to 9; null where its publisher said nothing.")
    deadline: Moment | None = Field(description="When it is of no use any more; null: never.")
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


class WindowNoteOut(Model):
    """The messages that a window tells of."""

    kind: WindowKind
    key: str = Field(description="The value of `by`.")
    messages: list[int] = Field(description="Their sequence numbers, in order of time.")
    old: str | None = Field(default=None, description="Only of `changed`: the value before.")
    new: str | None = Field(default=None, description="Only of `changed`: the value now.")


class EnvelopeOut(Model):
    """A delivery."""

    id: str = Field(description="The id for acknowledgement, and to recognise a delivery that comes twice.")
    key: str = Field(description="Of the subscription.")
    redelivered: bool = Field(description="Whether it may have been delivered before.")
    attempt: int | None = Field(
        default=None, description="Only from a shared queue: how often it was handed out, this time included."
    )
    receipt: str | None = Field(
        default=None,
        description="Only from a shared queue: names the delivery in this attempt, for `ack`, `nack` and `extend`.",
    )
    rewritten: bool = Field(description="Whether `xml` is the result of a query that rewrites.")
    relation: Relation | None = Field(
        default=None,
        description="Only if its source has a profile: what it is beside what the subscription got before. `entered`: "
        "the first of its matter; `updated`: in place of that; `left`: in place of that, and it no longer matches; "
        "`cancelled`, `expired`: that is over.",
    )
    window: WindowNoteOut | None = Field(
        default=None, description="Only if the subscription has a window: of which messages this delivery tells."
    )
    overdue: Literal[True] | None = Field(
        default=None, description="Only if it is too late, by the deadline of its message or its subscription."
    )
    seq: int
    message: str = Field(description="The id of the message.")
    source: str
    received: datetime
    priority: int | None = Field(default=None, description="The priority of the message, if it has one.")
    deadline: datetime | None = Field(default=None, description="The deadline of the message, if it has one.")
    xml: str | None = Field(default=None, description="The message or the result; left out with `bodies=false`.")


class EnvelopesOut(Model):
    """Deliveries."""

    deliveries: list[EnvelopeOut]


class AckIn(RequestBody):
    """Deliveries that are processed."""

    subscriber: Name
    ids: Annotated[list[ReceiptText], FailFast()] = Field(
        default_factory=list, max_length=IDS_MAX, description="Single deliveries, by id or receipt; or"
    )
    up_to: DeliveryIdText | None = Field(default=None, description="all up to this one, of an ordered queue.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if bool(self.ids) == (self.up_to is not None):
            raise ValueError("give either ids or up_to")
        return self


class NackIn(RequestBody):
    """Deliveries that were pulled and are released."""

    subscriber: Name
    ids: Annotated[list[ReceiptText], FailFast()] = Field(
        min_length=1,
        max_length=IDS_MAX,
        description="Their ids; for a shared queue rather their receipts, which are of no effect once another worker "
        "has the delivery.",
    )
    delay: float = Field(default=0.0, ge=0, le=86_400, description="Seconds before they are handed out again.")
    reason: Annotated[Text, StringConstraints(max_length=1_000), AfterValidator(check_kept)] | None = Field(
        default=None,
        description="What went wrong: the reason of the dead letter, if this was the last attempt in a shared queue.",
    )


class ExtendIn(RequestBody):
    """Deliveries of a shared queue on which a worker is still at work."""

    subscriber: Name
    ids: Annotated[list[ReceiptText], FailFast()] = Field(
        min_length=1, max_length=IDS_MAX, description="Their receipts, or their ids."
    )
    seconds: float = Field(gt=0, le=86_400, description="Their leases end in so many seconds from now.")


class ExtendedOut(Model):
    """The leases that go on, and those that were over."""

    extended: int = Field(description="The number of leases that go on.")
    lost: list[str] = Field(description="Those of the receipts whose lease was over: another worker may have it.")


class TicketIn(RequestBody):
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
    queue: Literal["ordered", "shared"] = Field(description="Whether workers share its queue.")
    attempts: int = Field(
        description="Failed attempts to send the first one; of a shared queue the most attempts at one delivery."
    )
    next_retry: Moment | None = Field(
        description="When sending is tried again, or the next delayed delivery of a shared queue is handed out."
    )
    readers: int = Field(description="Its open streams and waiting pulls.")
    connected_since: Moment | None = Field(description="Since when it has always had one; null without one.")


class ConsumersOut(Model):
    """A page of subscribers, in order of their names."""

    consumers: list[ConsumerOut]
    next: str | None = Field(description="As `after` it gives the next page; null on the last one.")


class SkipIn(RequestBody):
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


class DeadLettersIn(RequestBody):
    """A choice of dead letters."""

    dead_letters: list[Annotated[int, Field(ge=0, le=1 << 62)]] = Field(min_length=1, max_length=10_000)


MediaRange = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9!#$&^_.+*-]{1,100}/[A-Za-z0-9!#$&^_.+*-]{1,100}$", to_lower=True),
]
HostPattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:*-]{1,253}$", to_lower=True)]


class LookupIn(RequestBody):
    """A look-up: what is added from a table to the messages of a source."""

    table: Name = Field(description="The name of a table of yours: see `PUT /tables/{name}`.")
    key: Text = Field(
        min_length=1,
        max_length=10_000,
        description="An expression in XPath: each value that it selects in a message is looked up, without the spaces "
        "around it.",
        examples=["//geocode[valueName = 'SAME']/value"],
    )
    element: Text = Field(
        max_length=200, description="The name of the element that is added for each row.", examples=["county"]
    )
    namespace: Text = Field(default="", max_length=1_000, description="The namespace of it and of what is in it.")
    columns: dict[Text, Text] = Field(
        default_factory=dict,
        max_length=COLUMNS_MAX,
        description="The columns that are wanted, each with the name of its element; by default all of them.",
    )
    at: Text = Field(
        default="/*",
        min_length=1,
        max_length=10_000,
        description="A path to the element at whose end they are added, the first it selects; by default the root.",
    )
    namespaces: Namespaces = Field(default_factory=dict, description="Prefix to namespace, for `key` and `at`.")
    missing: Missing = Field(
        default="pass",
        description="What is done with a message that has no key, or one without a row: it is taken with what was "
        "found (`pass`), or rejected (`reject`).",
    )

    @model_validator(mode="after")
    def _has_names(self) -> Self:
        try:
            check_element(self.element, "element")
            for column, name in self.columns.items():
                check_element(name, f"columns: {column[:60]!r}")
        except Invalid as error:
            raise ValueError(str(error)) from None
        return self


class SourceIn(RequestBody):
    """The settings of a source."""

    kind: Literal["push", "rss", "atom", "http-folder"] = Field(
        default="push", description="`push`: the source publishes by itself; all others are polled."
    )
    url: Url | None = Field(default=None, description="The address that is polled.")
    interval: float = Field(default=300.0, ge=1, le=86_400 * 31, description="Seconds between polls.")
    dtd: Text | None = Field(
        default=None,
        description="The text of a DTD that its messages follow; see `validation`.",
    )
    xsd: Text | None = Field(
        default=None,
        max_length=1 << 20,
        description="The text of a schema in XML Schema that its messages follow, in one document; see `validation`.",
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

    doctype: DoctypePolicy = Field(
        default="strip",
        description="What is done with a DOCTYPE in its messages. `strip`: subscribers get the message without it, "
        "with its entities expanded; `allow`: they get it as it was sent; `refuse`: the message is rejected.",
    )
    validation: ValidationMode = Field(
        default="off",
        description="What is done with messages that `dtd` or `xsd` does not allow: nothing (`off`), the publisher is "
        "told and they are taken (`annotate`), or they are rejected (`reject`).",
    )

    profile: str | dict[str, Any] | None = Field(
        default=None,
        description="How its messages say what they update or cancel: `cap`, `atom`, `rss`, `newsml-g2`, `nitf`, "
        "`siri-sx`, or an object with the parts of a profile. Sources whose profiles have one name share what they "
        "know.",
        examples=["cap"],
    )

    lookups: list[LookupIn] = Field(
        default_factory=list,
        max_length=LOOKUPS_MAX,
        description="What is looked up in tables and added to its messages before they are matched.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.kind == "push") != (self.url is None):
            raise ValueError("a source that is polled needs a url, one that pushes has none")
        if self.validation != "off" and self.dtd is None and self.xsd is None:
            raise ValueError("validation needs a dtd or an xsd")
        if self.lookups and self.doctype == "allow":
            raise ValueError("lookups change messages, so these have no DOCTYPE: doctype must be strip or refuse")
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
    etag: str = Field(description="Its entity tag, for `If-Match`.")
    last_report: PollOut | None = Field(description="What the last poll took, updated, skipped and refused.")

    @classmethod
    def of(cls, source: Source) -> Self:
        """Returns a source as the API shows it."""
        at = source.state.get("last_poll")
        error = source.state.get("last_error")
        reports = source.state.get("reports")
        lists: dict[str, Any] = {"follow": list(source.follow), "follow_hosts": list(source.follow_hosts)}
        if source.profile is not None and source.profile not in BUILTIN:
            lists["profile"] = json.loads(source.profile)
        lists["lookups"] = [LookupIn.model_construct(**one) for one in source.lookups]
        return cls.model_construct(
            **_shared(cls, source) | lists,
            etag=tag_of_source(source),
            last_poll=None if at is None else _moment(float(at)),
            last_error=None if error is None else str(error),
            failures=int(source.state.get("failures", 0)),
            warnings=list(source.state.get("warnings") or ()),
            last_report=PollOut.model_validate(reports[0]) if reports else None,
        )


class TableOut(Model):
    """A look-up table."""

    name: str
    version: int = Field(description="Grows with each table that is stored.")
    updated: Moment
    key: str = Field(description="The column by which rows are found.")
    columns: list[str]
    rows: int = Field(description="The number of rows.")
    bytes: int = Field(description="As it is stored.")
    etag: str = Field(description="Its entity tag, for `If-Match`.")

    @classmethod
    def of(cls, table: TableSummary) -> Self:
        """Returns a table as the API shows it."""
        t = table
        about = {"name": t.name, "version": t.version, "updated": t.updated, "key": t.key, "columns": list(t.columns)}
        return cls.model_validate(about | {"rows": t.rows, "bytes": t.size, "etag": tag_of_table(t)})


class TablesOut(Model):
    """All look-up tables, by name."""

    tables: list[TableOut]


class ChainMemberOut(Model):
    """A message of a matter."""

    seq: int
    identity: str = Field(description="Which message it is, as it says itself.")
    version: str
    effect: Effect = Field(description="What it turned out to be.")
    at: Moment


class RelationOut(Model):
    """A delivery of a matter."""

    seq: int
    key: str
    relation: Relation | None = Field(description="What it was to the subscription beside what it got before.")


class LifecycleOut(Model):
    """The life cycle of a matter: messages that update and cancel each other, and who got them."""

    profile: str
    state: ChainState
    expires: Moment | None
    messages: list[ChainMemberOut] = Field(description="In the order in which they came; the latest 200.")
    deliveries: list[RelationOut]

    @classmethod
    def of_chain(cls, profile: str, chain: Chain[int], relations: Sequence[tuple[int, str, Relation | None]]) -> Self:
        """Returns a chain with its deliveries as the API shows them."""
        return cls(
            profile=profile,
            state=chain.state,
            expires=None if chain.expires is None else _moment(chain.expires),
            messages=[
                ChainMemberOut(
                    seq=int(one.handle),
                    identity=one.identity,
                    version=one.version,
                    effect=one.effect,
                    at=_moment(one.at),
                )
                for one in chain.members
            ],
            deliveries=[RelationOut(seq=seq, key=key, relation=relation) for seq, key, relation in relations],
        )


class SourcesOut(Model):
    """All sources."""

    sources: list[SourceOut]


class TenantIn(RequestBody):
    """A new tenant."""

    name: Name
    limits: dict[str, int] = Field(default_factory=dict, description="Limits that differ from the broker's.")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        TenantLimits(**self.limits)
        return self


class LimitsIn(RequestBody):
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


_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)
"""Some times after this one, given with an offset, are beyond what can be shown in UTC."""


def _fingerprint(value: object) -> object:
    # What is no text is refused behind this.
    return value.replace(":", "").lower() if isinstance(value, str) else value


Fingerprint = Annotated[str, BeforeValidator(_fingerprint), StringConstraints(pattern="^[0-9a-f]{64}$")]
"""The SHA-256 fingerprint of a certificate, in hexadecimal, perhaps with colons as OpenSSL shows it."""


class TokenIn(RequestBody):
    """A requested token."""

    name: Name = Field(description="Its purpose.")
    scopes: list[ScopeIn] = Field(min_length=1, max_length=3)
    tenant: Name | None = Field(default=None, description="The tenant, for operators; by default your own.")
    expires: AwareTimeIn | None = Field(default=None, description="When it opens nothing any more.")
    sources: list[Name] | None = Field(
        default=None, min_length=1, max_length=1_000, description="The only sources that it may publish as."
    )
    subscribers: list[Name] | None = Field(
        default=None,
        min_length=1,
        max_length=1_000,
        description="The only subscribers whose deliveries it may receive and acknowledge; it may read nothing else.",
    )
    certificates: list[Fingerprint] | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="SHA-256 fingerprints of client certificates: it opens nothing without one of them, which a proxy "
        "has checked; see `client_certificate_header`.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.expires is not None and self.expires <= datetime.now(UTC):
            raise ValueError("expires: this time is over")
        if self.expires is not None and self.expires > _LATEST:
            raise ValueError("expires: this time is after the year 9998")
        for names, scope in ((self.sources, Scope.PUBLISH), (self.subscribers, Scope.SUBSCRIBE)):
            if names is not None and (scope not in self.scopes or Scope.ADMIN in self.scopes):
                raise ValueError(f"only tokens with the scope {scope.value}, and without admin, can be narrowed so")
        return self


class RotationIn(RequestBody):
    """A change of the secret of a token."""

    keep_seconds: float = Field(
        default=3_600.0, ge=0, le=90 * 86_400, description="Seconds in which the old secret is still accepted."
    )


class TokenOut(ObjectOut):
    """A token, without its secret."""

    id: int
    name: str
    scopes: Annotated[list[Scope], BeforeValidator(sorted)]
    created: Moment
    expires: Moment | None = Field(description="When it opens nothing any more.")
    used: Moment | None = Field(description="When it was used last, to a minute or so.")
    previous_until: Moment | None = Field(description="Until when the secret is accepted that it had before.")
    sources: Annotated[list[str], BeforeValidator(sorted)] | None
    subscribers: Annotated[list[str], BeforeValidator(sorted)] | None
    certificates: Annotated[list[str], BeforeValidator(sorted)] | None


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
    location: LocationIn = Field(
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


class RegistrationIn(RequestBody):
    """A source to be registered."""

    location: LocationIn = Field(
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


class ProfileIn(RequestBody):
    """The expected subscriptions of a subscriber, for which a broker is chosen."""

    query: str = Field(max_length=1 << 20)
    namespaces: dict[str, str] = Field(default_factory=dict)
    location: LocationIn = Field((0.0, 0.0), alias="place", description="The position of the subscriber.")


class MovedOut(Model):
    """The new brokers of the sources and profiles of a broker that is gone."""

    sources: int = Field(description="Sources that publish at another broker now.")
    profiles: int = Field(description="Profiles whose host is another broker now.")
