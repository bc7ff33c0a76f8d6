"""The README and the documentation: what they show is what happens.

In each page, in order: a fence behind ``<!-- file: NAME -->`` is written to that file; the examples of a ``python``
fence run as doctests; each ``$ command`` of a ``console`` fence is run by a shell, and has to print what follows it.
``...`` stands for anything. All pages start in an empty folder. A page with ``<!-- tested by FILE -->`` needs more.
A page that starts a broker has a free port in place of 8080, and a home of its own; the broker of ``broker.pid`` is
stopped after it.
"""

import doctest
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from twigcast import check
from twigcast.cli import app

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "docs" / "tutorial.md",
    *sorted((REPOSITORY / "docs" / "tutorial").glob("*.md")),
    *sorted((REPOSITORY / "docs" / "how-to").glob("*.md")),
    *sorted((REPOSITORY / "docs" / "coming-from").glob("*.md")),
    *sorted((REPOSITORY / "docs" / "trades").glob("*.md")),
    *sorted((REPOSITORY / "docs" / "reference").glob("*.md")),
]
TESTED_ELSEWHERE = re.compile(r"<!-- tested by (\S+) -->")
PAGES = [page for page in PAGES if not TESTED_ELSEWHERE.search(page.read_text(encoding="utf-8"))]
FENCE = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w*|\{[\w-]+\}[^\n]*)\n(?P<body>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Command:
    """A line of a console with what it prints."""

    text: str
    output: str


def commands(body: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        text, _, output = part.partition("\n")
        yield Command(text, output)


def run_command(command: Command, folder: Path) -> None:
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )
    shown = doctest.OutputChecker().check_output(command.output, done.stdout, OPTIONS)
    assert shown, f"$ {command.text}\nexpected:\n{command.output}\nfound:\n{done.stdout}"


def run_python(body: str, names: dict[str, object], page: Path, line: int) -> int:
    test = doctest.DocTestParser().get_doctest(body, names, page.name, str(page), line)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not result.failed, "".join(report)
    return result.attempted


def text_of(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    text = page.read_text(encoding="utf-8")
    if "$ twigcast serve" not in text:
        return text
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name in [name for name in os.environ if name.startswith(("TWIGCAST_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TWIGCAST_PORT", str(port))
    monkeypatch.setenv("HOME", str(folder))
    return text.replace(":8080", f":{port}")


def stop_broker(folder: Path) -> None:
    if (folder / "broker.pid").exists():
        os.kill(int((folder / "broker.pid").read_text()), signal.SIGTERM)


def run_page(text: str, page: Path, folder: Path) -> int:
    """Run a page's examples; how many there were."""
    names: dict[str, object] = {}
    count = 0
    for fence in FENCE.finditer(text):
        body = fence["body"]
        if fence["file"]:
            path = folder / fence["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body, encoding="utf-8")
        elif fence["language"] == "console":
            for command in commands(body):
                run_command(command, folder)
                count += 1
        elif fence["language"] == "python":
            count += run_python(body, names, page, text.count("\n", 0, fence.start()))
    return count


def mark(page: Path) -> object:
    """Marks pages that start Spark, and those that run commands, each of which is a process."""
    text = page.read_text(encoding="utf-8")
    starts_spark = any(command in text for command in ("twigcast pipeline --", "$ twigcast backtest", "open_session("))
    marks = [pytest.mark.spark] if starts_spark else []
    if re.search(r"^\$ ", text, re.MULTILINE):
        marks.append(pytest.mark.slow)
    return pytest.param(page, id=page.name, marks=marks)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("page", [mark(page) for page in PAGES])
def test_examples_do_what_the_page_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        count = run_page(text_of(page, tmp_path, monkeypatch), page, tmp_path)
    finally:
        stop_broker(tmp_path)
    has_examples = re.search(r"^(>>> |\$ )", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert bool(count) == bool(has_examples), "all examples of a page are found"


def test_a_wrong_example_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    for body in ("```python\n>>> 1 + 1\n3\n```\n", "```console\n$ echo a\nb\n```\n"):
        page.write_text(body)
        with pytest.raises(AssertionError, match=r"(?i)expected"):
            run_page(body, page, tmp_path)


def command_names(command: Any, prefix: str = "twigcast") -> Iterator[str]:
    if not hasattr(command, "list_commands"):
        return
    for name in command.list_commands(None):
        yield f"{prefix} {name}"
        yield from command_names(command.get_command(None, name), f"{prefix} {name}")


def test_every_command_is_documented() -> None:
    page = (REPOSITORY / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^##+ (twigcast .*)$", page, re.MULTILINE))
    helped = {f"twigcast {name}" for name in re.findall(r"^```{command-help} (.*)$", page, re.MULTILINE)}
    names = set(command_names(typer.main.get_command(app)))
    assert names == headings == helped


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "examples").glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_what_the_pages_by_trade_answer_in_tables_are_queries() -> None:
    count = 0
    for page in (REPOSITORY / "docs" / "trades").glob("*.md"):
        for query in re.findall(r"^\|[^|]+\| `(/[^`]+)`", page.read_text(encoding="utf-8"), re.MULTILINE):
            namespaces = {prefix: f"urn:{prefix}" for prefix in re.findall(r"(\w+):\w+(?!\w*\()", query)}
            parameters = {name: ["x"] for name in re.findall(r"\$(\w+)", query) if name != "now"}
            check(query, namespaces=namespaces, params=parameters)
            count += 1
    assert count > 10


def test_the_front_pages_quote_the_benchmarks() -> None:
    results = REPOSITORY / "benchmarks" / "results"
    filtering = json.loads((results / "filtering.json").read_text(encoding="utf-8"))["rows"]
    (row,) = (row for row in filtering if row["workload"] == "news 100k")
    peers = json.loads((results / "peers.json").read_text(encoding="utf-8"))["rows"]
    (loop,) = (peer["us"] for peer in peers if peer["workload"] == "news 1k")
    set_us = row["us"]
    front = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    assert f"of 100,000 subscriptions in {set_us:.0f} microseconds" in front
    assert f"takes {loop:,.0f} microseconds for 1,000" in front
    assert 0.85 < row["E"] < 0.95, "nine tenths of expat's time"
    assert f"in {set_us:.0f}\nmicroseconds" in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_decisions_are_numbered_in_their_names_and_titles() -> None:
    pages = sorted(page for page in (REPOSITORY / "docs" / "decisions").glob("*.md") if page.name != "README.md")
    titles = [page.read_text(encoding="utf-8").splitlines()[0] for page in pages]
    assert [page.name[:5] for page in pages] == [f"{number:04}-" for number in range(1, len(pages) + 1)]
    assert [title[:7] for title in titles] == [f"# {page.name[:4]}:" for page in pages]


def test_each_decision_is_listed_under_a_subject() -> None:
    folder = REPOSITORY / "docs" / "decisions"
    listed = re.findall(
        r"^- \[(\d{4})\]\((\1-[\w-]+\.md)\): (.*)$", (folder / "README.md").read_text("utf-8"), re.MULTILINE
    )
    titles = {page.name: page.read_text("utf-8").splitlines()[0] for page in folder.glob("0*.md")}
    assert sorted(name for _, name, _ in listed) == sorted(titles), "add it to its subject in README.md, once"
    assert {name: f"# {number}: {title}" for number, name, title in listed} == titles


def test_decisions_that_are_named_are_there() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "*.py", "*.rs", "*.toml", "*.yml", "*.md"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    count = len(list((REPOSITORY / "docs" / "decisions").glob("0*.md")))
    for name in tracked.stdout.split():
        for number in re.findall(r"decisions?[ /](\d{4})\b", (REPOSITORY / name).read_text(encoding="utf-8")):
            assert 0 < int(number) <= count, f"{name}: {number}"


@pytest.mark.slow
def test_the_page_on_the_command_line_becomes_a_manual_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "man", "docs", str(tmp_path / "man")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "man" / "twigcast.1").read_text(encoding="utf-8")
    assert page.count('.TH "TWIGCAST" "1"') == 1
    for name in ("twigcast match", "twigcast admin tenant list"):
        assert name.upper() in page.upper()
    assert "\\-\\-show" in page
