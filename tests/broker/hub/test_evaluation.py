"""Evaluation apart from the writing thread: order, what counts when, and tenants that do not wait for each other."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Sequence

import pytest

from tests.broker.hub.hubs import TENANT, drain, publish, run, running, subscribe
from tests.seeds import printed_seed
from twigcast.broker.broker import Broker
from twigcast.broker.errors import Stopping, TooMany
from twigcast.broker.hub.population import Evaluation, TenantPopulation
from twigcast.broker.hub.tenant_threads import LONG_SECONDS, TenantThreads
from twigcast.broker.model import Accepted, StoredSubscription, Submission, SubscriptionState
from twigcast.broker.store.store import Store


def another_tenant(store: Store, name: str = "other") -> int:
    with store.transaction() as transaction:
        return transaction.add_tenant(name, {}).id


class Held(dict[bytes, threading.Event]):
    """Messages whose evaluation waits until somebody sets an event."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: set[bytes] = set()


@pytest.fixture
def hold(monkeypatch: pytest.MonkeyPatch) -> Held:
    """The messages that wait."""
    held = Held()
    evaluate = TenantPopulation.evaluate

    def waiting(
        self: TenantPopulation, bodies: Sequence[bytes], sources: Sequence[str], received: float
    ) -> list[Evaluation]:
        for body in bodies:
            if body in held:
                held.waiting.add(body)
                assert held[body].wait(30)
        return evaluate(self, bodies, sources, received)

    monkeypatch.setattr(TenantPopulation, "evaluate", waiting)
    return held


async def until(condition: object) -> None:
    assert callable(condition)
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


def test_another_tenant_publishes_subscribes_and_acknowledges_beside_a_long_evaluation(
    store: Store, hold: Held
) -> None:
    other = another_tenant(store)
    hold[b"<long/>"] = threading.Event()

    async def play() -> None:
        async with running(store) as broker:
            await subscribe(broker, "hostile", "/long")
            held = asyncio.create_task(publish(broker, "<long/>"))
            mine = await subscribe(broker, "mine", "/a", tenant_id=other)
            for _ in range(20):
                (accepted,) = await publish(broker, "<a/>", tenant_id=other)
                assert accepted.matches == 1
            assert len(await drain(broker, mine.queue_id)) == 20
            assert not held.done()
            hold[b"<long/>"].set()
            assert (await held)[0].seq == 21

    run(play())


def test_messages_and_changes_of_a_tenant_keep_their_order(store: Store, hold: Held) -> None:
    hold[b"<a n='1'/>"] = threading.Event()

    async def play() -> None:
        async with running(store) as broker:
            first = await subscribe(broker, "first", "/a")
            calls = [
                asyncio.create_task(work)
                for work in (
                    publish(broker, "<a n='1'/>", source="one"),
                    publish(broker, "<a n='2'/>", source="two"),
                    subscribe(broker, "second", "/a"),
                    publish(broker, "<a n='3'/>"),
                    broker.unsubscribe(first),
                    publish(broker, "<a n='4'/>"),
                )
            ]
            await until(lambda: broker.metrics.queued_messages == 4)
            assert not any(call.done() for call in calls)
            hold[b"<a n='1'/>"].set()
            results = await asyncio.gather(*calls)
            published = [result[0] for result in results if isinstance(result, list)]
            assert [(p.seq, p.matches) for p in published] == [(1, 1), (2, 1), (3, 2), (4, 1)]

    run(play())


def test_what_is_suspended_while_a_message_is_evaluated_gets_it_once_by_replay(store: Store) -> None:
    async def play() -> None:
        async with running(store, pending_max=10) as broker:
            full = await subscribe(broker, "full", "/a")
            calls = [asyncio.create_task(publish(broker, f"<a n='{n}'/>")) for n in range(60)]
            await asyncio.gather(*calls)
            got: list[int] = []
            async with asyncio.timeout(30):
                while len(got) < 60:
                    some = await broker.pull(full.queue_id, limit=5, wait=1, visibility=60)
                    await broker.acknowledge(full.queue_id, [delivery.id for delivery in some])
                    got += [delivery.id.seq for delivery in some]
            assert got == list(range(1, 61))

    run(play())


