"""A broker in a process of its own, to be killed: publishes messages that windows count, by the real clock.

Usage: python -m tests.broker.hub.killed_windows STORE SEED FIRST

It publishes messages from FIRST on, one after the other, and writes a line for each that was accepted.
"""

from __future__ import annotations

import asyncio
import random
import sys

from tests.broker.hub.hubs import TENANT, publish_any
from tests.broker.hub.killed import tell
from twigcast.broker.broker import Broker
from twigcast.broker.model import Accepted, Submission
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import open_store

LENGTH = 5_000


def message(seed: int, number: int) -> str:
    """Returns one of the messages of a seed."""
    random_ = random.Random(seed * LENGTH + number)
    first, second = (f'{name}="1"' if random_.random() < 0.6 else "" for name in ("first", "second"))
    return f'<m key="{random_.choice("abc")}" value="{random_.choice("xxy")}" {first} {second}/>'


async def main(address: str, seed: int, first: int) -> None:
    broker = Broker(open_store(address), HubOptions(upkeep_seconds=0.05))
    await broker.start()
    tell("started")
    random_ = random.Random(seed + first)
    for number in range(first, LENGTH):
        submission = Submission(TENANT, message(seed, number).encode(), message_id=f"m{number}")
        (result,) = await publish_any(broker, submission)
        assert isinstance(result, Accepted)
        tell("accepted", number)
        if random_.random() < 0.2:
            await asyncio.sleep(random_.choice([0.01, 0.03, 0.3]))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
