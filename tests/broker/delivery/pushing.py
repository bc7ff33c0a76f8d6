"""What the tests of pushing share: quick settings, and steps in few words."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from twigcast.broker.broker import Broker
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.delivery.host_scheduler import Backoff, HostLimits
from twigcast.broker.delivery.http_client import Timeouts
from twigcast.broker.delivery.push import PushSettings
from twigcast.broker.delivery.websub_hub import LeaseBounds
from twigcast.broker.model import (
    Accepted,
    DeadLetter,
    DeliverySettings,
    ErrorRecord,
    NewSubscription,
    StoredSubscription,
    Submission,
)
from twigcast.broker.outbound import OutboundServices, OutboundSettings
from twigcast.broker.sources.poll import PollSettings

TENANT = 1


def quick(
    *,
    attempts: int = 3,
    seconds: float = 60.0,
    hosts: HostLimits | None = None,
    policy: UrlPolicy | None = None,
    timeouts: Timeouts | None = None,
    leases: LeaseBounds | None = None,
) -> OutboundSettings:
    """Settings for tests: waits of milliseconds, from a fixed seed."""
    backoff = Backoff(first=0.01, longest=0.05, random=random.Random(5))
    hosts = hosts or HostLimits(breaker_failures=1_000)
    return OutboundSettings(
        policy=policy or UrlPolicy(allow_private=True),
        timeouts=timeouts or Timeouts(connect=1.0, read=1.0, total=2.0),
        push=PushSettings(attempts, seconds, backoff, hosts),
        leases=leases or LeaseBounds(shortest=0.2),
        polls=PollSettings(interval_min=0.05, random=random.Random(5)),
        grace=0.2,
    )


@asynccontextmanager
async def running(broker: Broker, settings: OutboundSettings | None = None) -> AsyncIterator[OutboundServices]:
    """All that the broker does over the network, while it is needed."""
    outbound = OutboundServices(broker, settings or quick())
    await outbound.start()
    try:
        yield outbound
    finally:
        await outbound.stop()


async def subscribe(
    broker: Broker, key: str, url: str | None, query: str = "/*", secret: str | None = None
) -> StoredSubscription:
    kind = "pull" if url is None else "webhook"
    (result,) = await broker.subscribe(
        [NewSubscription(TENANT, key, query, delivery=DeliverySettings(kind, url, secret))]
    )
    assert isinstance(result, StoredSubscription), result
    return result


async def publish(broker: Broker, *bodies: str | bytes, source: str = "default") -> list[int]:
    """Publish messages; their sequence numbers."""
    seqs = []
    for body in bodies:
        xml = body.encode() if isinstance(body, str) else body
        (accepted,) = await broker.publish([Submission(TENANT, xml, source)])
        assert isinstance(accepted, Accepted), accepted
        seqs.append(accepted.seq)
    return seqs


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for what nothing tells of."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def letters(broker: Broker) -> list[DeadLetter]:
    return broker.store.dead_letters(TENANT, limit=1_000)


def errors(broker: Broker, subscription: StoredSubscription) -> list[ErrorRecord]:
    return broker.store.errors(subscription.id, 100)


def now(broker: Broker, subscription: StoredSubscription) -> StoredSubscription:
    result = broker.store.subscription(subscription.tenant_id, subscription.key)
    assert result is not None
    return result
