"""The page on the architecture tells the truth: files exist, they define what is named, no folder is forgotten."""

import ast
import re
import runpy
from functools import cache
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "architecture.md"
PYTHON = REPOSITORY / "python" / "twigcast"
CORE = REPOSITORY / "crates" / "twigcast-core" / "src"
GENERATOR = REPOSITORY / "docs" / "pictures" / "architecture.py"

TRIPS = 6
STEP = re.compile(
    r"^\d+\. `(?P<file>[^`]+)` (?P<names>`[^`]+`(?:, `[^`]+`)*): (?P<text>\S.*?)(?=\n\d+\. |\n\n|\Z)", re.M | re.S
)
NUMBERED = re.compile(r"^\d+\. ", re.M)
CODE = re.compile(r"`([^`\n]+)`")


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text below a heading of the second level."""
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page(), re.M | re.S)
    return str(text)


def steps() -> list[tuple[str, str]]:
    """Each file of the trips with a name that it is to define."""
    found = STEP.finditer(section("Six trips"))
    return [(step["file"], name) for step in found for name in CODE.findall(step["names"])]


@cache
def definitions(file: Path) -> frozenset[str]:
    """What a file defines: functions, classes, constants, and methods as ``Class.method``."""
    text = file.read_text(encoding="utf-8")
    return frozenset(_of_python(text) if file.suffix == ".py" else _of_rust(text))


def _of_python(text: str) -> set[str]:
    names: set[str] = set()

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                names.update({prefix + child.name, child.name})
                if isinstance(child, ast.ClassDef):
                    visit(child, f"{child.name}.")
            targets = (
                child.targets
                if isinstance(child, ast.Assign)
                else [child.target]
                if isinstance(child, ast.AnnAssign)
                else []
            )
            names.update(target.id for target in targets if isinstance(target, ast.Name))

    visit(ast.parse(text), "")
    return names


def _of_rust(text: str) -> set[str]:
    kinds = r"(?:struct|enum|trait|type|fn|const|static|mod)"
    names = set(re.findall(rf"^\s*(?:pub(?:\([^)]*\))? )?(?:const )?{kinds} (\w+)", text, re.M))
    # A block ends at the first brace that stands at the beginning of a line, as rustfmt writes it.
    for of, block in re.findall(
        r"^(?:impl|pub trait|trait)\b[^\n{]*?\b(\w+)(?:<[^\n]*>)?\s*(?:where[^{]*)?\{\n(.*?)^\}", text, re.M | re.S
    ):
        names.update(
            f"{of}.{name}" for name in re.findall(r"^ {4}(?:pub(?:\([^)]*\))? )?(?:async )?fn (\w+)", block, re.M)
        )
    return names


def test_there_are_six_trips_and_every_step_is_read() -> None:
    trips = section("Six trips")
    assert len(re.findall(r"^### ", trips, re.M)) == TRIPS
    assert len(re.findall(r"^\| \[", trips, re.M)) == TRIPS, "the table lists each trip"
    assert len(STEP.findall(trips)) == len(NUMBERED.findall(trips)), "a step is not written as `file` `name`: sentence"


@pytest.mark.parametrize(("file", "name"), steps())
def test_each_file_of_a_trip_defines_what_is_named(file: str, name: str) -> None:
    path = REPOSITORY / file
    assert path.is_file(), f"{file} does not exist"
    assert name in definitions(path), f"{file} does not define {name}"


@pytest.fixture(scope="module")
def names_in_sources() -> frozenset[str]:
    """Every name that the sources define, and the names of their files."""
    sources = [*PYTHON.rglob("*.py"), *(REPOSITORY / "crates").glob("*/src/**/*.rs")]
    return frozenset({name for source in sources for name in definitions(source)} | {source.name for source in sources})


def test_names_in_sentences_are_defined_somewhere(names_in_sources: frozenset[str]) -> None:
    names = {name for name in CODE.findall(page()) if re.fullmatch(r"[A-Z]\w+(\.\w+)?|\w+\.(py|rs)", name)}
    missing = sorted(names - names_in_sources)
    assert not missing, f"nothing of these names is in the sources: {', '.join(missing)}"


def test_paths_exist() -> None:
    paths = [code for code in CODE.findall(page()) if code.startswith(("python/", "crates/", "tests/", "docs/"))]
    missing = sorted({path for path in paths if not (REPOSITORY / path).exists()})
    assert not missing, f"these do not exist: {', '.join(missing)}"


def misplaced(text: str, root: Path) -> list[str]:
    """The files and folders that paragraphs on folders name, and that are not there.

    A paragraph begins with its folders. A name in it is one in these, or one with its path from the root.
    """
    missing = []
    for paragraph in re.split(r"\n\n", text):
        homes = [root / home for home in re.findall(r"\*\*`([^`]+/)`\*\*", paragraph)] or [root]
        missing += [
            f"{name} (at {homes[0].relative_to(root)})"
            for name in re.findall(r"(?<!\*)`([\w/]+(?:/|\.py|\.rs))`", paragraph)
            if not any((base / name).exists() for base in (*homes, root, REPOSITORY))
        ]
    return missing


def test_files_of_a_folder_are_in_that_folder() -> None:
    assert misplaced(section("Python, folder by folder"), PYTHON) == []
    assert misplaced(section("Rust, folder by folder"), CORE) == []


@pytest.mark.parametrize(
    ("paragraph", "missing"),
    [
        ("**`spark/`** is `pipeline.py`, and `sinks/`, and `engine/`.", []),
        ("**`spark/`** is `parts.py`.", ["parts.py (at spark)"]),
        ("**`broker/api/`** has `models/`.", ["models/ (at broker/api)"]),
        ("All stands in `session.py`.", ["session.py (at .)"]),
    ],
)
def test_a_file_elsewhere_is_noticed(paragraph: str, missing: list[str]) -> None:
    assert misplaced(paragraph, PYTHON) == missing


def test_files_in_sentences_of_a_trip_exist() -> None:
    missing = []
    for step in STEP.finditer(section("Six trips")):
        bases = (REPOSITORY, PYTHON, CORE, (REPOSITORY / step["file"]).parent)
        names = [name for name in CODE.findall(step["text"]) if re.fullmatch(r"[\w/-]+\.(py|rs)", name)]
        missing += [f"{step['file']}: {name}" for name in names if not any((base / name).is_file() for base in bases)]
    assert not missing, "; ".join(missing)


def _packages(root: Path) -> set[str]:
    return {f"{file.parent.relative_to(root).as_posix()}/" for file in root.glob("*/__init__.py")}


def test_every_python_package_has_its_paragraph() -> None:
    paragraphs = set(re.findall(r"\*\*`([^`]+/)`\*\*", section("Python, folder by folder")))
    expected = _packages(PYTHON)
    for whole in ("broker", "overlay/onyx"):
        expected |= {f"{whole}/{name}" for name in _packages(PYTHON / whole)}
    assert paragraphs == expected


def test_every_rust_module_has_its_paragraph() -> None:
    text = section("Rust, folder by folder")
    folders = {f"{folder.name}/" for folder in CORE.iterdir() if folder.is_dir()}
    files = {file.name for file in CORE.glob("*.rs")}
    crates = {f"crates/{folder.parent.name}/" for folder in (REPOSITORY / "crates").glob("*/src")} - {
        "crates/twigcast-core/"
    }
    described = set(re.findall(r"\*\*`([^`]+)`\*\*", text))
    assert {name for name in described if name.endswith("/")} == folders | crates
    assert files <= set(CODE.findall(text)), "a file beside the folders is not mentioned"


# The picture

Labels = list[tuple[str, tuple[float, float, float, float]]]
"""Texts, each with its left, top, right and bottom."""


@pytest.fixture(scope="module")
def picture() -> dict[str, Any]:
    pytest.importorskip("matplotlib")
    return runpy.run_path(str(GENERATOR))


def test_the_picture_is_what_its_source_draws(picture: dict[str, Any]) -> None:
    drawn = GENERATOR.with_suffix(".svg").read_text(encoding="utf-8")
    assert picture["svg"]() == drawn, "run python docs/pictures/architecture.py"


def _within(inner: Any, outer: tuple[float, float, float, float]) -> bool:
    left, top, right, bottom = outer
    return bool(left <= inner[0] and top <= inner[1] and inner[2] <= right and inner[3] <= bottom)


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


@pytest.fixture(scope="module")
def labels(picture: dict[str, Any]) -> Labels:
    """Each label with where it stands: left, top, right, bottom."""
    figure = picture["draw"]()
    figure.draw_without_rendering()
    height = picture["HEIGHT"]
    extents = [(text.get_text(), text.get_window_extent()) for text in picture["texts"](figure)]
    return [(text, (box.x0, height - box.y1, box.x1, height - box.y0)) for text, box in extents]


def test_no_label_overprints_another_or_leaves_its_box(picture: dict[str, Any], labels: Labels) -> None:
    boxes = {
        label: (box.left, box.top, box.left + box.width, box.top + box.height)
        for box in picture["BOXES"]
        for label in (box.name, *box.text)
        if label
    }
    for text, place in labels:
        if text in boxes and [name for name, _ in labels].count(text) == 1:
            assert _within(place, boxes[text]), f"{text!r} is wider than its box"
    for number, (text, place) in enumerate(labels):
        for other, its in labels[:number]:
            assert not _overlap(place, its), f"{text!r} overprints {other!r}"


def test_no_arrow_crosses_a_label(picture: dict[str, Any], labels: Labels) -> None:
    for arrow in picture["ARROWS"]:
        for (x, y), (to_x, to_y) in zip(arrow.points, arrow.points[1:], strict=False):
            line = (min(x, to_x) - 1, min(y, to_y) - 1, max(x, to_x) + 1, max(y, to_y) + 1)
            for text, place in labels:
                assert not _overlap(line, place), f"an arrow crosses {text!r}"


def test_what_the_picture_shows_exists(picture: dict[str, Any]) -> None:
    shown = 0
    for box in picture["BOXES"]:
        if box.kind == "outside":
            continue
        frames = [frame.name for frame in picture["FRAMES"] if frame.holds(box)]
        for name in box.name.split():
            if name.startswith("twigcast-"):
                path = REPOSITORY / "crates" / name
            elif box.kind == "rust":
                path = CORE / name
            else:
                path = PYTHON.joinpath(*frames, name)
            assert path.exists(), f"{path.relative_to(REPOSITORY)} does not exist"
            shown += 1
    assert shown > len(picture["BOXES"]) / 2


# The glossary


def glossary_rows() -> list[tuple[str, str, str]]:
    """The rows of the tables: word, meaning, where."""
    text = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", text, re.M)
    return [row for row in rows if not row[0].startswith(("word", "---"))]


def test_words_of_the_glossary_are_where_it_says() -> None:
    missing = []
    for word, _, where in glossary_rows():
        places = CODE.findall(where)
        assert places or where == "everywhere", f"{word}: where is it at home?"
        missing += [
            f"{word}: {place}"
            for place in places
            if not any((base / place).exists() for base in (PYTHON, CORE, REPOSITORY))
        ]
    assert not missing, "; ".join(missing)


def test_each_word_of_the_glossary_stands_once_and_in_order() -> None:
    words = [word for word, _, _ in glossary_rows()]
    assert len(words) > 100
    assert len(set(words)) == len(words)
    text = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")
    for table in re.findall(r"^\| --- \| --- \| --- \|\n((?:\|.*\n)+)", text, re.M):
        listed = [row.split(" | ")[0].removeprefix("| ").removeprefix("to ").lower() for row in table.splitlines()]
        assert listed == sorted(listed), f"{listed[0]} to {listed[-1]} is not in alphabetical order"
