"""Content distribution to WebSub subscribers: new entries of the feed of their topic.

Their subscriptions are made by :mod:`~twigcast.broker.delivery.websub_hub`, so there are no settings to choose.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from typing import Final

from twigcast.broker.delivery.atom import MEDIA_TYPE, AtomContent, FeedLinks, link_header, write_feed
from twigcast.broker.delivery.channel import Failure, SendBounds, post
from twigcast.broker.delivery.http_client import HttpClient
from twigcast.broker.feed_addresses import Capabilities, FeedName, base_of_feed, hub_of_feed, parse_feed_url
from twigcast.broker.model import DeliverySettings, QueuedDelivery, StoredSubscription

_GROUP_MAX: Final = 20


class WebSubChannel:
    """The channel that posts new entries of the topic's feed in one Atom document."""

    def __init__(self, client: HttpClient, capabilities: Capabilities) -> None:
        self._client = client
        self._capabilities = capabilities

    def bounds(self, settings: DeliverySettings) -> SendBounds:
        """Returns bounds that keep the order."""
        return SendBounds(_GROUP_MAX)

    async def send(self, subscription: StoredSubscription, deliveries: Sequence[QueuedDelivery]) -> Failure | None:
        """Posts deliveries; of those to the topic of a source, only messages of that source."""
        settings = subscription.delivery
        topic = settings.topic or ""
        path = parse_feed_url(topic, base_of_feed(topic))
        if path is None:
            return None
        items = [AtomContent.of(delivery) for delivery in deliveries]
        if path.kind == "sources":
            items = [item for item in items if item.message.source == path.name]
        if not items:
            return None
        feed = FeedName(path.kind, subscription.tenant_id, path.name, 0)
        links = FeedLinks(topic, hub_of_feed(topic))
        body = write_feed(feed, items[::-1], links, self._capabilities, updated=items[-1].message.received)
        headers = {"Content-Type": MEDIA_TYPE, "Link": link_header(links)}
        if settings.secret:
            signature = hmac.new(settings.secret.encode(), body, hashlib.sha256).hexdigest()
            headers["X-Hub-Signature"] = f"sha256={signature}"
        return await post(self._client, settings.url or "", headers, body)
