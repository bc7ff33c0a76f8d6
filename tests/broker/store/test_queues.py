"""Lanes: what is pending, in which order, and how acknowledging moves the mark."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.broker.store.filling import deliver, publish, subscribe
from twigcast.broker.model import DeliveryId, NewDelivery, QueuePosition, StoredSubscription
from twigcast.broker.store import queues
from twigcast.broker.store.store import Store


def ids(store: Store, queue_id: int, limit: int = 1_000) -> list[DeliveryId]:
    """What a lane has pending."""
    return [d.id for d in store.pending(queue_id, limit=limit, bytes_max=1 << 30)]


def test_deliveries_of_one_message_share_it(store: Store) -> None:
    one, two = subscribe(store, "one", "two", subscriber="desk")
    messages = publish(store, 2, xml=b"<a>text</a>", matches=2)
    deliver(store, messages[:1], [one, two])
    deliver(store, messages[1:], [two], payload=b"<b/>")
    first, second, third = store.pending(one.queue_id, limit=9, bytes_max=999)
    assert first.message is second.message
    assert (first.key, second.key, first.queue_id) == ("one", "two", one.queue_id)
    assert (first.body, third.body, third.message.xml) == (b"<a>text</a>", b"<b/>", b"<a>text</a>")
    assert (first.message.message_id, first.message.matches, first.redelivered) == ("m1", 2, False)


def test_equal_results_of_a_message_are_stored_once(store: Store) -> None:
    subscriptions = subscribe(store, *(f"k{n}" for n in range(40)))
    messages = publish(store, 2, received=1.0, matches=40)
    large, own, small = b"<r>" + b"x" * 100_000 + b"</r>", b"<own>" + b"y" * 100 + b"</own>", b"<s/>"
    payloads = {s.id: large if n % 4 else (own if n == 0 else small) for n, s in enumerate(subscriptions)}
    with store.transaction() as transaction:
        transaction.add_deliveries(
            NewDelivery(s.queue_id, message.seq, s.id, payloads[s.id]) for message in messages for s in subscriptions
        )
        # Those of replay come later, one by one.
        transaction.add_deliveries([NewDelivery(subscriptions[1].queue_id, 1, subscriptions[1].id, large)])
    assert store.rows("SELECT COUNT(*), SUM(LENGTH(payload)) FROM payloads") == [(2, 2 * len(large))]
    assert store.rows("SELECT COUNT(*) FROM deliveries WHERE payload IS NOT NULL") == [(20,)]
    each = 2 * len(b"<a/>") + 2 * len(large) + 2 * len(own) + 18 * len(small)
    assert store.statistics(1).bytes == each + len(large), "what is shared counts once, and what comes later by itself"
    for s in subscriptions:
        results = store.pending(s.queue_id, limit=9, bytes_max=1 << 30)
        assert [d.payload for d in results] == [payloads[s.id]] * 2
        assert [d.payload for d in store.recent_deliveries(s.id, 9)] == [payloads[s.id]] * 2
        expected = 1 if payloads[s.id] is large else 2
        assert len(store.pending(s.queue_id, limit=9, bytes_max=len(large) + 50)) == expected
    with store.transaction() as transaction:
        transaction.delete_subscription(subscriptions[1].id)
    assert store.pending(subscriptions[2].queue_id, limit=1, bytes_max=999)[0].payload == large
    with store.transaction() as transaction:
        assert transaction.expire(before=2.0, bytes_max=None, limit=9, at=3.0) == 2
    assert store.rows("SELECT COUNT(*) FROM payloads") == [(0,)]
    assert store.statistics(1).bytes == 0


def test_storing_a_delivery_again_changes_nothing(store: Store) -> None:
    one, two = subscribe(store, "one", "two", subscriber="desk")
    messages = publish(store, 2)
    deliver(store, messages, [one])
    with store.transaction() as transaction:
        transaction.acknowledge(one.queue_id, [DeliveryId(2, one.id)])
    deliver(store, messages, [one, two], payload=b"other")
    assert ids(store, one.queue_id) == [(1, one.id), (1, two.id), (2, two.id)]
    assert [d.payload for d in store.pending(one.queue_id, limit=9, bytes_max=999)] == [None, b"other", b"other"]


def test_acknowledging_in_order_only_moves_the_mark(store: Store) -> None:
    one, two = subscribe(store, "one", "two", subscriber="desk")
    deliver(store, publish(store, 3), [one, two])

    def acknowledge(*some: tuple[int, int]) -> tuple[int, int]:
        with store.transaction() as transaction:
            transaction.acknowledge(one.queue_id, [DeliveryId(*id_) for id_ in some])
        queue = store.queue(1, "desk")
        assert queue is not None
        singly = store.rows("SELECT COUNT(*) FROM deliveries WHERE acked = 1")[0][0]
        return queue.acked, singly

    assert acknowledge((1, one.id)) == (0, 1)
    assert acknowledge((1, two.id)) == (1, 1)
    assert acknowledge((2, one.id), (2, two.id), (3, one.id)) == (2, 2)
    assert acknowledge((1, one.id), (99, 99), (10**30, 1), (1, 10**30)) == (2, 2)
    assert ids(store, one.queue_id) == [(3, two.id)]
    assert acknowledge((3, two.id)) == (3, 2)
    assert ids(store, one.queue_id) == []


def test_the_mark_passes_over_what_was_acknowledged_before(store: Store) -> None:
    (one,) = subscribe(store, "one")
    deliver(store, publish(store, 6), [one])
    for some in ([2, 3], [5], [1]):
        with store.transaction() as transaction:
            transaction.acknowledge(one.queue_id, [DeliveryId(seq, one.id) for seq in some])
    queue = store.queue(1, "one")
    assert queue is not None
    assert queue.acked == 3
    assert ids(store, one.queue_id) == [(4, one.id), (6, one.id)]
    assert store.pending_count(one.queue_id) == 2


def test_a_mark_is_never_moved_back_nor_past_what_there_is(store: Store) -> None:
    (one,) = subscribe(store, "one")
    deliver(store, publish(store, 3), [one])
    for seq, acked in ((2, 2), (1, 2), (10**30, 3)):
        with store.transaction() as transaction:
            transaction.acknowledge_up_to(one.queue_id, seq)
        queue = store.queue(1, "one")
        assert queue is not None
        assert queue.acked == acked
    deliver(store, publish(store, 1), [one])
    assert ids(store, one.queue_id) == [(4, one.id)]


def test_marks_and_single_acknowledgements_in_one_transaction(store: Store) -> None:
    (one,) = subscribe(store, "one")
    deliver(store, publish(store, 6, received=1.0), [one])
    with store.transaction() as transaction:
        transaction.acknowledge_up_to(one.queue_id, 3)
        transaction.acknowledge_up_to(one.queue_id, 2)
        transaction.acknowledge(one.queue_id, [DeliveryId(4, one.id), DeliveryId(6, one.id)])
        transaction.acknowledge_up_to(one.queue_id, 1)
    assert ids(store, one.queue_id) == [(5, one.id)]
    with store.transaction() as transaction:
        transaction.acknowledge_up_to(one.queue_id, 5)
        transaction.expire(before=2.0, bytes_max=None, limit=10, at=3.0)
    assert store.errors(one.id, 9) == []


def test_a_mark_of_a_transaction_that_failed_is_not_moved(store: Store) -> None:
    (one,) = subscribe(store, "one")
    deliver(store, publish(store, 2), [one])

    def fail() -> None:
        with store.transaction() as transaction:
            transaction.acknowledge_up_to(one.queue_id, 2)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    publish(store, 1)
    assert ids(store, one.queue_id) == [(1, one.id), (2, one.id)]


def test_acknowledging_everything_before_the_next_is_stored_loses_nothing(store: Store) -> None:
    (one,) = subscribe(store, "one")
    deliver(store, publish(store, 1), [one])
    publish(store, 3)
    with store.transaction() as transaction:
        transaction.acknowledge(one.queue_id, [DeliveryId(1, one.id)])
        transaction.add_deliveries([NewDelivery(one.queue_id, 2, one.id, None)])
    assert ids(store, one.queue_id) == [(2, one.id)]


def test_pages_go_on_after_a_position(store: Store) -> None:
    one, two = subscribe(store, "one", "two", subscriber="desk")
    deliver(store, publish(store, 3), [one, two])
    everything = ids(store, one.queue_id)
    assert len(everything) == 6
    for count in range(1, 7):
        results: list[DeliveryId] = []
        position = None
        while page := store.pending(one.queue_id, after=position, limit=count, bytes_max=999):
            results += [d.id for d in page]
            position = QueuePosition(*page[-1].id)
        assert results == everything
    after_first_message = store.pending(one.queue_id, after=QueuePosition(1), limit=9, bytes_max=999)
    assert [d.id for d in after_first_message] == everything[2:]
    assert store.pending(one.queue_id, after=QueuePosition(10**30), limit=9, bytes_max=999) == []
    skipping = store.pending(one.queue_id, limit=9, bytes_max=999, skip_subscriptions=frozenset([one.id, 77]))
    assert [d.id for d in skipping] == [(seq, two.id) for seq in (1, 2, 3)]


def test_a_page_stays_within_its_bytes_but_is_never_empty(store: Store) -> None:
    one, two = subscribe(store, "one", "two", subscriber="desk")
    messages = publish(store, 3, xml=b"x" * 100)
    deliver(store, messages, [one])
    deliver(store, messages, [two], payload=b"y" * 10)

    def count(bytes_max: int) -> int:
        return len(store.pending(one.queue_id, limit=9, bytes_max=bytes_max))

    # A message counts once, a result for itself.
    assert [count(n) for n in (0, 100, 109, 110, 209, 210, 219, 220, 330)] == [1, 1, 1, 2, 2, 3, 3, 4, 6]


def test_a_shared_lane_is_read_in_order_of_messages(store: Store) -> None:
    one, two = subscribe(store, "one", "two", subscriber="desk")
    messages = publish(store, 4)
    for subscription, message in itertools.product((two, one), reversed(messages)):
        deliver(store, [message], [subscription])
    assert ids(store, one.queue_id) == sorted(itertools.product((1, 2, 3, 4), (one.id, two.id)))


def test_recent_deliveries_show_acknowledged_ones_too(store: Store) -> None:
    one, two = subscribe(store, "one", "two", subscriber="desk")
    deliver(store, publish(store, 5), [one, two])
    with store.transaction() as transaction:
        transaction.acknowledge_up_to(one.queue_id, 4)
    assert [d.id for d in store.recent_deliveries(one.id, 3)] == [(5, one.id), (4, one.id), (3, one.id)]
    assert [d.id for d in store.recent_deliveries(one.id, 3, before_seq=3)] == [(2, one.id), (1, one.id)]
    assert store.recent_deliveries(99, 3) == []


def test_lanes_with_something_pending(store: Store) -> None:
    subscriptions = subscribe(store, *(f"s{n}" for n in range(20)))
    deliver(store, publish(store, 2), subscriptions[::2])
    with store.transaction() as transaction:
        transaction.acknowledge_up_to(subscriptions[0].queue_id, 2)
        transaction.acknowledge(subscriptions[2].queue_id, [DeliveryId(1, subscriptions[2].id)])
    expected = [s.queue_id for s in subscriptions[2::2]]
    assert store.queues_with_pending(s.queue_id for s in subscriptions) == expected
    assert store.queues_with_pending([]) == []


@pytest.mark.slow
def test_a_message_for_a_hundred_thousand_subscriptions(store: Store) -> None:
    count = 100_000
    subscriptions = subscribe(store, *(f"s{n}" for n in range(count)))
    (message,) = publish(store, 1, matches=count, received=1.0)
    deliver(store, [message], subscriptions)
    assert store.statistics().pending == count
    assert ids(store, subscriptions[-1].queue_id) == [(1, subscriptions[-1].id)]
    with store.transaction() as transaction:
        assert transaction.expire(before=2.0, bytes_max=None, limit=100, at=3.0) == 1
    assert store.statistics().pending == 0
    assert [error.count for error in store.errors(subscriptions[7].id, 5)] == [1]


class TestReplay:
    """A subscription that begins in the past."""

    def test_what_came_after_the_past_waits_for_it(self, store: Store) -> None:
        publish(store, 4)
        (one,) = subscribe(store, "one", replay_from=2)
        assert (one.replay_next, one.replay_end) == (2, 4)
        live = publish(store, 1)
        deliver(store, live, [one])
        assert (ids(store, one.queue_id), store.pending_count(one.queue_id)) == ([], 0)
        assert store.queues_with_pending([one.queue_id]) == []
        with store.transaction() as transaction:
            transaction.add_deliveries([NewDelivery(one.queue_id, 2, one.id, None)])
            transaction.set_replay(one.id, 3)
        assert ids(store, one.queue_id) == [(2, one.id)]
        with store.transaction() as transaction:
            transaction.acknowledge(one.queue_id, [DeliveryId(2, one.id)])
            transaction.acknowledge_up_to(one.queue_id, 99)
        with store.transaction() as transaction:
            transaction.add_deliveries([NewDelivery(one.queue_id, seq, one.id, None) for seq in (3, 4)])
            transaction.set_replay(one.id, None)
        assert ids(store, one.queue_id) == [(3, one.id), (4, one.id), (5, one.id)]
        result = store.subscription(1, "one")
        assert result is not None
        assert (result.replay_next, result.replay_end) == (None, 4)

    def test_a_replay_of_nothing_is_done(self, store: Store) -> None:
        publish(store, 2)
        (one,) = subscribe(store, "one", replay_from=3)
        assert (one.replay_next, one.replay_end) == (None, 2)
        deliver(store, publish(store, 1), [one])
        assert ids(store, one.queue_id) == [(3, one.id)]

    def test_deleting_one_that_replays_frees_a_lane_that_others_have_joined(self, store: Store) -> None:
        publish(store, 2)
        (one,) = subscribe(store, "one", subscriber="desk", replay_from=1)
        (two,) = subscribe(store, "two", subscriber="desk")
        deliver(store, publish(store, 1), [one, two])
        assert ids(store, one.queue_id) == []
        with store.transaction() as transaction:
            transaction.delete_subscription(one.id)
        assert ids(store, two.queue_id) == [(3, two.id)]


class TestSetAside:
    """What waits while its lane goes on."""

    @pytest.fixture(autouse=True)
    def early(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(queues, "SET_ASIDE_SPAN", 20)
        monkeypatch.setattr(queues, "SET_ASIDE_ACKNOWLEDGED", 20)

    @staticmethod
    def mark(store: Store) -> int:
        queue = store.queue(1, "desk")
        assert queue is not None
        return queue.acked

    @staticmethod
    def with_one_set_aside(store: Store) -> list[StoredSubscription]:
        """Two subscriptions that share a lane; the first has the first message set aside, the other has nothing."""
        stuck, one = subscribe(store, "stuck", "one", subscriber="desk")
        messages = publish(store, 60, received=1.0)
        deliver(store, messages[:1], [stuck])
        deliver(store, messages, [one])
        for seq in range(1, 61):
            with store.transaction() as transaction:
                transaction.acknowledge(one.queue_id, [DeliveryId(seq, one.id)])
        assert store.rows("SELECT seq, subscription_id FROM set_aside") == [(1, stuck.id)]
        return [stuck, one]

    def test_the_mark_passes_a_delivery_that_nobody_takes(self, store: Store, open_again: Callable[[], Store]) -> None:
        stuck, one = self.with_one_set_aside(store)
        assert self.mark(store) > 40
        store.close()
        store = open_again()
        assert ids(store, one.queue_id) == [(1, stuck.id)]
        assert (store.pending_count(one.queue_id), store.statistics(1).pending) == (1, 1)
        assert store.queues_with_pending([one.queue_id]) == [one.queue_id]
        with store.transaction() as transaction:
            transaction.acknowledge(one.queue_id, [DeliveryId(1, stuck.id)])
        assert (ids(store, one.queue_id), store.rows("SELECT * FROM set_aside")) == ([], [])

    def test_all_up_to_a_message_means_these_too(self, store: Store) -> None:
        _, one = self.with_one_set_aside(store)
        with store.transaction() as transaction:
            transaction.acknowledge_up_to(one.queue_id, 1)
        assert (ids(store, one.queue_id), store.rows("SELECT * FROM set_aside")) == ([], [])

    def test_it_goes_with_its_subscription(self, store: Store) -> None:
        stuck, one = self.with_one_set_aside(store)
        with store.transaction() as transaction:
            transaction.delete_subscription(stuck.id)
        assert (ids(store, one.queue_id), store.pending_count(one.queue_id)) == ([], 0)
        assert store.rows("SELECT * FROM set_aside") == []

    def test_it_expires_as_everything_else(self, store: Store) -> None:
        stuck, one = self.with_one_set_aside(store)
        with store.transaction() as transaction:
            transaction.expire(before=2.0, bytes_max=None, limit=99, at=3.0)
        assert [e.count for e in store.errors(stuck.id, 9)] == [1]
        assert store.errors(one.id, 9) == []
        assert store.rows("SELECT * FROM set_aside") == []
