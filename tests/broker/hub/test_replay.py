"""Replay of the stored past: no gap and no double at the seam to what is live, also over restarts."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from tests.broker.hub.hubs import TENANT, drain, publish, pull_within, run, running, subscribe
from twigcast.broker.broker import Broker
from twigcast.broker.hub import replay as replaying
from twigcast.broker.model import DeliverySettings, QueuedDelivery, StoredSubscription, SubscriptionState
from twigcast.broker.store.store import Store


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaying, "CHUNK_MESSAGES", 7)


async def publish_numbers(broker: Broker, first: int, count: int) -> list[int]:
    """Messages with numbers; the sequence numbers of the even ones."""
    accepted = await publish(broker, *(f"<m n='{n}'/>" for n in range(first, first + count)))
    return [a.seq for n, a in enumerate(accepted, start=first) if n % 2 == 0]


async def replayed(broker: Broker) -> None:
    while broker.metrics.replays:
        await asyncio.sleep(0.002)


def test_the_past_comes_first_while_publishing_goes_on(store: Store) -> None:
    seed = 5
    source = random.Random(seed)

    async def play() -> None:
        async with running(store) as broker:
            requested = await publish_numbers(broker, 0, 200)
            first = requested[20]
            got: list[QueuedDelivery] = []

            async def go_on() -> list[int]:
                live: list[int] = []
                for round_ in range(25):
                    live += await publish_numbers(broker, 1_000 + 10 * round_, 10)
                    await asyncio.sleep(source.choice((0, 0.003)))
                return live

            publishing = asyncio.create_task(go_on())
            await asyncio.sleep(0)
            subscription = await subscribe(broker, "late", "/m[@n mod 2 = 0]", replay_from=first)

            async def listen() -> None:
                async for group in broker.read_queue(subscription.queue_id):
                    got.extend(group)

            listener = asyncio.create_task(listen())
            live = await publishing
            everything = [seq for seq in requested if seq >= first] + live
            while len(got) < len(everything):
                await asyncio.sleep(0.002)
            assert [d.id.seq for d in got] == everything, seed
            assert all(earlier.id < later.id for earlier, later in pairwise(got))
            await replayed(broker)
            assert store.pending_count(subscription.queue_id) == len(everything)
            listener.cancel()
            await asyncio.gather(listener, return_exceptions=True)

    run(play())


def test_a_replay_goes_on_after_restarts(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            requested = await publish_numbers(broker, 0, 300)
            subscription = await subscribe(broker, "late", "/m[@n mod 2 = 0]", replay_from=1)
        positions = []
        for round_ in range(4):
            async with running(store) as broker:
                requested += await publish_numbers(broker, 1_000 + round_ * 10, 10)
                await asyncio.sleep(0.02)
            result = store.subscription(TENANT, "late")
            assert result is not None
            positions.append(result.replay_next or 301)
        assert positions == sorted(positions)
        async with running(store) as broker:
            await replayed(broker)
            assert [d.id.seq for d in await drain(broker, subscription.queue_id)] == requested
            result = store.subscription(TENANT, "late")
            assert result is not None
            assert result.replay_next is None

    run(play())


def test_what_is_live_waits_until_the_past_is_through(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        async with running(store) as broker:
            await publish_numbers(broker, 0, 100)
            go_on = asyncio.Event()
            remaining = broker._replays._remaining

            async def wait(subscription: StoredSubscription) -> int:
                await go_on.wait()
                return await remaining(subscription)

            monkeypatch.setattr(broker._replays, "_remaining", wait)
            delayed = await subscribe(broker, "late", "/m", replay_from=1)
            (live,) = await publish(broker, "<m n='live'/>")
            assert live.matches == 1
            assert await broker.pull(delayed.queue_id, limit=5, wait=0.1, visibility=30) == []
            go_on.set()
            got = await broker.pull(delayed.queue_id, limit=5, wait=20, visibility=30)
            assert got[0].id.seq == 1
            await broker.release(delayed.queue_id, [d.id for d in got])
            await replayed(broker)
            assert [d.id.seq for d in await drain(broker, delayed.queue_id)] == [*range(1, 101), live.seq]

    run(play())


def test_pausing_stops_a_replay_and_resuming_goes_on(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            await publish_numbers(broker, 0, 400)
            delayed = await subscribe(broker, "late", "/m", replay_from=1)
            paused = await broker.set_state(delayed, SubscriptionState.PAUSED)
            await replayed(broker)
            where = store.subscription(TENANT, "late")
            assert where is not None
            assert where.replay_next is not None
            assert paused.state is SubscriptionState.PAUSED
            await publish(broker, "<m n='not for it'/>")
            for state in (SubscriptionState.ACTIVE, SubscriptionState.PAUSED, SubscriptionState.ACTIVE):
                await broker.set_state(delayed, state)
            (live,) = await publish(broker, "<m n='for it'/>")
            await replayed(broker)
            assert [d.id.seq for d in await drain(broker, delayed.queue_id)] == [*range(1, 401), live.seq]

    run(play())


def test_a_replaced_query_counts_for_the_rest_of_the_past(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            await publish_numbers(broker, 0, 400)
            delayed = await subscribe(broker, "late", "/m", replay_from=1)
            await broker.replace(
                delayed, query="/m[@n mod 2 = 0]", namespaces={}, dialect="xpath", delivery=DeliverySettings()
            )
            await replayed(broker)
            got = [d.id.seq for d in await drain(broker, delayed.queue_id)]
            # All up to some point, and every other one after it.
            steps = [b - a for a, b in pairwise(got)]
            assert steps == sorted(steps)
            assert set(steps) <= {1, 2}
            assert got[-1] == 399

    run(play())


def test_deleting_ends_a_replay(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            await publish_numbers(broker, 0, 400)
            delayed = await subscribe(broker, "late", "/m", replay_from=1)
            await broker.unsubscribe(delayed)
            await replayed(broker)
            assert not broker._queues.ceilings
            again = await subscribe(broker, "late", "/m[@n = 399]", replay_from=300)
            await replayed(broker)
            assert [d.id.seq for d in await drain(broker, again.queue_id)] == [400]

    run(play())


@pytest.mark.parametrize("limit", [1, 4, 60])
def test_replay_keeps_to_the_limit_of_the_tenant(store: Store, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is below the broker's, and what is live is still counted: nobody is suspended because of the past alone."""
    monkeypatch.setattr(replaying, "CHUNK_MESSAGES", 100)
    monkeypatch.setattr(replaying, "_FULL_SECONDS", 0.001)

    async def play() -> None:
        async with running(store) as broker:
            await broker.change(lambda transaction: transaction.set_tenant_limits(TENANT, {"pending_max": limit}))
            await broker.tenants_changed()
            await publish_numbers(broker, 0, 150)
            delayed = await subscribe(broker, "late", "/m", replay_from=1)
            got: list[int] = []
            while len(got) < 150:
                assert store.pending_count(delayed.queue_id) <= limit
                some = await broker.pull(delayed.queue_id, limit=20, wait=30, visibility=30)
                await broker.acknowledge(delayed.queue_id, [d.id for d in some])
                got += [d.id.seq for d in some]
            assert got == list(range(1, 151))
            await replayed(broker)
            (live,) = await publish(broker, "<m/>")
            assert [d.id.seq for d in await drain(broker, delayed.queue_id)] == [live.seq]

    run(play())


