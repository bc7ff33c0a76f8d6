"""The fast ring fails slow tests, and leaves out what needs services."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import time
import pytest

@pytest.fixture(scope="module")
def shared():
    time.sleep(0.3)

@pytest.fixture
def own():
    time.sleep(0.3)

@pytest.fixture
def spark():
    pass

def test_fast(): pass
def test_of_shared_fixture(shared): pass
def test_of_slow_fixture(own): pass
def test_slow(): time.sleep(0.3)
def test_of_spark(spark): pass
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_of_store(store): pass
"""


def run_pytest(folder: Path, *arguments: str) -> str:
    (folder / "test_it.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  spark: x\n  services: x\n")
    root = Path(__file__).resolve().parents[2]
    options = ["-p", "tests.tools.fast_ring", "-p", "no:cacheprovider", "-rA", "-q", "--rootdir", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments, str(folder)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


@pytest.mark.slow
def test_slow_tests_fail(tmp_path: Path) -> None:
    shown = run_pytest(tmp_path, "--seconds-max", "0.2")
    failed = {line.rpartition("::")[2] for line in shown.splitlines() if line.startswith("FAILED")}
    assert {name.partition(" ")[0] for name in failed} == {"test_of_slow_fixture", "test_slow"}


@pytest.mark.slow
def test_without_limit_none_fails(tmp_path: Path) -> None:
    assert "7 passed" in run_pytest(tmp_path)


@pytest.mark.slow
def test_what_needs_services_is_left_out(tmp_path: Path) -> None:
    assert "5 passed, 2 deselected" in run_pytest(tmp_path, "-m", "not spark and not services")
