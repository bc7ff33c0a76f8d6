"""The narrow layer between the store and its database, so that most SQL is written once.

Statements are written with ``?`` for parameters and with the few words below where the databases differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from twigcast.broker.model import ErrorRecord
from twigcast.broker.store.sealing import Sealer

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


class WritingTenure(Protocol):
    """The right of one broker to write to a database that others reach too, until another one takes over."""

    number: int
    on_lost: Callable[[], None]

    @property
    def is_valid(self) -> bool:
        """Returns whether nobody else can be active."""

    @property
    def is_lost(self) -> bool:
        """Returns whether another broker has taken over."""


class Database(Protocol):
    """A database: one writer at a time, many readers."""

    url: str

    @property
    def tenure(self) -> WritingTenure | None:
        """The tenure of a broker; ``None`` where no other one can take over."""

    def read(self, work: Callable[[DatabaseSession], T]) -> T:
        """Calls a reader, and calls it again if the connection is lost meanwhile."""

    def writing(self) -> AbstractContextManager[DatabaseSession]:
        """Opens a transaction, which is durable after a block that ends without an error."""

    def size(self) -> int:
        """Returns the size of the database in bytes."""

    def unused(self) -> int:
        """Returns how many bytes of the database hold nothing, and :meth:`vacuum` would return."""

    def shrink(self) -> None:
        """Returns unused space to the system while others work, as far as the database does not by itself."""

    def vacuum(self) -> None:
        """Returns unused space to the system, and leaves nothing of it in a log."""

    def backup(self, path: Path) -> None:
        """Writes a consistent copy."""

    def close(self) -> None:
        """Releases everything, the lock included."""


class StoredCounters:
    """The counters and sums of one table: read at first use in a transaction, written at its end, by one writer."""

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


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields the values in lists of at most ``size``."""
    iterator = iter(values)
    while some := list(islice(iterator, size)):
        yield some


@dataclass(slots=True)
class Memory:
    """The facts that an open store keeps in memory."""

    has_redriven: bool = False
    """Whether dead letters were redriven since it was opened, so that acknowledgements are compared with them."""
    sealer: Sealer = field(default_factory=Sealer)
    """Seals and opens secrets."""
    queues_set_aside: set[int] = field(default_factory=set)
    """Queues that may have deliveries set aside; no other queue has."""
    shared_queues: set[int] = field(default_factory=set)
    """Queues that workers share, or did; no other queue has leases."""
    urgent_queues: set[int] = field(default_factory=set)
    """Queues whose most urgent delivery is next, or was; no other queue has deliveries with a priority."""
    urgent_subscriptions: set[int] = field(default_factory=set)
    """Subscriptions that say something of their urgency, or did."""
    dropping_queues: set[int] = field(default_factory=set)
    """Queues of subscriptions whose late deliveries are dropped, or were."""


class Reads:
    """Reading methods, each a transaction of its own."""

    database: Database
    memory: Memory

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        """Returns the rows of a query."""
        return self.database.read(lambda session: session.rows(sql, params))

    def first(self, sql: str, params: Params = ()) -> Row | None:
        """Returns the first row of a query, if there is one."""
        return next(iter(self.rows(sql, params)), None)

    def one(self, sql: str, params: Params = ()) -> Row:
        """Returns the row of a query that always has one."""
        return self.rows(sql, params)[0]


class Writes(ABC):
    """Changing methods of one transaction."""

    def __init__(self, session: DatabaseSession, memory: Memory) -> None:
        self.session = session
        self.memory = memory
        self.counters = StoredCounters(session)
        self.marks: dict[int, int] = {}
        """Marks of queues to move, which :meth:`save_marks` writes together."""

    @abstractmethod
    def save_marks(self) -> None:
        """Writes the moved marks of queues: at the end, and before a statement that reads them."""

    def first(self, sql: str, params: Params = ()) -> Row | None:
        """Returns the first row of a query, if there is one."""
        return next(iter(self.session.rows(sql, params)), None)

    @abstractmethod
    def add_errors(self, records: Iterable[ErrorRecord]) -> None:
        """Stores errors of single subscriptions."""
