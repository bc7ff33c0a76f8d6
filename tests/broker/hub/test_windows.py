"""Windows in the hub against the model that the library is tested against: restarts, replays, overflow, kills."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import twigcast
from tests.broker.hub.hubs import TENANT, publish, run, running, subscribe
from tests.broker.hub.test_kill import wait_for_release
from tests.broker.hub.test_lifecycles import live_and_die
from tests.seeds import printed_seed
from tests.windows.histories import QUERY, History, history, message
from tests.windows.model import Told, told
from twigcast.broker.broker import Broker
from twigcast.broker.hub import evaluation, windows
from twigcast.broker.hub.windows import WindowUpkeep
from twigcast.broker.model import ClockState, QueuedDelivery, QueuePosition, StoredSubscription, SubscriptionState
from twigcast.broker.store.store import Store, Transaction, open_store
from twigcast.windows.declarations import read_window
from twigcast.windows.windows import WindowDelivery

KINDS = ["at_least", "sequence", "absence", "changed", "throttle", "digest"]


KILLS = max(3, int(os.environ.get("TWIGCAST_TEST_KILLS", "10")) // 2)

WINDOWS: dict[str, dict[str, object]] = {
    "three": {"at_least": 3, "within": 0.05, "by": "/m/@key"},
    "pair": {"sequence": "/m[@second]", "within": 0.05, "by": "/m/@key"},
    "silence": {"absence": 0.2, "by": "/m/@key"},
    "change": {"changed": "/m/@value", "by": "/m/@key"},
    "one": {"throttle": 0.1},
    "all": {"digest": 0.25},
}


class SetClock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def time(self) -> float:
        return self.seconds

    def state(self) -> ClockState:
        return ClockState(self.seconds, self.seconds, is_confirmed=True)

    def even_now(self, _: Transaction) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    made = SetClock()
    monkeypatch.setattr(evaluation, "time", made)
    # By the real clock all is due.
    monkeypatch.setattr(windows, "DUE_SECONDS", 1e9)
    return made


async def tell_due(broker: Broker, clock: Any) -> None:
    """What is due by the clock of the test."""
    await WindowUpkeep(broker._tenants_due, broker._do, clock).once()


def waiting(store: Store, subscription: StoredSubscription) -> list[QueuedDelivery]:
    """All deliveries that wait for a subscription, in order."""
    results: list[QueuedDelivery] = []
    position: QueuePosition | None = None
    while some := store.pending(subscription.queue_id, after=position, limit=500, bytes_max=1 << 24):
        results += some
        position = QueuePosition(some[-1].id.seq, some[-1].id.subscription_id)
    return results


def by_key(store: Store, subscription: StoredSubscription, names: dict[int, str]) -> dict[str, list[tuple[str, ...]]]:
    """Of which messages a subscription is told, by key."""
    results: dict[str, list[tuple[str, ...]]] = {}
    for one in waiting(store, subscription):
        assert one.window_note is not None
        about = json.loads(one.window_note)
        results.setdefault(about["key"], []).append(tuple(names[seq] for seq in about["messages"]))
    return results


def expected(played: History) -> dict[str, list[tuple[str, ...]]]:
    """What the model says; two pairs that a message completes at once are one delivery."""
    results: dict[str, list[tuple[str, ...]]] = {}
    for key in played.keys:
        found: Told = told(played.window, played.of_key(key), played.until)
        some: list[tuple[str, ...]] = []
        for position, (what, at, names) in enumerate(found.all):
            before = found.all[position - 1] if position else None
            if what == "deliver" and before is not None and before[1] == at and _both(played, before[2], names):
                some[-1] = tuple(dict.fromkeys(some[-1] + names))
            else:
                some.append(names)
        if some:
            results[key] = some
    return results


def _both(played: History, first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Whether both pairs are told with the same message: the one that came last."""
    if played.window.kind != "sequence":
        return False
    order = [event.name for _, event in played.events]
    return max(first, key=order.index) == max(second, key=order.index)


