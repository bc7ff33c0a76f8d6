"""Questions about queries."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from twigcast.broker.api.context import Name
from twigcast.broker.api.models.common import BrokerDialect, Model, Namespaces, Text


class CheckOut(Model):
    """The properties of a query."""

    valid: bool
    normal_form: str | None = Field(default=None, description="The query as the engine runs it.")
    route: str | None = Field(default=None, description="How it runs.")
    reason: str | None = Field(default=None, description="Why it runs so; if it is not valid, what is wrong.")
    warnings: list[str] = Field(default_factory=list)
    code: str | None = Field(default=None, description="The kind of error.")
    column: int | None = Field(default=None, description="Place of the error, in characters from 1.")
    expected: list[str] = Field(default_factory=list, description="What could stand there instead.")
    caret: str | None = Field(default=None, description="The place of the error, as two lines of text.")


class ExplainIn(Model):
    """A request to explain queries on a message."""

    query: Text | None = Field(default=None, description="A query; or")
    namespaces: Namespaces = Field(default_factory=dict)
    dialect: BrokerDialect = "xpath"
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
