"""Replay: matching stored messages for a new subscription, in the background, before live messages.

The position of replay is stored with its deliveries, in the same commit, so that it goes on after a restart without a
gap or a duplicate. Meanwhile live matching fills the queue behind it; the ceiling of the queue holds that back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeVar

from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.hub.commit import Operation
from twigcast.broker.hub.external_queries import REPORT_SECONDS, ExternalQueryRunner, SaxonExecutor, is_paused_at
from twigcast.broker.hub.operations import StoreReplay
from twigcast.broker.hub.overflow import ResumeDrained
from twigcast.broker.hub.population import MatchOutcome, RegisteredSubscription, TenantPopulation
from twigcast.broker.hub.tenant_threads import TenantThreads
from twigcast.broker.hub.windows import ReplayedMessage
from twigcast.broker.metrics import Metrics
from twigcast.broker.model import ErrorRecord, NewDelivery, StoredMessage, StoredSubscription, SubscriptionState, Tenant
from twigcast.broker.options import HubOptions, refused_dialect
from twigcast.broker.store.store import Store
from twigcast.errors import QueryError

T = TypeVar("T")

logger = logging.getLogger(__name__)

CHUNK_MESSAGES: Final = 100
"""Number of messages read and matched at a time."""

CHUNK_BYTES: Final = 8 << 20
"""Bytes of such messages, unless one message alone has more."""

STEP_SECONDS: Final = 0.05
"""Time after which what was found is stored before further messages are matched, and other tenants have their turn."""

_RETRY_SECONDS: Final = 1.0
_FULL_SECONDS: Final = 0.2
"""Time between two checks whether a queue that is half full has been emptied."""
_EXPIRED_SECONDS: Final = 60.0
"""The same if nothing of it is acknowledged: retention may have removed some."""


class InThread(Protocol):
    """A function that runs blocking work in a thread."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]:
        """Returns the result of the work."""


@dataclass(slots=True)
class _Chunk:
    deliveries: list[NewDelivery]
    errors: list[ErrorRecord]
    replay_next: int | None
    replayed: list[ReplayedMessage] = field(default_factory=list)
    """The messages that concern a window; they are no deliveries yet."""


