"""A Java runtime that is missing, broken or too old is told in a sentence that says what to install."""

import stat
from pathlib import Path

import pytest

from twigcast.errors import MissingJava
from twigcast.spark.session import check_java


def fake_java(folder: Path, script: str) -> Path:
    """A program called java."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    return java


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "25-ea" 2025-09-16', 25),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1"', 17),
    ],
)
def test_versions_that_will_do(tmp_path: Path, answer: str, version: int) -> None:
    fake_java(tmp_path, f"cat >&2 <<'END'\n{answer}\nEND")
    assert check_java({"JAVA_HOME": str(tmp_path)}) == version
    assert check_java({"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}) == version


@pytest.mark.parametrize("answer", ['java version "1.8.0_352"', 'openjdk version "11.0.20" 2023-07-18'])
def test_versions_that_are_too_old(tmp_path: Path, answer: str) -> None:
    fake_java(tmp_path, f"echo '{answer}' >&2")
    with pytest.raises(MissingJava, match=r"too old.*install a Java runtime, version 17"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


def test_no_java_at_all(tmp_path: Path) -> None:
    with pytest.raises(MissingJava, match=r"no java on the PATH.*install a Java runtime"):
        check_java({"PATH": str(tmp_path)})


def test_a_home_without_java(tmp_path: Path) -> None:
    with pytest.raises(MissingJava, match="JAVA_HOME is"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize("script", ["exit 1", "echo what", "kill -9 $$"])
def test_a_java_that_does_not_run(tmp_path: Path, script: str) -> None:
    fake_java(tmp_path, script)
    with pytest.raises(MissingJava, match="does not"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