def usable(seed: int, kind: str) -> Iterator[History]:
    """Histories whose silences do not count from the subscription's beginning, which is by the real clock."""
    while True:
        played = history(seed, kind)
        if kind != "absence" or played.has_key:
            yield played
        seed += 1


async def play(address: str, seed: int, kind: str, clock: SetClock) -> int:
    """Plays a history with restarts; then another subscription gets all of it by replay."""
    random_, played = random.Random(seed), next(usable(seed, kind))
    store, names, window = open_store(address), {}, read_window(played.when)
    clock.seconds = 90.0
    async with running(store) as broker:
        live = await subscribe(broker, f"live {seed}", QUERY, window=window)
    position, events = 0, list(played.events)
    while position < len(events):
        count = random_.randrange(1, 12)
        async with running(store) as broker:
            for key, event in events[position : position + count]:
                if random_.random() < 0.3 and clock.seconds < event.arrived:
                    clock.seconds = float(random_.randrange(int(clock.seconds), event.arrived + 1))
                    await tell_due(broker, clock)
                clock.seconds = float(event.arrived)
                (accepted,) = await publish(broker, message(key, event, has_time=played.has_time))
                names[accepted.seq] = event.name
        position += count
    async with running(store) as broker:
        clock.seconds = float(played.until)
        await tell_due(broker, clock)
        assert by_key(store, live, names) == expected(played), (seed, played)
        first = min(names)
        replayed = await subscribe(broker, f"replayed {seed}", QUERY, window=window, replay_from=first)
        while (current := store.subscription(TENANT, replayed.key)) is None or current.replay_next is not None:
            await broker.change(lambda transaction: None)
        await tell_due(broker, clock)
        assert by_key(store, replayed, names) == expected(played), (seed, "by replay", played)
        await broker.unsubscribe(live)
        await broker.unsubscribe(replayed)
        assert store.rows("SELECT * FROM window_states") == store.rows("SELECT * FROM kept_messages") == []
    store.close()
    return len(names)


@pytest.mark.parametrize("kind", KINDS)
def test_the_broker_tells_what_the_model_says(kind: str, tmp_path: Path, clock: SetClock) -> None:
    seed = printed_seed()
    for number in range(3):
        run(play(str(tmp_path / f"store{number}"), seed + number, kind, clock))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_broker_tells_it_on_each_store(kind: str, store_address: str, clock: SetClock) -> None:
    seed = printed_seed()
    for number in range(20):
        run(play(store_address, seed + number, kind, clock))


def library_of(
    declared: dict[str, dict[str, object]], messages: list[tuple[int, bytes, float]], until: float
) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """What the library tells of stored messages: by subscription, the key and the messages, in order."""
    subscriptions = twigcast.SubscriptionSet()
    subscriptions.add_many([(key, QUERY) for key in declared])
    made = twigcast.Windows(subscriptions, declared)
    told_by_key: dict[str, list[tuple[str, tuple[int, ...]]]] = {key: [] for key in declared}

    def note(deliveries: list[WindowDelivery]) -> None:
        for one in deliveries:
            some, seqs = told_by_key[one.key], tuple(map(int, one.stands_for))
            if one.key == "pair" and some and some[-1][0] == one.window_key and max(some[-1][1]) == max(seqs):
                some[-1] = one.window_key, tuple(dict.fromkeys(some[-1][1] + seqs))
            else:
                some.append((one.window_key, seqs))

    for seq, xml, received in messages:
        published = datetime.fromtimestamp(received, UTC)
        note(made.deliver(xml, message_id=str(seq), published=published).deliveries)
    note(made.due(datetime.fromtimestamp(until, UTC)))
    return told_by_key


def stored_messages(store: Store) -> list[tuple[int, bytes, float]]:
    """All messages that publishers have sent."""
    results: list[tuple[int, bytes, float]] = []
    while some := store.messages(TENANT, after=results[-1][0] if results else 0, limit=500):
        results += [(one.seq, one.xml, one.received) for one in some]
    return results


