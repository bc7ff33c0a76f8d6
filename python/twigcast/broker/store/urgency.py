"""Urgency in the store: what deliveries have of it, which is the next one of a queue, and which are too late."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from twigcast.broker.model import DeliveryId, QueuedDelivery
from twigcast.broker.store.database import INTEGER_MAX, DatabaseSession, Memory, Reads, Row, Writes
from twigcast.broker.store.queues import SIZES, deliveries_of, pending_rows, within
from twigcast.broker.urgency import NEVER, PRIORITY_MAX, USUAL_PRIORITY, UrgencyQueue


class OverdueDelivery(NamedTuple):
    """A delivery that is dropped when it is late, and is."""

    queue_id: int
    id: DeliveryId


_NEXT_OF_LEVEL: Final = (
    "SELECT d.seq, d.subscription_id, d.priority, d.due FROM deliveries d JOIN lanes l ON l.id = d.lane_id "
    "WHERE d.lane_id = ? AND d.priority = ? AND d.due > ? AND d.seq <= ? AND d.acked = 0 "
    "AND (d.seq > l.acked OR EXISTS (SELECT 1 FROM set_aside w WHERE w.lane_id = d.lane_id AND w.seq = d.seq "
    "AND w.subscription_id = d.subscription_id)) AND d.subscription_id NOT IN (SELECT subscription_id FROM leftovers) "
    "ORDER BY d.due, d.seq, d.subscription_id LIMIT ?"
)


class UrgencyReads(Reads):
    """Reading methods for queues whose most urgent delivery is next."""

    def has_overdue(self, queue_id: int) -> bool:
        """Returns whether a queue has something that is to be dropped, since it is late."""
        overdue = "SELECT 1 FROM deliveries WHERE drops = 1 AND due <= ? AND lane_id = ? LIMIT 1"
        return self.first(overdue, (time.time(), queue_id)) is not None

    def pending_by_urgency(
        self, queue_id: int, *, limit: int, bytes_max: int, without: Collection[DeliveryId], choices: int
    ) -> list[QueuedDelivery]:
        """Returns up to ``limit`` pending deliveries of a queue, the next one first, as ``UrgencyQueue`` says.

        Args:
            queue_id: The queue.
            limit: The most deliveries.
            bytes_max: About the most bytes of their bodies.
            without: Deliveries that somebody has already.
            choices: How many were chosen before.
        """

        def work(session: DatabaseSession) -> list[QueuedDelivery]:
            ids = _next_ones(session, self.memory, queue_id, limit, frozenset(without), choices)
            rows = {tuple(row[:2]): row for row in _sizes(session, queue_id, ids)}
            return deliveries_of(session, within([rows[id_] for id_ in ids if id_ in rows], bytes_max))

        return self.database.read(work)


def _next_ones(
    session: DatabaseSession,
    memory: Memory,
    queue_id: int,
    limit: int,
    without: frozenset[DeliveryId],
    choices: int,
) -> list[DeliveryId]:
    """Returns the next deliveries of a queue: a choice among the most urgent ones and those that wait longest."""
    queue = session.rows("SELECT acked, replay_next FROM lanes WHERE id = ?", (queue_id,))
    if not queue:
        return []
    end = INTEGER_MAX if queue[0][1] is None else queue[0][1] - 1
    now, most = time.time(), limit + len(without)
    oldest = pending_rows(
        session, memory, queue_id, queue[0], columns="d.seq, d.subscription_id, d.priority, d.due", limit=most
    )
    found: dict[DeliveryId, Row] = {DeliveryId(*row[:2]): row for row in oldest}
    left = most
    for priority in range(PRIORITY_MAX, -1, -1):
        if left <= 0:
            break
        rows = session.rows(_NEXT_OF_LEVEL, (queue_id, priority, now, end, left))
        found.update((DeliveryId(*row[:2]), row) for row in rows)
        left -= len(rows)
    waiting: UrgencyQueue[DeliveryId] = UrgencyQueue(choices)
    for id_ in sorted(found.keys() - without):
        # What was there before the queue had this order has the usual priority.
        priority, due = found[id_][2:]
        waiting.push(id_, USUAL_PRIORITY if priority is None else priority, NEVER if due is None else due)
    return [waiting.pop(now) for _ in range(min(limit, len(waiting)))]


def _sizes(session: DatabaseSession, queue_id: int, ids: Sequence[DeliveryId]) -> list[Row]:
    return session.rows(
        f"SELECT {SIZES} FROM deliveries d JOIN subscriptions s ON s.id = d.subscription_id "
        f"JOIN messages m ON m.seq = d.seq WHERE d.lane_id = ? AND {session.among('d.seq')}",
        (queue_id, session.values({id_.seq for id_ in ids})),
    )


class UrgencyWrites(Writes):
    """Changing methods for deliveries that are dropped when they are late."""

    def overdue_deliveries(self, now: float, limit: int) -> list[OverdueDelivery]:
        """Returns deliveries that are dropped when they are late, and are, whether they still wait or not."""
        rows = self.session.rows(
            "SELECT lane_id, seq, subscription_id FROM deliveries WHERE drops = 1 AND due <= ? ORDER BY due LIMIT ?",
            (now, limit),
        )
        return [OverdueDelivery(queue_id, DeliveryId(*id_)) for queue_id, *id_ in rows]

    def settle_overdue(self, overdue: Iterable[OverdueDelivery]) -> None:
        """Marks deliveries of which it is known what has become of them."""
        self.session.many(
            "UPDATE deliveries SET drops = NULL WHERE lane_id = ? AND seq = ? AND subscription_id = ?",
            [(one.queue_id, *one.id) for one in overdue],
        )
