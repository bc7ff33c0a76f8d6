"""Timing: warm, repeated, without the garbage collector, in processor time.

What is measured is one thread that computes: on an idle machine its processor time is its wall-clock time, and on a
busy one it is not disturbed by the neighbours, which may be other points of the same sweep.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

REPETITIONS = 5

clock = time.process_time
"""The clock of all measurements, in seconds."""


def repeat(work: Callable[[], object], *, repetitions: int = REPETITIONS, per: int = 1) -> tuple[float, ...]:
    """Milliseconds that each repetition took, divided by ``per`` (the number of messages in it)."""
    samples = []
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repetitions):
            started = clock()
            work()
            samples.append((clock() - started) * 1000 / per)
    finally:
        if enabled:
            gc.enable()
    return tuple(samples)
