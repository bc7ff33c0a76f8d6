"""Deliveries and dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Self

from pydantic import Field, model_validator

from twigcast.broker.api.context import Name
from twigcast.broker.api.envelopes import as_text
from twigcast.broker.api.models.common import DeliveryIdText, Model, moment
from twigcast.broker.model import (
    DeadLetter,
)


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


class DeadLetterOut(Model):
    """A delivery that was given up."""

    dead_letter: int = Field(description="Its number.")
    key: str
    seq: int
    message: str
    attempts: int
    reason: str
    at: datetime
    xml: str

    @classmethod
    def of(cls, letter: DeadLetter) -> Self:
        """Returns a dead letter as the API shows it."""
        return cls(
            dead_letter=letter.id,
            key=letter.key,
            seq=letter.seq,
            message=letter.message_id,
            attempts=letter.attempts,
            reason=letter.reason,
            at=moment(letter.at),
            xml=as_text(letter.body),
        )


class DeadLettersOut(Model):
    """A page of dead letters, newest first."""

    dead_letters: list[DeadLetterOut]
    next: int | None = Field(description="As `before` it gives the next page; null on the last one.")


class DeadLettersIn(Model):
    """A choice of dead letters."""

    dead_letters: list[Annotated[int, Field(ge=0, le=1 << 62)]] = Field(min_length=1, max_length=10_000)
