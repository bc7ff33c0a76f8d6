"""A broker in a process of its own, to be killed: publishes in a row, and writes down what was accepted.

Usage: python -m tests.broker.hub.killed STORE NUMBER PENDING_MAX

It publishes numbered messages from NUMBER on, several calls at a time, and writes a line ``accepted NUMBER SEQ`` after
each answer, and a line ``got LANE SEQ SUBSCRIPTION REDELIVERED`` for what its listeners get, before acknowledging it.
"""

from __future__ import annotations

import asyncio
import sys

from tests.broker.hub.hubs import TENANT, publish_any
from twigcast.broker.broker import Broker
from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.model import Accepted, Submission
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import open_store

QUERIES = {"even": "/m[@n mod 2 = 0]", "all": "/m", "third": "for $m in /m[@n mod 3 = 0] return <t>{ $m/x }</t>"}
COSTLY = "/m[count(p[count(preceding-sibling::p) + count(following-sibling::p) > 1000]) > 0]"
"""A query that no message matches and that takes up to milliseconds: many a kill comes while messages are evaluated."""

PUBLISHERS = 8


def tell(*words: object) -> None:
    # One write for each line: a kill leaves none torn.
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def listen(broker: Broker, key: str) -> None:
    while True:
        try:
            await listen_once(broker, key)
        except StoreUnavailable:
            # A client that comes again.
            await asyncio.sleep(0.02)


async def listen_once(broker: Broker, key: str) -> None:
    queue = broker.store.queue(TENANT, key)
    assert queue is not None
    count = 0
    async for group in broker.read_queue(queue.id):
        for delivery in group:
            tell("got", key, delivery.id.seq, int(delivery.redelivered))
        count += 1
        # Some are acknowledged at once, some late, some never before the kill.
        if count % 3 == 0:
            await broker.acknowledge_up_to(queue.id, group[-1].id.seq)


async def publish(broker: Broker, first: int, step: int) -> None:
    number = first
    while True:
        body = f"<m n='{number}'><x>{number}</x>{'<p/>' * (number % 400)}</m>".encode()
        try:
            (result,) = await publish_any(broker, Submission(TENANT, body, message_id=f"m{number}"))
        except StoreUnavailable:
            # Whether it was stored is open; under the same id it is stored once.
            await asyncio.sleep(0.02)
            continue
        assert isinstance(result, Accepted)
        tell("accepted", number, result.seq)
        number += step


async def main(address: str, first: int, pending_max: int) -> None:
    broker = Broker(open_store(address), HubOptions(upkeep_seconds=0.05, pending_max=pending_max))
    await broker.start()
    tell("started")
    await asyncio.gather(
        *(listen(broker, key) for key in QUERIES),
        *(publish(broker, first + position, PUBLISHERS) for position in range(PUBLISHERS)),
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
