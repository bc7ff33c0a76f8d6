"""Webhooks: each request is signed as Standard Webhooks says, and carries one delivery, or a batch of them as JSON.

The signature is HMAC-SHA256 over the id, the time stamp and the body, so that a recorded request cannot be sent again
later (https://www.standardwebhooks.com). While a secret is being replaced there are two signatures. Keys and the names
of messages are percent-encoded UTF-8, since headers are ASCII.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

import orjson
from pydantic import Field, StringConstraints

from twigcast.broker.delivery.channel import ChannelSettings, Failure, SendBounds, Text, Url, content_type, post
from twigcast.broker.delivery.http_client import HttpClient
from twigcast.broker.model import DeliverySettings, QueuedDelivery, StoredSubscription

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
KEY_HEADER: Final = "Twigcast-Key"
MESSAGE_HEADER: Final = "Twigcast-Message"
SOURCE_HEADER: Final = "Twigcast-Source"
REDELIVERED_HEADER: Final = "Twigcast-Redelivered"
RELATION_HEADER: Final = "Twigcast-Relation"
OVERDUE_HEADER: Final = "Twigcast-Overdue"
WINDOW_HEADER: Final = "Twigcast-Window"
"""Of which messages a window tells, as JSON in ASCII."""

BATCH_MAX: Final = 100
IN_FLIGHT_MAX: Final = 64

_JSON: Final = "application/json"
_UNQUOTED: Final = "!#$&'()*+,/:;=?@[]{}|^`~"
_ENCODED: Final = "whsec_"
"""The beginning of a secret that is written in base64, as other senders of webhooks make them."""

_Secret = Annotated[Text, StringConstraints(min_length=1, max_length=200)]


class WebhookSettings(ChannelSettings):
    """The settings of a webhook."""

    kind: Literal["webhook"]
    url: Url = Field(title="Address of the webhook", description="The address of the webhook.")
    secret: _Secret | None = Field(
        default=None,
        title="Secret for signatures",
        description="The key of the signatures of requests. It is never shown again.",
    )
    previous_secret: _Secret | None = Field(
        default=None,
        title="Secret that it replaces",
        description="While a secret is being replaced, the old one: requests are signed with both.",
    )
    batch_max: int = Field(
        default=1,
        ge=1,
        le=BATCH_MAX,
        title="Deliveries in one request",
        description="Deliveries in one request. With more than 1, the body is always JSON.",
    )
    max_in_flight: int = Field(
        default=1,
        ge=1,
        le=IN_FLIGHT_MAX,
        title="Requests at one time",
        description="Requests at one time. With more than 1, deliveries can arrive in another order.",
    )
    order: Literal["publication", "urgency"] = Field(
        default="publication",
        title="Order",
        description="`publication`: the first one published is next. `urgency`: the most urgent one is next, by "
        "priority and deadline.",
    )
    secret_left_out: bool = Field(
        default=False,
        description="Whether an export has left out the secret: then it is needed. In an import that replaces the "
        "webhook, the secret stays as it is.",
    )

    def refusal(self) -> str | None:
        """Returns why these settings cannot be used: a secret is missing."""
        if self.previous_secret is not None and self.secret is None:
            return "delivery.previous_secret: there is no secret that replaces it; give `secret` too"
        if not self.secret_left_out or self.secret is not None:
            return None
        return "delivery.secret: an export left it out; add it, or remove secret_left_out for an unsigned webhook"


def _key(secret: str) -> bytes:
    if secret.startswith(_ENCODED):
        try:
            return base64.b64decode(secret.removeprefix(_ENCODED), validate=True)
        except (binascii.Error, ValueError):
            pass  # it only looks like one
    return secret.encode()


def sign(secret: str, webhook_id: str, timestamp: int, body: bytes) -> str:
    """Returns a signature: one of those, separated by spaces, in the signature header."""
    digest = hmac.new(_key(secret), f"{webhook_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, tolerance: float = 300.0) -> bool:
    """Returns whether a request is from the broker and at most ``tolerance`` seconds old. Receivers may call it.

    Args:
        secret: The secret of the webhook.
        headers: The headers of the request; the case of their names does not matter.
        body: Its body, as it came.
        tolerance: Seconds by which the clocks and the way may differ.
    """
    named = {name.lower(): value for name, value in headers.items()}
    webhook_id, stamp = named.get(ID_HEADER, ""), named.get(TIMESTAMP_HEADER, "")
    if not (stamp.isascii() and stamp.isdigit()) or abs(time.time() - int(stamp)) > tolerance:
        return False
    expected = sign(secret, webhook_id, int(stamp), body).encode()
    return any(hmac.compare_digest(expected, one) for one in named.get(SIGNATURE_HEADER, "").encode().split())


class WebhookChannel:
    """The channel that posts deliveries to the address of their subscription."""

    def __init__(self, client: HttpClient, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock

    def bounds(self, settings: DeliverySettings) -> SendBounds:
        """Returns the bounds that the subscriber has chosen."""
        return SendBounds(settings.options.get("batch_max", 1), settings.options.get("max_in_flight", 1))

    async def send(self, subscription: StoredSubscription, deliveries: Sequence[QueuedDelivery]) -> Failure | None:
        """Posts deliveries: as JSON if the subscriber takes batches."""
        settings = subscription.delivery
        first = deliveries[0]
        headers = {
            ID_HEADER: str(first.id) if len(deliveries) == 1 else f"{first.id}..{deliveries[-1].id}",
            TIMESTAMP_HEADER: str(timestamp := int(self._clock())),
            KEY_HEADER: quote(subscription.key, safe=_UNQUOTED),
            REDELIVERED_HEADER: "true" if any(delivery.redelivered for delivery in deliveries) else "false",
        }
        if self.bounds(settings).group_max > 1:
            headers["Content-Type"], body = _JSON, _batch(deliveries, self._clock())
        else:
            body = first.body
            headers["Content-Type"] = content_type(first)
            headers[MESSAGE_HEADER] = quote(first.message.message_id, safe=_UNQUOTED)
            headers[SOURCE_HEADER] = quote(first.message.source, safe=_UNQUOTED)
            if first.relation is not None:
                headers[RELATION_HEADER] = first.relation.value
            if first.is_overdue(self._clock()):
                headers[OVERDUE_HEADER] = "true"
            if first.window_note is not None:
                headers[WINDOW_HEADER] = as_ascii(first.window_note)
        secrets = [secret for secret in (settings.secret, settings.previous_secret) if secret is not None]
        if secrets:
            headers[SIGNATURE_HEADER] = " ".join(
                sign(secret, headers[ID_HEADER], timestamp, body) for secret in secrets
            )
        return await post(self._client, settings.url or "", headers, body)


def as_ascii(text: str) -> str:
    """Returns JSON as the same in ASCII, for a header."""
    return json.dumps(json.loads(text), separators=(",", ":"))


def _batch(deliveries: Sequence[QueuedDelivery], now: float) -> bytes:
    """Returns deliveries as the body of one request."""
    items: list[dict[str, Any]] = [
        {
            "id": str(delivery.id),
            "message": delivery.message.message_id,
            "source": delivery.message.source,
            "seq": delivery.id.seq,
            "redelivered": delivery.redelivered,
            "content_type": content_type(delivery),
            "xml": delivery.body.decode(),
            **({} if delivery.relation is None else {"relation": delivery.relation.value}),
            **({"overdue": True} if delivery.is_overdue(now) else {}),
            **({} if delivery.window_note is None else {"window": orjson.loads(delivery.window_note)}),
        }
        for delivery in deliveries
    ]
    return orjson.dumps({"deliveries": items})
