"""Rules about names: one type for each name, and no word that the glossary gave up."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tests.architecture import python_sources, rust_sources
from tests.architecture.python_sources import SourceFile
from tests.architecture.rust_sources import RustFile

UNUSED_WORDS = frozenset(
    {
        *("told", "hear", "given", "known", "made", "found", "wish", "want", "way", "place", "thing", "crowd"),
        *("bury", "revive", "late", "lent", "room"),
        *("hears", "wishes", "wants", "ways", "things", "crowds", "buries", "revives", "rooms"),
    }
)
"""Words that no public name holds, as the glossary lists them. Places may also be those on a map."""
UNUSED_ALONE = frozenset({"look"})
"""Words that are no name by themselves, and may be part of one (``look_up``)."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def words(name: str) -> list[str]:
    """Returns the words of a name in snake case or camel case, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


@functools.cache
def has_unused_word(name: str) -> bool:
    """Returns whether a name holds a word that the glossary gave up."""
    parts = words(name)
    return not UNUSED_WORDS.isdisjoint(parts) or (len(parts) == 1 and parts[0] in UNUSED_ALONE)


def _stub() -> dict[str, SourceFile]:
    path = python_sources.PACKAGE_FOLDER / "_core.pyi"
    return {path.name: python_sources.read_source(path.name, path.read_text(encoding="utf-8"))}


def python_words(files: Mapping[str, SourceFile] | None = None) -> list[str]:
    """Returns the public Python names that hold such a word: of modules, classes, functions, attributes, parameters."""
    files = files or {**python_sources.package_files(), **_stub()}
    offenders = set()
    for path, file in files.items():
        stem = path.removesuffix("/__init__.py").rpartition("/")[2].removesuffix(".py")
        if has_unused_word(stem):
            offenders.add(f"{path}: its name")
        for item in file.definitions:
            if item.is_public and has_unused_word(item.name):
                offenders.add(f"{path}: {item.qualified_name}")
    return sorted(offenders)


def rust_words(files: Mapping[str, RustFile] | None = None) -> list[str]:
    """Returns the public Rust names that hold such a word: of modules, types, functions, fields, constants."""
    offenders = set()
    for path, file in (files or rust_sources.crate_files()).items():
        if file.is_test:
            continue
        if file.module and has_unused_word(file.module[-1]):
            offenders.add(f"{path}: its name")
        for item in file.items:
            if item.is_public and not item.is_test and has_unused_word(item.name):
                offenders.add(f"{path}: {item.owner}::{item.name}".replace(": ::", ": "))
    return sorted(offenders)


# --- one type for each name -------------------------------------------------------------------------------------------


def _duplicates(places: Mapping[str, list[str]]) -> list[str]:
    return sorted(f"{name}: {' '.join(sorted(paths))}" for name, paths in places.items() if len(paths) > 1)


def _repeats_names(path: str) -> bool:
    """Returns whether a file may repeat the names of others: the client does, and the published algorithms do."""
    return path.startswith(("client/", "lab/reference/"))


def class_names(files: Mapping[str, SourceFile] | None = None) -> list[str]:
    """Returns the class names that occur twice in the package, with their files.

    The client repeats the names of the HTTP resources, and each published algorithm keeps the words of its paper:
    they are compared within the client, and within one algorithm's folder or file.
    """
    places: dict[str, list[str]] = defaultdict(list)
    for path, file in (files or python_sources.package_files()).items():
        prefix = "/".join(path.split("/")[: 1 if path.startswith("client/") else 3]) if _repeats_names(path) else ""
        for item in file.definitions:
            if item.kind == "class":
                places[f"{prefix} {item.name}".strip()].append(path)
    return _duplicates(places)


def rust_type_names(files: Mapping[str, RustFile] | None = None) -> list[str]:
    """Returns the names of types and traits that occur twice in a crate, with their files. Tests are left out."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, file in (files or rust_sources.crate_files()).items():
        if not file.is_test:
            for name in _type_names(file):
                places[f"{file.crate} {name}"].append(path)
    return _duplicates(places)


def _type_names(file: RustFile) -> Iterator[str]:
    for item in file.items:
        if item.kind in {"struct", "enum", "union", "trait", "type"} and not item.owner and not item.is_test:
            yield item.name


def split_impls(files: Mapping[str, RustFile] | None = None) -> list[str]:
    """Returns the Rust types whose ``impl`` lies in more than three files, unless these share one folder."""
    places: dict[str, set[str]] = defaultdict(set)
    for path, file in (files or rust_sources.crate_files()).items():
        if file.is_test:
            continue
        for block in file.impls:
            if block.trait_name is None and not block.is_test:
                places[f"{file.crate} {block.type_name}"].add(path)
    return sorted(
        f"{name}: {' '.join(sorted(paths))}"
        for name, paths in places.items()
        if len(paths) > 3 and len(_folders(paths)) > 1
    )


def _folders(paths: Iterable[str]) -> set[str]:
    return {path.rpartition("/")[0] for path in paths}
