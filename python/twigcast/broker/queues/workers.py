"""Shared queues: several workers take the deliveries of one subscriber, each delivery by one of them at a time.

A delivery that is handed out is *leased*: nobody else gets it until its lease ends. A worker acknowledges it, asks for
more time, or gives it back, at once or after a delay. Each time that it is handed out is an *attempt*; a delivery whose
last attempt has ended without an acknowledgement becomes a dead letter. Meanwhile other deliveries go on and overtake
it.

Leases are stored before deliveries are handed out (:mod:`twigcast.broker.store.leases`), so that leases and attempts
survive when the broker is killed. In memory, leases run by a monotonic clock, so a step of the system's clock ends
none.

For each queue, memory holds all deliveries that were handed out and are not done. Deliveries that have never been
handed out are read from the store, from a *cursor* on. Deliveries before the cursor are in memory, or done.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol, cast

from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.model import (
    AttemptState,
    DeliveryId,
    QueuedDelivery,
    QueuePosition,
    QueueReading,
    Receipt,
    Sharing,
    StoredLease,
)
from twigcast.broker.queues.live import START, LiveQueues
from twigcast.broker.queues.waiting import WaitingReaders
from twigcast.broker.store.store import Store, Transaction

logger = logging.getLogger(__name__)

_GIVEN_UP_AT_ONCE: Final = 100
_AGAIN_SECONDS: Final = 1.0
"""Time after which it is tried again to turn deliveries into dead letters, if the store did not work."""


class Change(Protocol):
    """Changes the store in the writing thread, as ``Broker.change``."""

    def __call__(self, work: Callable[[Transaction], Any], /) -> Awaitable[Any]:
        """Returns the result of the change once it is durable."""


InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs what blocks in a thread."""

DeadLetterAll = Callable[[Sequence[tuple[QueuedDelivery, int, str]]], Awaitable[Sequence[int]]]
"""Turns deliveries into dead letters and returns which, as ``Broker.dead_letter``."""


@dataclass(eq=False)
class Worker:
    """A connection that takes deliveries as long as it is open."""

    in_flight_max: int
    held: int = 0
    """Deliveries that it has."""


@dataclass(slots=True)
class _Work:
    """A delivery that was handed out and is not done."""

    attempts: int = 0
    until: float = 0.0
    """When its lease or its delay ends; until then nobody gets it."""
    is_leased: bool = False
    """Whether a worker has it; otherwise it is delayed, or available."""
    worker: Worker | None = None


