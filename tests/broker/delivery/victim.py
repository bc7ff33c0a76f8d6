"""A broker in a process of its own, to be killed: ``python -m tests.broker.delivery.victim STORE URL MESSAGES``.

It subscribes a webhook unless it is there, publishes numbered messages that are not there yet, and pushes for good.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from tests.broker.delivery.pushing import TENANT, quick, subscribe
from twigcast.broker.broker import Broker
from twigcast.broker.errors import StoreInUse
from twigcast.broker.model import Submission
from twigcast.broker.outbound import OutboundServices
from twigcast.broker.store.store import Store, open_store


async def reopened(address: str) -> Store:
    """The store of a killed broker. A server may take a moment to notice the death."""
    for _ in range(200):
        try:
            return open_store(address)
        except StoreInUse:
            await asyncio.sleep(0.02)
    return open_store(address)


async def main(address: str, url: str, messages: int) -> None:
    broker = Broker(await reopened(address))
    await broker.start()
    settings = quick(attempts=1_000_000)
    outbound = OutboundServices(broker, replace(settings, push=replace(settings.push, seconds_max=1e9)))
    await outbound.start()
    if broker.store.subscription(TENANT, "k") is None:
        await subscribe(broker, "k", url)
    for number in range(messages):
        await broker.publish([Submission(TENANT, f"<a>{number}</a>".encode(), "s", f"m{number}")])
        await asyncio.sleep(0.002)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
