"""Sending without a task for each time: order, back-pressure and errors are those of ``await send(...)``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tests.seeds import printed_seed
from twigcast.broker.api.stream import Connection, DeliverySource, EventStream
from twigcast.broker.model import QueueState


class Gate:
    """Sends like a server's: at once while it is open, later otherwise."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.error: Exception | None = None

    async def send(self, message: MutableMapping[str, Any]) -> None:
        while not self.is_open.is_set():
            await self.is_open.wait()
            # As a server may, it waits more than once.
            await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.sent.append(message["body"])


def body(number: int) -> dict[str, Any]:
    return {"type": "http.response.body", "body": b"%d" % number, "more_body": True}


def test_what_has_room_is_sent_before_begin_returns() -> None:
    async def scene() -> None:
        authenticator = Gate()
        connection = Connection(authenticator.send, lambda: None)
        connection.begin(body(1))
        assert authenticator.sent == [b"1"]
        assert not connection.busy

    asyncio.run(scene())


def test_what_has_no_room_is_sent_later_and_what_follows_after_it() -> None:
    async def scene() -> None:
        authenticator = Gate()
        connection = Connection(authenticator.send, lambda: None)
        authenticator.is_open.clear()
        connection.begin(body(1))
        assert connection.busy
        later = asyncio.create_task(connection.send(body(2)))
        await asyncio.sleep(0)
        assert authenticator.sent == []
        authenticator.is_open.set()
        await later
        assert authenticator.sent == [b"1", b"2"]
        assert not connection.busy

    asyncio.run(scene())


def test_whoever_waits_is_let_go_when_the_connection_is_closed() -> None:
    async def scene() -> None:
        authenticator = Gate()
        connection = Connection(authenticator.send, lambda: None)
        authenticator.is_open.clear()
        connection.begin(body(1))
        await asyncio.sleep(0)
        connection.close()
        async with asyncio.timeout(10):
            while connection.busy:
                await asyncio.sleep(0)
        authenticator.is_open.set()
        await asyncio.sleep(0)
        assert authenticator.sent == []
        assert connection.error is None

    asyncio.run(scene())


@pytest.mark.parametrize("is_full", [False, True])
def test_an_error_is_told_and_kept(is_full: bool) -> None:
    async def scene() -> None:
        authenticator = Gate()
        reported: list[int] = []
        connection = Connection(authenticator.send, lambda: reported.append(1))
        authenticator.error = RuntimeError("the transport is closed")
        if is_full:
            authenticator.is_open.clear()
        connection.begin(body(1))
        authenticator.is_open.set()
        with pytest.raises(RuntimeError, match="closed"):
            await connection.send(body(2))
        assert reported == [1]
        assert connection.error is authenticator.error

    asyncio.run(scene())


def test_random_histories_keep_the_order() -> None:
    seed = printed_seed()
    source = random.Random(seed)

    async def scene() -> None:
        authenticator = Gate()
        connection = Connection(authenticator.send, lambda: None)

        async def open_and_close() -> None:
            while True:
                (authenticator.is_open.set if source.random() < 0.5 else authenticator.is_open.clear)()
                for _ in range(source.randrange(4)):
                    await asyncio.sleep(0)

        disturbance = asyncio.create_task(open_and_close())
        for number in range(500):
            if source.random() < 0.5 and not connection.busy:
                connection.begin(body(number))
            else:
                await connection.send(body(number))
            if source.random() < 0.2:
                await asyncio.sleep(0)
        disturbance.cancel()
        authenticator.is_open.set()
        await connection.send(body(500))
        assert authenticator.sent == [b"%d" % number for number in range(501)]

    asyncio.run(scene())


class Surroundings(SimpleNamespace):
    """What a stream has around it: one that hands deliveries over, and one that is told which are done."""

    def __init__(self) -> None:
        super().__init__(broker=self, envelopes=self, automatic_acks=self, streams=self)
        self.offer: Callable[[Sequence[Any]], bool] = lambda _: False
        self.done: list[Any] = []

    @contextmanager
    def one_more(self, _: object) -> Iterator[Callable[[object], None]]:
        yield lambda _: None

    async def read_queue(self, *_: object, offer: Callable[[Sequence[Any]], bool]) -> AsyncIterator[list[Any]]:
        self.offer = offer
        await asyncio.Event().wait()
        yield []

    def events(self, deliveries: Sequence[bytes], *, bodies: bool) -> bytes:
        return b"".join(deliveries)

    def seek_count(self, _: int) -> int:
        return 0

    def handed_over(self, _: int, deliveries: Sequence[bytes], seeks: int) -> None:
        self.done += deliveries


@pytest.mark.parametrize("goes_away", [False, True])
def test_what_waits_for_the_connection_is_done_when_it_is_written(goes_away: bool) -> None:
    """A client that goes away before finds it pending when it comes again."""

    async def scene() -> None:
        authenticator, around = Gate(), Surroundings()
        gone = asyncio.Event()

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.body":
                await authenticator.send(message)

        async def receive() -> dict[str, str]:
            await gone.wait()
            return {"type": "http.disconnect"}

        shared: Any = around
        principal: Any = None
        source = DeliverySource(shared, QueueState(1, 1, "k", 0), is_automatic=True)
        stream = EventStream(shared, principal, source, bodies=True)
        answering = asyncio.create_task(stream({"type": "http"}, receive, send))
        for _ in range(5):
            await asyncio.sleep(0)
        assert around.offer([b"first"])
        assert around.done == [b"first"]
        authenticator.is_open.clear()
        assert around.offer([b"second"])
        assert not around.offer([b"third"])
        assert around.done == [b"first"], "the second one waits"
        if goes_away:
            # As a server does: it tells of the end, and lets go on what waited.
            gone.set()
        authenticator.is_open.set()
        for _ in range(5):
            await asyncio.sleep(0)
        gone.set()
        await answering
        assert around.done == ([b"first"] if goes_away else [b"first", b"second"])

    asyncio.run(scene())
