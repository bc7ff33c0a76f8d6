"""The kinds of delivery: the registry of channels, which API, console and outbound services read.

A subscription of the kind ``pull`` has no channel: its subscriber pulls, listens to a stream or reads a feed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Final, Literal

from pydantic import Field, PlainValidator, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.delivery.channel import Channel, ChannelSettings
from twigcast.broker.delivery.http_client import HttpClient
from twigcast.broker.delivery.webhook import WebhookChannel, WebhookSettings
from twigcast.broker.delivery.websub import WebSubChannel
from twigcast.broker.feed_addresses import Capabilities
from twigcast.broker.model import BY_URGENCY, PULL, SHARED, DeliverySettings, Sharing

LEASE_SECONDS_MAX: Final = 86_400.0
"""The longest lease."""


class PullSettings(ChannelSettings):
    """The settings of a subscription whose subscriber fetches its deliveries."""

    kind: Literal["pull"] = "pull"
    queue: Literal["ordered", "shared"] = Field(
        default="ordered",
        title="Queue",
        description="`ordered`: while a delivery is leased, later ones of its subscription wait. `shared`: several "
        "workers take deliveries beside each other, each of them leased by one.",
    )
    lease_seconds: float = Field(
        default=Sharing().lease_seconds,
        gt=0,
        le=LEASE_SECONDS_MAX,
        title="Seconds of a lease, in a shared queue",
        description="Of a shared queue: how long a worker has a delivery, unless it asks for another time.",
    )
    attempts_max: int = Field(
        default=Sharing().attempts_max,
        ge=1,
        le=1_000,
        title="Attempts at a delivery, in a shared queue",
        description="Of a shared queue: how often a delivery is handed out, before it becomes a dead letter.",
    )

    order: Literal["publication", "urgency"] = Field(
        default="publication",
        title="Order, in a shared queue",
        description="Of a shared queue. `publication`: the first one published is next. `urgency`: the most urgent one "
        "is next, by priority and deadline.",
    )

    def refusal(self) -> str | None:
        """Returns why these settings cannot be used as they are; ``None`` if they can."""
        if self.queue != SHARED and self.order == BY_URGENCY:
            return (
                "delivery: an ordered queue goes on where its reader was, so its order is that of publication; for the "
                'order "urgency" add "queue": "shared"'
            )
        wrong = self.model_fields_set.intersection(("lease_seconds", "attempts_max"))
        if self.queue != SHARED and wrong:
            return f'delivery: {min(wrong)} is a setting of a shared queue: add "queue": "shared"'
        return None

    async def checked(self, policy: UrlPolicy) -> DeliverySettings:
        """Returns the settings as the broker stores them: none for an ordered queue. Raises Invalid."""
        settings = await super().checked(policy)
        return settings if self.queue == SHARED else DeliverySettings()


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