@dataclass(eq=False)
class Replays:
    """The running replays, and the subscriptions that resume once their queue is half empty.

    ``write`` runs an operation in the writing thread, and returns its result: of a range, whether it was stored.
    """

    _store: Store
    _in_thread: InThread
    _write: Callable[[Operation], Awaitable[bool]]
    _evaluations: SaxonExecutor
    _questions: TenantThreads
    _options: HubOptions
    _metrics: Metrics
    _tenants: Callable[[], Mapping[int, Tenant]]
    _last_seq: int = field(init=False, default=0)
    _waiting: list[asyncio.Future[None]] = field(init=False, default_factory=list)
    """Followers that have read all messages."""
    _turns: dict[int, asyncio.Semaphore] = field(init=False, default_factory=dict)
    """How many more replays of each tenant may go on."""
    _tasks: dict[int, asyncio.Task[None]] = field(init=False, default_factory=dict)
    _changed: dict[int, StoredSubscription] = field(init=False, default_factory=dict)
    """Subscriptions that changed while they were replayed."""
    _following: set[int] = field(init=False, default_factory=set)
    """The tasks of followers, which have no end."""
    _outdated: set[int] = field(init=False, default_factory=set)
    """Those of them whose subscription has changed, or is deleted."""
    _acknowledged: dict[int, asyncio.Event] = field(init=False, default_factory=dict)
    """By queue of a subscription that waits to be resumed: set when something of it is acknowledged."""

    def changed(self, subscription: StoredSubscription) -> None:
        """Begins or resumes the replay of a new or changed subscription, if it has one."""
        self.recheck(subscription)
        if not subscription.is_draining:
            if subscription.replay_next is None:
                return
            if subscription.state is not SubscriptionState.ACTIVE and subscription.dialect != "xquery":
                return
        if subscription.id in self._tasks:
            # The task may be about to end because of the subscription's former state.
            self._changed[subscription.id] = subscription
        else:
            self._start(subscription)

    def recheck(self, subscription: StoredSubscription) -> None:
        """Lets the follower of a changed or deleted subscription read it again."""
        if subscription.id in self._following:
            self._outdated.add(subscription.id)
            self._wake()
        self.acknowledged(subscription.queue_id)

    def acknowledged(self, queue_id: int) -> None:
        """Wakes the task that waits until a queue is half empty."""
        if (event := self._acknowledged.get(queue_id)) is not None:
            event.set()

    def grown(self, last_seq: int) -> None:
        """Notes the last stored message, and wakes the followers."""
        self._last_seq = max(self._last_seq, last_seq)
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _start(self, subscription: StoredSubscription) -> None:
        task = asyncio.create_task(self._run(subscription), name=f"replay-{subscription.id}")
        self._tasks[subscription.id] = task
        if subscription.dialect == "xquery":
            self._following.add(subscription.id)
        self._count()
        task.add_done_callback(lambda done: self._ended(subscription.id, done))

    def _count(self) -> None:
        self._metrics.replays = len(self._tasks) - len(self._following) - len(self._acknowledged)

    def _ended(self, subscription_id: int, task: asyncio.Task[None]) -> None:
        del self._tasks[subscription_id]
        self._following.discard(subscription_id)
        self._outdated.discard(subscription_id)
        self._count()
        changed = self._changed.pop(subscription_id, None)
        if task.cancelled():
            return
        if error := task.exception():
            logger.error("the replay of subscription %d has ended", subscription_id, exc_info=error)
        elif changed is not None:
            # A follower without new messages notices that by itself.
            self._start(changed)

    async def stop(self) -> None:
        """Stops all replays; they go on after the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, subscription: StoredSubscription) -> None:
        if subscription.is_draining:
            await self._resume(subscription)
            return
        if subscription.dialect == "xquery":
            await self._replay(subscription)
            return
        turns = self._turns.setdefault(subscription.tenant_id, asyncio.Semaphore(self._options.replays_max))
        async with turns:
            await self._replay(subscription)

    async def _resume(self, subscription: StoredSubscription) -> None:
        """Resumes a subscription for which too much waited, when its queue is at most half full."""
        event = self._acknowledged[subscription.queue_id] = asyncio.Event()
        self._count()
        try:
            while subscription.id not in self._changed:
                event.clear()
                try:
                    if await self._pending(subscription) <= self._half(subscription):
                        await self._write(ResumeDrained(subscription))
                        return
                except StoreUnavailable as error:
                    logger.debug("a suspended subscription waits: %s", error)
                with suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), _EXPIRED_SECONDS)
                await asyncio.sleep(_FULL_SECONDS)
        finally:
            del self._acknowledged[subscription.queue_id]

    async def _replay(self, subscription: StoredSubscription) -> None:
        waited = False
        while True:
            try:
                current = await self._as_stored(subscription)
                if current is None:
                    return
                if current.dialect == "xquery":
                    await self._follow(current)
                elif await self._through(current):
                    return
            except QueryError as error:
                # The position stays in the store, and replay goes on once the limits are higher again.
                logger.warning("subscription %d is not followed any further: %s", subscription.id, error)
                return
            except StoreUnavailable as error:
                logger.log(logging.DEBUG if waited else logging.WARNING, "replay waits: %s", error)
                waited = True
                await asyncio.sleep(_RETRY_SECONDS)

    async def _through(self, subscription: StoredSubscription) -> bool:
        """Replays the rest; returns whether the subscription was unchanged."""
        begin = partial(_Matcher, subscription, self._options)
        matcher = await self._questions.run(subscription.tenant_id, begin)
        while True:
            remaining = await self._remaining(subscription)
            work = partial(matcher.chunk, self._store, remaining)
            chunk = await self._questions.run(subscription.tenant_id, work)
            position = matcher.position or 0
            replay = StoreReplay(
                matcher.member,
                chunk.deliveries,
                position,
                chunk.replay_next,
                matcher.end,
                errors=chunk.errors,
                replayed=chunk.replayed,
                match=matcher.concerned,
            )
            if not await self._write(replay):
                return False
            if chunk.replay_next is None:
                # Where there is a window, messages that came meanwhile may be next.
                return replay.goes_on_at is None
            matcher.position = chunk.replay_next

    async def _follow(self, subscription: StoredSubscription) -> None:
        """Matches messages as they come, until the subscription changes."""
        tenant_id, thread = subscription.tenant_id, self._evaluations.thread
        pauses = await self._in_thread(lambda: self._store.pauses(subscription.id))
        begin = partial(ExternalQueryRunner, subscription, self._options, self._evaluations, pauses)
        follower = await thread.run(tenant_id, begin)
        while not (follower.is_over and follower.position == follower.stored_at):
            await self._news_from(follower)
            if subscription.id in self._outdated:
                # Before it is read again: later changes are seen, too.
                self._outdated.discard(subscription.id)
                return
            remaining = await self._remaining(subscription)
            await thread.run(tenant_id, partial(follower.step, self._store, remaining))
            if follower.is_report_due:
                come_to = follower.position
                replay = StoreReplay(
                    follower.member,
                    follower.deliveries,
                    follower.stored_at,
                    come_to,
                    errors=follower.errors,
                    pauses=follower.pauses,
                )
                if not await self._write(replay):
                    return
                follower.was_stored()

    async def _news_from(self, follower: ExternalQueryRunner) -> None:
        """Waits for new messages, a changed subscription, or the time when the position is to be stored."""
        while follower.position > self._last_seq and follower.member.id not in self._outdated:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            is_behind = follower.position > follower.stored_at
            done, _ = await asyncio.wait([future], timeout=REPORT_SECONDS if is_behind else None)
            future.cancel()
            if not done:
                return

    async def _remaining(self, subscription: StoredSubscription) -> int:
        """Waits until the queue is at most half full; returns how many deliveries may come without a suspension."""
        bound = self._half(subscription)
        while await self._pending(subscription) > bound:
            await asyncio.sleep(_FULL_SECONDS)
        return max(bound, 1)

    def _half(self, subscription: StoredSubscription) -> int:
        return self._options.limit_of(self._tenants().get(subscription.tenant_id), "pending_max") // 2

    async def _pending(self, subscription: StoredSubscription) -> int:
        return await self._in_thread(lambda: self._store.pending_count(subscription.queue_id))

    async def _as_stored(self, before: StoredSubscription) -> StoredSubscription | None:
        """Returns the subscription as it is now, if its replay has not ended."""
        now = await self._in_thread(lambda: self._store.subscription(before.tenant_id, before.key))
        if now is None or now.id != before.id or now.replay_next is None or refused_dialect(now.dialect) is not None:
            return None
        if now.state is SubscriptionState.ACTIVE:
            return now
        # Messages before the pause are still to be matched.
        pauses = await self._in_thread(lambda: self._store.pauses(before.id)) if now.dialect == "xquery" else []
        is_under_way = bool(pauses) and pauses[-1].last_seq is None and not is_paused_at(now.replay_next, pauses)
        return now if is_under_way else None


class _Matcher:
    """A matcher of stored messages against one subscription."""

    def __init__(self, subscription: StoredSubscription, options: HubOptions) -> None:
        self.member = RegisteredSubscription.of(subscription)
        self.position = subscription.replay_next
        self.end = subscription.replay_end
        self._population = TenantPopulation(options.limits)
        for _, error in self._population.add([self.member]):
            raise error
        self._read: list[StoredMessage] = []
        """Messages that were read and are to be matched next."""

    def chunk(self, store: Store, most: int) -> _Chunk:
        """Returns the deliveries and errors of the next messages, at most so many, and not for long."""
        end = self.end or 0
        if not self._read:
            after = (self.position or 0) - 1
            self._read = store.messages(
                self.member.tenant_id, after=after, up_to=end, limit=CHUNK_MESSAGES, bytes_max=CHUNK_BYTES
            )
        result = _Chunk([], [], None)
        until, step, seq = time.monotonic() + STEP_SECONDS, 1, end
        while self._read and most > 0 and (step == 1 or time.monotonic() < until):
            count = min(step, most)
            some, self._read = self._read[:count], self._read[count:]
            self._match(some, result)
            seq, most, step = some[-1].seq, most - count, 2 * step
        # Size may bound the number of messages read: only an empty range ends the replay.
        result.replay_next = seq + 1 if seq < end else None
        return result

    def concerned(self, messages: Sequence[StoredMessage]) -> list[ReplayedMessage]:
        """Returns those of the messages that concern the window; in the writing thread, while this one waits."""
        result = _Chunk([], [], None)
        self._match(messages, result)
        return result.replayed

    def _add_to_window(self, message: StoredMessage, outcome: MatchOutcome, result: _Chunk) -> None:
        table, number = self._population.windows, self.member.id
        values = table.read(message.with_ids, [number] if outcome.slots else [])
        registered = table.get(number)
        if values is None or registered is None:
            return
        if outcome.slots or number in table.second_for(values):
            payload = outcome.payloads[0] if outcome.payloads else None
            found = ReplayedMessage(message, payload, values, registered, is_first=bool(outcome.slots))
            result.replayed.append(found)

    def _match(self, messages: Sequence[StoredMessage], result: _Chunk) -> None:
        received = [message.received for message in messages]
        outcomes = self._population.match([message.with_ids for message in messages], received)
        now = time.time()
        for message, outcome in zip(messages, outcomes, strict=True):
            reasons = [failure.reason for failure in outcome.undecided]
            if outcome.error is not None:
                reasons.append(str(outcome.error))
            payloads = outcome.payloads or [None] * len(outcome.slots)
            if self.member.window is not None:
                if outcome.error is None:
                    self._add_to_window(message, outcome, result)
                payloads = []
            result.deliveries += [NewDelivery(self.member.queue_id, message.seq, self.member.id, p) for p in payloads]
            for reason in reasons:
                last = result.errors[-1] if result.errors else None
                if last is not None and last.reason == reason:
                    result.errors[-1] = replace(last, count=last.count + 1)
                else:
                    result.errors.append(ErrorRecord(self.member.id, now, reason, message.seq))
