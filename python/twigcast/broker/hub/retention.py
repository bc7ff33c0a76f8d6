"""Retention: the removal of messages by age and size, and the clock that it goes by.

The clock of a machine can jump: a battery is empty, a virtual machine was copied, somebody mistyped a date. So what it
says is compared with what it said before, in the store, and with a clock that counts seconds and cannot be set. While
they differ, nothing expires by age, until the clock agrees again or an operator confirms it. Size is no matter of time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from twigcast.broker.hub.upkeep import every
from twigcast.broker.metrics import Metrics
from twigcast.broker.model import ClockState
from twigcast.broker.options import HubOptions
from twigcast.broker.store.store import Transaction

logger = logging.getLogger(__name__)

EXPIRED_AT_ONCE: Final = 500
"""Number of messages removed in one commit; publications go on in between."""

AWAITED_ROUNDS: Final = 60
"""With ``keep_pending``, one of so many runs begins again with the oldest message; the others go on where it ended."""

STEP_SECONDS_MIN: Final = 60.0
STEP_SECONDS_MAX: Final = 3_600.0
"""A step of the clock beyond which nothing expires: a quarter of ``retention_seconds`` within these bounds."""

MARKED_SECONDS: Final = 600.0
"""Seconds between two times that are stored, so that a step is noticed after a restart too."""


def elapsed() -> float:
    """Returns seconds from a clock that nobody sets, and that counts while the machine sleeps, if there is one."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class RetentionClock:
    """The clock of retention: ``wall`` is what the machine takes for the time, ``seconds`` cannot be set."""

    def __init__(
        self,
        retention_seconds: float | None,
        wall: Callable[[], float] = time.time,
        seconds: Callable[[], float] = elapsed,
    ) -> None:
        quarter = STEP_SECONDS_MAX if retention_seconds is None else retention_seconds / 4
        self._step_max = max(STEP_SECONDS_MIN, min(STEP_SECONDS_MAX, quarter))
        self._retention_seconds = retention_seconds
        self._wall = wall
        self._seconds = seconds
        self._reference: tuple[float, float] | None = None
        """A time that was right, and the seconds at that moment."""
        self._confirmed = 0
        self._marked = 0.0
        self._is_held = False

    def now(self, transaction: Transaction) -> float | None:
        """Returns the time by which messages expire now; ``None`` while the clock is in doubt."""
        mark, confirmed = transaction.clock()
        wall, seconds = self._wall(), self._seconds()
        if self._reference is None or confirmed != self._confirmed:
            known = mark or transaction.newest_received() or wall
            self._reference, self._confirmed, self._marked = (known, seconds), confirmed, mark
        expected = self._expected(seconds)
        is_even = abs(wall - expected) <= self._step_max
        believed = wall if is_even else expected
        if abs(believed - self._marked) >= MARKED_SECONDS:
            transaction.set_clock(believed)
            self._marked = believed
        is_held = not is_even and self._is_due(transaction, wall)
        if is_held != self._is_held:
            self._is_held = is_held
            self._log(wall - expected)
        return None if is_held else wall

    def even_now(self, transaction: Transaction) -> float | None:
        """Returns the time; ``None`` while the clock differs from what is expected of it, whatever is due."""
        self.now(transaction)
        state = self.state()
        return state.now if abs(state.now - state.expected) <= self._step_max else None

    def _is_due(self, transaction: Transaction, wall: float) -> bool:
        return self._retention_seconds is not None and transaction.is_due(wall - self._retention_seconds)

    def _expected(self, seconds: float) -> float:
        assert self._reference is not None, "it is set before"
        wall, begun = self._reference
        return wall + seconds - begun

    def _log(self, step: float) -> None:
        if not self._is_held:
            logger.warning("the clock is confirmed, or agrees again: messages expire by age")
            return
        jump = timedelta(seconds=round(abs(step)))
        logger.warning(
            "the clock says %s %s than expected: no message expires by age until it is right or confirmed "
            "(twigcast admin clock --confirm, POST /clock/confirm, or the console)",
            jump,
            "more" if step > 0 else "less",
        )

    def state(self) -> ClockState:
        """Returns what the clock says, and what was expected. Any thread may ask."""
        wall = self._wall()
        expected = wall if self._reference is None else self._expected(self._seconds())
        return ClockState(wall, expected, not self._is_held)


@dataclass(eq=False)
class Retention:
    """Removes what is over, every so often, by changes that run in the writing thread."""

    _change: Callable[[Callable[[Transaction], tuple[int, bool]]], Awaitable[tuple[int, bool]]]
    _options: HubOptions
    _metrics: Metrics
    clock: RetentionClock = field(init=False)
    retained_above: Callable[[], int | None] = field(init=False, default_factory=lambda: lambda: None)
    """Returns the sequence number above which messages are kept longer, for brokers that may request them."""
    kept_times: float = field(init=False, default=1.0)
    """Factor of the age and size up to which these are kept."""
    _runs: int = field(init=False, default=0)
    _settled_up_to: int = field(init=False, default=0)
    """With ``keep_pending``, the message up to which all that is left is awaited."""

    def __post_init__(self) -> None:
        self.clock = RetentionClock(self._options.retention_seconds)

    async def run(self) -> None:
        """Runs until cancelled."""
        await every(self._options.upkeep_seconds, self.once, logger, "retention is postponed")

    async def once(self) -> None:
        """Removes what has expired now."""
        if self._options.retention_seconds is None and self._options.retention_bytes is None:
            return
        if self._runs % AWAITED_ROUNDS == 0:
            self._settled_up_to = 0
        self._runs += 1
        more = True
        while more:
            gone, more = await self._change(self._expire)
            self._metrics.expired += gone
        state = self.clock.state()
        self._metrics.clock_step = state.now - state.expected
        self._metrics.retention_held = int(not state.is_confirmed)

    def _expire(self, transaction: Transaction) -> tuple[int, bool]:
        """Removes some messages; returns how many, and whether more may be due."""
        now, last = self.clock.now(transaction), self.retained_above()
        gone, more = self._expire_up_to(transaction, now, last, 1.0)
        if last is not None:
            further, even_more = self._expire_up_to(transaction, now, None, self.kept_times)
            gone, more = gone + further, more or even_more
        return gone, more

    def _expire_up_to(
        self, transaction: Transaction, now: float | None, last: int | None, times: float
    ) -> tuple[int, bool]:
        options = self._options
        known = now is not None and options.retention_seconds is not None
        bounds: dict[str, Any] = {
            "before": now - times * options.retention_seconds if known else None,  # type: ignore[operator]
            "bytes_max": None if options.retention_bytes is None else round(times * options.retention_bytes),
            "limit": EXPIRED_AT_ONCE,
            "at": time.time(),
            "up_to": last,
        }
        if not options.keep_pending:
            gone = transaction.expire(**bounds)
            return gone, gone > 0
        gone, go_on = transaction.expire_settled(**bounds, after=self._settled_up_to)
        if go_on is not None:
            self._settled_up_to = go_on
        return gone, go_on is not None
