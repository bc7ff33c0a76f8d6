"""Deliveries that are dropped when they are late, if their subscription says so, and never in silence.

They are dropped, counted and recorded every so often, and before a queue is read. What somebody has at its deadline was
handed out in time, and is not dropped: if it comes back, it is delivered again, and says that it is late.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from twigcast.broker.hub.commit import CommitGroup, Operation
from twigcast.broker.model import DeliveryId, ErrorRecord

DROPPED_AT_ONCE: Final = 1_000
"""Number of late deliveries that are looked at in one commit; publications go on in between."""

ROUND_SECONDS: Final = 1.0
"""Time between two rounds."""


@dataclass(eq=False)
class DropOverdue(Operation):
    """A round. Results in whether there may be more to drop."""

    commutes = True

    def apply(self, group: CommitGroup) -> None:
        """Changes the store."""
        self.result = drop_overdue(group) == DROPPED_AT_ONCE


def drop_overdue(group: CommitGroup) -> int:
    """Drops late deliveries; returns how many were looked at."""
    transaction = group.transaction
    overdue = transaction.overdue_deliveries(group.now, DROPPED_AT_ONCE)
    by_queue: dict[int, list[DeliveryId]] = {}
    for queue_id, id_ in overdue:
        by_queue.setdefault(queue_id, []).append(id_)
    counts: Counter[int] = Counter()
    last: dict[int, int] = {}
    for queue_id, ids in by_queue.items():
        pending = transaction.pending_among(queue_id, ids)
        dropped = sorted(id_ for id_ in ids if id_ in pending and not group.is_out(queue_id, id_))
        if dropped:
            transaction.acknowledge(queue_id, dropped)
            group.result.withdrawn.setdefault(queue_id, []).extend(dropped)
        counts.update(id_.subscription_id for id_ in dropped)
        last |= {id_.subscription_id: id_.seq for id_ in dropped}
    if overdue:
        transaction.settle_overdue(overdue)
    transaction.add_errors(
        ErrorRecord(number, group.now, f"{_deliveries(count)} dropped: too late", last[number], count)
        for number, count in counts.items()
    )
    group.counted.overdue_dropped += sum(counts.values())
    return len(overdue)


def _deliveries(count: int) -> str:
    return "a delivery was" if count == 1 else f"{count:,} deliveries were"
