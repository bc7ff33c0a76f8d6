"""Addresses of feeds that nobody can guess: who has one may read the feed, and subscribe to it through WebSub.

Feed readers send no headers of ours, so the URL itself has to grant access (a *capability URL*). Its token is an HMAC
of the feed's name and id with the secret of the store. Nothing is stored for it, and a subscription that is deleted
and made anew gets another token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import uuid
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote, unquote, urlsplit

from twigcast.broker.model import DeliverySettings

FEEDS_PATH: Final = "/feeds"
HUB_PATH: Final = "/websub"

FeedKind = Literal["subscriptions", "sources"]

_MAC_BYTES: Final = 18


@dataclass(frozen=True, slots=True)
class FeedName:
    """The name of a feed."""

    kind: FeedKind
    tenant_id: int
    name: str
    """Key of the subscription, or name of the source."""

    id: int
    """Id of the subscription or source."""


@dataclass(frozen=True, slots=True)
class FeedPath:
    """The parts of a feed's path, whose token is not verified."""

    token: str
    kind: FeedKind
    name: str

    @property
    def tenant_id(self) -> int | None:
        """The id of the tenant in the token; ``None`` if there is none."""
        number = self.token.partition("-")[0]
        return int(number) if number.isascii() and number.isdigit() and len(number) <= 18 else None


class Capabilities:
    """A maker and checker of feed addresses."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._namespace = uuid.UUID(bytes=self._mac("instance")[:16], version=4)

    def path(self, feed: FeedName) -> str:
        """Returns the path of a feed, percent-encoded."""
        return f"{FEEDS_PATH}/{self.token(feed)}/{feed.kind}/{quote(feed.name, safe='')}"

    def token(self, feed: FeedName) -> str:
        """Returns the part of the path that nobody can guess."""
        mac = self._mac("feed", feed.kind, str(feed.tenant_id), str(feed.id), feed.name)[:_MAC_BYTES]
        return f"{feed.tenant_id}-{base64.urlsafe_b64encode(mac).decode()}"

    def permits(self, token: str, feed: FeedName) -> bool:
        """Returns whether a token is that of a feed."""
        return hmac.compare_digest(token.encode(), self.token(feed).encode())

    def uuid(self, *parts: str) -> uuid.UUID:
        """Returns an identifier that is the same for the same parts, and unique to this broker."""
        return uuid.uuid5(self._namespace, "\0".join(parts))

    def _mac(self, *parts: str) -> bytes:
        return hmac.new(self._secret, "\0".join(parts).encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def parse_feed_url(url: str, base_url: str) -> FeedPath | None:
    """Returns the feed that a URL below ``base_url`` names; ``None`` if it names none."""
    prefix = base_url.rstrip("/") + FEEDS_PATH + "/"
    if not url.startswith(prefix):
        return None
    segments = urlsplit(url[len(prefix) :]).path.split("/")
    if len(segments) != 3:
        return None
    token, kind, name = segments
    try:
        name = unquote(name, errors="strict")
    except UnicodeDecodeError:
        return None
    if kind == "subscriptions":
        return FeedPath(token, "subscriptions", name)
    return FeedPath(token, "sources", name) if kind == "sources" else None


def source_of_topic(settings: DeliverySettings) -> str | None:
    """Returns the source whose topic a WebSub subscriber follows; ``None`` for all other subscriptions."""
    if settings.topic is None:
        return None
    path = parse_feed_url(settings.topic, base_of_feed(settings.topic))
    return path.name if path is not None and path.kind == "sources" else None


def base_of_feed(url: str) -> str:
    """Returns the broker's address, from the URL of one of its feeds."""
    return url.partition(FEEDS_PATH + "/")[0]


def hub_of_feed(url: str) -> str:
    """Returns the address of the hub, from the URL of a feed."""
    return base_of_feed(url) + HUB_PATH
