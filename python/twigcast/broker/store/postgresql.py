"""PostgreSQL below the store: one writing connection, which holds the lock, and a pool of reading ones.

The lock is an advisory one of the writing connection's session: a broker that has lost it cannot write either until it
has connected and taken the lock again, and only if no other broker has had a tenure since
(:mod:`twigcast.broker.store.tenure`).
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg
from psycopg import conninfo, errors

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
from twigcast.broker.store.tenure import OwnTenure, TenureWatch, read_tenure
from twigcast.errors import OutputError

T = TypeVar("T")
_Connection = psycopg.Connection[Any]

SCHEMA: Final = "twigcast"
LOCK: Final = 0x54574743
"""The advisory lock of a broker; each database has its own locks."""

READERS_KEPT: Final = 8
"""Number of idle reading connections that are kept open."""

ROWS_AT_ONCE: Final = 5_000
"""Number of rows that one statement inserts."""

LOCK_SECONDS: Final = 1.0
"""Time that a broker waits for the lock, which an operator's command or an ending session may hold for a moment."""

CONNECT_SECONDS: Final = 5
RECONNECT_SECONDS: Final = 5.0
"""Time that a call tries to reconnect before it fails."""

PAUSE_SECONDS_MIN: Final = 0.05
PAUSE_SECONDS_MAX: Final = 1.0

_SETTINGS: Final = (
    f"SET search_path = {SCHEMA}; SET synchronous_commit = on; SET jit = off; "
    # All statements are written for nested loops over indexes, in their order. For new tables the planner has no
    # statistics that would lead it to the same plan.
    "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_seqscan = off; "
    "SET enable_bitmapscan = off"
)


@lru_cache(maxsize=1_000)
def _statement(sql: str) -> bytes:
    """Returns a statement with its parameters in the style of psycopg."""
    return sql.replace("%", "%%").replace("?", "%s").encode()


class PostgresqlSession:
    """The statements on one connection."""

    locking = " FOR UPDATE"

    def __init__(self, connection: _Connection, types: dict[str, dict[str, str]]) -> None:
        self._cursor = connection.cursor(binary=True)
        self._types = types

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        return self._cursor.execute(_statement(sql), params).fetchall()

    def execute(self, sql: str, params: Params = ()) -> int:
        return self._cursor.execute(_statement(sql), params).rowcount

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        self._cursor.executemany(_statement(sql), rows)

    def insert(
        self, table: str, columns: Sequence[str], rows: Iterable[Params], *, keep_existing: bool = False
    ) -> None:
        types = self._column_types(table)
        arrays = ", ".join(f"?::{types[column]}[]" for column in columns)
        sql = f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({arrays})"
        if keep_existing:
            sql += " ON CONFLICT DO NOTHING"
        iterator = iter(rows)
        while some := list(islice(iterator, ROWS_AT_ONCE)):
            # An array holds values of one type, also where Python does not distinguish 1 from 1.0.
            self.execute(
                sql,
                [
                    [None if value is None else float(value) for value in values]
                    if types[column] == "double precision"
                    else list(values)
                    for column, values in zip(columns, zip(*some, strict=True), strict=True)
                ],
            )

    def _column_types(self, table: str) -> dict[str, str]:
        if table not in self._types:
            self._types[table] = dict(
                self._cursor.execute(
                    "SELECT attname, format_type(atttypid, -1) FROM pg_attribute "
                    "WHERE attrelid = %s::text::regclass AND attnum > 0 AND NOT attisdropped",
                    (table,),
                ).fetchall()
            )
        return self._types[table]

    def among(self, column: str, kind: str = "bigint") -> str:
        return f"{column} = ANY(?::{kind}[])"

    def values(self, values: Iterable[int | str]) -> object:
        return list(values)


