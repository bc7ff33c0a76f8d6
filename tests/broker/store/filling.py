"""Fills stores for tests."""

from __future__ import annotations

from collections.abc import Sequence

from twigcast.broker.model import NewDelivery, NewSubscription, StoredMessage, StoredSubscription
from twigcast.broker.store.store import Store


def publish(
    store: Store, count: int, *, received: float = 0.0, xml: bytes = b"<a/>", matches: int = 0
) -> list[StoredMessage]:
    """Store messages, in one transaction; their ids are ``m1``, ``m2``, ... by sequence number."""
    with store.transaction() as transaction:
        first = transaction.next_seq()
        messages = [
            StoredMessage(seq, 1, "s", f"m{seq}", received, xml, matches) for seq in range(first, first + count)
        ]
        transaction.add_messages(messages)
    return messages


def deliver(
    store: Store,
    messages: Sequence[StoredMessage],
    subscriptions: Sequence[StoredSubscription],
    payload: bytes | None = None,
) -> None:
    """Store a delivery of each message for each subscription."""
    with store.transaction() as transaction:
        transaction.add_deliveries(
            NewDelivery(s.queue_id, message.seq, s.id, payload) for message in messages for s in subscriptions
        )


def subscribe(
    store: Store, *keys: str, subscriber: str | None = None, replay_from: int | None = None
) -> list[StoredSubscription]:
    """Add subscriptions, none of which may be refused."""
    new = [NewSubscription(1, key, "//a", subscriber=subscriber, replay_from=replay_from) for key in keys]
    with store.transaction() as transaction:
        added = transaction.add_subscriptions(new, at=1.0)
    for one in added:
        if isinstance(one, Exception):
            raise one
    return [one for one in added if isinstance(one, StoredSubscription)]
