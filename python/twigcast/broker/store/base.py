"""What the parts of the store stand on: looking up and changing, whatever the database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from twigcast.broker.model import DeliveryId, ErrorRecord
from twigcast.broker.store.database import Database, DatabaseSession, Params, Row, StoredCounters

T = TypeVar("T")


def chunks(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """The values in lists of at most ``size``."""
    iterator = iter(values)
    while some := list(islice(iterator, size)):
        yield some


class Memory:
    """What an open store knows without asking the database."""

    def __init__(self) -> None:
        self.has_redriven = False
        """Dead letters were revived since it was opened, so that acknowledgements are to be compared with them."""
        self.queues_set_aside: set[int] = set()
        """Queues that may have deliveries set aside; no other queue has."""


class Reads:
    """Reading, each call for itself."""

    database: Database
    memory: Memory

    def rows(self, sql: str, params: Params = ()) -> list[Row]:
        """What a query finds."""
        return self.database.read(lambda session: session.rows(sql, params))

    def first(self, sql: str, params: Params = ()) -> Row | None:
        """The first row that a query finds."""
        return next(iter(self.rows(sql, params)), None)

    def one(self, sql: str, params: Params = ()) -> Row:
        """The row of a query that always has one."""
        return self.rows(sql, params)[0]


class Writes(ABC):
    """Changes, in one transaction."""

    def __init__(self, session: DatabaseSession, memory: Memory) -> None:
        self.session = session
        self.memory = memory
        self.counters = StoredCounters(session)
        self.marks: dict[int, int] = {}
        """Marks of queues that are to be moved by :meth:`save_marks`, all at once."""

    @abstractmethod
    def save_marks(self) -> None:
        """Move the marks of queues: at the end, and before anything that goes by them."""

    def first(self, sql: str, params: Params = ()) -> Row | None:
        """The first row that a query finds."""
        return next(iter(self.session.rows(sql, params)), None)

    @abstractmethod
    def add_errors(self, records: Iterable[ErrorRecord]) -> None:
        """Store what went wrong for single subscriptions."""

    @abstractmethod
    def acknowledge(self, queue_id: int, ids: Sequence[DeliveryId]) -> None:
        """Acknowledge single deliveries of a queue."""
