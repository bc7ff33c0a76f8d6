"""Opening a store: one broker, migrations, damage; backups and putting them back."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.broker.store.filling import deliver, publish, subscribe
from tests.services.postgresql import PostgresqlServer
from twigcast.broker.errors import Conflict, Invalid, StoreDamaged, StoreInUse, StoreUnavailable, UnknownObject
from twigcast.broker.model import Statistics
from twigcast.broker.store import postgresql, schema, sqlite
from twigcast.broker.store.database import DatabaseSession
from twigcast.broker.store.store import Store, open_store, restore_store
from twigcast.errors import OutputError

HOLDS_THE_STORE = """
import sys
from twigcast.broker.store.store import open_store
store = open_store(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
store.close()
"""


def counts(store: Store) -> tuple[int, ...]:
    """What a store holds."""
    s: Statistics = store.statistics()
    return (s.messages, s.rejected, s.subscriptions, s.lanes, s.pending, s.dead_letters, store.last_seq())


def fill(store: Store) -> tuple[int, ...]:
    """Put something in; the counts."""
    (one,) = subscribe(store, f"key{store.last_seq()}")
    deliver(store, publish(store, 5), [one])
    return counts(store)


def elsewhere(address: str, folder: Path, request: pytest.FixtureRequest) -> str:
    """Another place for a store of the same kind."""
    if "://" not in address:
        return str(folder)
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    return server.url(server.new_database())


class TestLock:
    """One broker for each store."""

    def test_a_second_broker_is_told_who_holds_the_store(self, store_address: str) -> None:
        first = subprocess.Popen(
            [sys.executable, "-c", HOLDS_THE_STORE, store_address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert first.stdin is not None
        assert first.stdout is not None
        with first:
            assert first.stdout.readline() == "open\n"
            with pytest.raises(StoreInUse, match=rf"another broker works on .*\b{first.pid}\b"):
                open_store(store_address)
            first.kill()
            first.wait()
        # However the first one ended, its lock has ended with it.
        open_store(store_address).close()

    def test_closing_gives_the_lock_back(self, store_address: str) -> None:
        for _ in range(3):
            store = open_store(store_address)
            store.close()
            store.close()

    def test_an_operator_works_beside_the_broker(self, store: Store, store_address: str) -> None:
        beside = open_store(store_address, exclusive=False)
        with beside.transaction() as transaction:
            beside_tenant = transaction.add_tenant("beside", {})
        with store.transaction() as transaction:
            tenant = transaction.add_tenant("broker's", {})
        assert tenant.id == beside_tenant.id + 1
        assert [t.name for t in store.tenants()] == ["default", "beside", "broker's"]
        beside.close()
        fill(store)

    def test_an_operator_can_be_first(self, store_address: str) -> None:
        beside = open_store(store_address, exclusive=False)
        broker = open_store(store_address)
        assert beside.tenants() == broker.tenants()
        beside.close()
        broker.close()

    def test_a_closed_store_says_so(self, store: Store) -> None:
        store.tenants()
        store.close()
        with pytest.raises(StoreUnavailable):
            store.tenants()
        with pytest.raises(StoreUnavailable), store.transaction():
            pass


class TestMigrations:
    """Older and newer stores."""

    @staticmethod
    def at_version(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:version])
        for module in (schema, sqlite, postgresql):
            monkeypatch.setattr(module, "CURRENT", version)

    @pytest.mark.parametrize("version", range(1, schema.CURRENT))
    def test_an_older_store_keeps_everything(
        self, store_address: str, version: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as older:
            self.at_version(version, older)
            database: sqlite.SqliteDatabase | postgresql.PostgresqlDatabase
            if "://" in store_address:
                database = postgresql.PostgresqlDatabase(store_address)
            else:
                database = sqlite.SqliteDatabase(Path(store_address))
            with database.writing() as session:
                self.fill_version_1(session)
            database.close()
        store = open_store(store_address)
        (one,) = store.all_subscriptions()
        assert (one.id, one.key, one.query, one.subscriber, one.queue_id) == (7, "one", "//a", "one", 3)
        assert [d.id for d in store.pending(3, limit=9, bytes_max=999)] == [(seq, 7) for seq in (2, 3, 4, 5)]
        assert len(store.secret()) == 32
        assert (store.last_seq(), store.statistics(1).bytes) == (5, 20)
        (two,) = subscribe(store, "two")
        assert (two.id, two.queue_id) == (8, 4)
        fill(store)
        store.close()

    @staticmethod
    def fill_version_1(session: DatabaseSession) -> None:
        """What a store of the first version could hold, written as it was then."""
        for statement in (
            "INSERT INTO lanes (id, tenant_id, subscriber, kind, acked) VALUES (3, 1, 'one', 'pull', 1)",
            "INSERT INTO subscriptions (id, tenant_id, key, query, lane_id, dialect, kind, state, created) "
            "VALUES (7, 1, 'one', '//a', 3, 'xpath', 'pull', 'active', 0)",
            "UPDATE counters SET value = 3 WHERE name = 'lane'",
            "UPDATE counters SET value = 7 WHERE name = 'subscription'",
            "UPDATE counters SET value = 5 WHERE name = 'seq'",
            "UPDATE counters SET value = 20 WHERE name = 'bytes'",
        ):
            session.execute(statement)
        session.insert(
            "messages",
            ("seq", "tenant_id", "source", "message_id", "received", "size", "matches", "xml"),
            [(seq, 1, "s", f"m{seq}", 0.0, 4, 1, b"<a/>") for seq in range(1, 6)],
        )
        session.insert("deliveries", ("lane_id", "seq", "subscription_id"), [(3, seq, 7) for seq in range(1, 6)])

    def test_a_newer_store_is_refused(self, store_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        open_store(store_address).close()
        self.at_version(schema.CURRENT - 1, monkeypatch)
        with pytest.raises(StoreDamaged, match="newer Twigcast"):
            open_store(store_address)

    def test_a_migration_that_fails_leaves_the_store_as_it_was(
        self, store_address: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = open_store(store_address)
        before = fill(store)
        store.close()
        with monkeypatch.context() as newer:
            newer.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, ("DROP TABLE messages", "DROP TABLE nothing")))
            for module in (schema, sqlite, postgresql):
                newer.setattr(module, "CURRENT", schema.CURRENT + 1)
            with pytest.raises((StoreUnavailable, psycopg.Error)):
                open_store(store_address)
        store = open_store(store_address)
        assert counts(store) == before
        store.close()


class TestDamage:
    """Files that are no good stores."""

    def test_a_file_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "twigcast.db").write_bytes(b"<html>" * 1_000)
        with pytest.raises(StoreDamaged):
            open_store(tmp_path)

    def test_a_database_of_something_else(self, tmp_path: Path) -> None:
        with sqlite3.connect(tmp_path / "twigcast.db") as other:
            other.execute("CREATE TABLE theirs (a)")
        other.close()
        with pytest.raises(StoreDamaged, match=r"none of Twigcast's"):
            open_store(tmp_path)

    def test_damage_is_found_after_an_unclean_end(self, tmp_path: Path) -> None:
        store = open_store(tmp_path)
        (one,) = subscribe(store, "one")
        deliver(store, publish(store, 2_000, xml=b"x" * 100), [one])
        store.close()
        path = tmp_path / "twigcast.db"
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(size // 2 // 4096 * 4096)
            file.write(os.urandom(8 * 4096))
        (tmp_path / "twigcast.lock").write_text("{}")
        with pytest.raises(StoreDamaged, match="restore a backup"):
            open_store(tmp_path)

    def test_damage_is_told_when_it_is_met(self, tmp_path: Path) -> None:
        store = open_store(tmp_path)
        publish(store, 2_000, xml=b"x" * 100)
        store.close()
        path = tmp_path / "twigcast.db"
        with path.open("r+b") as file:
            file.seek(60 * 4096)
            file.write(os.urandom(path.stat().st_size - 60 * 4096))
        store = open_store(tmp_path)
        with pytest.raises(StoreDamaged):
            store.messages(1, limit=5_000)
        store.close()

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(StoreUnavailable):
            open_store(tmp_path / "file" / "store")

    @pytest.mark.parametrize("address", ["mysql://there/x", "sqlite://relative", "postgresql://host/?nonsense=1"])
    def test_an_address_of_no_store(self, address: str) -> None:
        with pytest.raises(Invalid):
            open_store(address)

    def test_no_server_is_told_without_the_password(self) -> None:
        with pytest.raises(StoreUnavailable) as caught:
            open_store("postgresql://me:s3cret@127.0.0.1:1/there")
        assert "postgresql://me@127.0.0.1:1/there" in str(caught.value)
        assert "s3cret" not in str(caught.value)


class TestBackup:
    """Copies while the broker works, and putting them back."""

    def test_a_backup_made_while_writing_goes_on_is_one_moment(
        self, store: Store, store_address: str, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        (one,) = subscribe(store, "one")
        deliver(store, publish(store, 300, xml=b"x" * 10_000), [one])
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                deliver(store, publish(store, 3, xml=b"x" * 1_000), [one])

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(3):
                store.backup(tmp_path / f"backup{number}")
        finally:
            stop.set()
            writer.join()
        assert not list(tmp_path.glob("*.part"))
        assert store.last_seq() > 303
        for number in range(3):
            new = elsewhere(store_address, tmp_path / f"store{number}", request)
            restore_store(new, tmp_path / f"backup{number}")
            restored = open_store(new)
            held = restored.statistics()
            assert held.messages == restored.last_seq()
            # It may have been made between a group of messages and its deliveries.
            assert held.messages - held.pending in (0, 3)
            restored.close()

    def test_it_comes_back_whole(self, store_address: str, open_again: Callable[[], Store], tmp_path: Path) -> None:
        store = open_again()
        before, secret = fill(store), store.secret()
        store.backup(tmp_path / "backup")
        fill(store)
        store.close()
        with pytest.raises(Conflict, match="overwrite"):
            restore_store(store_address, tmp_path / "backup")
        restore_store(store_address, tmp_path / "backup", overwrite=True)
        store = open_again()
        assert counts(store) == before
        assert store.secret() == secret
        fill(store)

    def test_to_a_new_place(self, store_address: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        store = open_store(store_address)
        before = fill(store)
        store.backup(tmp_path / "backup")
        store.close()
        new = elsewhere(store_address, tmp_path / "new", request)
        restore_store(new, tmp_path / "backup")
        restored = open_store(new)
        assert counts(restored) == before
        restored.close()

    def test_not_beside_a_broker(self, store: Store, store_address: str, tmp_path: Path) -> None:
        store.backup(tmp_path / "backup")
        with pytest.raises(StoreInUse):
            restore_store(store_address, tmp_path / "backup", overwrite=True)

    @pytest.mark.parametrize("content", [None, b"", b"no backup" * 1_000])
    def test_what_is_no_backup_changes_nothing(self, store_address: str, content: bytes | None, tmp_path: Path) -> None:
        store = open_store(store_address)
        before = fill(store)
        store.close()
        if content is not None:
            (tmp_path / "backup").write_bytes(content)
        with pytest.raises((StoreDamaged, StoreUnavailable, UnknownObject)):
            restore_store(store_address, tmp_path / "backup", overwrite=True)
        store = open_store(store_address)
        assert counts(store) == before
        store.close()

    def test_a_backup_that_cannot_be_written_is_told(self, store: Store, tmp_path: Path) -> None:
        with pytest.raises(OutputError):
            store.backup(tmp_path / "missing" / "backup")
        fill(store)

    def test_without_the_programs_of_postgresql(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(OutputError, match=r"pg_dump is needed.*client programs"):
            postgresql._dump("postgresql://nowhere/", "twigcast", tmp_path / "backup")
