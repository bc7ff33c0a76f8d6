"""What the statements of the store need of a database: a narrow layer, so that most SQL is written once.

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
"""The largest integer that both databases hold; a larger sequence number or id denotes nothing."""


class DatabaseSession(Protocol):
    """Statements in one transaction, or one reader's look at what is committed."""

    locking: str
    """Ends a query that locks the rows it finds, where the database locks rows."""

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        """What a query finds."""

    def execute(self, sql: str, params: Params = ()) -> int:
        """Carry out a change; how many rows it concerned."""

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        """Carry out a change for each row of parameters."""

    def insert(
        self, table: str, columns: Sequence[str], rows: Iterable[Params], *, keep_existing: bool = False
    ) -> None:
        """Insert rows in bulk; with ``keep_existing``, those whose key is there already are passed over."""

    def among(self, column: str, kind: str = "bigint") -> str:
        """A condition: the column is one of the values of a parameter made by :meth:`values`."""

    def values(self, values: Iterable[int | str]) -> object:
        """Many values as one parameter."""


class Database(Protocol):
    """A database: one writer at a time, many readers."""

    url: str

    def read(self, work: Callable[[DatabaseSession], T]) -> T:
        """Do some reading. It may be done again when the connection is lost on the way."""

    def writing(self) -> AbstractContextManager[DatabaseSession]:
        """A transaction, durable after a block that ends without an error."""

    def size(self) -> int:
        """Bytes that it takes."""

    def vacuum(self) -> None:
        """Give room back to the system."""

    def backup(self, path: Path) -> None:
        """Write a consistent copy."""

    def close(self) -> None:
        """Give back everything, the lock included."""


class StoredCounters:
    """Numbers given out and sums kept, in one table: read at first use in a transaction, written at its end.

    There is one writer, so that ids are taken without asking the database for each; an id is never given twice.
    """

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self._values: dict[str, int] = {}
        self._changed: set[str] = set()

    def value(self, name: str) -> int:
        """The last number that was given, or the sum."""
        if not self._values:
            # An operator's command may write at the same time.
            sql = f"SELECT name, value FROM counters ORDER BY name{self._session.locking}"
            self._values = dict(self._session.rows(sql))
        return self._values[name]

    def add(self, name: str, amount: int) -> int:
        """Add to a sum or take numbers; the value before."""
        before = self.value(name)
        if amount:
            self._values[name] = before + amount
            self._changed.add(name)
        return before

    def take(self, name: str) -> int:
        """A number that was never given before."""
        return self.add(name, 1) + 1

    def save(self) -> None:
        """Write what has changed."""
        if self._changed:
            self._session.many(
                "UPDATE counters SET value = ? WHERE name = ?",
                [(self._values[name], name) for name in sorted(self._changed)],
            )
            self._changed.clear()
