"""Settings of the interpreter for a process whose main work is a broker."""

from __future__ import annotations

import gc
import sys
from typing import Final

SWITCH_SECONDS: Final = 0.0002
"""Time that a thread may keep the interpreter while another waits for it.

Event loop and writing thread wake each other thousands of times a second; with Python's 5 ms, publishing takes twice as
long.
"""

YOUNG_OBJECTS: Final = 20_000
"""Number of new objects after which cycles are searched among them.

Messages and deliveries form none, so that each search is useless: with Python's 700 they take a fifth of the processor
time.
"""


def tune() -> None:
    """Excludes the objects that exist after the start from later searches for cycles, and applies the settings."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 50)
