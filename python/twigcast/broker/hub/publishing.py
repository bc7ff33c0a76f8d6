"""Publishing: from evaluated messages to stored ones and their deliveries.

All publications of a commit group that no change of a subscription separates are stored together.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Final, cast

from twigcast.broker.errors import IdReused, QueueFull
from twigcast.broker.hub.commit import CommitGroup, FailureRecords, PublishedMessage
from twigcast.broker.hub.evaluation import (
    EvaluatedMessage,
    EvaluatedOperation,
    PreparedMessage,
    StoredForm,
    evaluate,
    up_to_date,
)
from twigcast.broker.hub.lifecycles import LifecycleRun, LivingEvaluation
from twigcast.broker.hub.overdue_deliveries import drop_overdue
from twigcast.broker.hub.overflow import count_pending, refusal_of
from twigcast.broker.hub.population import Evaluation, TenantPopulation
from twigcast.broker.hub.windows import WindowRun
from twigcast.broker.model import (
    Accepted,
    ErrorRecord,
    MessageName,
    NewDelivery,
    PublishOutcome,
    RejectedRecord,
    StoredMessage,
    Submission,
)
from twigcast.broker.urgency import NEVER, USUAL_PRIORITY
from twigcast.errors import MessageLimitExceeded
from twigcast.errors import RejectedMessage as Rejection
from twigcast.lifecycle.chains import Relation
from twigcast.limits import Limits

_new_delivery = cast("Callable[[tuple[object, ...]], NewDelivery]", partial(tuple.__new__, NewDelivery))
"""Makes one of a tuple, in a fraction of the time of the constructor."""

RECORDED_EACH: Final = 3
"""The first messages on which a subscription is undecided have a record each,"""

RECORD_SECONDS: Final = 60.0
"""and those after them one for so many seconds, unless the reason is another one."""

_WITHOUT_DIGITS: Final = str.maketrans("", "", "0123456789,")


class Publish(EvaluatedOperation):
    """A publication of messages. Results in an ``Accepted``, a ``RejectedRecord`` or an ``IdReused`` for each."""

    def __init__(self, submissions: Sequence[Submission]) -> None:
        super().__init__()
        self.submissions = submissions
        self.messages = len(submissions)
        self.size = sum(len(s.body) for s in submissions)
        self.message_tenants = [s.tenant_id for s in submissions]
        self.tenant_ids = tuple(dict.fromkeys(self.message_tenants))
        for submission in submissions:
            if submission.priority is not None or submission.deadline is not None:
                self.priority = max(USUAL_PRIORITY if s.priority is None else s.priority for s in submissions)
                self.due = min(NEVER if s.deadline is None else s.deadline for s in submissions)
                break

    def named(self, index: int) -> Submission | None:
        """Returns a submission if it has an id."""
        submission = self.submissions[index]
        return None if submission.message_id is None else submission

    def prepared(self, index: int, population: TenantPopulation, limits: Limits) -> PreparedMessage:
        """Returns a submission in UTF-8."""
        return PreparedMessage.of(self.submissions[index], limits.message_bytes_max)

    def apply(self, group: CommitGroup) -> None:
        """Publishes it alone."""
        publish([self], group)


def publish(operations: Sequence[Publish], group: CommitGroup) -> None:
    """Stores the messages of several operations with their deliveries, and sets the results of each."""
    for operation in operations:
        operation.error = operation.failure
    messages: list[EvaluatedMessage] = []
    owners: list[int] = []
    for index, operation in enumerate(operations):
        if operation.failure is None:
            messages += _as_stored(operation, group)
            owners += repeat(index, len(operation.evaluated))
    results, refusals = PublishRun(messages, group, owners).run()
    end = 0
    for index, operation in enumerate(operations):
        if operation.failure is None:
            start, end = end, end + len(operation.evaluated)
            operation.error = refusals.get(index)
            operation.result = results[start:end]


def _as_stored(operation: Publish, group: CommitGroup) -> Sequence[EvaluatedMessage]:
    """Returns the evaluated messages of an operation; those that seemed to be repeated and are not are evaluated here.

    That is rare: the message of their id has expired in between.
    """
    limits = group.options.limits
    results = up_to_date(operation, group.population, limits)
    repeated = [m.submission for m in results if m.is_repeated and m.submission is not None]
    if not repeated:
        return results
    existing = group.transaction.stored_messages(repeated)
    return [
        evaluate([(operation, index)], group.population.of(m.submission.tenant_id), limits)[0]
        if m.is_repeated and m.submission is not None and m.submission.name not in existing
        else m
        for index, m in enumerate(results)
    ]


class PublishRun:
    """A run of publishing; ``owners`` are the operations of the messages, each of which is stored whole or not."""

    def __init__(self, messages: Sequence[EvaluatedMessage], group: CommitGroup, owners: Sequence[int] = ()) -> None:
        self._evaluated = [
            (message.submission, message.form, message.evaluation, message.received, message)
            for message in messages
            if message.submission is not None
        ]
        self._owners = owners
        self._group = group
        self._transaction = group.transaction
        self._seq = group.transaction.next_seq()
        self._messages: list[StoredMessage] = []
        self._deliveries: list[NewDelivery] = []
        self._published: list[PublishedMessage] = []
        self._errors: list[ErrorRecord] = []
        self._lifecycles = LifecycleRun(group)
        self._windows = WindowRun(group)

    def run(self) -> tuple[list[PublishOutcome | None], dict[int, QueueFull]]:
        """Stores the messages with their deliveries; returns the result of each, and the operations refused."""
        named = [submission for submission, *_ in self._evaluated if submission.message_id is not None]
        existing = self._transaction.stored_messages(named) if named else {}
        here: dict[MessageName, StoredMessage] = {}
        results: list[PublishOutcome | None] = []
        refusals = self._refusals(existing)
        for position, (submission, form, evaluation, received, message) in enumerate(self._evaluated):
            if refusals and self._owners[position] in refusals:
                results.append(None)
                continue
            name = submission.name
            if submission.message_id is not None and (name in here or name in existing):
                results.append(self._repeated(submission, here.get(name) or existing[name]))
                continue
            if evaluation.error is not None:
                results.append(self._reject(submission, evaluation.error))
                continue
            assert form is not None, "it was not rejected"
            accepted = self._accept(submission, form, evaluation, received, message)
            if submission.message_id is not None and accepted.seq:
                here[name] = self._messages[-1]
            self._group.counted.rows_added += message.rows_added
            self._group.counted.rows_missed += message.rows_missed
            if message.invalid is not None:
                accepted = replace(accepted, invalid=message.invalid)
                self._group.counted.invalid += 1
            results.append(accepted)
        self._store()
        return results, refusals

    def _refusals(self, existing: Container[MessageName]) -> dict[int, QueueFull]:
        """Returns the operations with a message for a subscriber for which too much waits, each with its refusal."""
        refusals: dict[int, QueueFull] = {}
        for position, (submission, _, evaluation, _, _) in enumerate(self._evaluated):
            refusal = refusal_of(self._group, submission.tenant_id, evaluation)
            if refusal is not None and submission.name not in existing:
                refusals.setdefault(self._owners[position], refusal)
        if refusals:
            self._group.counted.overflow_refused += sum(owner in refusals for owner in self._owners)
        return refusals

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

    def _accept(
        self,
        submission: Submission,
        form: StoredForm,
        evaluation: Evaluation,
        received: float,
        evaluated: EvaluatedMessage,
    ) -> Accepted:
        facts = evaluated.facts
        seq = self._seq
        self._seq += 1
        message_id = submission.message_id or uuid.uuid4().hex
        living: LivingEvaluation | None = None
        if facts is not None:
            living = self._lifecycles.enter(submission, facts, evaluation, seq, received)
            evaluation = living.evaluation
        message = StoredMessage(
            *(seq, submission.tenant_id, submission.source, message_id, received, form.xml, 0, form.id_types),
            *(submission.priority, submission.deadline, self._digest(submission)),
        )
        relations = None if living is None else living.relations
        evaluation, relations, told = self._windows.enter(message, evaluation, evaluated.values, relations)
        matches = len(evaluation.numbers)
        message = replace(message, matches=matches)
        self._messages.append(message)
        if matches:
            self._deliver(message, evaluation, relations, told)
        for failure in evaluation.undecided:
            self._tell(int(failure.key), failure.reason, seq)
        if living is None or facts is None:
            return Accepted(seq, message_id, matches)
        return Accepted(seq, message_id, matches, effect=living.effect, trouble=living.trouble)

    def _tell(self, number: int, reason: str, seq: int) -> None:
        """Records that a subscription is undecided, or only counts it: hundreds may be, on each message."""
        self._group.counted.undecided += 1
        records = self._group.failure_records.setdefault(number, FailureRecords())
        now = time.monotonic()
        kind = reason.translate(_WITHOUT_DIGITS)
        if records.count >= RECORDED_EACH and now - records.at < RECORD_SECONDS and kind == records.kind:
            records.uncounted += 1
            return
        self._errors.append(ErrorRecord(number, self._group.now, reason, seq, records.uncounted + 1))
        records.count, records.at, records.kind, records.uncounted = records.count + 1, now, kind, 0

    def _deliver(
        self,
        message: StoredMessage,
        evaluation: Evaluation,
        relations: Sequence[Relation | None] | None,
        told: Sequence[str | None] | None,
    ) -> None:
        payloads: Iterable[bytes | None] = evaluation.payloads or repeat(None)
        columns = evaluation.queues, repeat(message.seq), evaluation.numbers, payloads
        more = relations or repeat(None), told or repeat(None)
        deliveries = list(map(_new_delivery, zip(*columns, *more, strict=False)))
        self._deliveries += deliveries
        self._published.append(PublishedMessage(message, deliveries, evaluation.keys))
        self._group.result.pushed.update(evaluation.pushed)

    def _pass_on(self) -> None:
        """Passes stored messages to the overlay."""
        self._group.accepted += self._messages

    def _store(self) -> None:
        self._pass_on()
        counted = self._group.counted
        counted.accepted += len(self._messages)
        counted.deliveries += len(self._deliveries)
        for message in self._messages:
            of_tenant = counted.of_tenant(message.tenant_id)
            of_tenant.accepted += 1
            of_tenant.deliveries += message.matches
        if self._messages:
            self._transaction.add_messages(self._messages)
            self._group.result.last_seq = self._messages[-1].seq
        if self._deliveries:
            urgencies = self._transaction.add_deliveries(self._deliveries)
            self._group.urgencies.update(urgencies)
            if any(one.is_dropped and one.due <= self._group.now for one in urgencies.values()):
                drop_overdue(self._group)
        if self._errors:
            self._transaction.add_errors(self._errors)
        self._published = self._lifecycles.withdraw(self._published)
        self._group.published += self._published
        count_pending(self._group, self._published)
        self._windows.finish()


def _reason(error: Rejection) -> str:
    """Returns why a message is rejected, with the limit if it is one."""
    if isinstance(error, MessageLimitExceeded) and error.limit not in error.reason:
        return f"{error.reason} (the limit is {error.limit} = {error.value:,})"
    return error.reason
