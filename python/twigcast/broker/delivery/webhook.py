"""Webhooks: each delivery is one POST of its body, signed, with what identifies it in the headers.

The signature is HMAC-SHA256 over the time stamp, a full stop and the body, so that a request that somebody recorded
cannot be sent again later. Names of keys and messages are percent-encoded UTF-8, since headers are ASCII.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import quote

from twigcast.broker.delivery.channel import PushRequest, content_type
from twigcast.broker.model import QueuedDelivery, StoredSubscription

DELIVERY_HEADER: Final = "Twigcast-Delivery"
KEY_HEADER: Final = "Twigcast-Key"
MESSAGE_HEADER: Final = "Twigcast-Message"
SOURCE_HEADER: Final = "Twigcast-Source"
REDELIVERED_HEADER: Final = "Twigcast-Redelivered"
TIMESTAMP_HEADER: Final = "Twigcast-Timestamp"
SIGNATURE_HEADER: Final = "Twigcast-Signature"

_UNQUOTED: Final = "!#$&'()*+,/:;=?@[]{}|^`~"


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """The value of the signature header.

    Args:
        secret: Of the subscription.
        timestamp: Seconds since the epoch, as in the time stamp header.
        body: As sent.
    """
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"sha256={digest.hexdigest()}"


def verify(secret: str, timestamp: str, body: bytes, signature: str, *, tolerance: float = 300.0) -> bool:
    """Whether a request is from the broker and not older than ``tolerance`` seconds: for those who receive."""
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(time.time() - int(timestamp)) > tolerance:
        return False
    return hmac.compare_digest(sign(secret, int(timestamp), body).encode(), signature.encode())


class WebhookChannel:
    """Requests of webhooks.

    Args:
        clock: Seconds since the epoch.
    """

    group_max = 1

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock

    async def request(
        self, subscription: StoredSubscription, deliveries: Sequence[QueuedDelivery]
    ) -> PushRequest | None:
        """One delivery as a request."""
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
        return PushRequest(settings.url or "", headers, delivery.body)
