"""Lists of subscriptions, as the console asks for them: by text, by state, by message."""

from __future__ import annotations

import random

import pytest

from tests.broker.store.filling import deliver, publish, subscribe
from tests.seeds import printed_seed
from twigcast.broker.model import NewSubscription, SubscriptionState
from twigcast.broker.store.store import Store


def _add(store: Store, queries: dict[str, str], tenant_id: int = 1) -> None:
    with store.transaction() as transaction:
        added = transaction.add_subscriptions([NewSubscription(tenant_id, k, q) for k, q in queries.items()], at=1.0)
    assert not [one for one in added if isinstance(one, Exception)]


def _keys(store: Store, text: str, **more: object) -> list[str]:
    return [s.key for s in store.subscriptions(1, limit=100, containing=text, **more)]  # type: ignore[arg-type]


def test_text_is_found_in_keys_and_queries(store: Store) -> None:
    _add(store, {"Flood-desk": "//info", "b": "/feed[title = 'flood']", "c": "//x", "d 100%": "//y", "e_f": "//a_b"})
    assert _keys(store, "FLOOD") == ["Flood-desk", "b"]
    assert _keys(store, "flood", after_key="Flood-desk") == ["b"]
    assert _keys(store, "%") == ["d 100%"]
    assert _keys(store, "_") == ["e_f"]
    assert _keys(store, "!") == []
    assert _keys(store, "' OR 1=1 --") == []


def test_search_agrees_with_python(store: Store) -> None:
    seed = printed_seed()
    generator = random.Random(seed)
    existing = {
        "".join(generator.choices("aB%_!'\\ ", k=5)): "".join(generator.choices("/[]=xX%_", k=6)) for _ in range(80)
    }
    _add(store, existing)
    for _ in range(60):
        text = "".join(generator.choices("abBxX%_!'\\/", k=generator.randint(1, 3)))
        requested = sorted(k for k, q in existing.items() if text.lower() in k.lower() or text.lower() in q.lower())
        assert _keys(store, text) == requested, text


@pytest.mark.parametrize("state", list(SubscriptionState))
def test_subscriptions_of_a_state_are_listed_and_counted(store: Store, state: SubscriptionState) -> None:
    result = subscribe(store, "a", "b", "c", "d")
    with store.transaction() as transaction:
        transaction.set_subscription_state(result[1].id, SubscriptionState.SUSPENDED, "too slow")
        transaction.set_subscription_state(result[2].id, SubscriptionState.PAUSED, None)
    requested = {"active": ["a", "d"], "suspended": ["b"], "paused": ["c"]}[state.value]
    assert [s.key for s in store.subscriptions(1, limit=9, state=state)] == requested
    assert store.subscription_count(1, state) == len(requested)
    assert store.subscription_count(1) == 4
    assert store.subscription_count(2, state) == 0


def test_a_message_knows_the_keys_that_took_it(store: Store) -> None:
    result = subscribe(store, "b", "a", "c")
    first, second = publish(store, 2)
    deliver(store, [first], result[:2])
    deliver(store, [second], result[2:])
    assert store.keys_of_message(1, first.seq, 10) == ["a", "b"]
    assert store.keys_of_message(1, first.seq, 1) == ["a"]
    assert store.keys_of_message(1, second.seq, 10) == ["c"]
    assert store.keys_of_message(2, first.seq, 10) == []
    assert store.keys_of_message(1, 1 << 70, 10) == []
