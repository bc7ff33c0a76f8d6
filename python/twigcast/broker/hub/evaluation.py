"""Evaluation: what the engine says of messages, found before the writing thread gets them.

It takes as long as the queries of a tenant want, within the engine's budgets. So it is done in threads that the tenants
share (:mod:`~twigcast.broker.hub.tenant_threads`), and the writing thread only records what they found. The answers
name subscriptions, not slots, and the revision of the population that they were found in.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from twigcast.broker.hub.commit import Operation
from twigcast.broker.hub.population import BrokerPopulation, Evaluation, TenantPopulation
from twigcast.broker.model import Submission
from twigcast.errors import RejectedMessage
from twigcast.limits import Limits
from twigcast.reading.conversion import all_forms, recoded

DELIVERY_BYTES: Final = 100
"""What a delivery without a payload counts for, where work is bounded by bytes."""


class StoredForm(NamedTuple):
    """A message as it is stored."""

    xml: bytes
    """In UTF-8 without DOCTYPE."""

    id_types: bytes | None
    """As :attr:`StoredMessage.id_types`."""


class PreparedMessage(NamedTuple):
    """A message that can be evaluated, or the reason why it cannot."""

    submission: Submission
    sent: bytes = b""
    """With spaces for the DOCTYPE, so that errors name the lines of what was sent, and with its ID attributes."""
    form: StoredForm | None = None
    error: RejectedMessage | None = None

    @classmethod
    def of(cls, submission: Submission, bytes_max: int) -> PreparedMessage:
        """Returns a submission in UTF-8."""
        try:
            recoded_body = recoded(submission.body, submission.charset, bytes_max)
            sent, xml, id_types = all_forms(recoded_body, bytes_max)
        except RejectedMessage as error:
            return cls(submission, error=error)
        return cls(submission, sent, StoredForm(xml, id_types))


class EvaluatedMessage(NamedTuple):
    """A message with what the engine says of it."""

    submission: Submission | None
    """``None`` for a message that is left out, since nobody here wants it."""
    form: StoredForm | None
    """``None`` for a rejected message."""
    evaluation: Evaluation
    received: float
    """When it came, as it is stored: the time that the evaluation was for."""


@dataclass(eq=False)
class EvaluatedOperation(Operation):
    """An operation whose messages are evaluated before the writing thread gets it."""

    evaluated: list[EvaluatedMessage] = field(init=False, default_factory=list)
    """Those of its messages, from the first on, that have been evaluated."""
    failure: Exception | None = field(init=False, default=None)
    """Why the evaluation failed, if it did: nothing of the operation is stored."""

    message_tenants: Sequence[int] = field(init=False, default=())
    """The tenant of each message."""

    def prepared(self, index: int, population: TenantPopulation, limits: Limits) -> PreparedMessage | None:
        """Returns one of the messages; ``None`` if nobody wants it."""
        raise AssertionError("each operation says what it has evaluated")

    @property
    def is_evaluated(self) -> bool:
        """Returns whether there is nothing more to evaluate."""
        return self.failure is not None or len(self.evaluated) == len(self.message_tenants)


Item = tuple[EvaluatedOperation, int]
"""A message of an operation, by its index."""


def evaluate(items: Sequence[Item], population: TenantPopulation, limits: Limits) -> list[EvaluatedMessage]:
    """Evaluates messages of one tenant together."""
    revision, received = population.revision, time.time()
    results: list[EvaluatedMessage | None] = [None] * len(items)
    bodies: list[tuple[int, PreparedMessage]] = []
    for position, (operation, index) in enumerate(items):
        message = operation.prepared(index, population, limits)
        if message is None:
            results[position] = EvaluatedMessage(None, None, Evaluation(revision), received)
        elif message.error is not None:
            answer = Evaluation(revision, error=message.error)
            results[position] = EvaluatedMessage(message.submission, None, answer, received)
        else:
            bodies.append((position, message))
    sources = [m.submission.source for _, m in bodies]
    answers = population.evaluate([m.sent for _, m in bodies], sources, received)
    for (position, message), answer in zip(bodies, answers, strict=True):
        form = None if answer.error is not None else message.form
        results[position] = EvaluatedMessage(message.submission, form, answer, received)
    return [result for result in results if result is not None]


def up_to_date(
    operation: EvaluatedOperation, population: BrokerPopulation, limits: Limits
) -> Sequence[EvaluatedMessage]:
    """Returns what the engine says of an operation's messages, as the populations are now; in the writing thread.

    Changes of subscriptions wait for the evaluations before them, and are waited for by those behind them: see
    :mod:`~twigcast.broker.hub.sequencer`. So nothing has changed, except for subscriptions that were suspended since
    too much waits for their subscriber: these are left out. Only after a commit has failed are messages evaluated here.
    """
    revisions = {tenant_id: population.of(tenant_id).revision for tenant_id in operation.tenant_ids}
    with_tenants = list(zip(operation.evaluated, operation.message_tenants, strict=True))
    if all(message.evaluation.revision == revisions[tenant_id] for message, tenant_id in with_tenants):
        return operation.evaluated
    results: list[EvaluatedMessage] = []
    for index, (message, tenant_id) in enumerate(with_tenants):
        mine = population.of(tenant_id)
        if message.evaluation.revision < mine.remade:
            results += evaluate([(operation, index)], mine, limits)
        else:
            results.append(message._replace(evaluation=mine.remaining(message.evaluation)))
    return results


def weight(message: EvaluatedMessage) -> int:
    """Returns about how many bytes recording a message takes."""
    payloads = message.evaluation.payloads or ()
    size = 0 if message.form is None else len(message.form.xml)
    return size + DELIVERY_BYTES * len(message.evaluation.numbers) + sum(len(p) for p in payloads if p is not None)
