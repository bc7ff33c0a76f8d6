"""Where the seeds of generated input come from.

Each run tries other input, and prints the seed with which it can be had again. With ``TWIGCAST_TEST_SEED`` set, as CI
sets it, every test takes that one: a commit is judged alike however often it is judged, and what fails there can be
repeated here.
"""

from __future__ import annotations

import os
import random

VARIABLE = "TWIGCAST_TEST_SEED"


def is_fixed() -> bool:
    """Returns whether one seed is set for all tests."""
    return VARIABLE in os.environ


def seed_or(usual: int) -> int:
    """Returns the seed that is set, or else the one that a test takes in each run."""
    return int(os.environ.get(VARIABLE, usual))


def printed_seed() -> int:
    """Returns the seed that is set, or else a new one, and prints it: pytest shows it if the test fails."""
    # Not `random` itself: Hypothesis, and tests, may have seeded it.
    seed = seed_or(random.SystemRandom().randrange(1 << 32))
    print(f"{VARIABLE}={seed}")
    return seed
