"""The broker as a WebSub hub (W3C Recommendation, 23 January 2018).

A *topic* is the Atom feed of a subscription or of a source, by its capability URL. Its WebSub subscribers are
subscriptions of their own (kind ``websub``), with the query of the topic, and so are matched in the shared engine,
have queues, retries, dead letters and errors as all others have. As an extension, ``hub.filter`` narrows the topic by
an XPath expression; the query is then both of them, joined by ``and``.

Requests are checked, stored and answered with 202; verification of intent follows, after a restart too. A
lease that ends without renewal, and a topic that is deleted, are announced with ``hub.mode=denied``, so that no
subscription ends silently (w3c/websub#16). Failing deliveries never end a subscription (w3c/websub#119).
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import logging
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from twigcast.broker.broker import Broker, CommitListener
from twigcast.broker.delivery.http_client import HttpClient, HttpResponse, RequestFailed
from twigcast.broker.errors import Invalid, StoreUnavailable, TooMany, UnknownObject, UrlRefused
from twigcast.broker.feed_addresses import Capabilities, FeedName, base_of_feed, parse_feed_url
from twigcast.broker.model import (
    DeliverySettings,
    NewSubscription,
    StoredSubscription,
    SubscriptionState,
    WebSubRequest,
)
from twigcast.errors import QueryError, TwigcastError
from twigcast.query_check import check
from twigcast.registration import Params

_log = logging.getLogger(__name__)

SECRET_BYTES_MAX: Final = 199
_PENDING_MAX: Final = 1_000
_CONCURRENCY: Final = 16
_NOTICE_ATTEMPTS: Final = 3
_ANSWER_BYTES_MAX: Final = 4 << 10


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
    params: Params = field(default_factory=dict)


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
    """Returns a topic with a content filter; raises Invalid if it is no XPath, or the topic rewrites messages."""
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
        check(query, namespaces=merged, dialect=topic.dialect, params=topic.params)
    except QueryError:
        raise Invalid(_REWRITES) from None
    return replace(topic, query=query, namespaces=merged)


def paused_or_active(subscription: StoredSubscription) -> SubscriptionState:
    """Returns the state for the subscribers of a subscription, which its suspension does not affect."""
    paused = subscription.state is SubscriptionState.PAUSED
    return SubscriptionState.PAUSED if paused else SubscriptionState.ACTIVE


def one(form: Mapping[str, Sequence[str]], name: str) -> str:
    """Returns a required parameter; raises Invalid unless it occurs once."""
    values = form.get(name, ())
    if len(values) != 1 or not values[0]:
        raise Invalid(f"{name} must be given" if not values or not values[0] else f"{name} is given more than once")
    return values[0]


def optional(form: Mapping[str, Sequence[str]], name: str) -> str | None:
    """Returns an optional parameter, which occurs at most once."""
    return one(form, name) if any(form.get(name, ())) else None


def seconds(text: str | None) -> float | None:
    """Returns a length of time; raises Invalid if it is no positive whole number."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) > 0):
        raise Invalid("hub.lease_seconds must be a positive whole number")
    return float(text)


def namespaces_of(entries: Sequence[str]) -> dict[str, str]:
    """Returns namespaces by prefix; raises Invalid if an entry is no pair."""
    results: dict[str, str] = {}
    for entry in entries:
        prefix, equals, uri = entry.partition("=")
        if not equals or not uri:
            raise Invalid("hub.filter_namespace must look like cap=urn:oasis:names:tc:emergency:cap:1.2")
        results[prefix] = uri
    return results


@dataclass(frozen=True, slots=True)
class LeaseBounds:
    """The bounds of the lease of a subscription, in seconds."""

    shortest: float = 60.0
    longest: float = 30 * 86_400.0
    default: float = 10 * 86_400.0

    def granted(self, asked: float | None) -> float:
        """Returns the lease that is granted."""
        return min(max(self.default if asked is None else asked, self.shortest), self.longest)


