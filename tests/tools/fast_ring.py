"""The rings of tests: what belongs to the fast one, that each of its tests is fast, and what runs side by side.

``make test-fast`` leaves out the tests that are marked ``slow``, ``spark``, ``services``, ``lab`` or ``sleep``. Those
of the lab, of Spark and of services get their mark here, from what they use. With ``--seconds-max N`` a test fails that
takes longer, its own fixtures included. Fixtures that several tests share are not counted: they are set up once.

With ``--dist loadgroup`` the tests of a file run in one process, and all of Spark in one: a process has one session.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent.parent

MARK_BY_FIXTURE = {
    "spark": "spark",
    "postgresql_server": "services",
    "postgresql_broker": "services",
    "browser": "services",
}
MARK_BY_FOLDER = {"lab": "lab"}
MARK_BY_CALL = {"chromium": "services"}
"""Functions that start a service: a test that calls one needs it."""

_SHARED_SECONDS = pytest.StashKey[float]()
"""Seconds spent on shared fixtures since the current test began."""
_OWN_SECONDS = pytest.StashKey[float]()
"""Seconds that the setup of a test took, shared fixtures not counted."""


def marks_of(item: pytest.Item) -> set[str]:
    """Returns the marks that a test gets from what it uses."""
    marks = {MARK_BY_FIXTURE[name] for name in getattr(item, "fixturenames", ()) if name in MARK_BY_FIXTURE}
    if TESTS in item.path.parents:
        folders = item.path.relative_to(TESTS).parts[:-1]
        marks |= {MARK_BY_FOLDER[folder] for folder in folders if folder in MARK_BY_FOLDER}
    code = getattr(getattr(item, "function", None), "__code__", None)
    if code is not None:
        marks |= {MARK_BY_CALL[name] for name in code.co_names if name in MARK_BY_CALL}
    parameters = getattr(item, "callspec", None)
    if parameters is not None and "postgresql" in map(str, parameters.params.values()):
        marks.add("services")
    return marks


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option of the fast ring."""
    parser.addoption(
        "--seconds-max", type=float, default=None, help="A test that takes longer fails; shared fixtures do not count."
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks a test by what it uses."""
    for mark in sorted(marks_of(item)):
        item.add_marker(mark)
    of_spark = item.get_closest_marker("spark") is not None
    item.add_marker(pytest.mark.xdist_group("spark" if of_spark else item.location[0]))


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Adds up the time that shared fixtures take."""
    start = perf_counter()
    try:
        return (yield)
    finally:
        if fixturedef.scope != "function":
            stash = request.session.stash
            stash[_SHARED_SECONDS] = stash.get(_SHARED_SECONDS, 0.0) + perf_counter() - start


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fails a test that took too long."""
    report = yield
    seconds_max: float | None = item.config.getoption("seconds_max")
    if seconds_max is None:
        return report
    shared = item.session.stash.get(_SHARED_SECONDS, 0.0)
    item.session.stash[_SHARED_SECONDS] = 0.0
    seconds = item.stash.get(_OWN_SECONDS, 0.0) + call.duration - shared
    item.stash[_OWN_SECONDS] = seconds
    if call.when == "call" and report.passed and seconds > seconds_max:
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid} took {seconds:.2f} s, and a test of the fast ring may take {seconds_max:g} s: make it "
            "faster, or mark it (slow, sleep, ...) so that only the full ring runs it"
        )
    return report
