"""The kinds of delivery: the registry of channels, which API, console and outbound services read.

A subscription of the kind ``pull`` has no channel: its subscriber pulls, listens to a stream or reads a feed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal

from pydantic import PlainValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from twigcast.broker.delivery.channel import Channel, ChannelSettings
from twigcast.broker.delivery.http_client import HttpClient
from twigcast.broker.delivery.webhook import WebhookChannel, WebhookSettings
from twigcast.broker.delivery.websub import WebSubChannel
from twigcast.broker.feed_addresses import Capabilities
from twigcast.broker.model import PULL


class PullSettings(ChannelSettings):
    """The settings of a subscription whose subscriber fetches its deliveries: none."""

    kind: Literal["pull"] = "pull"


@dataclass(frozen=True, slots=True)
class ChannelResources:
    """The resources from which channels are made."""

    http_client: HttpClient
    capabilities: Capabilities


@dataclass(frozen=True, slots=True)
class DeliveryKind:
    """A kind of delivery."""

    title: str
    """A name for people."""
    settings: type[ChannelSettings] | None
    """The settings that API and console accept; ``None`` if subscriptions of this kind are made in another way."""
    choice: str = ""
    """The text of the kind in the form of a subscription."""
    make: Callable[[ChannelResources], Channel] | None = None
    """Makes the channel; ``None`` for ``pull``."""


DELIVERY_KINDS: Final[Mapping[str, DeliveryKind]] = {
    PULL: DeliveryKind(
        "fetched: pull, streams, feed",
        PullSettings,
        "Fetched by the subscriber: pull, Server-Sent Events, WebSocket, Atom feed",
    ),
    "webhook": DeliveryKind(
        "webhook", WebhookSettings, "Posted to a webhook", lambda resources: WebhookChannel(resources.http_client)
    ),
    "websub": DeliveryKind(
        "WebSub", None, make=lambda resources: WebSubChannel(resources.http_client, resources.capabilities)
    ),
}

SETTINGS: Final = {kind: entry.settings for kind, entry in DELIVERY_KINDS.items() if entry.settings is not None}
"""The settings of the kinds that a subscriber can choose."""


def make_channels(resources: ChannelResources) -> dict[str, Channel]:
    """Returns the channels by kind of delivery."""
    return {kind: entry.make(resources) for kind, entry in DELIVERY_KINDS.items() if entry.make is not None}


def read_settings(value: Any) -> ChannelSettings:
    """Returns the settings in a JSON object, in which null counts as absent if it must; raises ValidationError."""
    if isinstance(value, ChannelSettings):
        return value
    if not isinstance(value, dict):
        raise ValueError("it must be an object")
    kind = value.get("kind", PULL)
    model = SETTINGS.get(kind) if isinstance(kind, str) else None
    if model is None:
        wrong = PydanticCustomError("literal_error", f"Input should be {' or '.join(map(repr, SETTINGS))}")
        raise ValidationError.from_exception_data(
            ChannelSettings.__name__, [InitErrorDetails(type=wrong, loc=("kind",), input=kind)]
        )
    nullable = {name for name, field in model.model_fields.items() if not field.is_required()}
    return model.model_validate({name: item for name, item in value.items() if item is not None or name in nullable})


AnySettings = Annotated[
    ChannelSettings, PlainValidator(read_settings, json_schema_input_type=reduce(or_, SETTINGS.values()))
]
"""The settings of any kind that a subscriber can choose."""
