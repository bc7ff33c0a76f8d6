"""What the store says of how far queues are behind, compared with a model."""

from __future__ import annotations

import random

import pytest

from tests.broker.store.filling import deliver, publish, subscribe
from twigcast.broker.model import DeliveryId, QueueLag
from twigcast.broker.store import queues
from twigcast.broker.store.store import Store


def test_lags_are_what_is_pending(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "SET_ASIDE_SPAN", 3)
    monkeypatch.setattr(queues, "SET_ASIDE_ACKNOWLEDGED", 2)
    generator = random.Random(26)
    subscriptions = subscribe(store, *(f"k{n}" for n in range(8)))
    shared = subscribe(store, "x", "y", subscriber="desk")
    everyone = [*subscriptions, *shared]
    left: dict[int, set[DeliveryId]] = {one.queue_id: set() for one in everyone}
    received: dict[int, float] = {}
    was_aside = False
    for round_ in range(40):
        (message,) = publish(store, 1, received=100.0 + round_)
        received[message.seq] = message.received
        chosen = [one for one in everyone if generator.random() < 0.7]
        deliver(store, [message], chosen)
        for one in chosen:
            left[one.queue_id].add(DeliveryId(message.seq, one.id))
        queue_id = generator.choice(list(left))
        done = [id_ for id_ in left[queue_id] if generator.random() < 0.7]
        with store.transaction() as transaction:
            if generator.random() < 0.1:
                transaction.acknowledge_up_to(queue_id, message.seq - 3)
                done = [id_ for id_ in left[queue_id] if id_.seq <= message.seq - 3]
            else:
                transaction.acknowledge(queue_id, done)
        left[queue_id].difference_update(done)
        was_aside = was_aside or bool(store.rows("SELECT 1 FROM set_aside LIMIT 1"))
        expected = {
            number: QueueLag(number, 1, len(ids), min(ids).seq, received[min(ids).seq])
            for number, ids in left.items()
            if ids
        }
        assert {lag.queue_id: lag for lag in store.lags(list(left))} == expected, f"round {round_}"
    assert was_aside, "deliveries are set aside too"
    assert store.lags([]) == []
    assert store.lags([10**6]) == []


def test_what_waits_behind_a_replay_is_not_pending(store: Store) -> None:
    messages = publish(store, 3)
    (one,) = subscribe(store, "k", replay_from=1)
    deliver(store, publish(store, 1), [one])
    assert store.lags([one.queue_id]) == []
    deliver(store, messages[:2], [one])
    with store.transaction() as transaction:
        transaction.set_replay(one.id, 3)
    (lag,) = store.lags([one.queue_id])
    assert (lag.pending, lag.oldest_seq) == (2, 1)


def test_queues_are_listed_in_order_of_subscribers(store: Store) -> None:
    subscribe(store, "b", "a", "c")
    subscribe(store, "d", "e", subscriber="ab")
    assert [queue.subscriber for queue in store.subscribers(1, limit=10)] == ["a", "ab", "b", "c"]
    assert [queue.subscriber for queue in store.subscribers(1, after="a", limit=2)] == ["ab", "b"]
    assert [queue.subscriber for queue in store.subscribers(1, before="c", limit=2)] == ["b", "ab"]
    assert store.subscribers(2, limit=10) == []
    ids = store.queue_ids_after(0, 3)
    assert len(ids) == 3
    assert {queue.id for queue in store.queues([*ids, 10**6])} == set(ids)
    assert store.queue_ids_after(ids[-1], 3) != []
