"""The activity of the last minutes, second by second, for the charts of the first page.

Once a second the counters of the hub are read, and the differences are kept for some minutes. A reading is a dozen
numbers, so it goes on whether a page is open or not, and the charts are complete from the first look on.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

SECONDS: Final = 1.0
"""Time between two readings."""

KEPT: Final = 300
"""Number of readings that are kept: five minutes."""


class Tally(NamedTuple):
    """The counters since the start of the broker, of one tenant or of all."""

    accepted: int = 0
    rejected: int = 0
    deliveries: int = 0
    """Deliveries made by matching."""
    handed_out: int = 0
    """Deliveries sent, streamed or pulled; ``-1`` for one tenant, for which it is not counted."""


@dataclass(frozen=True, slots=True)
class Latency:
    """A histogram of the time from the submission of messages to the hand-over of their deliveries."""

    bounds: tuple[float, ...] = ()
    """Upper bounds of the classes in seconds; a last class has none."""
    counts: tuple[int, ...] = ()

    def since(self, earlier: Latency) -> Latency:
        """Returns the difference to an earlier reading."""
        if len(earlier.counts) != len(self.counts):
            return self
        counts = tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        return Latency(self.bounds, counts)

    def quantile(self, share: float) -> float | None:
        """Returns the seconds that a share of the messages stayed below, interpolated; ``None`` without messages."""
        total = sum(self.counts)
        if total <= 0:
            return None
        requested = share * total
        passed, lower = 0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            if count and passed + count >= requested:
                return lower + (bound - lower) * (requested - passed) / count
            passed += count
            lower = bound
        return lower


class CounterSnapshot(NamedTuple):
    """The counters of the whole broker at one time."""

    whole: Tally = Tally()
    tenants: Mapping[int, Tally] = {}
    latency: Latency = Latency()
    queue: int = 0
    """Messages that wait to be stored."""
    streams: int = 0
    """Open streams."""
    behind: int = 0
    """Streams that do not keep up and read from the store."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The activity of about one second."""

    number: int
    """Grows by one."""
    at: float
    """Seconds since the epoch."""
    accepted: float
    """Rate per second, as the following."""
    rejected: float
    deliveries: float
    handed_out: float | None
    p50_ms: float | None
    p99_ms: float | None
    queue: int | None
    """``None`` if this tenant may not see it."""
    streams: int | None
    behind: int | None

    def as_dict(self) -> dict[str, float | int | None]:
        """Returns it as plain values, rounded."""
        return {
            name: round(value, 3) if isinstance(value, float) else value
            for name in self.__slots__
            for value in (getattr(self, name),)
        }


@dataclass(slots=True)
class Activity:
    """The readings of the last minutes."""

    clock: Callable[[], float] = time.monotonic
    _readings: deque[tuple[int, float, float, CounterSnapshot]] = field(default_factory=lambda: deque(maxlen=KEPT + 1))
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def add(self, reading: CounterSnapshot) -> None:
        """Adds a reading."""
        self._readings.append((next(self._numbers), self.clock(), time.time(), reading))

    async def follow(self, read: Callable[[], CounterSnapshot]) -> None:
        """Adds a reading each second, until cancelled."""
        while True:
            self.add(read())
            await asyncio.sleep(SECONDS)

    def samples(self, tenant_id: int | None, after: int = 0) -> list[Sample]:
        """Returns the activity of one tenant (``None``: of all), as samples with larger numbers than ``after``."""
        readings = list(self._readings)
        return [
            _sample(earlier, later, tenant_id) for earlier, later in itertools.pairwise(readings) if later[0] > after
        ]


def _sample(
    earlier: tuple[int, float, float, CounterSnapshot],
    later: tuple[int, float, float, CounterSnapshot],
    tenant_id: int | None,
) -> Sample:
    number, clock, at, now = later
    then = earlier[3]
    passed = max(clock - earlier[1], 1e-3)
    tally, before = _tally(now, tenant_id), _tally(then, tenant_id)
    rates = [max(0.0, (new - old) / passed) for new, old in zip(tally, before, strict=True)]
    latency = now.latency.since(then.latency)
    for_all = tenant_id is None
    return Sample(
        number,
        at,
        rates[0],
        rates[1],
        rates[2],
        None if tally.handed_out < 0 else rates[3],
        _milliseconds(latency.quantile(0.5)),
        _milliseconds(latency.quantile(0.99)),
        now.queue if for_all else None,
        now.streams if for_all else None,
        now.behind if for_all else None,
    )


def _tally(reading: CounterSnapshot, tenant_id: int | None) -> Tally:
    return reading.whole if tenant_id is None else reading.tenants.get(tenant_id, Tally(0, 0, 0, -1))


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
