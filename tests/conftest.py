"""What all tests share: effort profiles for Hypothesis, and the data beside the repository.

Profiles: ``quick`` (the default, a few seconds a test) and ``thorough`` (``HYPOTHESIS_PROFILE=thorough``, for hours of
idle machines). A failing example prints what reproduces it. Where one seed is set for all tests (``tests/seeds.py``),
each run tries the same examples.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.seeds import is_fixed

if TYPE_CHECKING:
    from tests.services.postgresql import PostgresqlServer

pytest_plugins = ["tests.tools.fast_ring"]

# Jobs that a shell runs in the background ignore Ctrl-C, and so would all processes that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "quick",
    max_examples=60,
    deadline=None,
    print_blob=True,
    derandomize=is_fixed(),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", max_examples=5_000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED_DATA = REPOSITORY.parent / "shared" / "data"


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """A real server of the tests' own; where PostgreSQL is missing, the tests fail and say what to install."""
    # Only where it is asked for: many tests run without the broker's packages.
    from tests.services.postgresql import PostgresqlServer

    server = PostgresqlServer()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Larger test data that lies beside the repository on some machines; tests that need it are skipped elsewhere."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the larger test data is not there ({SHARED_DATA})")
    return SHARED_DATA
