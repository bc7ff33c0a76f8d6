"""How long to wait before trying again: exponential back-off with full jitter, and what servers ask for.

Full jitter (a time drawn evenly between nothing and the bound, which doubles with each attempt) keeps many clients of
a server that comes back from coming back together. Source: M. Brooker, "Exponential Backoff And Jitter", AWS
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
    """Times to wait.

    Args:
        first: Bound in seconds after the first failure.
        longest: Bound that no wait exceeds, in seconds.
        random: Source of the jitter; seeded in tests.
    """

    first: float = 1.0
    longest: float = 3600.0
    random: random.Random = field(default_factory=random.SystemRandom)

    def bound(self, failures: int) -> float:
        """The longest wait, in seconds, after so many failures in a row."""
        return min(self.longest, self.first * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))

    def wait(self, failures: int, retry_after: float | None = None) -> float:
        """Seconds to wait, at least what the server asked for (up to ``longest``)."""
        drawn = self.random.uniform(0.0, self.bound(failures))
        return drawn if retry_after is None else max(drawn, min(retry_after, self.longest))


def parse_retry_after(value: str | None) -> float | None:
    """Seconds that a ``Retry-After`` header asks for: a number or a date; ``None`` where it says neither."""
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
