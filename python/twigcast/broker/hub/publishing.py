"""Publishing: from submissions to stored messages and their deliveries.

All publications of a group that no change of a subscription separates are matched together, a batch for each tenant,
and stored together.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import NamedTuple, cast

from twigcast.broker.errors import IdReused, QueueFull
from twigcast.broker.hub.commit import CommitGroup, Operation, PublishedMessage
from twigcast.broker.hub.overflow import count_pending, refusal_of
from twigcast.broker.hub.population import MatchOutcome, TenantPopulation
from twigcast.broker.model import (
    Accepted,
    ErrorRecord,
    NewDelivery,
    PublishOutcome,
    RejectedRecord,
    StoredMessage,
    Submission,
)
from twigcast.errors import MessageLimitExceeded
from twigcast.errors import RejectedMessage as Rejection
from twigcast.reading.conversion import all_forms, recoded

_new_delivery = cast("Callable[[tuple[int, int, int, bytes | None]], NewDelivery]", partial(tuple.__new__, NewDelivery))
"""Makes one of a tuple, in a fraction of the time of the constructor."""

Name = tuple[int, str, str]
"""The identity of a message: tenant, source, the publisher's id."""


class Publish(Operation):
    """A publication of messages. Results in an ``Accepted``, a ``RejectedRecord`` or an ``IdReused`` for each."""

    def __init__(self, submissions: Sequence[Submission]) -> None:
        super().__init__()
        self.submissions = submissions
        self.messages = len(submissions)
        self.size = sum(len(s.body) for s in submissions)

    def apply(self, group: CommitGroup) -> None:
        """Publishes it alone."""
        publish([self], group)


def publish(operations: Sequence[Publish], group: CommitGroup) -> None:
    """Stores the messages of several operations with their deliveries, and sets the results of each."""
    submissions = [s for operation in operations for s in operation.submissions]
    owners = [index for index, operation in enumerate(operations) for _ in operation.submissions]
    results, refusals = PublishRun(submissions, group, owners).run()
    end = 0
    for index, operation in enumerate(operations):
        start, end = end, end + len(operation.submissions)
        operation.error = refusals.get(index)
        operation.result = results[start:end]


class StoredForm(NamedTuple):
    """A message as it is stored."""

    xml: bytes
    """In UTF-8 without DOCTYPE."""

    id_types: bytes | None
    """As :attr:`StoredMessage.id_types`."""


