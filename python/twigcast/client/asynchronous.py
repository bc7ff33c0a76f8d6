"""The client for event loops. It has the same methods as the client that blocks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import httpx2

from twigcast.broker.errors import UnknownDelivery
from twigcast.client.calls import ApiRequest, BrokerApi, describe
from twigcast.client.errors import Unreachable
from twigcast.client.transport import (
    Acknowledgements,
    Attempts,
    EventParser,
    ReceivedEvents,
    Retries,
    StreamOptions,
    read_answer,
    stream_arguments,
    stream_problem,
    unreachable,
)
from twigcast.client.values import Delivery, Page

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)


def _sent(
    call: Callable[Concatenate[BrokerApi, P], ApiRequest[T]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]:
    """Returns the method that sends the request of a call and returns the answer."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._send(call(self._api, *args, **kwargs))

    return describe(method, call)


def _listed(
    call: Callable[Concatenate[BrokerApi, P], ApiRequest[Page[T]]],
) -> Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, list[T]]]:
    """Returns the method that fetches all pages and returns their items."""

    async def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> list[T]:
        return [item async for item in self._items(call(self._api, *args, **kwargs))]

    return describe(method, call, list)


def _iterated(
    call: Callable[Concatenate[BrokerApi, P], ApiRequest[Page[T]]],
) -> Callable[Concatenate[AsyncClient, P], AsyncIterator[T]]:
    """Returns the method that yields the items of all pages and fetches each page when it is needed."""

    def method(self: AsyncClient, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self._items(call(self._api, *args, **kwargs))

    return describe(method, call, AsyncIterator)


class AsyncClient:
    """A client of a broker. All methods raise the errors of the broker, and Unreachable if it does not answer.

    Use it as an asynchronous context manager, or close it.

    Args:
        url: The address of the broker; of a pair, both addresses, of which the one that is active is found.
        token: An API token.
        retries: The retries of requests that may be repeated.
        http: A client of httpx2 with settings of its own (proxies, certificates); by default a new one.
    """

    def __init__(
        self,
        url: str | Sequence[str] = "http://127.0.0.1:8080",
        token: str | None = None,
        *,
        retries: Retries | None = None,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self._api = BrokerApi(url, token)
        self._retries = retries or Retries.for_addresses(len(self._api.addresses))
        self._http = http or httpx2.AsyncClient()

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _send(self, request: ApiRequest[T]) -> T:
        if not request.is_needed:
            return request.read(None)
        attempts = Attempts(self._api, request, self._retries)
        while True:
            try:
                response = await self._http.request(**attempts.arguments)
            except httpx2.TransportError as failure:
                wait = attempts.wait_after_failure(failure)
            else:
                if attempts.is_final(response):
                    return read_answer(request, response)
                wait = attempts.wait_after(response)
            await asyncio.sleep(wait)

    async def _items(self, request: ApiRequest[Page[T]]) -> AsyncIterator[T]:
        while True:
            page = await self._send(request)
            for item in page.items:
                yield item
            if page.next is None:
                return
            request = request.following(page.next)

    publish = _sent(BrokerApi.publish)
    publish_many = _sent(BrokerApi.publish_many)
    publish_items = _sent(BrokerApi.publish_items)
    messages = _sent(BrokerApi.messages)
    message = _sent(BrokerApi.message)
    lifecycle = _sent(BrokerApi.lifecycle)

    subscribe = _sent(BrokerApi.subscribe)
    replace = _sent(BrokerApi.replace)
    subscription = _sent(BrokerApi.subscription)
    subscriptions = _iterated(BrokerApi.subscriptions)
    window = _iterated(BrokerApi.window)
    pause = _sent(BrokerApi.pause)
    resume = _sent(BrokerApi.resume)
    seek = _sent(BrokerApi.seek)
    unsubscribe = _sent(BrokerApi.unsubscribe)
    import_subscriptions = _sent(BrokerApi.import_subscriptions)
    export_subscriptions = _sent(BrokerApi.export_subscriptions)

    check = _sent(BrokerApi.check)
    explain = _listed(BrokerApi.explain)

    pull = _sent(BrokerApi.pull)
    acknowledge = _sent(BrokerApi.acknowledge)
    acknowledge_up_to = _sent(BrokerApi.acknowledge_up_to)
    give_back = _sent(BrokerApi.give_back)
    extend = _sent(BrokerApi.extend)

    consumers = _iterated(BrokerApi.consumers)
    furthest_behind = _sent(BrokerApi.furthest_behind)
    consumer = _sent(BrokerApi.consumer)
    purge = _sent(BrokerApi.purge)
    skip = _sent(BrokerApi.skip)
    redrive = _sent(BrokerApi.redrive)
    put_source = _sent(BrokerApi.put_source)
    source = _sent(BrokerApi.source)
    sources = _sent(BrokerApi.sources)
    polls = _sent(BrokerApi.polls)
    pause_source = _sent(BrokerApi.pause_source)
    resume_source = _sent(BrokerApi.resume_source)
    delete_source = _sent(BrokerApi.delete_source)
    put_table = _sent(BrokerApi.put_table)
    table = _sent(BrokerApi.table)
    tables = _sent(BrokerApi.tables)
    table_rows = _sent(BrokerApi.table_rows)
    delete_table = _sent(BrokerApi.delete_table)

    dead_letters = _sent(BrokerApi.dead_letters)
    retry_dead_letters = _sent(BrokerApi.retry_dead_letters)
    delete_dead_letters = _sent(BrokerApi.delete_dead_letters)

    identity = _sent(BrokerApi.identity)
    tenants = _sent(BrokerApi.tenants)
    create_tenant = _sent(BrokerApi.create_tenant)
    erase_tenant = _sent(BrokerApi.erase_tenant)
    clock = _sent(BrokerApi.clock)
    confirm_clock = _sent(BrokerApi.confirm_clock)
    tokens = _sent(BrokerApi.tokens)
    create_token = _sent(BrokerApi.create_token)
    rotate_token = _sent(BrokerApi.rotate_token)
    delete_token = _sent(BrokerApi.delete_token)

    async def deliveries(
        self, subscriber: str, *, wait: float = 20.0, limit: int = 100, visibility: float | None = None
    ) -> AsyncGenerator[Delivery, None]:
        """Pulls deliveries one after the other. Arguments and acknowledgement as for :meth:`Client.deliveries`."""
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
        self,
        subscriber: str,
        *,
        last: str | None = None,
        automatic: bool = False,
        acknowledge: bool = True,
        in_flight: int | None = None,
        visibility: float | None = None,
    ) -> AsyncGenerator[Delivery, None]:
        """Yields the deliveries of a subscriber without end. Arguments and retries as for :meth:`Client.stream`."""
        received = ReceivedEvents(last)
        options = StreamOptions(automatic, acknowledge, in_flight, visibility)
        failed = 0
        while True:
            try:
                # Closed together with this generator; otherwise it would acknowledge at an arbitrary later time.
                async with aclosing(self._connection(subscriber, received, options)) as connection:
                    async for delivery in connection:
                        failed = 0
                        yield delivery
            except Unreachable:
                failed += 1
                if failed >= self._retries.attempts:
                    raise
            await asyncio.sleep(self._retries.wait(max(failed, 1), None))

    async def _connection(
        self, subscriber: str, received: ReceivedEvents, options: StreamOptions
    ) -> AsyncGenerator[Delivery, None]:
        arguments = stream_arguments(self._api, subscriber, received.last, options)
        try:
            async with self._http.stream(**arguments) as response:
                if not response.is_success:
                    await response.aread()
                    raise stream_problem(self._api, response)
                async with aclosing(self._events(response, subscriber, received, options)) as events:
                    async for delivery in events:
                        yield delivery
        except httpx2.TransportError as failure:
            error = unreachable(self._api.url, failure)
            self._api.turn_from(self._api.url)
            raise error from failure

    async def _events(
        self, response: httpx2.Response, subscriber: str, received: ReceivedEvents, options: StreamOptions
    ) -> AsyncGenerator[Delivery, None]:
        parser = EventParser(received)
        done = Acknowledgements(received, options)
        try:
            async for data in response.aiter_raw():
                for delivery in parser.feed(data):
                    if delivery is not None and received.is_new(delivery):
                        try:
                            yield delivery
                        except GeneratorExit:
                            received.forget(delivery)
                            raise
                        done.add(delivery)
                    if (last := done.take_due()) is not None:
                        await self._acknowledge_streamed(subscriber, last)
        except httpx2.TransportError as failure:
            # Said before what is done is acknowledged, which waits for the broker.
            logger.info("the stream of %s broke: %s", subscriber, failure)
            raise
        else:
            logger.info("the broker ended the stream of %s", subscriber)
        finally:
            if (last := done.take()) is not None:
                await self._acknowledge_streamed(subscriber, last)

    async def _acknowledge_streamed(self, subscriber: str, done: str | list[str]) -> None:
        # After a seek meanwhile, the broker delivers it again.
        with suppress(UnknownDelivery):
            if isinstance(done, str):
                await self.acknowledge_up_to(subscriber, done)
            else:
                await self.acknowledge(subscriber, done)
