"""The base of the store's parts: reading and changing, whatever the database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from twigcast.broker.model import DeliveryId, ErrorRecord
from twigcast.broker.store.database import Database, DatabaseSession, Params, Row, StoredCounters

T = TypeVar("T")


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yields the values in lists of at most ``size``."""
    iterator = iter(values)
    while some := list(islice(iterator, size)):
        yield some


class Memory:
    """The facts that an open store keeps in memory."""

    def __init__(self) -> None:
        self.has_redriven = False
        """Whether dead letters were redriven since it was opened, so that acknowledgements are compared with them."""
        self.queues_set_aside: set[int] = set()
        """Queues that may have deliveries set aside; no other queue has."""


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

    @abstractmethod
    def acknowledge(self, queue_id: int, ids: Sequence[DeliveryId]) -> None:
        """Acknowledges single deliveries of a queue."""
