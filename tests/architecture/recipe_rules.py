"""Rules about extensions: what ``docs/extending/`` tells to add is all there, for each thing that is there now."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
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


def recipe_pages() -> list[str]:
    """Returns the recipes that no page in ``docs/extending/`` tells."""
    pages = [_text(page) for page in (DOCS / "extending").glob("*.md")]
    return [recipe for recipe, path in RECIPES.items() if not any(path in page for page in pages)]


# --- an XPath function ------------------------------------------------------------------------------------------------


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _letters(name: str) -> str:
    return name.replace("-", "").replace(":", "").lower()


def _core(path: str) -> RustFile | None:
    return rust_sources.crate_files().get(f"twigcast-core/src/{path}")


def _cases_by_outcome() -> dict[str, list[str]]:
    """Returns the queries of the cases of functions that match, or select something, and of those that do not."""
    queries: dict[str, list[str]] = {"a case that matches": [], "a case that does not match": []}
    for case in tomllib.loads(_text(CORPUS_OF_FUNCTIONS)).get("case", []):
        if "error" not in case:
            holds = next(case[field] for field in ("matches", "nodes", "count") if field in case)
            queries["a case that matches" if holds else "a case that does not match"].append(case["query"])
    return queries


def xpath_functions() -> list[str]:
    """Returns the places that a function of XPath misses: its row, its evaluation, cases, its line in the docs."""
    variants = [
        item.name
        for file in rust_sources.crate_files().values()
        for item in file.items
        if file.crate == "twigcast-core" and item.kind == "variant" and item.owner == "Function"
    ]
    if not variants:
        return ["the core has no enum Function"]
    table, evaluation = _core("query/functions.rs"), _core("eval/functions.rs")
    rows = {_letters(text): text for text in (text.strip('"') for text in table.strings)} if table else {}
    arms = (
        {path[-1] for path, _, is_test in evaluation.paths if not is_test and path[0] in {"F", "Function", "Self"}}
        if evaluation
        else set()
    )
    cases = _cases_by_outcome()
    page = _text(DOCS / "reference" / "query-language.md")
    is_generated = "```{xpath-functions}" in page
    offenders = []
    for variant in variants:
        name = rows.get(variant.lower(), _kebab(variant))
        # Behind the name of an operator stands its right side.
        call = re.compile(rf"(?<![\w-]){name}[( ]")
        if name not in rows.values():
            offenders.append(f"{name}: no row in query/functions.rs")
        if variant not in arms:
            offenders.append(f"{name}: not evaluated in eval/functions.rs")
        offenders += [
            f"{name}: not {outcome} in tests/corpus/xpath/functions.toml"
            for outcome, queries in cases.items()
            if not any(call.search(query) for query in queries)
        ]
        if not is_generated and not call.search(page):
            offenders.append(f"{name}: not in docs/reference/query-language.md")
    return offenders


# --- a delivery channel -----------------------------------------------------------------------------------------------

REGISTRY_OF_CHANNELS = "broker/delivery/channels.py"


def _classes(file: SourceFile) -> Iterator[tuple[str, tuple[str, ...]]]:
    for item in file.definitions:
        if item.kind == "class" and item.is_public:
            yield item.name, item.bases


def _registers(registry: SourceFile | None, name: str) -> bool:
    return registry is not None and any(word == name for word, _ in registry.references)


def _is_channel(file: SourceFile, name: str, bases: tuple[str, ...]) -> bool:
    if "Protocol" in bases:
        return False
    parameters = {f"{name}.send.subscription", f"{name}.send.deliveries"}
    sends = parameters <= {item.qualified_name for item in file.definitions if item.kind == "parameter"}
    return sends or "Channel" in bases or name.endswith("Channel")


def _channels(files: Mapping[str, SourceFile]) -> list[tuple[str, str]]:
    return [
        (path, name)
        for path, file in files.items()
        if path.startswith("broker/delivery/")
        for name, bases in _classes(file)
        if _is_channel(file, name, bases)
    ]


def delivery_channels() -> list[str]:
    """Returns the places that a delivery channel misses: the registry, a how-to page, a test."""
    files = python_sources.package_files()
    registry = files.get(REGISTRY_OF_CHANNELS)
    offenders = [] if registry else [f"{REGISTRY_OF_CHANNELS}: there is no registry"]
    channels = _channels(files)
    if not channels:
        return [*offenders, "broker/delivery/: no class implements Channel"]
    pages = {page: _text(page) for page in (DOCS / "how-to").glob("*.md")}
    for path, name in channels:
        kind = name.removesuffix("Channel").lower()
        if not _registers(registry, name):
            offenders.append(f"{path}: {name} is not in {REGISTRY_OF_CHANNELS}")
        if not any(kind in page.stem.replace("-", "") or f'"{kind}"' in text for page, text in pages.items()):
            offenders.append(f"{path}: no page in docs/how-to is about {kind}")
        if f"broker/delivery/test_{kind}_channel.py" not in _test_texts():
            offenders.append(f"{path}: there is no tests/broker/delivery/test_{kind}_channel.py")
    return offenders


def kinds_of_delivery() -> list[str]:
    """Returns the files of broker and client that compare a kind of delivery instead of asking the registry."""
    files = python_sources.package_files()
    kinds = {"pull", *(name.removesuffix("Channel").lower() for _, name in _channels(files))}
    return [
        f"{path}: compares with {kind!r}"
        for path, file in files.items()
        if path.startswith(("broker/", "client/")) and path != REGISTRY_OF_CHANNELS
        for kind in sorted(kinds & file.compared)
        if not path.startswith(f"broker/delivery/{kind}")
    ]


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
            if not {"ABC", "Protocol"} & set(bases) and (base in bases or re.fullmatch(rf"\w+{base}", name))
        ]
        if not found:
            offenders.append(f"{folder}/: no class implements {base}")
        for path, name in found:
            if not _registers(registry, name):
                offenders.append(f"{path}: {name} is not in {folder}/__init__.py")
            test = f"{folder}/test_{path.rpartition('/')[2]}"
            if test not in _test_texts():
                offenders.append(f"{path}: there is no tests/{test}")
    return offenders


# --- an overlay protocol ----------------------------------------------------------------------------------------------


def _folders(prefix: str) -> set[str]:
    files = python_sources.package_files()
    below = (path.removeprefix(prefix).split("/") for path in files if path.startswith(prefix))
    return {parts[0] for parts in below if len(parts) > 1}


def overlay_protocols() -> list[str]:
    """Returns what an overlay protocol lacks: one of its folders, its scenario, its function, its options, a test."""
    protocols, scenarios = _folders("overlay/"), _folders("lab/overlays/")
    files = python_sources.package_files()
    options = files.get("lab/overlays/options.py")
    classes = {item.name.lower() for item in options.definitions if item.kind == "class"} if options else set()
    rows = {name for name, _ in options.references} if options else set()
    offenders = []
    for name in sorted(protocols | scenarios):
        if name not in protocols:
            offenders.append(f"{name}: no folder overlay/{name}")
        if name not in scenarios:
            offenders.append(f"{name}: no folder lab/overlays/{name}")
        if f"{name}options" not in classes or name not in rows:
            offenders.append(f"{name}: no options, or no row, in lab/overlays/options.py")
        if f"lab/overlays/{name}/scenario.py" not in files:
            offenders.append(f"{name}: no lab/overlays/{name}/scenario.py")
        simulation = files.get(f"lab/overlays/{name}/simulate.py")
        if simulation is None or "simulate" not in {item.name for item in simulation.definitions}:
            offenders.append(f"{name}: no function simulate in lab/overlays/{name}/simulate.py")
        if not any(path.startswith((f"lab/overlays/{name}/", f"overlay/{name}/")) for path in _test_texts()):
            offenders.append(f"{name}: no test in tests/lab/overlays/{name} or tests/overlay/{name}")
    return offenders


CLOCKS_AND_SOCKETS = frozenset(
    {
        *("asyncio", "datetime", "grpc", "http", "httpx2", "select", "selectors", "socket", "ssl", "subprocess"),
        *("threading", "time", "urllib.request"),
    }
)


def _prefixes(module: str) -> Iterator[str]:
    yield module
    while "." in module:
        module = module.rpartition(".")[0]
        yield module


def protocols_with_input() -> list[str]:
    """Returns the files of protocols that import a clock, a socket or another protocol: drivers have these."""
    protocols = _folders("overlay/")
    offenders = []
    graph = python_sources.import_graph(python_sources.package_files())
    for path, file in python_sources.package_files().items():
        parts = path.split("/")
        if parts[0] != "overlay" or parts[1] not in protocols or "network" in parts:
            continue
        modules = {name for item in file.imports for name in _prefixes(item.module)} & CLOCKS_AND_SOCKETS
        offenders += [f"{path}: {module}" for module in sorted(modules)]
        others = {target.split("/")[1] for target in graph[path] if target.startswith("overlay/")}
        offenders += [f"{path}: overlay/{other}" for other in sorted(others & protocols - {parts[1]})]
    return offenders


# --- a published figure -----------------------------------------------------------------------------------------------


EXPERIMENTS = "lab/experiments/"


def _publications(registry: str) -> set[str]:
    """Returns the publications that the registry lists in ``PACKAGES``."""
    match = re.search(r"^PACKAGES = \((.*?)^\)", registry, re.MULTILINE | re.DOTALL)
    return set(re.findall(r'experiments\.(\w+)"', match[1])) if match else set()


def published_figures() -> list[str]:
    """Returns the modules of publications that are no figure and serve none, and figures without claims or own ids.

    The registry finds the modules of a publication by itself. A module that others import is there for these.
    """
    files = python_sources.package_files()
    publications = _publications(_text(python_sources.PACKAGE_FOLDER / EXPERIMENTS / "framework" / "registry.py"))
    if not publications:
        return [f"{EXPERIMENTS}framework/registry.py: no PACKAGES"]
    imported = {target for targets in python_sources.import_graph(files).values() for target in targets}
    offenders: list[str] = []
    ids: Counter[str] = Counter()
    for path, file in files.items():
        parts = path.removeprefix(EXPERIMENTS).split("/")
        if not path.startswith(EXPERIMENTS) or parts[0] not in publications or parts[-1] == "__init__.py":
            continue
        if not any(item.qualified_name == "EXPERIMENTS" for item in file.definitions):
            offenders += [] if path in imported else [f"{path}: defines no EXPERIMENTS, and nothing imports it"]
            continue
        offenders += [f"{path}: {complaint}" for complaint in _complaints(path, ids)]
    return [*offenders, *(f"{name}: the id of {count} experiments" for name, count in ids.items() if count > 1)]


def _complaints(path: str, ids: Counter[str]) -> Iterator[str]:
    tree = ast.parse(_text(python_sources.PACKAGE_FOLDER / path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Experiment":
            values = {keyword.arg: keyword.value for keyword in node.keywords}
            match values.get("id"):
                case ast.Constant(value=str(name)):
                    ids[name] += 1
                case None:
                    yield "an experiment has no id"
            match values.get("claims"):
                case None | ast.Tuple(elts=[]):
                    yield "an experiment makes no claim"


# --- an error ---------------------------------------------------------------------------------------------------------


def errors_with_cases() -> list[str]:
    """Returns the places that a class of errors misses: its code, the tree, ``__all__``, and what causes it in a test.

    A class from which others are derived needs no test.
    """
    file = python_sources.package_files()["errors.py"]
    classes = {item.name: item.bases for item in file.definitions if item.kind == "class" and item.is_public}
    errors = [name for name in classes if _is_error(name, classes)]
    abstract = {base for bases in classes.values() for base in bases}
    text = _text(python_sources.PACKAGE_FOLDER / "errors.py")
    code = re.compile(r'^class (\w+)\b(?:(?!^class ).)*?^    code(?:: [^=\n]+)? = "([\w-]+)"', re.MULTILINE | re.DOTALL)
    codes = dict(code.findall(text))
    counts = Counter(codes.values())
    tree = set(re.findall(r"\w+", text.split('"""')[1]))
    caused = set(re.findall(r"\berrors\.(\w+)\(", _text(TESTS / "test_errors.py")))
    corpus = " ".join(_text(path) for path in (TESTS / "corpus").rglob("*.toml"))
    offenders = []
    for name in errors:
        own = codes.get(name)
        if own is None or counts[own] > 1:
            offenders.append(f"{name}: no code of its own")
        if name not in tree:
            offenders.append(f"{name}: not in the tree at the head of errors.py")
        if name not in file.exported:
            offenders.append(f"{name}: not in __all__")
        if name not in abstract and name not in caused and f'"{own}"' not in corpus:
            offenders.append(f"{name}: no case in tests/corpus or tests/test_errors.py")
    return offenders


def _is_error(name: str, bases: dict[str, tuple[str, ...]]) -> bool:
    return name == "TwigcastError" or any(_is_error(base, bases) for base in bases.get(name, ()))
