"""Readers of a queue that wait for its next event, or for the end of a lease."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(eq=False)
class WaitingReaders(ABC):
    """The readers of one queue that wait."""

    closed: bool = field(default=False, init=False)
    _waiting: list[asyncio.Future[None]] = field(default_factory=list, init=False)

    @abstractmethod
    def next_end(self) -> float | None:
        """Returns the time when the next lease or delay ends."""

    def wake(self) -> None:
        """Wakes those that wait."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Ends the waits, since the queue or the broker ends."""
        self.closed = True
        self.wake()

    def ticket(self) -> asyncio.Future[None]:
        """Returns a future that is done at the next event."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        return future

    def cancel(self, ticket: asyncio.Future[None]) -> None:
        """Cancels a future of :meth:`ticket`."""
        ticket.cancel()
        if ticket in self._waiting:
            self._waiting.remove(ticket)

    async def wait(self, ticket: asyncio.Future[None], clock: Callable[[], float], deadline: float | None) -> bool:
        """Waits until reading again may help; returns whether there is time left for it."""
        now = clock()
        if deadline is not None and now >= deadline:
            return False
        times = [time for time in (deadline, self.next_end()) if time is not None]
        await asyncio.wait([ticket], timeout=max(min(times) - now, 0.0) if times else None)
        return True
