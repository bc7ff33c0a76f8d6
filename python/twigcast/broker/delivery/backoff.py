"""Waits before new attempts: exponential back-off with full jitter, and the requests of servers.

Full jitter (a time drawn evenly between zero and the bound, which doubles with each attempt) keeps many clients of
a server that recovers from returning together. Source: M. Brooker, "Exponential Backoff And Jitter", AWS
Architecture Blog, 2015.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final

_DOUBLINGS_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class Backoff:
    """The bounds of waits.

    Args:
        first: Bound in seconds after the first failure.
        longest: Bound that no wait exceeds, in seconds.
        random: Source of the jitter; seeded in tests.
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


def parse_retry_after(value: str | None) -> float | None:
    """Returns the seconds of a ``Retry-After`` header, a number or a date; ``None`` if it is neither."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, at.timestamp() - time.time())