class WebSubHub(CommitListener):
    """A commit listener that verifies requests, keeps leases, and passes the URLs of news on to ``publish``."""

    def __init__(
        self,
        broker: Broker,
        http_client: HttpClient,
        capabilities: Capabilities,
        leases: LeaseBounds | None = None,
        publish: Callable[[str], None] | None = None,
    ) -> None:
        self._broker = broker
        self._http_client = http_client
        self._capabilities = capabilities
        self._leases = leases or LeaseBounds()
        self._publish = publish
        self._free = asyncio.Semaphore(_CONCURRENCY)
        self._tasks: set[asyncio.Task[None]] = set()
        self._followers: dict[tuple[int, str], set[str]] = {}  # tenant and key of a topic to keys of its subscribers
        self._topics: dict[tuple[int, str], tuple[int, str]] = {}  # the reverse
        self._ends: list[tuple[float, int, str]] = []  # a heap: monotonic time, tenant, key
        self._expiry: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    # Start and stop ---------------------------------------------------------------------------------------------------

    async def start(self, stored: Iterable[StoredSubscription]) -> None:
        """Keeps the leases of stored subscriptions, and resumes requests that wait for verification."""
        for subscription in stored:
            self._learn(subscription)
        for number, request in await asyncio.to_thread(self._broker.store.websub_requests):
            self._spawn(self._take_up(number, request))
        self._expiry = asyncio.get_running_loop().create_task(self._expire())

    async def stop(self) -> None:
        """Cancels running requests, which the next start resumes."""
        tasks = [*self._tasks, *([self._expiry] if self._expiry else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def on_subscriptions(self, changed: Sequence[StoredSubscription], removed: Sequence[StoredSubscription]) -> None:
        """Lets the subscribers of changed and deleted topics follow them."""
        for subscription in removed:
            for key in self._followers.get((subscription.tenant_id, subscription.key), set()).copy():
                self._spawn(self._end(subscription.tenant_id, key, "the topic is no more"))
            self._forget(subscription)
        for subscription in changed:
            self._learn(subscription)
            for key in self._followers.get((subscription.tenant_id, subscription.key), set()).copy():
                self._spawn(self._follow(subscription, key))

    def _learn(self, subscription: StoredSubscription) -> None:
        settings = subscription.delivery
        if settings.kind != "websub" or settings.topic is None:
            return
        me = (subscription.tenant_id, subscription.key)
        path = parse_feed_url(settings.topic, base_of_feed(settings.topic))
        if path is not None and path.kind == "subscriptions":
            self._followers.setdefault((subscription.tenant_id, path.name), set()).add(subscription.key)
            self._topics[me] = (subscription.tenant_id, path.name)
        if settings.expires is not None:
            # Measured from now on by a clock that does not step.
            heapq.heappush(self._ends, (time.monotonic() + settings.expires - time.time(), *me))
            self._changed.set()

    def _forget(self, subscription: StoredSubscription) -> None:
        me = (subscription.tenant_id, subscription.key)
        topic = self._topics.pop(me, None)
        if topic is not None and topic in self._followers:
            self._followers[topic].discard(subscription.key)
            if not self._followers[topic]:
                del self._followers[topic]

    # Requests -------------------------------------------------------------------------------------------------------

    async def handle(self, form: Mapping[str, Sequence[str]], base_url: str) -> None:
        """Accepts a request of a subscriber or publisher, which is carried out afterwards.

        ``base_url`` is the broker's address as the subscriber uses it. Raises Invalid for a wrong parameter,
        UnknownObject for a topic, UrlRefused for a callback, and TooMany if too many requests wait for verification.
        """
        mode = one(form, "hub.mode")
        if mode == "publish":
            for url in [*form.get("hub.url", ()), *form.get("hub.topic", ())]:
                if self._publish is not None:
                    self._publish(url)
            return
        if mode not in ("subscribe", "unsubscribe"):
            raise Invalid("hub.mode must be subscribe, unsubscribe or publish")
        if len(self._tasks) >= _PENDING_MAX:
            raise TooMany("too many requests wait for verification", 10.0)
        intent = await self._read(form, base_url)
        number = await self._broker.change(
            lambda transaction: transaction.add_websub_request(WebSubRequest(base_url, form))
        )
        self._spawn(self._carry_out(number, intent))

    async def _take_up(self, number: int, request: WebSubRequest) -> None:
        """Resumes a request that was accepted before the broker started."""
        try:
            intent = await self._read(request.form, request.base_url)
        except (Invalid, UnknownObject, UrlRefused) as error:
            await self._drop(number)
            await self._deny(one(request.form, "hub.callback"), one(request.form, "hub.topic"), error.reason)
        else:
            await self._carry_out(number, intent)

    async def _carry_out(self, number: int, intent: Intent) -> None:
        """Verifies a stored request, carries it out, and removes it."""
        await self._verify(intent)
        await self._drop(number)

    async def _drop(self, number: int) -> None:
        await self._broker.change(lambda transaction: transaction.delete_websub_request(number))

    async def _read(self, form: Mapping[str, Sequence[str]], base_url: str) -> Intent:
        supplied = one(form, "hub.callback")
        # The topic first: only who knows one may have names resolved.
        topic = await self._topic(one(form, "hub.topic"), base_url)
        callback = await self._http_client.policy.check(supplied)
        if one(form, "hub.mode") == "unsubscribe":
            return Intent(False, topic, callback, 0.0, None, None)
        secret = optional(form, "hub.secret") or None
        if secret is not None and len(secret.encode()) > SECRET_BYTES_MAX:
            raise Invalid("hub.secret must be less than 200 bytes long")
        content_filter = optional(form, "hub.filter") or None
        if content_filter is not None:
            added = namespaces_of(form.get("hub.filter_namespace", ()))
            topic = narrowed(topic, content_filter, added)
        lease = self._leases.granted(seconds(optional(form, "hub.lease_seconds")))
        return Intent(True, topic, callback, lease, secret, content_filter)

    async def _topic(self, url: str, base_url: str) -> Topic:
        path = parse_feed_url(url, base_url)
        tenant_id = None if path is None else path.tenant_id
        if path is None or tenant_id is None:
            raise UnknownObject("hub.topic is no feed of this broker; use the self link of one")
        feed, subscription = await asyncio.to_thread(find_feed, self._broker, path.kind, tenant_id, path.name)
        if feed is None or not self._capabilities.permits(path.token, feed):
            raise UnknownObject("there is no such topic (any more)")
        url = base_url.rstrip("/") + self._capabilities.path(feed)
        if subscription is None:
            return Topic(url, feed, ALL, {}, "xpath")
        s = subscription
        return Topic(url, feed, s.query, s.namespaces, s.dialect, paused_or_active(s), s.params)

    # Verification ---------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StoreUnavailable):
            _log.warning("a WebSub request was not carried out: %s", error.reason)
        elif error is not None:
            _log.error("a WebSub request failed inside the broker", exc_info=error)

    async def _verify(self, intent: Intent) -> None:
        """Asks the subscriber to confirm a request, and carries it out."""
        async with self._free:
            challenge = secrets.token_urlsafe(32)
            parameters = {
                "hub.mode": "subscribe" if intent.is_subscribe else "unsubscribe",
                "hub.topic": intent.topic.url,
                "hub.challenge": challenge,
            }
            expires = time.time() + intent.lease
            if intent.is_subscribe:
                parameters["hub.lease_seconds"] = str(int(intent.lease))
            answer = await self._ask(intent.callback, parameters)
        if answer is None or not answer.is_success or answer.body != challenge.encode():
            _log.info("a WebSub %s was not confirmed by its callback", parameters["hub.mode"])
        elif intent.is_subscribe:
            await self._subscribe(intent, expires)
        else:
            result = await self._subscription(intent.topic.feed.tenant_id, intent.key)
            if result is not None:
                await self._broker.unsubscribe(result)

    async def _ask(self, callback: str, parameters: Mapping[str, str]) -> HttpResponse | None:
        try:
            return await self._http_client.request(
                "GET", extended(callback, parameters), answer_bytes_max=_ANSWER_BYTES_MAX, cut=True
            )
        except (RequestFailed, UrlRefused) as error:
            _log.info("a WebSub callback cannot be reached: %s", error)
            return None

    async def _subscribe(self, intent: Intent, expires: float) -> None:
        topic = intent.topic
        settings = DeliverySettings("websub", intent.callback, intent.secret, expires, topic.url, intent.content_filter)
        existing = await self._subscription(topic.feed.tenant_id, intent.key)
        try:
            result = await self._renew(existing, topic, settings) if existing is not None else None
            if result is None:
                result = await self._add(topic, intent.key, settings)
            if result.state is not topic.state:
                await self._broker.set_state(result, topic.state)
        except StoreUnavailable:
            raise
        except TwigcastError as error:
            await self._deny(intent.callback, topic.url, str(error))

    async def _renew(
        self, existing: StoredSubscription, topic: Topic, settings: DeliverySettings
    ) -> StoredSubscription | None:
        """Renews the lease of a subscription; returns ``None`` if it was deleted meanwhile."""
        try:
            return await self._broker.replace(
                existing,
                query=topic.query,
                namespaces=topic.namespaces,
                dialect=topic.dialect,
                params=topic.params,
                delivery=settings,
            )
        except UnknownObject:
            return None

    async def _add(self, topic: Topic, key: str, settings: DeliverySettings) -> StoredSubscription:
        new = NewSubscription(
            topic.feed.tenant_id, key, topic.query, topic.namespaces, topic.dialect, None, settings, params=topic.params
        )
        (outcome,) = await self._broker.subscribe([new])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _subscription(self, tenant_id: int, key: str) -> StoredSubscription | None:
        return await asyncio.to_thread(self._broker.store.subscription, tenant_id, key)

    # Ends and changes -----------------------------------------------------------------------------------------------

    async def _deny(self, callback: str, topic_url: str, reason: str) -> None:
        """Tells a subscriber that its subscription is refused or has ended."""
        parameters = {"hub.mode": "denied", "hub.topic": topic_url, "hub.reason": reason}
        for attempt in range(1, _NOTICE_ATTEMPTS + 1):
            async with self._free:
                answer = await self._ask(callback, parameters)
            if answer is not None and answer.status < 500:
                return
            await asyncio.sleep(attempt)

    async def _end(self, tenant_id: int, key: str, reason: str) -> None:
        subscription = await self._subscription(tenant_id, key)
        if subscription is None or subscription.delivery.kind != "websub":
            return
        await self._broker.unsubscribe(subscription)
        settings = subscription.delivery
        await self._deny(settings.url or "", settings.topic or "", reason)

    async def _follow(self, topic: StoredSubscription, key: str) -> None:
        """Applies the present state of a topic to one of its subscribers."""
        mine = await self._subscription(topic.tenant_id, key)
        if mine is None or mine.delivery.kind != "websub" or mine.delivery.topic is None:
            return
        feed = FeedName("subscriptions", topic.tenant_id, topic.key, topic.id)
        requested = Topic(mine.delivery.topic, feed, topic.query, topic.namespaces, topic.dialect, params=topic.params)
        try:
            if mine.delivery.content_filter is not None:
                requested = narrowed(requested, mine.delivery.content_filter, mine.namespaces)
        except Invalid as error:
            await self._end(topic.tenant_id, key, f"the topic has changed: {error.reason}")
            return
        if (requested.query, dict(requested.namespaces), requested.dialect, dict(requested.params)) != (
            mine.query,
            dict(mine.namespaces),
            mine.dialect,
            dict(mine.params),
        ):
            mine = await self._broker.replace(
                mine,
                query=requested.query,
                namespaces=requested.namespaces,
                dialect=requested.dialect,
                params=requested.params,
                delivery=mine.delivery,
            )
        state = paused_or_active(topic)
        if mine.state is not state and mine.state is not SubscriptionState.SUSPENDED:
            await self._broker.set_state(mine, state)

    async def _expire(self) -> None:
        """Ends leases in time."""
        while True:
            while self._ends and self._ends[0][0] <= time.monotonic():
                _, tenant_id, key = heapq.heappop(self._ends)
                try:
                    await self._expire_one(tenant_id, key)
                except StoreUnavailable as error:
                    _log.warning("a WebSub lease waits for the store: %s", error.reason)
                    heapq.heappush(self._ends, (time.monotonic() + 5.0, tenant_id, key))
            self._changed.clear()
            wait = self._ends[0][0] - time.monotonic() if self._ends else None
            # Not wait_for: before Python 3.12 it may lose a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    async def _expire_one(self, tenant_id: int, key: str) -> None:
        subscription = await self._subscription(tenant_id, key)
        # A lease that was renewed has a later entry of its own.
        if subscription is not None and (subscription.delivery.expires or 0.0) <= time.time() + 0.5:
            self._spawn(self._end(tenant_id, key, "the lease has ended"))


def extended(callback: str, parameters: Mapping[str, str]) -> str:
    """Returns a callback with parameters added to its own."""
    parts = urlsplit(callback)
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, urlencode(parameters))))))
