"""The lag of all queues, for metrics: read little by little, so that it costs the same with a million subscribers.

The writing thread says which queues got deliveries. These, and those that had something pending when they were last
read, are read again in turn, for a bounded time in each round. With many of them a round does not reach all; how old
the oldest reading may be is a metric too. After a start, the queues of the store are read once.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from twigcast.broker.model import QueueLag

ROUND_SECONDS: Final = 5.0
"""Time between two rounds."""

BUSY_SECONDS: Final = 0.25
"""Time that a round may take, and then finish what it has begun."""

_BATCH_SECONDS: Final = 0.02
"""Time that one read of the store should take; its number of queues follows from it."""

_BATCH_MAX: Final = 2_000

_SPARE: Final = 1_000
"""Number of outdated entries in a heap that are not worth making a new one."""


@dataclass(frozen=True, slots=True)
class TenantLag:
    """The lag of a tenant: the sum and the largest of what its queues have."""

    behind: int = 0
    """Queues with something pending."""
    pending: int = 0
    pending_max: int = 0
    oldest_received: float | None = None
    """When the oldest pending message was received, in seconds since the epoch."""


@dataclass(slots=True)
class _TenantQueues:
    """The queues of a tenant that are behind, and what is largest among them."""

    lags: dict[int, QueueLag] = field(default_factory=dict)
    pending: int = 0
    _oldest: list[tuple[float, int]] = field(default_factory=list)
    _most: list[tuple[int, int]] = field(default_factory=list)

    def put(self, lag: QueueLag) -> None:
        """Sets the lag of a queue."""
        self.drop(lag.queue_id)
        self.lags[lag.queue_id] = lag
        self.pending += lag.pending
        heapq.heappush(self._oldest, (lag.oldest_received, lag.queue_id))
        heapq.heappush(self._most, (-lag.pending, lag.queue_id))
        # Entries of former lags are left behind; they must not become most of a heap.
        if len(self._most) > 2 * len(self.lags) + _SPARE:
            self._oldest = [(one.oldest_received, one.queue_id) for one in self.lags.values()]
            self._most = [(-one.pending, one.queue_id) for one in self.lags.values()]
            heapq.heapify(self._oldest)
            heapq.heapify(self._most)

    def drop(self, queue_id: int) -> None:
        """Removes a queue that has nothing pending."""
        lag = self.lags.pop(queue_id, None)
        if lag is not None:
            self.pending -= lag.pending

    def summary(self) -> TenantLag:
        """Returns the sums and the largest values."""
        while self._oldest and not self._is_oldest(*self._oldest[0]):
            heapq.heappop(self._oldest)
        while self._most and not self._is_most(*self._most[0]):
            heapq.heappop(self._most)
        if not self.lags:
            return TenantLag()
        return TenantLag(len(self.lags), self.pending, -self._most[0][0], self._oldest[0][0])

    def _is_oldest(self, received: float, queue_id: int) -> bool:
        lag = self.lags.get(queue_id)
        return lag is not None and lag.oldest_received == received

    def _is_most(self, pending: int, queue_id: int) -> bool:
        lag = self.lags.get(queue_id)
        return lag is not None and lag.pending == -pending


class LagTracker:
    """The lag of all queues as it was when each was last read. Its methods can be called from any thread."""

    def __init__(
        self,
        read: Callable[[Sequence[int]], list[QueueLag]],
        queue_ids_after: Callable[[int, int], list[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._queue_ids_after = queue_ids_after
        self._clock = clock
        self._filled: set[int] = set()
        self._due: dict[int, float] = {}
        """Queues to read, in order, each with the time since which it is due."""
        self._tenants: dict[int, _TenantQueues] = {}
        self._tenant_of: dict[int, int] = {}
        """Tenants of the queues that are behind."""
        self._known_up_to: int | None = 0
        """The last queue of the store that has been read once; ``None`` when all have been."""
        self._is_turn_of_store = True
        """Whether the next turn reads queues of the store, until all have been read once. Due queues have every other
        turn."""
        self._read_since = clock()
        """The time since which the next queue has been due."""
        self._batch = 50
        self._lock = threading.Lock()
        self.tenants: Mapping[int, TenantLag] = {}
        """The lag of each tenant that had something pending since the start, after the last round."""

    def filled(self, queue_ids: Collection[int]) -> None:
        """Records queues that got deliveries."""
        with self._lock:
            self._filled.update(queue_ids)

    def age(self) -> float:
        """Returns the seconds that the picture may be behind."""
        return max(0.0, self._clock() - self._read_since)

    def furthest_behind(self, tenant_id: int, limit: int) -> list[int]:
        """Returns the queues of a tenant with the oldest pending messages, the oldest first."""
        with self._lock:
            queues = self._tenants.get(tenant_id)
            lags = [] if queues is None else list(queues.lags.values())
        oldest = heapq.nsmallest(limit, lags, key=lambda lag: (lag.oldest_received, -lag.pending))
        return [lag.queue_id for lag in oldest]

    def round(self) -> None:
        """Reads queues for a bounded time. Blocks, and must not be called by two threads at a time."""
        begun = self._clock()
        with self._lock:
            filled, self._filled = self._filled, set()
        for queue_id in filled:
            self._due.setdefault(queue_id, begun)
        again: dict[int, float] = {}
        while self._clock() - begun < BUSY_SECONDS and (some := self._next()):
            before = self._clock()
            lags = self._read(some)
            self._adapt(self._clock() - before)
            self._put(some, lags)
            again.update((lag.queue_id, before) for lag in lags)
        self._due.update(again)
        with self._lock:
            self.tenants = {tenant_id: queues.summary() for tenant_id, queues in self._tenants.items()}
        if self._known_up_to is None:
            self._read_since = min(begun, next(iter(self._due.values()), begun))

    def _next(self) -> list[int]:
        """Returns the queues that are read next; none if all were, in this round."""
        if self._known_up_to is not None and (self._is_turn_of_store or not self._due):
            some = self._queue_ids_after(self._known_up_to, self._batch)
            self._known_up_to = some[-1] if some else None
            self._is_turn_of_store = False
            if some:
                return some
        self._is_turn_of_store = True
        return list(islice(self._due, self._batch))

    def _adapt(self, seconds: float) -> None:
        if seconds < _BATCH_SECONDS / 2:
            self._batch = min(2 * self._batch, _BATCH_MAX)
        elif seconds > 2 * _BATCH_SECONDS:
            self._batch = max(self._batch // 4, 1)

    def _put(self, read: Sequence[int], lags: Sequence[QueueLag]) -> None:
        behind = {lag.queue_id: lag for lag in lags}
        with self._lock:
            for queue_id in read:
                self._due.pop(queue_id, None)
                lag = behind.get(queue_id)
                if lag is not None:
                    self._tenant_of[queue_id] = lag.tenant_id
                    self._tenants.setdefault(lag.tenant_id, _TenantQueues()).put(lag)
                elif (tenant_id := self._tenant_of.pop(queue_id, None)) is not None:
                    self._tenants[tenant_id].drop(queue_id)