class PostgresqlDatabase:
    """The schema ``twigcast`` of a PostgreSQL database. Raises as :func:`~twigcast.broker.store.store.open_store` does.

    A broker holds the lock while it is open (``exclusive``), an operator's command does not. Without ``migrating``, the
    tables stay as they are.
    """

    def __init__(
        self, address: str, *, exclusive: bool = True, create: bool = True, migrating: bool = True, where: str = ""
    ) -> None:
        parameters = _read_address(address)
        self._address = address
        self._parameters: dict[str, Any] = parameters
        self.url = _public(parameters)
        self._name = f"twigcast {socket.gethostname()[:24]} {os.getpid()} {secrets.token_hex(4)}"
        self._write_lock = threading.Lock()
        self._idle: deque[_Connection] = deque()
        self._types: dict[str, dict[str, str]] = {}
        self._closed = False
        self.tenure = OwnTenure(self._connect, self._name, where) if exclusive else None
        """The tenure of a broker; ``where`` is the address under which others reach it."""
        with self._errors():
            self._writer = self._connect()
            try:
                locked = self._take_lock(waiting=exclusive)
                if migrating:
                    if not create and self._version() == 0:
                        raise UnknownObject(f"there is no store at {self.url}")
                    self._bring_up_to_date(locked=locked)
                if self.tenure is not None:
                    self.tenure.take(self._writer)
                if locked and not exclusive:
                    self._writer.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))
            except BaseException:
                self._writer.close()
                raise

    # Connections

    def _connect(self) -> _Connection:
        connection = _connect(self._address, self._parameters, self._name)
        connection.execute(_SETTINGS)
        return connection

    def _bring_up_to_date(self, *, locked: bool) -> None:
        """Brings the tables to the current version."""
        version = self._version()
        if version != CURRENT:
            if not locked:
                raise StoreUnavailable(f"the store at {self.url} has version {version}, and a broker is working on it")
            self._migrate(version)

    def _version(self) -> int:
        result = self._writer.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.schema_version",)).fetchone()
        if result is None or result[0] is None:
            return 0
        return int(self._writer.execute("SELECT version FROM schema_version").fetchall()[0][0])

    def _migrate(self, version: int) -> None:
        with self.writing() as session:
            if version == 0:
                session.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
                session.execute("CREATE TABLE schema_version (version bigint NOT NULL)")
                session.execute("INSERT INTO schema_version (version) VALUES (0)")
            migrate(session, version, "postgresql", self.url)
            session.execute("UPDATE schema_version SET version = ?", (CURRENT,))
            # A body of a few kilobytes stays in its row, and none is compressed: compression would cost more than
            # writing it.
            session.execute("ALTER TABLE messages SET (toast_tuple_target = 8160)")
            session.execute("ALTER TABLE messages ALTER COLUMN xml SET STORAGE EXTERNAL")

    def _take_lock(self, *, waiting: bool) -> bool:
        """Takes the lock, and returns whether that succeeded; if ``waiting``, it raises StoreInUse after a while."""
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            (taken,) = self._writer.execute("SELECT pg_try_advisory_lock(%s)", (LOCK,)).fetchall()[0]
            if taken or not waiting:
                return bool(taken)
            holders = self._writer.execute(
                "SELECT a.pid, a.application_name, a.backend_start, a.client_addr FROM pg_locks l "
                "JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 "
                "AND l.classid = 0 AND l.objid = %s::bigint::oid "
                "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())",
                (LOCK,),
            ).fetchall()
            if time.monotonic() > deadline:
                raise StoreInUse(f"another broker works on {self.url}: {_holder(holders)}")
            tenure = read_tenure(self._writer)
            over = tenure.session if tenure is not None and tenure.seconds_left <= 0 else None
            for pid, name, *_ in holders:
                if name in (self._name, over):
                    # The former session of this broker, whose death the server has not noticed, or that of another
                    # broker that hangs. Its open transaction is rolled back.
                    self._writer.execute("SELECT pg_terminate_backend(%s)", (pid,))
            time.sleep(LOCK_SECONDS / 20)

    def _reconnected(self, connect: Callable[[], T]) -> T:
        """Connects again, trying for a while."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        pause = PAUSE_SECONDS_MIN
        while True:
            try:
                return connect()
            except psycopg.OperationalError:
                if self._closed or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, PAUSE_SECONDS_MAX)

    def _connect_writer(self) -> None:
        self._writer.close()
        self._writer = self._connect()
        if self.tenure is not None:
            try:
                self.tenure.check(self._writer)
                self._take_lock(waiting=True)
                # From now on no tenure can begin, so this check is final.
                self.tenure.check(self._writer)
                # It may have been over while the database was away.
                self.tenure.renew(self._writer)
            except BaseException:
                self._writer.close()
                raise

    # Work

    def read(self, work: Callable[[PostgresqlSession], T]) -> T:
        with self._errors():
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._read_anew(work)
            try:
                result = work(PostgresqlSession(connection, self._types))
            except psycopg.OperationalError:
                if not connection.broken:
                    self._keep(connection)
                    raise
                # The other idle connections are as old, so none of them is tried.
                self._drop_idle()
                return self._read_anew(work)
            except BaseException:
                self._keep(connection)
                raise
            self._keep(connection)
            return result

    def _read_anew(self, work: Callable[[PostgresqlSession], T]) -> T:
        """Reads on a new connection."""
        if self._closed:
            raise StoreUnavailable("the store is closed")

        def attempt() -> T:
            connection = self._connect()
            try:
                connection.execute("SET default_transaction_read_only = on")
                return work(PostgresqlSession(connection, self._types))
            finally:
                self._keep(connection)

        return self._reconnected(attempt)

    def _keep(self, connection: _Connection) -> None:
        if connection.closed or self._closed or len(self._idle) >= READERS_KEPT:
            connection.close()
        else:
            self._idle.append(connection)

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def writing(self) -> Iterator[PostgresqlSession]:
        with self._write_lock, self._errors():
            if self._closed:
                raise StoreUnavailable("the store is closed")
            self._begin()
            try:
                yield PostgresqlSession(self._writer, self._types)
                outcome = self._writer.execute("COMMIT").statusmessage
            except BaseException:
                self._roll_back()
                raise
            if outcome != "COMMIT":
                raise StoreUnavailable("the transaction was not committed: one of its statements had failed")

    def _begin(self) -> None:
        if not self._writer.closed:
            try:
                self._writer.execute("BEGIN")
            except psycopg.OperationalError:
                if not self._writer.closed:
                    raise
            else:
                return

        def begin() -> None:
            self._connect_writer()
            self._writer.execute("BEGIN")

        self._reconnected(begin)

    def _roll_back(self) -> None:
        """Undoes the transaction; a connection on which that fails is closed, which undoes it as well."""
        try:
            self._writer.execute("ROLLBACK")
        except psycopg.Error:
            self._writer.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Converts PostgreSQL's errors to those of the broker."""
        try:
            yield
        except (errors.DataCorrupted, errors.IndexCorrupted) as error:
            raise StoreDamaged(f"{self.url} is damaged ({_text(error)}); restore a backup") from error
        except psycopg.DataError as error:
            raise Invalid(f"PostgreSQL cannot keep a value: {_text(error)}") from error
        except UnicodeEncodeError as error:
            raise Invalid("a text holds an unpaired surrogate, which is no character") from error
        except (psycopg.OperationalError, psycopg.InterfaceError, errors.InsufficientPrivilege) as error:
            raise self._unavailable(error) from error
        except errors.ReadOnlySqlTransaction as error:
            raise StoreUnavailable(f"{self.url} takes no changes: {_text(error)}") from error

    def _unavailable(self, error: psycopg.Error) -> BrokerError:
        if isinstance(error, errors.DiskFull) or "No space left on device" in str(error):
            return StoreFull(f"there is no space left for {self.url}: {_text(error)}")
        return StoreUnavailable(f"{self.url} does not work: {_text(error)}")

    # Upkeep

    def size(self) -> int:
        return self.read(
            lambda session: int(
                session.rows(
                    "SELECT COALESCE(SUM(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
                    "WHERE relnamespace = ?::text::regnamespace AND relkind = 'r'",
                    (SCHEMA,),
                )[0][0]
            )
        )

    def unused(self) -> int:
        # The server's autovacuum sees to it.
        return 0

    def shrink(self) -> None:
        """Leaves it to the server's autovacuum."""

    def vacuum(self) -> None:
        with self._errors():
            connection = self._connect()
            try:
                for (table,) in connection.execute(
                    "SELECT relname FROM pg_class WHERE relnamespace = %s::text::regnamespace AND relkind = 'r'",
                    (SCHEMA,),
                ).fetchall():
                    connection.execute(f"VACUUM (ANALYZE) {table}".encode())
            finally:
                connection.close()

    def backup(self, path: Path) -> None:
        _dump(self._address, SCHEMA, path)

    def restore(self, path: Path, *, overwrite: bool) -> None:
        """Restores a backup; what the schema held before is removed (if ``overwrite``) after that has succeeded."""
        with self._errors():
            there = self._writer.execute("SELECT to_regnamespace(%s)", (SCHEMA,)).fetchall()[0][0] is not None
            if there and not overwrite:
                raise Conflict(f"there is a store at {self.url}; overwrite it, or name another database")
            if there:
                self._writer.execute(f"DROP SCHEMA IF EXISTS {SCHEMA}_before CASCADE")
                self._writer.execute(f"ALTER SCHEMA {SCHEMA} RENAME TO {SCHEMA}_before")
            try:
                _load(self._address, path)
                if self._version() == 0:
                    raise StoreDamaged(f"{path} is no backup of Twigcast's")
            except BaseException:
                self._writer.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
                if there:
                    self._writer.execute(f"ALTER SCHEMA {SCHEMA}_before RENAME TO {SCHEMA}")
                raise
            self._writer.execute(f"DROP SCHEMA IF EXISTS {SCHEMA}_before CASCADE")

    def close(self) -> None:
        with self._write_lock:
            self._closed = True
            self._drop_idle()
            # A session outlives its connection for a moment; the lock is free when this returns.
            with suppress(psycopg.Error):
                if self.tenure is not None:
                    self.tenure.give_up(self._writer)
                self._writer.execute("SELECT pg_advisory_unlock_all()")
            self._writer.close()


