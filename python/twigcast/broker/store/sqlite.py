"""SQLite below the store: one writing connection, a pool of reading ones, and a thread of checkpoints.

WAL mode lets readers work without waiting for the writer; ``synchronous=FULL`` has a commit on the disk when it
returns. Checkpoints run in their own thread: in the writer they would stop publishing while megabytes move into the
main file.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import shutil
import socket
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

from twigcast.broker.errors import (
    BrokerError,
    Conflict,
    Invalid,
    StoreDamaged,
    StoreFull,
    StoreInUse,
    StoreUnavailable,
    UnknownObject,
)
from twigcast.broker.store.database import Params, Row
from twigcast.broker.store.schema import CURRENT, migrate
from twigcast.errors import OutputError

T = TypeVar("T")

logger = logging.getLogger(__name__)

FILE: Final = "twigcast.db"
LOCK_FILE: Final = "twigcast.lock"

LOCK_SECONDS: Final = 1.0
"""Time that a broker waits for the lock, which an operator's command holds for a moment when it makes a store."""

APPLICATION_ID: Final = 0x54574743
"""The bytes ``TWGC``, which mark the file as a store."""

PAGE_SIZE: Final = 2048
"""Page size of new stores.

The ten deliveries of a message lie in ten queues, and each writes a page to the log: with SQLite's 4 KB, twice as much
is written for the same.
"""

BUSY_SECONDS: Final = 10.0
"""Time that the writer waits for an operator's command that writes."""

READERS_KEPT: Final = 8
"""Number of idle reading connections that are kept open."""

ROWS_AT_ONCE: Final = (500, 100, 25, 5, 1)
"""Numbers of rows in one statement, largest first: few different statements, which stay prepared."""

CACHE_BYTES: Final = 64 << 20
READER_CACHE_BYTES: Final = 4 << 20

CHECKPOINT_SECONDS: Final = 0.5
"""Time between two checkpoints while the log is not empty."""

SHORT_SECONDS: Final = 0.01
"""After a checkpoint that took no longer, the one that blocks the writer has next to nothing left to move."""

SHORTENED_MAX: Final = 4
"""Number of checkpoints in a row that try to be short; on a slow disk none may be."""

RESTART_BYTES: Final = 256 << 20
"""Size of the log from which the writer is blocked for a moment, so that the log starts again at its beginning."""

CHECKED_BYTES_MAX: Final = 256 << 20
"""Size up to which a file is checked as a whole after an unclean end; for a larger one that would delay the start."""

FREE_BYTES_MIN: Final = 1 << 20
"""Free space below which a failed write is reported as a full disk."""

SCARCE_BYTES: Final = 64 << 20
"""Free space below which the log is kept short: more than is written between two checkpoints."""

VACUUM_PAGES: Final = 2_000
"""Number of pages returned in one step; the writer goes on between two steps."""


def _move(connection: sqlite3.Connection) -> int:
    """Moves the log into the main file without blocking others; returns the size of the log in bytes."""
    _, pages, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages * page_size)


_OTHERS: Final = 0o077
"""The permissions of others than the owner."""


def _make_private(folder: Path) -> None:
    """Makes the folder of a store for its owner alone, and takes existing files of the store from all others."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    elif folder.stat().st_mode & _OTHERS:
        # It may hold files of others.
        logger.warning("others may look into the folder %s of the store: chmod 700 %s", folder, folder)
    for path in folder.glob(f"{FILE}*"):
        mode = path.stat().st_mode
        if mode & _OTHERS:
            try:
                path.chmod(mode & ~_OTHERS & 0o7777)
            except PermissionError:
                logger.warning("others may read %s, which belongs to another user: chmod 600 %s", path, path)
            else:
                logger.warning("others could read %s; now its owner alone can", path)


def _lock(folder: Path, *, waiting: bool) -> FolderLock | None:
    """Takes the lock of a folder; returns ``None`` if a broker holds it and ``waiting`` is false."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return FolderLock(folder / LOCK_FILE)
        except StoreInUse:
            if not waiting:
                return None
            if time.monotonic() > deadline:
                raise
        time.sleep(LOCK_SECONDS / 20)


