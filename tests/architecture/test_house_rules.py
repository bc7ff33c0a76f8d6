"""The house rules hold, but for the listed exceptions."""

from __future__ import annotations

import pytest

from tests.architecture import exceptions
from tests.architecture.layers import layers
from tests.architecture.python_sources import benchmark_files, package_files
from tests.architecture.rules import DETAILS, HINTS, HOUSE_RULES, RULES
from tests.architecture.rust_sources import crate_files


@pytest.fixture(scope="module", autouse=True)
def sources() -> None:
    """Reads all sources once, before the first rule."""
    package_files()
    benchmark_files()
    crate_files()


@pytest.mark.parametrize("rule", HOUSE_RULES)
def test_rule_holds(rule: str) -> None:
    offenders = RULES[rule]()
    all_details = DETAILS[rule]() if rule in DETAILS else []

    def detail(offender: str) -> str:
        return "\n    ".join([offender, *(item for item in all_details if item.startswith(f"{offender}: "))])

    exceptions.check(rule, HINTS[rule], offenders, detail)


def test_exceptions_are_of_rules_and_have_reasons() -> None:
    tables = exceptions.read_exceptions(exceptions.EXCEPTIONS_FILE.read_text(encoding="utf-8"))
    assert {table.rule for table in tables} <= set(RULES)
    assert all(len(table.reason) > 10 for table in tables)
    assert all(count > 0 for table in tables for count in table.counts.values())


def test_each_rule_says_what_to_do() -> None:
    assert HINTS.keys() == RULES.keys()


def test_few_circles_of_rust_files_are_accepted() -> None:
    assert len(layers()["rust"].circles) < 5


def test_sources_are_there() -> None:
    assert len(package_files()) > 100
    assert len(crate_files()) > 100
