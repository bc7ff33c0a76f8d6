"""The one thread that changes the store: takes the waiting operations, commits them together, informs the event loop.

It only records: what the engine says of messages is found before (:mod:`~twigcast.broker.hub.sequencer`). A thread that
has evaluated messages may carry out a group in its place: to wake another thread would take as long as the commit.

While one commit runs the next group gathers, so groups grow with the load by themselves and a single message does not
wait. When the store fails, all operations of the group fail, and the engine is restored. Since a commit may have
happened although it was reported as failed, the subscriptions concerned are compared with the store before the
next group, and readers of queues read again what they may have missed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from queue import SimpleQueue
from typing import cast

from twigcast.broker.errors import BrokerError, StoreUnavailable
from twigcast.broker.hub.commit import CommitGroup, CommitResult, FailureRecords, Operation
from twigcast.broker.hub.population import BrokerPopulation, RegisteredSubscription
from twigcast.broker.hub.publishing import Publish, publish
from twigcast.broker.metrics import Metrics
from twigcast.broker.model import (
    DeliveryId,
    QueuedDelivery,
    StoredMessage,
    StoredSubscription,
    SubscriptionState,
    Tenant,
)
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import Store
from twigcast.broker.urgency import NEVER
from twigcast.errors import TwigcastError

logger = logging.getLogger(__name__)

# There are thousands of these a second, and their constructors take longer than everything else done with them here.
_delivery_id = cast("Callable[[tuple[int, int]], DeliveryId]", partial(tuple.__new__, DeliveryId))
_delivery = cast("Callable[[tuple[object, ...]], QueuedDelivery]", partial(tuple.__new__, QueuedDelivery))


@dataclass(eq=False)
class Writer:
    """The writing thread, and who works in its place: one at a time changes store and engine after the start.

    ``live`` are the queues with readers, owned by the event loop. In this thread, ``begun`` is called with the
    operations of each group before they are carried out, ``finished`` after their commit or their failure, and then
    ``hand_over`` with the result.
    """

    _store: Store
    _population: BrokerPopulation
    _options: HubOptions
    _metrics: Metrics
    _live: Container[int]
    _hand_over: Callable[[CommitResult], None]
    _begun: Callable[[Sequence[Operation]], None]
    _finished: Callable[[Sequence[Operation]], None]
    _is_out: Callable[[int, DeliveryId], bool]
    """Says whether somebody has a delivery of a queue. Can be called from any thread."""
    _waiting: deque[Operation] = field(init=False, default_factory=deque)
    _calls: SimpleQueue[bool] = field(init=False, default_factory=SimpleQueue)
    """Calls to the writing thread to look for what waits; the last one is false."""
    _at_work: threading.Lock = field(init=False, default_factory=threading.Lock)
    """Held by the thread that carries out a group."""
    _remaining_by_queue: dict[int, int] = field(init=False, default_factory=dict)
    _full_queues: dict[int, float] = field(init=False, default_factory=dict)
    _seeks: dict[int, int] = field(init=False, default_factory=dict)
    _failure_records: dict[int, FailureRecords] = field(init=False, default_factory=dict)
    _doubtful: dict[int, RegisteredSubscription] = field(init=False, default_factory=dict)
    """Subscriptions of which store and engine may differ since a commit failed."""
    _incomplete: bool = field(init=False, default=False)
    """Whether readers may have missed deliveries since."""
    _unreported: list[RegisteredSubscription] = field(init=False, default_factory=list)
    """Subscriptions that are read, and reported to the listeners, with the next group."""
    tenants: dict[int, Tenant] = field(init=False, default_factory=dict)
    """Settings of the tenants; replaced as a whole by the event loop."""
    trouble: str | None = field(init=False, default=None)
    """Why the last commit failed."""
    on_accepted: Callable[[list[StoredMessage]], None] | None = field(init=False, default=None)
    """Called in the writing thread with the published messages of a group, in order, once they are durable."""
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="twigcast-writer", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def submit(self, operation: Operation) -> None:
        """Submits an operation, which runs after those before it."""
        self._waiting.append(operation)
        self._calls.put(True)

    def leave(self, operation: Operation) -> None:
        """Submits an operation, which runs when the thread that calls this calls :meth:`help`, or before."""
        self._waiting.append(operation)

    def call(self) -> None:
        """Lets the writing thread look for what was left."""
        self._calls.put(True)

    def help(self) -> None:
        """Carries out the next group in the place of the writing thread, unless that is at work.

        So a thread that has evaluated messages stores them without waking another one.
        """
        if self._waiting:
            self._try_next()

    def stop(self) -> None:
        """Carries out the waiting operations and ends; blocks."""
        self._calls.put(False)
        self._thread.join()

    # Groups

    def _run(self) -> None:
        while self._calls.get():
            self._try_next()
        while self._waiting:
            self._try_next()

    def _try_next(self) -> None:
        """Carries out one group, unless a thread is at work; then, or if more waits, the writing thread goes on."""
        if not self._at_work.acquire(blocking=False):
            # The thread at work looks for waiting operations when it is done.
            return
        try:
            if operations := self._take():
                self._begun(operations)
                result = self._carry_out(operations)
                self._finished(operations)
                self._hand_over(result)
        finally:
            self._at_work.release()
        if self._waiting:
            self._calls.put(True)

    def _take(self) -> list[Operation]:
        """Returns the next group."""
        operations: list[Operation] = []
        messages = size = 0
        while self._waiting:
            operation = self._waiting.popleft()
            operations.append(operation)
            messages += operation.messages
            size += operation.weight
            if messages >= self._options.group_messages_max or size >= self._options.group_bytes_max:
                break
        return operations

    def _carry_out(self, operations: list[Operation]) -> CommitResult:
        """Commits operations, as many as succeed; returns the results for the event loop."""
        begun = time.perf_counter()
        remaining = list(operations)
        while remaining:
            group = None
            current: Sequence[Operation] = ()
            try:
                if self._doubtful:
                    self._agree()
                with self._store.transaction() as transaction:
                    group = CommitGroup(
                        transaction,
                        self._store,
                        self._population,
                        self.tenants,
                        self._options,
                        self._remaining_by_queue,
                        self._seeks,
                        self._full_queues,
                        self._failure_records,
                        self._is_out,
                        CommitResult(operations),
                    )
                    for current in _in_order(remaining):
                        _apply(current, group)
                    current = ()
            except Exception as error:
                if group is not None:
                    group.undo()
                if isinstance(error, StoreUnavailable) or not current:
                    self._fail(remaining, error, group)
                    break
                if not isinstance(error, TwigcastError):
                    logger.exception("an operation failed in a group of %d", len(current))
                remaining = _without(remaining, current, error)
            else:
                return self._committed(group, begun)
        return CommitResult(operations)

    def _fail(self, operations: Sequence[Operation], error: Exception, group: CommitGroup | None) -> None:
        if group is not None:
            self._doubtful.update((member.id, member) for member in group.touched)
        if not isinstance(error, BrokerError):
            logger.error("a commit failed", exc_info=error)
        self.trouble = str(error)
        self._incomplete = True
        self._metrics.commit_failures += 1
        for operation in operations:
            operation.error = error

    def _agree(self) -> None:
        """Makes the engine agree with the store on the subscriptions concerned by a failure."""
        for member in list(self._doubtful.values()):
            stored = self._store.subscription(member.tenant_id, member.key)
            population = self._population.of(member.tenant_id)
            population.remove(member.id)
            if stored is None:
                continue
            # Another subscription may have the same key now.
            existing = RegisteredSubscription.of(stored)
            self._unreported.append(existing)
            if stored.state is not SubscriptionState.ACTIVE:
                population.remove(existing.id)
                population.dormant[existing.id] = existing
                continue
            for _, error in population.add([existing]):
                logger.error("the stored subscription %d is refused by the engine: %s", existing.id, error)
        for tenant_id in {member.tenant_id for member in self._doubtful.values()}:
            self._population.of(tenant_id).must_evaluate_again()
        self._doubtful.clear()

    # After the commit

    def _committed(self, group: CommitGroup, begun: float) -> CommitResult:
        self.trouble = None
        if self.on_accepted is not None and group.accepted:
            self.on_accepted(group.accepted)
        self._count(group, time.perf_counter() - begun)
        result = group.result
        for queue_id in result.sought:
            self._seeks[queue_id] = self._seeks.get(queue_id, 0) + 1
        result.changed += self._read_again(group.reread)
        result.incomplete, self._incomplete = self._incomplete, False
        self._fan_out(group, result)
        return result

    def _count(self, group: CommitGroup, seconds: float) -> None:
        metrics, counted = self._metrics, group.counted
        metrics.commits += 1
        for name in _SUMMED:
            setattr(metrics, name, getattr(metrics, name) + getattr(counted, name))
        metrics.add_tenants(counted)
        metrics.acknowledged += counted.acknowledged
        metrics.marks += counted.marks
        metrics.group_seconds.observe(seconds)
        if counted.accepted:
            metrics.group_messages.observe(counted.accepted)
        metrics.subscriptions = len(self._population)
        metrics.unread_numbers = self._population.unread_numbers()
        if counted.undecided or metrics.throttled:
            metrics.throttled = self._population.throttled()

    def _read_again(self, members: Sequence[RegisteredSubscription]) -> list[StoredSubscription]:
        """Returns subscriptions as they are now, for the listeners; those that cannot be read are reported later."""
        self._unreported += members
        results: list[StoredSubscription] = []
        while self._unreported:
            member = self._unreported[-1]
            try:
                stored = self._store.subscription(member.tenant_id, member.key)
            except StoreUnavailable as error:
                logger.warning("a changed subscription is reported later: %s", error)
                break
            self._unreported.pop()
            if stored is not None and stored.id == member.id:
                results.append(stored)
        return results

    def _fan_out(self, group: CommitGroup, over: CommitResult) -> None:
        """Returns the deliveries for the queues that have readers.

        A reader joins before it reads the store, and here the commit is over: it gets each delivery from at least one.
        """
        bound, urgencies = self._options.listener_deliveries_max, group.urgencies
        for item in group.published:
            message = item.message
            for (queue_id, seq, subscription_id, payload, relation, told), key in zip(
                item.deliveries, item.keys, strict=True
            ):
                mine = over.queues.get(queue_id)
                if mine is None:
                    if queue_id not in self._live:
                        continue
                    mine = over.queues[queue_id] = []
                number = _delivery_id((seq, subscription_id))
                due = message.deadline
                if urgencies and (urgency := urgencies.get(number)) is not None:
                    due = urgency.due if urgency.due < NEVER else None
                    if urgency.is_dropped and urgency.due <= group.now:
                        continue
                if len(mine) < bound:
                    mine.append(_delivery((number, queue_id, key, message, payload, False, 0, relation, told, due)))
                else:
                    over.overflown[queue_id] = number


_SUMMED = (
    *("accepted", "duplicates", "rejected", "deliveries", "undecided", "suspended", "resumed", "replayed"),
    *("repeated_content", "overtaken", "withdrawn", "window_late", "window_documents", "overdue_dropped"),
    *("ids_reused", "dropped", "overflow_dead_letters", "overflow_refused", "invalid", "rows_added", "rows_missed"),
)
"""The counters of a group that are added to those of the broker."""


def _without(operations: list[Operation], current: Sequence[Operation], error: Exception) -> list[Operation]:
    """Returns the operations to try again after a failure that lies in some of them, not in the store."""
    if len(current) > 1:
        # The fault lies in one of these; the others are not affected by it.
        for operation in current:
            operation.alone = True
        return operations
    for operation in current:
        operation.error = error
    return [operation for operation in operations if operation not in current]


def _in_order(operations: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Returns the operations in order: first all that commute, then the others, with adjacent publications as one."""
    for operation in operations:
        if operation.commutes:
            yield [operation]
    rest = [operation for operation in operations if not operation.commutes]
    for publishing, run in groupby(rest, lambda operation: isinstance(operation, Publish) and not operation.alone):
        if publishing:
            yield list(run)
        else:
            for operation in run:
                yield [operation]


def _apply(operations: Sequence[Operation], group: CommitGroup) -> None:
    if isinstance(operations[0], Publish):
        publish(cast("list[Publish]", operations), group)
    else:
        operations[0].apply(group)