def told_in(store: Store, subscriptions: dict[str, StoredSubscription]) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    """What waits for each subscription: the key and the messages, in order."""
    results = {}
    for key, one in subscriptions.items():
        about = [json.loads(delivery.window_note or "") for delivery in waiting(store, one)]
        results[key] = [(some["key"], tuple(some["messages"])) for some in about]
    return results


@pytest.mark.slow
def test_windows_are_exact_whenever_the_broker_is_killed(store_address: str) -> None:
    async def begin() -> dict[str, StoredSubscription]:
        store = open_store(store_address)
        async with running(store) as broker:
            made = {key: await subscribe(broker, key, QUERY, window=read_window(when)) for key, when in WINDOWS.items()}
        store.close()
        return made

    async def end() -> float:
        store = open_store(store_address)
        async with running(store) as broker:
            until = time.time()
            await asyncio.sleep(2.5)
            assert broker.readiness() is None
        store.close()
        return until

    seed = printed_seed()
    random_ = random.Random(seed)
    subscriptions, first = run(begin()), 0
    for _ in range(KILLS):
        accepted = live_and_die(
            store_address, seed, first, random_.uniform(0.1, 1.5), "tests.broker.hub.killed_windows"
        )
        run(wait_for_release(store_address))
        first = max(accepted, default=first) + 1
    run(end())
    store = open_store(store_address)
    messages = stored_messages(store)
    assert len(messages) >= first - KILLS
    expected_by_key, found = library_of(WINDOWS, messages, time.time()), told_in(store, subscriptions)
    for key in WINDOWS:
        # Silences and periods of several keys that end at about the same time are told in any order.
        in_order = key in ("silence", "all")
        first_list, second_list = found[key], expected_by_key[key]
        assert (sorted(first_list) if in_order else first_list) == (sorted(second_list) if in_order else second_list)
        assert first_list, key
    store.close()


def test_what_is_missed_while_too_much_waits_counts_later(tmp_path: Path) -> None:
    async def work() -> None:
        store = open_store(str(tmp_path / "store"))
        async with running(store, pending_max=20) as broker:
            made = {
                key: await subscribe(broker, key, QUERY, window=read_window(when))
                for key, when in {"three": {**WINDOWS["three"], "within": "1 h"}, "change": WINDOWS["change"]}.items()
            }
            found: dict[str, list[tuple[str, tuple[int, ...]]]] = {key: [] for key in made}
            random_, states = random.Random(5), set()
            for number in range(400):
                key, value = random_.choice("abc"), random_.choice("xy")
                await publish(broker, f'<m key="{key}" value="{value}" first="1"/>')
                if number % 100 == 99:
                    states |= await take_all(broker, made, found)
            await take_all(broker, made, found)
            assert SubscriptionState.SUSPENDED in states
            messages = stored_messages(store)
        declared = {"three": {**WINDOWS["three"], "within": "1 h"}, "change": WINDOWS["change"]}
        expected_by_key = library_of(declared, messages, time.time())
        assert {key: expected_by_key[key] for key in made} == found
        store.close()

    run(work())


async def take_all(
    broker: Broker, made: dict[str, StoredSubscription], found: dict[str, list[tuple[str, tuple[int, ...]]]]
) -> set[SubscriptionState]:
    """Takes what waits until nothing is missing; returns the states that subscriptions had."""
    states: set[SubscriptionState] = set()
    while True:
        is_over = True
        for key, one in made.items():
            current = broker.store.subscription(TENANT, key)
            assert current is not None
            states.add(current.state)
            some = waiting(broker.store, one)
            about = [json.loads(delivery.window_note or "") for delivery in some]
            found[key] += [(each["key"], tuple(each["messages"])) for each in about]
            await broker.acknowledge(one.queue_id, [delivery.id for delivery in some])
            is_behind = current.replay_next is not None or current.state is not SubscriptionState.ACTIVE
            is_over = is_over and not some and not is_behind
        if is_over:
            return states
        await asyncio.sleep(0.01)
