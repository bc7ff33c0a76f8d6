"""The sequencer: what each tenant asks for, in order, from the call to the writing thread.

The messages of a publication are evaluated before the writing thread gets them, in threads that the tenants share. The
answer must be that of the subscriptions at the place of the publication among the calls of its tenant. So each tenant
has a line of operations. A change of its subscriptions waits until the publications before it are evaluated and handed
over, and those behind it are evaluated once the change is committed, or has failed. Lines of different tenants do not
wait for each other, and an operation that concerns no subscriptions passes at once.

Between two changes, the publications of a line have the order of :mod:`twigcast.broker.urgency`: what is urgent is
evaluated first, and so it is stored, forwarded to other brokers, and delivered first. Those of one priority without
deadlines keep the order of the calls.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeGuard

from twigcast.broker.errors import Stopping
from twigcast.broker.hub.commit import Operation
from twigcast.broker.hub.evaluation import EvaluatedMessage, EvaluatedOperation, Item, evaluate, repeated, weight
from twigcast.broker.hub.population import BrokerPopulation
from twigcast.broker.hub.tenant_threads import TenantThreads, processor_seconds
from twigcast.broker.hub.writer import Writer
from twigcast.broker.model import MessageName, Submission
from twigcast.broker.options import HubOptions
from twigcast.broker.urgency import UrgencyQueue

logger = logging.getLogger(__name__)

STEP_SECONDS: Final = 0.005
"""Time that the messages evaluated in one step may take, as far as that can be foreseen."""

STEP_MESSAGES: Final = 200
"""Number of messages evaluated in one step at most."""

STEP_BYTES: Final = 1 << 20
"""Bytes of these messages, unless one alone has more."""

LOOKED_UP_SECONDS: Final = 0.001
"""What a message of a tenant takes from which on those with ids are looked up first: a look-up takes a tenth of it."""

_FADING: Final = 0.3
"""The part that the last step has in the estimate of what a message takes."""


class _OperationLine:
    """The operations of a line in the order in which they go on, which is fixed as far as somebody has looked."""

    __slots__ = ("_choices", "_fixed", "_open")

    def __init__(self) -> None:
        self._fixed: deque[Operation] = deque()
        self._open: deque[Operation | UrgencyQueue[Operation]] = deque()
        """What comes behind: publications that may overtake each other, and operations that no other one passes."""
        self._choices = 0

    def __bool__(self) -> bool:
        return bool(self._fixed or self._open)

    def append(self, operation: Operation) -> None:
        """Adds an operation."""
        if not _is_alone(operation):
            # It changes subscriptions, or has to be first in several lines at one time.
            self._open.append(operation)
            return
        last = self._open[-1] if self._open else None
        if not isinstance(last, UrgencyQueue):
            last = UrgencyQueue(self._choices)
            self._open.append(last)
        last.push(operation, operation.priority, operation.due)

    def first(self) -> Operation:
        """Returns the first operation, which there must be."""
        return self._fixed[0] if self._fixed else next(iter(self))

    def popleft(self) -> Operation:
        """Takes out the first operation."""
        if not self._fixed:
            self.first()
        return self._fixed.popleft()

    def __iter__(self) -> Iterator[Operation]:
        """Yields the operations in order; those that it has yielded keep their places."""
        yield from self._fixed
        while self._open:
            following = self._open[0]
            if isinstance(following, UrgencyQueue):
                operation = following.pop(time.time())
                self._choices = following.choices
            else:
                operation = following
            if not (isinstance(following, UrgencyQueue) and len(following)):
                self._open.popleft()
            self._fixed.append(operation)
            yield operation


@dataclass(slots=True)
class _Line:
    """The operations of one tenant that are not with the writing thread yet, in order."""

    waiting: _OperationLine = field(default_factory=_OperationLine)
    is_evaluated: bool = False
    """Whether its first operation is being evaluated."""
    changes: int = 0
    """Changes of its subscriptions that the writing thread has not finished."""
    handed_over: int = 0
    """Publications that the writing thread has not begun with. Until it does, no more are evaluated: what gathers
    meanwhile is evaluated together, and the next commit has as many as the writing thread can take."""


@dataclass(eq=False)
class Sequencer:
    """The lines of all tenants; its methods can be called from any thread.

    ``writer`` is the writing thread, which calls :meth:`begun` with the operations that it begins with, and
    :meth:`finished` after their commit or their failure.
    """

    _population: BrokerPopulation
    _options: HubOptions
    _threads: TenantThreads
    _writer: Writer
    _accepted_before: Callable[[Sequence[Submission]], Container[MessageName]]
    """Finds messages that were published before, by tenant, source and id, as the store does."""
    _lines: dict[int, _Line] = field(init=False, default_factory=dict)
    _message_seconds: dict[int, float] = field(init=False, default_factory=dict)
    """The recent average time of evaluating a message, by tenant."""
    _lock: threading.Lock = field(init=False, default_factory=threading.Lock)
    _emptied: threading.Condition = field(init=False)
    _is_closed: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._emptied = threading.Condition(self._lock)

    def submit(self, operation: Operation) -> None:
        """Submits an operation, which comes after those before it that concern the same subscriptions."""
        if not operation.tenant_ids:
            self._writer.submit(operation)
            return
        with self._lock:
            for tenant_id in operation.tenant_ids:
                self._lines.setdefault(tenant_id, _Line()).waiting.append(operation)
            self._advance(operation.tenant_ids)

    def begun(self, operations: Sequence[Operation]) -> None:
        """Goes on behind publications that the writing thread has begun with."""
        tenant_ids = [t for operation in operations if _is_publication(operation) for t in operation.tenant_ids]
        with self._lock:
            for tenant_id in tenant_ids:
                self._lines[tenant_id].handed_over -= 1
            self._advance(tenant_ids)

    def finished(self, operations: Sequence[Operation]) -> None:
        """Goes on behind changes that the writing thread has committed, or that have failed."""
        tenant_ids = [t for operation in operations if not _is_publication(operation) for t in operation.tenant_ids]
        with self._lock:
            for tenant_id in tenant_ids:
                self._lines[tenant_id].changes -= 1
            self._advance(tenant_ids)

    def stop(self, seconds: float) -> None:
        """Waits until nothing is left in the lines; after some seconds, fails what is not evaluated. Blocks."""
        with self._lock:
            self._emptied.wait_for(lambda: not self._lines, seconds)
            if self._lines:
                logger.warning("the broker stops before all waiting messages are evaluated; their publishers are told")
            self._is_closed = True
            self._advance(list(self._lines))
            # Only steps that had begun are left, and changes on their way.
            self._emptied.wait_for(lambda: not self._lines)

    # With the lock held

    def _advance(self, tenant_ids: Sequence[int]) -> None:
        """Lets what is first in the lines of some tenants go on, as far as it can."""
        to_look_at = deque(tenant_ids)
        while to_look_at:
            tenant_id = to_look_at.popleft()
            line = self._lines.get(tenant_id)
            if line is None:
                continue
            if line.waiting and self._can_go_on(line.waiting.first()):
                to_look_at += self._go_on(line.waiting.first())
            elif not (line.waiting or line.changes or line.is_evaluated or line.handed_over):
                del self._lines[tenant_id]
        if not self._lines:
            self._emptied.notify_all()

    def _can_go_on(self, operation: Operation) -> bool:
        """Returns whether nothing comes before an operation in any line that it is in."""
        lines = [self._lines[tenant_id] for tenant_id in operation.tenant_ids]
        if not all(line.waiting.first() is operation and not line.is_evaluated for line in lines):
            return False
        return not _is_publication(operation) or not any(line.changes or line.handed_over for line in lines)

    def _go_on(self, operation: Operation) -> Sequence[int]:
        """Hands an operation over, or has it evaluated; returns the tenants whose lines may go on."""
        if not _is_publication(operation):
            for line in self._remove(operation):
                line.changes += 1
            self._writer.submit(operation)
            return operation.tenant_ids
        if self._is_closed and not operation.is_evaluated:
            operation.failure = Stopping("the broker stops; nothing was stored")
        if operation.is_evaluated:
            self._hand_over(operation)
            self._writer.call()
            return operation.tenant_ids
        for tenant_id in operation.tenant_ids:
            self._lines[tenant_id].is_evaluated = True
        self._threads.submit(operation.tenant_ids[0], partial(self._step, operation.tenant_ids[0]))
        return ()

    def _hand_over(self, operation: EvaluatedOperation) -> None:
        for line in self._remove(operation):
            line.is_evaluated = False
            line.handed_over += 1
        self._writer.leave(operation)

    def _remove(self, operation: Operation) -> Iterator[_Line]:
        """Takes an operation out of all lines that it is first in, and yields these."""
        for tenant_id in operation.tenant_ids:
            line = self._lines[tenant_id]
            line.waiting.popleft()
            yield line

    # In a thread of the tenants

    def _step(self, line_id: int) -> bool:
        """Evaluates some messages of the first operations of a line; returns whether there are more to evaluate."""
        with self._lock:
            tenant_id, items = self._next_items(line_id)
        begun, begun_processor = time.perf_counter(), processor_seconds()
        self._evaluate(tenant_id, items)
        # The commit below may be that of others.
        self._threads.count((processor_seconds() - begun_processor) / max(1, len(items)))
        elapsed = time.perf_counter() - begun
        with self._lock:
            # What was not evaluated says nothing of what the next message takes.
            if count := sum(
                not operation.evaluated[index].is_repeated for operation, index in items if not operation.failure
            ):
                before = self._message_seconds.get(tenant_id, elapsed / count)
                self._message_seconds[tenant_id] = before + _FADING * (elapsed / count - before)
            goes_on = self._goes_on(line_id)
        if self._threads.is_yielding:
            # Messages of others are in the next group, too.
            self._writer.call()
        else:
            self._writer.help()
        return goes_on

    def _next_items(self, line_id: int) -> tuple[int, list[Item]]:
        """Returns messages of one tenant: the next ones of the first operation, and of those behind it."""
        line = self._lines[line_id]
        first = line.waiting.first()
        assert isinstance(first, EvaluatedOperation), "it is being evaluated"
        tenant_id = first.message_tenants[len(first.evaluated)]
        expected = self._message_seconds.get(tenant_id, 0.0)
        most = STEP_MESSAGES if expected <= 0 else max(1, min(STEP_MESSAGES, int(STEP_SECONDS / expected)))
        items: list[Item] = []
        size = 0
        for operation in line.waiting:
            if not isinstance(operation, EvaluatedOperation) or not (operation is first or _is_alone(operation)):
                break
            tenants, start = operation.message_tenants, len(operation.evaluated)
            share = max(1, operation.size // max(1, len(tenants)))
            for index in range(start, len(tenants)):
                size += share
                if len(items) == most or (items and size > STEP_BYTES) or tenants[index] != tenant_id:
                    return tenant_id, items
                items.append((operation, index))
            if len(first.tenant_ids) > 1:
                break
        return tenant_id, items

    def _evaluate(self, tenant_id: int, items: Sequence[Item]) -> None:
        """Evaluates messages; one that cannot be for another reason than itself fails its operation."""
        try:
            results = self._results(tenant_id, items)
        except Exception as error:
            if len(items) > 1:
                for item in items:
                    if item[0].failure is None:
                        self._evaluate(tenant_id, [item])
                return
            logger.exception("the evaluation of a message of tenant %d has failed", tenant_id)
            items[0][0].failure = error
            return
        for (operation, _), result in zip(items, results, strict=True):
            operation.evaluated.append(result)
            operation.weight += weight(result)

    def _results(self, tenant_id: int, items: Sequence[Item]) -> list[EvaluatedMessage]:
        """Evaluates messages of one tenant, but not those that were published before."""
        population, limits = self._population.of(tenant_id), self._options.limits
        yields = self._threads.is_yielding
        named = [(operation.named(index), index) for operation, index in items]
        asked = [submission for submission, _ in named if submission is not None]
        if not asked or self._message_seconds.get(tenant_id, 0.0) < LOOKED_UP_SECONDS:
            return evaluate(items, population, limits, yields=yields)
        before = self._accepted_before(asked)
        again = [
            submission if submission is not None and submission.name in before else None for submission, _ in named
        ]
        unknown = [item for item, one in zip(items, again, strict=True) if one is None]
        new = iter(evaluate(unknown, population, limits, yields=yields))
        return [next(new) if submission is None else repeated(submission, population) for submission in again]

    def _goes_on(self, line_id: int) -> bool:
        """Hands over what is evaluated; returns whether more of the first operation is to be evaluated."""
        line = self._lines[line_id]
        first = line.waiting.first()
        following: Operation | None = first
        while _is_ready(following, first):
            self._hand_over(following)
            following = line.waiting.first() if line.waiting else None
        if following is first and not self._is_closed:
            return True
        for tenant_id in first.tenant_ids if following is first else (line_id,):
            self._lines[tenant_id].is_evaluated = False
        self._advance(first.tenant_ids)
        return False


def _is_publication(operation: Operation) -> TypeGuard[EvaluatedOperation]:
    """Returns whether an operation is one of those whose messages are evaluated; all others change subscriptions."""
    return isinstance(operation, EvaluatedOperation)


def _is_ready(operation: Operation | None, first: Operation) -> TypeGuard[EvaluatedOperation]:
    """Returns whether an operation is evaluated and alone in its line, unless it is the one that was begun with."""
    return (
        isinstance(operation, EvaluatedOperation)
        and operation.is_evaluated
        and (operation is first or _is_alone(operation))
    )


def _is_alone(operation: Operation | None) -> TypeGuard[EvaluatedOperation]:
    """Returns whether messages of an operation can be evaluated without regard to other lines."""
    return isinstance(operation, EvaluatedOperation) and len(operation.tenant_ids) == 1
