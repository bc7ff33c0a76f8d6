"""The client for event loops. All as in the one that blocks; only who waits differs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from twigcast.client import calls, transport
from twigcast.client.calls import ApiRequest, Start
from twigcast.client.errors import Unreachable
from twigcast.client.events import EventParser, ReceivedEvents
from twigcast.client.lines import as_lines
from twigcast.client.transport import Retries
from twigcast.client.values import (
    Accepted,
    DeadLetter,
    Delivery,
    Explanation,
    Imported,
    Message,
    Messages,
    Publication,
    QueryReport,
    Rejected,
    Subscription,
    Webhook,
)
from twigcast.errors import TwigcastError
from twigcast.registration import Dialect

T = TypeVar("T")


class AsyncClient:
    """A client of a broker. All methods raise the errors that the broker raised, and Unreachable where there is none.

    Args:
        url: Where the broker is.
        token: An API token.
        retries: How requests that may be repeated are repeated.
        http: A client of httpx2 to use, with its own settings (proxies, certificates); by default a new one.

    Use it as an asynchronous context manager, or close it.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        token: str | None = None,
        *,
        retries: Retries | None = None,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._retries = retries or Retries()
        self._http = http or httpx2.AsyncClient()
        self._headers = transport.headers(token)

    async def aclose(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _do(self, call: ApiRequest[T]) -> T:
        failed = 0
        sent = transport.arguments(call)
        sent["url"] = self._url + call.path
        sent["headers"] = {**self._headers, **sent.get("headers", {})}
        while True:
            response = None
            try:
                response = await self._http.request(**sent)
                if not transport.is_passing(call, response):
                    return transport.outcome(call, response)
                error: TwigcastError = transport.problem(response, call.asked)
            except httpx2.TransportError as reason:
                error = transport.unreachable(self._url, reason)
                if not (call.repeatable or isinstance(reason, httpx2.ConnectError)):
                    raise error from reason
            failed += 1
            if failed >= self._retries.attempts:
                raise error
            await asyncio.sleep(
                self._retries.wait(failed, None if response is None else transport.retry_after(response))
            )

    # Publishing

    async def publish(
        self,
        xml: bytes | str,
        *,
        message_id: str | None = None,
        source: str | None = None,
        charset: str | None = None,
    ) -> Accepted:
        """Publish a message; it is durably stored when this returns.

        Args:
            xml: The message; as bytes in any encoding that it declares.
            message_id: Your own; the broker accepts a message once under an id from one source. By default random.
            source: Where it comes from.
            charset: The encoding of ``xml``, where its declaration is not to count.

        Raises:
            MalformedMessage: It is not well-formed XML. The broker keeps it.
            UnreadableMessage: It is over a limit, or cannot be processed otherwise. The broker keeps it.
            TooMany: Too many were published lately.
        """
        return await self._do(calls.publish(xml, message_id, source, charset))

    async def publish_many(
        self, messages: Iterable[Publication | bytes | str], *, source: str | None = None
    ) -> list[Accepted | Rejected]:
        """Publish a batch by one request: what became of each message, in order."""
        return await self._do(calls.publish_many(messages, source))

    async def messages(
        self, *, after: int = 0, limit: int = 100, source: str | None = None, xml: bool = False
    ) -> Messages:
        """A page of stored messages, in the order in which they were accepted; with ``xml`` the messages themselves."""
        return await self._do(calls.messages(after, limit, source, xml=xml))

    async def message(self, seq: int) -> Message:
        """A stored message."""
        return await self._do(calls.message(seq))

    # Subscribing

    async def subscribe(
        self,
        key: str,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect | None = None,
        subscriber: str | None = None,
        webhook: Webhook | None = None,
        start: Start = "now",
    ) -> Subscription:
        """Subscribe.

        Args:
            key: Your own identifier of the subscription.
            query: XPath, or For-Where-Return.
            namespaces: Prefix to namespace; the empty prefix gives that of element names without one.
            dialect: How the query is read.
            subscriber: Whose queue its deliveries go to; by default its own, named by its key.
            webhook: Where deliveries are posted to; by default they wait to be fetched.
            start: ``"now"``, or where in the past to begin: right after a cursor (a number), with the first message
                of a time, or with the message of an id.

        Raises:
            QueryError: The query is refused.
            Conflict: The key is taken, or the subscriber cannot be shared.
        """
        return await self._do(calls.subscribe(key, query, namespaces, dialect, subscriber, webhook, start))

    async def replace(
        self,
        key: str,
        query: str,
        *,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect | None = None,
        subscriber: str | None = None,
        webhook: Webhook | None = None,
    ) -> Subscription:
        """Give a subscription another query and delivery, or make it. Arguments as for :meth:`subscribe`."""
        return await self._do(calls.replace(key, query, namespaces, dialect, subscriber, webhook))

    async def subscription(self, key: str) -> Subscription:
        """A subscription."""
        return await self._do(calls.subscription(key))

    async def subscriptions(self, *, subscriber: str | None = None) -> AsyncIterator[Subscription]:
        """All subscriptions in order of their keys, or those of a subscriber."""
        after = None
        while True:
            page, after = await self._do(calls.subscriptions(after, calls.PAGE, subscriber))
            for item in page:
                yield item
            if after is None:
                return

    async def pause(self, key: str) -> Subscription:
        """Pause a subscription: new messages do not count for it, what is pending waits."""
        return await self._do(calls.change_state(key, "pause"))

    async def resume(self, key: str) -> Subscription:
        """Let a paused or suspended subscription go on."""
        return await self._do(calls.change_state(key, "resume"))

    async def unsubscribe(self, key: str) -> None:
        """Delete a subscription, with what it has pending."""
        await self._do(calls.unsubscribe(key))

    async def import_subscriptions(
        self, subscriptions: Iterable[Mapping[str, Any]] | bytes, *, replace: bool = False
    ) -> Imported:
        """Subscribe many times.

        Args:
            subscriptions: Members as of ``POST /subscriptions``, or JSON lines with them.
            replace: Whether those that are there already are replaced.
        """
        return await self._do(calls.import_subscriptions(as_lines(subscriptions), replace=replace))

    async def export_subscriptions(self) -> list[dict[str, Any]]:
        """All subscriptions, as an import takes them, without secrets."""
        return await self._do(calls.export_subscriptions())

    async def check(
        self, query: str, *, namespaces: Mapping[str, str] | None = None, dialect: Dialect | None = None
    ) -> QueryReport:
        """Whether a text is a query, how it would run, and what looks wrong with it."""
        return await self._do(calls.check(query, namespaces, dialect))

    async def explain(
        self,
        query: str | None = None,
        *,
        key: str | None = None,
        subscriber: str | None = None,
        xml: str | None = None,
        seq: int | None = None,
        message: str | None = None,
        namespaces: Mapping[str, str] | None = None,
        dialect: Dialect | None = None,
    ) -> list[Explanation]:
        """Why queries match a message or not.

        Args:
            query: The query; or
            key: that of a subscription; or
            subscriber: all those of a subscriber.
            xml: The message; or
            seq: a stored one, by its sequence number; or
            message: a stored one, by its id.
            namespaces: Of ``query``.
            dialect: Of ``query``.
        """
        asked = (query, key, subscriber, xml, seq, message, namespaces, dialect)
        result, after = await self._do(calls.explain(*asked))
        while after is not None:
            more, after = await self._do(calls.explain(*asked, after))
            result += more
        return result

    # Deliveries

    async def pull(
        self, subscriber: str, *, wait: float = 0.0, limit: int = 100, visibility: float | None = None
    ) -> list[Delivery]:
        """Lease deliveries; those that are not acknowledged within ``visibility`` seconds are handed out again.

        Args:
            subscriber: Whose.
            wait: Seconds to wait for the first one.
            limit: How many at most.
            visibility: Seconds.
        """
        return await self._do(calls.pull(subscriber, wait, limit, visibility))

    async def acknowledge(self, subscriber: str, deliveries: Sequence[Delivery | str]) -> None:
        """Say that deliveries are done."""
        ids = [item if isinstance(item, str) else item.id for item in deliveries]
        if ids:
            await self._do(calls.acknowledge(subscriber, ids))

    async def acknowledge_up_to(self, subscriber: str, delivery: Delivery | str) -> None:
        """Say that all deliveries up to one are done."""
        await self._do(calls.acknowledge_up_to(subscriber, delivery if isinstance(delivery, str) else delivery.id))

    async def give_back(self, subscriber: str, deliveries: Sequence[Delivery | str], *, delay: float = 0.0) -> None:
        """Give pulled deliveries back, to be handed out again after ``delay`` seconds."""
        ids = [item if isinstance(item, str) else item.id for item in deliveries]
        if ids:
            await self._do(calls.give_back(subscriber, ids, delay))

    async def deliveries(
        self, subscriber: str, *, wait: float = 20.0, limit: int = 100, visibility: float | None = None
    ) -> AsyncGenerator[Delivery, None]:
        """Pull deliveries, one after the other, until none comes within ``wait`` seconds.

        Each is acknowledged when the next one is asked for. What the loop leaves without finishing is given back.
        """
        while batch := await self.pull(subscriber, wait=wait, limit=limit, visibility=visibility):
            done = 0
            try:
                for delivery in batch:
                    yield delivery
                    done += 1
            finally:
                await self.acknowledge(subscriber, batch[:done])
                await self.give_back(subscriber, batch[done:])

    async def stream(
        self, subscriber: str, *, last: str | None = None, automatic: bool = False
    ) -> AsyncGenerator[Delivery, None]:
        """Listen to the deliveries of a subscriber, without end; connections that break are made again.

        Each is acknowledged some time after the next one is asked for (the broker hands out again what was not), none
        comes twice.

        Args:
            subscriber: Whose.
            last: Id of the last delivery that is done, when this goes on with an earlier stream.
            automatic: Leave it to the broker to take what it has sent as done.
        """
        seen = ReceivedEvents(last)
        failed = 0
        while True:
            try:
                # Closed with this one: otherwise it would acknowledge at some time later.
                async with aclosing(self._connection(subscriber, seen, automatic=automatic)) as connection:
                    async for delivery in connection:
                        failed = 0
                        yield delivery
            except Unreachable:
                failed += 1
                if failed >= self._retries.attempts:
                    raise
            await asyncio.sleep(self._retries.wait(max(failed, 1), None))

    async def _connection(
        self, subscriber: str, seen: ReceivedEvents, *, automatic: bool
    ) -> AsyncGenerator[Delivery, None]:
        query = {"subscriber": subscriber, "ack": "auto" if automatic else "explicit"}
        timeout = httpx2.Timeout(transport.SILENCE_SECONDS, connect=transport.CONNECT_SECONDS)
        url = f"{self._url}/deliveries/stream"
        try:
            async with self._http.stream(
                "GET", url, params=query, headers={**self._headers, **seen.headers}, timeout=timeout
            ) as response:
                if not response.is_success:
                    await response.aread()
                    raise transport.problem(response)
                async with aclosing(self._events(response, subscriber, seen, automatic=automatic)) as events:
                    async for delivery in events:
                        yield delivery
        except httpx2.TransportError as error:
            raise transport.unreachable(self._url, error) from error

    async def _events(
        self, response: httpx2.Response, subscriber: str, seen: ReceivedEvents, *, automatic: bool
    ) -> AsyncGenerator[Delivery, None]:
        parser = EventParser()
        acks = _Acks(self, subscriber, seen, is_on=not automatic)
        try:
            async for data in response.aiter_raw():
                for delivery in parser.feed(data):
                    if delivery is not None and seen.is_new(delivery):
                        try:
                            yield delivery
                        except GeneratorExit:
                            seen.forget(delivery)
                            raise
                        await acks.done(delivery)
                await acks.flush_if_due()
        finally:
            await acks.flush()

    # Dead letters

    async def dead_letters(
        self, *, before: int | None = None, limit: int = 100, key: str | None = None
    ) -> list[DeadLetter]:
        """Deliveries that were given up, newest first."""
        return await self._do(calls.dead_letters(before, limit, key))

    async def retry_dead_letters(self, dead_letters: Sequence[DeadLetter | int]) -> int:
        """Have dead letters delivered again; how many are tried."""
        return await self._do(calls.dead_letters_do("retry", _numbers(dead_letters)))

    async def delete_dead_letters(self, dead_letters: Sequence[DeadLetter | int]) -> int:
        """Remove dead letters for good; how many there were."""
        return await self._do(calls.dead_letters_do("delete", _numbers(dead_letters)))


def _numbers(dead_letters: Sequence[DeadLetter | int]) -> list[int]:
    return [item if isinstance(item, int) else item.dead_letter for item in dead_letters]


class _Acks:
    """Acknowledges what is done, in groups."""

    def __init__(self, client: AsyncClient, subscriber: str, seen: ReceivedEvents, *, is_on: bool) -> None:
        self._client = client
        self._subscriber = subscriber
        self._seen = seen
        self._is_on = is_on
        self._count = 0
        self._at = time.monotonic()

    async def done(self, delivery: Delivery) -> None:
        self._seen.last = delivery.id
        self._count += 1
        if self._count >= calls.ACKNOWLEDGED_COUNT:
            await self.flush()

    async def flush_if_due(self) -> None:
        if time.monotonic() - self._at >= calls.ACKNOWLEDGED_SECONDS:
            await self.flush()

    async def flush(self) -> None:
        count, self._count, self._at = self._count, 0, time.monotonic()
        if self._is_on and count and self._seen.last is not None:
            await self._client.acknowledge_up_to(self._subscriber, self._seen.last)
