"""Overflow: what happens to the subscriptions of a queue in which more waits than its tenant may have.

Each subscription has a policy (:class:`~twigcast.broker.model.OverflowPolicy`), which applies to its own deliveries. A
suspended one that has its subscriber for itself records the first message that it misses. When half of what waits is
done, it resumes, and what it missed is replayed in front of new messages.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from twigcast.broker.errors import QueueFull
from twigcast.broker.hub.commit import CommitGroup, Operation, PublishedMessage
from twigcast.broker.hub.population import Evaluation, RegisteredSubscription
from twigcast.broker.model import DeliveryId, ErrorRecord, OverflowPolicy, StoredSubscription, SubscriptionState

_STEPS: Final = 10
"""A queue is counted again after this part of its limit."""

_DEAD_LETTERS_STEP: Final = 1_000
"""The same for dead letters, which are stored whole, in deliveries at most."""

_DEAD_LETTERS_AT_ONCE: Final = 10_000
"""Number of dead letters in one commit; what is left follows with the next count."""

_REFUSED_TIMES: Final = 2
"""A subscription that refuses publishers is suspended beyond so many limits: other brokers cannot be refused."""

_FULL_SECONDS: Final = 0.2
"""Time between two counts of a queue whose publishers are refused."""


def count_pending(group: CommitGroup, published: Sequence[PublishedMessage]) -> None:
    """Counts new deliveries, and applies the policies of subscriptions for whose subscriber too much waits.

    Counting the pending deliveries of a queue at each message would cost more than the message. So each queue has an
    allowance of deliveries that may come before it is counted again. Right after a start, and close to the limit, it is
    a tenth of the limit; a queue can exceed its limit by no more than that.
    """
    remaining, filled = group.remaining_by_queue, group.result.filled
    to_count: dict[int, int] = {}
    for item in published:
        tenant_id = item.message.tenant_id
        unknown = group.limit(tenant_id, "pending_max") // _STEPS
        for delivery in item.deliveries:
            queue_id = delivery.queue_id
            filled.add(queue_id)
            left = remaining[queue_id] = remaining.get(queue_id, unknown) - 1
            if left < 0:
                to_count[queue_id] = tenant_id
    for queue_id, tenant_id in to_count.items():
        _Overflow(group, tenant_id, queue_id).count()


def refusal_of(group: CommitGroup, tenant_id: int, evaluation: Evaluation) -> QueueFull | None:
    """Returns why a message is refused that was evaluated so; ``None`` if it is not."""
    population = group.population.of(tenant_id)
    if not population.policies or not group.full_queues:
        return None
    for number, queue_id, key in zip(evaluation.numbers, evaluation.queues, evaluation.keys, strict=True):
        if population.policies.get(number) is OverflowPolicy.REFUSE and _is_full(group, tenant_id, queue_id):
            limit = group.limit(tenant_id, "pending_max")
            reason = f"nothing was stored: {limit:,} deliveries wait for the subscription {key!r}"
            return QueueFull(reason, 1.0)
    return None


def _is_full(group: CommitGroup, tenant_id: int, queue_id: int) -> bool:
    count_at = group.full_queues.get(queue_id)
    if count_at is None or time.monotonic() < count_at:
        return count_at is not None
    if group.store.pending_count(queue_id) >= group.limit(tenant_id, "pending_max"):
        group.full_queues[queue_id] = time.monotonic() + _FULL_SECONDS
        return True
    del group.full_queues[queue_id]
    return False


@dataclass(slots=True)
class _Overflow:
    """A queue that may have too much pending."""

    group: CommitGroup
    tenant_id: int
    queue_id: int

    def count(self) -> None:
        """Counts the queue, and applies the policies of its subscriptions if it has too much."""
        group, queue_id = self.group, self.queue_id
        limit = group.limit(self.tenant_id, "pending_max")
        here = sum(d.queue_id == queue_id for item in group.published for d in item.deliveries)
        pending = group.store.pending_count(queue_id) + here
        if pending <= limit:
            group.remaining_by_queue[queue_id] = max(limit - pending, limit // _STEPS)
            return
        reason = f"more than {limit:,} deliveries wait for its subscriber"
        population = group.population.of(self.tenant_id)
        subscribers = group.transaction.subscribers_of(queue_id)
        by_policy: dict[OverflowPolicy, list[int]] = {}
        for number, policy in subscribers:
            if population.active(number):
                by_policy.setdefault(policy, []).append(number)
        step = limit // _STEPS
        if numbers := by_policy.get(OverflowPolicy.DROP_OLDEST):
            self._drop(numbers, pending - limit + step, reason)
        if numbers := by_policy.get(OverflowPolicy.DEAD_LETTER):
            step = min(step, _DEAD_LETTERS_STEP)
            self._dead_letter(numbers, min(pending - limit + step, _DEAD_LETTERS_AT_ONCE), reason)
        if numbers := by_policy.get(OverflowPolicy.REFUSE):
            group.full_queues[queue_id] = time.monotonic() + _FULL_SECONDS
            if pending > _REFUSED_TIMES * limit:
                self._suspend(numbers, reason, is_alone=len(subscribers) == 1)
        if numbers := by_policy.get(OverflowPolicy.SUSPEND):
            self._suspend(numbers, reason, is_alone=len(subscribers) == 1)
        group.remaining_by_queue[queue_id] = step

    def _drop(self, numbers: Sequence[int], count: int, reason: str) -> None:
        ids = self.group.transaction.oldest_pending(self.queue_id, numbers, count)
        self.group.transaction.acknowledge(self.queue_id, ids)
        self.group.counted.dropped += len(ids)
        self._record(ids, "dropped", reason)

    def _dead_letter(self, numbers: Sequence[int], count: int, reason: str) -> None:
        transaction = self.group.transaction
        ids = transaction.oldest_pending(self.queue_id, numbers, count)
        letters = [(delivery, 0, reason) for delivery in transaction.stored_deliveries(self.queue_id, ids)]
        transaction.dead_letter(letters, at=self.group.now)
        self.group.counted.overflow_dead_letters += len(letters)
        self._record(ids, "moved to the dead letters", reason)

    def _record(self, ids: Sequence[DeliveryId], what: str, reason: str) -> None:
        counts = Counter(id_.subscription_id for id_ in ids)
        last = {id_.subscription_id: id_.seq for id_ in ids}
        first = {id_.subscription_id: id_.seq for id_ in reversed(ids)}
        self.group.transaction.add_errors(
            ErrorRecord(
                number,
                self.group.now,
                f"{reason}: its oldest ones, of the messages {first[number]} to {last[number]}, were {what}",
                first[number],
                count,
            )
            for number, count in counts.items()
        )

    def _suspend(self, numbers: Sequence[int], reason: str, *, is_alone: bool) -> None:
        group, population = self.group, self.group.population.of(self.tenant_id)
        next_seq = group.transaction.next_seq()
        for number in numbers:
            member = population.member(self.tenant_id, number)
            assert member is not None, "it takes part"
            group.put(member, active=False)
            group.overflown.add(self.tenant_id)
            group.transaction.set_subscription_state(number, SubscriptionState.SUSPENDED, reason)
            if is_alone:
                group.transaction.begin_gap(number, next_seq)
                population.draining.add(number)
            group.reread.append(member)
        rest = f"; it resumes with message {next_seq} when half of them are done" if is_alone else ""
        group.transaction.add_errors(
            ErrorRecord(number, group.now, f"suspended: {reason}{rest}", next_seq if is_alone else None)
            for number in numbers
        )
        group.counted.suspended += len(numbers)


@dataclass(eq=False)
class ResumeDrained(Operation):
    """The end of a suspension because of too much that waited. Does nothing if the subscription is not suspended so."""

    subscription: StoredSubscription

    def __post_init__(self) -> None:
        self.tenant_ids = (self.subscription.tenant_id,)

    def apply(self, group: CommitGroup) -> None:
        """Changes store and engine, and lets replay deliver what was missed."""
        tenant_id, number = self.subscription.tenant_id, self.subscription.id
        existing = group.population.of(tenant_id).member(tenant_id, number)
        if existing is not None and fill_gap(group, existing):
            group.put(existing, active=True)
            group.transaction.set_subscription_state(number, SubscriptionState.ACTIVE, None)
            if existing.window is not None:
                group.transaction.release_windows(number)
            group.reread.append(existing)
            group.counted.resumed += 1


def fill_gap(group: CommitGroup, existing: RegisteredSubscription) -> bool:
    """Lets replay deliver what a subscription missed so far; returns whether it was suspended since too much waited."""
    result = group.transaction.end_gap(existing.id, group.transaction.next_seq() - 1)
    if result is None:
        return False
    missed_from, replay_next = result
    group.population.of(existing.tenant_id).draining.discard(existing.id)
    group.result.replays.append((existing.queue_id, existing.id, replay_next))
    group.remaining_by_queue.pop(existing.queue_id, None)
    forgotten = group.transaction.forgotten()
    if forgotten >= missed_from:
        reason = f"messages from {missed_from} to {forgotten} that it missed may be gone: retention has removed some"
        group.transaction.add_errors([ErrorRecord(existing.id, group.now, reason, missed_from)])
    return True
