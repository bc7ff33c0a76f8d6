"""Types that all bodies share."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from twigcast.broker.delivery.channel import Text as Text
from twigcast.broker.delivery.channel import Url as Url
from twigcast.broker.model import DeliveryId
from twigcast.broker.options import refused_dialect
from twigcast.registration import Dialect


class Model(BaseModel):
    """A body that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid")


def moment(seconds: float) -> datetime:
    """Returns seconds since the epoch as a time."""
    return datetime.fromtimestamp(seconds, UTC)


def _dialect(value: Dialect) -> Dialect:
    if (reason := refused_dialect(value)) is not None:
        raise ValueError(reason)
    return value


BrokerDialect = Annotated[Dialect, AfterValidator(_dialect)]
"""A dialect of queries that this broker accepts."""

Namespaces = dict[Text, Text]
"""Prefix to namespace."""

NUMBER_MAX: Final = 1 << 62
"""Largest number of a stored object."""


def delivery_id(text: str) -> DeliveryId:
    """Returns an id of a delivery.

    Raises:
        ValueError: The text is none.
    """
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
