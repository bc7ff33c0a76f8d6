"""The tracker of lag: right in the end, and bounded in each round."""

from __future__ import annotations

import random
from collections.abc import Sequence

from twigcast.broker.model import QueueLag
from twigcast.broker.queues.lag import BUSY_SECONDS, LagTracker, TenantLag


class FakeStore:
    """Queues with a lag, which take time to read."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.lags: dict[int, QueueLag] = {}
        self.queues: list[int] = []
        self.seconds = seconds
        self.now = 0.0
        self.read: list[int] = []

    def clock(self) -> float:
        return self.now

    def read_lags(self, queue_ids: Sequence[int]) -> list[QueueLag]:
        self.now += self.seconds * len(queue_ids)
        self.read += queue_ids
        return [self.lags[number] for number in queue_ids if number in self.lags]

    def ids_after(self, queue_id: int, limit: int) -> list[int]:
        return [number for number in self.queues if number > queue_id][:limit]

    def tracker(self) -> LagTracker:
        return LagTracker(self.read_lags, self.ids_after, self.clock)

    def put(self, queue_id: int, pending: int, received: float) -> None:
        self.lags[queue_id] = QueueLag(queue_id, queue_id % 3, pending, 1, received)

    def expected(self) -> dict[int, TenantLag]:
        result = {}
        for tenant_id in {lag.tenant_id for lag in self.lags.values()}:
            mine = [lag for lag in self.lags.values() if lag.tenant_id == tenant_id]
            result[tenant_id] = TenantLag(
                len(mine),
                sum(lag.pending for lag in mine),
                max(lag.pending for lag in mine),
                min(lag.oldest_received for lag in mine),
            )
        return result


def test_sums_and_maxima_are_those_of_all_queues() -> None:
    generator = random.Random(26)
    store = FakeStore()
    store.queues = list(range(1, 200))
    for number in store.queues[::2]:
        store.put(number, generator.randint(1, 9), generator.random())
    tracker = store.tracker()
    for _ in range(100):
        tracker.round()
        assert {t: lag for t, lag in tracker.tenants.items() if lag.behind} == store.expected()
        for number in generator.sample(store.queues, 60):
            if number in store.lags and generator.random() < 0.6:
                del store.lags[number]
            else:
                store.put(number, generator.randint(1, 9), generator.random())
                tracker.filled([number])
        store.now += 5
    by_age = sorted((lag for lag in store.lags.values() if lag.tenant_id == 1), key=lambda lag: lag.oldest_received)
    tracker.round()
    assert tracker.furthest_behind(1, 5) == [lag.queue_id for lag in by_age[:5]]
    store.lags.clear()
    store.now += 5
    tracker.round()
    assert all(lag == TenantLag() for lag in tracker.tenants.values())


def test_a_round_takes_a_bounded_time_and_all_queues_have_their_turn() -> None:
    store = FakeStore(seconds=0.001)
    store.queues = list(range(1, 2_001))
    for number in store.queues:
        store.put(number, 1, 1.0)
    tracker = store.tracker()
    ages = []
    for _ in range(40):
        begun = store.now
        tracker.round()
        assert store.now - begun < 2 * BUSY_SECONDS
        store.now += 5
        ages.append(tracker.age())
    assert sum(lag.pending for lag in tracker.tenants.values()) == 2_000
    assert set(store.read[-2_000:]) == set(store.queues), "in turn"
    assert 5 < ages[-1] < 100
    assert ages[-1] == max(ages[-3:]) or ages[-1] < max(ages)


def test_queues_with_nothing_pending_are_not_read_again() -> None:
    store = FakeStore()
    store.queues = list(range(1, 101))
    tracker = store.tracker()
    tracker.round()
    assert store.read == store.queues
    store.now += 5
    tracker.round()
    assert len(store.read) == 100
    tracker.filled({7})
    tracker.round()
    assert store.read[100:] == [7]
    assert tracker.age() < 5.1
