"""Chains in tables against the model that judges library and broker, on generated histories, without Spark."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pytest

pytest.importorskip("pyspark")

from tests.lifecycle.model import AREAS, PROFILE, Model, history
from tests.seeds import printed_seed
from twigcast.lifecycle.facts import MessageFacts, ProfileReader
from twigcast.lifecycle.profiles import read_profile
from twigcast.spark.chain_tables import ChainGroup, ChainTables, natural
from twigcast.spark.lifecycle_settings import LifecycleSettings
from twigcast.subscriptions import SubscriptionSet


class Groups:
    """A group whose tables are written and read again with each micro-batch, and its times that were registered."""

    def __init__(self, settings: LifecycleSettings, present: dict[str, str]) -> None:
        self.tables = ChainTables.in_memory()
        self.waiting: set[int] = set()
        self._settings = settings
        self._present = present

    def open(self, now: float) -> ChainGroup:
        earliest = int(now * 1000) + 1
        return ChainGroup(self.tables, self._settings, self._present.__contains__, self.waiting.add, earliest)

    def expire(self, now: float) -> set[str]:
        """Returns what is over by now, as the model says it."""
        over = set()
        for due in sorted(due for due in self.waiting if due <= now * 1000):
            self.waiting.remove(due)
            group = self.open(now)
            for one in group.wake(due, now):
                assert one.step.chain is not None
                keys = sorted(delivery.key for delivery in one.step.deliveries)
                over.add(f"{','.join(keys)} of {sorted(one.step.chain.names)}")
            group.flush()
        return over


def run_history(seed: int, count: int) -> int:
    """Runs one history through tables and model; returns how many deliveries there were."""
    random_ = random.Random(seed)
    messages = history(random_, count)
    keys = [f"k{n}" for n in range(8)]
    follows = {key: random_.random() < 0.7 for key in keys}
    reader, model = ProfileReader(read_profile(PROFILE)), Model()
    areas: dict[str, str] = {}
    groups = Groups(LifecycleSettings(profile=PROFILE, follow=follows), areas)
    subscriptions = SubscriptionSet()
    deliveries, group = 0, groups.open(0)
    for at, message in enumerate(messages):
        key = random_.choice(keys)
        if random_.random() < 0.3 and key in areas:
            del areas[key]
            subscriptions.remove(key)
        elif random_.random() < 0.6:
            areas[key] = random_.choice(AREAS)
            subscriptions.replace(key, f"//area = '{areas[key]}'")
        published = datetime.fromtimestamp(at, UTC)
        matching = subscriptions.match(message.xml, published=published).keys
        facts = reader.read(message.xml.encode())
        step = group.enter(facts, matching, at=at, message_id=f"{at:06}")
        got = {one.key: str(one.relation or "") for one in step.deliveries}
        assert got == model.enter(message, areas, follows, at), f"message {at} of seed {seed}: {message}"
        deliveries += len(got)
        if random_.random() < 0.3:
            group.flush()
            assert groups.expire(at) == model.expire(at, areas, follows), f"at {at} of seed {seed}"
            group = groups.open(at)
    return deliveries


def test_tables_do_what_the_model_does() -> None:
    seed = printed_seed()
    assert sum(run_history(seed + n, 60) for n in range(12)) > 100


def test_what_is_old_is_forgotten_and_leaves_nothing_in_the_tables() -> None:
    groups = Groups(LifecycleSettings(profile=PROFILE, retention_seconds=100), {"k": "A"})
    for at in range(0, 1_000, 50):
        group = groups.open(at)
        group.enter(MessageFacts("a", version=str(at)), ["k"], at=at, message_id=f"a{at}")
        group.enter(MessageFacts(f"b{at}", refers=("c",) if at else ()), ["k"], at=at, message_id=f"b{at}")
        group.flush()
        groups.expire(at)
    chains = [json.loads(record) for record in groups.tables.chains._values.values()]  # type: ignore[attr-defined]
    assert sorted(len(chain["members"]) for chain in chains) == [19, 20]
    assert len(groups.waiting) <= 2, "a matter waits for one moment at a time"
    groups.expire(2_000)
    tables = [groups.tables.names, groups.tables.chains, groups.tables.due]
    left = [key for table in tables for key in table._values]  # type: ignore[attr-defined]
    assert left == ["next"]


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["10.xml", "9.xml", "1.xml"], ["1.xml", "9.xml", "10.xml"]),
        (["a2b10", "a2b9", "a10b1"], ["a2b9", "a2b10", "a10b1"]),
        (["f.xml#2", "f.xml#11", "e.xml#3"], ["e.xml#3", "f.xml#2", "f.xml#11"]),
        (["007", "8", "b", ""], ["", "007", "8", "b"]),
    ],
)
def test_digits_count_as_numbers(texts: list[str], order: list[str]) -> None:
    assert sorted(texts, key=natural) == order
