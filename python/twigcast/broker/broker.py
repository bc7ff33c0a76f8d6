"""The running broker: hub and queues together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Container,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar, cast

from twigcast.broker.errors import Conflict, Stopping, StoreUnavailable, TooMany, UnknownDelivery, UnknownObject
from twigcast.broker.hub.commit import CommitResult, Operation
from twigcast.broker.hub.evaluation import intake_of
from twigcast.broker.hub.external_queries import SaxonExecutor, refusals_of, refused
from twigcast.broker.hub.lifecycles import LifecycleUpkeep
from twigcast.broker.hub.lookups import SourceLookups
from twigcast.broker.hub.operations import (
    AcknowledgeDeliveries,
    AcknowledgeUpTo,
    Replace,
    ReplaceQueries,
    Seek,
    SetState,
    StoreChange,
    Subscribe,
    Unsubscribe,
)
from twigcast.broker.hub.overdue_deliveries import ROUND_SECONDS as ROUND_OF_OVERDUE
from twigcast.broker.hub.overdue_deliveries import DropOverdue
from twigcast.broker.hub.population import BrokerPopulation, RegisteredSubscription
from twigcast.broker.hub.publishing import Publish
from twigcast.broker.hub.replay import Replays
from twigcast.broker.hub.retention import Retention
from twigcast.broker.hub.sequencer import Sequencer
from twigcast.broker.hub.source_schemas import SourceSchemas
from twigcast.broker.hub.tenant_threads import TenantThreads
from twigcast.broker.hub.upkeep import every
from twigcast.broker.hub.windows import WindowUpkeep
from twigcast.broker.hub.writer import Writer
from twigcast.broker.metrics import Metrics
from twigcast.broker.model import (
    AttemptState,
    ClockState,
    DeliveryId,
    DeliverySettings,
    ErrorRecord,
    Intake,
    NewQuery,
    NewSubscription,
    OverflowPolicy,
    PlainSubscriptions,
    PublishOutcome,
    QueuedDelivery,
    QueuePosition,
    QueueReading,
    QueueState,
    Receipt,
    Sharing,
    StoredMessage,
    StoredSubscription,
    Submission,
    SubscriptionState,
    Tenant,
)
from twigcast.broker.options import HubOptions
from twigcast.broker.queues.lag import ROUND_SECONDS, LagTracker
from twigcast.broker.queues.leases import Leases, QueueLeases
from twigcast.broker.queues.live import LiveQueues, Offer, QueueCursor
from twigcast.broker.queues.workers import SharedQueue, SharedQueues
from twigcast.broker.store.store import Store, Transaction
from twigcast.broker.urgency import USUAL_PRIORITY, Urgency
from twigcast.errors import TwigcastError
from twigcast.registration import NO_PARAMS, Dialect, Params
from twigcast.windows.declarations import Window

T = TypeVar("T")
Change = TypeVar("Change", NewSubscription, NewQuery)

logger = logging.getLogger(__name__)

VISIBILITY_SECONDS: Final = 30.0
"""Time of a lease in an ordered queue, unless a pull asks for another."""

SUBSCRIBED_AT_ONCE: Final = 2_000
"""Number of subscriptions added in one operation; publications go on in between."""

_CHECKED_HERE_CHARS: Final = 2_000
"""Characters of queries that are checked in the event loop, which takes about a millisecond; more are checked in a
thread.
"""

_CHECK_CHARS: Final = 100
"""What a query counts for beyond its characters, and each value of its parameters."""

_RETRY_SECONDS_MAX: Final = 10.0

_SKIPPED_AT_ONCE: Final = 100

_URGENT_ROOM: Final = 0.1
"""The part of the room for waiting publications that is kept for those with more than the usual priority, beside it."""

_TENDED_SECONDS: Final = 1.0
"""Time between two looks at the leases of workers."""

_ERASED_AT_ONCE: Final = 500
"""Number of subscriptions, or of messages, of an erased tenant that are removed together."""

VACUUMED_BYTES_MIN: Final = 32 << 20
"""Unused bytes that are not worth returning to the system."""


class CommitListener:
    """A listener that acts on commits, in the event loop, without blocking. By default it does nothing."""

    def on_deliveries(self, queue_ids: Collection[int]) -> None:
        """Handles new deliveries in queues. Queues that are only pulled may be left out."""

    def on_subscriptions(self, changed: Sequence[StoredSubscription], removed: Sequence[StoredSubscription]) -> None:
        """Handles subscriptions added, replaced, paused, suspended or resumed (as they are now), or deleted."""

    def on_skipped(self, queue_id: int) -> None:
        """Handles a queue whose first pending deliveries were taken out of the way."""

    def on_redriven(self, deliveries: Sequence[QueuedDelivery]) -> None:
        """Handles dead letters that are to be delivered again, beside the pending deliveries of their queues."""


class Broker:
    """A running broker, for the event loop that it is started in. Its methods can be called from all tasks of the loop.

    Every change goes through the one writing thread of the hub, many in one commit; a call returns when its change is
    durable. What concerns the subscriptions of a tenant, publications included, keeps the order of the calls. Readers
    call ``store`` directly, in threads; it is closed after :meth:`stop`.
    """

    def __init__(self, store: Store, options: HubOptions | None = None) -> None:
        self.store = store
        self.options = options or HubOptions()
        self.metrics = Metrics()
        self._running = False
        self._listeners: list[CommitListener] = []
        self._population = BrokerPopulation(self.options.limits)
        self._readers = ThreadPoolExecutor(self.options.readers, "twigcast-reader")
        self._queues = LiveQueues(self._read_pending, self.options, self.metrics)
        self._leases = Leases(self._queues)
        self._shared = SharedQueues(store, self._queues, self._in_thread, self.change, self.dead_letter)
        self.lag = LagTracker(store.lags, store.queue_ids_after)
        """How far the queues are behind."""
        self._writer = Writer(
            store,
            self._population,
            self.options,
            self.metrics,
            self._queues.readers,
            self._hand_over_from_thread,
            lambda operations: self._sequencer.begun(operations),
            lambda operations: self._sequencer.finished(operations),
            self._is_out,
        )
        self._evaluators = TenantThreads(self.options.evaluators, "twigcast-evaluator")
        self._sequencer = Sequencer(
            self._population, self.options, self._evaluators, self._writer, store.accepted_before
        )
        self.questions = TenantThreads(self.options.questioners, "twigcast-questions")
        """Threads for all other evaluations, which the tenants share."""
        self._evaluations = SaxonExecutor(self.options)
        self._replays = Replays(
            store,
            self._in_thread,
            self._do,
            self._evaluations,
            self.questions,
            self.options,
            self.metrics,
            lambda: self.tenants,
        )
        self._retention = Retention(self.change, self.options, self.metrics)
        self._lifecycles = LifecycleUpkeep(self.change, self._settle, self.options, self.metrics, self._retention.clock)
        self._windows = WindowUpkeep(self._tenants_due, self._do, self._retention.clock)
        self._replaying: dict[int, int] = {}
        """Subscription of each queue that a replay fills."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._erased: set[int] = set()
        self._reading_sources = asyncio.Lock()
        self._intakes: dict[tuple[int, str], Intake] = {}
        """Sources, by tenant and name, whose messages are not taken as usual."""
        self._lookups = SourceLookups(store, self.options.limits)
        self.source_schemas = SourceSchemas(())
        """What the DTDs of sources say of subscriptions."""
        self._sending: dict[int, frozenset[DeliveryId]] = {}
        """Deliveries that are being sent, by queue."""
        self._published_per_second = 1_000.0
        self._waiting: dict[int, tuple[int, int]] = {}
        """Messages of each tenant that wait to be stored, and their bytes."""

    # Start and stop ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Loads the subscriptions and begins to work; raises StoreUnavailable if the store does not answer."""
        self._loop = asyncio.get_running_loop()
        unfinished: list[StoredSubscription] = []
        await self.tenants_changed()
        await self.sources_changed()
        last_seq = await self._in_thread(self.store.last_seq)
        self._queues.first_new = last_seq + 1
        self._queues.last_seq = last_seq
        self._replays.grown(last_seq)
        refused = await self._in_thread(lambda: self._population.load(self._loaded(unfinished)))
        self.metrics.subscriptions = len(self._population)
        for subscription in unfinished:
            self._set_replay(subscription.queue_id, subscription.id, subscription.replay_next)
        await self._in_thread(lambda: self._shared.load(self.store.leases(), self._sharing))
        self._running = True
        self._writer.start()
        for subscription in unfinished:
            self._replays.changed(subscription)
        if refused:
            await self.change(lambda transaction: _suspend_refused(transaction, refused))
        self._begin(self._retention.run())
        self._begin(self._lifecycles.run())
        self._begin(self._windows.run())
        seconds = self.options.upkeep_seconds
        self._begin(every(seconds, self._refresh_tenants, logger, "the store does not work"))
        self._begin(self._follow_lag())
        self._begin(
            every(ROUND_OF_OVERDUE, self._drop_overdue, logger, "deliveries that are too late are dropped later")
        )
        self._begin(every(seconds, self._return_space, logger, "unused space is not returned"))
        # In time, also where no worker waits: the last attempt leads to a dead letter.
        self._begin(every(_TENDED_SECONDS, self._shared.tend, logger, "leases of workers are looked at later"))
        for tenant_id in await self._in_thread(self.store.erased_tenants):
            self._erased.add(tenant_id)
            self._begin(self._erase(tenant_id))

    def _sharing(self, queue_ids: Collection[int]) -> dict[int, Sharing]:
        """Returns the settings of those of the queues that are shared. Blocks."""
        queues = self.store.queues(list(queue_ids))
        return {queue.id: queue.sharing for queue in queues if queue.sharing is not None}

    def _loaded(self, unfinished: list[StoredSubscription]) -> Iterator[PlainSubscriptions | StoredSubscription]:
        """Yields all stored subscriptions, and appends those with an unfinished replay to ``unfinished``."""
        for loaded in self.store.loaded_subscriptions():
            if isinstance(loaded, StoredSubscription) and (
                loaded.replay_next is not None or loaded.missed_from is not None
            ):
                unfinished.append(loaded)
            yield loaded

    def drain(self) -> None:
        """Begins a graceful stop: refuses publications, ends readers and pulls, and still takes acknowledgements."""
        self._running = False
        self._queues.close_all()
        self._shared.close_all()

    async def stop(self) -> None:
        """Finishes running work and ends. No method can be called after it."""
        self.drain()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._replays.stop()
        await asyncio.get_running_loop().run_in_executor(None, self._evaluations.stop)
        stop_evaluating = partial(self._sequencer.stop, self.options.evaluation_stop_seconds)
        for stop in (stop_evaluating, self._evaluators.stop, self._writer.stop, self.questions.stop):
            await asyncio.get_running_loop().run_in_executor(None, stop)
        # The last calls from the writing thread are in the loop's queue now, and run before this returns.
        await asyncio.sleep(0)
        self._readers.shutdown(wait=True)

    def readiness(self) -> str | None:
        """Returns why the broker accepts no work at the moment; ``None`` if it does."""
        if not self._running:
            return "the broker is not running"
        if self._writer.trouble is not None:
            return self._writer.trouble
        if self.metrics.queued_messages >= self.options.queue_messages_max:
            return "too many messages wait for the store"
        return None

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _tenants_due(self, now: float, limit: int) -> list[int]:
        return await self._in_thread(lambda: self.store.window_tenants_due(now, limit))

    async def _refresh_tenants(self) -> None:
        """Notices new limits of tenants, and a store that works again after a failure."""
        await self.tenants_changed()
        if self._writer.trouble is not None:
            await self.change(lambda transaction: None)

    async def _follow_lag(self) -> None:
        while True:
            try:
                await self._in_thread(self.lag.round)
            except StoreUnavailable as error:
                logger.warning("the lag of queues is not read: %s", error)
            await asyncio.sleep(ROUND_SECONDS)

    async def _drop_overdue(self) -> None:
        if self.store.memory.dropping_queues:
            while await self._do(DropOverdue()):
                pass

    async def _return_space(self) -> None:
        """Returns the space of removed messages to the system, where it is a good part of the store."""
        if await self._in_thread(self._has_space_to_return):
            await self._in_thread(self.store.shrink)
            self.metrics.vacuums += 1

    def _has_space_to_return(self) -> bool:
        unused, most = self.store.unused(), self.options.retention_bytes
        if unused < VACUUMED_BYTES_MIN:
            return False
        size = self.store.database.size()
        return unused >= size / 4 or (most is not None and size > most)

    async def tenants_changed(self) -> None:
        """Reads tenants and their limits again."""
        self._writer.tenants = {tenant.id: tenant for tenant in await self._in_thread(self.store.tenants)}

    async def erase_tenant(self, tenant: Tenant) -> tuple[list[int], asyncio.Task[None]]:
        """Erases a tenant with all that it has stored: from now on nobody can use it.

        Returns the ids of its tokens, and the task that removes the rest. A restart goes on with it.
        """
        tokens = await self.change(lambda transaction: transaction.begin_erasure(tenant.id))
        self._erased.add(tenant.id)
        await self.tenants_changed()
        return tokens, self._begin(self._erase(tenant.id))

    async def _erase(self, tenant_id: int) -> None:
        while True:
            try:
                await self._erase_all(tenant_id)
            except StoreUnavailable as error:
                logger.warning("the erasure of a tenant is postponed: %s", error)
            else:
                return
            await asyncio.sleep(self.options.upkeep_seconds)

    async def _erase_all(self, tenant_id: int) -> None:
        read = partial(self.store.subscriptions, tenant_id, limit=_ERASED_AT_ONCE)
        while subscriptions := await self._in_thread(read):
            await asyncio.gather(*map(self.unsubscribe, subscriptions))
        while await self.change(lambda transaction: transaction.erase_some(tenant_id, _ERASED_AT_ONCE, at=time.time())):
            pass
        self.metrics.tenants.pop(tenant_id, None)
        # Removed data may still be in free pages.
        await self._in_thread(self.store.vacuum)
        logger.info("the tenant %d is erased", tenant_id)

    # Publishing -------------------------------------------------------------------------------------------------------

    async def publish(self, submissions: Sequence[Submission]) -> list[PublishOutcome]:
        """Stores messages durably, matched and with their deliveries. A rejected one is stored as such.

        One whose id was used for another body is not stored; the others are.

        If it raises StoreUnavailable, TooMany (which says when to try again), QueueFull (a subscriber has too much
        pending) or Stopping, none of them was stored, as far as the broker can know.
        """
        if not submissions:
            return []
        if not self._running:
            raise Stopping("the broker is not running; nothing was stored")
        if self._erased and any(s.tenant_id in self._erased for s in submissions):
            raise UnknownObject("this tenant was erased")
        if self._intakes:
            submissions = [self._with_intake(submission) for submission in submissions]
        operation = Publish(submissions)
        self._admit(operation)
        return cast("list[PublishOutcome]", await self._do(operation))

    def _with_intake(self, submission: Submission) -> Submission:
        intake = self._intakes.get((submission.tenant_id, submission.source))
        return submission if intake is None else replace(submission, intake=intake)

    def profile_of(self, tenant_id: int, source: str) -> str | None:
        """Returns the profile of a source, as sources hold it."""
        intake = self._intakes.get((tenant_id, source))
        return None if intake is None else intake.profile

    async def sources_changed(self) -> None:
        """Reads the settings of sources that concern publishing, and their DTDs."""
        # One reading after the other: the last one has seen all changes.
        async with self._reading_sources:
            self._intakes, self.source_schemas = await self._in_thread(self._read_sources)

    def _read_sources(self) -> tuple[dict[tuple[int, str], Intake], SourceSchemas]:
        sources = list(self.store.sources())
        enrichers = self._lookups.of(sources)
        intakes = {
            (s.tenant_id, s.name): intake for s in sources if (intake := intake_of(s, enrichers.get(s.id))) is not None
        }
        return intakes, SourceSchemas(sources)

    def _admit(self, operation: Publish) -> None:
        """Counts a publication in, or raises TooMany if too much waits already, of all tenants or of its own."""
        metrics, options = self.metrics, self.options
        messages, size = metrics.queued_messages + operation.messages, metrics.queued_bytes + operation.size
        tenant_id = operation.tenant_ids[0]
        before = self._waiting.get(tenant_id, (0, 0))
        mine = before[0] + operation.messages, before[1] + operation.size
        # With several tenants, each finds as much room as those have who take the most.
        others = len(self.tenants) > 1
        # What is urgent finds room where the rest has taken all.
        room = 1.0 + (_URGENT_ROOM if operation.priority > USUAL_PRIORITY else 0.0)
        messages_max, bytes_max = room * options.queue_messages_max, room * options.queue_bytes_max
        is_over = messages > messages_max or size > bytes_max
        is_over_share = others and (
            mine[0] > messages_max - metrics.queued_messages or mine[1] > bytes_max - metrics.queued_bytes
        )
        # A publication alone may exceed the bounds: its size is limited elsewhere, and it would never be admitted.
        if (metrics.queued_messages and is_over) or (before[0] and is_over_share):
            metrics.refused += operation.messages
            retry_after = min(max(metrics.queued_messages / self._published_per_second, 0.1), _RETRY_SECONDS_MAX)
            raise TooMany(f"{metrics.queued_messages:,} messages wait to be stored", round(retry_after, 1))
        metrics.queued_messages, metrics.queued_bytes = messages, size
        self._waiting[tenant_id] = mine

    async def _do(self, operation: Operation) -> Any:
        self._sequencer.submit(operation)
        return await operation.future

    # Subscriptions ----------------------------------------------------------------------------------------------------

    async def subscribe(self, new: Sequence[NewSubscription]) -> list[StoredSubscription | Exception]:
        """Adds subscriptions, from the next message on, and replays in the background. Returns each, or its refusal."""
        if self._erased and any(n.tenant_id in self._erased for n in new):
            raise UnknownObject("this tenant was erased")
        return await self._change_many(new, lambda good: Subscribe([_in_the_past(n) for n in good]))

    async def _change_many(self, new: Sequence[Change], operation: Callable[[list[Change]], Operation]) -> list[Any]:
        """Checks changes and carries out those that are not refused; returns the result or refusal of each."""
        results: list[Any] = []
        for start in range(0, len(new), SUBSCRIBED_AT_ONCE):
            some = new[start : start + SUBSCRIBED_AT_ONCE]
            check = partial(refusals_of, some, self._evaluations)
            refusals = await self._checked(check, _tenant_of(some[0]), [(n.query, n.dialect, n.params) for n in some])
            good = [n for n, refusal in zip(some, refusals, strict=True) if refusal is None]
            answers = iter(await self._do(operation(good)) if good else ())
            results += [next(answers) if refusal is None else refusal for refusal in refusals]
        return results

    async def _checked(self, check: Callable[[], T], tenant_id: int, queries: Sequence[tuple[str, str, Params]]) -> T:
        """Checks queries, each with dialect and parameters: short ones at once, others in threads."""
        if any(dialect == "xquery" for _, dialect, _ in queries):
            return await self._evaluations.thread.run(tenant_id, check)
        if sum(len(query) + _CHECK_CHARS * (1 + _count(params)) for query, _, params in queries) <= _CHECKED_HERE_CHARS:
            return check()
        return await self.questions.run(tenant_id, check)

    async def replace(
        self,
        subscription: StoredSubscription,
        *,
        query: str,
        namespaces: Mapping[str, str],
        dialect: str,
        delivery: DeliverySettings,
        params: Params = NO_PARAMS,
        overflow: OverflowPolicy | None = None,
        follow: bool | None = None,
        window: Window | None = None,
        urgency: Urgency | None = None,
    ) -> StoredSubscription:
        """Gives a subscription another query, delivery, policy, window or urgency, from the next message on.

        Raises QueryError if the query is refused.
        """
        if (dialect == "xquery") != (subscription.dialect == "xquery"):
            raise Conflict("a subscription cannot change to or from the dialect 'xquery'; delete it and subscribe anew")
        check = partial(refused, subscription.key, query, namespaces, dialect, params, self._evaluations, window)
        refusal = await self._checked(check, subscription.tenant_id, [(query, dialect, params)])
        if refusal is not None:
            raise refusal
        policy = subscription.overflow if overflow is None else overflow
        about = query, namespaces, cast("Dialect", dialect), delivery, policy, params, follow, window, urgency
        operation = Replace(subscription, *about)
        return cast("StoredSubscription", await self._do(operation))

    async def replace_queries(self, new: Sequence[NewQuery]) -> list[Exception | None]:
        """Gives subscriptions, none twice, other queries from the next message on; their deliveries go where they went.

        The result holds ``None`` for each, or the QueryError or UnknownObject that refused it and left it as it was.
        """
        return await self._change_many(new, ReplaceQueries)

    async def set_state(
        self, subscription: StoredSubscription, state: SubscriptionState, reason: str | None = None
    ) -> StoredSubscription:
        """Sets the state of a subscription: pauses, suspends or resumes it."""
        await self._do(SetState(subscription, state, reason))
        return await self._as_stored(subscription)

    async def _as_stored(self, subscription: StoredSubscription) -> StoredSubscription:
        result = await self._in_thread(lambda: self.store.subscription(subscription.tenant_id, subscription.key))
        if result is None or result.id != subscription.id:
            raise UnknownObject(f"there is no subscription with the key {subscription.key!r} any more")
        return result

    async def seek(self, subscription: StoredSubscription, first_seq: int | None) -> StoredSubscription:
        """Lets a subscription begin anew with a stored message, or the next one to come (``None``).

        It gets again the stored messages from there on that match it now; all before is done. Raises Conflict if it
        shares its subscriber.
        """
        return cast("StoredSubscription", await self._do(Seek(subscription, first_seq)))

    async def unsubscribe(self, subscription: StoredSubscription) -> None:
        """Deletes a subscription with its pending deliveries."""
        await self._do(Unsubscribe(subscription))

    # Queues -----------------------------------------------------------------------------------------------------------

    async def pull(
        self,
        queue_id: int,
        *,
        limit: int,
        wait: float,
        visibility: float | None = None,
        sharing: Sharing | None = None,
    ) -> list[QueuedDelivery]:
        """Leases deliveries of a queue for ``visibility`` seconds, waiting up to ``wait`` seconds for the first.

        In an ordered queue, later deliveries of a subscription are not handed out while one is leased, so that their
        order holds. When a lease ends without acknowledgement, the delivery is available again, marked as redelivered.
        Leases end with the process. Those of a shared queue, whose ``sharing`` is given, hold up no other delivery and
        outlive the process: see :mod:`twigcast.broker.queues.workers`.
        """
        if not self._running:
            return []
        if sharing is not None:
            return await self._shared.pull(queue_id, sharing, limit=limit, wait=wait, seconds=visibility)
        visibility = VISIBILITY_SECONDS if visibility is None else visibility
        return await self._leases.pull(queue_id, limit=limit, wait=wait, visibility=visibility)

    async def require_handed_out(self, queue_id: int, ids: Collection[DeliveryId]) -> None:
        """Raises UnknownDelivery for an id that no reader of the queue can have been handed out."""
        leases, shared = self._leases.of(queue_id), self._shared.of(queue_id)
        known: Container[DeliveryId] = shared.work if shared is not None else leases.before if leases else ()
        unsure = [id_ for id_ in ids if id_ not in known]
        if not unsure:
            return
        newest, since = self._queues.handed_out(queue_id)
        unfounded = await self._in_thread(partial(self.store.unfounded, queue_id, unsure, newest, since=since))
        if not unfounded:
            return
        up_to = max(newest, DeliveryId(since - 1, QueuePosition(0).subscription_id))
        last = await self._in_thread(partial(self.store.last_delivery, queue_id, up_to))
        raise UnknownDelivery.of(str(unfounded[0]), None if last is None else str(last))

    def has_handed_out(self, queue_id: int, up_to: DeliveryId) -> None:
        """Records a delivery that is sent without being leased or streamed."""
        self._queues.has_handed_out(queue_id, up_to)

    def count_overdue(self, deliveries: Sequence[QueuedDelivery]) -> None:
        """Counts those of the deliveries that are sent too late."""
        self._queues.count_overdue(deliveries)

    @contextmanager
    def sending(self, queue_id: int, deliveries: Sequence[QueuedDelivery]) -> Iterator[None]:
        """Marks deliveries of a queue as being sent, until the block ends: they are not dropped meanwhile."""
        self._sending[queue_id] = frozenset(delivery.id for delivery in deliveries)
        try:
            yield
        finally:
            del self._sending[queue_id]

    def _is_out(self, queue_id: int, id_: DeliveryId) -> bool:
        """Returns whether somebody has a delivery. Can be called from any thread."""
        shared, leases = self._shared.of(queue_id), self._leases.of(queue_id)
        return (
            (shared is not None and shared.has(id_))
            or (leases is not None and id_ in leases.before)
            or id_ <= self._queues.streamed(queue_id)
            or id_ in self._sending.get(queue_id, ())
        )

    def seek_count(self, queue_id: int) -> int:
        """Returns how often a queue has begun anew since the start.

        An acknowledgement that is passed the count of the time when its deliveries were handed out has no effect if the
        queue has begun anew since.
        """
        return self._queues.seeks.get(queue_id, 0)

    async def acknowledge(self, queue_id: int, ids: Sequence[DeliveryId], seeks: int | None = None) -> None:
        """Acknowledges deliveries that were pulled or streamed; ``seeks`` as of :meth:`seek_count`, by default now."""
        if not ids:
            return
        seeks = self.seek_count(queue_id) if seeks is None else seeks
        await self._do(AcknowledgeDeliveries(queue_id, ids, seeks))
        self._settle({queue_id: ids})

    async def acknowledge_up_to(self, queue_id: int, seq: int, seeks: int | None = None) -> None:
        """Acknowledges all deliveries of a queue up to a message; ``seeks`` as for :meth:`acknowledge`."""
        await self.acknowledge_queues({queue_id: seq}, None if seeks is None else {queue_id: seeks})

    async def acknowledge_queues(self, marks: Mapping[int, int], seeks: Mapping[int, int] | None = None) -> None:
        """Acknowledges all deliveries of many queues, each up to a message; ``seeks`` by queue."""
        seeks = {queue_id: self.seek_count(queue_id) for queue_id in marks} if seeks is None else seeks
        await self._do(AcknowledgeUpTo(marks, seeks))
        for queue_id, seq in marks.items():
            self._replays.acknowledged(queue_id)
            leases = self._leases.of(queue_id)
            if leases is not None:
                leases.settle_up_to(seq)
            self._shared.settle_up_to(queue_id, seq)

    async def release(self, queue_id: int, ids: Sequence[DeliveryId], *, delay: float = 0.0) -> None:
        """Returns leased deliveries to their queue (nack); they are handed out again after ``delay`` seconds."""
        leases = self._leases.of(queue_id)
        if leases is not None:
            self.metrics.released += leases.give_back(ids, delay)

    def work(
        self, queue_id: int, sharing: Sharing, *, in_flight_max: int, seconds: float | None = None
    ) -> AsyncGenerator[list[QueuedDelivery], None]:
        """Yields deliveries of a shared queue to one of its workers, in groups, leased for ``seconds`` each.

        The worker has no more than ``in_flight_max`` at a time that are not done.
        """
        return self._shared.take_all(queue_id, sharing, in_flight_max=in_flight_max, seconds=seconds)

    async def give_back(
        self, queue_id: int, receipts: Sequence[Receipt], *, delay: float = 0.0, reason: str | None = None
    ) -> None:
        """Ends leases of a shared queue: others get the deliveries, after ``delay`` seconds. Ended leases stay so."""
        count = await self._shared.give_back(queue_id, receipts, delay=delay, reason=reason)
        self.metrics.released += count

    async def extend(self, queue_id: int, receipts: Sequence[Receipt], seconds: float) -> list[Receipt]:
        """Lets leases of a shared queue end in ``seconds`` from now; returns those that are over already."""
        return await self._shared.extend(queue_id, receipts, seconds)

    def attempts(self, queue_id: int) -> AttemptState:
        """Returns what the workers of a shared queue have, and how often it was handed out."""
        return self._shared.state(queue_id)

    def most_attempts(self) -> int:
        """Returns the most attempts of workers at one delivery that is not done."""
        return self._shared.most_attempts()

    async def purge(self, queue: QueueState) -> int:
        """Counts all that a queue has pending as done, and returns how many deliveries that were, without new ones."""
        count = await self._in_thread(partial(self.store.pending_count, queue.id))
        subscriptions = await self._in_thread(
            partial(self.store.subscriptions, queue.tenant_id, limit=2, subscriber=queue.subscriber)
        )
        if len(subscriptions) == 1:
            # This also ends a replay, and the wait for what a suspended subscription misses.
            await self.seek(subscriptions[0], None)
        else:
            await self.acknowledge_up_to(queue.id, await self._in_thread(self.store.last_seq))
        return count

    async def skip(self, queue: QueueState, count: int, *, as_dead_letters: bool) -> int:
        """Takes the oldest pending deliveries out of the way; returns how many there were."""
        skipped = 0
        while skipped < count:
            pending = await self._read_pending(
                queue.id, limit=min(count - skipped, _SKIPPED_AT_ONCE), bytes_max=self.options.read_bytes_max
            )
            if not pending:
                break
            if as_dead_letters:
                skipped += len(await self.dead_letter([(delivery, 0, "it was skipped") for delivery in pending]))
            else:
                await self.acknowledge(queue.id, [delivery.id for delivery in pending])
                skipped += len(pending)
        if skipped:
            for listener in self._listeners:
                listener.on_skipped(queue.id)
        return skipped

    def reading(self, queue_id: int) -> QueueReading:
        """Returns who reads a queue."""
        if self._shared.of(queue_id) is not None:
            return self._shared.reading(queue_id)
        leases = self._leases.of(queue_id)
        return QueueReading(
            0 if leases is None else len(leases),
            len(self._queues.readers.get(queue_id, ())),
            self._queues.connected.get(queue_id),
        )

    def in_flight(self) -> int:
        """Returns how many deliveries are leased."""
        return self._leases.in_flight + self._shared.in_flight()

    def connected(self) -> int:
        """Returns how many queues have a reader."""
        return len(self._queues.readers)

    def read_queue(
        self, queue_id: int, after: QueuePosition | None = None, *, offer: Offer | None = None
    ) -> AsyncGenerator[list[QueuedDelivery], None]:
        """Yields the deliveries of a queue in order, in groups, from what is pending or from after a position.

        Memory is bounded: a slow reader is served from the store. With ``offer``, deliveries that come while the
        iteration waits are offered there first, which avoids waking the reader; those not taken come in the iteration.
        """
        return QueueCursor(self._queues, queue_id, after, self._marked, offer, open_=self._running).groups()

    def _marked(self, queue_id: int, deliveries: list[QueuedDelivery]) -> list[QueuedDelivery]:
        """Marks those of the deliveries read for a reader that may have been handed out before."""
        marked = self._queues.marked(queue_id, deliveries)
        leases = self._leases.of(queue_id)
        if leases is None or not leases.before:
            return marked
        before = leases.before
        return [d._replace(redelivered=True) if d.id in before and not d.redelivered else d for d in marked]

    async def dead_letter(self, deliveries: Sequence[tuple[QueuedDelivery, int, str]]) -> list[int]:
        """Turns deliveries, each with its attempts and the reason, into dead letters; returns their ids.

        One that is done by now is left alone: somebody else may have acknowledged or dead-lettered it meanwhile.
        """
        by_queue: dict[int, list[DeliveryId]] = {}
        for delivery, _, _ in deliveries:
            by_queue.setdefault(delivery.queue_id, []).append(delivery.id)

        def work(transaction: Transaction) -> list[int]:
            pending = {id_ for queue_id, ids in by_queue.items() for id_ in transaction.pending_among(queue_id, ids)}
            return transaction.dead_letter(deliveries, at=time.time(), pending=pending)

        numbers = await self.change(work)
        for delivery, _, _ in deliveries:
            self._leases.settle(delivery.queue_id, [delivery.id])
            self._shared.settle(delivery.queue_id, [delivery.id])
            self._replays.acknowledged(delivery.queue_id)
        return numbers

    async def redrive(self, dead_letter_ids: Sequence[int]) -> int:
        """Delivers dead letters again, and returns how many.

        Those that are pulled are pending again, unless their message has expired. For the others listeners are called,
        and acknowledge or dead-letter them.
        """
        returned, redriven = await self.change(
            lambda transaction: (
                transaction.return_dead_letters(dead_letter_ids),
                transaction.redrive(dead_letter_ids),
            )
        )
        self._shared.returned(returned)
        for queue_id in {queue_id for queue_id, _ in returned}:
            if (leases := self._leases.of(queue_id)) is not None:
                leases.wake()
        if redriven:
            for listener in self._listeners:
                listener.on_redriven(redriven)
        return len(returned) + len(redriven)

    # Other changes ----------------------------------------------------------------------------------------------------

    async def change(self, work: Callable[[Transaction], T]) -> T:
        """Runs ``work`` in the writing thread, in one commit with others, and returns its result.

        It is for changes that nothing in memory depends on: leases, error records, sources and their state, tokens,
        dead letters. An error in ``work`` is raised here; then nothing of it is stored, and the others are not
        affected.
        """
        return cast("T", await self._do(StoreChange(work)))

    def clock(self) -> ClockState:
        """Returns what the clock says, and whether messages expire by it."""
        return self._retention.clock.state()

    async def confirm_clock(self) -> ClockState:
        """Confirms what the clock says, for an operator: from now on messages expire by it."""
        await self.change(lambda transaction: transaction.confirm_clock(time.time()))
        await self._retention.once()
        return self.clock()

    def add_listener(self, listener: CommitListener) -> None:
        """Calls a listener after each commit from now on."""
        self._listeners.append(listener)

    # Other brokers ----------------------------------------------------------------------------------------------------

    def pass_on(
        self, accepted: Callable[[list[StoredMessage]], None], kept_above: Callable[[], int | None], times: float
    ) -> None:
        """Lets an overlay forward messages to other brokers.

        ``accepted`` is called in the writing thread with the published messages of a commit, in order, once durable.
        Messages above the number that ``kept_above`` returns may still be requested: they are kept ``times`` longer.
        """
        self._retention.retained_above = kept_above
        self._retention.kept_times = times
        self._writer.on_accepted = accepted

    def submit(self, operation: Operation) -> None:
        """Submits an operation to the writing thread. Can be called from any thread."""
        self._sequencer.submit(operation)

    @property
    def tenants(self) -> Mapping[int, Tenant]:
        """The tenants by id. Can be read from any thread; replaced as a whole when they change."""
        return self._writer.tenants

    # Threads ----------------------------------------------------------------------------------------------------------

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _read_pending(self, queue_id: int, *, by_urgency: bool = False, **bounds: Any) -> list[QueuedDelivery]:
        await self.drop_overdue(queue_id)
        read = self.store.pending_by_urgency if by_urgency else self.store.pending
        return await self._in_thread(partial(read, queue_id, **bounds))

    async def drop_overdue(self, queue_id: int) -> None:
        """Drops what is to be dropped of a queue, since it is late: done before the queue is read."""
        if queue_id in self.store.memory.dropping_queues and await self._in_thread(
            partial(self.store.has_overdue, queue_id)
        ):
            await self._drop_overdue()

    # After a commit -------------------------------------------------------------------------------------

    def _hand_over_from_thread(self, over: CommitResult) -> None:
        if over.filled:
            self.lag.filled(over.filled)
        self._loop.call_soon_threadsafe(self._hand_over, over)

    def _hand_over(self, over: CommitResult) -> None:
        """Acts on a commit: first the queues, then the listeners, then the callers that wait."""
        queues = self._queues
        if over.last_seq > queues.last_seq:
            queues.last_seq = over.last_seq
            self._replays.grown(over.last_seq)
        for queue_id, subscription_id, replay_next in over.replays:
            self._set_replay(queue_id, subscription_id, replay_next)
        if over.incomplete:
            queues.all_miss()
        for queue_id, (subscription_id, first_seq) in over.sought.items():
            queues.seek(queue_id, first_seq)
            for table in self._tables(queue_id):
                table.purge(subscription_id)
        self._settle(over.withdrawn)
        for queue_id, deliveries in over.queues.items():
            if queue_id not in over.sought:  # its readers go back to the store
                queues.hand_over(queue_id, deliveries, over.overflown.get(queue_id))
        self._subscriptions_changed(over.changed, over.removed)
        if over.pushed:
            for listener in self._listeners:
                listener.on_deliveries(over.pushed)
        self._answer(over.operations)

    def _settle(self, done: Mapping[int, Sequence[DeliveryId]]) -> None:
        """Ends the leases of deliveries that are done, by queue."""
        for queue_id, ids in done.items():
            self._leases.settle(queue_id, ids)
            self._shared.settle(queue_id, ids)
            self._replays.acknowledged(queue_id)

    def _subscriptions_changed(
        self, changed: Sequence[StoredSubscription], removed: Sequence[StoredSubscription]
    ) -> None:
        if not (changed or removed):
            return
        for subscription in changed:
            self._replays.changed(subscription)
            self._sharing_changed(subscription.queue_id, subscription.delivery.sharing)
        for subscription in removed:
            self._forget(subscription)
        for listener in self._listeners:
            listener.on_subscriptions(changed, removed)

    def _sharing_changed(self, queue_id: int, sharing: Sharing | None) -> None:
        """Ends readers of a queue that is shared from now on, or is not any more; they connect again."""
        self._shared.changed(queue_id, sharing)
        if sharing is not None:
            self._leases.close(queue_id)
        for reader in self._queues.readers.get(queue_id, ()):
            if isinstance(reader, SharedQueue) != (sharing is not None):
                reader.close()

    def _tables(self, queue_id: int) -> list[QueueLeases | SharedQueue]:
        """Returns what is known of deliveries of a queue that are leased."""
        return [table for table in (self._leases.of(queue_id), self._shared.of(queue_id)) if table is not None]

    def _forget(self, subscription: StoredSubscription) -> None:
        queue_id = subscription.queue_id
        self._replays.recheck(subscription)
        self._queues.purge(queue_id, subscription.id)
        tables = self._tables(queue_id)
        for table in tables:
            table.purge(subscription.id)
        if self._replaying.get(queue_id) == subscription.id:
            self._set_replay(queue_id, subscription.id, None)
        if tables or self._queues.knows(queue_id):
            self._begin(self._close_if_gone(subscription))

    async def _close_if_gone(self, subscription: StoredSubscription) -> None:
        """Ends the readers of a queue that was deleted with its last subscription."""
        try:
            queue = await self._in_thread(lambda: self.store.queue(subscription.tenant_id, subscription.subscriber))
        except StoreUnavailable as error:
            logger.warning("readers of queue %d go on waiting: %s", subscription.queue_id, error)
            return
        if queue is None or queue.id != subscription.queue_id:
            self._queues.close(subscription.queue_id)
            self._leases.close(subscription.queue_id)
            self._shared.close(subscription.queue_id)

    def _set_replay(self, queue_id: int, subscription_id: int, replay_next: int | None) -> None:
        if replay_next is None:
            self._replaying.pop(queue_id, None)
        else:
            self._replaying[queue_id] = subscription_id
        self._queues.set_ceiling(queue_id, replay_next)

    def _answer(self, operations: Sequence[Operation]) -> None:
        metrics, now = self.metrics, time.perf_counter()
        messages = 0
        for operation in operations:
            if operation.messages:
                messages += operation.messages
                metrics.queued_bytes -= operation.size
                self._count_out(operation)
                metrics.hand_over_seconds.observe(now - operation.since, operation.messages)
            operation.resolve()
        metrics.queued_messages -= messages
        if messages:
            longest = now - min(operation.since for operation in operations)
            self._published_per_second += 0.1 * (messages / max(longest, 1e-3) - self._published_per_second)

    def _count_out(self, operation: Operation) -> None:
        tenant_id = operation.tenant_ids[0]
        messages, size = self._waiting[tenant_id]
        if messages == operation.messages:
            del self._waiting[tenant_id]
        else:
            self._waiting[tenant_id] = messages - operation.messages, size - operation.size


def _suspend_refused(transaction: Transaction, refused: Sequence[tuple[RegisteredSubscription, TwigcastError]]) -> None:
    """Suspends stored subscriptions that the engine refuses now, since limits are lower than before."""
    now = time.time()
    for member, error in refused:
        reason = str(getattr(error, "reason", error))
        transaction.set_subscription_state(member.id, SubscriptionState.SUSPENDED, reason)
        if member.dialect == "xquery":
            transaction.begin_pause(member.id, transaction.next_seq())
    transaction.add_errors(ErrorRecord(member.id, now, f"suspended at start: {error}") for member, error in refused)


def _tenant_of(change: NewSubscription | NewQuery) -> int:
    return change.tenant_id if isinstance(change, NewSubscription) else change.subscription.tenant_id


def _count(params: Params) -> int:
    """Returns how many values parameters have."""
    return sum(len(value) if isinstance(value, list | tuple) else 1 for value in params.values())


def _in_the_past(new: NewSubscription) -> NewSubscription:
    """Returns the subscription with a start of replay that is at least 1."""
    return replace(new, replay_from=1) if new.replay_from is not None and new.replay_from < 1 else new
