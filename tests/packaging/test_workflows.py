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

from tests.packaging import check, index_readme

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
        permissions = job.get("permissions", {})
        assert set(permissions) <= {"actions", "id-token", "attestations", "contents"}, name
        writes = "write" in permissions.values()
        assert not writes or "environment" in job, f"{name}: someone has to permit it"
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
        free_threaded = re.findall(r"3\.\d+t", built["with"]["args"])
        assert free_threaded == release["free-threaded"]["strategy"]["matrix"]["python"]
        # PyO3 refuses to build for 3.13t since its version 0.29.
        assert free_threaded == ["3.14t"]
    assert release["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert set(release["publish"]["needs"]) == set(release) - {"publish"}


def test_the_readme_leads_somewhere_from_a_package_index_too() -> None:
    address = "https://example.org/t/blob/v1"
    text = index_readme.absolute("[a](docs/a.md#b), [c](https://c.org/), [d](#e), ![f](f.svg)", address)
    assert text == f"[a]({address}/docs/a.md#b), [c](https://c.org/), [d](#e), ![f]({address}/f.svg)"
    shown = index_readme.absolute(index_readme.README.read_text(encoding="utf-8"), address)
    assert shown.count(f"]({address}/") > 15
    assert not index_readme.RELATIVE.search(shown)
    # Wherever a release is built.
    for job in jobs(REPOSITORY / ".github" / "workflows" / "release.yml").values():
        runs = [step.get("run", step.get("uses", "")) for step in job["steps"]]
        builds = [n for n, run in enumerate(runs) if run == "make wheel" or run.startswith("PyO3/maturin-action")]
        assert all("index_readme.py" in runs[n - 1] for n in builds)


def test_each_extra_and_target_is_tried() -> None:
    smoke = check.SMOKE.read_text(encoding="utf-8")
    tried = set(re.findall(r'"(\w+)": \w+', re.findall(r"^TRIALS = \{(.*)\}$", smoke, re.MULTILINE)[0]))
    assert tried == set(check.extras()) - {""}
    fuzz = jobs(REPOSITORY / ".github" / "workflows" / "fuzz.yml")["fuzz"]["strategy"]["matrix"]["target"]
    script = (REPOSITORY / "fuzz" / "run.sh").read_text(encoding="utf-8")
    (targets,) = re.findall(r"targets=\((scan .*)\)", script)
    assert fuzz == targets.split()


def test_what_fuzzing_learns_is_kept_until_the_next_month() -> None:
    steps = jobs(REPOSITORY / ".github" / "workflows" / "fuzz.yml")["fuzz"]["steps"]
    (kept,) = (step for step in steps if step.get("with", {}).get("name", "").startswith("corpus-"))
    assert kept["with"]["retention-days"] > 31
    assert kept["if"] == "always()"


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
