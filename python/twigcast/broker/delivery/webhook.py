"""Webhooks: each delivery is one signed POST request with the body, identified by its headers.

The signature is HMAC-SHA256 over the time stamp, a full stop and the body, so that a recorded request cannot be sent
again later. Keys and the names of messages are percent-encoded UTF-8, since headers are ASCII.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal
from urllib.parse import quote

from pydantic import Field, StringConstraints

from twigcast.broker.delivery.channel import ChannelSettings, Failure, Text, Url, content_type, post
from twigcast.broker.delivery.http_client import HttpClient
from twigcast.broker.model import QueuedDelivery, StoredSubscription

DELIVERY_HEADER: Final = "Twigcast-Delivery"
KEY_HEADER: Final = "Twigcast-Key"
MESSAGE_HEADER: Final = "Twigcast-Message"
SOURCE_HEADER: Final = "Twigcast-Source"
REDELIVERED_HEADER: Final = "Twigcast-Redelivered"
TIMESTAMP_HEADER: Final = "Twigcast-Timestamp"
SIGNATURE_HEADER: Final = "Twigcast-Signature"

_UNQUOTED: Final = "!#$&'()*+,/:;=?@[]{}|^`~"


class WebhookSettings(ChannelSettings):
    """The settings of a webhook."""

    kind: Literal["webhook"]
    url: Url = Field(title="Address of the webhook", description="The address of the webhook.")
    secret: Annotated[Text, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None,
        title="Secret for signatures",
        description="The key of the signatures of requests. It is never shown again.",
    )
    secret_left_out: bool = Field(
        default=False,
        description="Whether an export has left out the secret: then it is needed. In an import that replaces the "
        "webhook, the secret stays as it is.",
    )

    def refusal(self) -> str | None:
        """Returns why these settings cannot be used: the secret that they had is missing."""
        if not self.secret_left_out or self.secret is not None:
            return None
        return (
            "delivery.secret: it was left out of the export; add it, or remove secret_left_out for an unsigned webhook"
        )


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Returns the value of the signature header. ``timestamp`` is that of the time stamp header."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


def verify(secret: str, timestamp: str, body: bytes, signature: str, *, tolerance: float = 300.0) -> bool:
    """Returns whether a request is from the broker and at most ``tolerance`` seconds old. Receivers may call it."""
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(time.time() - int(timestamp)) > tolerance:
        return False
    return hmac.compare_digest(sign(secret, int(timestamp), body).encode(), signature.encode())


class WebhookChannel:
    """The channel that posts each delivery to the address of its subscription."""

    group_max = 1

    def __init__(self, client: HttpClient, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock

    async def send(self, subscription: StoredSubscription, deliveries: Sequence[QueuedDelivery]) -> Failure | None:
        """Posts one delivery."""
        (delivery,) = deliveries
        settings = subscription.delivery
        timestamp = int(self._clock())
        headers = {
            "Content-Type": content_type(delivery),
            DELIVERY_HEADER: str(delivery.id),
            KEY_HEADER: quote(subscription.key, safe=_UNQUOTED),
            MESSAGE_HEADER: quote(delivery.message.message_id, safe=_UNQUOTED),
            SOURCE_HEADER: quote(delivery.message.source, safe=_UNQUOTED),
            REDELIVERED_HEADER: "true" if delivery.redelivered else "false",
            TIMESTAMP_HEADER: str(timestamp),
        }
        if settings.secret:
            headers[SIGNATURE_HEADER] = sign(settings.secret, timestamp, delivery.body)
        return await post(self._client, settings.url or "", headers, delivery.body)
