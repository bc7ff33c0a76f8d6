"""The sources are read once, before the first rule."""

import pytest

from tests.architecture import python_sources, rust_sources


@pytest.fixture(scope="session", autouse=True)
def _sources() -> None:
    python_sources.package_files()
    rust_sources.crate_files()
