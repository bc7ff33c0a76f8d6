"""The narrow layer between the store and its database, so that most SQL is written once.

Statements are written with ``?`` for parameters and with the few words below where the databases differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

Row = tuple[Any, ...]
Params = Sequence[object]
T = TypeVar("T")

INTEGER_MAX: Final = (1 << 63) - 1
"""The largest integer that both databases hold. No sequence number or id is larger."""


class DatabaseSession(Protocol):
    """The statements of one transaction, or of one reader, which sees one committed state."""

    locking: str
    """Suffix of a query that locks its rows, if the database locks rows."""

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        """Returns the rows of a query."""

    def execute(self, sql: str, params: Params = ()) -> int:
        """Executes a change, and returns the number of rows it affected."""

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        """Executes a change for each row of parameters."""

    def insert(
        self, table: str, columns: Sequence[str], rows: Iterable[Params], *, keep_existing: bool = False
    ) -> None:
        """Inserts rows in bulk; with ``keep_existing``, rows whose key exists are skipped."""

    def among(self, column: str, kind: str = "bigint") -> str:
        """Returns a condition: the column is one of the values of a parameter made by :meth:`values`."""

    def values(self, values: Iterable[int | str]) -> object:
        """Returns many values as one parameter."""


class Database(Protocol):
    """A database: one writer at a time, many readers."""

    url: str

    def read(self, work: Callable[[DatabaseSession], T]) -> T:
        """Calls a reader, and calls it again if the connection is lost meanwhile."""

    def writing(self) -> AbstractContextManager[DatabaseSession]:
        """Opens a transaction, which is durable after a block that ends without an error."""

    def size(self) -> int:
        """Returns the size of the database in bytes."""

    def vacuum(self) -> None:
        """Returns unused space to the system."""

    def backup(self, path: Path) -> None:
        """Writes a consistent copy."""

    def close(self) -> None:
        """Releases everything, the lock included."""


class StoredCounters:
    """The counters and sums of one table: read at first use in a transaction, written at its end.

    There is one writer, so that an id is taken without a query, and is never given twice.
    """

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self._values: dict[str, int] = {}
        self._changed: set[str] = set()

    def value(self, name: str) -> int:
        """Returns the last number that was taken, or the sum."""
        if not self._values:
            # An operator's command may write at the same time.
            sql = f"SELECT name, value FROM counters ORDER BY name{self._session.locking}"
            self._values = dict(self._session.rows(sql))
        return self._values[name]

    def add(self, name: str, amount: int) -> int:
        """Adds to a sum or takes numbers; returns the value before."""
        before = self.value(name)
        if amount:
            self._values[name] = before + amount
            self._changed.add(name)
        return before

    def take(self, name: str) -> int:
        """Returns a number that was never taken before."""
        return self.add(name, 1) + 1

    def save(self) -> None:
        """Writes the changed values."""
        if self._changed:
            self._session.many(
                "UPDATE counters SET value = ? WHERE name = ?",
                [(self._values[name], name) for name in sorted(self._changed)],
            )
            self._changed.clear()
