"""What the texts advise on installing: never a package index, as long as Twigcast is in none."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from twigcast import installing

REPOSITORY = Path(__file__).resolve().parent.parent
INSTALLERS = r"(?:pip3?|pipx|uv(?: pip| tool)?|poetry|conda|docker)\s+(?:install|add|pull)\b"
# The name by itself, as an index is asked for it: no path to a folder or a file, and no address.
FROM_INDEX = re.compile(
    rf"{INSTALLERS}[^\n`|]*?(?<![\w./~@-])twigcast(?:\[[\w,]+\])?(?![\w./@[-])(?! @)", re.IGNORECASE
)
THIS_PLACE = {"python/twigcast/installing.py", "tests/test_installing.py"}
ENDINGS = {".cff", ".html", ".ini", ".ipynb", ".js", ".md", ".py", ".rs", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}


def texts() -> Iterator[tuple[str, str]]:
    """All texts of the repository that people may read, but for the place that decides."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        path = REPOSITORY / name
        if path.suffix in ENDINGS and name not in THIS_PLACE and path.is_file() and not name.startswith("tests/corpus"):
            yield name, path.read_text(encoding="utf-8", errors="replace")


def test_no_text_says_that_an_index_has_it() -> None:
    if installing.PUBLISHED:
        return
    found = [
        f"{name}: {line.strip()}"
        for name, text in texts()
        if "twigcast" in text
        for line in text.splitlines()
        if "twigcast" in line and FROM_INDEX.search(line)
    ]
    assert not found, (
        f"{found}: Twigcast is in no package index; name a checkout or a wheel, or lead to docs/how-to/install.md"
    )


def test_texts_agree_on_whether_an_index_has_it() -> None:
    denying = {
        name for name, text in texts() if re.search(r"in\s+(?:a|no)\s+package\s+index", text) and name.endswith(".md")
    }
    if installing.PUBLISHED:
        assert denying <= {"docs/decisions/0058-shipping.md", "CHANGELOG.md"}, "change these, too"
    else:
        assert {"README.md", "docs/how-to/install.md"} <= denying, "newcomers read it where they begin"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pip install twigcast", True),
        ("python -m pip install --upgrade 'twigcast[broker]'", True),
        ("uv add twigcast", True),
        ("RUN pip install --no-cache-dir 'twigcast[broker]==0.2.0'", True),
        ("pip install '.[broker]'", False),
        ("pip install dist/twigcast-*.whl", False),
        ("pip install /src/twigcast", False),
        ("pip install 'twigcast[broker] @ file:///src/twigcast.whl'", False),
        ("/opt/twigcast/bin/pip install '.[broker]'", False),
    ],
)
def test_such_lines_are_found(line: str, found: bool) -> None:
    assert bool(FROM_INDEX.search(line)) is found


class Recorded:
    """An installation as pip records it."""

    version = "9.8.7"

    def __init__(self, origin: object) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ({"url": "file:///src/t", "dir_info": {"editable": True}}, "pip install --editable '/src/t[lab]'"),
        ({"url": "file:///src/a%20b", "dir_info": {}}, "pip install '/src/a b[lab]'"),
        ({"url": "file:///d/twigcast-9.whl", "archive_info": {}}, "pip install '/d/twigcast-9.whl[lab]'"),
        ({"url": "https://x.org/t.whl", "archive_info": {}}, "pip install 'twigcast[lab] @ https://x.org/t.whl'"),
        (
            {"url": "https://x.org/t", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'twigcast[lab] @ git+https://x.org/t@abc'",
        ),
        (None, "pip install 'twigcast[lab]==9.8.7'"),
    ],
)
def test_an_extra_comes_from_where_twigcast_came_from(
    origin: object, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _name: Recorded(origin))
    assert installing.install_line("lab") == expected


def test_what_is_published_is_asked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _name: Recorded(None))
    monkeypatch.setattr(installing, "PUBLISHED", True)
    assert installing.install_line("lab") == "pip install 'twigcast[lab]'"


def test_sources_that_were_not_installed_name_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    def distribution(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    assert installing.install_line("lab") == f"pip install --editable '{REPOSITORY}[lab]'"


def test_each_extra_has_a_row_on_the_page() -> None:
    project = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    section = project.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = set(re.findall(r"^(\w+) = \[", section, re.MULTILINE)) - {"dev"}
    page = (REPOSITORY / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == extras
