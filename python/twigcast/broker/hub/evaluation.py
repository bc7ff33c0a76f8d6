"""Evaluation: what the engine says of messages, found before the writing thread gets them.

It takes as long as the queries of a tenant want, within the engine's budgets. So it is done in threads that the tenants
share (:mod:`~twigcast.broker.hub.tenant_threads`), and the writing thread only records what they found. The answers
name subscriptions, not slots, and the revision of the population that they were found in.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Final, NamedTuple

from twigcast.broker.errors import DisallowedMessage
from twigcast.broker.hub.commit import Operation
from twigcast.broker.hub.lookups import EnrichedForms
from twigcast.broker.hub.population import BrokerPopulation, Evaluation, TenantPopulation
from twigcast.broker.model import Intake, Source, Submission
from twigcast.broker.urgency import NEVER, USUAL_PRIORITY
from twigcast.errors import LifecycleProfileError, RejectedMessage, TwigcastError
from twigcast.lifecycle.facts import MessageFacts, ProfileReader
from twigcast.lifecycle.profiles import profile_of_text
from twigcast.limits import Limits
from twigcast.reading.conversion import all_forms, recoded
from twigcast.windows.expressions import MessageValues

_log = logging.getLogger("twigcast.broker")

DELIVERY_BYTES: Final = 100
"""What a delivery without a payload counts for, where work is bounded by bytes."""


class StoredForm(NamedTuple):
    """A message as it is stored."""

    xml: bytes
    """In UTF-8; without DOCTYPE, unless its source is set to keep it."""

    id_types: bytes | None
    """As :attr:`StoredMessage.id_types`."""


class PreparedMessage(NamedTuple):
    """A message that can be evaluated, or the reason why it cannot."""

    submission: Submission
    sent: bytes = b""
    """With spaces for the DOCTYPE, so that errors name the lines of what was sent, and with its ID attributes."""
    form: StoredForm | None = None
    error: RejectedMessage | None = None
    matched: bytes = b""
    """As it is matched: ``sent`` with what was looked up for it."""
    rows_added: int = 0
    rows_missed: int = 0

    @classmethod
    def of(cls, submission: Submission, bytes_max: int) -> PreparedMessage:
        """Returns a submission in UTF-8, with what is looked up for it."""
        try:
            recoded_body = recoded(submission.body, submission.charset, bytes_max)
            sent, xml, id_types = all_forms(recoded_body, bytes_max)
            if submission.intake.doctype != "strip" and len(sent) != len(xml):
                if submission.intake.doctype == "refuse":
                    raise _doctype_refused(recoded_body)
                xml, id_types = recoded_body, None
            enrich = submission.intake.enrich
            matched, xml, found, missed = (sent, xml, 0, 0) if enrich is None else enrich(sent, xml)
        except RejectedMessage as error:
            return cls(submission, error=error)
        return cls(submission, sent, StoredForm(xml, id_types), None, matched, found, missed)


_BEFORE_DOCTYPE: Final = re.compile(rb"(?:\s+|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)


def intake_of(source: Source, enrich: Callable[[bytes, bytes], EnrichedForms] | None = None) -> Intake | None:
    """Returns how the messages of a source are taken, ``enrich`` by its look-ups; ``None``: as usual. Blocks."""
    if source.validation == "off" or (source.dtd is None and source.xsd is None):
        is_usual = source.doctype == "strip" and source.profile is None and enrich is None
        return None if is_usual else Intake(source.doctype, profile=source.profile, enrich=enrich)
    checks = [] if source.dtd is None else [_validator(source.dtd)]
    if source.xsd is not None:
        checks.append(_xsd_validator(source.xsd))
    rejects = source.validation == "reject"
    return Intake(source.doctype, partial(_first_fault, checks), rejects, source.profile, enrich)


Check = Callable[[bytes], tuple[int | None, str] | None]
"""Returns line and reason of what is not allowed in a message."""


def _first_fault(checks: Sequence[Check], message: bytes) -> tuple[int | None, str] | None:
    return next((fault for check in checks if (fault := check(message)) is not None), None)


@lru_cache(maxsize=256)
def profile_reader(profile: str, limits: Limits) -> ProfileReader:
    """Returns what reads the facts of messages by a profile, as sources hold it."""
    return ProfileReader(profile_of_text(profile), limits)


@lru_cache(maxsize=256)
def _validator(dtd: str) -> Check:
    from twigcast.schema.dtd import DtdValidator

    return _check_of("DTD", lambda: DtdValidator(dtd.encode()).fault)


@lru_cache(maxsize=256)
def _xsd_validator(xsd: str) -> Check:
    from twigcast.schema.xsd import XsdValidator

    return _check_of("schema", lambda: XsdValidator(xsd.encode()).fault)


def _check_of(what: str, make: Callable[[], Check]) -> Check:
    """Returns a check by a DTD or a schema; where that cannot be used, one that allows nothing."""
    try:
        return make()
    except TwigcastError as error:
        # It was checked when it was stored; what cannot be validated any more does not count as valid.
        reason = f"the {what} of its source cannot be used: {error}"
        _log.error("%s", reason)
        return lambda _: (None, reason)


def _fault(message: PreparedMessage) -> DisallowedMessage | None:
    check = message.submission.intake.fault
    found = None if check is None else check(message.sent)
    return None if found is None else DisallowedMessage(found[0], None, found[1])


def _doctype_refused(body: bytes) -> DisallowedMessage:
    """Returns the error for a message with a DOCTYPE, at its place."""
    found = _BEFORE_DOCTYPE.match(body)
    before = body[: found.end() if found else 0].decode()
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return DisallowedMessage(line, column, "its source takes no messages with a DOCTYPE (doctype: refuse)")


class EvaluatedMessage(NamedTuple):
    """A message with its evaluation by the engine."""

    submission: Submission | None
    """``None`` for a message that is left out, since nobody here wants it."""
    form: StoredForm | None
    """``None`` for a rejected message."""
    evaluation: Evaluation
    received: float
    """When it came, as it is stored: the time that the evaluation was for."""
    is_repeated: bool = False
    """Whether it was not evaluated, since a message is stored under its id. The writing thread looks again."""
    invalid: str | None = None
    """What the DTD of its source does not allow in it, if such messages are taken."""
    facts: MessageFacts | None = None
    """The facts that the profile of its source finds in it, if there is a profile."""
    rows_added: int = 0
    """Rows of look-up tables that were found for it,"""
    rows_missed: int = 0
    """and values for which there was none."""
    values: MessageValues | None = None
    """What it says to windows, if it concerns any."""


@dataclass(eq=False)
class EvaluatedOperation(Operation):
    """An operation whose messages are evaluated before the writing thread gets it."""

    evaluated: list[EvaluatedMessage] = field(init=False, default_factory=list)
    """Those of its messages, from the first on, that have been evaluated."""
    failure: Exception | None = field(init=False, default=None)
    """Why the evaluation failed, if it did: nothing of the operation is stored."""

    message_tenants: Sequence[int] = field(init=False, default=())
    """The tenant of each message."""
    priority: int = field(init=False, default=USUAL_PRIORITY)
    """The highest priority of its messages."""
    due: float = field(init=False, default=NEVER)
    """The earliest deadline of its messages."""

    def named(self, index: int) -> Submission | None:
        """Returns one of the messages if its publisher gave it an id."""
        return None

    def prepared(self, index: int, population: TenantPopulation, limits: Limits) -> PreparedMessage | None:
        """Returns one of the messages; ``None`` if nobody wants it."""
        raise AssertionError("each operation says what it has evaluated")

    @property
    def is_evaluated(self) -> bool:
        """Returns whether there is nothing more to evaluate."""
        return self.failure is not None or len(self.evaluated) == len(self.message_tenants)


Item = tuple[EvaluatedOperation, int]
"""A message of an operation, by its index."""


def evaluate(
    items: Sequence[Item], population: TenantPopulation, limits: Limits, *, yields: bool = False
) -> list[EvaluatedMessage]:
    """Evaluates messages of one tenant together; ``yields``: whether others come first at the processor."""
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
    answers = population.evaluate([m.matched for _, m in bodies], sources, received, yields=yields)
    for (position, message), answer in zip(bodies, answers, strict=True):
        invalid = None
        # Only what is well-formed, and within the limits, is validated.
        if answer.error is None and (fault := _fault(message)) is not None:
            if message.submission.intake.rejects:
                answer = Evaluation(revision, error=fault)
            else:
                invalid = str(fault)
        if answer.error is not None:
            results[position] = EvaluatedMessage(message.submission, None, answer, received, invalid=invalid)
            continue
        facts, values = _facts(message, limits), population.windows.read(message.matched, answer.numbers)
        results[position] = EvaluatedMessage(
            message.submission,
            message.form,
            answer,
            received,
            invalid=invalid,
            facts=facts,
            rows_added=message.rows_added,
            rows_missed=message.rows_missed,
            values=values,
        )
    return [result for result in results if result is not None]


def _facts(message: PreparedMessage, limits: Limits) -> MessageFacts | None:
    """Returns the facts of a message, if its source has a profile. Faults of the profile do not stop the message."""
    text = message.submission.intake.profile
    if text is None:
        return None
    try:
        reader = profile_reader(text, limits)
        facts = reader.read(message.sent)
    except (LifecycleProfileError, RejectedMessage) as error:
        # The profile was checked when it was stored, and the message has been read: limits or versions have changed.
        _log.error("the life cycle of a message of %s is not known: %s", message.submission.source, error)
        return MessageFacts(None, trouble=f"it has no life cycle: {error}")
    if facts.identity is None and facts.trouble is None:
        item, name = reader.profile.item, reader.profile.name
        cut = f"; if it holds several of {item}, publish it with items=true" if item else ""
        return replace(facts, trouble=f"it has no identity by the profile {name!r}, and so no life cycle{cut}")
    return facts


def repeated(submission: Submission, population: TenantPopulation) -> EvaluatedMessage:
    """Returns a message that was published before, and is not evaluated again."""
    return EvaluatedMessage(submission, None, Evaluation(population.revision), time.time(), is_repeated=True)


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
