"""Thousands of random networks with crashes, cut links, losses, doubles and changing wishes: nothing is ever lost.

``TWIGCAST_SEED`` and ``TWIGCAST_HISTORIES`` choose which, and how many.
"""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor

from tests.overlay.onyx.protocol.histories import run_history

SEED = int(os.environ.get("TWIGCAST_SEED", "20261128"))
HISTORIES = int(os.environ.get("TWIGCAST_HISTORIES", "300"))


def test_nothing_is_lost_whatever_happens() -> None:
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(run_history, range(SEED, SEED + HISTORIES), chunksize=10)
        violations = [violation for some in found for violation in some]
    assert not violations, "\n".join(violations[:20])
