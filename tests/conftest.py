"""What all tests share: effort profiles for Hypothesis, and the data beside the repository.

Profiles: ``quick`` (the default, a few seconds a test) and ``thorough`` (``HYPOTHESIS_PROFILE=thorough``, for hours of
idle machines). A failing example prints what reproduces it.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick", max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
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
def shared_data() -> Path:
    """Larger test data that lies beside the repository on some machines; tests that need it are skipped elsewhere."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"the larger test data is not there ({SHARED_DATA})")
    return SHARED_DATA
