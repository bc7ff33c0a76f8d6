"""Messages, accepted and rejected."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Self

from pydantic import Field

from twigcast.broker.api.envelopes import as_text
from twigcast.broker.api.models.common import Model, moment
from twigcast.broker.model import RejectedRecord, StoredMessage


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


class BatchOut(Model):
    """The results of the messages of a batch, in their order."""

    accepted: int
    duplicates: int
    rejected: int
    results: list[AcceptedOut | RejectedInBatch]


class MessageOut(Model):
    """A message."""

    seq: int
    id: str
    source: str
    received: datetime
    matches: int
    bytes: int
    xml: str | None = Field(default=None, description="The message itself; in lists only if requested.")

    @classmethod
    def of(cls, message: StoredMessage, *, whole: bool) -> Self:
        """Returns a stored message as the API shows it."""
        return cls(
            seq=message.seq,
            id=message.message_id,
            source=message.source,
            received=moment(message.received),
            matches=message.matches,
            bytes=len(message.xml),
            xml=as_text(message.xml) if whole else None,
        )


class MessagesOut(Model):
    """A page of messages."""

    messages: list[MessageOut]
    cursor: int = Field(
        description="Says how far this list reaches. As `after` it lists what came later; a subscription with "
        '`"from": {"after": cursor}` gets exactly what came later.'
    )
    more: bool = Field(description="Whether there are more already.")


class RejectedOut(Model):
    """A rejected message, and why."""

    rejected: int = Field(description="Its number among the rejected ones.")
    id: str | None
    source: str
    received: datetime
    code: str
    reason: str
    line: int | None
    column: int | None
    bytes: int

    @classmethod
    def of(cls, message: RejectedRecord) -> Self:
        """Returns a rejected message as the API shows it."""
        return cls(
            rejected=message.id,
            id=message.message_id,
            source=message.source,
            received=moment(message.received),
            code=message.code,
            reason=message.reason,
            line=message.line,
            column=message.column,
            bytes=len(message.body),
        )


class RejectedListOut(Model):
    """A page of rejected messages, newest first."""

    rejected: list[RejectedOut]
    next: int | None = Field(description="As `before` it gives the next page; null on the last one.")
