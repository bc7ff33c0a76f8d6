"""Urgency: at 1.5 times what the broker can do, how many urgent deliveries are in time, with and without priorities.

A broker in this process, on a store on SQLite, with subscriptions whose evaluation is what takes the time. First it is
measured how many messages a second it stores when publishers only wait for its answers. Then messages come at 1.5 times
that rate, whatever becomes of them, and one in twenty is urgent: it is to reach its subscriber within a second. What is
refused, or comes later, is not in time.

The second case is a subscriber that takes less than comes: a worker of a shared queue, which needs a time for each
delivery.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.measure import Row
from twigcast.broker.broker import Broker
from twigcast.broker.errors import TooMany
from twigcast.broker.model import DeliverySettings, NewSubscription, StoredSubscription, Submission
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import open_store

SUBSCRIPTIONS = 60
URGENT_EVERY = 20
IN_TIME_SECONDS = 1.0
LOAD = 1.5
CAPACITY_SECONDS = 4.0
SECONDS = 12.0
TICK_SECONDS = 0.02
WORKER_SECONDS = 0.01
"""What the worker needs for a delivery."""

_PARTS = "".join(f"<place name='{number}'><free>{number % 7}</free></place>" for number in range(60))


def _body(number: int, *, urgent: bool) -> bytes:
    kind = "tornado" if urgent else "parking"
    return f"<notice kind='{kind}' at='{time.time()}' n='{number}'>{_PARTS}</notice>".encode()


@asynccontextmanager
async def _running() -> AsyncIterator[Broker]:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        broker = Broker(store, HubOptions(queue_messages_max=20_000))
        await broker.start()
        yield broker
        await broker.stop()
        store.close()


async def _subscribe(broker: Broker, key: str, query: str, options: dict[str, object]) -> StoredSubscription:
    new = NewSubscription(1, key, query, delivery=DeliverySettings(options=options))
    (added,) = await broker.subscribe([new])
    assert isinstance(added, StoredSubscription)
    return added


async def _populate(broker: Broker) -> StoredSubscription:
    queries = [
        f"count(//place[free > {n % 7}]/free[. = {n} or ../@name = '{n + 60}']) > 1" for n in range(SUBSCRIPTIONS)
    ]
    await broker.subscribe([NewSubscription(1, f"other {n}", query) for n, query in enumerate(queries)])
    return await _subscribe(broker, "desk", "/notice[@kind = 'tornado']", {})


async def _capacity(broker: Broker) -> float:
    """Returns the messages a second that are stored when publishers wait for nothing but room."""
    done, end = 0, time.perf_counter() + CAPACITY_SECONDS

    async def publisher() -> None:
        nonlocal done
        while time.perf_counter() < end:
            await broker.publish([Submission(1, _body(done, urgent=False))])
            done += 1

    await asyncio.gather(*(publisher() for _ in range(100)))
    return done / CAPACITY_SECONDS


async def _read(broker: Broker, one: StoredSubscription, delays: dict[int, float]) -> None:
    async for group in broker.read_queue(one.queue_id):
        now = time.time()
        for delivery in group:
            head = delivery.body[:100].decode().split("'")
            delays[int(head[5])] = now - float(head[3])


async def _publish(broker: Broker, number: int, *, urgent: bool, priority: int | None, refused: list[int]) -> None:
    try:
        await broker.publish([Submission(1, _body(number, urgent=urgent), priority=priority)])
    except TooMany:
        refused.append(number)


async def _overload(rate: float, broker: Broker, *, by_priority: bool) -> Row:
    """Publishes at a rate, and returns what became of what is urgent."""
    desk, delays = await _populate(broker), dict[int, float]()
    reader = asyncio.create_task(_read(broker, desk, delays))
    tasks: list[asyncio.Task[None]] = []
    refused: list[int] = []
    begun, number = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begun) < SECONDS:
        while number < rate * elapsed:
            urgent = number % URGENT_EVERY == 0
            priority = 9 if urgent and by_priority else None
            work = _publish(broker, number, urgent=urgent, priority=priority, refused=refused)
            tasks.append(asyncio.create_task(work))
            number += 1
        await asyncio.sleep(TICK_SECONDS)
    await asyncio.gather(*tasks)
    await asyncio.sleep(0.5)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    return _row("the broker is busy", rate, number, delays) | {"priorities": by_priority, "refused": len(refused)}


def _row(case: str, rate: float, messages: int, delays: dict[int, float]) -> Row:
    """Returns what became of what is urgent of some messages, whose delays are given."""
    urgent, in_order = -(-messages // URGENT_EVERY), sorted(delays.values())
    return {
        "case": case,
        "messages": messages,
        "per_second": rate,
        "urgent": urgent,
        "in_time": sum(delay <= IN_TIME_SECONDS for delay in in_order) / urgent,
        "median_seconds": in_order[len(in_order) // 2] if in_order else None,
    }


async def _slow_worker(broker: Broker, *, by_priority: bool) -> Row:
    """Lets a worker take less than comes, and returns what became of what is urgent."""
    options: dict[str, object] = {"queue": "shared", "lease_seconds": 30.0, "attempts_max": 5}
    if by_priority:
        options["order"] = "urgency"
    desk = await _subscribe(broker, "desk", "/notice", options)
    sharing = desk.delivery.sharing
    assert sharing is not None
    delays: dict[int, float] = {}

    async def work() -> None:
        async for group in broker.work(desk.queue_id, sharing, in_flight_max=1):
            for delivery in group:
                await asyncio.sleep(WORKER_SECONDS)
                head = delivery.body[:100].decode().split("'")
                if head[1] == "tornado":
                    delays[int(head[5])] = time.time() - float(head[3])
                await broker.acknowledge(desk.queue_id, [delivery.id])

    worker = asyncio.create_task(work())
    await asyncio.sleep(0.1)
    taken_before = time.perf_counter()
    for number in range(1, 100):
        await broker.publish([Submission(1, _body(-number, urgent=False))])
    while broker.store.pending_count(desk.queue_id):
        await asyncio.sleep(0.01)
    rate = LOAD * 99 / (time.perf_counter() - taken_before)
    begun, number = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - begun) < SECONDS:
        while number < rate * elapsed:
            urgent = number % URGENT_EVERY == 0
            priority = 9 if urgent and by_priority else None
            await broker.publish([Submission(1, _body(number, urgent=urgent), priority=priority)])
            number += 1
        await asyncio.sleep(TICK_SECONDS)
    await asyncio.sleep(IN_TIME_SECONDS)
    worker.cancel()
    await asyncio.gather(worker, return_exceptions=True)
    return _row("the subscriber is slow", rate, number, delays) | {"priorities": by_priority, "refused": 0}


async def _measure() -> list[Row]:
    rows: list[Row] = []
    async with _running() as broker:
        await _populate(broker)
        rate = LOAD * await _capacity(broker)
    for by_priority in (False, True):
        async with _running() as broker:
            rows.append(await _overload(rate, broker, by_priority=by_priority))
    for by_priority in (False, True):
        async with _running() as broker:
            rows.append(await _slow_worker(broker, by_priority=by_priority))
    return rows


def measure() -> list[Row]:
    """Both cases, without priorities and with them."""
    return asyncio.run(_measure())
