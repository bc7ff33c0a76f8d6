"""Thousands of random networks with crashes, cut links, losses, doubles and changing wishes: nothing is ever lost.

``TWIGCAST_TEST_SEED`` and ``TWIGCAST_TEST_HISTORIES`` choose which, and how many.
"""

from __future__ import annotations

import os

import pytest

from tests.lab.overlays.many_seeds import failures
from tests.overlay.onyx.protocol.histories import run_history
from tests.seeds import seed_or

SEED = seed_or(20261128)
HISTORIES = int(os.environ.get("TWIGCAST_TEST_HISTORIES", "2000"))


@pytest.mark.slow
def test_nothing_is_lost_whatever_happens() -> None:
    # In fresh processes: a forked one would inherit what other tests have left of gRPC, whose finalizer waits for a
    # thread that only the parent has.
    assert not failures(run_history, range(SEED, SEED + HISTORIES))
