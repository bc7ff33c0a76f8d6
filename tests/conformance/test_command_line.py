"""The command line: subscriptions in a snapshot, messages in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance import engines
from tests.conformance.answers import Check, no_answer
from tests.conformance.cases import Case, all_cases
from tests.conformance.groups import groups

pytestmark = pytest.mark.slow


def reason(case: Case) -> str | None:
    return "the command line takes no limits" if case.limits else no_answer(case)


def test_match_and_deliver(tmp_path: Path) -> None:
    run = Check("command-line")
    for number, group in enumerate(groups(run, all_cases(), reason)):
        messages = group.messages
        found = engines.command_line(group.population(), messages, tmp_path / str(number))
        for half in (0, 1):
            by_message = dict(zip(messages, (pair[half] for pair in found), strict=True))
            for case, answer in group.answers(by_message):
                run.answer(case, answer)
    run.finish()
