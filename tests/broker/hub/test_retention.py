"""Retention: clocks that jump, what subscribers wait for, and space that is returned."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.broker.hub.hubs import TENANT, publish, run, running, subscribe
from tests.broker.store.filling import deliver
from tests.broker.store.filling import publish as fill
from tests.broker.store.filling import subscribe as add
from tests.seeds import printed_seed
from twigcast.broker import broker as broker_module
from twigcast.broker.hub.retention import RetentionClock
from twigcast.broker.store.store import Store

DAY = 86_400.0
NOW = 1_800_000_000.0


@dataclass
class Hands:
    """The hands of a clock that somebody sets, beside seconds that nobody sets."""

    wall: float = NOW
    seconds: float = 5.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.seconds += seconds

    def clock(self, retention: float | None = 7 * DAY) -> RetentionClock:
        """The clock of a broker that has just started: other seconds than before."""
        self.seconds = 5.0
        return RetentionClock(retention, lambda: self.wall, lambda: self.seconds)


def looks(clock: RetentionClock, store: Store) -> float | None:
    """What the clock says in a run of retention."""
    with store.transaction() as transaction:
        return clock.now(transaction)


def test_nothing_expires_after_a_jump_until_it_is_confirmed(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    hands = Hands()
    clock = hands.clock()
    fill(store, 3, received=NOW)
    assert looks(clock, store) == NOW
    hands.passes(3 * DAY)
    assert looks(clock, store) == hands.wall, "days that pass evenly are no jump"
    hands.wall += 8 * DAY
    hands.passes(10)
    assert looks(clock, store) is None
    assert not clock.state().is_confirmed
    assert clock.state().now - clock.state().expected == pytest.approx(8 * DAY)
    assert "8 days, 0:00:00 more than expected: no message expires by age" in caplog.text
    with store.transaction() as transaction:
        transaction.confirm_clock(hands.wall)
    assert looks(clock, store) == hands.wall
    assert clock.state().is_confirmed
    assert looks(hands.clock(), store) == hands.wall, "confirmed is confirmed, also for the next start"


def test_a_jump_while_the_broker_is_down_or_before_a_restart_is_noticed(
    open_again: Callable[[], Store],
) -> None:
    hands = Hands()
    store = open_again()
    fill(store, 1, received=NOW)
    assert looks(hands.clock(), store) == NOW
    store.close()
    hands.wall += 8 * DAY
    store = open_again()
    assert looks(hands.clock(), store) is None
    fill(store, 1, received=hands.wall)
    hands.passes(1_200)
    store.close()
    store = open_again()
    assert looks(hands.clock(), store) is None, "what came under the wrong clock is no proof of it"
    hands.wall -= 8 * DAY
    assert looks(hands.clock(), store) == hands.wall, "right again"


def test_a_clock_that_starts_in_the_past_does_not_make_messages_old(store: Store) -> None:
    hands = Hands()
    fill(store, 1, received=NOW)
    assert looks(hands.clock(), store) == NOW
    hands.wall = 100.0  # no battery: 1970, until the network says better
    clock = hands.clock()
    fill(store, 1, received=hands.wall)
    hands.passes(30)
    looks(clock, store)
    hands.wall = NOW + 60
    assert looks(clock, store) == hands.wall
    with store.transaction() as transaction:
        assert transaction.expire(before=hands.wall - DAY, bytes_max=None, limit=9, at=hands.wall) == 0
    assert [m.seq for m in store.messages(TENANT, limit=9)] == [1, 2]


def test_messages_of_a_future_that_did_not_come_expire_after_the_confirmation(store: Store) -> None:
    fill(store, 1, received=NOW + 3_650 * DAY)
    fill(store, 1, received=NOW)
    with store.transaction() as transaction:
        assert transaction.expire(before=NOW + 10 * DAY, bytes_max=None, limit=9, at=NOW) == 0
        transaction.confirm_clock(NOW)
        assert transaction.expire(before=NOW + 10 * DAY, bytes_max=None, limit=9, at=NOW) == 2


@pytest.mark.parametrize("step", [-3_000.0, -20.0, 20.0, 3_000.0])
def test_small_corrections_are_no_jumps(store: Store, step: float) -> None:
    hands = Hands()
    clock = hands.clock()
    fill(store, 1, received=NOW - 8 * DAY)
    assert looks(clock, store) is None, "the newest message is the only witness, and it is old"
    with store.transaction() as transaction:
        transaction.confirm_clock(hands.wall)
    assert looks(clock, store) == hands.wall
    hands.wall += step
    assert looks(clock, store) == hands.wall


def test_any_clock_keeps_what_is_younger_than_retention(store: Store) -> None:
    """However the clock is set and whenever the broker restarts: nothing goes early that nobody confirmed."""
    rng = random.Random(printed_seed())
    hands, true_time = Hands(), NOW
    clock = hands.clock()
    born: dict[int, float] = {}
    for _ in range(120):
        passed = rng.uniform(0, DAY / 2)
        hands.passes(passed)
        true_time += passed
        choice = rng.random()
        if choice < 0.15:
            hands.wall = true_time + rng.uniform(-30, 30) * DAY
        elif choice < 0.4:
            hands.wall = true_time
        elif choice < 0.5:
            clock = hands.clock()
        (message,) = fill(store, 1, received=hands.wall)
        born[message.seq] = true_time
        if (now := looks(clock, store)) is not None:
            with store.transaction() as transaction:
                transaction.expire(before=now - 7 * DAY, bytes_max=None, limit=500, at=now)
        left = {m.seq for m in store.messages(TENANT, limit=500)}
        # A step below the limit is believed.
        early = [seq for seq, at in born.items() if seq not in left and true_time - at < 7 * DAY - 3_700]
        assert not early


class TestKeepPending:
    """Messages for which somebody waits stay."""

    def test_what_waits_stays_and_the_rest_goes(self, store: Store) -> None:
        one, two = add(store, "one", "two")
        for n in range(6):
            (message,) = fill(store, 1, received=float(n), matches=2)
            deliver(store, [message], [one, two] if n % 2 else [one])
        with store.transaction() as transaction:
            transaction.acknowledge_up_to(one.queue_id, 6)
        with store.transaction() as transaction:
            bounds = {"before": 5.0, "bytes_max": None, "limit": 2, "at": 9.0}
            steps, after = [], 0
            while True:
                gone, go_on = transaction.expire_settled(**bounds, after=after)  # type: ignore[arg-type]
                steps.append(gone)
                if go_on is None:
                    break
                after = go_on
        assert sum(steps) == 3
        assert [m.seq for m in store.messages(TENANT, limit=9)] == [2, 4, 6]
        assert [d.id.seq for d in store.pending(two.queue_id, limit=9, bytes_max=999)] == [2, 4, 6]
        assert store.errors(two.id, 9) == []
        with store.transaction() as transaction:
            transaction.acknowledge_up_to(two.queue_id, 2)
            assert transaction.expire_settled(before=None, bytes_max=0, limit=9, at=9.0)[0] == 1

    def test_what_is_to_be_replayed_waits_too(self, store: Store) -> None:
        async def play() -> None:
            settings = {"retention_bytes": 1, "keep_pending": True, "upkeep_seconds": 0.02, "pending_max": 4}
            async with running(store, **settings) as broker:
                slow = await subscribe(broker, "slow", "//a")
                for n in range(30):
                    await publish(broker, f"<a n='{n}'/>", "<b/>")
                result: list[bytes] = []
                while len(result) < 30:
                    await broker._retention.once()
                    some = await broker.pull(slow.queue_id, limit=3, wait=20, visibility=60)
                    result += [delivery.body for delivery in some]
                    await broker.acknowledge(slow.queue_id, [delivery.id for delivery in some])
                assert result == [f"<a n='{n}'/>".encode() for n in range(30)]
                await broker._retention.once()
                assert store.statistics().messages == 0
                assert broker.metrics.expired == 60

        run(play())


def test_the_space_of_what_expired_is_returned_by_itself(
    store: Store, store_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "://" in store_address:
        pytest.skip("PostgreSQL sees to it by itself")
    monkeypatch.setattr(broker_module, "VACUUMED_BYTES_MIN", 1 << 20)

    fill(store, 20, xml=b"x" * 500_000)

    async def play() -> None:
        async with running(store, retention_bytes=1 << 20, upkeep_seconds=0.05) as broker:
            deadline = time.monotonic() + 30
            file = Path(store_address) / "twigcast.db"
            while broker.metrics.vacuums == 0 or file.stat().st_size > 4 << 20:
                assert time.monotonic() < deadline
                await publish(broker, "<small/>")
                await asyncio.sleep(0.01)
            assert store.unused() < 1 << 20

    run(play())
