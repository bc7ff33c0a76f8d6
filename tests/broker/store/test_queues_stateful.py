"""Lanes of both stores against a model of a few lines: whatever is published, acknowledged, expired, reopened.

The model keeps every delivery that is pending in a sorted dictionary; a store must always have the same ones, in the
same order, with the same content.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.services.postgresql import PostgresqlServer
from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.model import (
    DeliveryId,
    NewDelivery,
    NewSubscription,
    QueuePosition,
    StoredMessage,
    StoredSubscription,
)
from twigcast.broker.store import queues
from twigcast.broker.store.store import open_store

SUBSCRIBERS = ("x", "y")


@dataclass
class Model:
    """What should be in a store."""

    last_seq: int = 0
    bodies: dict[int, bytes] = field(default_factory=dict)
    pending: dict[tuple[int, int, int], bytes | None] = field(default_factory=dict)
    """By lane, sequence number and subscription; the payload."""
    history: dict[tuple[int, int, int], bytes | None] = field(default_factory=dict)
    lost: dict[int, int] = field(default_factory=dict)
    """Deliveries that expired, by subscription."""


class Queues(RuleBasedStateMachine):
    """Drives a store and the model alike."""

    address: str
    subscriptions = Bundle("subscriptions")

    @initialize(target=subscriptions)
    def start(self) -> object:
        self.store = open_store(self.address)
        self.model = Model()
        self.next_key = 0
        self.known: dict[int, StoredSubscription] = {}
        return multiple(*self._subscribe("x", 2), *self._subscribe("y", 1))

    @rule(target=subscriptions, subscriber=st.sampled_from(SUBSCRIBERS), count=st.integers(1, 3))
    def subscribe(self, subscriber: str, count: int) -> object:
        return multiple(*self._subscribe(subscriber, count))

    def _subscribe(self, subscriber: str, count: int) -> list[int]:
        keys = [f"k{self.next_key + n}" for n in range(count)]
        self.next_key += count
        with self.store.transaction() as transaction:
            added = transaction.add_subscriptions(
                [NewSubscription(1, key, "//a", subscriber=subscriber) for key in keys], at=0.0
            )
        created = [one for one in added if isinstance(one, StoredSubscription)]
        assert len(created) == count
        self.known |= {one.id: one for one in created}
        return [one.id for one in created]

    @rule(gone=consumes(subscriptions))
    def unsubscribe(self, gone: int) -> None:
        with self.store.transaction() as transaction:
            transaction.delete_subscription(gone)
        del self.known[gone]
        self.model.lost.pop(gone, None)
        for deliveries in (self.model.pending, self.model.history):
            for name in [name for name in deliveries if name[2] == gone]:
                del deliveries[name]

    @rule(size=st.integers(1, 4), chance=st.randoms(use_true_random=False), failing=st.booleans())
    def publish(self, size: int, chance: Random, failing: bool) -> None:
        first = self.model.last_seq + 1
        messages = [
            StoredMessage(seq, 1, "s", f"m{seq}", float(seq), b"<%d/>" % seq) for seq in range(first, first + size)
        ]
        new = [
            NewDelivery(one.queue_id, message.seq, one.id, chance.choice((None, b"", b"<r/>")))
            for message in messages
            for one in self.known.values()
            if chance.random() < 0.8
        ]
        try:
            with self.store.transaction() as transaction:
                transaction.add_messages(messages)
                transaction.add_deliveries(new)
                if failing:
                    raise InterruptedError
        except InterruptedError:
            return
        self.model.last_seq += size
        self.model.bodies |= {message.seq: message.xml for message in messages}
        for deliveries in (self.model.pending, self.model.history):
            deliveries |= {(d.queue_id, d.seq, d.subscription_id): d.payload for d in new}

    @precondition(lambda self: self.known)
    @rule(data=st.data(), chance=st.randoms(use_true_random=False), count=st.integers(1, 6))
    def acknowledge(self, data: st.DataObject, chance: Random, count: int) -> None:
        queue_id = data.draw(st.sampled_from(sorted({one.queue_id for one in self.known.values()})))
        # Of the first ones, where the mark is, and some that were acknowledged before.
        pending = [DeliveryId(*name[1:]) for name in sorted(self.model.pending) if name[0] == queue_id][: 2 * count]
        history = [DeliveryId(*name[1:]) for name in sorted(self.model.history) if name[0] == queue_id]
        ids = chance.sample(pending, min(count, len(pending))) + chance.sample(history, min(1, len(history)))
        with self.store.transaction() as transaction:
            transaction.acknowledge(queue_id, [*ids, DeliveryId(self.model.last_seq + 9, 1)])
        for id_ in ids:
            self.model.pending.pop((queue_id, *id_), None)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def acknowledge_the_first(self, data: st.DataObject) -> None:
        queue_id = data.draw(st.sampled_from(sorted({one.queue_id for one in self.known.values()})))
        first = self.store.pending(queue_id, limit=data.draw(st.integers(1, 5)), bytes_max=1 << 20)
        with self.store.transaction() as transaction:
            transaction.acknowledge(queue_id, [d.id for d in first])
        for delivery in first:
            del self.model.pending[queue_id, delivery.id.seq, delivery.id.subscription_id]

    @precondition(lambda self: self.known)
    @rule(data=st.data(), seq=st.integers(0, 40))
    def acknowledge_up_to(self, data: st.DataObject, seq: int) -> None:
        queue_id = data.draw(st.sampled_from(sorted({one.queue_id for one in self.known.values()})))
        with self.store.transaction() as transaction:
            transaction.acknowledge_up_to(queue_id, seq)
        for name in [name for name in self.model.pending if name[0] == queue_id and name[1] <= seq]:
            del self.model.pending[name]

    @rule(before=st.integers(0, 40), limit=st.integers(1, 5))
    def expire(self, before: int, limit: int) -> None:
        with self.store.transaction() as transaction:
            count = transaction.expire(before=float(before), bytes_max=None, limit=limit, at=0.0)
        gone = sorted(seq for seq in self.model.bodies if seq < before)[:limit]
        assert count == len(gone)
        for seq in gone:
            del self.model.bodies[seq]
        for name in [name for name in self.model.pending if name[1] in gone]:
            del self.model.pending[name]
            self.model.lost[name[2]] = self.model.lost.get(name[2], 0) + 1
        for name in [name for name in self.model.history if name[1] in gone]:
            del self.model.history[name]

    @rule()
    def reopen(self) -> None:
        self.store.close()
        with pytest.raises(StoreUnavailable):
            self.store.last_seq()
        self.store = open_store(self.address)

    @invariant()
    def the_same_is_pending(self) -> None:
        there = {queue.id for name in SUBSCRIBERS if (queue := self.store.queue(1, name)) is not None}
        for queue_id in there:
            expected = [
                (name[1:], payload) for name, payload in sorted(self.model.pending.items()) if name[0] == queue_id
            ]
            results = []
            position = None
            while deliveries := self.store.pending(queue_id, after=position, limit=3, bytes_max=1 << 20):
                results += deliveries
                position = QueuePosition(*deliveries[-1].id)
            assert [(d.id, d.payload) for d in results] == expected
            assert all(d.message.xml == self.model.bodies[d.id.seq] for d in results)
            assert self.store.pending_count(queue_id) == len(expected)
        assert self.store.queues_with_pending(sorted(there)) == sorted({name[0] for name in self.model.pending})

    @invariant()
    def the_same_is_kept(self) -> None:
        assert self.store.last_seq() == self.model.last_seq
        assert [m.seq for m in self.store.messages(1, limit=1_000)] == sorted(self.model.bodies)
        statistics = self.store.statistics()
        assert (statistics.pending, statistics.messages) == (len(self.model.pending), len(self.model.bodies))
        for one in self.known.values():
            recent = [name[1] for name in sorted(self.model.history, reverse=True) if name[2] == one.id]
            assert [d.id.seq for d in self.store.recent_deliveries(one.id, 100)] == recent
            assert sum(e.count for e in self.store.errors(one.id, 1_000)) == self.model.lost.get(one.id, 0)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.clear()

    def clear(self) -> None:
        """Leave an empty place to the next run."""


def effort(share: int) -> settings:
    """A share of the examples that the profile asks for."""
    return settings(stateful_step_count=20, max_examples=max(settings().max_examples // share, 5))


@pytest.fixture(params=[False, True], ids=["", "setting-aside"])
def setting_aside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once as it is, once with deliveries set aside at every opportunity."""
    if request.param:
        monkeypatch.setattr(queues, "SET_ASIDE_SPAN", 0)
        monkeypatch.setattr(queues, "SET_ASIDE_ACKNOWLEDGED", 1)
        monkeypatch.setattr(queues, "SET_ASIDE_AT_ONCE", 3)


