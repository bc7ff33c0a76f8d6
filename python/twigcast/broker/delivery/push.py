"""Pushing: from queues with pending deliveries to subscribers' servers, in order, at least once.

There is one :class:`_PushQueue` for each pushed subscription with pending deliveries. It is only a job of the
:mod:`~twigcast.broker.delivery.host_scheduler` and a count of attempts; an idle queue is a number in a table. A turn
reads a few deliveries from the store, sends them one after the other, and acknowledges each. A failure ends the turn,
and the next turn begins with the same delivery. One that fails too often becomes a dead letter, and the
queue goes on: nothing ends silently.

Failed attempts are counted in the store, so that the attempts at a delivery end however often the broker restarts.
After a restart pending deliveries are still pending, and are marked as possibly delivered before.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from twigcast.broker.broker import Broker, CommitListener
from twigcast.broker.delivery.addresses import origin_of
from twigcast.broker.delivery.channel import Channel, Failure, SendBounds
from twigcast.broker.delivery.host_scheduler import AttemptOutcome, Backoff, HostLimits, HostScheduler
from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.model import (
    Attempts,
    AttemptState,
    DeliveryId,
    ErrorRecord,
    QueuedDelivery,
    StoredSubscription,
    SubscriptionState,
)
from twigcast.broker.store.store import Transaction
from twigcast.broker.urgency import USUAL_PRIORITY, DeliveryUrgency

_log = logging.getLogger(__name__)

_TURN_DELIVERIES: Final = 32
_TURN_BYTES: Final = 256 << 10
_TURN_GROUPS: Final = 4
"""Requests of a turn for each that may run at one time."""
_ASIDE_MAX: Final = 1_000
"""Deliveries that wait for another attempt, from which on no others are sent."""
_ASKED_AT_ONCE: Final = 10_000
_STORE_WAIT: Final = 2.0
"""Time until a queue reads again from a store that did not answer."""
_REPLAY_WAIT: Final = 1.0
"""Time until a queue that waits for its replay checks again without an event."""


@dataclass(frozen=True, slots=True)
class PushSettings:
    """The bounds of attempts: their number and seconds until a delivery is a dead letter, waits, limits of hosts."""

    attempts_max: int = 12
    seconds_max: float = 86_400.0
    backoff: Backoff = field(default_factory=Backoff)
    hosts: HostLimits = field(default_factory=HostLimits)


@dataclass(slots=True)
class PushCounts:
    """The counters of pushing since the start."""

    attempts: int = 0
    delivered: int = 0
    failed: int = 0
    """Attempts that failed."""
    dead_lettered: int = 0
    suspended: int = 0


class PushTarget(NamedTuple):
    """The subscription of a queue, as far as it matters for when it is served."""

    tenant_id: int
    key: str
    host: str = ""
    priority: int = USUAL_PRIORITY


class Pusher(CommitListener):
    """A commit listener that pushes the pending deliveries of queues."""

    def __init__(
        self,
        broker: Broker,
        channels: Mapping[str, Channel],
        settings: PushSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.broker = broker
        self.settings = settings or PushSettings()
        self.clock = clock
        self.counts = PushCounts()
        self.channels = channels
        self._queues = HostScheduler(self.settings.hosts, clock)
        self.targets: dict[int, PushTarget] = {}
        """The subscription of each queue."""
        self.busy: dict[int, _PushQueue] = {}
        self._unsure: set[int] = set()  # queues that may have something pending
        self._asking: asyncio.Task[None] | None = None
        self._before_start = 0
        self.in_flight = asyncio.Semaphore(self.settings.hosts.concurrency)
        """Slots of requests of queues that have several at one time, beside the one that each job has."""
        self._failed: Counter[int] = Counter()
        """Queues by the failed attempts at their first delivery, if there are any."""

    @property
    def busy_queues(self) -> int:
        """Number of queues with pending deliveries."""
        return len(self.busy)

    def open_hosts(self) -> list[str]:
        """Returns the hosts to which nothing is sent for now, since they failed."""
        return self._queues.open_hosts()

    async def start(self, stored: Iterable[StoredSubscription]) -> None:
        """Resumes pushing."""
        self._before_start = await asyncio.to_thread(self.broker.store.last_seq)
        for subscription in stored:
            self._learn(subscription)
        self._ask(self.targets)

    async def stop(self, grace: float = 5.0) -> None:
        """Waits up to ``grace`` seconds for running attempts, and starts no more."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        await self._queues.stop(grace)

    # Commit listener --------------------------------------------------------------------------------------------------

    def on_deliveries(self, queue_ids: Collection[int]) -> None:
        """Wakes queues with new deliveries."""
        for queue_id in queue_ids:
            if queue_id in self.targets:
                self._wake(queue_id)

    def on_subscriptions(self, changed: Sequence[StoredSubscription], removed: Sequence[StoredSubscription]) -> None:
        """Applies changes of subscriptions."""
        for subscription in removed:
            self.targets.pop(subscription.queue_id, None)
        for subscription in changed:
            self._learn(subscription)
        active = [s.queue_id for s in changed if s.queue_id in self.targets and s.is_served]
        for queue_id in active:
            if queue_id in self.busy:
                self._wake_anew(queue_id)
        self._ask(queue_id for queue_id in active if queue_id not in self.busy)

    def on_skipped(self, queue_id: int) -> None:
        """Sends the next delivery at once."""
        if queue_id in self.busy:
            self._wake_anew(queue_id)

    def on_redriven(self, deliveries: Sequence[QueuedDelivery]) -> None:
        """Tries dead letters once more, each by itself. One that fails becomes a dead letter again."""
        for delivery in deliveries:
            self._queues.add(_Redelivery(self, delivery))

    def _learn(self, subscription: StoredSubscription) -> None:
        if self.can_send(subscription):
            settings = subscription.delivery
            host = settings.kind if settings.url is None else origin_of(settings.url)
            priority = DeliveryUrgency.of(None, None, 0.0, subscription.urgency).priority
            self.targets[subscription.queue_id] = PushTarget(subscription.tenant_id, subscription.key, host, priority)
        else:
            self.targets.pop(subscription.queue_id, None)

    def _wake(self, queue_id: int) -> None:
        queue = self.busy.get(queue_id)
        if queue is None:
            queue = self.busy[queue_id] = _PushQueue(self, queue_id)
            self._queues.add(queue)
        elif queue.waits_for_failed and not queue.is_running:
            # Only what failed waits; the new deliveries do not.
            queue.is_abandoned = True
            self.busy[queue_id] = queue = queue.successor(keeps_failed=True)
            self._queues.add(queue)
        else:
            queue.again = True

    def _wake_anew(self, queue_id: int) -> None:
        """Wakes a queue whose subscription has changed: its waits, for its time or its host, end."""
        queue = self.busy[queue_id]
        if queue.is_running:
            queue.again = True
        else:
            queue.is_abandoned = True
            self.busy[queue_id] = queue = queue.successor()
            self._queues.add(queue)

    def _ask(self, queue_ids: Iterable[int]) -> None:
        """Wakes those of the queues that have pending deliveries. Of many new queues, most have none."""
        self._unsure.update(queue_ids)
        if self._unsure and (self._asking is None or self._asking.done()):
            self._asking = asyncio.get_running_loop().create_task(self._wake_filled())
            self._asking.add_done_callback(_tell_fault)

    async def _wake_filled(self) -> None:
        while self._unsure:
            some = list(itertools.islice(self._unsure, _ASKED_AT_ONCE))
            self._unsure.difference_update(some)
            try:
                filled = await asyncio.to_thread(self.broker.store.queues_with_pending, some)
            except StoreUnavailable as error:
                _log.warning("deliveries wait for the store: %s", error.reason)
                self._unsure.update(some)
                await asyncio.sleep(_STORE_WAIT)
                continue
            self.on_deliveries(filled)

    def pushing(self, queue_id: int) -> AttemptState | None:
        """Returns how a queue is being pushed; ``None`` if nothing is pending, or its deliveries are fetched."""
        queue = self.busy.get(queue_id)
        return None if queue is None else queue.state()

    def failing(self) -> tuple[int, int]:
        """Returns how many queues wait for another attempt, and the most attempts that failed for one of them."""
        counts = dict(self._failed)
        return sum(counts.values()), max((attempts for attempts, queues in counts.items() if queues), default=0)

    def has_failed(self, before: int, now: int) -> None:
        """Counts a queue with so many failed attempts at its first delivery, instead of those before."""
        if before:
            self._failed[before] -= 1
        if now:
            self._failed[now] += 1

    # For jobs ---------------------------------------------------------------------------------------------------------

    def may_have_been_sent(self, delivery: QueuedDelivery) -> bool:
        """Returns whether an earlier run of the broker may have sent a delivery."""
        return delivery.id.seq <= self._before_start

    def can_send(self, subscription: StoredSubscription) -> bool:
        """Returns whether there is a channel for a subscription."""
        return subscription.delivery.kind in self.channels

    async def attempt(self, subscription: StoredSubscription, deliveries: Sequence[QueuedDelivery]) -> Failure | None:
        """Sends deliveries together, and counts the attempt."""
        self.counts.attempts += 1
        failure = await self.channels[subscription.delivery.kind].send(subscription, deliveries)
        if failure is None:
            self.counts.delivered += len(deliveries)
            self.broker.count_overdue(deliveries)
        else:
            self.counts.failed += 1
        return failure

    async def record(self, queue_id: int, attempts: Attempts, reason: str) -> None:
        """Stores an error, which the owner of the subscription sees, and the number of attempts."""
        record = ErrorRecord(attempts.id.subscription_id, time.time(), reason, attempts.id.seq)

        def keep(transaction: Transaction) -> None:
            transaction.add_errors([record])
            transaction.set_attempts(queue_id, attempts)

        await self.broker.change(keep)

    async def attempts(self, queue_id: int) -> Attempts | None:
        """Returns the attempts at the first delivery of a queue before the broker started."""
        return await asyncio.to_thread(self.broker.store.attempts, queue_id)


