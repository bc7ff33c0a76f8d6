"""The store over either database: its parts put together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twigcast.broker.store.administration import AdministrationReads, AdministrationWrites
from twigcast.broker.store.base import Memory
from twigcast.broker.store.database import Database
from twigcast.broker.store.dead_letters import DeadLetterReads, DeadLetterWrites
from twigcast.broker.store.interface import Store, Transaction
from twigcast.broker.store.messages import MessageReads, MessageWrites
from twigcast.broker.store.overlay import OverlayReads, OverlayWrites
from twigcast.broker.store.pauses import PauseReads, PauseWrites
from twigcast.broker.store.pushing import PushReads, PushWrites
from twigcast.broker.store.queues import QueueReads, QueueWrites
from twigcast.broker.store.subscriptions import SubscriptionReads, SubscriptionWrites


class SqlTransaction(
    MessageWrites,
    QueueWrites,
    PauseWrites,
    PushWrites,
    DeadLetterWrites,
    SubscriptionWrites,
    AdministrationWrites,
    OverlayWrites,
    Transaction,
):
    """Changes that become durable together."""

    def expire(
        self, *, before: float | None, bytes_max: int | None, limit: int, at: float, up_to: int | None = None
    ) -> int:
        self.save_marks()
        self.remove_leftovers(10 * limit)
        return super().expire(before=before, bytes_max=bytes_max, limit=limit, at=at, up_to=up_to)


class SqlStore(
    MessageReads,
    QueueReads,
    PauseReads,
    PushReads,
    DeadLetterReads,
    SubscriptionReads,
    AdministrationReads,
    OverlayReads,
    Store,
):
    """A store in a database.

    Args:
        database: Migrated and, for a broker, locked.
        exclusive: It is a broker's: what the last one had in its hands is taken back.
    """

    def __init__(self, database: Database, *, exclusive: bool) -> None:
        self.database = database
        self.url = database.url
        self.memory = Memory()
        if exclusive:
            with database.writing() as session:
                session.execute("UPDATE dead_letters SET revived = 0 WHERE revived = 1")
        self.memory.queues_set_aside.update(queue for (queue,) in self.rows("SELECT DISTINCT lane_id FROM set_aside"))

    @contextmanager
    def transaction(self) -> Iterator[SqlTransaction]:
        with self.database.writing() as session:
            transaction = SqlTransaction(session, self.memory)
            yield transaction
            transaction.save_marks()
            transaction.counters.save()

    def close(self) -> None:
        self.database.close()

    def vacuum(self) -> None:
        self.database.vacuum()

    def backup(self, path: Path) -> None:
        self.database.backup(path)
