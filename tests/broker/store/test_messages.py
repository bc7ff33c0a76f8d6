"""Messages in the store: accepted, rejected, found again, expired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.broker.store.filling import deliver, publish, subscribe
from twigcast.broker.model import DeliveryId, QueuedDelivery, StoredMessage, Submission
from twigcast.broker.store.store import Store


def test_a_message_comes_back_as_it_was(store: Store) -> None:
    body = "<a>\u00e9\u0000</a>".encode() + bytes(range(256))
    message = StoredMessage(1, 1, "feed \u2603", "id \u2603", 12.5, body, 7)
    with store.transaction() as transaction:
        assert transaction.next_seq() == 1
        transaction.add_messages([message])
        assert transaction.next_seq() == 2
    for result in (store.message(1, 1), store.message_by_id(1, "id \u2603"), *store.messages(1, limit=5)):
        assert result is not None
        assert (result.seq, result.tenant_id, result.source, result.message_id) == (1, 1, "feed \u2603", "id \u2603")
        assert (result.received, bytes(result.xml), result.matches) == (12.5, body, 7)


def test_summaries_say_all_but_the_body(store: Store) -> None:
    publish(store, 5, received=7.0, xml=b"<a>12345</a>", matches=3)
    results = store.message_summaries(1, limit=2)
    assert [one.seq for one in results] == [5, 4]
    one = results[0]
    assert (one.source, one.message_id, one.received, one.matches, one.size) == ("s", "m5", 7.0, 3, 12)
    assert [one.seq for one in store.message_summaries(1, after=1, up_to=3, limit=9)] == [3, 2]
    assert store.message_summaries(1, limit=9, source="another") == []
    assert store.message_summaries(2, limit=9) == []


def test_sequence_numbers_go_on_after_the_newest_has_gone(store: Store) -> None:
    publish(store, 3, received=1.0)
    with store.transaction() as transaction:
        assert transaction.expire(before=2.0, bytes_max=None, limit=10, at=3.0) == 3
    assert store.messages(1, limit=5) == []
    assert store.last_seq() == 3
    assert publish(store, 1)[0].seq == 4


def test_a_wrong_sequence_number_is_refused(store: Store) -> None:
    publish(store, 2)
    with store.transaction() as transaction, pytest.raises(ValueError, match="go on from 3"):
        transaction.add_messages([StoredMessage(2, 1, "s", "again", 0.0, b"<a/>")])


def test_nothing_stays_of_a_transaction_that_failed(store: Store) -> None:
    publish(store, 1)

    def fail() -> None:
        with store.transaction() as transaction:
            transaction.add_messages([StoredMessage(2, 1, "s", "x", 0.0, b"<a/>")])
            transaction.add_rejected(Submission(1, b"<"), code="c", reason="r", line=1, column=2, at=1.0)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        fail()
    assert store.last_seq() == 1
    assert [m.seq for m in store.messages(1, limit=5)] == [1]
    assert store.rejected(1, limit=5) == []
    assert publish(store, 1)[0].seq == 2


def test_another_tenant_sees_nothing(store: Store) -> None:
    publish(store, 2)
    with store.transaction() as transaction:
        other = transaction.add_tenant("other", {}).id
    assert store.message(other, 1) is None
    assert store.messages(other, limit=5) == []
    assert store.message_by_id(other, "m1") is None
    assert store.first_seq_since(other, 0.0) is None


def test_known_messages_are_found_by_tenant_source_and_id(store: Store) -> None:
    with store.transaction() as transaction:
        other = transaction.add_tenant("other", {}).id
        transaction.add_messages(
            [
                StoredMessage(1, 1, "s", "a", 1.0, b"<a/>", 3),
                StoredMessage(2, 1, "t", "a", 1.0, b"<a/>"),
                StoredMessage(3, other, "s", "b", 1.0, b"<a/>"),
            ]
        )
    with store.transaction() as transaction:
        existing = transaction.stored_messages(
            [
                Submission(1, b"", "s", "a"),
                Submission(1, b"", "s", "b"),
                Submission(other, b"", "s", "b"),
                Submission(1, b"", "s", None),
            ]
        )
    assert set(existing) == {(1, "s", "a"), (other, "s", "b")}
    assert (existing[1, "s", "a"].seq, existing[1, "s", "a"].matches, existing[1, "s", "a"].xml) == (1, 3, b"")


def test_pages_of_messages(store: Store) -> None:
    publish(store, 10)
    assert [m.seq for m in store.messages(1, after=3, limit=2)] == [4, 5]
    assert [m.seq for m in store.messages(1, after=3, up_to=5, limit=9)] == [4, 5]
    assert [m.seq for m in store.messages(1, limit=3, newest_first=True)] == [10, 9, 8]
    assert [m.seq for m in store.messages(1, up_to=4, limit=2, newest_first=True)] == [4, 3]
    assert store.messages(1, after=1 << 70, limit=2) == []
    assert store.message(1, 1 << 70) is None


def test_lists_are_read_in_both_directions(store: Store) -> None:
    publish(store, 5)
    (one,) = subscribe(store, "one")
    with store.transaction() as transaction:
        for _ in range(5):
            transaction.add_rejected(Submission(1, b"<<"), code="c", reason="r", line=None, column=None, at=0.0)
        for message in store.messages(1, limit=5):
            delivery = QueuedDelivery(DeliveryId(message.seq, one.id), one.queue_id, one.key, message)
            transaction.dead_letter([(delivery, 1, "r")], at=0.0)
    listed: list[Callable[..., list[int]]] = [
        lambda **position: [m.id for m in store.rejected(1, limit=2, **position)],
        lambda **position: [letter.id for letter in store.dead_letters(1, limit=2, **position)],
        lambda **position: [letter.id for letter in store.dead_letters(1, limit=2, key="one", **position)],
    ]
    for numbers in listed:
        assert (numbers(), numbers(before_id=4), numbers(after_id=1)) == ([5, 4], [3, 2], [2, 3])
        assert (numbers(after_id=5), numbers(after_id=1 << 70)) == ([], [])
    assert [m.seq for m in store.message_summaries(1, after=1, limit=2, oldest_first=True)] == [2, 3]
    subscribe(store, *"abcde")
    assert [s.key for s in store.subscriptions(1, before_key="d", limit=2)] == ["c", "b"]


def test_a_page_can_be_bounded_by_its_bytes(store: Store) -> None:
    publish(store, 10, xml=b"x" * 1_000)

    def seqs(bytes_max: int, **more: Any) -> list[int]:
        return [m.seq for m in store.messages(1, limit=8, bytes_max=bytes_max, **more)]

    assert seqs(3_500) == [1, 2, 3]
    assert seqs(10) == [1]
    assert seqs(3_000, newest_first=True) == [10, 9, 8]
    assert seqs(1 << 30, after=4) == [5, 6, 7, 8, 9, 10]
    assert seqs(1 << 30) == list(range(1, 9))
    assert seqs(10, after=10) == []


def test_replay_by_time_leaves_nothing_out_after_a_clock_step(store: Store) -> None:
    for received in (100.0, 101.0, 50.0, 51.0, 102.0):
        publish(store, 1, received=received)
    assert store.first_seq_since(1, 101.0) == 2
    assert store.first_seq_since(1, 50.0) == 1
    assert store.first_seq_since(1, 101.5) == 5
    assert store.first_seq_since(1, 103.0) is None


def test_rejected_messages_are_kept_whole_until_removed(store: Store) -> None:
    with store.transaction() as transaction:
        ids = [
            transaction.add_rejected(
                Submission(1, b"<a", "s", f"m{n}"), code="malformed", reason="why", line=n, column=None, at=float(n)
            )
            for n in range(3)
        ]
    assert [r.id for r in store.rejected(1, limit=2)] == [ids[2], ids[1]]
    assert [r.id for r in store.rejected(1, before_id=ids[1], limit=2)] == [ids[0]]
    result = store.rejected_message(1, ids[2])
    assert result is not None
    assert (result.body, result.code, result.reason, result.line, result.column) == (b"<a", "malformed", "why", 2, None)
    assert (result.source, result.message_id, result.received) == ("s", "m2", 2.0)
    assert store.rejected_message(2, ids[2]) is None
    with store.transaction() as transaction:
        assert transaction.remove_rejected([ids[0], ids[2], 10**30]) == 2
    assert [r.id for r in store.rejected(1, limit=9)] == [ids[1]]


def test_what_is_pending_does_not_expire_silently(store: Store) -> None:
    one, two = subscribe(store, "one", "two")
    for n in range(4):
        (message,) = publish(store, 1, received=float(n), matches=2)
        deliver(store, [message], [one, two])
    with store.transaction() as transaction:
        transaction.acknowledge_up_to(one.queue_id, 2)
    with store.transaction() as transaction:
        assert transaction.expire(before=3.0, bytes_max=None, limit=2, at=9.0) == 2
        assert transaction.expire(before=3.0, bytes_max=None, limit=2, at=9.5) == 1
        assert transaction.expire(before=3.0, bytes_max=None, limit=2, at=9.5) == 0
    assert [(e.count, e.seq, e.at) for e in store.errors(one.id, 9)] == [(1, 3, 9.5)]
    assert [(e.count, e.seq, e.at) for e in store.errors(two.id, 9)] == [(1, 3, 9.5), (2, 2, 9.0)]
    assert [d.id.seq for d in store.pending(two.queue_id, limit=9, bytes_max=999)] == [4]
    assert [d.id.seq for d in store.recent_deliveries(one.id, 9)] == [4]


def test_retention_by_size_lets_the_oldest_go_whether_accepted_or_rejected(store: Store) -> None:
    (one,) = subscribe(store, "one")
    for n in range(5):
        (message,) = publish(store, 1, received=float(n), xml=b"x" * 100)
        deliver(store, [message], [one], payload=b"y" * 50)
        with store.transaction() as transaction:
            transaction.add_rejected(
                Submission(1, b"z" * 100), code="c", reason="r", line=None, column=None, at=n + 0.5
            )
    # 250 bytes for each of the five pairs: to have 800, the two oldest pairs go.
    with store.transaction() as transaction:
        assert transaction.expire(before=None, bytes_max=1250, limit=10, at=9.0) == 0
        assert transaction.expire(before=None, bytes_max=750, limit=10, at=9.0) == 2
    assert [m.seq for m in store.messages(1, limit=9)] == [3, 4, 5]
    assert [r.received for r in store.rejected(1, limit=9)] == [4.5, 3.5, 2.5]
    assert store.statistics(1).bytes == 750
    with store.transaction() as transaction:
        assert transaction.expire(before=None, bytes_max=0, limit=10, at=9.0) == 3
    assert store.statistics(1).bytes == 0
    assert store.rejected(1, limit=9) == []
