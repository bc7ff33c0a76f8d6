"""What a broker keeps as a part of an overlay, in both databases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.store.filling import publish
from twigcast.broker.errors import Conflict
from twigcast.broker.model import Origin, StoredMessage
from twigcast.broker.store.store import Store, open_store, restore_store


def test_a_broker_is_the_same_after_each_start(open_again: Callable[[], Store]) -> None:
    store = open_again()
    assert store.overlay_identity() is None
    with store.transaction() as transaction:
        first = transaction.start_overlay("north", 1_000)
    assert (first.name, len(first.instance), first.incarnation) == ("north", 16, 1_000)
    store.close()
    store = open_again()
    assert store.overlay_identity() == first
    with store.transaction() as transaction:
        second = transaction.start_overlay("north", 7)
    # The clock was set back, and yet it is a later start.
    assert (second.instance, second.incarnation) == (first.instance, 1_001)
    with store.transaction() as transaction, pytest.raises(Conflict, match="'north'"):
        transaction.start_overlay("south", 2_000)


def test_horizons_and_names_of_others(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.name_roots({7: "south"})
        transaction.set_horizons({1 << 61: 12}, at=5.0)
    roots = store.overlay_roots()
    assert (roots[7].name, roots[7].horizon) == ("south", None)
    assert (roots[1 << 61].name, roots[1 << 61].horizon, roots[1 << 61].seen) == ("", 12, 5.0)
    with store.transaction() as transaction:
        transaction.set_horizons({7: 3, 1 << 61: 13}, at=6.0)
        transaction.name_roots({1 << 61: "west"})
    assert {identity: (root.name, root.horizon) for identity, root in store.overlay_roots().items()} == {
        7: ("south", 3),
        1 << 61: ("west", 13),
    }


def test_own_messages_are_those_without_an_origin(store: Store) -> None:
    publish(store, 10, xml=b"<abcd/>")
    with store.transaction() as transaction:
        transaction.add_origins([(2, Origin(9, 40, (9, 8))), (5, Origin(9, 41, (9,)))])
    assert store.overlay_origin(2) == Origin(9, 40, (9, 8))
    assert store.overlay_origin(3) is None
    assert store.overlay_origin(1 << 70) is None

    def own(**bounds: int) -> list[int]:
        asked = {"after": 0, "up_to": 1 << 70, "limit": 100, "bytes_max": 1 << 20} | bounds
        return [message.seq for message in store.own_messages(**asked)]

    assert own() == [1, 3, 4, 6, 7, 8, 9, 10]
    assert own(after=3, up_to=8) == [4, 6, 7, 8]
    assert own(limit=3) == [1, 3, 4]
    assert own(bytes_max=15) == [1, 3]
    assert own(bytes_max=1) == [1]
    assert own(after=10) == []
    with store.transaction() as transaction:
        # A broker that gives a number twice makes no commit fail.
        transaction.add_origins([(6, Origin(9, 41, ()))])
    assert store.overlay_origin(5) == Origin(9, 41, (9,))


def test_what_others_may_ask_for_is_kept_and_what_went_is_known(store: Store) -> None:
    publish(store, 10, received=1.0)
    with store.transaction() as transaction:
        transaction.add_origins([(2, Origin(9, 40, ()))])
        assert transaction.expire(before=2.0, bytes_max=0, limit=100, at=3.0, up_to=4) == 4
    assert store.forgotten() == 4
    assert store.overlay_origin(2) is None
    assert [m.seq for m in store.own_messages(after=0, up_to=99, limit=99, bytes_max=99)] == [5, 6, 7, 8, 9, 10]
    with store.transaction() as transaction:
        assert transaction.expire(before=None, bytes_max=0, limit=100, at=3.0, up_to=6) == 2
        assert transaction.expire(before=None, bytes_max=0, limit=3, at=3.0) == 3
    assert store.forgotten() == 9


def test_a_restored_store_is_another_broker(store: Store, store_address: str, tmp_path: Path) -> None:
    """What comes after the backup is known to the others; the restored broker gives the same numbers again."""
    with store.transaction() as transaction:
        first = transaction.start_overlay("north", 1)
        transaction.add_messages([StoredMessage(1, 1, "s", "m1", 0.0, b"<a/>")])
        transaction.set_horizons({5: 6}, at=0.0)
    store.backup(tmp_path / "backup")
    store.close()
    restore_store(store_address, tmp_path / "backup", overwrite=True)
    again = open_store(store_address)
    try:
        assert again.overlay_identity() is None
        assert again.overlay_roots()[5].horizon == 6
        with again.transaction() as transaction:
            assert transaction.start_overlay("north", 1).instance != first.instance
    finally:
        again.close()


def test_records_are_kept_replaced_and_removed_by_kind(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.set_overlay_records("log", {"002": b"b", "001": b"a"})
        transaction.set_overlay_records("source", {"001": b"another kind"})
    with store.transaction() as transaction:
        transaction.set_overlay_records("log", {"002": b"c", "003": b""}, ["001", "004"])
    assert list(store.overlay_records("log").items()) == [("002", b"c"), ("003", b"")]
    assert store.overlay_records("source") == {"001": b"another kind"}
    assert store.overlay_records("none") == {}


def test_a_restored_store_has_forgotten_what_it_promised(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.start_overlay("north", 1)
        transaction.set_overlay_records("registry", {"vote": b"[3, 7]"})
    with store.transaction() as transaction:
        assert transaction.forget_overlay_identity()
    assert store.overlay_records("registry") == {}