def test_random_delays_of_evaluation_change_neither_order_nor_answers(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message that is published after a change was confirmed meets it; the rest is up to the order of the calls."""
    seed = printed_seed()
    chance = random.Random(seed)
    delays = random.Random(seed + 1)
    evaluate = TenantPopulation.evaluate

    def delayed(
        self: TenantPopulation, bodies: Sequence[bytes], sources: Sequence[str], received: float
    ) -> list[Evaluation]:
        before, after = (delays.choice([0.0, 0.0, 0.002]) for _ in range(2))
        time.sleep(before)
        results = evaluate(self, bodies, sources, received)
        time.sleep(after)
        return results

    monkeypatch.setattr(TenantPopulation, "evaluate", delayed)
    tenants = [TENANT, another_tenant(store), another_tenant(store, "third")]

    async def live(broker: Broker, tenant_id: int) -> None:
        there: dict[str, StoredSubscription] = {}
        due: dict[int, int] = {}
        calls: list[asyncio.Task[list[Accepted]]] = []
        number = 0
        for step in range(60):
            action = chance.random()
            if action < 0.15:
                key = f"k{step}"
                there[key] = await subscribe(broker, key, "/a", tenant_id=tenant_id)
            elif action < 0.25 and there:
                await broker.unsubscribe(there.pop(chance.choice(sorted(there))))
            elif action < 0.3 and there:
                key = chance.choice(sorted(there))
                await broker.set_state(there.pop(key), SubscriptionState.PAUSED)
            else:
                due[number] = len(there)
                body = f"<a n='{number}'/>"
                calls.append(asyncio.create_task(publish(broker, body, tenant_id=tenant_id, message_id=f"{number}")))
                number += 1
                # The call is made before the next step.
                await asyncio.sleep(0)
        results = [accepted for (accepted,) in await asyncio.gather(*calls)]
        assert [accepted.matches for accepted in results] == list(due.values())
        assert [accepted.seq for accepted in results] == sorted(accepted.seq for accepted in results)
        for subscription in there.values():
            seqs = [delivery.id.seq for delivery in await drain(broker, subscription.queue_id)]
            assert seqs == sorted(set(seqs))

    async def play() -> None:
        async with running(store, group_messages_max=5) as broker:
            await asyncio.gather(*(live(broker, tenant_id) for tenant_id in tenants))

    run(play())


def test_a_tenant_cannot_take_all_the_room_that_there_is_for_waiting(store: Store, hold: Held) -> None:
    other = another_tenant(store)
    hold[b"<long/>"] = threading.Event()

    async def play() -> None:
        async with running(store, queue_messages_max=20) as broker:
            calls = [asyncio.create_task(publish(broker, "<long/>")) for _ in range(20)]
            await until(lambda: sum(call.done() for call in calls) == 10)
            (accepted,) = await publish(broker, "<a/>", tenant_id=other)
            assert accepted.seq == 1
            hold[b"<long/>"].set()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert sum(isinstance(result, TooMany) for result in results) == 10

    run(play())


def test_a_stop_tells_the_publishers_of_what_is_not_evaluated(store: Store, hold: Held) -> None:
    hold[b"<long/>"] = threading.Event()

    async def play() -> None:
        async with running(store, evaluation_stop_seconds=0.05) as broker:
            long = asyncio.create_task(publish(broker, "<long/>"))
            await until(lambda: hold.waiting)
            behind = [asyncio.create_task(broker.publish([Submission(TENANT, b"<a/>")])) for _ in range(3)]
            await until(lambda: broker.metrics.queued_messages == 4)
            threading.Timer(0.3, hold[b"<long/>"].set).start()
        assert (await long)[0].seq == 1
        results = await asyncio.gather(*behind, return_exceptions=True)
        assert [type(result) for result in results] == [Stopping] * 3
        assert store.last_seq() == 1

    run(play())


# The threads


def test_steps_of_a_tenant_are_done_in_order_and_one_at_a_time() -> None:
    threads = TenantThreads(3, "tests")
    done: dict[int, list[int]] = {tenant: [] for tenant in range(4)}
    busy: set[int] = set()

    def step(tenant: int, number: int) -> bool:
        assert tenant not in busy
        busy.add(tenant)
        time.sleep(0.0005)
        done[tenant].append(number)
        busy.discard(tenant)
        return False

    for number in range(40):
        for tenant in done:
            threads.submit(tenant, lambda t=tenant, n=number: step(t, n))  # type: ignore[misc]
    threads.stop()
    assert done == {tenant: list(range(40)) for tenant in done}


def test_tenants_with_long_steps_leave_a_thread_to_the_others() -> None:
    threads = TenantThreads(2, "tests")
    over = threading.Event()
    long_done: list[int] = []

    def long(tenant: int) -> bool:
        until = time.thread_time() + 2 * LONG_SECONDS
        while time.thread_time() < until:
            pass
        long_done.append(tenant)
        return not over.is_set()

    for tenant in (1, 2, 3):
        threads.submit(tenant, lambda t=tenant: long(t))  # type: ignore[misc]
    while set(long_done) != {1, 2, 3}:
        time.sleep(0.001)
    waits: list[float] = []
    for _ in range(10):
        came = threading.Event()
        begun = time.perf_counter()
        threads.submit(9, lambda came=came: bool(came.set()))  # type: ignore[misc]
        assert came.wait(10)
        waits.append(time.perf_counter() - begun)
    over.set()
    threads.stop()
    assert sorted(waits)[len(waits) // 2] < LONG_SECONDS
    # Those that take long have their turns, too.
    assert {long_done.count(tenant) for tenant in (1, 2, 3)} != {1}


def test_the_result_of_work_is_passed_on_and_so_is_its_error() -> None:
    async def play() -> None:
        threads = TenantThreads(1, "tests")
        assert await threads.run(1, lambda: 5) == 5
        with pytest.raises(ZeroDivisionError):
            await threads.run(1, lambda: 1 // 0)
        await asyncio.to_thread(threads.stop)

    run(play())
