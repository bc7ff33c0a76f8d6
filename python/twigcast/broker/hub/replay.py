"""Replay: the stored past for a subscription that asked for it, in the background, before what is live.

How far it has come is stored with what it finds, in the same commit, so that it goes on after a restart with no gap and
no double. Meanwhile live matching fills the queue above the past; the queue's ceiling keeps that back until its turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar

from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.hub.external_queries import REPORT_SECONDS, ExternalQueryRunner, SaxonExecutor, is_paused_at
from twigcast.broker.hub.population import RegisteredSubscription, TenantPopulation
from twigcast.broker.metrics import Metrics
from twigcast.broker.model import ErrorRecord, NewDelivery, StoredMessage, StoredSubscription, SubscriptionState, Tenant
from twigcast.broker.options import HubOptions, refused_dialect
from twigcast.broker.store.records import Pause
from twigcast.broker.store.store import Store
from twigcast.errors import QueryError

T = TypeVar("T")

logger = logging.getLogger(__name__)

CHUNK_MESSAGES: Final = 100
"""Messages read and matched at a time."""

CHUNK_BYTES: Final = 8 << 20
"""Bytes that a chunk has at most, but for one message alone."""

_RETRY_SECONDS: Final = 1.0
_FULL_SECONDS: Final = 0.2
"""Between two looks whether a queue that is half full has been emptied."""


class StoreWrite(Protocol):
    """Lets the writing thread carry out what was found, and says whether it was stored."""

    def __call__(
        self,
        member: RegisteredSubscription,
        deliveries: Sequence[NewDelivery],
        begun_at: int,
        replay_next: int | None,
        errors: Sequence[ErrorRecord],
        pauses: Sequence[Pause] | None = None,
    ) -> Awaitable[bool]:
        """Whether it was: the subscription is still what it was, and where."""


class InThread(Protocol):
    """Runs blocking work in a thread."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]:
        """Its result."""


@dataclass(slots=True)
class _Chunk:
    deliveries: list[NewDelivery]
    replay_next: int | None


