"""Settings of the interpreter, for a process whose main work is a broker."""

from __future__ import annotations

import gc
import sys
from typing import Final

SWITCH_SECONDS: Final = 0.0002
"""How long a thread may keep the interpreter while another waits for it. Event loop and writing thread wake each other
thousands of times a second; with Python's 5 ms, publishing takes twice as long."""

YOUNG_OBJECTS: Final = 20_000
"""Objects that may come into being before cycles are looked for among them. Messages and deliveries form none, so that
each look is for nothing: with Python's 700 they take a fifth of the processor time."""


def tune() -> None:
    """Settle down after the start: what is there now stays, and is not looked through again."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 50)
