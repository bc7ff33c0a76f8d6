"""Timing: warm, repeated in turn, without the garbage collector, in processor time.

What is measured is one thread that computes: on an idle machine its processor time is its wall-clock time, and on a
busy one it is hardly disturbed by the neighbours, which may be other points of the same sweep. Neighbours still share
caches and cores; so series that are compared take turns, and have the same neighbours.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

REPETITIONS = 5

clock = time.process_time
"""The clock of all measurements, in seconds."""


def repeat(work: Callable[[], object], *, repetitions: int = REPETITIONS, per: int = 1) -> tuple[float, ...]:
    """Returns the milliseconds that each repetition took, divided by ``per`` (the number of messages in it)."""
    return in_turn([work], repetitions=repetitions, per=per)[0]


def in_turn(
    works: Sequence[Callable[[], object]], *, repetitions: int = REPETITIONS, per: int = 1
) -> list[tuple[float, ...]]:
    """Measures several by turns: the first repetition of each, then the second, and so on.

    Each has a pass that is not timed before every one that is: the others have filled the caches with theirs.
    """
    samples: list[list[float]] = [[] for _ in works]
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(repetitions):
            for own, work in zip(samples, works, strict=True):
                if len(works) > 1:
                    work()
                started = clock()
                work()
                own.append((clock() - started) * 1000 / per)
    finally:
        if enabled:
            gc.enable()
    return list(map(tuple, samples))
