"""What the charts show: rates, quantiles, and to whom."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.broker.console.conftest import Party
from tests.broker.console.running import BrokerWithConsole, Person, wait_until
from tests.seeds import printed_seed
from twigcast.broker.console.activity import KEPT, Activity, CounterSnapshot, Latency, Tally
from twigcast.broker.metrics import SECONDS


def _histogram(values: list[float]) -> Latency:
    counts = [0] * (len(SECONDS) + 1)
    for value in values:
        counts[bisect_left(SECONDS, value)] += 1
    return Latency(SECONDS, tuple(counts))


def test_quantiles_lie_in_the_class_of_the_true_value() -> None:
    seed = printed_seed()
    generator = random.Random(seed)
    for _ in range(200):
        values = sorted(generator.lognormvariate(-4, 1.5) for _ in range(generator.randint(1, 300)))
        for share in (0.5, 0.9, 0.99, 1.0):
            true = values[math.ceil(len(values) * share) - 1]
            result = _histogram(values).quantile(share)
            assert result is not None
            lower = max((bound for bound in SECONDS if bound < true), default=0.0)
            upper = min((bound for bound in SECONDS if bound >= true), default=SECONDS[-1])
            assert lower <= result <= upper * (1 + 1e-12), (share, true, result)


def test_without_messages_there_is_no_latency() -> None:
    assert _histogram([]).quantile(0.5) is None
    assert Latency().quantile(0.5) is None


def test_rates_are_differences_by_the_time_that_passed() -> None:
    now = [100.0]
    activity = Activity(clock=lambda: now[0])
    activity.add(CounterSnapshot(Tally(10, 1, 100, 50), {7: Tally(4, 0, 8, -1)}, _histogram([0.004] * 10), 3, 2, 1))
    now[0] = 102.0
    activity.add(CounterSnapshot(Tally(30, 2, 140, 60), {7: Tally(8, 1, 10, -1)}, _histogram([0.004] * 10 + [0.3] * 4)))
    (whole,) = activity.samples(None)
    assert (whole.accepted, whole.rejected, whole.deliveries, whole.handed_out) == (10, 0.5, 20, 5)
    assert whole.p50_ms is not None
    assert 200 <= whole.p50_ms <= 500
    assert (whole.queue, whole.streams, whole.behind) == (0, 0, 0)
    (own,) = activity.samples(7)
    assert (own.accepted, own.rejected, own.deliveries, own.handed_out) == (2, 0.5, 1, None)
    assert (own.queue, own.streams, own.behind) == (None, None, None)
    (other,) = activity.samples(8)
    assert (other.accepted, other.rejected, other.deliveries) == (0, 0, 0)


def test_only_some_minutes_are_kept_and_only_news_are_told() -> None:
    activity = Activity()
    for number in range(KEPT * 2):
        activity.add(CounterSnapshot(Tally(accepted=number)))
    numbers = [sample.number for sample in activity.samples(None)]
    assert len(numbers) == KEPT
    assert all(b == a + 1 for a, b in pairwise(numbers))
    assert [sample.number for sample in activity.samples(None, after=numbers[-3])] == numbers[-2:]


def test_each_tenant_sees_its_own_activity(
    new_party: Callable[..., Party], operator: Person, running: BrokerWithConsole
) -> None:
    busy, calm = new_party(), new_party()
    running.subscribe("all", "/*", tenant_id=busy.tenant_id)

    def samples(person: Person) -> list[dict[str, float | None]]:
        result: list[dict[str, float | None]] = person.get("/console/live?sample=0&message=0").response.json()[
            "samples"
        ]
        return result

    wait_until(lambda: samples(calm.person))
    busy.publish(*([b"<a/>"] * 500), b"<a>")
    wait_until(lambda: sum(s["accepted"] or 0 for s in samples(busy.person)) > 100)
    seen = samples(busy.person)
    assert sum(s["deliveries"] or 0 for s in seen) == pytest.approx(sum(s["accepted"] or 0 for s in seen))
    assert sum(s["rejected"] or 0 for s in seen) > 0
    assert all(s["queue"] is None and s["handed_out"] is None for s in seen)
    assert all(s["accepted"] == s["deliveries"] == s["rejected"] == 0 for s in samples(calm.person))
    assert any(s["queue"] is not None for s in samples(operator))
