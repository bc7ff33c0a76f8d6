"""The deliveries that workers of shared queues have or had, and dead letters that go back to a queue.

A lease is stored before its delivery is handed out, so that it holds when the broker is killed, and counts as an
attempt. Whether a delivery is still pending is decided in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from twigcast.broker.model import PULL, DeliveryId, QueuedDelivery, StoredLease
from twigcast.broker.store.database import INTEGER_MAX, DatabaseSession, Reads, Row, Writes
from twigcast.broker.store.queues import PENDING, SIZES, deliveries_of, within

_COLUMNS = "lane_id", "seq", "subscription_id", "attempts", "until", "seconds", "held"


def _still_pending(session: DatabaseSession, columns: str, queue_id: int, ids: Collection[DeliveryId]) -> list[Row]:
    """Returns columns of those of the deliveries that are pending, the set aside ones included, in order."""
    requested = session.values({id_.seq for id_ in ids if max(id_) <= INTEGER_MAX})
    tables = "deliveries d JOIN subscriptions s ON s.id = d.subscription_id JOIN messages m ON m.seq = d.seq"
    rows = session.rows(
        f"SELECT {columns} FROM lanes l CROSS JOIN {tables} "
        f"WHERE l.id = ? AND {PENDING} AND {session.among('d.seq')} ORDER BY d.seq, d.subscription_id",
        (queue_id, requested),
    )
    rows += session.rows(
        f"SELECT {columns} FROM set_aside w CROSS JOIN {tables} WHERE w.lane_id = ? AND d.lane_id = w.lane_id "
        f"AND d.seq = w.seq AND d.subscription_id = w.subscription_id AND {session.among('d.seq')} "
        "ORDER BY d.seq, d.subscription_id",
        (queue_id, requested),
    )
    wanted = set(ids)
    return sorted({tuple(row) for row in rows if tuple(row[:2]) in wanted}, key=lambda row: row[:2])


class LeaseReads(Reads):
    """Reading methods for what workers have."""

    def leases(self) -> Iterator[StoredLease]:
        """Yields what workers of all queues have or had, and is not done; at most ``leases_max`` of each queue."""
        for queue_id, seq, subscription_id, attempts, until, seconds, is_held in self.rows(
            f"SELECT {', '.join(_COLUMNS)} FROM leases ORDER BY lane_id, seq, subscription_id"
        ):
            yield StoredLease(queue_id, DeliveryId(seq, subscription_id), attempts, until, seconds, bool(is_held))

    def still_pending(
        self, queue_id: int, ids: Collection[DeliveryId], *, bytes_max: int
    ) -> tuple[list[QueuedDelivery], set[DeliveryId]]:
        """Returns deliveries of a queue, at least one of about so many bytes, and which of all are still pending."""

        def work(session: DatabaseSession) -> tuple[list[QueuedDelivery], set[DeliveryId]]:
            rows = _still_pending(session, SIZES, queue_id, ids)
            return deliveries_of(session, within(rows, bytes_max)), {DeliveryId(*row[:2]) for row in rows}

        return self.database.read(work)


class LeaseWrites(Writes):
    """Changing methods for what workers have."""

    def lease(
        self, queue_id: int, attempts: Mapping[DeliveryId, int], *, until: float, seconds: float
    ) -> set[DeliveryId]:
        """Stores leases of deliveries, each with its number of attempts, and returns those that are still pending."""
        pending = self.pending_among(queue_id, attempts)
        self.set_leases(
            [StoredLease(queue_id, id_, attempts[id_], until, seconds) for id_ in attempts if id_ in pending]
        )
        return pending

    def pending_among(self, queue_id: int, ids: Collection[DeliveryId]) -> set[DeliveryId]:
        """Returns the deliveries that are still pending, after all changes before this one."""
        if queue_id in self.marks:
            self.save_marks()
        rows = _still_pending(self.session, "d.seq, d.subscription_id", queue_id, ids)
        return {DeliveryId(*row) for row in rows}

    def set_leases(self, leases: Sequence[StoredLease]) -> None:
        """Stores leases, in place of those there are."""
        self.session.many(
            f"INSERT INTO leases ({', '.join(_COLUMNS)}) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (lane_id, seq, subscription_id) DO UPDATE SET attempts = excluded.attempts, "
            "until = excluded.until, seconds = excluded.seconds, held = excluded.held",
            [(one.queue_id, *one.id, one.attempts, one.until, one.seconds, int(one.is_held)) for one in leases],
        )

    def change_leases(self, leases: Sequence[StoredLease]) -> None:
        """Changes the ends of leases that are stored; those of deliveries that are done are gone, and stay so."""
        self.session.many(
            "UPDATE leases SET until = ?, seconds = ?, held = ? WHERE lane_id = ? AND seq = ? AND subscription_id = ?",
            [(one.until, one.seconds, int(one.is_held), one.queue_id, *one.id) for one in leases],
        )

    def return_dead_letters(self, dead_letter_ids: Sequence[int]) -> list[tuple[int, DeliveryId]]:
        """Makes dead letters of pulled deliveries pending again, and returns these, each with its queue.

        One whose message has expired stays a dead letter.
        """
        requested = self.session.values(number for number in dead_letter_ids if number <= INTEGER_MAX)
        self.save_marks()
        rows = self.session.rows(
            "SELECT d.id, s.lane_id, d.seq, d.subscription_id, l.acked FROM dead_letters d "
            "JOIN subscriptions s ON s.id = d.subscription_id JOIN lanes l ON l.id = s.lane_id "
            "JOIN deliveries p ON p.lane_id = s.lane_id AND p.seq = d.seq AND p.subscription_id = d.subscription_id "
            f"WHERE {self.session.among('d.id')} AND d.revived = 0 AND s.kind = '{PULL}' "
            "ORDER BY d.seq, d.subscription_id",
            (requested,),
        )
        again = "UPDATE deliveries SET acked = 0 WHERE lane_id = ? AND seq = ? AND subscription_id = ?"
        self.session.many(again, [row[1:4] for row in rows])
        below = [row[1:4] for row in rows if row[2] <= row[4]]
        self.memory.queues_set_aside.update(row[0] for row in below)
        self.session.insert("set_aside", ("lane_id", "seq", "subscription_id"), below, keep_existing=True)
        self.session.execute(
            f"DELETE FROM dead_letters WHERE {self.session.among('id')}",
            (self.session.values(row[0] for row in rows),),
        )
        return [(row[1], DeliveryId(row[2], row[3])) for row in rows]