@pytest.mark.slow
@pytest.mark.usefixtures("setting_aside")
def test_lanes_in_sqlite() -> None:
    class InSqlite(Queues):
        address = tempfile.mkdtemp(prefix="twigcast-lanes-")

        def clear(self) -> None:
            shutil.rmtree(self.address)

    run_state_machine_as_test(InSqlite, settings=effort(4))


@pytest.mark.usefixtures("setting_aside")
def test_lanes_in_postgresql(postgresql_server: PostgresqlServer) -> None:
    database = postgresql_server.new_database()

    class InPostgresql(Queues):
        address = postgresql_server.url(database)

        def clear(self) -> None:
            postgresql_server.drop_schema(database)

    run_state_machine_as_test(InPostgresql, settings=effort(8))


@pytest.mark.usefixtures("setting_aside")
def test_what_is_acknowledged_before_it_is_there_still_comes(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    try:
        with store.transaction() as transaction:
            keys = [NewSubscription(1, key, "//a", subscriber="x") for key in ("k0", "k1")]
            added = transaction.add_subscriptions(keys, at=0.0)
        first, second = (one for one in added if isinstance(one, StoredSubscription))
        for seq in (1, 2):
            with store.transaction() as transaction:
                transaction.add_messages([StoredMessage(seq, 1, "s", f"m{seq}", 0.0, b"<a/>")])
                transaction.add_deliveries([NewDelivery(one.queue_id, seq, one.id, None) for one in (first, second)])
                transaction.acknowledge(first.queue_id, [DeliveryId(seq, second.id), DeliveryId(seq + 9, first.id)])
        pending = store.pending(first.queue_id, limit=9, bytes_max=1 << 20)
        assert [delivery.id for delivery in pending] == [DeliveryId(1, first.id), DeliveryId(2, first.id)]
    finally:
        store.close()
