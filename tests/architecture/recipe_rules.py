"""Rules about extensions: what ``docs/extending/`` tells to add is all there, for each thing that is there now."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture import python_sources, rust_sources
from tests.architecture.python_sources import REPOSITORY, SourceFile
from tests.architecture.rust_sources import RustFile

TESTS = REPOSITORY / "tests"
DOCS = REPOSITORY / "docs"
CORPUS_OF_FUNCTIONS = TESTS / "corpus" / "xpath" / "functions.toml"

RECIPES = {
    "an XPath function": "query/functions.rs",
    "a delivery channel": "delivery/channels.py",
    "a Spark source": "spark/sources",
    "a Spark sink": "spark/sinks",
    "an overlay protocol": "lab/overlays/options.py",
    "a published figure": "lab/experiments",
    "an error": "errors.py",
}
"""What can be added, and a path that its page names."""


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@cache
def _test_texts() -> dict[str, str]:
    """Returns the tests of the package by path, without those of the house rules."""
    return {
        path.relative_to(TESTS).as_posix(): _text(path)
        for path in sorted(TESTS.rglob("test_*.py"))
        if path.parent.name != "architecture"
    }


def _is_tested(word: str) -> bool:
    pattern = re.compile(rf"\b{re.escape(word)}\b")
    return any(pattern.search(text) for text in _test_texts().values())


def recipe_pages() -> list[str]:
    """Returns the recipes that no page in ``docs/extending/`` tells."""
    pages = [_text(page) for page in (DOCS / "extending").glob("*.md")]
    return [recipe for recipe, path in RECIPES.items() if not any(path in page for page in pages)]


# --- an XPath function ------------------------------------------------------------------------------------------------


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _core(path: str) -> RustFile | None:
    return rust_sources.crate_files().get(f"twigcast-core/src/{path}")


def xpath_functions() -> list[str]:
    """Returns the places that a function of XPath misses: its row, its evaluation, a case, its line in the docs."""
    variants = [
        item.name
        for file in rust_sources.crate_files().values()
        for item in file.items
        if file.crate == "twigcast-core" and item.kind == "variant" and item.owner == "Function"
    ]
    if not variants:
        return ["the core has no enum Function"]
    table, evaluation = _core("query/functions.rs"), _core("eval/functions.rs")
    rows = {text.strip('"') for text in table.strings} if table else set()
    arms = (
        {path[-1] for path, _, is_test in evaluation.paths if not is_test and path[0] in {"F", "Function", "Self"}}
        if evaluation
        else set()
    )
    cases = _text(CORPUS_OF_FUNCTIONS)
    page = _text(DOCS / "reference" / "query-language.md")
    is_generated = "```{xpath-functions}" in page
    offenders = []
    for variant in variants:
        name = _kebab(variant)
        call = re.compile(rf"(?<![\w-]){name}\(")
        if name not in rows:
            offenders.append(f"{name}: no row in query/functions.rs")
        if variant not in arms:
            offenders.append(f"{name}: not evaluated in eval/functions.rs")
        if not call.search(cases):
            offenders.append(f"{name}: no case in tests/corpus/xpath/functions.toml")
        if not is_generated and not call.search(page):
            offenders.append(f"{name}: not in docs/reference/query-language.md")
    return offenders


# --- a delivery channel -----------------------------------------------------------------------------------------------


def _classes(file: SourceFile) -> Iterator[tuple[str, tuple[str, ...]]]:
    for item in file.definitions:
        if item.kind == "class" and item.is_public:
            yield item.name, item.bases


def _registers(registry: SourceFile | None, name: str) -> bool:
    return registry is not None and any(word == name for word, _ in registry.references)


def delivery_channels() -> list[str]:
    """Returns the places that a delivery channel misses: the registry, a how-to page, a test."""
    files = python_sources.package_files()
    registry = files.get("broker/delivery/channels.py")
    offenders = [] if registry else ["broker/delivery/channels.py: there is no registry"]
    channels = [
        (path, name)
        for path, file in files.items()
        if path.startswith("broker/delivery/")
        for name, bases in _classes(file)
        if "Protocol" not in bases and ("Channel" in bases or re.fullmatch(r"\w+Channel", name))
    ]
    if not channels:
        return [*offenders, "broker/delivery/: no class implements Channel"]
    pages = {page: _text(page) for page in (DOCS / "how-to").glob("*.md")}
    for path, name in channels:
        kind = name.removesuffix("Channel").lower()
        if not _registers(registry, name):
            offenders.append(f"{path}: {name} is not in broker/delivery/channels.py")
        if not any(kind in page.stem.replace("-", "") or f'"{kind}"' in text for page, text in pages.items()):
            offenders.append(f"{path}: no page in docs/how-to is about {kind}")
        if not any(kind in path and path.startswith("broker/") for path in _test_texts()):
            offenders.append(f"{path}: no file in tests/broker tests {kind}")
    return offenders


# --- a Spark source or sink -------------------------------------------------------------------------------------------


def spark_sources_and_sinks() -> list[str]:
    """Returns the places that a Spark source or sink misses: the line in its folder's ``__init__``, a test."""
    files = python_sources.package_files()
    offenders = []
    for folder, base in (("spark/sources", "Source"), ("spark/sinks", "Sink")):
        registry = files.get(f"{folder}/__init__.py")
        if registry is None:
            offenders.append(f"{folder}/: there is no such folder")
            continue
        found = [
            (path, name)
            for path, file in files.items()
            if path.startswith(f"{folder}/") and path != f"{folder}/__init__.py"
            for name, bases in _classes(file)
            if "Protocol" not in bases and (base in bases or re.fullmatch(rf"\w+{base}", name))
        ]
        if not found:
            offenders.append(f"{folder}/: no class implements {base}")
        for path, name in found:
            if not _registers(registry, name):
                offenders.append(f"{path}: {name} is not in {folder}/__init__.py")
            if not _is_tested(name) and not _is_tested(path.rpartition("/")[2].removesuffix(".py")):
                offenders.append(f"{path}: no test names {name} or its module")
    return offenders


