"""Programs that are checked by ``mypy --strict`` see the types of this package, and no ``Any`` that pyarrow leaves."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import twigcast

DOCS = Path(__file__).resolve().parent.parent / "docs"
DOCUMENTED = re.compile(r"^\.\. auto(?:class|function|exception):: (twigcast\.[\w.]+)$", re.MULTILINE)

PROGRAM = """
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from twigcast.engine.arrow import keys_of_groups
from twigcast.reading.records import RecordBatch
from twigcast.arrow_types import ArrowBuffer, DeliveryRow, MatchRow
from twigcast import AddReport, Delivery, Match, Node, Subscription, SubscriptionSet, check, explain

subs = SubscriptionSet({"a": "/a"}, namespaces={"p": "urn:p"})
report: AddReport = subs.add_many([("b", "/b"), {"key": "c", "query": "/c"}, Subscription("d", "/d")])
report = subs.add_many({"e": {"query": "/e"}}, progress=True)
refused: Sequence[str] = [one.key for one in report.refused] + [one.text for one in report.warnings]
match: Match = subs.match(io.BytesIO(b"<a/>"))
keys: list[str] = match.freeze().keys
nodes: list[Node] = match.nodes("a")
paths: list[str] = [node.path + node.text for node in nodes]
delivery: Delivery = subs.deliver(Path("a.xml"))[0]
batch = subs.match_batch(["<a/>", b"<b/>", None, Path("c.xml"), io.StringIO("<d/>")])
rows: list[MatchRow] = batch.to_pylist()
found: list[str] = [key for row in rows for key in row["keys"] or []]
codes: list[str] = [row["error"]["code"] for row in rows if row["error"] is not None]
per_message: list[list[str] | None] = batch.column("keys").to_pylist()
first: list[int] | None = batch.column("nodes")[0].as_py()
pieces: list[ArrowBuffer | None] = batch.column("error").buffers()
flat: list[str] = batch.column("keys").flatten().dictionary.to_pylist()
flat_payloads: list[bytes | None] = batch["payloads"].flatten().to_pylist()
groups: list[str] = batch["groups"].flatten().flatten().to_pylist()
total: int = sum(batch["nodes"].flatten().to_pylist())
others: list[object] = batch.column(0).to_pylist()
count: int = batch.num_rows + batch.column("error").null_count
payloads: list[bytes | None] = subs.deliver("<a/>").arrow().column("payload").to_pylist()
delivered: list[DeliveryRow] = subs.deliver("<a/>").arrow().slice(0, 1).to_pylist()
again = subs.match_batch(batch)
text: str = str(explain("/a", "<a/>")) + check("/a").normal_form
record_batch = RecordBatch(b"", b"", {}, [], b"")
nearness: float = explain("/a", "<a/>").nearness


async def main() -> list[str]:
    return (await subs.amatch("<a/>")).keys
"""


def checked(program: str, folder: Path, *options: str) -> str:
    """What mypy says of a program."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache"), *options, "program.py"]
    package = str(Path(twigcast.__file__).parent.parent)
    done = subprocess.run(
        command,
        cwd=folder,
        env={"MYPYPATH": package, "PATH": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for programs, in which mypy remembers what it has found out about the package."""
    return tmp_path_factory.mktemp("typed")


def documented_names() -> dict[str, object]:
    """What the reference documents, by full name."""
    names = {name for page in DOCS.rglob("*.md") for name in DOCUMENTED.findall(page.read_text(encoding="utf-8"))}
    found: dict[str, object] = {}
    for name in sorted(names):
        module, _, last = name.rpartition(".")
        try:
            found[name] = getattr(importlib.import_module(module), last)
        except twigcast.errors.MissingDependency as missing:
            pytest.skip(str(missing))
    return found


def public_members(kind: type) -> list[str]:
    """The names of the methods, properties and fields that a class has from this package."""
    own = [one for one in kind.__mro__ if one.__module__.startswith("twigcast")]
    names = {name for one in own for name in [*vars(one), *getattr(one, "__annotations__", {})]}
    return sorted(name for name in names if not name.startswith("_"))


@pytest.mark.slow
def test_strict_programs_see_the_types_of_what_they_are_given(folder: Path) -> None:
    quiet = ("--follow-imports", "silent")
    assert "Success: no issues found" in checked(PROGRAM, folder, *quiet)
    wrong = [
        "subs.match_batch(7)",
        "subs.match(7)",
        "subs.add_many(7)",
        "batch.colum('keys')",
        "count = batch.column('keys')",
        "count = batch['keys'].flatten()[0].as_py()",
    ]
    found = checked(PROGRAM + "\n".join(wrong), folder, *quiet)
    assert found.count("error: ") == len(wrong), found


@pytest.mark.slow
def test_nothing_that_is_returned_is_any(folder: Path) -> None:
    names = [
        "subs",
        "report",
        "match",
        "nodes",
        "delivery",
        "batch",
        "batch.column('keys')",
        "batch.schema",
        "batch.schema.field('keys')",
        "batch.schema.names",
        "keys_of_groups(batch.column('groups'))",
        "record_batch.arrow()",
        "text",
        "subs.deliver('').arrow()",
        "batch.to_pylist()",
        "batch.column('keys').to_pylist()",
        "batch.column('keys')[0].as_py()",
        "batch.column('keys').flatten().to_pylist()",
        "batch.column('keys').buffers()",
        "batch['keys'].to_pylist()",
        "batch['payloads'].flatten().dictionary.to_pylist()",
        "batch[0].flatten().to_pylist()",
        "record_batch.arrow().to_pylist()",
        "subs.deliver('').arrow().column('key').to_pylist()",
    ]
    program = PROGRAM + "\n".join(f"reveal_type({name})" for name in names)
    revealed = re.findall(r'Revealed type is "(.*)"', checked(program, folder, "--follow-imports", "silent"))
    assert len(revealed) == len(names)
    assert not [name for name, kind in zip(names, revealed, strict=True) if re.search(r"\bAny\b", kind)]


@pytest.mark.slow
def test_no_documented_name_is_any_but_in_json(folder: Path) -> None:
    names = documented_names()
    assert {"twigcast.SubscriptionSet", "twigcast.engine.arrow.keys_of_groups", "twigcast.spark.backtest"} <= set(names)
    lines = [f"import {module}" for module in sorted({name.rpartition(".")[0] for name in names})]
    asked = list[str]()
    for number, (name, value) in enumerate(names.items()):
        lines.append(f"reveal_type({name})")
        asked.append(name)
        if not inspect.isclass(value) or issubclass(value, dict):
            continue  # the members of a dictionary are in its type
        generic = "[int]" if getattr(value, "__parameters__", ()) else ""
        lines.append(f"value_{number}: {name}{generic}")
        for member in public_members(value):
            lines.append(f"reveal_type(value_{number}.{member})")
            asked.append(f"{name}.{member}")
    found = checked("\n".join(lines), folder, "--follow-imports", "silent")
    assert "Success: no issues found" in found, found
    revealed = re.findall(r'Revealed type is "(.*)"', found)
    assert len(revealed) == len(asked)
    # Objects of JSON are `Any` by what they are; a coroutine says so of what nobody sends to it.
    known = re.compile(r"\b(?:Mapping|dict)\[str, Any\]|\bCoroutine\[Any, Any, ")
    kinds = {name: known.sub("", kind) for name, kind in zip(asked, revealed, strict=True)}
    assert {name: kind for name, kind in kinds.items() if re.search(r"\bAny\b", kind)} == {}
