"""The tenure of one broker among those on a PostgreSQL database: who is active, until when, and who is no longer.

The lock of the writing connection is the arbiter: a broker writes only over the connection that holds it. But a broker
that hangs, or whose machine is paused, keeps its connection, and so the lock. So an active broker also renews a
*tenure* in the database, every second for some seconds more. Another one that waits ends the connection of a broker
whose tenure is over, takes the lock, and gives itself the next tenure. What the former one has not committed by then is
undone; when it wakes up its connection is gone, and with another one it finds that the tenure is not its own any more.

Times are those of the database, or of a monotonic clock of one process: clocks need not agree.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from twigcast.broker.errors import TenureLost

logger = logging.getLogger(__name__)

TENURE_SECONDS: Final = 4.0
"""How long a tenure lasts after it was renewed."""

RENEWED_SECONDS: Final = 1.0
"""Time between two renewals."""

_SCHEMA: Final = "twigcast_tenure"
"""Apart from the tables of the store, which are replaced when a backup is restored."""

_MAKING: Final = 0x54574754
"""The lock of who makes the table."""


_Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True)
class Tenure:
    """The tenure that is stored."""

    number: int
    """Grows with each broker that becomes active."""
    session: str
    """The name of the holder's connections."""
    address: str
    """Where clients reach it."""
    seconds_left: float
    """0 or less if it is over."""


def read_tenure(connection: _Connection) -> Tenure | None:
    """Returns the last tenure; ``None`` if no broker has had one."""
    exists = connection.execute("SELECT to_regclass(%s)", (f"{_SCHEMA}.tenure",)).fetchone()
    if exists is None or exists[0] is None:
        return None
    row = connection.execute(
        "SELECT number, session, address, EXTRACT(EPOCH FROM until - clock_timestamp())::double precision "
        f"FROM {_SCHEMA}.tenure"
    ).fetchone()
    return None if row is None else Tenure(*row)


def _make_table(connection: _Connection) -> None:
    if read_tenure(connection) is not None:
        return  # this also serves a role that may not make a schema
    connection.execute("SELECT pg_advisory_lock(%s)", (_MAKING,))
    try:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}")
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {_SCHEMA}.tenure (id int PRIMARY KEY, number bigint NOT NULL, "
            "session text NOT NULL, address text NOT NULL, until timestamptz NOT NULL)"
        )
    finally:
        connection.execute("SELECT pg_advisory_unlock(%s)", (_MAKING,))


class OwnTenure:
    """The tenure of this process, renewed by a thread until it is given up or lost."""

    def __init__(self, connect: Callable[[], _Connection], session: str, address: str) -> None:
        self._connect = connect
        self._session = session
        self._address = address
        self.number = 0
        self.on_lost: Callable[[], None] = lambda: None
        """Called once, in any thread, when another broker has had a tenure since."""
        self._valid_until = 0.0
        self._is_lost = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="twigcast-tenure", daemon=True)

    def take(self, connection: _Connection) -> None:
        """Begins the next tenure, for who holds the lock on this connection, and renews it from now on."""
        _make_table(connection)
        asked = time.monotonic()
        row = connection.execute(
            f"INSERT INTO {_SCHEMA}.tenure (id, number, session, address, until) "
            "VALUES (1, 1, %s, %s, clock_timestamp() + make_interval(secs => %s)) ON CONFLICT (id) DO UPDATE SET "
            "number = tenure.number + 1, session = excluded.session, address = excluded.address, "
            "until = excluded.until RETURNING number",
            (self._session, self._address, TENURE_SECONDS),
        ).fetchall()[0]
        self.number = int(row[0])
        self._valid_until = asked + TENURE_SECONDS
        self._thread.start()

    def check(self, connection: _Connection) -> None:
        """Raises TenureLost if another broker has had a tenure, for who holds the lock on this connection again."""
        tenure = read_tenure(connection)
        if self._is_lost or tenure is None or tenure.number != self.number:
            self._lose()
            raise TenureLost.to("" if tenure is None else tenure.address)

    def _renewing(self) -> _Connection:
        connection = self._connect()
        # A slow disk is no reason to lose a tenure. Its number is stored before it begins, which matters.
        connection.execute("SET synchronous_commit = off")
        return connection

    def renew(self, connection: _Connection) -> bool:
        """Lets the tenure go on; returns whether it is still that of this process."""
        asked = time.monotonic()
        count = connection.execute(
            f"UPDATE {_SCHEMA}.tenure SET until = clock_timestamp() + make_interval(secs => %s) WHERE number = %s",
            (TENURE_SECONDS, self.number),
        ).rowcount
        if count:
            self._valid_until = asked + TENURE_SECONDS
        return bool(count)

    @property
    def is_valid(self) -> bool:
        """Returns whether nobody else can be active."""
        return not self._is_lost and time.monotonic() < self._valid_until

    @property
    def is_lost(self) -> bool:
        """Returns whether another broker has had a tenure since."""
        return self._is_lost

    def _lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            logger.error("another broker has taken over: this one writes nothing any more")
            self.on_lost()

    def _renew(self) -> None:
        connection: _Connection | None = None
        while not self._ending.wait(RENEWED_SECONDS):
            try:
                connection = connection or self._renewing()
                is_own = self.renew(connection)
            except psycopg.Error as error:
                logger.warning("the tenure of this broker is not renewed: %s", " ".join(str(error).split()))
                if connection is not None:
                    connection.close()
                    connection = None
                continue
            if not is_own:
                self._lose()
                break
        if connection is not None:
            connection.close()

    def give_up(self, connection: _Connection) -> None:
        """Ends the tenure, so that another broker need not wait until it is over."""
        self._ending.set()
        if self.number and not self._is_lost:
            connection.execute(
                f"UPDATE {_SCHEMA}.tenure SET until = clock_timestamp() WHERE number = %s", (self.number,)
            )


class TenureWatch:
    """A standby's view of the tenure of the active broker. Its method blocks; for one thread at a time."""

    def __init__(self, connect: Callable[[], _Connection]) -> None:
        self._connect = connect
        self._connection: _Connection | None = None
        self.active: str | None = None
        """Where clients reach the active broker, as was seen last."""

    def is_over(self) -> bool:
        """Returns whether the tenure of the active broker is over; if the database does not answer, that it is not."""
        try:
            self._connection = self._connection or self._connect()
            tenure = read_tenure(self._connection)
        except psycopg.Error as error:
            logger.warning("the tenure of the active broker is not known: %s", " ".join(str(error).split()))
            self.close()
            return False
        is_over = tenure is None or tenure.seconds_left <= 0
        self.active = None if tenure is None or is_over else tenure.address or None
        return is_over

    def close(self) -> None:
        """Closes its connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
