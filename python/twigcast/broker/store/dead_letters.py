"""Dead letters: deliveries that were given up, kept whole so that they outlive their message."""

from __future__ import annotations

from collections.abc import Sequence

from twigcast.broker.model import DeadLetter, DeliveryId, QueuedDelivery, StoredMessage
from twigcast.broker.store.base import Reads, Writes
from twigcast.broker.store.database import INTEGER_MAX, Row
from twigcast.broker.store.messages import id_range


class DeadLetterReads(Reads):
    """Reading methods for dead letters."""

    def dead_letters(
        self,
        tenant_id: int,
        *,
        before_id: int | None = None,
        after_id: int | None = None,
        limit: int,
        key: str | None = None,
    ) -> list[DeadLetter]:
        """Returns dead letters, newest first; with ``after_id`` those after it, oldest first."""
        position, order = id_range("d.id", before_id, after_id)
        condition, params = ("", ()) if key is None else (" AND s.key = ?", (key,))
        rows = self.rows(
            "SELECT d.id, d.tenant_id, d.subscription_id, s.key, d.seq, d.message_id, d.attempts, d.reason, d.at, "
            "d.body FROM dead_letters d JOIN subscriptions s ON s.id = d.subscription_id "
            f"WHERE d.tenant_id = ? AND {position[0]} AND d.revived = 0{condition} ORDER BY d.id {order} LIMIT ?",
            (tenant_id, position[1], *params, limit),
        )
        return [DeadLetter(*row) for row in rows]


class DeadLetterWrites(Writes):
    """Methods that add, redrive and remove dead letters."""

    def dead_letter(self, deliveries: Sequence[tuple[QueuedDelivery, int, str]], *, at: float) -> list[int]:
        """Moves deliveries, each with its attempts and reason, to the dead letters and acknowledges them."""
        by_queue: dict[int, list[DeliveryId]] = {}
        ids = []
        for delivery, attempts, reason in deliveries:
            ids.append(
                self._dead_letter_redriven(delivery, attempts, reason, at)
                or self._dead_letter(delivery, attempts, reason, at)
            )
            by_queue.setdefault(delivery.queue_id, []).append(delivery.id)
        for queue_id, of_queue in by_queue.items():
            self.acknowledge(queue_id, of_queue)
        return ids

    def _dead_letter_redriven(self, delivery: QueuedDelivery, attempts: int, reason: str, at: float) -> int | None:
        """Shows a dead letter again that was being redriven; returns its id, if there is one."""
        if not self.memory.has_redriven:
            return None
        row = self.first(
            "SELECT id FROM dead_letters WHERE revived = 1 AND subscription_id = ? AND seq = ?",
            (delivery.id.subscription_id, delivery.id.seq),
        )
        if row is not None:
            self.session.execute(
                "UPDATE dead_letters SET revived = 0, attempts = attempts + ?, reason = ?, at = ? WHERE id = ?",
                (attempts, reason, at, row[0]),
            )
        return None if row is None else int(row[0])

    def _dead_letter(self, delivery: QueuedDelivery, attempts: int, reason: str, at: float) -> int:
        number = self.counters.take("dead_letter")
        message = delivery.message
        self.session.insert(
            "dead_letters",
            (
                "id",
                "tenant_id",
                "subscription_id",
                "seq",
                "source",
                "message_id",
                "received",
                "attempts",
                "reason",
                "at",
                "rewritten",
                "revived",
                "body",
            ),
            [
                (
                    number,
                    message.tenant_id,
                    delivery.id.subscription_id,
                    message.seq,
                    message.source,
                    message.message_id,
                    message.received,
                    attempts,
                    reason,
                    at,
                    int(delivery.payload is not None),
                    0,
                    delivery.body,
                )
            ],
        )
        return number

    def redrive(self, dead_letter_ids: Sequence[int]) -> list[QueuedDelivery]:
        """Takes dead letters out to be delivered again; one that fails again is dead-lettered again.

        A delivery that succeeds is acknowledged with :meth:`acknowledge`. Until then the store hides the dead letter;
        if the broker ends before, the next start shows it again.
        """
        self.memory.has_redriven = True
        requested = [number for number in dead_letter_ids if number <= INTEGER_MAX]
        condition, params = self.session.among("d.id"), (self.session.values(requested),)
        rows = self.session.rows(
            "SELECT d.seq, d.subscription_id, s.lane_id, s.key, d.tenant_id, d.source, d.message_id, d.received, "
            "d.rewritten, d.body FROM dead_letters d JOIN subscriptions s ON s.id = d.subscription_id "
            f"WHERE {condition} AND d.revived = 0 ORDER BY d.seq, d.subscription_id",
            params,
        )
        self.session.execute(
            f"UPDATE dead_letters SET revived = 1 WHERE {self.session.among('id')}",
            params,
        )
        return [_redriven(row) for row in rows]

    def remove_dead_letters(self, dead_letter_ids: Sequence[int]) -> int:
        """Removes dead letters for good, and returns how many there were."""
        return self.session.execute(
            f"DELETE FROM dead_letters WHERE {self.session.among('id')}",
            (self.session.values(number for number in dead_letter_ids if number <= INTEGER_MAX),),
        )


def _redriven(row: Row) -> QueuedDelivery:
    seq, subscription_id, queue_id, key, tenant_id, source, message_id, received, rewritten, body = row
    return QueuedDelivery(
        id=DeliveryId(seq, subscription_id),
        queue_id=queue_id,
        key=key,
        # The message itself may have expired; of a rewritten one only the result is needed.
        message=StoredMessage(seq, tenant_id, source, message_id, received, b"" if rewritten else body),
        payload=body if rewritten else None,
        redelivered=True,
    )
