"""Addresses of feeds that nobody can guess: who has one may read the feed, and subscribe to it through WebSub.

Feed readers send no headers of ours, so what permits has to be in the URL (a *capability URL*). Its token is an HMAC
over what the feed is of, with the secret of the store: nothing is kept for it, and the token of a subscription that is
deleted and made anew is another one.
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
    """What a feed is of."""

    kind: FeedKind
    tenant_id: int
    name: str
    """Key of the subscription, or name of the source."""

    id: int
    """Of the subscription or source."""


@dataclass(frozen=True, slots=True)
class FeedPath:
    """The parts of a feed's path, not yet believed."""

    token: str
    kind: FeedKind
    name: str

    @property
    def tenant_id(self) -> int | None:
        """Of the tenant that the token names."""
        number = self.token.partition("-")[0]
        return int(number) if number.isascii() and number.isdigit() and len(number) <= 18 else None


class Capabilities:
    """Makes and checks addresses.

    Args:
        secret: Of the store.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._namespace = uuid.UUID(bytes=self._mac("instance")[:16], version=4)

    def path(self, feed: FeedName) -> str:
        """The path of a feed, percent-encoded."""
        return f"{FEEDS_PATH}/{self.token(feed)}/{feed.kind}/{quote(feed.name, safe='')}"

    def token(self, feed: FeedName) -> str:
        """The part of it that nobody can guess."""
        mac = self._mac("feed", feed.kind, str(feed.tenant_id), str(feed.id), feed.name)[:_MAC_BYTES]
        return f"{feed.tenant_id}-{base64.urlsafe_b64encode(mac).decode()}"

    def permits(self, token: str, feed: FeedName) -> bool:
        """Whether a token is that of a feed."""
        return hmac.compare_digest(token.encode(), self.token(feed).encode())

    def uuid(self, *parts: str) -> uuid.UUID:
        """An identifier of something of this broker, the same each time."""
        return uuid.uuid5(self._namespace, "\0".join(parts))

    def _mac(self, *parts: str) -> bytes:
        return hmac.new(self._secret, "\0".join(parts).encode("utf-8", "surrogatepass"), hashlib.sha256).digest()


def parse_feed_url(url: str, base_url: str) -> FeedPath | None:
    """The feed that a URL below ``base_url`` names; ``None`` when it names none."""
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
    """The source whose topic a WebSub subscriber follows; ``None``: it is none, or follows a subscription."""
    if settings.topic is None:
        return None
    path = parse_feed_url(settings.topic, base_of_feed(settings.topic))
    return path.name if path is not None and path.kind == "sources" else None


def base_of_feed(url: str) -> str:
    """The broker's address, from the URL of one of its feeds."""
    return url.partition(FEEDS_PATH + "/")[0]


def hub_of_feed(url: str) -> str:
    """The address of the hub, from the URL of a feed."""
    return base_of_feed(url) + HUB_PATH
