"""A broker in a process of its own, to be killed: ``python -m tests.broker.delivery.victim STORE URL MESSAGES``.

It subscribes a webhook unless it is there, publishes numbered messages that are not there yet, and pushes for good.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from tests.broker.delivery.pushing import TENANT, quick, subscribe
from tests.broker.hub.hubs import reopened
from twigcast.broker.broker import Broker
from twigcast.broker.model import Submission
from twigcast.broker.outbound import OutboundServices


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