class Replays:
    """The replays that are to be done.

    Args:
        store: The past.
        in_thread: Runs what blocks.
        write: Lets the writing thread carry out what was found; whether it was stored.
        evaluations: Saxon, for queries in XQuery.
        options: Bounds.
        metrics: Counters.
        tenants: The tenants by number, as they are now.
    """

    def __init__(
        self,
        store: Store,
        in_thread: InThread,
        write: StoreWrite,
        evaluations: SaxonExecutor,
        options: HubOptions,
        metrics: Metrics,
        tenants: Callable[[], Mapping[int, Tenant]],
    ) -> None:
        self._store = store
        self._tenants = tenants
        self._in_thread = in_thread
        self._write = write
        self._evaluations = evaluations
        self._last_seq = 0
        self._waiting: list[asyncio.Future[None]] = []
        """Followers that have seen all messages."""
        self._options = options
        self._metrics = metrics
        self._turns = asyncio.Semaphore(options.replays_max)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._changed: dict[int, StoredSubscription] = {}
        """Subscriptions that changed while they were replayed."""
        self._following: set[int] = set()
        """Those of the tasks that follow, and so have no end."""
        self._outdated: set[int] = set()
        """Those of them whose subscription has changed, or is gone."""

    def changed(self, subscription: StoredSubscription) -> None:
        """A subscription is new or has changed: begin or go on where it has a past to see."""
        self.recheck(subscription)
        if subscription.replay_next is None:
            return
        if subscription.state is not SubscriptionState.ACTIVE and subscription.dialect != "xquery":
            return
        if subscription.id in self._tasks:
            # The task may be about to end because of what the subscription was before.
            self._changed[subscription.id] = subscription
        else:
            self._start(subscription)

    def recheck(self, subscription: StoredSubscription) -> None:
        """A subscription has changed, or is gone: whoever follows for it finds out what it is now."""
        if subscription.id in self._following:
            self._outdated.add(subscription.id)
            self._wake()

    def grown(self, last_seq: int) -> None:
        """Messages up to this one are stored."""
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
        self._metrics.replays = len(self._tasks) - len(self._following)
        task.add_done_callback(lambda done: self._ended(subscription.id, done))

    def _ended(self, subscription_id: int, task: asyncio.Task[None]) -> None:
        del self._tasks[subscription_id]
        self._following.discard(subscription_id)
        self._outdated.discard(subscription_id)
        self._metrics.replays = len(self._tasks) - len(self._following)
        changed = self._changed.pop(subscription_id, None)
        if task.cancelled():
            return
        if error := task.exception():
            logger.error("the replay of subscription %d has ended", subscription_id, exc_info=error)
        elif changed is not None:
            # If there is nothing left to do, it finds that out first.
            self._start(changed)

    async def stop(self) -> None:
        """End all; they go on after the next start."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, subscription: StoredSubscription) -> None:
        if subscription.dialect == "xquery":
            await self._replay(subscription)
            return
        async with self._turns:
            await self._replay(subscription)

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
                # Its past stays where it is in the store, and is looked at once the limits are higher again.
                logger.warning("subscription %d is not followed any further: %s", subscription.id, error)
                return
            except StoreUnavailable as error:
                logger.log(logging.DEBUG if waited else logging.WARNING, "replay waits: %s", error)
                waited = True
                await asyncio.sleep(_RETRY_SECONDS)

    async def _through(self, subscription: StoredSubscription) -> bool:
        """Go through what is left of the past; whether it was for the subscription as it is."""
        matcher = _Matcher(subscription, self._options)
        while True:
            remaining = await self._remaining(subscription)
            chunk = await self._in_thread(partial(matcher.chunk, self._store, remaining))
            if not await self._write(matcher.member, chunk.deliveries, matcher.position or 0, chunk.replay_next, ()):
                return False
            if chunk.replay_next is None:
                return True
            matcher.position = chunk.replay_next

    async def _follow(self, subscription: StoredSubscription) -> None:
        """Look at messages as they come, until the subscription is not any more what it was."""
        loop, thread = asyncio.get_running_loop(), self._evaluations.thread
        pauses = await self._in_thread(lambda: self._store.pauses(subscription.id))
        follower = await loop.run_in_executor(
            thread, ExternalQueryRunner, subscription, self._options, self._evaluations, pauses
        )
        while not (follower.is_over and follower.position == follower.stored_at):
            await self._news_from(follower)
            if subscription.id in self._outdated:
                # Before it is read again: what changes after that is seen, too.
                self._outdated.discard(subscription.id)
                return
            remaining = await self._remaining(subscription)
            await loop.run_in_executor(thread, follower.step, self._store, remaining)
            if follower.is_report_due:
                come_to = follower.position
                if not await self._write(
                    follower.member,
                    follower.deliveries,
                    follower.stored_at,
                    come_to,
                    follower.errors,
                    follower.pauses,
                ):
                    return
                follower.was_stored()

    async def _news_from(self, follower: ExternalQueryRunner) -> None:
        """Wait until there are messages that it has not seen, or until it is to be told how far it has come.

        Nor is there anything to wait for once its subscription has changed.
        """
        while follower.position > self._last_seq and follower.member.id not in self._outdated:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            is_behind = follower.position > follower.stored_at
            done, _ = await asyncio.wait([future], timeout=REPORT_SECONDS if is_behind else None)
            future.cancel()
            if not done:
                return

    async def _remaining(self, subscription: StoredSubscription) -> int:
        """Wait until the queue is half full at most; how many may come then, so that replay alone suspends nobody."""
        bound = self._options.limit_of(self._tenants().get(subscription.tenant_id), "pending_max") // 2
        while await self._in_thread(lambda: self._store.pending_count(subscription.queue_id)) > bound:
            await asyncio.sleep(_FULL_SECONDS)
        return max(bound, 1)

    async def _as_stored(self, before: StoredSubscription) -> StoredSubscription | None:
        """The subscription as it is now, if its past still is to be seen."""
        now = await self._in_thread(lambda: self._store.subscription(before.tenant_id, before.key))
        if now is None or now.id != before.id or now.replay_next is None or refused_dialect(now.dialect) is not None:
            return None
        if now.state is SubscriptionState.ACTIVE:
            return now
        # What came before it was paused is still to be looked at.
        pauses = await self._in_thread(lambda: self._store.pauses(before.id)) if now.dialect == "xquery" else []
        is_under_way = bool(pauses) and pauses[-1].last_seq is None and not is_paused_at(now.replay_next, pauses)
        return now if is_under_way else None


class _Matcher:
    """Matches the past against one subscription."""

    def __init__(self, subscription: StoredSubscription, options: HubOptions) -> None:
        self.member = RegisteredSubscription.of(subscription)
        self.position = subscription.replay_next
        self._end = subscription.replay_end or 0
        self._population = TenantPopulation(options.limits)
        for _, error in self._population.add([self.member]):
            raise error

    def chunk(self, store: Store, most: int) -> _Chunk:
        """What the next messages of the past, at most so many, hold for it."""
        position, most = self.position or 0, min(most, CHUNK_MESSAGES)
        result = store.messages(
            self.member.tenant_id, after=position - 1, up_to=self._end, limit=most, bytes_max=CHUNK_BYTES
        )
        deliveries = self._match(result) if result else []
        # Fewer than asked for may be all that fit: only when nothing comes is the past over.
        more = bool(result) and result[-1].seq < self._end
        return _Chunk(deliveries, result[-1].seq + 1 if more else None)

    def _match(self, messages: Sequence[StoredMessage]) -> list[NewDelivery]:
        outcomes = self._population.match([message.xml for message in messages])
        deliveries = []
        for message, outcome in zip(messages, outcomes, strict=True):
            if outcome.error is not None:
                logger.warning("message %d cannot be replayed: %s", message.seq, outcome.error)
            for failure in outcome.undecided:
                logger.warning("message %d cannot be replayed for %d: %s", message.seq, self.member.id, failure.reason)
            payloads = outcome.payloads or [None] * len(outcome.slots)
            deliveries += [NewDelivery(self.member.queue_id, message.seq, self.member.id, p) for p in payloads]
        return deliveries
