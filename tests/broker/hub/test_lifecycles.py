"""Life cycles in the hub against the model that the library is tested against: changes, restarts, kills."""

from __future__ import annotations

import json
import os
import random
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.broker.hub.hubs import TENANT, drain, publish, run, running, subscribe
from tests.broker.hub.killed_lifecycles import LENGTH, PUBLISHERS
from tests.broker.hub.test_kill import wait_for_release
from tests.lifecycle.model import AREAS, PROFILE, Made, Model, history
from tests.seeds import printed_seed
from twigcast.broker.broker import Broker
from twigcast.broker.hub.retention import RetentionClock
from twigcast.broker.model import QueuedDelivery, QueuePosition, Source, StoredSubscription, SubscriptionState
from twigcast.broker.store.store import Store, open_store

ROOT = Path(__file__).parents[3]
KILLS = max(3, int(os.environ.get("TWIGCAST_TEST_KILLS", "10")) // 2)


async def register(broker: Broker, **more: object) -> None:
    source = Source(0, TENANT, "made", "push", profile=json.dumps({**PROFILE, **more}))
    await broker.change(lambda transaction: transaction.put_source(source))
    await broker.sources_changed()


def query(area: str) -> str:
    return f"//area = '{area}'"


def told(store: Store, seq: int, number_of: Mapping[str, str]) -> dict[str, str]:
    """What a message was to those who got it."""
    rows = store.relations(TENANT, [seq], 1_000)
    return {number_of[key]: "" if relation is None else relation.value for _, key, relation in rows}


def waiting(store: Store, subscriptions: Sequence[StoredSubscription]) -> set[tuple[str, int]]:
    """What waits, by number of the subscription and message."""
    results: set[tuple[str, int]] = set()
    for one in subscriptions:
        position: QueuePosition | None = None
        while some := store.pending(one.queue_id, after=position, limit=500, bytes_max=1 << 24):
            results |= {(str(one.id), delivery.id.seq) for delivery in some}
            position = QueuePosition(some[-1].id.seq, some[-1].id.subscription_id)
    return results


async def run_history(address: str, seed: int, count: int) -> int:
    """Publishes a history while subscriptions come, change and go, with restarts; compares with the model."""
    random_ = random.Random(seed)
    messages = history(random_, count, expiring=False)
    model, areas, follows = Model(), {}, {}
    living: dict[str, StoredSubscription] = {}
    numbers: dict[str, str] = {}
    deliveries = 0
    store = open_store(address)
    for start in range(0, count, 25):
        async with running(store) as broker:
            await register(broker)
            for message in messages[start : start + 25]:
                key = f"k{random_.randrange(6)}"
                chosen = random_.random()
                if key not in living and chosen < 0.7:
                    area, follow = random_.choice(AREAS), random_.random() < 0.7
                    living[key] = await subscribe(broker, key, query(area), follow=None if follow else False)
                    numbers[key] = str(living[key].id)
                    areas[numbers[key]], follows[numbers[key]] = area, follow
                elif key in living and chosen < 0.15:
                    await broker.unsubscribe(living.pop(key))
                    del areas[numbers[key]]
                elif key in living and chosen < 0.3:
                    areas[numbers[key]] = random_.choice(AREAS)
                    one = living[key]
                    living[key] = await broker.replace(
                        one,
                        query=query(areas[numbers[key]]),
                        namespaces={},
                        dialect="xpath",
                        delivery=one.delivery,
                        follow=one.follow,
                    )
                (accepted,) = await publish(broker, message.xml, source="made")
                expected = model.enter(message, areas, follows, 0, accepted.seq)
                assert told(store, accepted.seq, numbers) == expected, f"message {accepted.seq} of seed {seed}"
                assert accepted.matches == len(expected)
                deliveries += len(expected)
    alive = {numbers[key] for key in living}
    assert waiting(store, list(living.values())) == {one for one in model.waiting if one[0] in alive}
    store.close()
    return deliveries


def test_the_broker_does_what_the_model_does(tmp_path: Path) -> None:
    assert run(run_history(str(tmp_path / "store"), printed_seed(), 75)) > 0


@pytest.mark.slow
def test_the_broker_does_what_the_model_does_on_each_store(store_address: str) -> None:
    assert run(run_history(store_address, printed_seed(), 300), 300) > 100


async def _subscribe_all(address: str, follows: Mapping[str, bool]) -> dict[str, StoredSubscription]:
    store = open_store(address)
    async with running(store) as broker:
        await register(broker)
        made = {
            area: await subscribe(broker, area, query(area), follow=None if follows[area] else False) for area in AREAS
        }
    store.close()
    return made


def live_and_die(
    address: str, seed: int, first: int, seconds: float, program: str = "tests.broker.hub.killed_lifecycles"
) -> set[int]:
    """Runs a broker from a message on and kills it; returns the numbers of the messages that it has accepted."""
    command = [sys.executable, "-m", program, address, str(seed), str(first)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT}"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    said, deadline = b"", time.monotonic() + 60
    working = True
    try:
        while (left := deadline - time.monotonic()) > 0 and b"done" not in said:
            if working and b"accepted" in said:
                working, deadline = False, time.monotonic() + seconds
                continue
            if select.select([process.stdout], [], [], left)[0]:
                some = os.read(process.stdout.fileno(), 1 << 20)
                assert some, process.communicate()[1].decode()
                said += some
    finally:
        process.kill()
    said += process.communicate(timeout=30)[0]
    lines = said[: said.rfind(b"\n") + 1].decode().splitlines()
    return {int(line.split()[1]) for line in lines if line.startswith("accepted")}


@pytest.mark.slow
def test_life_cycles_are_exact_whenever_the_broker_is_killed(store_address: str) -> None:
    seed = printed_seed()
    random_ = random.Random(seed)
    follows = {area: random_.random() < 0.7 for area in AREAS}
    subscriptions = run(_subscribe_all(store_address, follows))
    accepted: set[int] = set()
    first = 0
    for _ in range(KILLS):
        accepted |= live_and_die(store_address, seed, first, random_.uniform(0.05, 0.6))
        run(wait_for_release(store_address))
        while first in accepted:
            first += 1
        # The publishers go on behind the first message that may not be stored; ids keep the others from being twice.
        first = max(0, first - PUBLISHERS)
        if len(accepted) == LENGTH:
            break
    _compare(store_address, history(random.Random(seed), LENGTH, expiring=False), subscriptions, follows, accepted)


def _compare(
    address: str,
    messages: Sequence[Made],
    subscriptions: Mapping[str, StoredSubscription],
    follows: Mapping[str, bool],
    accepted: set[int],
) -> None:
    """Compares what is stored with what the model says of the stored messages, in their order."""
    store = open_store(address)
    numbers = {key: str(one.id) for key, one in subscriptions.items()}
    areas = {numbers[key]: key for key in AREAS}
    by_number = {numbers[key]: follow for key, follow in follows.items()}
    model, last, stored = Model(), 0, set()
    while some := store.messages(TENANT, after=last, limit=500):
        for one in some:
            number = int(one.message_id[1:])
            assert number not in stored, "no message is stored twice"
            stored.add(number)
            expected = model.enter(messages[number], areas, by_number, 0, one.seq)
            assert told(store, one.seq, numbers) == expected, f"message {one.seq}, number {number}"
        last = some[-1].seq
    assert accepted <= stored
    assert waiting(store, list(subscriptions.values())) == model.waiting
    store.close()


def test_what_has_expired_is_withdrawn_by_the_time(tmp_path: Path) -> None:
    async def work() -> None:
        store = open_store(str(tmp_path / "store"))
        async with running(store) as broker:
            await register(broker, withdraw_expired=True)
            one = await subscribe(broker, "one", query("A"))
            soon = int(time.time()) + 3_600
            xml = Made("x", 1, "new", (), "A", None).xml
            await publish(broker, xml.replace(" kind=", f' expires="{moment(soon)}" kind='), source="made")
            (leased,) = await broker.pull(one.queue_id, limit=1, wait=0, visibility=600)
            await broker._lifecycles.once()
            assert store.pending_count(one.queue_id) == 1
            wall, seconds = [time.time()], [0.0]
            broker._lifecycles.clock = RetentionClock(None, lambda: wall[0], lambda: seconds[0])
            await broker._lifecycles.once()
            # A clock that jumps ends nothing, until it is right or confirmed.
            wall[0] = soon + 86_400
            await broker._lifecycles.once()
            assert store.pending_count(one.queue_id) == 1
            await broker.change(lambda transaction: transaction.confirm_clock(wall[0]))
            await broker._lifecycles.once()
            assert store.pending_count(one.queue_id) == 0
            assert broker.metrics.expired_withdrawn == 1
            # What was leased does not hold up what comes later.
            await publish(broker, Made("y", 1, "new", (), "A", None).xml, source="made")
            assert [delivery.relation for delivery in await drain(broker, one.queue_id)] == ["entered"]
            assert leased.relation == "entered"
        store.close()

    run(work())


def moment(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def test_nothing_is_left_of_an_erased_tenant_and_sources_without_a_profile_deliver_as_usual(tmp_path: Path) -> None:
    async def work() -> None:
        store = open_store(str(tmp_path / "store"))
        async with running(store) as broker:
            await register(broker)
            one = await subscribe(broker, "one", query("A"))
            made = Made("x", 1, "new", (), "A", None).xml
            await publish(broker, made, source="made")
            source = store.source(TENANT, "made")
            assert source is not None
            await broker.change(lambda transaction: transaction.delete_source(source.id))
            await broker.sources_changed()
            (again,) = await publish(broker, made, source="made")
            assert (again.effect, again.matches) == (None, 1)
            assert [delivery.relation for delivery in await drain(broker, one.queue_id)] == ["entered", None]
            await broker.unsubscribe(one)
            while await broker.change(lambda transaction: transaction.erase_some(TENANT, 100, at=0.0)):
                pass
        assert [store.one(f"SELECT COUNT(*) FROM {table}")[0] for table in ("chains", "chain_names", "owed")] == [0] * 3
        store.close()

    run(work())


def test_old_matters_are_forgotten(tmp_path: Path) -> None:
    async def work() -> None:
        store = open_store(str(tmp_path / "store"))
        async with running(store, lifecycle_seconds=1e-9) as broker:
            await register(broker)
            await subscribe(broker, "one", query("A"))
            await publish(broker, Made("x", 1, "new", (), "A", None).xml, source="made")
            await broker._lifecycles.once()
            assert broker.metrics.chains_forgotten == 1
            (again,) = await publish(broker, Made("x", 1, "new", (), "A", None).xml, source="made")
            assert again.effect == "first"
        store.close()

    run(work())


def test_what_a_suspended_subscription_follows_comes_with_what_it_missed(tmp_path: Path) -> None:
    async def work() -> None:
        store = open_store(str(tmp_path / "store"))
        async with running(store, pending_max=10) as broker:
            await register(broker)
            one = await subscribe(broker, "one", query("A"))
            await publish(broker, Made("x", 1, "new", (), "A", None).xml, source="made")
            await publish(broker, *[f"<m><area>A</area><n>{n}</n></m>" for n in range(20)])
            stored = store.subscription(TENANT, "one")
            assert stored is not None
            assert stored.state is SubscriptionState.SUSPENDED
            await publish(broker, Made("c", 1, "update", ("x",), "B", None).xml, source="made")
            got: list[QueuedDelivery] = []
            while not any(delivery.relation == "left" for delivery in got):
                some = await broker.pull(one.queue_id, limit=100, wait=20, visibility=60)
                await broker.acknowledge(one.queue_id, [delivery.id for delivery in some])
                got += some
            assert [delivery.id.seq for delivery in got] == sorted({delivery.id.seq for delivery in got})
            assert len(got) == 22
        store.close()

    run(work())
