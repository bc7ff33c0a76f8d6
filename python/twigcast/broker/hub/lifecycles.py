"""Life cycles in the broker: which further subscriptions get a message, and which pending deliveries are withdrawn.

Everything happens in the transaction that stores the message: chains are read from the store and written to it, and
nothing is kept in memory. So a broker that is killed goes on exactly after its last commit.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from twigcast.broker.hub.commit import CommitGroup, PublishedMessage
from twigcast.broker.hub.evaluation import profile_reader
from twigcast.broker.hub.population import Evaluation, TenantPopulation
from twigcast.broker.hub.retention import RetentionClock
from twigcast.broker.hub.upkeep import every
from twigcast.broker.metrics import Metrics
from twigcast.broker.model import DeliveryId, Submission
from twigcast.broker.options import HubOptions
from twigcast.broker.store.lifecycles import Owed
from twigcast.broker.store.store import Transaction
from twigcast.lifecycle.chains import Advance, Effect, Relation, advance, expire, names_of
from twigcast.lifecycle.facts import MessageFacts

logger = logging.getLogger(__name__)

CHAINS_AT_ONCE: Final = 200
"""Number of chains that end, or are forgotten, in one commit; publications go on in between."""


class LivingEvaluation(NamedTuple):
    """The subscriptions that get a message with a life cycle, each with the relation to earlier deliveries."""

    evaluation: Evaluation
    relations: Sequence[Relation | None]
    effect: Effect
    trouble: str | None


@dataclass(slots=True)
class LifecycleRun:
    """The life cycles of the messages of one run of publishing."""

    _group: CommitGroup
    _withdrawals: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(init=False, default_factory=list)
    """Messages that are not to wait any more, and for which subscriptions."""

    def enter(
        self, submission: Submission, facts: MessageFacts, evaluation: Evaluation, seq: int, received: float
    ) -> LivingEvaluation:
        """Returns who gets a message, and stores what is known of its matter then."""
        group, tenant_id = self._group, submission.tenant_id
        if not facts.takes_part:
            return LivingEvaluation(evaluation, [None] * len(evaluation.numbers), Effect.APART, facts.trouble)
        assert submission.intake.profile is not None, "its facts were read by it"
        profile = profile_reader(submission.intake.profile, group.options.limits).profile
        population = group.population.of(tenant_id)
        before = group.transaction.chains(tenant_id, profile.name, names_of(facts))
        step: Advance[int] = advance(
            [one.chain for one in before],
            facts,
            evaluation.numbers,
            at=received,
            handle=seq,
            undecided=[int(failure.key) for failure in evaluation.undecided],
            follows=lambda number: population.follows.get(number, profile.follow),
            withdraw_expired=profile.withdraw_expired,
        )
        if step.chain is not None:
            group.transaction.replace_chains(
                before, step.chain, tenant_id=tenant_id, profile=profile.name, withdraws=profile.withdraw_expired
            )
        if step.withdrawn:
            self._withdrawals.append((tuple(int(handle) for handle in step.handles), step.withdrawn))
        group.counted.repeated_content += step.effect is Effect.DUPLICATE
        group.counted.overtaken += step.effect is Effect.SUPERSEDED
        return _living(step, evaluation, population, seq, group, facts.trouble)

    def withdraw(self, published: Sequence[PublishedMessage]) -> list[PublishedMessage]:
        """Withdraws deliveries of outdated messages; returns the messages of this run without these deliveries."""
        gone: set[DeliveryId] = set()
        for seqs, numbers in self._withdrawals:
            for queue_id, ids in _withdraw(self._group.transaction, seqs, numbers).items():
                gone.update(ids)
                self._group.result.withdrawn.setdefault(queue_id, []).extend(ids)
        self._group.counted.withdrawn += len(gone)
        if not gone:
            return list(published)
        return [_without(message, gone) for message in published]


def _without(published: PublishedMessage, gone: set[DeliveryId]) -> PublishedMessage:
    kept = [
        (delivery, key)
        for delivery, key in zip(published.deliveries, published.keys, strict=True)
        if DeliveryId(delivery.seq, delivery.subscription_id) not in gone
    ]
    return PublishedMessage(published.message, [delivery for delivery, _ in kept], [key for _, key in kept])


def _withdraw(transaction: Transaction, seqs: Sequence[int], numbers: Sequence[int]) -> dict[int, list[DeliveryId]]:
    """Takes the deliveries of messages that wait for subscriptions out of their queues, and returns them by queue."""
    waiting = transaction.pending_of_messages(seqs, numbers) if seqs and numbers else {}
    for queue_id, ids in waiting.items():
        transaction.acknowledge(queue_id, ids)
    return waiting


def _living(
    step: Advance[int],
    evaluation: Evaluation,
    population: TenantPopulation,
    seq: int,
    group: CommitGroup,
    trouble: str | None,
) -> LivingEvaluation:
    """Returns the evaluation with the subscriptions that follow, and without those that had the message before."""
    positions = {number: position for position, number in enumerate(evaluation.numbers)}
    following = [one.key for one in step.deliveries if one.key not in positions]
    others = population.recipients(following)
    # They get it with what they have missed, since it must not arrive before that.
    owed = [
        Owed(one.key, seq, one.relation)
        for one in step.deliveries
        if one.relation is not None and one.key not in positions and one.key in population.draining
    ]
    group.transaction.add_owed(owed)
    numbers, queues, keys, relations = [], [], [], []
    payloads: list[bytes | None] = []
    pushed: set[int] = set()
    for number, relation in step.deliveries:
        position = positions.get(number)
        if position is not None:
            queue_id, key = evaluation.queues[position], evaluation.keys[position]
            payloads.append(None if evaluation.payloads is None else evaluation.payloads[position])
            is_pushed = queue_id in evaluation.pushed
        elif number in others:
            queue_id, key, is_pushed = others[number]
            payloads.append(None)
        else:
            # It is gone, or paused by its owner: then messages do not count for it.
            continue
        numbers.append(number)
        queues.append(queue_id)
        keys.append(key)
        relations.append(relation)
        if is_pushed:
            pushed.add(queue_id)
    rewritten = payloads if any(payload is not None for payload in payloads) else None
    changed = Evaluation(
        evaluation.revision, numbers, queues, keys, pushed, rewritten, evaluation.undecided, evaluation.error
    )
    return LivingEvaluation(changed, relations, step.effect, trouble)


@dataclass(eq=False)
class LifecycleUpkeep:
    """Ends chains by the time and forgets old ones, every so often, by changes that run in the writing thread."""

    _change: Callable[[Callable[[Transaction], Any]], Awaitable[Any]]
    _settle: Callable[[Mapping[int, Sequence[DeliveryId]]], None]
    """Is called with the deliveries that do not wait any more, by queue."""
    _options: HubOptions
    _metrics: Metrics
    clock: RetentionClock
    """While it is in doubt, nothing expires and nothing is forgotten."""

    async def run(self) -> None:
        """Runs until cancelled."""
        await every(self._options.upkeep_seconds, self.once, logger, "the upkeep of life cycles is postponed")

    async def once(self) -> None:
        """Ends chains that have expired, and forgets old ones."""
        for work in (self._end, self._forget):
            while True:
                count, withdrawn = await self._change(work)
                self._settle(withdrawn)
                self._metrics.expired_withdrawn += sum(map(len, withdrawn.values()))
                if work == self._forget:
                    self._metrics.chains_forgotten += count
                if count < CHAINS_AT_ONCE:
                    break

    def _end(self, transaction: Transaction) -> tuple[int, dict[int, list[DeliveryId]]]:
        """Ends chains; returns how many, and the deliveries that were withdrawn."""
        now = self.clock.even_now(transaction)
        if now is None:
            return 0, {}
        ended = transaction.ended_chains(now, CHAINS_AT_ONCE)
        withdrawn: dict[int, list[DeliveryId]] = {}
        for one in ended:
            step = expire(one.chain, at=now, withdraw=one.withdraws)
            assert step is not None, "it was in force, and has ended"
            assert step.chain is not None, "it has ended"
            seqs = [int(handle) for handle in step.handles]
            for queue_id, ids in _withdraw(transaction, seqs, step.withdrawn).items():
                withdrawn.setdefault(queue_id, []).extend(ids)
            transaction.replace_chains(
                [one], step.chain, tenant_id=one.tenant_id, profile=one.profile, withdraws=one.withdraws
            )
        return len(ended), withdrawn

    def _forget(self, transaction: Transaction) -> tuple[int, dict[int, list[DeliveryId]]]:
        now = self.clock.even_now(transaction)
        if now is None:
            return 0, {}
        return transaction.forget_chains(now - self._options.lifecycle_seconds, CHAINS_AT_ONCE), {}
