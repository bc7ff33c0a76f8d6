"""Sets that were saved and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check
from tests.conformance.cases import all_cases
from tests.conformance.groups import groups

pytestmark = pytest.mark.slow


def test_loaded_sets(tmp_path: Path) -> None:
    run = Check("snapshot")
    for group in groups(run, all_cases()):
        population = engines.from_snapshot(group.population(), tmp_path)
        asked = {message: engines.ask(population, message, ()) for message in group.messages}
        delivered = {message: engines.deliver(population, message) for message in group.messages}
        for answers in (asked, delivered):
            for case, answer in group.answers(answers):
                run.answer(case, answer)
    run.finish()
