"""What a way of pushing has to say: how deliveries become a request, and what an answer means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from xml.parsers import expat

from twigcast.broker.delivery.backoff import parse_retry_after
from twigcast.broker.delivery.http_client import HttpResponse
from twigcast.broker.model import QueuedDelivery, StoredSubscription

XML: Final = "application/xml"
XML_FRAGMENT: Final = "application/xml-external-parsed-entity"
"""For results of a query that are not one document: several elements, or text (RFC 7303, section 3)."""

ANSWER_BYTES_MAX: Final = 16 << 10
"""Bytes read of an answer to a push: nothing in it matters, but reading it keeps the connection usable."""


@dataclass(frozen=True, slots=True)
class PushRequest:
    """A POST request that carries one or more deliveries."""

    url: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that did not deliver."""

    reason: str
    retry_after: float | None = None
    """Seconds that the server asked to wait."""
    gone: bool = False
    """The server says that it will never want this again."""
    reached: bool | None = True
    """Whether the host works, whatever it answered this subscriber; ``None``: it was not asked."""


class Channel(Protocol):
    """A way of pushing: webhooks, WebSub."""

    group_max: int
    """Deliveries that one request may carry."""

    async def request(
        self, subscription: StoredSubscription, deliveries: Sequence[QueuedDelivery]
    ) -> PushRequest | None:
        """The request for these deliveries; ``None`` when there is nothing in them that is to be sent."""


def judge(answer: HttpResponse) -> Failure | None:
    """What an answer to a push means; ``None``: delivered. Redirects are failures."""
    status = answer.status
    if answer.is_success:
        return None
    return Failure(
        f"the server answered with status {status}",
        retry_after=parse_retry_after(answer.headers.get("retry-after")) if status in (429, 503) else None,
        gone=status == 410,
        reached=status < 500 and status != 429,
    )


def content_type(delivery: QueuedDelivery) -> str:
    """The media type of a delivery's body. Its encoding is told by the body itself."""
    return XML if delivery.payload is None or is_document(delivery.payload) else XML_FRAGMENT


def is_document(payload: bytes) -> bool:
    """Whether a result is a well-formed document of its own."""
    parser = expat.ParserCreate(namespace_separator=" ")
    try:
        parser.Parse(payload, True)
    except expat.ExpatError:
        return False
    return True
