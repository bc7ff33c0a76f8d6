"""Suspension of subscriptions whose queue nobody empties: beyond a limit, with a recorded reason.

Counting the pending deliveries of a queue at each message would cost more than the message. So each queue has an
allowance of deliveries that may come before it is counted again. Right after a start, and close to the limit, it is a
tenth of the limit; a queue can exceed its limit by no more than that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twigcast.broker.hub.commit import CommitGroup, PublishedMessage
from twigcast.broker.model import ErrorRecord, SubscriptionState

_STEPS: Final = 10


def count_pending(group: CommitGroup, published: Sequence[PublishedMessage]) -> None:
    """Counts new deliveries, and suspends the subscriptions of queues that have too many."""
    remaining = group.remaining_by_queue
    to_count: dict[int, int] = {}
    for item in published:
        tenant_id = item.message.tenant_id
        unknown = group.limit(tenant_id, "pending_max") // _STEPS
        for delivery in item.deliveries:
            queue_id = delivery.queue_id
            left = remaining[queue_id] = remaining.get(queue_id, unknown) - 1
            if left < 0:
                to_count[queue_id] = tenant_id
    for queue_id, tenant_id in to_count.items():
        _count(group, tenant_id, queue_id)


def _count(group: CommitGroup, tenant_id: int, queue_id: int) -> None:
    limit = group.limit(tenant_id, "pending_max")
    here = sum(d.queue_id == queue_id for item in group.published for d in item.deliveries)
    pending = group.store.pending_count(queue_id) + here
    if pending <= limit:
        group.remaining_by_queue[queue_id] = max(limit - pending, limit // _STEPS)
        return
    del group.remaining_by_queue[queue_id]
    _suspend(group, tenant_id, queue_id, f"more than {limit:,} deliveries wait for its subscriber")


def _suspend(group: CommitGroup, tenant_id: int, queue_id: int, reason: str) -> None:
    population = group.population.of(tenant_id)
    numbers = population.of_queue(queue_id)
    for number in numbers:
        member = population.member(tenant_id, number)
        assert member is not None, "it takes part"
        group.put(member, active=False)
        group.transaction.set_subscription_state(number, SubscriptionState.SUSPENDED, reason)
        group.reread.append(member)
    group.transaction.add_errors(ErrorRecord(number, group.now, f"suspended: {reason}") for number in numbers)
    group.counted.suspended += len(numbers)
