"""The pages about overlays: diagrams are what the code draws, examples do what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from twigcast.lab.experiments.framework import registry, store
from twigcast.lab.experiments.framework.verdicts import renewed, verdict_table
from twigcast.lab.overlays.illustrate import drawings

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "docs" / "overlays"


def test_diagrams_are_what_the_code_draws() -> None:
    drawn = drawings()
    assert {path.name for path in FOLDER.glob("*.svg")} == set(drawn)
    for name, drawing in drawn.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == drawing, f"draw again: {name}"


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.md")), ids=lambda page: page.stem)
def test_examples(page: Path) -> None:
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_verdicts_on_the_page_are_those_of_the_results() -> None:
    page = (FOLDER / "figures.md").read_text(encoding="utf-8")
    runs = store.load_all(ROOT / "results" / "overlays")
    renew = "python -m twigcast.lab.experiments.framework.verdicts results/overlays docs/overlays/figures.md C- M-"
    assert renewed(page, verdict_table(runs, ["C-", "M-"])) == page, renew


def test_every_figure_has_results() -> None:
    stored = {(run.experiment, run.scale) for run in store.load_all(ROOT / "results" / "overlays")}
    for experiment in registry.experiments():
        if experiment.id.startswith(("C-", "M-")):
            assert (experiment.id, "small") in stored, experiment.id
