"""The library's windows against a model that knows the whole history."""

from __future__ import annotations

import pickle
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import twigcast
from tests.windows.histories import QUERY, History, history, message
from tests.windows.model import told
from twigcast.windows.windows import WindowDelivery

BEGAN = 90
"""When subscriptions begin."""


def moment(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def run(played: History, seed: int, folder: Path | None) -> tuple[list[WindowDelivery], list[str]]:
    """Plays a history, with timers at random times, and with restarts."""
    rng = random.Random(seed)
    subscriptions = twigcast.SubscriptionSet()
    subscriptions.add("s", QUERY)
    windows = twigcast.Windows(subscriptions)
    windows.add("s", played.when, now=moment(BEGAN))
    deliveries: list[WindowDelivery] = []
    late: list[str] = []
    for key, event in played.events:
        if rng.random() < 0.3:
            deliveries += windows.due(moment(rng.randrange(BEGAN, event.arrived + 1)))
        if rng.random() < 0.1:
            windows = pickle.loads(pickle.dumps(windows))
        elif folder is not None and rng.random() < 0.1:
            windows.save(folder / "state")
            windows = twigcast.Windows(subscriptions, {"s": played.when})
            windows.restore(folder / "state")
        text = message(key, event, has_time=played.has_time)
        answer = windows.deliver(text, message_id=event.name, published=moment(event.arrived))
        deliveries += answer.deliveries
        late += [event.name] if answer.late else []
        assert not answer.undecided
    return deliveries + windows.due(moment(played.until)), late


def check(seed: int, folder: Path | None = None, kind: str | None = None) -> None:
    played = history(seed, kind)
    deliveries, late = run(played, seed, folder)
    begun = BEGAN if played.window.kind == "absence" and not played.has_key else None
    for key in played.keys:
        expected = told(played.window, played.of_key(key), played.until, begun)
        found = [(str(one.action), round(one.at), one.stands_for) for one in deliveries if one.window_key == key]
        assert found == expected.all, (seed, key, played)
    expected_late = {name for key in played.keys for name in told(played.window, played.of_key(key), 0).late}
    assert sorted(late) == sorted(expected_late), (seed, played)


@pytest.mark.parametrize("kind", ["at_least", "sequence", "absence", "changed", "throttle", "digest"])
def test_subscribers_are_told_what_the_model_says(kind: str, tmp_path: Path) -> None:
    for seed in range(25):
        check(seed, tmp_path, kind)


@pytest.mark.slow
def test_many_histories_are_as_the_model_says(tmp_path: Path) -> None:
    for seed in range(2_000):
        check(seed, tmp_path)


if __name__ == "__main__":
    import sys

    for one in range(*map(int, sys.argv[1:])):
        check(one)
