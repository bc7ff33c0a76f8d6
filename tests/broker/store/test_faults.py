"""Faults: kill -9 in the midst of transactions, a full disk, PostgreSQL restarted beneath the store."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.broker.store.filling import deliver, publish, subscribe
from tests.seeds import printed_seed
from tests.services.postgresql import PostgresqlServer
from twigcast.broker.errors import StoreFull, StoreInUse, StoreUnavailable, TenureLost
from twigcast.broker.model import StoredMessage
from twigcast.broker.store.postgresql import PostgresqlDatabase
from twigcast.broker.store.sqlite import SqliteDatabase
from twigcast.broker.store.store import Store, open_store

REPOSITORY = Path(__file__).parents[3]
KILLS = 5


@pytest.fixture(scope="module")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """A server for these tests alone: they stop it, and one that did not come back would fail all tests after them."""
    server = PostgresqlServer()
    yield server
    server.remove()


class TestKills:
    """All that was committed is there after kill -9, and nothing by halves."""

    @pytest.mark.slow
    def test_kill_at_random_moments(self, store_address: str) -> None:
        seed = printed_seed()
        chance = random.Random(seed)
        committed = 0
        for _ in range(KILLS):
            writer = subprocess.Popen(
                [sys.executable, "-m", "tests.broker.store.writer", store_address, str(chance.randrange(1 << 32))],
                stdout=subprocess.PIPE,
                text=True,
                cwd=REPOSITORY,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            assert writer.stdout is not None
            with writer:
                assert writer.stdout.readline() == "open\n"
                time.sleep(chance.uniform(0.01, 0.3))
                writer.send_signal(signal.SIGKILL)
                committed = max([committed, *map(int, writer.stdout.read().splitlines())])
            store = open_store(store_address)
            self.check(store, committed)
            store.close()
        assert committed > KILLS

    @staticmethod
    def check(store: Store, committed: int) -> None:
        last = store.last_seq()
        assert last >= committed
        messages = store.messages(1, limit=last + 1)
        assert [m.seq for m in messages] == list(range(1, last + 1))
        # Each transaction of the writer says in the name of the source how many messages it stores.
        groups: dict[str, int] = {}
        for message in messages:
            groups[message.source] = groups.get(message.source, 0) + 1
        assert all(int(name.split("-")[1]) == count for name, count in groups.items())
        queue = store.queue(1, "desk")
        assert queue is not None
        ((stored, distinct),) = store.rows("SELECT COUNT(*), COUNT(DISTINCT seq) FROM deliveries")
        assert (stored, distinct) == (2 * last, last)
        ((size,),) = store.rows("SELECT value FROM counters WHERE name = 'bytes'")
        assert size == sum(len(m.xml) for m in messages)
        assert queue.acked <= last


def fill_up(store: Store, transactions: int = 10_000) -> int:
    """Publish until there is no space; how many messages were stored."""
    for _ in range(transactions):
        try:
            publish(store, 10, xml=os.urandom(20_000))
        except StoreFull:
            return len(store.messages(1, limit=1 << 20))
    raise AssertionError("the disk did not become full")


def check_recovers(store: Store, make_room: Callable[[], object]) -> None:
    """A full store refuses, keeps what it has, and goes on when there is room again."""
    (one,) = subscribe(store, "one")
    stored = fill_up(store)
    for _ in range(3):
        with pytest.raises(StoreFull, match="no space"):
            publish(store, 100, xml=os.urandom(20_000))
    # Reading goes on, and what was stored is whole.
    messages = store.messages(1, limit=1 << 20)
    assert [m.seq for m in messages] == list(range(1, stored + 1))
    assert stored % 10 == 0
    make_room()
    assert [m.seq for m in publish(store, 10)] == list(range(stored + 1, stored + 11))
    deliver(store, messages[:1], [one])
    assert store.pending_count(one.queue_id) == 1


@contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system with little room; skips where one cannot be mounted."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class TestFullDisk:
    """No room left."""

    def test_sqlite_at_its_largest_size(self, tmp_path: Path) -> None:
        store = open_store(tmp_path)
        database = store.database
        assert isinstance(database, SqliteDatabase)
        writer = database._writer
        writer.execute("PRAGMA max_page_count = 1000")
        check_recovers(store, lambda: writer.executescript("PRAGMA max_page_count = 100000"))
        database.check(quick=False)
        store.close()

    def test_sqlite_on_a_full_disk(self, tmp_path: Path) -> None:
        with small_disk(tmp_path / "disk", 12) as disk:
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(4 << 20))
            store = open_store(disk / "store")
            check_recovers(store, ballast.unlink)
            assert isinstance(store.database, SqliteDatabase)
            store.database.check(quick=False)
            store.close()
            store = open_store(disk / "store")
            publish(store, 1)
            store.close()

    def test_sqlite_over_the_largest_file(self, tmp_path: Path) -> None:
        """A limit on the size of files fails writes with another error than a full disk."""
        store = open_store(tmp_path)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
        try:
            with pytest.raises(StoreUnavailable):
                deque((publish(store, 10, xml=os.urandom(20_000)) for _ in range(100)), maxlen=0)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        stored = store.last_seq()
        publish(store, 10)
        assert [m.seq for m in store.messages(1, limit=10_000)] == list(range(1, stored + 11))
        assert isinstance(store.database, SqliteDatabase)
        store.database.check(quick=False)
        store.close()

    def test_postgresql_on_a_full_disk(self, tmp_path: Path, postgresql_server: PostgresqlServer) -> None:
        with small_disk(Path(postgresql_server.folder) / "disk", 24) as disk:
            ballast = disk / "ballast"
            ballast.write_bytes(bytes(4 << 20))
            database = postgresql_server.new_database_at(disk / "space")
            store = open_store(postgresql_server.url(database))
            check_recovers(store, ballast.unlink)
            store.close()
            postgresql_server.drop_space(database)


@pytest.fixture
def own_store(postgresql_server: PostgresqlServer) -> Iterator[Store]:
    """A store on PostgreSQL."""
    database = postgresql_server.new_database()
    store = open_store(postgresql_server.url(database))
    yield store
    store.close()
    postgresql_server.drop(database)


class TestRestart:
    """PostgreSQL ends and comes back."""

    @pytest.mark.parametrize("mode", ["fast", "immediate"])
    def test_the_running_transaction_is_reported_and_the_next_works(
        self, own_store: Store, postgresql_server: PostgresqlServer, mode: str
    ) -> None:
        publish(own_store, 1)

        def interrupted() -> None:
            with own_store.transaction() as transaction:
                transaction.add_messages([StoredMessage(2, 1, "s", "m2", 0.0, b"<a/>")])
                postgresql_server.restart("fast" if mode == "fast" else "immediate")

        with pytest.raises(StoreUnavailable):
            interrupted()
        assert own_store.last_seq() == 1
        assert [m.seq for m in publish(own_store, 1)] == [2]
        assert [m.seq for m in own_store.messages(1, limit=9)] == [1, 2]
        with pytest.raises(StoreInUse):
            open_store(f"{postgresql_server.url('')}{own_store.url.rsplit('/', 1)[1]}")

    def test_readers_go_on_by_themselves(self, own_store: Store, postgresql_server: PostgresqlServer) -> None:
        publish(own_store, 3)
        own_store.messages(1, limit=9)
        postgresql_server.restart("immediate")
        assert len(own_store.messages(1, limit=9)) == 3

    def test_calls_wait_while_it_comes_back(self, own_store: Store, postgresql_server: PostgresqlServer) -> None:
        publish(own_store, 1)
        postgresql_server.stop()
        starting = threading.Timer(0.5, postgresql_server.start)
        starting.start()
        try:
            assert [m.seq for m in publish(own_store, 1)] == [2]
            assert own_store.last_seq() == 2
        finally:
            starting.join()

    def test_a_server_that_stays_away_is_told_and_its_return_found(
        self, own_store: Store, postgresql_server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("twigcast.broker.store.postgresql.RECONNECT_SECONDS", 0.2)
        postgresql_server.stop()
        try:
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    publish(own_store, 1)
                with pytest.raises(StoreUnavailable):
                    own_store.tenants()
        finally:
            postgresql_server.start()
        assert [m.seq for m in publish(own_store, 1)] == [1]

    def test_a_broker_that_lost_its_session_to_another_does_not_write(
        self, own_store: Store, postgresql_server: PostgresqlServer
    ) -> None:
        publish(own_store, 1)
        database = own_store.url.rsplit("/", 1)[1]
        with psycopg.connect(postgresql_server.url("postgres"), autocommit=True) as operator:
            operator.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (database,)
            ).fetchall()
        other = open_store(postgresql_server.url(database))
        with pytest.raises(TenureLost):
            publish(own_store, 1)
        publish(other, 1)
        other.close()
        # The other one has gone, but what this one has in memory is older than the store.
        with pytest.raises(TenureLost):
            publish(own_store, 1)

    def test_an_old_session_of_its_own_is_ended(self, own_store: Store) -> None:
        """The network went away without the server noticing: the lock is held by what was this broker's session."""
        database = own_store.database
        assert isinstance(database, PostgresqlDatabase)
        lost, database._writer = database._writer, psycopg.connect(database._address)
        database._writer.close()
        assert [m.seq for m in publish(own_store, 1)] == [1]
        with pytest.raises(psycopg.OperationalError):
            lost.execute("SELECT 1")
