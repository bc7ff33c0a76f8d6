"""Tenants, tokens, sources, counts, upkeep."""

from __future__ import annotations

import hashlib

import pytest

from tests.broker.store.filling import deliver, publish, subscribe
from twigcast.broker.errors import Conflict, UnknownObject
from twigcast.broker.model import Scope, Source, Submission
from twigcast.broker.store.store import Store


def test_there_is_a_tenant_from_the_start(store: Store) -> None:
    assert [(t.id, t.name, t.limits) for t in store.tenants()] == [(1, "default", {})]


def test_tenants(store: Store) -> None:
    with store.transaction() as transaction:
        other = transaction.add_tenant("other", {"subscriptions": 5})
        with pytest.raises(Conflict):
            transaction.add_tenant("other", {})
        transaction.set_tenant_limits(1, {"messages": 7})
        with pytest.raises(UnknownObject):
            transaction.set_tenant_limits(99, {})
    assert other.id == 2
    assert [(t.name, t.limits) for t in store.tenants()] == [
        ("default", {"messages": 7}),
        ("other", {"subscriptions": 5}),
    ]


def test_tokens(store: Store) -> None:
    digest = hashlib.sha256(b"secret").digest()
    with store.transaction() as transaction:
        token = transaction.add_token(1, "mine", frozenset({Scope.PUBLISH, Scope.ADMIN}), digest, at=5.0)
    assert store.token_by_digest(digest) == token
    assert store.tokens(1) == [token]
    assert (token.scopes, token.created) == (frozenset({Scope.PUBLISH, Scope.ADMIN}), 5.0)
    assert store.token_by_digest(b"x" * 32) is None
    assert store.tokens(2) == []
    with store.transaction() as transaction:
        transaction.delete_token(token.id)
        with pytest.raises(UnknownObject):
            transaction.delete_token(token.id)
    assert store.token_by_digest(digest) is None


def test_sources(store: Store) -> None:
    with store.transaction() as transaction:
        created = transaction.put_source(Source(0, 1, "news", "rss", "http://x/feed", 60, "<!ELEMENT a ANY>"))
        transaction.set_source_state(created.id, {"etag": "é", "failures": 2})
        with pytest.raises(UnknownObject):
            transaction.set_source_state(99, {})
    with store.transaction() as transaction:
        changed = transaction.put_source(Source(0, 1, "news", "atom", None, 1.5, paused=True))
    assert changed.id == created.id
    assert store.source(1, "news") == changed
    assert (changed.kind, changed.url, changed.interval, changed.dtd, changed.paused, dict(changed.state)) == (
        "atom",
        None,
        1.5,
        None,
        True,
        {"etag": "é", "failures": 2},
    )
    assert store.sources() == store.sources(1) == [changed]
    assert (store.sources(2), store.source(2, "news")) == ([], None)
    with store.transaction() as transaction:
        transaction.delete_source(created.id)
        with pytest.raises(UnknownObject):
            transaction.delete_source(created.id)
    assert store.sources() == []


def test_counts_of_a_tenant_and_of_all(store: Store) -> None:
    (one,) = subscribe(store, "one")
    deliver(store, publish(store, 3, xml=b"12345"), [one])
    with store.transaction() as transaction:
        other = transaction.add_tenant("other", {}).id
        transaction.add_rejected(Submission(other, b"<<"), code="c", reason="r", line=None, column=None, at=0.0)
        transaction.acknowledge_up_to(one.queue_id, 1)
    mine, others, everyone = store.statistics(1), store.statistics(other), store.statistics()
    assert (mine.messages, mine.rejected, mine.subscriptions, mine.lanes, mine.pending, mine.bytes) == (
        3,
        0,
        1,
        1,
        2,
        15,
    )
    assert (others.messages, others.rejected, others.pending, others.bytes) == (0, 1, 0, 2)
    assert (everyone.messages, everyone.rejected, everyone.pending) == (3, 1, 2)
    assert everyone.bytes > 1_000


def test_the_secret_stays(store: Store) -> None:
    assert len(store.secret()) == 32
    assert store.secret() == store.secret()


def test_vacuum_gives_room_back(store: Store) -> None:
    (one,) = subscribe(store, "one")
    deliver(store, publish(store, 500, received=1.0, xml=b"x" * 10_000), [one])
    full = store.statistics().bytes
    with store.transaction() as transaction:
        assert transaction.expire(before=2.0, bytes_max=None, limit=1_000, at=3.0) == 500
    store.vacuum()
    assert store.statistics().bytes < full / 3
    deliver(store, publish(store, 1), [one])
    assert store.pending_count(one.queue_id) == 1