# --- an overlay protocol ----------------------------------------------------------------------------------------------


def _folders(prefix: str) -> set[str]:
    files = python_sources.package_files()
    below = (path.removeprefix(prefix).split("/") for path in files if path.startswith(prefix))
    return {parts[0] for parts in below if len(parts) > 1}


def overlay_protocols() -> list[str]:
    """Returns the places that an overlay protocol misses: one of its two folders, its options, a test."""
    protocols, scenarios = _folders("overlay/"), _folders("lab/overlays/")
    options = python_sources.package_files().get("lab/overlays/options.py")
    rows = " ".join(item.name for item in options.definitions if item.kind == "class").lower() if options else ""
    offenders = []
    for name in sorted(protocols | scenarios):
        if name not in protocols:
            offenders.append(f"{name}: no folder overlay/{name}")
        if name not in scenarios:
            offenders.append(f"{name}: no folder lab/overlays/{name}")
        if f"{name}options" not in rows:
            offenders.append(f"{name}: no options in lab/overlays/options.py")
        if not any(name in path for path in _test_texts()):
            offenders.append(f"{name}: no test has it in its path")
    return offenders


# --- a published figure -----------------------------------------------------------------------------------------------


def published_figures() -> list[str]:
    """Returns the figures that need more than their module: no other file of the package names it.

    The registry finds the modules of a publication by itself; it has to name the publication.
    """
    files = python_sources.package_files()
    root = "lab/experiments/"
    figures = {
        path: file
        for path, file in files.items()
        if path.startswith(root) and any(item.qualified_name == "EXPERIMENTS" for item in file.definitions)
    }
    registry = files.get(f"{root}framework/registry.py")
    if registry is None or not figures:
        return [f"{root}: no registry, or no module that defines EXPERIMENTS"]
    named = {name for file in (registry,) for name, _ in file.references} | _strings(f"{root}framework/registry.py")
    imported = {target for targets in python_sources.import_graph(files).values() for target in targets}
    offenders = [f"{path}: another file imports it" for path in sorted(figures) if path in imported]
    publications = sorted({path.split("/")[2] for path in figures} - named)
    return offenders + [f"{root}{publication}/: not in the registry" for publication in publications]


def _strings(path: str) -> set[str]:
    text = _text(python_sources.PACKAGE_FOLDER / path)
    return set(re.findall(r"\w+", " ".join(re.findall(r'"([^"\n]*)"', text))))


# --- an error ---------------------------------------------------------------------------------------------------------


def errors_with_cases() -> list[str]:
    """Returns the classes of errors that neither ``tests/test_errors.py`` nor a case of the corpus makes."""
    file = python_sources.package_files()["errors.py"]
    bases = {item.name: item.bases for item in file.definitions if item.kind == "class" and item.is_public}
    abstract = {base for own in bases.values() for base in own}
    examples = set(re.findall(r"\berrors\.(\w+)\(", _text(TESTS / "test_errors.py")))
    corpus = " ".join(_text(path) for path in (TESTS / "corpus").rglob("*.toml"))
    code = re.compile(r'^class (\w+)\(.*?^    code = "([\w-]+)"', re.MULTILINE | re.DOTALL)
    codes = dict(code.findall(_text(python_sources.PACKAGE_FOLDER / "errors.py")))
    return [
        name
        for name in bases
        if name not in abstract
        and _is_error(name, bases)
        and name not in examples
        and f'"{codes.get(name, "-")}"' not in corpus
    ]


def _is_error(name: str, bases: dict[str, tuple[str, ...]]) -> bool:
    return name == "TwigcastError" or any(_is_error(base, bases) for base in bases.get(name, ()))
