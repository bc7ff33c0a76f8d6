"""Queues that are being read: live hand-over from the writing thread to readers, with the store as fallback.

A reader reads from the store until it has caught up, and from then on gets what the writing thread hands over.
Deliveries handed over while it still reads are kept in a bounded buffer, whose oldest entries are dropped first; so the
buffer always holds the end of the queue, without a gap. The reader may change over when nothing lies between what it
has read and the beginning of the buffer:

- its last read found nothing more, and nothing was dropped from the buffer since that read began, or
- the buffer begins at or before the last delivery that it has read.

Deliveries that it has read are then left out of the buffer. When the buffer of a reader that has changed over drops
something, it goes back to the store at its position. A reader joins the queue before it first reads from the store, and
the writing thread looks up readers after the commit: each delivery comes from at least one side.

While a reader that has changed over waits with an empty buffer, nothing lies between what it has read and what is
handed over: it may be offered that at once.

A queue that a replay fills has a *ceiling*: the next sequence number of replay. Only deliveries below it are
handed out, because the next delivery in order is not determined yet.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Final, Protocol, TypeVar

from twigcast.broker.metrics import Metrics
from twigcast.broker.model import DeliveryId, QueuedDelivery, QueuePosition
from twigcast.broker.options import HubOptions

T = TypeVar("T")

START: Final = DeliveryId(-1, -1)
"""The position before all deliveries."""


Offer = Callable[[Sequence[QueuedDelivery]], bool]
"""Receives new deliveries, in order, and returns whether it took them. It raises nothing."""


ReadPending = Callable[..., Awaitable[list[QueuedDelivery]]]
"""Reads from the store in a thread, with the arguments of ``Store.pending``, or of ``Store.pending_by_urgency`` and
``by_urgency``."""


class QueueReader(Protocol):
    """A reader of a queue."""

    def offer(self, deliveries: Sequence[QueuedDelivery]) -> None:
        """Offers new deliveries, in order."""

    def miss(self, up_to: DeliveryId) -> None:
        """Reports deliveries, up to this one, that may have come and are not offered."""

    def purge(self, subscription_id: int) -> None:
        """Removes the deliveries of a deleted subscription."""

    def wake(self) -> None:
        """Reports a ceiling that has moved or is gone."""

    def restart(self) -> None:
        """Starts again with the first pending delivery."""

    def close(self) -> None:
        """Reports the end of the queue or of the broker."""


class LiveQueues:
    """The queues that have readers."""

    def __init__(self, read: ReadPending, options: HubOptions, metrics: Metrics) -> None:
        self.read = read
        self.options = options
        self.metrics = metrics
        self.readers: dict[int, list[QueueReader]] = {}
        """Readers by queue. The writing thread reads it, too."""
        self.ceilings: dict[int, int] = {}
        """Ceilings by queue that a replay fills."""
        self.first_new = 0
        """The first sequence number that did not exist when the process started.

        Older messages may have been handed out before.
        """
        self.last_seq = 0
        """The last sequence number that was reported as stored."""
        self.connected: dict[int, float] = {}
        """Since when, in seconds since the epoch, each queue has always had a reader."""
        self.buffered_bytes = 0
        """Bytes in the buffers of all readers."""
        self._streamed: dict[int, DeliveryId] = {}
        self._handed_out: dict[int, DeliveryId] = {}
        """The last delivery handed out in this process, by queue."""
        self._sought: dict[int, int] = {}
        """Queues that began anew in this process, with the first message."""
        self.seeks: dict[int, int] = {}
        """How often queues have begun anew in this process."""

    # What the writing thread says

    def hand_over(self, queue_id: int, deliveries: Sequence[QueuedDelivery], overflown: DeliveryId | None) -> None:
        """Hands new deliveries to the readers of a queue, or reports that there were too many."""
        for reader in self.readers.get(queue_id, ()):
            if overflown is None:
                reader.offer(deliveries)
            else:
                reader.miss(overflown)

    def all_miss(self) -> None:
        """Reports to all readers that they may have missed deliveries."""
        everything = DeliveryId(self.last_seq + 1, 0)
        for readers in self.readers.values():
            for reader in readers:
                reader.miss(everything)

    def set_ceiling(self, queue_id: int, seq: int | None) -> None:
        """Sets the ceiling of a queue; ``None`` if there is no replay."""
        if seq is None:
            self.ceilings.pop(queue_id, None)
        else:
            self.ceilings[queue_id] = seq
        for reader in self.readers.get(queue_id, ()):
            reader.wake()

    def purge(self, queue_id: int, subscription_id: int) -> None:
        """Removes the deliveries of a deleted subscription."""
        for reader in self.readers.get(queue_id, ()):
            reader.purge(subscription_id)

    def seek(self, queue_id: int, first_seq: int) -> None:
        """Lets a queue and its readers begin anew with a message."""
        self._handed_out[queue_id] = DeliveryId(first_seq - 1, QueuePosition(0).subscription_id)
        self._sought[queue_id] = first_seq
        self.seeks[queue_id] = self.seeks.get(queue_id, 0) + 1
        for reader in self.readers.get(queue_id, ()):
            reader.restart()

    def close(self, queue_id: int) -> None:
        """Closes a deleted queue."""
        for table in (self.ceilings, self.connected, self._streamed, self._handed_out, self._sought):
            table.pop(queue_id, None)
        for reader in self.readers.pop(queue_id, ()):
            reader.close()

    def close_all(self) -> None:
        """Closes all queues, since the broker stops."""
        for queue_id in list(self.readers):
            self.close(queue_id)

    # Readers

    def join(self, queue_id: int, reader: QueueReader) -> None:
        """Adds a reader."""
        # A new list: the other thread and running loops keep the one that they have.
        self.readers[queue_id] = [*self.readers.get(queue_id, ()), reader]
        self.connected.setdefault(queue_id, time.time())

    def leave(self, queue_id: int, reader: QueueReader) -> None:
        """Removes a reader."""
        remaining = [other for other in self.readers.get(queue_id, ()) if other is not reader]
        if remaining:
            self.readers[queue_id] = remaining
        else:
            self.readers.pop(queue_id, None)
            self.connected.pop(queue_id, None)

    def knows(self, queue_id: int) -> bool:
        """Returns whether anything is kept for a queue."""
        return any(queue_id in table for table in (self.readers, self.ceilings, self._handed_out))

    def streamed(self, queue_id: int) -> DeliveryId:
        """Returns the last delivery that a reader of the queue was passed in this process."""
        return self._streamed.get(queue_id, START)

    def has_streamed(self, queue_id: int, up_to: DeliveryId) -> None:
        """Records a delivery that a reader is passed."""
        if up_to > self._streamed.get(queue_id, START):
            self._streamed[queue_id] = up_to
        self.has_handed_out(queue_id, up_to)

    def has_handed_out(self, queue_id: int, up_to: DeliveryId) -> None:
        """Records a delivery that a reader or a pull gets."""
        if up_to > self._handed_out.get(queue_id, START):
            self._handed_out[queue_id] = up_to

    def handed_out(self, queue_id: int) -> tuple[DeliveryId, int]:
        """Returns the last delivery handed out, and the first sequence number from which on that is known."""
        return self._handed_out.get(queue_id, START), self._sought.get(queue_id, self.first_new)

    def count_overdue(self, deliveries: Iterable[QueuedDelivery]) -> None:
        """Counts those of the deliveries that are handed out too late."""
        dues = [delivery.due for delivery in deliveries if delivery.due is not None]
        if dues:
            now = time.time()
            self.metrics.overdue += sum(due <= now for due in dues)

    def marked(self, queue_id: int, deliveries: Iterable[QueuedDelivery]) -> list[QueuedDelivery]:
        """Marks those of the deliveries from the store that may have been handed out before."""
        before = self.streamed(queue_id)
        return [d._replace(redelivered=True) if d.id.seq < self.first_new or d.id <= before else d for d in deliveries]


class QueueCursor:
    """A reader of one queue from a position on (``None``: the first pending delivery), for one asynchronous iteration.

    ``marked`` marks deliveries from the store. While the iteration waits, new deliveries are passed to ``offer``; those
    that it takes are left out of the iteration. Without ``open_`` the iteration is empty.
    """

    def __init__(
        self,
        queues: LiveQueues,
        queue_id: int,
        after: QueuePosition | None,
        marked: Callable[[int, list[QueuedDelivery]], list[QueuedDelivery]],
        offer: Offer | None = None,
        *,
        open_: bool = True,
    ) -> None:
        self._queues = queues
        self._queue_id = queue_id
        self._cursor = START if after is None else DeliveryId(after.seq, after.subscription_id)
        self._marked = marked
        self._offer = offer
        self._live = False
        """Whether the iteration waits for the next hand-over."""
        self._buffer: deque[QueuedDelivery] = deque()
        self._bytes = 0
        self._missed = START
        """The last delivery that was dropped or not offered."""
        self._behind = False
        self._restarts = 0
        self._closed = not open_
        self._waiting: asyncio.Future[None] | None = None

    async def groups(self) -> AsyncGenerator[list[QueuedDelivery], None]:
        """Yields the deliveries, in groups, until the queue is closed; an empty group where it begins anew."""
        queues, metrics = self._queues, self._queues.metrics
        queues.join(self._queue_id, self)
        metrics.listeners += 1
        restarts = 0
        try:
            while not self._over():
                if restarts != self._restarts:
                    restarts = self._restarts
                    yield []
                self._set_behind(True)
                async with aclosing(self._from_store()) as stored:
                    async for group in stored:
                        yield self._handing(group)
                self._set_behind(False)
                while not self._over() and self._missed <= self._cursor:
                    if self._buffer:
                        yield self._handing(self._take())
                    else:
                        self._live = True
                        await self._wait()
                        self._live = False
                metrics.fallen_behind += self._missed > self._cursor
        finally:
            self._live = False
            self._set_behind(False)
            self._clear()
            metrics.listeners -= 1
            queues.leave(self._queue_id, self)

    def _over(self) -> bool:
        return self._closed

    def _set_behind(self, behind: bool) -> None:
        self._queues.metrics.listeners_behind += behind - self._behind
        self._behind = behind

    def _handing(self, group: list[QueuedDelivery]) -> list[QueuedDelivery]:
        self._note(group)
        return group

    def _note(self, group: Sequence[QueuedDelivery]) -> None:
        self._queues.metrics.streamed += len(group)
        self._queues.count_overdue(group)
        self._queues.has_streamed(self._queue_id, group[-1].id)

    # From the store

    async def _from_store(self) -> AsyncGenerator[list[QueuedDelivery], None]:
        """Yields pending deliveries until the buffer continues them."""
        options, restarts = self._queues.options, self._restarts
        while not self._over() and restarts == self._restarts:
            # The following read sees everything committed before this, and so everything that was missed.
            ceiling = self._queues.ceilings.get(self._queue_id, math.inf)
            self._missed = START
            results = await self._queues.read(
                self._queue_id,
                after=self._position(),
                limit=options.read_deliveries_max,
                bytes_max=options.read_bytes_max,
            )
            if restarts != self._restarts:
                return
            below = [d for d in results if d.id.seq < ceiling] if ceiling != math.inf else results
            if below:
                self._cursor = below[-1].id
                yield self._marked(self._queue_id, below)
            elif ceiling != math.inf:
                if self._queues.ceilings.get(self._queue_id, math.inf) == ceiling:
                    await self._wait()
                continue
            if ceiling == math.inf and self._can_change_over(nothing_more=not below):
                return

    def _position(self) -> QueuePosition | None:
        return None if self._cursor is START else QueuePosition(self._cursor.seq, self._cursor.subscription_id)

    def _can_change_over(self, *, nothing_more: bool) -> bool:
        """Returns whether the buffer continues the reads, but for what was missed meanwhile."""
        while self._buffer and self._buffer[0].id <= self._cursor:
            self._drop_first()
            nothing_more = True
        return nothing_more

    # From the writing thread

    def offer(self, deliveries: Sequence[QueuedDelivery]) -> None:
        """Passes new deliveries on, or buffers them, dropping the oldest if there are too many."""
        if self._live and self._is_taken_at_once(deliveries):
            return
        options, queues = self._queues.options, self._queues
        cursor = self._cursor
        size = 0
        for delivery in deliveries:
            if delivery.id > cursor:
                self._buffer.append(delivery)
                size += len(delivery.body)
        self._bytes += size
        queues.buffered_bytes += size
        while self._buffer and (
            len(self._buffer) > options.listener_deliveries_max
            or self._bytes > options.listener_bytes_max
            or queues.buffered_bytes > options.listeners_bytes_max
        ):
            self._missed = max(self._missed, self._drop_first().id)
        self.wake()

    def _is_taken_at_once(self, deliveries: Sequence[QueuedDelivery]) -> bool:
        # Dropped or buffered deliveries come before.
        if self._offer is None or self._buffer or self._closed or self._missed > self._cursor:
            return False
        if not deliveries or deliveries[0].id <= self._cursor or not self._offer(deliveries):
            return False
        self._cursor = deliveries[-1].id
        self._note(deliveries)
        return True

    def miss(self, up_to: DeliveryId) -> None:
        """Goes back to the store."""
        self._clear()
        self._missed = max(self._missed, up_to)
        self.wake()

    def purge(self, subscription_id: int) -> None:
        """Removes the deliveries of a deleted subscription."""
        kept = [delivery for delivery in self._buffer if delivery.id.subscription_id != subscription_id]
        self._clear()
        self.offer(kept)

    def wake(self) -> None:
        """Wakes the iteration."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def restart(self) -> None:
        """Goes back to the store, to what is pending."""
        self._restarts += 1
        self._cursor = START
        self.miss(DeliveryId(self._queues.last_seq + 1, 0))

    def close(self) -> None:
        """Ends the iteration."""
        self._closed = True
        self.wake()

    async def _wait(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    # The buffer

    def _take(self) -> list[QueuedDelivery]:
        group = list(self._buffer)
        self._clear()
        self._cursor = group[-1].id
        return group

    def _drop_first(self) -> QueuedDelivery:
        delivery = self._buffer.popleft()
        size = len(delivery.body)
        self._bytes -= size
        self._queues.buffered_bytes -= size
        return delivery

    def _clear(self) -> None:
        self._queues.buffered_bytes -= self._bytes
        self._bytes = 0
        self._buffer.clear()
