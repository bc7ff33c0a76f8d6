"""Pulling with leases: order within a subscription, returns, waiting; a clock that is set does not matter."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tests.broker.hub.hubs import TENANT, drain, publish, run, running, subscribe
from twigcast.broker.broker import Broker
from twigcast.broker.model import DeliveryId, QueuedDelivery, StoredMessage
from twigcast.broker.queues.leases import QueueLeases
from twigcast.broker.store.store import Store


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def with_clock(broker: Broker) -> Clock:
    """Let leases run by a clock of the test's."""
    clock = Clock()
    broker._leases._clock = clock
    return clock


async def until(holds: Callable[[], bool]) -> None:
    """Waits until a condition holds."""
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


def test_a_lease_that_ends_brings_the_delivery_back_marked(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            clock = with_clock(broker)
            subscription = await subscribe(broker, "k", "//a")
            queue = subscription.queue_id
            await publish(broker, "<a>1</a>", "<a>2</a>")
            (first,) = await broker.pull(queue, limit=1, wait=0, visibility=30)
            assert not first.redelivered
            assert await broker.pull(queue, limit=5, wait=0, visibility=30) == []
            clock.now += 29.9
            assert await broker.pull(queue, limit=5, wait=0, visibility=30) == []
            clock.now += 0.2
            again = await broker.pull(queue, limit=5, wait=0, visibility=30)
            assert [(d.id.seq, d.redelivered) for d in again] == [(1, True), (2, False)]
            await broker.acknowledge(queue, [d.id for d in again])
            assert await broker.pull(queue, limit=5, wait=0, visibility=30) == []
            assert broker._leases.of(queue) is None or broker._leases.of(queue).idle  # type: ignore[union-attr]

    run(play())


def test_a_step_of_the_system_clock_ends_no_lease(store: Store, monkeypatch: object) -> None:
    async def play() -> None:
        async with running(store) as broker:
            subscription = await subscribe(broker, "k", "//a")
            await publish(broker, "<a/>")
            assert len(await broker.pull(subscription.queue_id, limit=1, wait=0, visibility=3_600)) == 1
            now = time.time
            for step in (-86_400.0, 86_400.0):
                monkeypatch.setattr(time, "time", lambda step=step: now() + step)  # type: ignore[attr-defined]
                assert await broker.pull(subscription.queue_id, limit=1, wait=0, visibility=1) == []
                await publish(broker, "<a/>")

    run(play())


def test_a_subscription_waits_for_what_it_has_leased_and_others_do_not(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            left = await subscribe(broker, "left", "//a", subscriber="team")
            await subscribe(broker, "right", "//b", subscriber="team")
            await publish(broker, "<a/>", "<b/>", "<a/>", "<b/>")
            (first,) = await broker.pull(left.queue_id, limit=1, wait=0, visibility=30)
            others = await broker.pull(left.queue_id, limit=10, wait=0, visibility=30)
            assert [(d.key, d.id.seq) for d in others] == [("right", 2), ("right", 4)]
            await broker.acknowledge(left.queue_id, [first.id])
            assert [d.id.seq for d in await broker.pull(left.queue_id, limit=10, wait=0, visibility=30)] == [3]

    run(play())


def test_giving_back_with_a_delay_holds_up_the_subscription(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            clock = with_clock(broker)
            queue = (await subscribe(broker, "k", "//a")).queue_id
            await publish(broker, "<a/>", "<a/>")
            (first,) = await broker.pull(queue, limit=1, wait=0, visibility=30)
            await broker.release(queue, [first.id], delay=5)
            assert await broker.pull(queue, limit=5, wait=0, visibility=30) == []
            clock.now += 5.1
            again = await broker.pull(queue, limit=5, wait=0, visibility=30)
            assert [(d.id.seq, d.redelivered) for d in again] == [(1, True), (2, False)]
            await broker.release(queue, [d.id for d in again])
            assert len(await broker.pull(queue, limit=5, wait=0, visibility=30)) == 2

    run(play())


def test_a_pull_waits_for_the_first_delivery(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            queue = (await subscribe(broker, "k", "//a")).queue_id
            waiting = [asyncio.create_task(broker.pull(queue, limit=1, wait=20, visibility=30)) for _ in range(2)]
            await until(lambda: (leases := broker._leases.of(queue)) is not None and leases.pulls == 2)
            began = time.monotonic()
            await publish(broker, "<a/>")
            done, rest = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert time.monotonic() - began < 5
            (got,) = next(iter(done)).result()
            assert len(rest) == 1
            # The other gets the next one, once the first is acknowledged.
            await publish(broker, "<a/>")
            await broker.acknowledge(queue, [got.id])
            (other,) = await next(iter(rest))
            assert other.id > got.id
            began = time.monotonic()
            assert await broker.pull(queue, limit=1, wait=0.2, visibility=30) == []
            assert 0.15 < time.monotonic() - began < 5

    run(play())


def test_a_waiting_pull_gets_what_another_consumer_lets_lie(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            queue = (await subscribe(broker, "k", "//a")).queue_id
            await publish(broker, "<a/>")
            assert len(await broker.pull(queue, limit=1, wait=0, visibility=0.3)) == 1
            (again,) = await broker.pull(queue, limit=1, wait=20, visibility=30)
            assert again.redelivered

    run(play())


def test_a_pull_that_is_cancelled_leases_nothing(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            queue = (await subscribe(broker, "k", "//a")).queue_id
            pull = asyncio.create_task(broker.pull(queue, limit=1, wait=20, visibility=300))
            await until(lambda: bool(broker._queues.readers))
            pull.cancel()
            await asyncio.gather(pull, return_exceptions=True)
            await publish(broker, "<a/>")
            assert len(await drain(broker, queue)) == 1
            assert not broker._queues.readers

    run(play())


def test_deleting_a_subscription_frees_what_it_has_leased(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            left = await subscribe(broker, "left", "//a", subscriber="team")
            await subscribe(broker, "right", "//a", subscriber="team")
            await publish(broker, "<a/>")
            assert len(await broker.pull(left.queue_id, limit=5, wait=0, visibility=300)) == 2
            await broker.unsubscribe(left)
            table = broker._leases.of(left.queue_id)
            assert table is not None
            assert len(table) == 1
            assert store.subscription(TENANT, "left") is None

    run(play())


def test_an_acknowledged_delivery_that_a_reading_still_finds_is_not_leased() -> None:
    table = QueueLeases(Clock())
    message = StoredMessage(1, 1, "s", "m", 0.0, b"<a/>")
    results = [QueuedDelivery(DeliveryId(1, number), 1, "k", message) for number in (1, 2)]

    async def play() -> None:
        async with table.reading:
            table.begin_reading()
            table.settle([DeliveryId(1, 1)])
            assert [d.id.subscription_id for d in table.lease(results, 10)] == [2]

    run(play())
    assert table.blocked == {2}
