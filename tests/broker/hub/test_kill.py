"""kill -9 at random moments under load: what was accepted is delivered, in order; what comes twice is marked."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from tests.broker.hub.hubs import TENANT, reopened, run, running, subscribe
from tests.broker.hub.killed import COSTLY, QUERIES
from tests.seeds import printed_seed
from tests.services.postgresql import PostgresqlServer
from twigcast.broker.model import QueuedDelivery
from twigcast.broker.store.store import Store, open_store

RESTARTS = max(2, int(os.environ.get("TWIGCAST_TEST_KILLS", "0")) // 5)
KILLS = int(os.environ.get("TWIGCAST_TEST_KILLS", "10"))
"""How often the broker is killed; a fifth as often where it overflows, too."""
ROOT = Path(__file__).parents[3]
STRIDE = 100_000
"""Numbers of messages for each life of the broker."""


@dataclass
class Told:
    """What the processes have told."""

    accepted: dict[int, int] = field(default_factory=dict)
    """Sequence number by number of the message."""
    got: dict[str, list[tuple[int, bool]]] = field(default_factory=lambda: {key: [] for key in QUERIES})
    """What each listener got, and whether it was marked."""

    def read(self, text: str) -> None:
        for line in text.splitlines():
            kind, *words = line.split()
            if kind == "accepted":
                self.accepted[int(words[0])] = int(words[1])
            elif kind == "got":
                self.got[words[0]].append((int(words[1]), words[2] == "1"))


def live_and_die(
    address: str,
    first: int,
    seconds: float,
    disturb: Callable[[], None] | None = None,
    *,
    working: bool = False,
    pending_max: int = 1_000_000,
) -> str:
    """Run a broker under load, perhaps with something done half-way, and kill it; what it said.

    The time runs from its start, or, with ``working``, from the first message that it has accepted.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.broker.hub.killed", address, str(first), str(pending_max)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        ready, _, _ = select.select([process.stdout], [], [], 120)
        assert ready, "it did not start"
        said = os.read(process.stdout.fileno(), 1 << 16)
        if disturb is not None:
            disturbance = threading.Timer(seconds / 2, disturb)
            disturbance.start()
        deadline = time.monotonic() + (60 if working else seconds)
        while (left := deadline - time.monotonic()) > 0:
            if working and b"accepted" in said:
                working, left = False, seconds
                deadline = time.monotonic() + seconds
            if select.select([process.stdout], [], [], left)[0]:
                some = os.read(process.stdout.fileno(), 1 << 20)
                assert some, process.stderr.read().decode()
                said += some
        if disturb is not None:
            disturbance.join()
    finally:
        process.kill()
    rest, errors = process.communicate(timeout=30)
    said += rest
    assert said.startswith(b"started\n"), (said[:500], errors.decode())
    # What the kill cut off was not told.
    return said[: said.rfind(b"\n") + 1].decode()


async def subscribe_all(address: str) -> None:
    store = open_store(address)
    async with running(store) as broker:
        for key, query in QUERIES.items():
            await subscribe(broker, key, query)
        await subscribe(broker, "costly", COSTLY)
    store.close()


async def what_is_left(address: str) -> dict[str, list[QueuedDelivery]]:
    store = await reopened(address)
    left: dict[str, list[QueuedDelivery]] = {}
    async with running(store) as broker:
        for key in QUERIES:
            queue = store.queue(TENANT, key)
            assert queue is not None
            left[key] = []
            while True:
                some = await broker.pull(queue.id, limit=500, wait=0.2, visibility=60)
                left[key] += some
                await broker.acknowledge(queue.id, [delivery.id for delivery in some])
                if not some and not misses_something(store, key):
                    break
    store.close()
    return left


def misses_something(store: Store, key: str) -> bool:
    """Whether a subscription is to get more of what is stored, since it was suspended or is behind."""
    subscription = store.subscription(TENANT, key)
    assert subscription is not None
    return subscription.missed_from is not None or subscription.replay_next is not None


@pytest.mark.slow
@pytest.mark.parametrize("pending_max", [1_000_000, 60], ids=["", "overflowing"])
def test_what_is_accepted_is_delivered_whenever_the_broker_is_killed(store_address: str, pending_max: int) -> None:
    seed = printed_seed()
    source = random.Random(seed)
    reported = Told()
    run(subscribe_all(store_address))
    for life in range(KILLS if pending_max > STRIDE else max(5, KILLS // 5)):
        # Some die before they have done anything, on a slow machine; every other one has.
        working = life % 2 == 0
        before = len(reported.accepted)
        seconds = source.uniform(0.05, 0.8)
        first = (life + 1) * STRIDE
        reported.read(live_and_die(store_address, first, seconds, working=working, pending_max=pending_max))
        assert len(reported.accepted) > before or not working
        run(wait_for_release(store_address))
    left = run(what_is_left(store_address), 300)
    check(reported, left)


def test_what_is_accepted_is_delivered_although_postgresql_restarts_beneath(
    postgresql_server: PostgresqlServer,
) -> None:
    database = postgresql_server.new_database()
    address = postgresql_server.url(database)
    reported = Told()
    run(subscribe_all(address))
    for life in range(RESTARTS):
        mode: Literal["fast", "immediate"] = "fast" if life % 2 else "immediate"
        before = len(reported.accepted)
        restart = partial(postgresql_server.restart, mode)
        reported.read(live_and_die(address, (life + 1) * STRIDE, 4.0, restart))
        assert len(reported.accepted) > before
        run(wait_for_release(address))
    left = run(what_is_left(address), 300)
    check(reported, left)
    postgresql_server.drop(database)


async def wait_for_release(address: str) -> None:
    (await reopened(address)).close()


def check(reported: Told, left: dict[str, list[QueuedDelivery]]) -> None:
    due = {
        "all": set(reported.accepted.values()),
        "even": {seq for number, seq in reported.accepted.items() if number % 2 == 0},
        "third": {seq for number, seq in reported.accepted.items() if number % 3 == 0},
    }
    for key in QUERIES:
        all_got = reported.got[key] + [(delivery.id.seq, delivery.redelivered) for delivery in left[key]]
        missing = due[key] - {seq for seq, _ in all_got}
        assert not missing, (key, sorted(missing)[:10])
        highest = 0
        seen: set[int] = set()
        for seq, marked in all_got:
            # In order, but for what is begun again after a kill, and that is marked.
            assert marked or seq > highest, (key, seq, highest)
            assert marked or seq not in seen
            seen.add(seq)
            highest = max(highest, seq)
        for delivery in left["third"]:
            number = delivery.message.message_id.removeprefix("m")
            assert delivery.body == f"<t><x>{number}</x></t>".encode()


@pytest.mark.parametrize("backwards", [False, True])
def test_the_check_itself_finds_loss_and_disorder(backwards: bool) -> None:
    reported = Told(accepted={1: 1, 2: 2, 3: 3})
    reported.got["all"] = [(2, False), (1, False), (3, False)] if backwards else [(1, False), (3, False)]
    reported.got["even"], reported.got["third"] = [(2, False)], [(3, False)]
    with pytest.raises(AssertionError):
        check(reported, {key: [] for key in QUERIES})
    reported.got["all"] = [(1, False), (2, False), (1, True), (2, True), (3, False)]
    check(reported, {key: [] for key in QUERIES})
