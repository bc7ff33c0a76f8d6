"""A worker in a process of its own, to be killed: takes deliveries of a shared queue, and writes down what it did.

Usage: python -m tests.broker.queues.worker URL TOKEN SUBSCRIBER LEASE SEED

Lines: ``got SEQ ASKED RECEIVED`` (times of the machine's monotonic clock), ``done SEQ``, ``back SEQ``.
"""

from __future__ import annotations

import sys
import time
from random import Random

from tests.broker.hub.killed import tell
from twigcast.broker.errors import BrokerError
from twigcast.client import Client, Retries


def main() -> None:
    url, token, subscriber, lease, seed = sys.argv[1:]
    chance = Random(int(seed))
    with Client(url, token, retries=Retries(attempts=100, first_wait=0.05, longest_wait=0.2)) as client:
        while True:
            asked = time.monotonic()
            try:
                batch = client.pull(subscriber, limit=chance.randint(1, 4), wait=0.1, visibility=float(lease))
            except BrokerError:
                continue
            received = time.monotonic()
            for delivery in batch:
                tell("got", delivery.seq, asked, received)
            for delivery in batch:
                if chance.random() < 0.15:
                    tell("back", delivery.seq)
                    client.give_back(subscriber, [delivery])
                else:
                    client.acknowledge(subscriber, [delivery])
                    tell("done", delivery.seq)


if __name__ == "__main__":
    main()