def watch_tenure(address: str) -> TenureWatch:
    """Returns what a standby sees of the active broker on a database. Raises Invalid for what is no address."""
    parameters = _read_address(address)
    name = f"twigcast standby {socket.gethostname()[:24]} {os.getpid()}"
    return TenureWatch(lambda: _connect(address, parameters, name))


def _read_address(address: str) -> dict[str, Any]:
    try:
        parameters: dict[str, Any] = conninfo.conninfo_to_dict(address)
    except psycopg.ProgrammingError as error:
        raise Invalid(f"the address of the PostgreSQL store cannot be read: {error}") from error
    return parameters


def _connect(address: str, parameters: dict[str, Any], name: str) -> _Connection:
    return psycopg.connect(
        address,
        autocommit=True,
        application_name=name,
        client_encoding="utf8",
        **{"connect_timeout": CONNECT_SECONDS, "tcp_user_timeout": 15_000, "keepalives_idle": 10} | parameters,
    )


def restore(address: str, backup: Path, *, overwrite: bool) -> None:
    """Makes a store from a backup; see :meth:`PostgresqlDatabase.restore`."""
    if not backup.is_file():
        raise UnknownObject(f"there is no backup {backup}")
    database = PostgresqlDatabase(address, migrating=False)
    try:
        database.restore(backup, overwrite=overwrite)
    finally:
        database.close()


