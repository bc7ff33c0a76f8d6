"""Pulling: deliveries are leased for a while, and come back unless they are acknowledged.

Within a subscription order holds: while one of its deliveries is leased, or released with a delay, later ones are not
handed out. Leases are kept in memory and run by a monotonic clock, so that a step of the system's clock ends none.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

from twigcast.broker.model import DeliveryId, QueuedDelivery
from twigcast.broker.queues.live import LiveQueues
from twigcast.broker.queues.waiting import WaitingReaders

_FORGOTTEN_CHECK = 1_000
"""Number of recorded deliveries from which those that are no longer pending are removed."""


class QueueLeases(WaitingReaders):
    """The leases of one queue, and a reader of it while a pull waits.

    ``changed`` is called with how many leases came; the number is negative if they ended.
    """

    def __init__(self, clock: Callable[[], float], changed: Callable[[int], None] = lambda change: None) -> None:
        super().__init__()
        self._clock = clock
        self._changed = changed
        self._until: dict[DeliveryId, float] = {}
        """Time when a delivery that is leased, or released with a delay, is available again."""
        self._blocked: Counter[int] = Counter()
        """Number of those deliveries of each subscription."""
        self.before: set[DeliveryId] = set()
        """Deliveries that were leased before and are not acknowledged."""
        self.pulls = 0
        """Number of running pulls."""
        self.reading = asyncio.Lock()
        self._settled: set[DeliveryId] = set()
        """Deliveries acknowledged during a read, which may still return them."""

    def __len__(self) -> int:
        return len(self._until)

    @property
    def idle(self) -> bool:
        """Returns whether nothing has to be remembered."""
        return not (self._until or self.before or self.pulls)

    @property
    def blocked(self) -> frozenset[int]:
        """The subscriptions whose deliveries must not be handed out."""
        return frozenset(self._blocked)

    def end_overdue(self) -> None:
        """Ends overdue leases and delays."""
        now = self._clock()
        self._unblock([number for number, until in self._until.items() if until <= now])

    def end_all(self) -> None:
        """Ends all leases and delays."""
        self._unblock(list(self._until))

    def next_end(self) -> float | None:
        """Returns the time when the next lease or delay ends."""
        return min(self._until.values(), default=None)

    def begin_reading(self) -> None:
        """Begins a read, which may return deliveries that are acknowledged from now on."""
        self._settled.clear()

    def lease(self, results: Iterable[QueuedDelivery], visibility: float) -> list[QueuedDelivery]:
        """Leases those of the deliveries read that are still available."""
        until = self._clock() + visibility
        blocked = self.blocked
        leased = []
        for delivery in results:
            number = delivery.id
            if number in self._settled or number.subscription_id in blocked:
                continue
            if number in self.before and not delivery.redelivered:
                delivery = delivery._replace(redelivered=True)
            leased.append(delivery)
            self._changed(number not in self._until)
            self._until[number] = until
            self._blocked[number.subscription_id] += 1
            self.before.add(number)
        return leased

    def settle(self, ids: Collection[DeliveryId]) -> None:
        """Records acknowledged deliveries."""
        if self.reading.locked():
            self._settled.update(ids)
        self.before.difference_update(ids)
        self._unblock(ids)
        self.wake()

    def settle_up_to(self, seq: int) -> None:
        """Records the acknowledgement of all deliveries up to this message."""
        self.settle([number for number in self.before if number.seq <= seq])

    def give_back(self, ids: Iterable[DeliveryId], delay: float) -> int:
        """Makes leased deliveries available again, now or later; returns how many were leased."""
        leased = [number for number in ids if number in self._until]
        if delay > 0:
            until = self._clock() + delay
            self._until.update((number, until) for number in leased)
        else:
            self._unblock(leased)
        self.wake()
        return len(leased)

    def _unblock(self, ids: Iterable[DeliveryId]) -> None:
        for number in ids:
            if self._until.pop(number, None) is not None:
                self._changed(-1)
                self._blocked[number.subscription_id] -= 1
                if not self._blocked[number.subscription_id]:
                    del self._blocked[number.subscription_id]

    def forget_gone(self, first_pending: DeliveryId | None) -> None:
        """Removes deliveries that were leased before and are no longer pending, since retention removes some."""
        if len(self.before) > _FORGOTTEN_CHECK:
            self.before = {n for n in self.before if first_pending is not None and n >= first_pending}

    # As a reader of the queue

    def offer(self, deliveries: Sequence[QueuedDelivery]) -> None:
        """Wakes waiting pulls after new deliveries."""
        self.wake()

    def miss(self, up_to: DeliveryId) -> None:
        """Wakes waiting pulls, since deliveries may have come."""
        self.wake()

    def purge(self, subscription_id: int) -> None:
        """Removes the leases of a deleted subscription."""
        self._unblock([number for number in self._until if number.subscription_id == subscription_id])
        self.before = {number for number in self.before if number.subscription_id != subscription_id}
        self.wake()

    def restart(self) -> None:
        """Wakes waiting pulls, since the queue begins anew."""
        self.wake()


class Leases:
    """The leases of all queues."""

    def __init__(self, queues: LiveQueues, clock: Callable[[], float] = time.monotonic) -> None:
        self._queues = queues
        self._clock = clock
        self._tables: dict[int, QueueLeases] = {}
        self.in_flight = 0
        """Deliveries that are leased, or released with a delay."""

    def of(self, queue_id: int) -> QueueLeases | None:
        """Returns the leases of a queue, if there are any."""
        return self._tables.get(queue_id)

    def _count(self, change: int) -> None:
        self.in_flight += change

    def settle(self, queue_id: int, ids: Collection[DeliveryId]) -> None:
        """Records acknowledged deliveries of a queue."""
        if (table := self._tables.get(queue_id)) is not None:
            table.settle(ids)

    def close(self, queue_id: int) -> None:
        """Closes a deleted queue."""
        table = self._tables.pop(queue_id, None)
        if table is not None:
            table.end_all()

    async def pull(self, queue_id: int, *, limit: int, wait: float, visibility: float) -> list[QueuedDelivery]:
        """Leases up to ``limit`` deliveries for ``visibility`` seconds; waits up to ``wait`` seconds for the first."""
        table = self._tables.get(queue_id)
        if table is None:
            table = self._tables[queue_id] = QueueLeases(self._clock, self._count)
        self._begin(queue_id, table)
        deadline = self._clock() + wait
        try:
            while True:
                ticket = table.ticket()
                try:
                    leased = await self._lease(queue_id, table, limit, visibility)
                    if leased or table.closed or not await table.wait(ticket, self._clock, deadline):
                        return leased
                finally:
                    table.cancel(ticket)
        finally:
            self._end(queue_id, table)

    def _begin(self, queue_id: int, table: QueueLeases) -> None:
        table.pulls += 1
        if table.pulls == 1:
            self._queues.join(queue_id, table)

    def _end(self, queue_id: int, table: QueueLeases) -> None:
        table.pulls -= 1
        if not table.pulls:
            self._queues.leave(queue_id, table)
            if table.idle and self._tables.get(queue_id) is table:
                del self._tables[queue_id]

    async def _lease(self, queue_id: int, table: QueueLeases, limit: int, visibility: float) -> list[QueuedDelivery]:
        options = self._queues.options
        async with table.reading:
            table.end_overdue()
            limit = min(limit, options.leases_max - len(table))
            if limit <= 0 or table.closed:
                return []
            table.begin_reading()
            blocked = table.blocked
            # The following read sees everything that was committed before this.
            ceiling = self._queues.ceilings.get(queue_id)
            results = await self._queues.read(
                queue_id, limit=limit, bytes_max=options.read_bytes_max, skip_subscriptions=blocked
            )
            if not blocked:
                table.forget_gone(results[0].id if results else None)
            if ceiling is not None:
                results = [delivery for delivery in results if delivery.id.seq < ceiling]
            leased = table.lease(self._queues.marked(queue_id, results), visibility)
            if leased:
                self._queues.has_handed_out(queue_id, leased[-1].id)
        self._queues.metrics.leased += len(leased)
        self._queues.count_overdue(leased)
        return leased
