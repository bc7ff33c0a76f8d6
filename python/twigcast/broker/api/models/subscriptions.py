"""Subscriptions."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from twigcast.broker.api.context import Name
from twigcast.broker.api.models.common import BrokerDialect, Model, Namespaces, Text, moment
from twigcast.broker.delivery.channels import DELIVERY_KINDS, AnySettings, PullSettings
from twigcast.broker.model import ErrorRecord, StoredSubscription, SubscriptionState
from twigcast.registration import Dialect


class Start(Model):
    """The message with which a subscription begins; one of these fields."""

    seq: int | None = Field(default=None, ge=0, le=1 << 62, description="With the message of this sequence number.")
    after: int | None = Field(default=None, ge=0, le=1 << 62, description="Right after this cursor.")
    time: datetime | None = Field(default=None, description="With the first message received at or after this time.")
    message: Name | None = Field(default=None, description="With the message of this id.")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if len(self.model_fields_set & set(type(self).model_fields)) != 1:
            raise ValueError("give one of seq, after, time and message")
        return self


class QueryIn(Model):
    """A query."""

    query: Text = Field(description="XPath, or For-Where-Return.", examples=["//alert[severity = 'high']"])
    namespaces: Namespaces = Field(
        default_factory=dict, description="Prefix to namespace; the empty prefix stands for element names without one."
    )
    dialect: BrokerDialect = Field(
        default="xpath",
        description="`legacy`: the spellings of older papers as well; `xquery`: all of XQuery, where there is Saxon.",
    )


class ReplacementIn(QueryIn):
    """A subscription under an existing key."""

    subscriber: Name | None = Field(
        default=None,
        description="The owner of the queue that its deliveries join; by default it has its own, under its key.",
    )
    delivery: AnySettings = Field(default_factory=PullSettings)
    from_: Start | None = Field(
        default=None, alias="from", description="The stored message with which it begins; by default the next message."
    )


class SubscriptionIn(ReplacementIn):
    """A subscription."""

    key: Name = Field(description="Your own identifier of it.", examples=["flood-desk"])


class SubscriptionPatch(Model):
    """The changes of a subscription."""

    query: Text | None = None
    namespaces: Namespaces | None = None
    dialect: BrokerDialect | None = None
    delivery: AnySettings | None = None
    state: Literal["active", "paused"] | None = None


class DeliveryOut(BaseModel):
    """The destination of deliveries. Further settings of a channel follow under their own names."""

    model_config = ConfigDict(extra="allow")

    kind: str = Field(json_schema_extra={"enum": list(DELIVERY_KINDS)})
    url: str | None
    signed: bool = Field(description="Whether there is a secret.")
    expires: datetime | None = Field(description="End of a WebSub lease.")


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
    subscriber: str
    delivery: DeliveryOut
    state: SubscriptionState
    reason: str | None = Field(description="Why the broker suspended it.")
    created: datetime
    replay: ReplayOut | None = Field(description="The progress of a replay, while it runs.")
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
        delivery = subscription.delivery
        return cls(
            key=subscription.key,
            query=subscription.query,
            namespaces=dict(subscription.namespaces),
            dialect=subscription.dialect,
            subscriber=subscription.subscriber,
            delivery=DeliveryOut(
                kind=delivery.kind,
                url=delivery.url,
                signed=delivery.secret is not None,
                expires=None if delivery.expires is None else moment(delivery.expires),
                **delivery.options,
            ),
            state=subscription.state,
            reason=subscription.reason,
            created=moment(subscription.created),
            replay=replay,
            pending=pending,
            warnings=list(warnings),
        )


class SubscriptionsOut(Model):
    """A page of subscriptions, in order of their keys."""

    subscriptions: list[SubscriptionOut]
    next: str | None = Field(description="As `after` it gives the next page; null on the last one.")


class ErrorOut(Model):
    """An error of one subscription."""

    at: datetime
    reason: str
    seq: int | None = Field(description="The message concerned.")
    count: int = Field(description="The number of deliveries concerned.")

    @classmethod
    def of(cls, record: ErrorRecord) -> Self:
        """Returns an error record as the API shows it."""
        return cls(at=moment(record.at), reason=record.reason, seq=record.seq, count=record.count)


class ErrorsOut(Model):
    """The latest errors, newest first."""

    errors: list[ErrorOut]
