"""What the tests of the hub share: a running broker, and steps in few words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar, cast

from twigcast.broker.broker import Broker
from twigcast.broker.errors import StoreInUse
from twigcast.broker.model import (
    Accepted,
    NewSubscription,
    PublishOutcome,
    QueuedDelivery,
    QueuePosition,
    StoredSubscription,
    Submission,
)
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import Store, open_store

TENANT = 1
T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], seconds: float = 60.0) -> T:
    """The result of asynchronous work that must not hang."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(bounded())


@asynccontextmanager
async def running(store: Store, **options: Any) -> AsyncIterator[Broker]:
    """A broker on a store that stays open."""
    broker = Broker(store, HubOptions(**options))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def subscribe(broker: Broker, key: str, query: str, **settings: Any) -> StoredSubscription:
    """A subscription that must be accepted."""
    (result,) = await broker.subscribe([NewSubscription(settings.pop("tenant_id", TENANT), key, query, **settings)])
    assert isinstance(result, StoredSubscription), result
    return result


async def subscribe_many(broker: Broker, new: Sequence[NewSubscription]) -> list[StoredSubscription]:
    """Subscriptions that all must be accepted."""
    results = await broker.subscribe(new)
    assert all(isinstance(s, StoredSubscription) for s in results), [
        s for s in results if not isinstance(s, StoredSubscription)
    ][:3]
    return cast("list[StoredSubscription]", results)


async def publish(broker: Broker, *bodies: str | bytes, **settings: Any) -> list[Accepted]:
    """Publish messages that must be accepted."""
    tenant_id = settings.pop("tenant_id", TENANT)
    results = await broker.publish(
        [Submission(tenant_id, body.encode() if isinstance(body, str) else body, **settings) for body in bodies]
    )
    assert all(isinstance(r, Accepted) for r in results), results
    return cast("list[Accepted]", results)


async def publish_any(broker: Broker, *submissions: Submission) -> list[PublishOutcome]:
    """Publish messages that may be rejected."""
    return await broker.publish(submissions)


async def pull_within(broker: Broker, queue_id: int, count: int, pending_max: int) -> list[QueuedDelivery]:
    """Pull and acknowledge so many deliveries of a lane; at no time may more be pending than these."""
    got: list[QueuedDelivery] = []
    while len(got) < count:
        assert broker.store.pending_count(queue_id) <= pending_max
        some = await broker.pull(queue_id, limit=20, wait=30, visibility=60)
        await broker.acknowledge(queue_id, [delivery.id for delivery in some])
        got += some
    return got


async def drain(broker: Broker, queue_id: int) -> list[QueuedDelivery]:
    """All that a lane has pending, pulled and acknowledged."""
    results: list[QueuedDelivery] = []
    while some := await broker.pull(queue_id, limit=1_000, wait=0, visibility=60):
        await broker.acknowledge(queue_id, [d.id for d in some])
        results += some
    return results


async def heard(broker: Broker, queue_id: int, count: int, after: QueuePosition | None = None) -> list[QueuedDelivery]:
    """The first deliveries that a listener gets; those that come in the same group included."""
    results: list[QueuedDelivery] = []
    async with aclosing(broker.read_queue(queue_id, after)) as groups:
        async for group in groups:
            results += group
            if len(results) >= count:
                break
    return results


async def reopened(address: str) -> Store:
    """The store of a killed broker. A server may take a moment to notice the death."""
    for _ in range(200):
        try:
            return open_store(address)
        except StoreInUse:
            await asyncio.sleep(0.02)
    return open_store(address)
