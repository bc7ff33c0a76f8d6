"""Subscriptions in the store, their lanes, errors and dead letters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.store.filling import deliver, publish, subscribe
from twigcast.broker.errors import Conflict, Invalid, UnknownObject
from twigcast.broker.model import (
    DeliveryId,
    DeliverySettings,
    ErrorRecord,
    NewQuery,
    NewSubscription,
    StoredSubscription,
    SubscriptionState,
)
from twigcast.broker.store import subscriptions as subscriptions_module
from twigcast.broker.store.store import Store

WEBHOOK = DeliverySettings("webhook", "https://example.org/hook", "s3cret")
WEBSUB = DeliverySettings("websub", "https://example.org/cb", "s", 99.5, "https://hub/topic", "//a[b='ü']")
OTHER = DeliverySettings("other", options={"exchange": "ü", "durable": True})


def add(store: Store, *new: NewSubscription) -> list[StoredSubscription | Exception]:
    with store.transaction() as transaction:
        return transaction.add_subscriptions(new, at=7.0)


def found(store: Store, key: str) -> StoredSubscription:
    subscription = store.subscription(1, key)
    assert subscription is not None
    return subscription


def test_many_are_found_by_key_and_given_other_queries(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions_module, "AMONG_MAX", 2)
    with store.transaction() as transaction:
        other = transaction.add_tenant("other", {}).id
    add(store, *(NewSubscription(1, f"k{n}", "//a") for n in range(5)), NewSubscription(other, "k1", "//o"))
    existing = store.subscriptions_by_key(1, ["k0", "k1", "k4", "none", "k2"])
    assert existing == {key: found(store, key) for key in ("k0", "k1", "k2", "k4")}
    assert store.subscriptions_by_key(1, []) == {}
    with store.transaction() as transaction:
        transaction.delete_subscription(existing["k4"].id)
        changed = transaction.replace_queries(
            [NewQuery(existing[key], f"//{key}", {"p": f"urn:{key}"}, "legacy") for key in ("k2", "k0", "k1", "k4")]
        )
    assert {s.key: s for s in changed} == {key: found(store, key) for key in ("k0", "k1", "k2")}
    for key in ("k0", "k1", "k2"):
        requested = replace(existing[key], query=f"//{key}", namespaces={"p": f"urn:{key}"}, dialect="legacy")
        assert found(store, key) == requested
    assert found(store, "k3").query == "//a"
    untouched = store.subscription(other, "k1")
    assert untouched is not None
    assert untouched.query == "//o"


def test_a_subscription_comes_back_as_it_was(store: Store) -> None:
    new = [
        NewSubscription(1, "pull ☃", "//a[. = '☃']", {"": "urn:d", "p": "urn:ü"}, "legacy"),
        NewSubscription(1, "hook", "//b", delivery=WEBHOOK),
        NewSubscription(1, "sub", "//c", delivery=WEBSUB),
        NewSubscription(1, "shared", "//d", subscriber="desk"),
        NewSubscription(1, "queued", "//e", delivery=OTHER),
    ]
    added = [one for one in add(store, *new) if isinstance(one, StoredSubscription)]
    assert [one.id for one in added] == [1, 2, 3, 4, 5]
    for requested, one in zip(new, added, strict=True):
        assert (one.key, one.query, one.namespaces, one.dialect, one.delivery, one.created, one.state) == (
            requested.key,
            requested.query,
            requested.namespaces,
            requested.dialect,
            requested.delivery,
            7.0,
            SubscriptionState.ACTIVE,
        )
        assert one.subscriber == (requested.subscriber or requested.key)
        assert found(store, one.key) == one
    assert list(store.all_subscriptions()) == added
    assert list(store.all_subscriptions(pushed_only=True)) == [*added[1:3], added[4]]
    assert store.subscription_count(1) == 5
    assert store.subscription(2, "hook") is None


def test_keys_are_taken_within_one_request_too(store: Store) -> None:
    first, second, third = add(
        store, NewSubscription(1, "a", "//a"), NewSubscription(1, "a", "//b"), NewSubscription(1, "b", "//b")
    )
    assert isinstance(first, StoredSubscription)
    assert isinstance(third, StoredSubscription)
    assert str(second) == "there is a subscription 'a' already"
    (again,) = add(store, NewSubscription(1, "a", "//c"))
    assert isinstance(again, Conflict)
    assert [s.query for s in store.subscriptions(1, limit=9)] == ["//a", "//b"]


def test_another_tenant_has_keys_and_subscribers_of_its_own(store: Store) -> None:
    with store.transaction() as transaction:
        other = transaction.add_tenant("other", {}).id
    one, two = add(store, NewSubscription(1, "a", "//a"), NewSubscription(other, "a", "//a"))
    assert isinstance(one, StoredSubscription)
    assert isinstance(two, StoredSubscription)
    assert one.queue_id != two.queue_id
    assert store.subscriptions(other, limit=9) == [two]


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (DeliverySettings(), DeliverySettings(), True),
        (DeliverySettings(), WEBHOOK, False),
        (WEBHOOK, DeliverySettings(), False),
        (WEBHOOK, WEBHOOK, False),
    ],
)
def test_only_pulled_deliveries_share_a_subscriber(
    store: Store, first: DeliverySettings, second: DeliverySettings, shared: bool
) -> None:
    one, two = add(
        store,
        NewSubscription(1, "a", "//a", subscriber="desk", delivery=first),
        NewSubscription(1, "b", "//a", subscriber="desk", delivery=second),
    )
    assert isinstance(one, StoredSubscription)
    assert isinstance(two, StoredSubscription if shared else Conflict)
    if isinstance(two, StoredSubscription):
        assert two.queue_id == one.queue_id


def test_replay_needs_a_new_subscriber(store: Store) -> None:
    publish(store, 2)
    _, refused = add(
        store,
        NewSubscription(1, "a", "//a", subscriber="desk"),
        NewSubscription(1, "b", "//a", subscriber="desk", replay_from=1),
    )
    assert isinstance(refused, Conflict)


def test_pages_of_subscriptions_are_in_order_of_code_points(store: Store) -> None:
    keys = ["b", "B", "a-1", "a1", "ä", "a", "10", "9", "☃"]
    subscribe(store, *keys)
    subscribe(store, "z", "y", subscriber="desk")
    assert [s.key for s in store.subscriptions(1, limit=99)] == sorted([*keys, "y", "z"])
    assert [s.key for s in store.subscriptions(1, after_key="a", limit=2)] == ["a-1", "a1"]
    assert [s.key for s in store.subscriptions(1, limit=9, subscriber="desk")] == ["y", "z"]
    assert [s.key for s in store.subscriptions(1, after_key="y", limit=9, subscriber="desk")] == ["z"]
    assert store.subscriptions(1, limit=9, subscriber="nobody") == []


def test_all_subscriptions_come_in_pages(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions_module, "PAGE", 3)
    subscriptions = subscribe(store, *(f"s{n}" for n in range(10)))
    assert list(store.all_subscriptions()) == subscriptions


def test_replacing_keeps_id_lane_and_what_is_pending(store: Store) -> None:
    (one,) = subscribe(store, "one")
    deliver(store, publish(store, 1), [one])
    with store.transaction() as transaction:
        changed = transaction.replace_subscription(
            one.id, query="//z", namespaces={"p": "urn:x"}, dialect="legacy", params={"n": 1}, delivery=WEBHOOK
        )
    assert changed == replace(
        one, query="//z", namespaces={"p": "urn:x"}, dialect="legacy", params={"n": 1}, delivery=WEBHOOK
    )
    assert found(store, "one") == changed
    assert store.pending_count(one.queue_id) == 1
    (refused,) = add(store, NewSubscription(1, "two", "//a", subscriber="one"))
    assert isinstance(refused, Conflict)


def test_a_shared_subscriber_cannot_become_a_webhook(store: Store) -> None:
    one, _ = subscribe(store, "one", "two", subscriber="desk")
    with store.transaction() as transaction, pytest.raises(Conflict, match="shared"):
        transaction.replace_subscription(
            one.id, query="//z", namespaces={}, dialect="xpath", params={}, delivery=WEBHOOK
        )
    assert found(store, "one") == one


def test_state_and_reason(store: Store) -> None:
    subscribe(store, "one")
    with store.transaction() as transaction:
        transaction.set_subscription_state(1, SubscriptionState.SUSPENDED, "its host is gone")
    one = found(store, "one")
    assert (one.state, one.reason) == (SubscriptionState.SUSPENDED, "its host is gone")


def test_what_is_not_there_cannot_be_changed(store: Store) -> None:
    with store.transaction() as transaction:
        with pytest.raises(UnknownObject):
            transaction.set_subscription_state(9, SubscriptionState.PAUSED, None)
        with pytest.raises(UnknownObject):
            transaction.set_replay(9, None)
        with pytest.raises(UnknownObject):
            transaction.delete_subscription(9)
        with pytest.raises(UnknownObject):
            transaction.replace_subscription(
                9, query="//z", namespaces={}, dialect="xpath", params={}, delivery=DeliverySettings()
            )


def test_a_deleted_subscription_leaves_nothing_and_its_id_is_never_used_again(store: Store) -> None:
    one, two = subscribe(store, "one", "two", subscriber="desk")
    messages = publish(store, 3)
    deliver(store, messages, [one, two])
    with store.transaction() as transaction:
        transaction.add_errors([ErrorRecord(one.id, 1.0, "x")])
        transaction.dead_letter([(store.pending(one.queue_id, limit=1, bytes_max=99)[0], 3, "x")], at=1.0)
        transaction.delete_subscription(one.id)
    assert [d.id for d in store.pending(one.queue_id, limit=9, bytes_max=99)] == [(seq, two.id) for seq in (1, 2, 3)]
    assert (store.errors(one.id, 9), store.dead_letters(1, limit=9)) == ([], [])
    with store.transaction() as transaction:
        transaction.delete_subscription(two.id)
    assert store.queue(1, "desk") is None
    statistics = store.statistics()
    assert (statistics.lanes, statistics.pending, statistics.subscriptions) == (0, 0, 0)
    (three,) = subscribe(store, "one", subscriber="desk")
    assert three.id > two.id
    assert three.queue_id > two.queue_id
    assert store.pending(three.queue_id, limit=9, bytes_max=99) == []


def test_a_large_subscription_is_gone_at_once_and_removed_in_steps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions_module, "REMOVED_AT_ONCE", 5)
    one, two = subscribe(store, "one", "two", subscriber="desk")
    deliver(store, publish(store, 40), [one, two])
    with store.transaction() as transaction:
        transaction.delete_subscription(one.id)
    stored = "SELECT COUNT(*) FROM deliveries"
    assert (store.rows(stored)[0][0], store.pending_count(one.queue_id), store.statistics().pending) == (75, 40, 40)
    with store.transaction() as transaction:
        transaction.acknowledge(two.queue_id, [DeliveryId(seq, two.id) for seq in range(1, 11)])
    queue = store.queue(1, "desk")
    assert queue is not None
    assert queue.acked == 10
    for left in (65, 55, 45, 40, 40):
        with store.transaction() as transaction:
            transaction.expire(before=None, bytes_max=None, limit=1, at=1.0)
        assert store.rows(stored)[0][0] == left
    assert store.rows("SELECT * FROM leftovers") == []


def test_errors_are_kept_newest_first_and_bounded(store: Store) -> None:
    one, two = subscribe(store, "one", "two")
    count = subscriptions_module.ERRORS_KEPT + 7
    with store.transaction() as transaction:
        transaction.add_errors(ErrorRecord(one.id, float(n), f"e{n}", n, n) for n in range(count))
        transaction.add_errors([ErrorRecord(two.id, 1.0, "other")])
        transaction.add_errors([])
    errors = store.errors(one.id, 1_000)
    assert errors[0] == ErrorRecord(one.id, count - 1.0, f"e{count - 1}", count - 1, count - 1)
    assert [e.seq for e in errors] == list(range(count - 1, 6, -1))
    assert store.errors(two.id, 5) == [ErrorRecord(two.id, 1.0, "other")]


def test_half_a_character_is_refused_and_nothing_breaks(store: Store) -> None:
    with pytest.raises(Invalid):
        store.subscription(1, "\ud800")
    with pytest.raises(Invalid):
        add(store, NewSubscription(1, "\udfff", "//a"))
    subscribe(store, "fine")
    assert [s.key for s in store.subscriptions(1, limit=9)] == ["fine"]


class TestDeadLetters:
    """Deliveries that were given up."""

    @staticmethod
    def dead_letter(store: Store, payload: bytes | None = None) -> tuple[StoredSubscription, list[int]]:
        webhook = DeliverySettings("webhook", url="https://example.org/in")
        (one,) = add(store, NewSubscription(1, "one", "//a", delivery=webhook))
        assert isinstance(one, StoredSubscription)
        messages = publish(store, 3, received=1.0, xml=b"<whole/>")
        deliver(store, messages, [one], payload)
        pending = store.pending(one.queue_id, limit=2, bytes_max=999)
        with store.transaction() as transaction:
            return one, transaction.dead_letter([(d, 4, f"HTTP 500 on {d.id}") for d in pending], at=9.0)

    def test_they_leave_the_lane_and_outlive_their_message(self, store: Store) -> None:
        one, (first, second) = self.dead_letter(store)
        assert [d.id.seq for d in store.pending(one.queue_id, limit=9, bytes_max=99)] == [3]
        with store.transaction() as transaction:
            assert transaction.expire(before=2.0, bytes_max=None, limit=9, at=9.0) == 3
        latest, earliest = store.dead_letters(1, limit=9)
        assert (latest.id, earliest.id) == (second, first)
        assert (latest.key, latest.seq, latest.message_id, latest.attempts) == ("one", 2, "m2", 4)
        assert (latest.reason, latest.at, latest.body) == (f"HTTP 500 on 2-{one.id}", 9.0, b"<whole/>")
        assert [d.id for d in store.dead_letters(1, before_id=second, limit=9, key="one")] == [first]
        assert store.dead_letters(1, limit=9, key="two") == []
        assert store.dead_letters(2, limit=9) == []
        assert store.statistics(1).dead_letters == 2

    @pytest.mark.parametrize("payload", [None, b"<result/>"])
    def test_what_is_revived_is_whole_and_gone_when_acknowledged(self, store: Store, payload: bytes | None) -> None:
        one, (first, second) = self.dead_letter(store, payload)
        with store.transaction() as transaction:
            transaction.expire(before=2.0, bytes_max=None, limit=9, at=9.0)
        with store.transaction() as transaction:
            redriven = transaction.redrive([second, first, 99, 10**30])
        assert [(d.id, d.queue_id, d.key, d.redelivered) for d in redriven] == [
            ((seq, one.id), one.queue_id, "one", True) for seq in (1, 2)
        ]
        assert [d.body for d in redriven] == [payload or b"<whole/>"] * 2
        assert store.dead_letters(1, limit=9) == []
        with store.transaction() as transaction:
            assert transaction.redrive([first]) == []
            transaction.acknowledge(one.queue_id, [redriven[0].id])
            assert transaction.dead_letter([(redriven[1], 2, "again")], at=10.0) == [second]
        (left,) = store.dead_letters(1, limit=9)
        assert (left.id, left.attempts, left.reason, left.at) == (second, 6, "again", 10.0)

    def test_they_can_be_removed(self, store: Store) -> None:
        _, ids = self.dead_letter(store)
        with store.transaction() as transaction:
            assert transaction.remove_dead_letters([*ids, 99, 10**30]) == 2
        assert store.dead_letters(1, limit=9) == []
