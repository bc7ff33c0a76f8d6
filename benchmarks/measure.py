"""Time, and E: what ``pyexpat`` needs, with no handlers set, for the same bytes on the same core in the same run."""

from __future__ import annotations

import ctypes
import gc
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pyexpat import ParserCreate
from statistics import median
from typing import Any

Row = dict[str, Any]
"""One line of a table: column to value."""


@dataclass(frozen=True)
class Timing:
    """Processor seconds of several rounds over the same work."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one, which is what to quote."""
        return median(self.seconds)

    @property
    def best(self) -> float:
        """The smallest one."""
        return min(self.seconds)


def parse_with_expat(messages: Sequence[bytes]) -> None:
    """The work that E is the time of."""
    for message in messages:
        ParserCreate().Parse(message, True)


def side_by_side(rounds: int, *works: Callable[[], object]) -> list[Timing]:
    """Time several works in turn, A B A B ..., so that a change of the machine's speed meets them all.

    Processor time of this thread is counted, not the clock's, since the machine may be shared; all works are single-
    threaded. Each work runs once before, uncounted.
    """
    for work in works:
        work()
    seconds: list[list[float]] = [[] for _ in works]
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for work, list_ in zip(works, seconds, strict=True):
                start = time.thread_time()
                work()
                list_.append(time.thread_time() - start)
    finally:
        gc.enable()
    return [Timing(tuple(list_)) for list_ in seconds]


def once(work: Callable[[], object]) -> float:
    """Processor seconds of work that can be done only once."""
    start = time.thread_time()
    work()
    return time.thread_time() - start


def unit_of(messages: Sequence[bytes], rounds: int = 5) -> float:
    """E of these messages: seconds for all of them."""
    [timing] = side_by_side(rounds, lambda: parse_with_expat(messages))
    return timing.median


def resident_bytes() -> int:
    """Memory that this process holds."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


_MALLOC_INFO = [
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
]


class _MallocInfo(ctypes.Structure):
    """What ``mallinfo2`` of glibc returns."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _MALLOC_INFO)


def allocated_bytes() -> int | None:
    """Memory that the C library has given out, and nobody given back; ``None`` where it does not tell.

    Unlike :func:`resident_bytes` it is exact also where earlier work has left memory behind.
    """
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    mallinfo.restype = _MallocInfo
    gc.collect()
    usage = mallinfo()
    return int(usage.uordblks) + int(usage.hblkhd)
