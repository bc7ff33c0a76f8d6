"""What the pages in ``docs/extending/`` tell to add is complete, for all that is there now."""

from __future__ import annotations

import pytest

from tests.architecture import exceptions
from tests.architecture.python_sources import package_files
from tests.architecture.rules import HINTS, RECIPES, RULES
from tests.architecture.rust_sources import crate_files


@pytest.fixture(scope="module", autouse=True)
def sources() -> None:
    """Reads all sources once, before the first recipe."""
    package_files()
    crate_files()


@pytest.mark.parametrize("recipe", RECIPES)
def test_nothing_is_forgotten(recipe: str) -> None:
    exceptions.check(recipe, HINTS[recipe], RULES[recipe]())
