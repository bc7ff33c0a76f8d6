"""A broker in a process of its own, to be killed: publishes messages that update and cancel each other.

Usage: python -m tests.broker.hub.killed_lifecycles STORE SEED FIRST

It publishes the messages of a history from FIRST on, several at a time, and writes a line for each that was accepted.
"""

from __future__ import annotations

import asyncio
import random
import sys

from tests.broker.hub.hubs import TENANT, publish_any
from tests.broker.hub.killed import tell
from tests.lifecycle.model import history
from twigcast.broker.broker import Broker
from twigcast.broker.model import Accepted, Submission
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import open_store

LENGTH = 3_000
PUBLISHERS = 3


async def publish(broker: Broker, seed: int, first: int, step: int) -> None:
    messages = history(random.Random(seed), LENGTH, expiring=False)
    for number in range(first, LENGTH, step):
        submission = Submission(TENANT, messages[number].xml.encode(), "made", f"m{number}")
        (result,) = await publish_any(broker, submission)
        assert isinstance(result, Accepted)
        tell("accepted", number)


async def main(address: str, seed: int, first: int) -> None:
    broker = Broker(open_store(address), HubOptions(upkeep_seconds=0.05))
    await broker.start()
    tell("started")
    await asyncio.gather(*(publish(broker, seed, first + position, PUBLISHERS) for position in range(PUBLISHERS)))
    tell("done")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