class FolderLock:
    """The held lock of a folder, which the system releases when its process ends; raises StoreInUse."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"the lock file {path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = self._holder()
            os.close(self._file)
            raise StoreInUse(f"another broker works on {path.parent}: {holder}") from error
        self.unclean = os.fstat(self._file).st_size > 0
        """Whether the last holder ended without releasing it."""
        me = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        # The text only tells people who holds the lock: with a full disk the broker starts all the same.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(me).encode() + b"\n", 0)

    def _holder(self) -> str:
        try:
            holder = json.loads(os.pread(self._file, 4096, 0))
            return f"process {holder['pid']} on {holder['host']}, since {holder['started']}"
        except (ValueError, KeyError, TypeError):
            return f"a process that did not say its name in {self._path}"

    def release(self) -> None:
        """Releases the lock."""
        os.ftruncate(self._file, 0)
        os.close(self._file)


class FairLock:
    """A lock that its last holder, though it never pauses, cannot take again before the threads that wait for it."""

    def __init__(self) -> None:
        self._next = threading.Lock()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        # A thread that waits for the lock delays all others here.
        with self._next:
            self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


class SqliteSession:
    """The statements on one connection."""

    locking = ""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        return self.connection.execute(sql, params).fetchall()

    def execute(self, sql: str, params: Params = ()) -> int:
        return self.connection.execute(sql, params).rowcount

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        self.connection.executemany(sql, rows)

    def insert(
        self, table: str, columns: Sequence[str], rows: Iterable[Params], *, keep_existing: bool = False
    ) -> None:
        verb = "INSERT OR IGNORE" if keep_existing else "INSERT"
        begin = f"{verb} INTO {table} ({', '.join(columns)}) VALUES "
        positions = f"({', '.join('?' * len(columns))})"
        waiting = list(rows)
        first = 0
        # Many rows in one statement release the interpreter lock once. With one statement a row, the writing thread
        # would have to wait for its turn beside a busy event loop as often as there are rows.
        for size in ROWS_AT_ONCE:
            sql = begin + ", ".join([positions] * size)
            while len(waiting) - first >= size:
                some = waiting[first : first + size]
                self.connection.execute(sql, tuple(chain.from_iterable(some)))
                first += size

    def among(self, column: str, kind: str = "bigint") -> str:
        return f"{column} IN (SELECT value FROM json_each(?))"

    def values(self, values: Iterable[int | str]) -> object:
        return json.dumps(list(values))


class SqliteDatabase:
    """The file ``twigcast.db`` in a folder. Raises as :func:`~twigcast.broker.store.store.open_store` does.

    A broker holds the lock while it is open (``exclusive``), an operator's command does not.
    """

    def __init__(self, folder: Path, *, exclusive: bool = True, create: bool = True) -> None:
        if not create and not (folder / FILE).is_file():
            raise UnknownObject(f"there is no store in {folder}")
        self.path = folder / FILE
        self.tenure = None  # another broker would have to reach the file
        self.url = f"sqlite://{folder.absolute()}"
        self._write_lock = FairLock()
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False
        try:
            _make_private(folder)
            # SQLite gives its log the permissions of the file.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise StoreUnavailable(f"the folder {folder} cannot be made: {error.strerror}") from error
        self._committed = threading.Event()
        self._stopping = threading.Event()
        self._lock = _lock(folder, waiting=exclusive)
        try:
            with self._errors():
                self._writer = self._open()
                try:
                    self._prepare(migrating=self._lock is not None)
                except BaseException:
                    self._writer.close()
                    raise
        except BaseException:
            self._release()
            raise
        if not exclusive:
            self._release()
        self._checkpointer = threading.Thread(target=self._checkpoints, name="twigcast-checkpoints", daemon=True)
        self._checkpointer.start()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # Opening

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreUnavailable(f"{self.path} does not take SQLite's WAL mode, which a network drive lacks")
            connection.execute("PRAGMA synchronous = FULL")
            # What is removed is overwritten within its page; pages that become free are returned by `vacuum`.
            connection.execute("PRAGMA secure_delete = FAST")
            connection.execute(f"PRAGMA cache_size = {-CACHE_BYTES // 1024}")
            # Only as a last resort: see _checkpoints.
            connection.execute(f"PRAGMA wal_autocheckpoint = {4 * RESTART_BYTES // PAGE_SIZE}")
            connection.execute(f"PRAGMA journal_size_limit = {RESTART_BYTES}")
            connection.execute("PRAGMA temp_store = MEMORY")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, *, migrating: bool) -> None:
        """Checks the file and brings it to the current version."""
        connection = self._writer
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if tables and application != APPLICATION_ID:
            raise StoreDamaged(f"{self.path} is a SQLite database, but none of Twigcast's")
        if tables and self._lock is not None and self._lock.unclean and self.size() <= CHECKED_BYTES_MAX:
            self.check(quick=True)
        if version == CURRENT:
            connection.execute("SELECT name, value FROM counters").fetchall()
            return
        if not migrating:
            raise StoreUnavailable(f"the store at {self.path} has version {version}, and a broker is working on it")
        with self.writing() as session:
            migrate(session, version, "sqlite", self.url)
            session.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            session.execute(f"PRAGMA user_version = {CURRENT}")

    def check(self, *, quick: bool) -> None:
        """Checks the whole file; ``quick`` omits whether the indexes agree with the tables. Raises StoreDamaged."""
        with self._errors():
            (result,) = self._writer.execute(f"PRAGMA {'quick' if quick else 'integrity'}_check(1)").fetchone()
        if result != "ok":
            raise StoreDamaged(f"{self.path} is damaged ({result}); restore a backup")

    # Work

    def read(self, work: Callable[[SqliteSession], T]) -> T:
        with self._errors():
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._open_reader()
            try:
                # One transaction: several statements of the work see the same state.
                connection.execute("BEGIN")
                result = work(SqliteSession(connection))
                connection.execute("COMMIT")
            except BaseException:
                connection.close()
                raise
            if self._closed or len(self._idle) >= READERS_KEPT:
                connection.close()
            else:
                self._idle.append(connection)
            return result

    def _open_reader(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA cache_size = {-READER_CACHE_BYTES // 1024}")
        return connection

    @contextmanager
    def writing(self) -> Iterator[SqliteSession]:
        with self._write_lock, self._errors():
            if self._closed:
                raise StoreUnavailable("the store is closed")
            connection = self._writer
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield SqliteSession(connection)
                connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
            if self._free_pages() < SCARCE_BYTES:
                self._settle()
        self._committed.set()

    def _settle(self) -> None:
        """Moves each transaction into the main file at once if space is scarce.

        Moving the log takes as much space as it has grown by. It has to be short, or the space that an operator frees
        on a full disk would not suffice to go on.
        """
        try:
            self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.OperationalError as error:
            # The transaction is in the log; the thread of checkpoints tries again.
            logger.debug("%s: not moved into the main file yet: %s", self.path, error)

    def _roll_back(self) -> None:
        """Undoes the transaction, and replaces a connection on which that fails."""
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        except sqlite3.Error:
            self._writer.close()
            self._writer = self._open()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Converts SQLite's errors to those of the broker."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise self._unavailable(error) from error
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise StoreDamaged(f"{self.path} is damaged ({error}); restore a backup") from error
            raise
        except UnicodeEncodeError as error:
            raise Invalid("a text holds an unpaired surrogate, which is no character") from error

    def _unavailable(self, error: sqlite3.OperationalError) -> BrokerError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and self._free_pages() < FREE_BYTES_MIN):
            return StoreFull(f"there is no space left for {self.path}")
        return StoreUnavailable(f"{self.path} does not work: {error}")

    def _free_pages(self) -> int:
        """Returns the number of free bytes on the disk of the file."""
        try:
            system = os.statvfs(self.path.parent)
        except OSError:
            return FREE_BYTES_MIN
        return system.f_bavail * system.f_frsize

    # Checkpoints

    def _checkpoints(self) -> None:
        """Moves the log into the main file, beside the writer, and lets a long log start again."""
        connection = sqlite3.connect(self.path, timeout=0, isolation_level=None, check_same_thread=False)
        reported = ""
        try:
            while not self._stopping.wait(CHECKPOINT_SECONDS):
                self._committed.wait()
                self._committed.clear()
                try:
                    self._checkpoint(connection)
                except sqlite3.Error as error:
                    # The log stays as it is, and the next attempt moves it.
                    if str(error) != reported:
                        reported = str(error)
                        logger.warning("%s: checkpoint postponed: %s", self.path, error)
        finally:
            connection.close()

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        if _move(connection) < RESTART_BYTES:
            return
        # Transactions committed meanwhile are moved too, repeatedly, until little is left to do while the writer waits.
        for _ in range(SHORTENED_MAX):
            begun = time.monotonic()
            _move(connection)
            if time.monotonic() - begun <= SHORT_SECONDS:
                break
        with self._write_lock:
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    # Upkeep

    def size(self) -> int:
        return sum(path.stat().st_size for path in self.path.parent.glob("twigcast.db*"))

    def unused(self) -> int:
        return self.read(lambda session: int(session.rows("PRAGMA freelist_count")[0][0])) * PAGE_SIZE

    def shrink(self) -> None:
        while True:
            with self._write_lock, self._errors():
                (free,) = self._writer.execute("PRAGMA freelist_count").fetchone()
                if not free:
                    break
                # As a script: otherwise Python stops after the first page, whose row has no columns.
                self._writer.executescript(f"PRAGMA incremental_vacuum({VACUUM_PAGES})")

    def vacuum(self) -> None:
        self.shrink()
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            # A reader that takes long must not keep the writer waiting.
            with self._write_lock, self._errors():
                self._writer.execute("PRAGMA busy_timeout = 0")
                try:
                    ((busy, *_),) = self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                finally:
                    self._writer.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1_000:.0f}")
            if not busy:
                return
            if time.monotonic() > deadline:
                logger.warning("%s: what was removed stands in the log until its readers have ended", self.path)
                return
            time.sleep(BUSY_SECONDS / 200)

    def backup(self, path: Path) -> None:
        part = path.with_name(path.name + ".part")

        def copy(session: SqliteSession) -> None:
            # The snapshot that `read` has opened stays the same however much is written meanwhile.
            session.rows("SELECT value FROM counters")
            target = sqlite3.connect(part)
            try:
                session.connection.backup(target)
            finally:
                target.close()

        try:
            part.unlink(missing_ok=True)
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            self.read(copy)
            with part.open("rb") as file:
                os.fsync(file.fileno())
            part.replace(path)
        except (OSError, sqlite3.Error, StoreUnavailable) as error:
            part.unlink(missing_ok=True)
            raise OutputError(str(path), f"the backup could not be written: {error}") from error

    def close(self) -> None:
        if self._closed:
            return
        self._stopping.set()
        self._committed.set()
        self._checkpointer.join()
        with self._write_lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
            self._writer.close()
            self._release()


def restore(folder: Path, backup: Path, *, overwrite: bool) -> None:
    """Makes the store of a folder from a backup; raises as :func:`~twigcast.broker.store.store.restore_store` does."""
    target = folder / FILE
    part = target.with_name(target.name + ".part")
    try:
        _make_private(folder)
        lock = _lock(folder, waiting=True)
        assert lock is not None
        try:
            if target.exists() and not overwrite:
                raise Conflict(f"there is a store in {folder}; overwrite it, or name another folder")
            _check_backup(backup)
            part.unlink(missing_ok=True)
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            shutil.copyfile(backup, part)
            with part.open("rb") as file:
                os.fsync(file.fileno())
            # SQLite would apply the log of the old file to the new one.
            for suffix in ("-wal", "-shm"):
                Path(f"{target}{suffix}").unlink(missing_ok=True)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
            lock.release()
    except OSError as error:
        raise StoreUnavailable(f"{backup} could not be restored to {folder}: {error}") from error


def _check_backup(path: Path) -> None:
    if not path.is_file():
        raise UnknownObject(f"there is no backup {path}")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if application != APPLICATION_ID:
                raise StoreDamaged(f"{path} is no backup of Twigcast's")
            if version > CURRENT:
                raise StoreDamaged(f"{path} was made by a newer Twigcast: version {version}, this one has {CURRENT}")
            (result,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(f"{path} is damaged ({error})") from error
    if result != "ok":
        raise StoreDamaged(f"{path} is damaged ({result})")
