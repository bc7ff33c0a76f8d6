"""The workflows name what is there, and may do no more than they need; `check` runs actionlint and zizmor on them."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging import check

REPOSITORY = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
MADE_THERE = {"fuzz/corpus"}
MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")


def jobs(path: Path) -> dict[str, dict[str, Any]]:
    read: dict[str, dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return read


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_reads_only_and_keeps_no_token(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        assert set(job.get("permissions", {})) <= {"id-token", "attestations", "contents"}, name
        assert "permissions" not in job or "environment" in job, f"{name}: someone has to permit it"
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, name


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_runs_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"(?:run: |; )make ([a-z-]+)", text):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target
    for file in re.findall(r"(?<![\w/.-])((?:tests|fuzz|requirements|crates|\.ci)/[\w./-]+\w)(?![\w*$])", text):
        assert (REPOSITORY / file).exists() or file in MADE_THERE, file
    for job in jobs(path).values():
        assert job["runs-on"]
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert "uses" not in step or re.fullmatch(r"[\w.-]+/[\w.-]+@[\w./-]+", step["uses"])


def test_wheels_are_for_each_platform_and_for_free_threads() -> None:
    release = jobs(REPOSITORY / ".github" / "workflows" / "release.yml")
    linux = release["linux"]["strategy"]["matrix"]
    assert (linux["libc"], linux["target"]) == (["manylinux", "musllinux"], ["x86_64", "aarch64"])
    systems = [entry["os"].partition("-")[0] for entry in release["others"]["strategy"]["matrix"]["include"]]
    assert systems == ["macos", "macos", "windows"]
    for name in ("linux", "others"):
        (built,) = (s for s in release[name]["steps"] if s.get("uses", "").startswith("PyO3/maturin-action"))
        assert "3.13t" in built["with"]["args"]
        assert "3.14t" in built["with"]["args"]
    assert release["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(release["publish"]["needs"]) == set(release) - {"publish"}


def test_each_extra_and_target_is_tried() -> None:
    smoke = check.SMOKE.read_text(encoding="utf-8")
    tried = set(re.findall(r'"(\w+)": \w+', re.findall(r"^TRIALS = \{(.*)\}$", smoke, re.MULTILINE)[0]))
    assert tried == set(check.extras()) - {""}
    fuzz = jobs(REPOSITORY / ".github" / "workflows" / "fuzz.yml")["fuzz"]["strategy"]["matrix"]["target"]
    script = (REPOSITORY / "fuzz" / "run.sh").read_text(encoding="utf-8")
    (targets,) = re.findall(r"targets=\((scan .*)\)", script)
    assert fuzz == targets.split()


def test_what_may_be_in_the_module_is_said() -> None:
    deny = tomllib.loads((REPOSITORY / "deny.toml").read_text(encoding="utf-8"))
    assert deny["sources"] == {"unknown-registry": "deny", "unknown-git": "deny"}
    allowed = set(deny["licenses"]["allow"])
    assert not {one for one in allowed if "GPL" in one}
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60)
    for package in json.loads(done.stdout)["packages"]:
        # "A OR B", "A/B", "(A OR B) AND C"
        for part in package["license"].split(" AND "):
            assert allowed & set(re.split(r" OR |/", part.strip("()"))), f"{package['name']}: {package['license']}"
    assert deny["advisories"]["yanked"] == "deny"
