"""A program that writes to a store until it is killed: ``python -m tests.broker.store.writer ADDRESS SEED``.

Prints the last sequence number after each commit. Each transaction stores some messages, two deliveries of each, and
acknowledges some; the name of its source says how many messages it stores.
"""

from __future__ import annotations

import random
import sys

from twigcast.broker.model import DeliveryId, NewDelivery, NewSubscription, StoredMessage
from twigcast.broker.store.store import open_store


def main(address: str, seed: int) -> None:
    """Write."""
    chance = random.Random(seed)
    store = open_store(address)
    if store.queue(1, "desk") is None:
        with store.transaction() as transaction:
            transaction.add_subscriptions([NewSubscription(1, key, "//a", subscriber="desk") for key in "ab"], at=0.0)
    subscriptions = list(store.all_subscriptions())
    queue_id = subscriptions[0].queue_id
    print("open", flush=True)
    while True:
        with store.transaction() as transaction:
            first, count = transaction.next_seq(), chance.randint(1, 30)
            messages = [
                StoredMessage(seq, 1, f"{first}-{count}", f"m{seq}", 0.0, bytes(chance.randint(0, 9_000)))
                for seq in range(first, first + count)
            ]
            transaction.add_messages(messages)
            transaction.add_deliveries(
                NewDelivery(queue_id, message.seq, s.id, None) for message in messages for s in subscriptions
            )
            transaction.acknowledge(
                queue_id, [DeliveryId(chance.randint(1, first), chance.choice(subscriptions).id) for _ in range(5)]
            )
        print(first + count - 1, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