@dataclass(eq=False)
class SharedQueue(WaitingReaders):
    """The deliveries of one queue that its workers have or had, and a reader of it while workers wait."""

    queue_id: int
    sharing: Sharing
    work: dict[DeliveryId, _Work] = field(default_factory=dict)
    cursor: DeliveryId = START
    taking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while deliveries are chosen and leased."""
    workers: int = 0
    """Open connections and waiting pulls."""
    leases_ended: int = 0
    """Leases that ended without an acknowledgement."""
    restarts: int = 0
    choices: int = 0
    """How many deliveries were chosen by urgency."""
    _available: list[DeliveryId] = field(default_factory=list)
    """A heap of deliveries that may be handed out again, with some that are not known any more."""
    _ends: list[tuple[float, DeliveryId]] = field(default_factory=list)
    """A heap of the ends of leases and delays, with some that are outdated."""

    @property
    def is_idle(self) -> bool:
        """Returns whether nothing has to be remembered."""
        return not (self.work or self.workers)

    # Leases

    def lease(self, id_: DeliveryId, attempts: int, until: float, worker: Worker | None) -> None:
        """Marks a delivery as handed out."""
        work = self.work.setdefault(id_, _Work())
        self._leave(work)
        work.attempts, work.until, work.is_leased, work.worker = attempts, until, True, worker
        if worker is not None:
            worker.held += 1
        heapq.heappush(self._ends, (until, id_))

    def prolong(self, id_: DeliveryId, until: float) -> None:
        """Records another end of a lease."""
        self.work[id_].until = until
        heapq.heappush(self._ends, (until, id_))

    def delay(self, id_: DeliveryId, until: float) -> None:
        """Ends a lease; nobody gets the delivery before a time."""
        work = self.work[id_]
        self._leave(work)
        work.until = until
        heapq.heappush(self._ends, (until, id_))

    def offer_again(self, id_: DeliveryId) -> None:
        """Makes a delivery available."""
        work = self.work.setdefault(id_, _Work())
        self._leave(work)
        work.until = 0.0
        heapq.heappush(self._available, id_)

    def settle(self, ids: Iterable[DeliveryId]) -> None:
        """Forgets deliveries that are done, and wakes workers that had too many."""
        for id_ in ids:
            if (work := self.work.pop(id_, None)) is not None:
                self._leave(work)
        self.wake()

    def _leave(self, work: _Work) -> None:
        if work.worker is not None:
            work.worker.held -= 1
        work.worker, work.is_leased = None, False

    def current(self, receipts: Iterable[Receipt]) -> list[DeliveryId]:
        """Returns the deliveries that are leased, in the attempts that the receipts name."""
        results: list[DeliveryId] = []
        for id_, attempt in receipts:
            work = self.work.get(id_)
            if work is not None and work.is_leased and attempt in (None, work.attempts):
                results.append(id_)
        return results

    def end_overdue(self, now: float) -> list[DeliveryId]:
        """Ends leases and delays that are over; returns the deliveries whose attempts are used up."""
        used_up: list[DeliveryId] = []
        while self._ends and self._ends[0][0] <= now:
            until, id_ = heapq.heappop(self._ends)
            work = self.work.get(id_)
            if work is None or work.until != until:
                continue
            self.leases_ended += work.is_leased
            if work.attempts >= self.sharing.attempts_max:
                used_up.append(id_)
            else:
                self.offer_again(id_)
        return used_up

    def has(self, id_: DeliveryId) -> bool:
        """Returns whether a worker has a delivery. Can be called from any thread."""
        work = self.work.get(id_)
        return work is not None and work.is_leased

    def unavailable(self) -> list[DeliveryId]:
        """Returns the deliveries that nobody may be handed out now."""
        return [id_ for id_, work in self.work.items() if work.is_leased or work.until]

    def apply(self, sharing: Sharing) -> None:
        """Applies settings, which may be others than before."""
        if sharing.is_by_urgency != self.sharing.is_by_urgency:
            self.cursor = START
            self._available = sorted(self.work.keys() - set(self.unavailable()))
        self.sharing = sharing
        self.wake()

    def next_end(self) -> float | None:
        """Returns when the next lease or delay ends, or earlier."""
        return self._ends[0][0] if self._ends else None

    def take_available(self, limit: int) -> list[DeliveryId]:
        """Returns the first deliveries that may be handed out again, in order."""
        results: list[DeliveryId] = []
        while self._available and len(results) < limit:
            id_ = heapq.heappop(self._available)
            work = self.work.get(id_)
            if work is not None and not work.is_leased and not work.until and id_ not in results[-1:]:
                results.append(id_)
        return results

    def forget_order(self) -> None:
        """Forgets in which order deliveries may be handed out again, since their urgency says it."""
        self._available.clear()

    # As a reader of the queue

    def offer(self, deliveries: Sequence[QueuedDelivery]) -> None:
        """Wakes workers after new deliveries."""
        self.wake()

    def miss(self, up_to: DeliveryId) -> None:
        """Wakes workers, since deliveries may have come."""
        self.wake()

    def purge(self, subscription_id: int) -> None:
        """Forgets the deliveries of a subscription that is deleted or begins anew."""
        self.restarts += 1
        self.cursor = START
        self.settle([id_ for id_ in self.work if id_.subscription_id == subscription_id])

    def restart(self) -> None:
        """Does nothing: :meth:`purge` is called where the queue begins anew."""


@contextmanager
def _offering_again(table: SharedQueue, ids: Iterable[DeliveryId]) -> Iterator[None]:
    """Offers deliveries again if what is done meanwhile fails or is cancelled."""
    try:
        yield
    except BaseException:
        for id_ in ids:
            table.offer_again(id_)
        raise


class SharedQueues:
    """All shared queues that have workers, or deliveries that were handed out and are not done."""

    def __init__(
        self,
        store: Store,
        queues: LiveQueues,
        in_thread: InThread,
        change: Change,
        dead_letter: DeadLetterAll,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._queues = queues
        self._in_thread = in_thread
        self._change = change
        self._dead_letter = dead_letter
        self._clock = clock
        self._wall = wall
        self._tables: dict[int, SharedQueue] = {}

    def load(self, leases: Iterable[StoredLease], sharing: Callable[[Collection[int]], dict[int, Sharing]]) -> None:
        """Takes over the leases of the process before."""
        stored: dict[int, list[StoredLease]] = {}
        for lease in leases:
            stored.setdefault(lease.queue_id, []).append(lease)
        now, wall = self._clock(), self._wall()
        for queue_id, settings in sharing(list(stored)).items():
            table = self._tables[queue_id] = SharedQueue(queue_id, settings)
            for lease in stored[queue_id]:
                # Whatever the system's clock has done, a lease lasts no longer than it was given.
                left = min(max(lease.until - wall, 0.0), lease.seconds)
                table.lease(lease.id, lease.attempts, now + left, None)
                if not lease.is_held:
                    table.delay(lease.id, now + left)

    def of(self, queue_id: int) -> SharedQueue | None:
        """Returns what is known of a queue, if there is anything."""
        return self._tables.get(queue_id)

    def in_flight(self) -> int:
        """Returns how many deliveries workers have, or are delayed."""
        return sum(work.until > 0 for table in self._tables.values() for work in table.work.values())

    def state(self, queue_id: int) -> AttemptState:
        """Returns what the workers of a queue have."""
        table, now = self._tables.get(queue_id), self._clock()
        if table is None:
            return AttemptState(0, 0, None)
        delayed = [work.until for work in table.work.values() if not work.is_leased and work.until > now]
        return AttemptState(
            sum(work.until > 0 for work in table.work.values()),
            max((work.attempts for work in table.work.values()), default=0),
            self._wall() + min(delayed) - now if delayed else None,
        )

    def most_attempts(self) -> int:
        """Returns the most attempts at one delivery that is not done."""
        return max((work.attempts for table in self._tables.values() for work in table.work.values()), default=0)

    def reading(self, queue_id: int) -> QueueReading:
        """Returns who takes deliveries of a queue."""
        table = self._tables.get(queue_id)
        workers = 0 if table is None else table.workers
        return QueueReading(self.state(queue_id).in_flight, workers, self._queues.connected.get(queue_id))

    def settle(self, queue_id: int, ids: Iterable[DeliveryId]) -> None:
        """Records deliveries that are done."""
        if (table := self._tables.get(queue_id)) is not None:
            table.settle(ids)
            self._drop_idle(table)

    def settle_up_to(self, queue_id: int, seq: int) -> None:
        """Settles all deliveries up to a message."""
        if (table := self._tables.get(queue_id)) is not None:
            self.settle(queue_id, [id_ for id_ in table.work if id_.seq <= seq])

    def close(self, queue_id: int) -> None:
        """Ends the workers of a queue that is deleted, or not shared any more."""
        if (table := self._tables.pop(queue_id, None)) is not None:
            table.close()

    def close_all(self) -> None:
        """Ends all workers, since the broker stops."""
        for table in self._tables.values():
            table.close()

    def changed(self, queue_id: int, sharing: Sharing | None) -> None:
        """Applies settings of a queue that may have changed."""
        table = self._tables.get(queue_id)
        if table is not None and sharing is None:
            self.close(queue_id)
        elif table is not None and sharing is not None:
            table.apply(sharing)

    def returned(self, deliveries: Iterable[tuple[int, DeliveryId]]) -> None:
        """Makes deliveries available that were dead letters, and are pending again."""
        for queue_id, id_ in deliveries:
            if (table := self._tables.get(queue_id)) is not None:
                table.offer_again(id_)
                table.wake()

    # Taking

    async def pull(
        self, queue_id: int, sharing: Sharing, *, limit: int, wait: float, seconds: float | None
    ) -> list[QueuedDelivery]:
        """Leases up to ``limit`` deliveries; waits up to ``wait`` seconds for the first one."""
        table = self._begin(queue_id, sharing)
        try:
            return await self._wait_and_take(table, limit, self._clock() + wait, seconds, None)
        finally:
            self._end(table)

    async def take_all(
        self, queue_id: int, sharing: Sharing, *, in_flight_max: int, seconds: float | None
    ) -> AsyncGenerator[list[QueuedDelivery], None]:
        """Yields deliveries in groups, as long as the worker has fewer than ``in_flight_max`` that are not done."""
        table, worker = self._begin(queue_id, sharing), Worker(in_flight_max)
        try:
            while not table.closed:
                group = await self._wait_and_take(
                    table, self._queues.options.read_deliveries_max, None, seconds, worker
                )
                if group:
                    self._queues.metrics.streamed += len(group)
                    yield group
        finally:
            # What it has stays leased: it may be at work on it, and acknowledge it over another connection.
            self._end(table)

    def _begin(self, queue_id: int, sharing: Sharing) -> SharedQueue:
        table = self._tables.get(queue_id)
        if table is None:
            table = self._tables[queue_id] = SharedQueue(queue_id, sharing)
        table.workers += 1
        if table.workers == 1:
            self._queues.join(queue_id, table)
        return table

    def _end(self, table: SharedQueue) -> None:
        table.workers -= 1
        if not table.workers:
            self._queues.leave(table.queue_id, table)
        self._drop_idle(table)

    def _drop_idle(self, table: SharedQueue) -> None:
        if table.is_idle and self._tables.get(table.queue_id) is table:
            del self._tables[table.queue_id]

    async def _wait_and_take(
        self, table: SharedQueue, limit: int, deadline: float | None, seconds: float | None, worker: Worker | None
    ) -> list[QueuedDelivery]:
        while not table.closed:
            ticket = table.ticket()
            try:
                if worker is not None and worker.held >= worker.in_flight_max:
                    async with table.taking:
                        await self._end_overdue(table)
                free = limit if worker is None else min(limit, worker.in_flight_max - worker.held)
                taken = await self._take(table, free, seconds, worker) if free > 0 else []
                if taken or not await table.wait(ticket, self._clock, deadline):
                    return taken
            finally:
                table.cancel(ticket)
        return []

    async def _take(
        self, table: SharedQueue, limit: int, seconds: float | None, worker: Worker | None
    ) -> list[QueuedDelivery]:
        """Leases deliveries that are available now. A worker that goes away meanwhile gives them back."""
        taking = asyncio.ensure_future(self._take_alone(table, limit, seconds, worker))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(lambda done: self._give_back_taken(table, done))
            raise

    def _give_back_taken(self, table: SharedQueue, taking: asyncio.Future[list[QueuedDelivery]]) -> None:
        if taking.cancelled() or taking.exception() is not None:
            return
        for delivery in taking.result():
            if table.current([Receipt(delivery.id, delivery.attempt)]):
                table.work[delivery.id].attempts -= 1
                table.offer_again(delivery.id)
        table.wake()

    async def _take_alone(
        self, table: SharedQueue, limit: int, seconds: float | None, worker: Worker | None
    ) -> list[QueuedDelivery]:
        async with table.taking:
            await self._end_overdue(table)
            if table.sharing.is_by_urgency:
                chosen = await self._most_urgent(table, limit)
            else:
                chosen = await self._available(table, limit)
                chosen += await self._fresh(table, limit - len(chosen))
            if not chosen:
                return []
            seconds = table.sharing.lease_seconds if seconds is None else seconds
            known = table.work
            attempts = {d.id: known[d.id].attempts + 1 if d.id in known else 1 for d in chosen}
            seeks = self._queues.seeks.get(table.queue_id, 0)
            pending = await self._store_leases(table, attempts, seconds)
            if seeks != self._queues.seeks.get(table.queue_id, 0):
                return []
            end = self._clock() + seconds
            taken: list[QueuedDelivery] = []
            for delivery in self._queues.marked(table.queue_id, chosen):
                if delivery.id not in pending:
                    table.settle([delivery.id])
                    continue
                count = attempts[delivery.id]
                table.lease(delivery.id, count, end, worker)
                taken.append(delivery._replace(attempt=count, redelivered=delivery.redelivered or count > 1))
            if taken:
                self._queues.has_handed_out(table.queue_id, max(delivery.id for delivery in taken))
            if worker is None:
                self._queues.metrics.leased += len(taken)
            self._queues.count_overdue(taken)
            return taken

    async def _store_leases(
        self, table: SharedQueue, attempts: dict[DeliveryId, int], seconds: float
    ) -> set[DeliveryId]:
        """Stores leases, and returns those of the deliveries that are still pending."""
        until = self._wall() + seconds
        # None is handed out before, and the cursor may have passed some.
        with _offering_again(table, attempts):
            stored = await self._change(
                lambda transaction: transaction.lease(table.queue_id, attempts, until=until, seconds=seconds)
            )
        return cast("set[DeliveryId]", stored)

    async def _available(self, table: SharedQueue, limit: int) -> list[QueuedDelivery]:
        """Returns the first deliveries that may be handed out again; none twice."""
        again = table.take_available(limit)
        if not again:
            return []
        with _offering_again(table, again):
            found, pending = await self._still_pending(table.queue_id, again)
        read = {delivery.id for delivery in found}
        for id_ in again:
            if id_ not in pending:
                table.settle([id_])
            elif id_ not in read:
                table.offer_again(id_)
        return [delivery for delivery in found if delivery.id in table.work]  # which a seek may have emptied

    async def _fresh(self, table: SharedQueue, limit: int) -> list[QueuedDelivery]:
        """Returns deliveries that nobody had, in order."""
        options = self._queues.options
        limit = min(limit, options.leases_max - len(table.work))
        chosen: list[QueuedDelivery] = []
        while len(chosen) < limit:
            # The following read sees everything that was committed before this.
            ceiling = self._queues.ceilings.get(table.queue_id, math.inf)
            after = None if table.cursor is START else QueuePosition(*table.cursor)
            restarts = table.restarts
            found = await self._queues.read(
                table.queue_id, after=after, limit=limit - len(chosen), bytes_max=options.read_bytes_max
            )
            below = [delivery for delivery in found if delivery.id.seq < ceiling]
            if not below or restarts != table.restarts:
                return [] if restarts != table.restarts else chosen
            table.cursor = below[-1].id
            chosen += [delivery for delivery in below if delivery.id not in table.work]
            if len(chosen) == len(below):
                break  # none of them was known: there are no more, or these are enough bytes
        return chosen

    async def _most_urgent(self, table: SharedQueue, limit: int) -> list[QueuedDelivery]:
        """Returns the most urgent deliveries, whether somebody had them before or not."""
        options = self._queues.options
        table.forget_order()
        unavailable = table.unavailable()
        limit = min(limit, options.leases_max - len(unavailable))
        if limit <= 0:
            return []
        restarts = table.restarts
        chosen = await self._queues.read(
            table.queue_id,
            by_urgency=True,
            limit=limit,
            bytes_max=options.read_bytes_max,
            without=unavailable,
            choices=table.choices,
        )
        table.choices += len(chosen)
        return [] if restarts != table.restarts else chosen

    async def _still_pending(
        self, queue_id: int, ids: Collection[DeliveryId]
    ) -> tuple[list[QueuedDelivery], set[DeliveryId]]:
        read = partial(self._store.still_pending, queue_id, ids, bytes_max=self._queues.options.read_bytes_max)
        return cast("tuple[list[QueuedDelivery], set[DeliveryId]]", await self._in_thread(read))

    # What workers say

    async def extend(self, queue_id: int, receipts: Sequence[Receipt], seconds: float) -> list[Receipt]:
        """Lets leases end in ``seconds`` from now; returns those that were over, or another worker's."""
        table = self._tables.get(queue_id)
        if table is None:
            return list(receipts)
        current = set(table.current(receipts))
        end, until = self._clock() + seconds, self._wall() + seconds
        for id_ in current:
            table.prolong(id_, end)
        stored = [StoredLease(queue_id, id_, table.work[id_].attempts, until, seconds) for id_ in current]
        if stored:
            await self._change(lambda transaction: transaction.change_leases(stored))
        return [receipt for receipt in receipts if not table.current([receipt])]

    async def give_back(
        self, queue_id: int, receipts: Sequence[Receipt], *, delay: float, reason: str | None = None
    ) -> int:
        """Ends leases: others get the deliveries after a delay, or they become dead letters after the last attempt."""
        table = self._tables.get(queue_id)
        if table is None:
            return 0
        current = table.current(receipts)
        end, until = self._clock() + delay, self._wall() + delay
        used_up: list[DeliveryId] = []
        stored: list[StoredLease] = []
        for id_ in current:
            attempts = table.work[id_].attempts
            if attempts >= table.sharing.attempts_max:
                table.delay(id_, end)
                used_up.append(id_)
                continue
            stored.append(StoredLease(queue_id, id_, attempts, until, delay, is_held=False))
            if delay > 0:
                table.delay(id_, end)
            else:
                table.offer_again(id_)
        if stored:
            await self._change(lambda transaction: transaction.change_leases(stored))
        await self._give_up_used_up(table, used_up, reason or "given back")
        table.wake()
        return len(current)

    # Ends of leases

    async def tend(self) -> None:
        """Ends the leases that are over, also where no worker waits."""
        now = self._clock()
        for table in list(self._tables.values()):
            end = table.next_end()
            if end is not None and end <= now:
                async with table.taking:
                    await self._end_overdue(table)
                table.wake()
                self._drop_idle(table)

    async def _end_overdue(self, table: SharedQueue) -> None:
        before = table.leases_ended
        used_up = table.end_overdue(self._clock())
        self._queues.metrics.leases_ended += table.leases_ended - before
        await self._give_up_used_up(table, used_up, "no worker acknowledged it in time")

    async def _give_up_used_up(self, table: SharedQueue, ids: Sequence[DeliveryId], reason: str) -> None:
        """Turns deliveries into dead letters. If the store does not work, it is tried again later."""
        for start in range(0, len(ids), _GIVEN_UP_AT_ONCE):
            some = ids[start : start + _GIVEN_UP_AT_ONCE]
            try:
                await self._give_up_some(table, some, reason)
            except StoreUnavailable as error:
                logger.warning("deliveries of queue %d become dead letters later: %s", table.queue_id, error)
                for id_ in ids[start:]:
                    if id_ in table.work:
                        table.delay(id_, self._clock() + _AGAIN_SECONDS)
                return

    async def _give_up_some(self, table: SharedQueue, ids: Sequence[DeliveryId], reason: str) -> None:
        left = list(ids)
        while left:
            found, pending = await self._still_pending(table.queue_id, left)
            table.settle(id_ for id_ in left if id_ not in pending)
            if not found:
                return
            letters = [
                (delivery, table.work[delivery.id].attempts, f"{reason}, in the last of its attempts")
                for delivery in found
                if delivery.id in table.work
            ]
            if letters:
                # Both the worker and the end of its lease may say so: only one of them makes a dead letter.
                moved = await self._dead_letter(letters)
                self._queues.metrics.attempts_used_up += len(moved)
            done = {delivery.id for delivery in found}
            left = [id_ for id_ in left if id_ in pending and id_ not in done]
