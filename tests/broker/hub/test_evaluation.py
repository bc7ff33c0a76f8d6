"""Evaluation apart from the writing thread: order, what counts when, and tenants that do not wait for each other."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.broker.hub.hubs import TENANT, drain, publish, publish_any, run, running, subscribe
from tests.seeds import printed_seed
from twigcast._core import yielded_seconds
from twigcast.broker.broker import Broker
from twigcast.broker.errors import IdReused, Stopping, TooMany
from twigcast.broker.hub import sequencer
from twigcast.broker.hub.population import Evaluation, RegisteredSubscription, TenantPopulation
from twigcast.broker.hub.tenant_threads import LONG_SECONDS, TenantThreads
from twigcast.broker.model import Accepted, StoredSubscription, Submission, SubscriptionState
from twigcast.broker.store.store import Store
from twigcast.limits import Limits


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
        self: TenantPopulation, bodies: Sequence[bytes], sources: Sequence[str], received: float, **more: Any
    ) -> list[Evaluation]:
        for body in bodies:
            if body in held:
                held.waiting.add(body)
                assert held[body].wait(30)
        return evaluate(self, bodies, sources, received, **more)

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


def test_a_repeated_message_is_not_evaluated_and_one_that_only_seemed_so_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequencer, "LOOKED_UP_SECONDS", 0.0)
    evaluated: list[bytes] = []
    evaluate = TenantPopulation.evaluate

    def counted(
        self: TenantPopulation, bodies: Sequence[bytes], sources: Sequence[str], received: float, **more: Any
    ) -> list[Evaluation]:
        evaluated.extend(bodies)
        return evaluate(self, bodies, sources, received, **more)

    monkeypatch.setattr(TenantPopulation, "evaluate", counted)

    async def play() -> None:
        async with running(store) as broker:
            await subscribe(broker, "k", "/a")
            (first,) = await publish(broker, "<a/>", message_id="m")
            (again,) = await publish(broker, "<a/>", message_id="m")
            assert again == replace(first, duplicate=True)
            (reused,) = await publish_any(broker, Submission(TENANT, b"<a>2</a>", message_id="m"))
            assert isinstance(reused, IdReused)
            assert evaluated == [b"<a/>"]
            # As if the message of this id had expired after it was looked up.
            broker._sequencer._accepted_before = lambda asked: {
                (s.tenant_id, s.source, s.message_id or "") for s in asked
            }
            (new,) = await publish(broker, "<a>3</a>", message_id="n")
            assert (new.matches, new.duplicate) == (1, False)
            assert evaluated == [b"<a/>", b"<a>3</a>"]

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
        self: TenantPopulation, bodies: Sequence[bytes], sources: Sequence[str], received: float, **more: Any
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
    lock, running, peak = threading.Lock(), 0, 0

    def long(tenant: int) -> bool:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        burn()
        with lock:
            running -= 1
        long_done.append(tenant)
        return not over.is_set()

    for tenant in (1, 2, 3):
        threads.submit(tenant, lambda t=tenant: long(t))  # type: ignore[misc]
    while set(long_done) != {1, 2, 3} or running > 1:
        time.sleep(0.001)
    with lock:
        peak = 0
    for _ in range(10):
        came = threading.Event()
        threads.submit(9, lambda came=came: bool(came.set()))  # type: ignore[misc]
        assert came.wait(10)
    while len(long_done) < 10:
        time.sleep(0.001)
    over.set()
    threads.stop()
    assert peak == 1
    # Those that take long have their turns, too.
    assert {long_done.count(tenant) for tenant in (1, 2, 3)} != {1}


def burn() -> None:
    until = time.thread_time() + 2 * LONG_SECONDS
    while time.thread_time() < until:
        pass


def test_long_steps_have_threads_that_yield_and_cheap_ones_between_them_do_not_change_that() -> None:
    threads = TenantThreads(2, "tests")
    where: dict[int, list[bool]] = {1: [], 2: []}
    over = threading.Semaphore(0)

    def step(tenant: int, is_long: bool) -> bool:
        where[tenant].append(threads.is_yielding)
        if is_long:
            burn()
        over.release()
        return False

    for is_long in (True, False, True, False):
        threads.submit(1, partial(step, 1, is_long))
        threads.submit(2, partial(step, 2, False))
        for _ in range(2):
            assert over.acquire(timeout=10)
        # A step is over a moment before its tenant is known as one with long steps.
        while threads._running:
            pass
    threads.stop()
    assert where == {1: [False, True, True, True], 2: [False] * 4}


def test_what_counts_of_a_step_is_what_it_says() -> None:
    threads = TenantThreads(2, "tests")
    where: dict[int, list[bool]] = {1: [], 2: []}
    over = threading.Semaphore(0)

    def step(tenant: int, counted: float) -> bool:
        where[tenant].append(threads.is_yielding)
        burn()
        threads.count(counted)
        over.release()
        return False

    for _ in range(3):
        threads.submit(1, partial(step, 1, 0.0))
        threads.submit(2, partial(step, 2, 2 * LONG_SECONDS))
        for _ in range(2):
            assert over.acquire(timeout=10)
        while threads._running:
            pass
    threads.stop()
    assert where == {1: [False] * 3, 2: [False, True, True]}


def costly() -> tuple[TenantPopulation, bytes]:
    """Returns a population and a message that take some milliseconds."""
    population = TenantPopulation(Limits())
    queries = [f"//a[following-sibling::a[position() mod {n + 3} = 0]/@none]" for n in range(20)]
    members = [
        RegisteredSubscription(n + 1, 1, 1, f"k{n}", query, {}, "xpath", False) for n, query in enumerate(queries)
    ]
    assert population.add(members) == []
    return population, b"<r>" + b"<a/>" * 2_000 + b"</r>"


def test_what_yields_has_the_same_answer_and_its_time_is_known() -> None:
    population, message = costly()
    body = [message, b"<r><a/><a none='1'/></r>", b"<r>"]
    before = yielded_seconds()
    (_, small, malformed) = population.evaluate(body, ["s"] * 3, 1.0, yields=True)
    assert (small.numbers, malformed.error is None) == (population.evaluate(body, ["s"] * 3, 1.0)[1].numbers, False)
    if sys.platform == "linux":
        assert yielded_seconds() > before
        # Its time counts as that of the thread that asked, but not of others.
        others: list[float] = []
        thread = threading.Thread(target=lambda: others.append(yielded_seconds()))
        thread.start()
        thread.join()
        assert others == [0.0]


@pytest.mark.skipif(sys.platform != "linux", reason="threads have a niceness of their own on Linux only")
def test_a_thread_that_yields_has_a_higher_niceness_and_the_one_that_asks_has_not() -> None:
    population, message = costly()
    over = threading.Event()
    niceness: set[tuple[bool, int]] = set()

    def look() -> None:
        while not over.is_set():
            for task in Path("/proc/self/task").iterdir():
                try:
                    name, number = (task / "comm").read_text().strip(), int(task.name)
                    niceness.add((name == "twigcast-yields", os.getpriority(os.PRIO_PROCESS, number)))
                except OSError:
                    continue

    thread = threading.Thread(target=look)
    thread.start()
    until = time.monotonic() + 10
    while len(niceness) < 2 and time.monotonic() < until:
        population.evaluate([message], ["s"], 1.0, yields=True)
    over.set()
    thread.join()
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    # One that has just begun may have been seen before it had its niceness.
    assert {(False, mine), (True, mine + 5)} <= niceness <= {(False, mine), (True, mine + 5), (True, mine)}


def test_steps_that_are_long_are_all_done_when_the_threads_end() -> None:
    threads = TenantThreads(2, "tests")
    done: list[int] = []

    def step(number: int) -> bool:
        burn()
        done.append(number)
        return False

    for number in range(6):
        threads.submit(number % 2, partial(step, number))
    threads.stop()
    assert sorted(done) == list(range(6))


def test_the_result_of_work_is_passed_on_and_so_is_its_error() -> None:
    async def play() -> None:
        threads = TenantThreads(1, "tests")
        assert await threads.run(1, lambda: 5) == 5
        with pytest.raises(ZeroDivisionError):
            await threads.run(1, lambda: 1 // 0)
        await asyncio.to_thread(threads.stop)

    run(play())