def test_replay_waits_for_a_lane_that_is_half_full(store: Store) -> None:
    async def play() -> None:
        async with running(store, pending_max=60) as broker:
            await publish_numbers(broker, 0, 300)
            delayed = await subscribe(broker, "late", "/m", replay_from=1)
            got = await pull_within(broker, delayed.queue_id, 300, 60)
            assert [d.id.seq for d in got] == list(range(1, 301))
            result = store.subscription(TENANT, "late")
            assert result is not None
            assert result.state is SubscriptionState.ACTIVE

    run(play())


TYPES = "<!DOCTYPE r [<!ATTLIST i k ID #IMPLIED><!ENTITY e 'E'>]>"


@pytest.mark.parametrize("declaration", ["", "<?xml version='1.0'?>\n"])
def test_ids_that_a_message_declared_are_ids_when_it_is_matched_again(store: Store, declaration: str) -> None:
    message = f"{declaration}{TYPES}<r><i k=' x '>&e;</i><j k='x'/></r>"
    handed_out = f"{declaration}<r><i k='x'>E</i><j k='x'/></r>".encode()
    queries = {"node": "id('x')", "value": "id('x')[. = 'E']", "none": "id('y')"}

    async def play() -> None:
        async with running(store) as broker:
            live = {key: await subscribe(broker, f"live {key}", query) for key, query in queries.items()}
            first, plain = await publish(broker, message, "<r><i k='x'>E</i></r>")
            late = {key: await subscribe(broker, f"late {key}", queries[key], replay_from=1) for key in queries}
            await replayed(broker)
            for key in queries:
                expected = [] if key == "none" else [(first.seq, handed_out)]
                for subscription in (live[key], late[key]):
                    got = await drain(broker, subscription.queue_id)
                    assert [(one.message.seq, one.body) for one in got] == expected, key
            await broker.seek(live["node"], plain.seq - 1)
            await replayed(broker)
            again = await drain(broker, live["node"].queue_id)
            assert [one.body for one in again] == [handed_out]
            stored = broker.store.message(TENANT, first.seq)
            assert stored is not None
            assert stored.xml == handed_out

    run(play())


def test_a_replay_asks_for_the_time_at_which_a_message_came(store: Store) -> None:
    async def play() -> None:
        async with running(store) as broker:
            soon = (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
            query = "/alert[expires > $now]"
            live = await subscribe(broker, "live", query)
            (accepted,) = await publish(broker, f"<alert><expires>{soon}</expires></alert>")
            await publish(broker, "<alert><expires>2020-01-01T00:00:00Z</expires></alert>")
            while datetime.now(UTC).isoformat() <= soon:
                await asyncio.sleep(0.02)
            await publish(broker, f"<alert><expires>{soon}</expires></alert>")
            late = await subscribe(broker, "late", query, replay_from=1)
            await replayed(broker)
            for subscription in (live, late):
                assert [d.id.seq for d in await drain(broker, subscription.queue_id)] == [accepted.seq]

    run(play())
