"""The schedule of all polls: one task for all sources, and a bounded number of polls at one time.

Polls are spread: each interval is drawn from around the configured one, so that sources that were registered together
drift apart. A source that fails is polled less and less often, down to once a day; one whose server asks to wait is
not polled for that time.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import random
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from twigcast.broker.broker import Broker
from twigcast.broker.delivery.http_client import HttpClient
from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.model import Source
from twigcast.broker.sources.poll import Poll, PollLimits, PollResult

_log = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 30.0
"""Time after which the list of sources is read again, if no change is reported."""
_LONGEST: Final = 86_400.0
_DOUBLINGS_MAX: Final = 12
_JITTER: Final = 0.1
_STORE_WAIT: Final = 5.0


@dataclass(frozen=True, slots=True)
class PollSettings:
    """The settings of polling.

    Args:
        concurrency: Polls at one time.
        interval_min: Least seconds between polls of a source.
        limits: Bounds of one poll.
        random: Source of the jitter; seeded in tests.
    """

    concurrency: int = 8
    interval_min: float = 10.0
    limits: PollLimits = field(default_factory=PollLimits)
    random: random.Random = field(default_factory=random.SystemRandom)


@dataclass(slots=True)
class PollCounts:
    """The counters of polling since the start."""

    polls: int = 0
    failed: int = 0
    published: int = 0


class Poller:
    """A poller of all sources, for one event loop."""

    def __init__(self, broker: Broker, http_client: HttpClient, settings: PollSettings | None = None) -> None:
        self.counts = PollCounts()
        self._broker = broker
        self._http_client = http_client
        self._settings = settings or PollSettings()
        self._sources: dict[int, Source] = {}
        self._due: list[tuple[float, int]] = []  # a heap; of a source only the entry in _due_at counts
        self._due_at: dict[int, float] = {}
        self._running: dict[int, asyncio.Task[float]] = {}
        self._begun: dict[int, float] = {}  # time of the last poll of each
        self._again: dict[int, float] = {}  # earliest time of a poll that was requested while one was running
        self._changed = asyncio.Event()
        self._next_check = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the task."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Stops at once; what was not remembered is polled again, and not published twice."""
        tasks = [*self._running.values(), *([self._task] if self._task else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def sources_changed(self) -> None:
        """Reads the list of sources again, since one was registered, changed or deleted."""
        self._next_check = 0.0
        self._changed.set()

    def poll_now(self, *, url: str | None = None, source_id: int | None = None) -> int:
        """Polls sources at once: one, or those with a URL; returns how many there are.

        Anyone may announce news of a URL, so a source is polled at most every ``interval_min`` seconds.
        """
        chosen = [
            source.id for source in self._sources.values() if source_id == source.id or (url and url == source.url)
        ]
        for result in chosen:
            earliest = 0.0 if url is None else self._begun.get(result, 0.0) + self._settings.interval_min
            if result in self._running:
                self._again[result] = earliest
            else:
                self._set_due(result, min(max(earliest, time.monotonic()), self._due_at.get(result, math.inf)))
        self._changed.set()
        return len(chosen)

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            now = time.monotonic()
            if now >= self._next_check:
                await self._check_sources()
            self._start_due()
            waits = [self._next_check - now]
            if self._due and len(self._running) < self._settings.concurrency:
                waits.append(self._due[0][0] - now)
            # Not wait_for: before Python 3.12 it may lose a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(waits))):
                    await self._changed.wait()

    async def _check_sources(self) -> None:
        """Reads the list of sources."""
        self._next_check = time.monotonic() + _CHECK_SECONDS
        try:
            stored = await asyncio.to_thread(self._broker.store.sources)
        except StoreUnavailable as error:
            _log.warning("the sources cannot be read: %s", error.reason)
            self._next_check = time.monotonic() + _STORE_WAIT
            return
        self._take(source for source in stored if source.kind != "push" and source.url and not source.paused)

    def _take(self, sources: Iterable[Source]) -> None:
        before, self._sources = self._sources, {source.id: source for source in sources}
        for gone in before.keys() - self._sources.keys():
            self._due_at.pop(gone, None)
            self._begun.pop(gone, None)
        for source in self._sources.values():
            existing = before.get(source.id)
            if existing is None:
                self._set_due(source.id, time.monotonic() + self._first_wait(source))
            elif (existing.url, existing.kind, existing.interval) != (source.url, source.kind, source.interval):
                self.poll_now(source_id=source.id)

    def _first_wait(self, source: Source) -> float:
        """Returns the seconds until the first poll: the rest of the interval when the broker stopped."""
        last = float(source.state.get("last_poll") or 0.0)
        return min(max(0.0, last + source.interval - time.time()), source.interval)

    def _set_due(self, source_id: int, at: float) -> None:
        self._due_at[source_id] = at
        heapq.heappush(self._due, (at, source_id))

    def _start_due(self) -> None:
        now = time.monotonic()
        while self._due and self._due[0][0] <= now and len(self._running) < self._settings.concurrency:
            at, source_id = heapq.heappop(self._due)
            source = self._sources.get(source_id)
            if source is None or self._due_at.get(source_id) != at or source_id in self._running:
                continue
            del self._due_at[source_id]
            self._begun[source_id] = now
            task = asyncio.get_running_loop().create_task(self._poll(source))
            self._running[source_id] = task
            task.add_done_callback(partial(self._ended, source_id))

    def _ended(self, source_id: int, task: asyncio.Task[float]) -> None:
        self._running.pop(source_id, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("polling a source failed inside the broker", exc_info=error)
        due = time.monotonic() + (task.result() if error is None else _CHECK_SECONDS)
        # Only now: a poll that becomes due during a poll is not begun.
        self._set_due(source_id, min(due, self._again.pop(source_id, math.inf)))
        self._changed.set()

    async def _poll(self, source: Source) -> float:
        """Polls a source; returns the seconds until its next poll."""
        store = self._broker.store
        stored = await asyncio.to_thread(store.source, source.tenant_id, source.name)
        if stored is None or stored.id != source.id or stored.paused or stored.kind == "push":
            return source.interval  # in case it comes back
        result = await Poll(stored, self._broker, self._http_client, self._settings.limits).run()
        self.counts.polls += 1
        self.counts.published += result.published
        self.counts.failed += result.state["last_error"] is not None
        if result.state != stored.state:
            try:
                await self._broker.change(lambda transaction: transaction.set_source_state(stored.id, result.state))
            except StoreUnavailable as error:
                _log.warning("the state of the source %r was not stored: %s", stored.name, error.reason)
        return self._wait(stored, result)

    def _wait(self, source: Source, result: PollResult) -> float:
        """Returns the seconds until the next poll of a source."""
        if result.has_more:
            return 0.0
        interval = max(source.interval, self._settings.interval_min)
        failures = int(result.state.get("failures") or 0)
        if failures:
            interval = max(interval, min(_LONGEST, interval * 2.0 ** min(failures - 1, _DOUBLINGS_MAX)))
        drawn = interval * self._settings.random.uniform(1.0 - _JITTER, 1.0 + _JITTER)
        return max(drawn, min(result.retry_after or 0.0, _LONGEST))