class PublishRun:
    """A run of publishing; ``owners`` are the operations of the submissions, each of which is stored whole or not."""

    def __init__(self, submissions: Sequence[Submission], group: CommitGroup, owners: Sequence[int] = ()) -> None:
        self._submissions = submissions
        self._owners = owners
        self._group = group
        self._transaction = group.transaction
        self._seq = group.transaction.next_seq()
        self._messages: list[StoredMessage] = []
        self._deliveries: list[NewDelivery] = []
        self._published: list[PublishedMessage] = []
        self._errors: list[ErrorRecord] = []

    def run(self) -> tuple[list[PublishOutcome | None], dict[int, QueueFull]]:
        """Stores the messages with their deliveries; returns the result of each, and the operations refused."""
        named = [s for s in self._submissions if s.message_id is not None]
        existing = self._transaction.stored_messages(named) if named else {}
        bodies, outcomes = self._match(existing)
        here: dict[Name, StoredMessage] = {}
        results: list[PublishOutcome | None] = []
        refusals = self._refusals(outcomes)
        for position, submission in enumerate(self._submissions):
            if refusals and self._owners[position] in refusals:
                results.append(None)
                continue
            name = (submission.tenant_id, submission.source, submission.message_id or "")
            if submission.message_id is not None and (name in here or name in existing):
                results.append(self._repeated(submission, here.get(name) or existing[name]))
                continue
            outcome = outcomes[position]
            if outcome.error is not None:
                results.append(self._reject(submission, outcome.error))
                continue
            accepted = self._accept(submission, bodies[position], outcome)
            if submission.message_id is not None and accepted.seq:
                here[name] = self._messages[-1]
            results.append(accepted)
        self._store()
        return results, refusals

    def _refusals(self, outcomes: Mapping[int, MatchOutcome]) -> dict[int, QueueFull]:
        """Returns the operations with a message for a subscriber for which too much waits, each with its refusal."""
        refusals: dict[int, QueueFull] = {}
        for position, outcome in outcomes.items():
            tenant_id = self._submissions[position].tenant_id
            refusal = refusal_of(self._group, tenant_id, outcome.slots)
            if refusal is not None:
                refusals.setdefault(self._owners[position], refusal)
        if refusals:
            self._group.counted.overflow_refused += sum(owner in refusals for owner in self._owners)
        return refusals

    def _match(self, existing: Mapping[Name, StoredMessage]) -> tuple[dict[int, StoredForm], dict[int, MatchOutcome]]:
        """Returns the messages in UTF-8 without DOCTYPE and the outcomes of matching, by index of the submission."""
        bodies: dict[int, StoredForm] = {}
        sent: dict[int, bytes] = {}
        outcomes: dict[int, MatchOutcome] = {}
        positions: dict[int, list[int]] = {}
        bytes_max = self._group.options.limits.message_bytes_max
        for position, s in enumerate(self._submissions):
            if s.message_id is not None and (s.tenant_id, s.source, s.message_id) in existing:
                continue
            try:
                sent[position], xml, id_types = all_forms(recoded(s.body, s.charset, bytes_max), bytes_max)
                bodies[position] = StoredForm(xml, id_types)
            except Rejection as error:
                outcomes[position] = MatchOutcome(error=error)
                continue
            positions.setdefault(s.tenant_id, []).append(position)
        for tenant_id, mine in positions.items():
            # With spaces for the DOCTYPE, so that errors name the lines of what was sent, and with its ID attributes.
            now = [self._group.now] * len(mine)
            answers = self._group.population.of(tenant_id).match([sent[index] for index in mine], now)
            outcomes.update(zip(mine, answers, strict=True))
        return bodies, outcomes

    def _repeated(self, submission: Submission, before: StoredMessage) -> Accepted | IdReused:
        """Returns the answer that the first message of an id had, or refuses another one under the same id."""
        if before.digest is not None and self._digest(submission) not in (None, before.digest):
            self._group.counted.ids_reused += 1
            return IdReused.of(before.source, before.message_id, before.seq)
        return self._duplicate(before)

    def _digest(self, submission: Submission) -> bytes | None:
        """Returns what is kept to recognise a repetition; ``None`` where any message of the same id is one."""
        return None if submission.message_id is None else submission.digest()

    def _duplicate(self, before: StoredMessage) -> Accepted:
        self._group.counted.duplicates += 1
        return Accepted(before.seq, before.message_id, before.matches, duplicate=True)

    def _reject(self, submission: Submission, error: Rejection) -> RejectedRecord:
        s, now, reason = submission, self._group.now, _reason(error)
        self._group.counted.rejected += 1
        self._group.counted.of_tenant(s.tenant_id).rejected += 1
        number = self._transaction.add_rejected(
            s, code=error.code, reason=reason, line=error.line, column=error.column, at=now
        )
        return RejectedRecord(
            id=number,
            tenant_id=s.tenant_id,
            source=s.source,
            message_id=s.message_id,
            received=now,
            body=s.body,
            code=error.code,
            reason=reason,
            line=error.line,
            column=error.column,
        )

    def _accept(self, submission: Submission, body: StoredForm, outcome: MatchOutcome) -> Accepted:
        seq = self._seq
        self._seq += 1
        population = self._group.population.of(submission.tenant_id)
        if population.sources:
            outcome = _of_source(outcome, submission.source, population.sources)
        message_id = submission.message_id or uuid.uuid4().hex
        matches = len(outcome.slots)
        about = seq, submission.tenant_id, submission.source, message_id, self._group.now
        message = StoredMessage(*about, body.xml, matches, body.id_types, self._digest(submission))
        self._messages.append(message)
        if matches:
            self._deliver(message, outcome, population)
        for failure in outcome.undecided:
            self._errors.append(ErrorRecord(int(failure.key), self._group.now, failure.reason, seq))
        return Accepted(seq, message_id, matches)

    def _deliver(self, message: StoredMessage, outcome: MatchOutcome, population: TenantPopulation) -> None:
        seq, slots, payloads = message.seq, outcome.slots, outcome.payloads
        ids, queues, keys, pushed = population.ids, population.queues, population.keys, population.pushed
        numbers = [ids[slot] for slot in slots]
        if (ascending := sorted(numbers)) != numbers:
            # Slots are reused, numbers are not; deliveries are in the order of numbers.
            order = sorted(range(len(slots)), key=numbers.__getitem__)
            slots, numbers = [slots[position] for position in order], ascending
            payloads = None if payloads is None else [payloads[position] for position in order]
        queue_ids = [queues[slot] for slot in slots]
        deliveries = list(
            map(_new_delivery, zip(queue_ids, repeat(seq), numbers, payloads or repeat(None), strict=False))
        )
        self._deliveries += deliveries
        self._published.append(PublishedMessage(message, deliveries, [keys[slot] for slot in slots]))
        self._group.result.pushed.update(queues[slot] for slot in slots if pushed[slot])

    def _pass_on(self) -> None:
        """Passes stored messages to the overlay."""
        self._group.accepted += self._messages

    def _store(self) -> None:
        self._pass_on()
        counted = self._group.counted
        counted.accepted += len(self._messages)
        counted.deliveries += len(self._deliveries)
        counted.undecided += len(self._errors)
        for message in self._messages:
            of_tenant = counted.of_tenant(message.tenant_id)
            of_tenant.accepted += 1
            of_tenant.deliveries += message.matches
        if self._messages:
            self._transaction.add_messages(self._messages)
            self._group.result.last_seq = self._messages[-1].seq
        if self._deliveries:
            self._transaction.add_deliveries(self._deliveries)
        if self._errors:
            self._transaction.add_errors(self._errors)
        self._group.published += self._published
        count_pending(self._group, self._published)


def _reason(error: Rejection) -> str:
    """Returns why a message is rejected, with the limit if it is one."""
    if isinstance(error, MessageLimitExceeded) and error.limit not in error.reason:
        return f"{error.reason} (the limit is {error.limit} = {error.value:,})"
    return error.reason


def _of_source(outcome: MatchOutcome, source: str, bound: Mapping[int, str]) -> MatchOutcome:
    """Returns an outcome without the subscriptions, by slot, that are bound to another source."""
    return at_indices(
        outcome, [position for position, slot in enumerate(outcome.slots) if bound.get(slot, source) == source]
    )


def at_indices(outcome: MatchOutcome, positions: Sequence[int]) -> MatchOutcome:
    """Returns an outcome restricted to some of its slots."""
    if len(positions) == len(outcome.slots):
        return outcome
    payloads = outcome.payloads
    return replace(
        outcome,
        slots=[outcome.slots[position] for position in positions],
        payloads=None if payloads is None else [payloads[position] for position in positions],
    )
