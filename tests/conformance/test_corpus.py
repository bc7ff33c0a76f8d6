"""The corpus is well made: enough cases, each with a name of its own, each skip for a runner that there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.cases import CORPUS, FOLDERS, CaseError, all_cases, case_from, files

CASES_MIN: Final = 1_000
HERE: Final = Path(__file__).parent
RUST: Final = CORPUS.parents[1] / "crates" / "twigcast-core" / "tests" / "corpus" / "main.rs"


def runners() -> set[str]:
    """The names of the runners, as their files say them."""
    found = set(re.findall(r'"(core[\w-]*)"', RUST.read_text(encoding="utf-8")))
    for path in HERE.glob("test_*.py"):
        found |= set(re.findall(r'Check\(f?"([\w{}-]+)"\)', path.read_text(encoding="utf-8")))
    return {name.split("{")[0] for name in found}


def test_there_are_cases_of_all_kinds() -> None:
    assert len(all_cases()) >= CASES_MIN
    for folder in FOLDERS:
        assert any(file.startswith(f"{folder}/") for file in files()), folder


def test_names_are_unique() -> None:
    names = [case.id for case in all_cases()]
    assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]


def test_skips_name_runners_and_give_reasons() -> None:
    known = runners()
    assert {"single", "reference-", "core", "core-stream"} <= known
    for case in all_cases():
        for runner, reason in case.skip.items():
            assert any(runner == name or (name.endswith("-") and runner.startswith(name)) for name in known), case.id
            assert reason, case.id


def test_each_expected_answer_that_an_oracle_contradicts_says_how_it_was_verified() -> None:
    for case in all_cases():
        refused = case.error is not None or case.refused
        if "lxml" in case.skip and "takes" not in case.skip["lxml"] and not refused:
            assert case.verified, case.id


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"message": "<a/>", "query": "/a"}, "nothing is expected"),
        ({"query": "/a", "matches": True}, "exactly one of"),
        ({"message": "<a/>", "hex": "3c", "query": "/a", "matches": True}, "exactly one of"),
        ({"message": "<a/>", "query": "/a", "matches": True, "match": True}, "unknown fields: match"),
        ({"message": "<a/>", "subscriptions": [], "matches": [], "count": 1}, "unknown fields: count"),
    ],
)
def test_cases_that_are_written_wrongly_are_refused(entry: dict[str, object], message: str) -> None:
    with pytest.raises(CaseError, match=message):
        case_from("xpath/some.toml", entry)
