"""The pages about overlays: diagrams are what the code draws, examples do what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from twigcast.overlay.illustrate import drawings

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "overlays"


def test_diagrams_are_what_the_code_draws() -> None:
    drawn = drawings()
    assert {path.name for path in FOLDER.glob("*.svg")} == set(drawn)
    for name, drawing in drawn.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == drawing, f"draw again: {name}"


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_examples(page: Path) -> None:
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
