"""The schedule of requests: limits in all and for each host, circuit breakers, and waits.

A unit of work is a :class:`SendJob`: small, for one host, whose ``run`` is called again and again for one bounded
turn. A job that waits, for its time, for its host or for a free slot, is an entry in a queue, no task and no memory
for bodies; so a hundred thousand subscribers that are down cost little. Hosts take turns, so that a slow one delays
only itself. Of the jobs of a host, those with the highest priority come first, as :mod:`twigcast.broker.urgency` says.

A *circuit breaker* opens after some failures of a host in a row: nothing is sent to it for a while, then one job alone
probes it. Each probe that fails makes the next wait longer.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from twigcast.broker.urgency import UrgencyQueue

_log = logging.getLogger(__name__)

_HOSTS_MAX: Final = 10_000

_CRASH_WAIT: Final = 30.0
"""Time before a job that failed by a fault of the broker is run again."""


_DOUBLINGS_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """The bounds of waits in seconds: after the first failure, and of any wait. Tests seed the source of the jitter.

    Full jitter (a time drawn evenly between zero and the bound, which doubles with each attempt) keeps many clients of
    a server that recovers from returning together. Source: M. Brooker, "Exponential Backoff And Jitter", AWS
    Architecture Blog, 2015.
    """

    first: float = 1.0
    longest: float = 3600.0
    random: random.Random = field(default_factory=random.SystemRandom)

    def bound(self, failures: int) -> float:
        """Returns the longest wait, in seconds, after so many failures in a row."""
        return min(self.longest, self.first * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))

    def wait(self, failures: int, retry_after: float | None = None) -> float:
        """Returns the seconds to wait, at least what the server requested (up to ``longest``)."""
        drawn = self.random.uniform(0.0, self.bound(failures))
        return drawn if retry_after is None else max(drawn, min(retry_after, self.longest))


@dataclass(frozen=True, slots=True)
class AttemptOutcome:
    """The outcome of one turn of a job."""

    wait: float | None = None
    """Seconds until its next turn; 0 for as soon as possible, ``None`` if it is done."""

    reached: bool | None = None
    """Whether the host worked; ``None`` if it was not asked."""


class SendJob(Protocol):
    """A job that sends to one host."""

    @property
    def host(self) -> str:
        """Its host, with scheme and port. It may be another one after a turn."""

    @property
    def priority(self) -> int:
        """Its priority among the jobs that wait for the same host."""

    async def run(self, *, probe: bool) -> AttemptOutcome:
        """Sends a bounded amount; to ``probe`` the host, one request."""


@dataclass(slots=True)
class CircuitBreaker:
    """The circuit breaker of one host, without a clock of its own."""

    failures_max: int
    backoff: Backoff
    failures: int = 0
    """Number of failures in a row."""
    opened: int = 0
    """Number of times in a row that it opened."""
    until: float = 0.0
    """Time when the host may be probed, while it is open."""
    probing: bool = False

    @property
    def is_closed(self) -> bool:
        """Returns whether requests flow."""
        return self.opened == 0

    def permits(self, now: float) -> bool:
        """Returns whether a job may run now."""
        return self.is_closed or (not self.probing and now >= self.until)

    def report(self, reached: bool, now: float) -> None:
        """Records the outcome of a request."""
        if reached:
            self.failures = self.opened = 0
            return
        self.failures += 1
        if self.failures >= self.failures_max and (self.is_closed or self.probing):
            self.opened += 1
            # Half the bound at least: a breaker that opens for no time protects nobody.
            self.until = now + self.backoff.bound(self.opened) / 2 + self.backoff.wait(self.opened) / 2


@dataclass(slots=True)
class _Host:
    name: str
    breaker: CircuitBreaker
    waiting: UrgencyQueue[SendJob] = field(default_factory=UrgencyQueue)
    active: int = 0
    is_listed: bool = False
    """Whether the host is in the list of hosts that wait for a turn."""


@dataclass(frozen=True, slots=True)
class HostLimits:
    """The limits of requests at one time, in all and to one host, and of circuit breakers: failures in a row, waits."""

    concurrency: int = 64
    concurrency_per_host: int = 8
    breaker_failures: int = 5
    breaker: Backoff = field(default_factory=lambda: Backoff(first=10.0, longest=600.0))


class HostScheduler:
    """A scheduler of jobs, for one event loop."""

    def __init__(self, limits: HostLimits | None = None, clock: Callable[[], float] | None = None) -> None:
        self._limits = limits or HostLimits()
        self._clock = clock or asyncio.get_running_loop().time
        self._hosts: dict[str, _Host] = {}
        self._listed: deque[_Host] = deque()
        self._later: list[
            tuple[float, int, SendJob | _Host]
        ] = []  # a heap: jobs that wait, and hosts with an open breaker
        self._number = 0  # tells entries of the same time apart
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[AttemptOutcome]] = set()
        self._stopping = False

    @property
    def active(self) -> int:
        """Number of running jobs."""
        return len(self._tasks)

    def open_hosts(self) -> list[str]:
        """Returns the hosts whose breaker is open."""
        return [name for name, host in self._hosts.items() if not host.breaker.is_closed]

    def add(self, job: SendJob, wait: float = 0.0) -> None:
        """Runs a job after ``wait`` seconds. A job is added once; the outcome of its turn says when it is done."""
        if wait > 0:
            self._add_later(self._clock() + wait, job)
        else:
            self._enqueue(job)
            self._fill()

    async def stop(self, grace: float) -> None:
        """Starts no further turn; waits up to ``grace`` seconds for running turns, then cancels them."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        if self._tasks:
            _, slow = await asyncio.wait(self._tasks, timeout=grace)
            for task in slow:
                task.cancel()
            await asyncio.gather(*slow, return_exceptions=True)

    # Queues ---------------------------------------------------------------------------------------------------------

    def _enqueue(self, job: SendJob) -> None:
        host = self._hosts.get(job.host)
        if host is None:
            self._forget_hosts()
            breaker = CircuitBreaker(self._limits.breaker_failures, self._limits.breaker)
            host = self._hosts[job.host] = _Host(job.host, breaker)
        host.waiting.push(job, job.priority)
        self._list(host)

    def _forget_hosts(self) -> None:
        """Bounds the number of hosts that failed once, and were not asked again."""
        if len(self._hosts) >= _HOSTS_MAX:
            idle = [host.name for host in self._hosts.values() if not (host.waiting or host.active or host.is_listed)]
            for name in idle:
                del self._hosts[name]

    def _list(self, host: _Host) -> None:
        if host.waiting and not host.is_listed and host.active < self._limits.concurrency_per_host:
            host.is_listed = True
            self._listed.append(host)

    def _fill(self) -> None:
        """Starts the turns that may start."""
        while self._listed and len(self._tasks) < self._limits.concurrency and not self._stopping:
            host = self._listed.popleft()
            host.is_listed = False
            if not host.waiting:
                continue
            if host.breaker.permits(self._clock()):
                self._start(host, host.waiting.pop(self._clock()))
                self._list(host)
            elif not host.breaker.probing:
                self._add_later(host.breaker.until, host)
                host.is_listed = True  # it comes back by itself

    def _start(self, host: _Host, job: SendJob) -> None:
        probe = not host.breaker.is_closed
        host.breaker.probing = probe
        host.active += 1
        task = asyncio.get_running_loop().create_task(job.run(probe=probe))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(host, job, probe, done))

    def _ended(self, host: _Host, job: SendJob, probe: bool, task: asyncio.Task[AttemptOutcome]) -> None:
        self._tasks.discard(task)
        host.active -= 1
        turn = AttemptOutcome() if task.cancelled() else self._turn(job, task)
        if turn.reached is not None:
            host.breaker.report(turn.reached, self._clock())
        if probe:
            host.breaker.probing = False
        if turn.wait is not None:
            self.add(job, turn.wait)
        self._list(host)
        # A host that comes again is made anew; only one with failures has to be remembered.
        if not (host.waiting or host.active or host.is_listed or host.breaker.failures):
            self._hosts.pop(host.name, None)
        self._fill()

    def _turn(self, job: SendJob, task: asyncio.Task[AttemptOutcome]) -> AttemptOutcome:
        error = task.exception()
        if error is None:
            return task.result()
        _log.error("a delivery to %s failed inside the broker; it is tried again", job.host, exc_info=error)
        return AttemptOutcome(wait=_CRASH_WAIT)

    # Waiting --------------------------------------------------------------------------------------------------------

    def _add_later(self, at: float, what: SendJob | _Host) -> None:
        self._number += 1
        heapq.heappush(self._later, (at, self._number, what))
        if self._later[0][2] is what:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._later and not self._stopping:
            delay = max(0.0, self._later[0][0] - self._clock())
            self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            _, _, what = heapq.heappop(self._later)
            if isinstance(what, _Host):
                what.is_listed = False
                self._list(what)
            else:
                self._enqueue(what)
        self._set_timer()
        self._fill()