def _dump(address: str, schema: str, path: Path) -> None:
    """Writes the tables of a schema, as they are at one moment, in pg_dump's custom format; raises OutputError."""
    part = path.with_name(path.name + ".part")
    try:
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        _run("pg_dump", address, "--format=custom", f"--schema={schema}", f"--file={part}")
        part.replace(path)
    except OSError as error:
        raise OutputError(str(path), f"the backup could not be written: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _load(address: str, path: Path) -> None:
    """Restores a backup into a database that does not hold its tables; if that fails, nothing is changed."""
    try:
        _run("pg_restore", address, "--no-owner", "--single-transaction", "--exit-on-error", str(path))
    except OSError as error:
        raise StoreUnavailable(f"{path} could not be restored: {error}") from error


def _run(program: str, address: str, *arguments: str) -> None:
    result = shutil.which(program)
    if result is None:
        raise FileNotFoundError(
            f"{program} is needed, which comes with PostgreSQL's client programs; it is not in PATH"
        )
    parameters: dict[str, Any] = conninfo.conninfo_to_dict(address)
    # Not on the command line, which every user of the machine could read.
    environment = os.environ | {"PGPASSWORD": str(parameters.pop("password", os.environ.get("PGPASSWORD", "")))}
    target = f"--dbname={conninfo.make_conninfo(**parameters)}"
    done = subprocess.run(  # noqa: S603
        [result, target, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"{program}: {done.stderr.strip() or f'exit status {done.returncode}'}")


def _public(parameters: dict[str, Any]) -> str:
    """Returns an address without its secret parts."""
    host = parameters.get("host") or "localhost"
    port = f":{parameters['port']}" if "port" in parameters else ""
    user = f"{parameters['user']}@" if "user" in parameters else ""
    return f"postgresql://{user}{host}{port}/{parameters.get('dbname', '')}"


def _holder(holders: Sequence[Row]) -> str:
    if not holders:
        return "a session that has just ended; try again"
    _, name, since, address = holders[0]
    return f"{name or 'a session without a name'} from {address or 'this host'}, since {since:%Y-%m-%dT%H:%M:%S%z}"


def _text(error: psycopg.Error) -> str:
    """Returns the text of an error in one line."""
    return " ".join((error.diag.message_primary or str(error)).split())
