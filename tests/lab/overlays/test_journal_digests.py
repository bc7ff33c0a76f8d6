"""A simulation is a function of its seed: the same journal in every process, whatever Python's hash values are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import REPOSITORY


@pytest.mark.slow
def test_journals_do_not_depend_on_the_hash_seed() -> None:
    printed = []
    for hash_seed in ("1", "2", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-m", "tests.lab.overlays.journal_digests"],
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        printed.append(done.stdout)
    assert len(printed[0].splitlines()) == 8
    assert printed[1:] == printed[:1] * 2
