"""Timing: warm, repeated, without the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import perf_counter

REPETITIONS = 5


def repeat(work: Callable[[], object], *, repetitions: int = REPETITIONS, per: int = 1) -> tuple[float, ...]:
    """Milliseconds that each repetition took, divided by ``per`` (the number of messages in it)."""
    samples = []
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        for _ in range(repetitions):
            started = perf_counter()
            work()
            samples.append((perf_counter() - started) * 1000 / per)
    finally:
        if enabled:
            gc.enable()
    return tuple(samples)
