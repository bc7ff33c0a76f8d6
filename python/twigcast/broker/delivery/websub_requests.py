"""Requests to the WebSub hub: topics, content filters, and the parameters of a form."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from twigcast.broker.broker import Broker
from twigcast.broker.errors import Invalid
from twigcast.broker.feed_addresses import FeedName
from twigcast.broker.model import StoredSubscription, SubscriptionState
from twigcast.errors import QueryError
from twigcast.query_check import check

ALL: Final = "/*"
"""Query of the topic of a source."""

_REWRITES: Final = "this topic rewrites messages; hub.filter is only for topics that deliver them whole"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as a subscriber follows it."""

    url: str
    feed: FeedName
    query: str
    namespaces: Mapping[str, str]
    dialect: Any
    state: SubscriptionState = SubscriptionState.ACTIVE


@dataclass(frozen=True, slots=True)
class Intent:
    """A request to subscribe or to unsubscribe, checked but not verified."""

    is_subscribe: bool
    topic: Topic
    callback: str
    lease: float
    secret: str | None
    content_filter: str | None

    @property
    def key(self) -> str:
        """Key of the subscription: one for each topic and callback."""
        return key_of(self.topic.url, self.callback)


def key_of(topic_url: str, callback: str) -> str:
    """Returns the key of the subscription of a callback to a topic."""
    digest = hashlib.sha256(f"{topic_url}\n{callback}".encode()).hexdigest()
    return f"websub:{digest[:32]}"


def find_feed(
    broker: Broker, kind: str, tenant_id: int, name: str
) -> tuple[FeedName | None, StoredSubscription | None]:
    """Returns a feed, and the subscription if it is one's, if the feed exists. Blocks."""
    if kind == "sources":
        source = broker.store.source(tenant_id, name)
        return (None if source is None else FeedName("sources", tenant_id, name, source.id)), None
    subscription = broker.store.subscription(tenant_id, name)
    if subscription is None:
        return None, None
    return FeedName("subscriptions", tenant_id, name, subscription.id), subscription


def narrowed(topic: Topic, content_filter: str, namespaces: Mapping[str, str]) -> Topic:
    """Returns a topic with a content filter.

    Raises:
        Invalid: The filter is no XPath expression, or the topic rewrites messages.
    """
    for prefix, uri in namespaces.items():
        if topic.namespaces.get(prefix, uri) != uri:
            raise Invalid(f"the prefix {prefix!r} stands for {topic.namespaces[prefix]!r} in this topic")
    merged = {**topic.namespaces, **namespaces}
    if topic.dialect == "xquery":
        raise Invalid(_REWRITES)
    try:
        # By itself first: it must not extend beyond the parentheses that are put around it.
        check(content_filter, namespaces=merged, dialect=topic.dialect)
        check(f"({content_filter})", namespaces=merged, dialect=topic.dialect)
    except QueryError as error:
        raise Invalid(f"hub.filter is refused: {error.reason}") from None
    if topic.query == ALL:
        return replace(topic, query=content_filter, namespaces=merged)
    query = f"({topic.query}) and ({content_filter})"
    try:
        check(query, namespaces=merged, dialect=topic.dialect)
    except QueryError:
        raise Invalid(_REWRITES) from None
    return replace(topic, query=query, namespaces=merged)


def paused_or_active(subscription: StoredSubscription) -> SubscriptionState:
    """Returns the state for the subscribers of a subscription, which its suspension does not affect."""
    paused = subscription.state is SubscriptionState.PAUSED
    return SubscriptionState.PAUSED if paused else SubscriptionState.ACTIVE


def one(form: Mapping[str, Sequence[str]], name: str) -> str:
    """Returns a required parameter, which occurs once.

    Raises:
        Invalid: It does not.
    """
    values = form.get(name, ())
    if len(values) != 1 or not values[0]:
        raise Invalid(f"{name} must be given" if not values or not values[0] else f"{name} is given more than once")
    return values[0]


def optional(form: Mapping[str, Sequence[str]], name: str) -> str | None:
    """Returns an optional parameter, which occurs at most once."""
    return one(form, name) if any(form.get(name, ())) else None


def seconds(text: str | None) -> float | None:
    """Returns a length of time.

    Raises:
        Invalid: It is no positive whole number.
    """
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0):
        raise Invalid("hub.lease_seconds must be a positive whole number")
    return float(text)


def namespaces_of(entries: Sequence[str]) -> dict[str, str]:
    """Returns namespaces by prefix.

    Raises:
        Invalid: An entry is no pair.
    """
    results: dict[str, str] = {}
    for entry in entries:
        prefix, equals, uri = entry.partition("=")
        if not equals or not uri:
            raise Invalid("hub.filter_namespace must look like cap=urn:oasis:names:tc:emergency:cap:1.2")
        results[prefix] = uri
    return results