def _tell_fault(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.error("queues with pending deliveries could not be found", exc_info=error)


@dataclass(frozen=True, slots=True)
class _FailedDelivery:
    """A delivery that waits for another attempt, while later ones are sent."""

    count: int
    """Attempts so far."""
    first_at: float
    retry_at: float
    """Both in seconds of the pusher's clock."""


class _PushQueue:
    """A queue with pending deliveries."""

    def __init__(self, pusher: Pusher, queue_id: int) -> None:
        self._pusher = pusher
        self._queue_id = queue_id
        self._host = ""
        self.again = False
        """Whether a delivery came during a turn."""
        self.is_running = False
        self.is_abandoned = False
        """Whether another job has replaced this one, which then does nothing."""
        self._tried = DeliveryId(0, 0)  # the last one that was tried
        self._attempts = 0  # at the first one that is pending
        self._first_at = 0.0
        self._remembers = True  # whether the store may hold attempts
        self._seeks = 0  # how often the queue had begun anew when it was read
        self._sending = 0
        self._retry_at: float | None = None
        self._aside: dict[DeliveryId, _FailedDelivery] = {}
        """Without order, the deliveries that wait for another attempt."""
        self._choices = 0
        """How many deliveries were chosen by urgency."""
        self.waits_for_failed = False
        """Whether it waits for the time of these, and new deliveries can be sent at once."""

    def successor(self, *, keeps_failed: bool = False) -> _PushQueue:
        """Returns a new job for the same queue, which may try everything again, or all but what has failed."""
        queue = _PushQueue(self._pusher, self._queue_id)
        queue._tried, queue._choices = self._tried, self._choices
        attempts = self._attempts
        self._count_attempts(0)
        if keeps_failed:
            queue._aside = self._aside
            queue._count_attempts(attempts)
        return queue

    def _count_attempts(self, attempts: int) -> None:
        self._pusher.has_failed(self._attempts, attempts)
        self._attempts = attempts

    def state(self) -> AttemptState:
        """Returns how it stands."""
        wait = None if self._retry_at is None else self._retry_at - self._pusher.clock()
        return AttemptState(self._sending, self._attempts, None if wait is None else time.time() + max(0.0, wait))

    @property
    def host(self) -> str:
        """The host of its subscriber."""
        existing = self._pusher.targets.get(self._queue_id)
        if existing is not None:
            self._host = existing.host
        return self._host

    @property
    def priority(self) -> int:
        """The priority of its subscription."""
        existing = self._pusher.targets.get(self._queue_id)
        return USUAL_PRIORITY if existing is None else existing.priority

    async def run(self, *, probe: bool) -> AttemptOutcome:
        """Sends a few deliveries."""
        if self.is_abandoned:
            return AttemptOutcome()
        self.again, self.is_running, self._retry_at = False, True, None
        self.waits_for_failed = False
        try:
            turn = await self._turn(probe)
        except StoreUnavailable as error:
            _log.warning("deliveries wait for the store: %s", error.reason)
            return AttemptOutcome(wait=_STORE_WAIT)
        finally:
            self.is_running, self._sending = False, 0
        if turn.wait:
            self._retry_at = self._pusher.clock() + turn.wait
        if turn.wait is None:
            if self.again:
                return replace(turn, wait=0.0)
            self._pusher.busy.pop(self._queue_id, None)
            self._count_attempts(0)
        return turn

    async def _turn(self, probe: bool) -> AttemptOutcome:
        existing = self._pusher.targets.get(self._queue_id)
        if existing is None:
            return AttemptOutcome()
        self._seeks = self._pusher.broker.seek_count(self._queue_id)
        await self._pusher.broker.drop_overdue(self._queue_id)
        subscription, pending = await asyncio.to_thread(self._read, existing.tenant_id, existing.key)
        if subscription is None:
            return AttemptOutcome()
        # By urgency, what waits for another attempt is not read before its time.
        if not pending and not (subscription.delivery.is_by_urgency and self._aside):
            return AttemptOutcome()
        if subscription.replay_next is not None:
            # Live deliveries may be stored already, behind a replay that is not complete.
            pending = [delivery for delivery in pending if delivery.id.seq < subscription.replay_next]
            if not pending:
                return AttemptOutcome(wait=_REPLAY_WAIT)
        bounds = self._pusher.channels[subscription.delivery.kind].bounds(subscription.delivery)
        if bounds.in_flight_max > 1 or subscription.delivery.is_by_urgency:
            return await self._turn_in_any_order(subscription, pending, bounds, probe)
        self._aside.clear()
        reached: bool | None = None
        size = bounds.group_max
        for start in range(0, len(pending), size):
            turn = await self._send(subscription, pending[start : start + size])
            reached = reached if turn.reached is None else turn.reached
            if turn.wait != 0.0 or (probe and reached is not None):
                return replace(turn, reached=reached)
        return AttemptOutcome(wait=0.0, reached=reached)

    def _read(self, tenant_id: int, key: str) -> tuple[StoredSubscription | None, list[QueuedDelivery]]:
        """Returns the subscription and then its pending deliveries: in this order, so that replay is not overtaken."""
        store = self._pusher.broker.store
        subscription = store.subscription(tenant_id, key)
        if (
            subscription is None
            or subscription.queue_id != self._queue_id
            or not subscription.is_served
            or not self._pusher.can_send(subscription)
            # An expired lease; the hub is about to end the subscription.
            or (subscription.delivery.expires or math.inf) <= time.time()
        ):
            return None, []
        bounds = self._pusher.channels[subscription.delivery.kind].bounds(subscription.delivery)
        if subscription.delivery.is_by_urgency:
            return subscription, self._read_by_urgency(bounds)
        # Several requests of each of those that run at one time, beside what waits for another attempt.
        limit = max(_TURN_DELIVERIES, _TURN_GROUPS * bounds.group_max * bounds.in_flight_max) + len(self._aside)
        bytes_max = _TURN_BYTES * bounds.in_flight_max * (2 if self._aside else 1)
        return subscription, store.pending(self._queue_id, limit=limit, bytes_max=bytes_max)

    def _read_by_urgency(self, bounds: SendBounds) -> list[QueuedDelivery]:
        """Returns what is sent at one time, the most urgent first, and some of what is tried again."""
        store, now, failed = self._pusher.broker.store, self._pusher.clock(), list[QueuedDelivery]()
        again = [id_ for id_, one in self._aside.items() if one.retry_at <= now][: bounds.in_flight_max]
        if again:
            failed, pending = store.still_pending(self._queue_id, again, bytes_max=_TURN_BYTES)
            for id_ in set(again) - pending:
                del self._aside[id_]
        most = bounds.group_max * bounds.in_flight_max
        fresh = store.pending_by_urgency(
            self._queue_id, limit=most, bytes_max=_TURN_BYTES, without=self._aside, choices=self._choices
        )
        self._choices += len(fresh)
        return fresh + failed

    async def _turn_in_any_order(
        self, subscription: StoredSubscription, pending: Sequence[QueuedDelivery], bounds: SendBounds, probe: bool
    ) -> AttemptOutcome:
        """Sends deliveries, several requests at one time. One that fails waits by itself, and the others go on."""
        now = self._pusher.clock()
        if not subscription.delivery.is_by_urgency:
            ids = {delivery.id for delivery in pending}
            self._aside = {id_: failed for id_, failed in self._aside.items() if id_ in ids}
        due = [d for d in pending if d.id not in self._aside or self._aside[d.id].retry_at <= now]
        if not due or len(self._aside) >= _ASIDE_MAX:
            due = [d for d in due if d.id in self._aside]
        if not due:
            self.waits_for_failed = len(self._aside) < _ASIDE_MAX
            # Deliveries that came meanwhile are sent first.
            return AttemptOutcome(wait=0.0 if self.again and self.waits_for_failed else self._aside_wait())
        # A delivery that failed is sent alone, so that it cannot make others fail.
        groups = [[d] for d in due if d.id in self._aside]
        fresh = [d for d in due if d.id not in self._aside]
        groups += [fresh[start : start + bounds.group_max] for start in range(0, len(fresh), bounds.group_max)]
        last = max(delivery.id for delivery in due)
        self._pusher.broker.has_handed_out(self._queue_id, last)
        self._sending = len(due)
        slots = asyncio.Semaphore(bounds.in_flight_max)
        if probe:
            groups = groups[:1]
        with self._pusher.broker.sending(self._queue_id, due):
            outcomes = await asyncio.gather(*(self._send_one_of_many(subscription, group, slots) for group in groups))
        self._tried = max(self._tried, last)
        self._count_attempts(max((failed.count for failed in self._aside.values()), default=0))
        gone = next((failure for failure in outcomes if failure is not None and failure.gone), None)
        if gone is not None:
            self._pusher.counts.suspended += 1
            reason = f"the receiver does not accept deliveries any more: {gone.reason}"
            await self._pusher.broker.set_state(subscription, SubscriptionState.SUSPENDED, reason)
            return AttemptOutcome(reached=True)
        reached = [None if failure is None else failure.reached for failure in outcomes]
        if all(failure is not None for failure in outcomes):
            self.waits_for_failed = 0 < len(self._aside) < _ASIDE_MAX
            unreached = next((one for one in reached if one is not None), None)
            wait = self._aside_wait() if self._aside and not self.again else 0.0
            return AttemptOutcome(wait=wait, reached=unreached)
        return AttemptOutcome(wait=0.0, reached=True)

    def _aside_wait(self) -> float:
        """Returns the seconds until what has failed is tried again, if nothing else could be sent."""
        return max(0.001, min(failed.retry_at for failed in self._aside.values()) - self._pusher.clock())

    async def _send_one_of_many(
        self, subscription: StoredSubscription, group: Sequence[QueuedDelivery], slots: asyncio.Semaphore
    ) -> Failure | None:
        pusher = self._pusher
        async with slots, pusher.in_flight:
            marked = [d._replace(redelivered=pusher.may_have_been_sent(d) or d.id in self._aside) for d in group]
            failure = await pusher.attempt(subscription, marked)
        if failure is None:
            await pusher.broker.acknowledge(self._queue_id, [d.id for d in group], self._seeks)
            for delivery in group:
                self._aside.pop(delivery.id, None)
            return None
        if not failure.gone:
            await self._set_aside(group, failure)
        return failure

    async def _set_aside(self, group: Sequence[QueuedDelivery], failure: Failure) -> None:
        """Lets deliveries wait for another attempt, or makes dead letters of them."""
        pusher, settings, now = self._pusher, self._pusher.settings, self._pusher.clock()
        given_up: list[tuple[QueuedDelivery, int, str]] = []
        records: list[ErrorRecord] = []
        for delivery in group:
            before = self._aside.get(delivery.id)
            count, first_at = (1, now) if before is None else (before.count + 1, before.first_at)
            reason = f"attempt {count} failed: {failure.reason}"
            records.append(ErrorRecord(delivery.id.subscription_id, time.time(), reason, delivery.id.seq))
            if count >= settings.attempts_max or now - first_at >= settings.seconds_max:
                given_up.append((delivery, count, failure.reason))
                self._aside.pop(delivery.id, None)
            else:
                wait = settings.backoff.wait(count, failure.retry_after)
                self._aside[delivery.id] = _FailedDelivery(count, first_at, now + wait)
        await pusher.broker.change(lambda transaction: transaction.add_errors(records))
        if given_up:
            pusher.counts.dead_lettered += len(given_up)
            await pusher.broker.dead_letter(given_up)

    async def _send(self, subscription: StoredSubscription, group: Sequence[QueuedDelivery]) -> AttemptOutcome:
        """Tries to send some deliveries: the turn goes on if the outcome has no wait."""
        marked = [delivery._replace(redelivered=self._is_redelivery(delivery)) for delivery in group]
        if group[0].id != self._tried:
            await self._begin(group[0])
        self._tried = group[0].id
        self._pusher.broker.has_handed_out(self._queue_id, group[-1].id)
        self._sending = len(marked)
        with self._pusher.broker.sending(self._queue_id, marked):
            failure = await self._pusher.attempt(subscription, marked)
        if failure is None:
            await self._pusher.broker.acknowledge_up_to(self._queue_id, group[-1].id.seq, self._seeks)
            await self._end()
            return AttemptOutcome(wait=0.0, reached=True)
        self._count_attempts(self._attempts + 1)
        return await self._failed(subscription, group, failure)

    async def _begin(self, delivery: QueuedDelivery) -> None:
        """Counts attempts at another delivery, from zero or from those of an earlier run of the broker."""
        self._count_attempts(0)
        self._first_at = self._pusher.clock()
        if not (self._remembers and self._tried.seq == 0 and self._pusher.may_have_been_sent(delivery)):
            return
        existing = await self._pusher.attempts(self._queue_id)
        self._remembers = existing is not None
        if existing is not None and existing.id == delivery.id:
            self._count_attempts(existing.count)
            self._first_at -= max(0.0, time.time() - existing.first_at)

    async def _end(self) -> None:
        """Ends the attempts at a delivery."""
        if self._attempts and self._remembers:
            queue_id = self._queue_id
            await self._pusher.broker.change(lambda transaction: transaction.set_attempts(queue_id, None))
            self._remembers = False
        self._count_attempts(0)

    def _is_redelivery(self, delivery: QueuedDelivery) -> bool:
        return self._pusher.may_have_been_sent(delivery) or delivery.id <= self._tried

    async def _failed(
        self, subscription: StoredSubscription, group: Sequence[QueuedDelivery], failure: Failure
    ) -> AttemptOutcome:
        settings, pusher = self._pusher.settings, self._pusher
        reached = failure.reached
        reason = f"attempt {self._attempts} failed: {failure.reason}"
        since = time.time() - (pusher.clock() - self._first_at)
        self._remembers = True
        await pusher.record(self._queue_id, Attempts(group[0].id, self._attempts, since), reason)
        if failure.gone:
            pusher.counts.suspended += 1
            reason = f"the receiver does not accept deliveries any more: {failure.reason}"
            await pusher.broker.set_state(subscription, SubscriptionState.SUSPENDED, reason)
            return AttemptOutcome(reached=reached)
        if self._attempts >= settings.attempts_max or pusher.clock() - self._first_at >= settings.seconds_max:
            pusher.counts.dead_lettered += len(group)
            attempts = self._attempts
            await pusher.broker.dead_letter([(delivery, attempts, failure.reason) for delivery in group])
            await self._end()
            return AttemptOutcome(wait=0.0, reached=reached)
        return AttemptOutcome(wait=settings.backoff.wait(self._attempts, failure.retry_after), reached=reached)


class _Redelivery:
    """A dead letter that is tried again, once for each request."""

    def __init__(self, pusher: Pusher, delivery: QueuedDelivery) -> None:
        self._pusher = pusher
        self._delivery = delivery._replace(redelivered=True)

    @property
    def host(self) -> str:
        """The host of its subscriber."""
        existing = self._pusher.targets.get(self._delivery.queue_id)
        return "" if existing is None else existing.host

    @property
    def priority(self) -> int:
        """The priority of its subscription."""
        existing = self._pusher.targets.get(self._delivery.queue_id)
        return USUAL_PRIORITY if existing is None else existing.priority

    async def run(self, *, probe: bool) -> AttemptOutcome:
        """Sends it."""
        try:
            return await self._send()
        except StoreUnavailable as error:
            _log.warning("a dead letter waits for the store: %s", error.reason)
            return AttemptOutcome(wait=_STORE_WAIT)

    async def _send(self) -> AttemptOutcome:
        delivery, broker = self._delivery, self._pusher.broker
        subscription = await asyncio.to_thread(broker.store.subscription, delivery.message.tenant_id, delivery.key)
        if subscription is None:
            return AttemptOutcome()
        can_send = self._pusher.can_send(subscription)
        if not subscription.is_served or not can_send:
            state = subscription.state.value if can_send else "not pushed any more"
            await broker.dead_letter([(delivery, 0, f"its subscription is {state}")])
            return AttemptOutcome()
        failure = await self._pusher.attempt(subscription, [delivery])
        if failure is not None:
            await broker.dead_letter([(delivery, 1, failure.reason)])
            return AttemptOutcome(reached=failure.reached)
        await broker.acknowledge(delivery.queue_id, [delivery.id])
        return AttemptOutcome(reached=True)
