"""Reads how far queues are behind: what is pending, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twigcast.broker.model import QueueLag, QueueState
from twigcast.broker.store.database import DatabaseSession, Reads, Row
from twigcast.broker.store.queues import PENDING
from twigcast.broker.store.sharing import queue_state

_QUEUE: Final = "id, tenant_id, subscriber, acked, kind, sharing"


class LagReads(Reads):
    """Reading methods for subscribers and what waits for them."""

    def subscribers(
        self, tenant_id: int, *, after: str | None = None, before: str | None = None, limit: int
    ) -> list[QueueState]:
        """Returns the queues of a tenant in order of their subscribers, or backwards from ``before``."""
        condition = ""
        params: tuple[str, ...] = ()
        if before is not None:
            condition, params = " AND subscriber < ?", (before,)
        elif after is not None:
            condition, params = " AND subscriber > ?", (after,)
        rows = self.rows(
            f"SELECT {_QUEUE} FROM lanes WHERE tenant_id = ?{condition} "
            f"ORDER BY subscriber {'ASC' if before is None else 'DESC'} LIMIT ?",
            (tenant_id, *params, limit),
        )
        return [queue_state(row) for row in rows]

    def queues(self, queue_ids: Sequence[int]) -> list[QueueState]:
        """Returns those of the queues that exist, in any order."""

        def work(session: DatabaseSession) -> list[Row]:
            return session.rows(f"SELECT {_QUEUE} FROM lanes WHERE {session.among('id')}", (session.values(queue_ids),))

        return [queue_state(row) for row in self.database.read(work)]

    def queue_ids_after(self, queue_id: int, limit: int) -> list[int]:
        """Returns the ids of queues behind one, in order, of all tenants."""
        rows = self.rows("SELECT id FROM lanes WHERE id > ? ORDER BY id LIMIT ?", (queue_id, limit))
        return [number for (number,) in rows]

    def lags(self, queue_ids: Sequence[int]) -> list[QueueLag]:
        """Returns how far those of the queues are behind that have something pending.

        It counts: a queue takes time in proportion to what it has pending.
        """
        if not queue_ids:
            return []

        def work(session: DatabaseSession) -> list[QueueLag]:
            requested = session.values(queue_ids)
            rows = session.rows(
                "SELECT l.id, COUNT(*), MIN(d.seq) FROM lanes l CROSS JOIN deliveries d "
                f"WHERE {session.among('l.id')} AND {PENDING} GROUP BY l.id",
                (requested,),
            )
            counts = {number: (count, first) for number, count, first in rows}
            if not self.memory.queues_set_aside.isdisjoint(queue_ids):
                for number, count, first in session.rows(
                    f"SELECT lane_id, COUNT(*), MIN(seq) FROM set_aside WHERE {session.among('lane_id')} "
                    "GROUP BY lane_id",
                    (requested,),
                ):
                    # What is set aside lies below the mark, and is older.
                    counts[number] = (counts.get(number, (0, 0))[0] + count, first)
            tenants: dict[int, int] = dict(
                session.rows(f"SELECT id, tenant_id FROM lanes WHERE {session.among('id')}", (session.values(counts),))
            )
            received: dict[int, float] = dict(
                session.rows(
                    f"SELECT seq, received FROM messages WHERE {session.among('seq')}",
                    (session.values({first for _, first in counts.values()}),),
                )
            )
            return [
                QueueLag(number, tenants[number], count, first, received[first])
                for number, (count, first) in counts.items()
                # A queue or message that has just gone is missing for a reader without a fixed snapshot.
                if number in tenants and first in received
            ]

        return self.database.read(work)
