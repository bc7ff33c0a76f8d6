"""Rules about use: a public name that only tests call belongs to the tests, or goes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.architecture import python_sources, rust_sources
from tests.architecture.python_sources import REPOSITORY, Definition, SourceFile
from tests.architecture.rust_sources import Item, RustFile

_PLAIN_BASES = frozenset(
    {
        *("object", "Protocol", "Generic", "NamedTuple", "TypedDict", "Enum", "IntEnum", "StrEnum"),
        *("Flag", "IntFlag", "ABC", "Exception", "ValueError", "UserWarning", "BaseModel"),
    }
)
"""Bases from outside the package that call no methods of a class by their names."""
_PLAIN_DECORATORS = frozenset(
    {
        *("property", "cached_property", "staticmethod", "classmethod", "abstractmethod", "overload"),
        *("override", "cache", "lru_cache", "contextmanager", "asynccontextmanager", "final"),
        *("dataclass", "setter"),
    }
)
"""Decorators that do not hand the function on to something that calls it."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)

_FACES = ("__init__.py", "errors.py", "spark/__init__.py", "client/__init__.py")
"""The public modules."""

Place = tuple[str, int]
"""A file and a line."""


def _words_of(paths: Iterable[Path]) -> set[str]:
    return {word for path in paths for word in _WORD.findall(path.read_text(encoding="utf-8"))}


def documented_words() -> set[str]:
    """Returns the words in the code of the pages for users."""
    docs = REPOSITORY / "docs"
    pages = [REPOSITORY / "README.md", docs / "tutorial.md"]
    for folder in ("tutorial", "how-to", "reference"):
        pages += (docs / folder).glob("*.md")
    texts = (page.read_text(encoding="utf-8") for page in pages if page.exists())
    return {word for text in texts for code in _CODE.findall(text) for word in _WORD.findall(code)}


def _template_words() -> set[str]:
    return _words_of(python_sources.PACKAGE_FOLDER.rglob("*.html"))


def _called_from_rust(files: Mapping[str, RustFile]) -> set[str]:
    """Returns the words in string literals of the binding, which calls Python by name."""
    binding = (file for file in files.values() if file.crate == "twigcast-python")
    return {word for file in binding for text in file.strings for word in _WORD.findall(text)}


def _is_called_by_others(item: Definition, external_classes: frozenset[str]) -> bool:
    """Returns whether a framework may call a function: it is decorated, or overrides what a class from outside has."""
    if any(decorator not in _PLAIN_DECORATORS for decorator in item.decorators):
        return True
    owner = item.qualified_name.rpartition(".")[0].rpartition(".")[2]
    return item.name.startswith("__") or owner in external_classes


def _classes_with_outside_bases(files: Mapping[str, SourceFile]) -> frozenset[str]:
    bases = {item.name: item.bases for file in files.values() for item in file.definitions if item.kind == "class"}
    external = {
        name for name, own in bases.items() if any(base not in bases and base not in _PLAIN_BASES for base in own)
    }
    while True:
        more = {name for name, own in bases.items() if name not in external and not external.isdisjoint(own)}
        if not more:
            return frozenset(external)
        external |= more


def _unreached(
    candidates: Mapping[str, list[tuple[str, int, int]]], references: Iterable[tuple[str, str, int]]
) -> set[str]:
    """Returns the names that nothing refers to, apart from definitions of such names themselves.

    Args:
        candidates: For each name the definitions: file, first line, last line.
        references: Names with the file and the line that they are read in.
    """
    places: dict[str, list[Place]] = defaultdict(list)
    for name, path, line in references:
        if name in candidates:
            places[name].append((path, line))
    unreached: set[str] = set()
    ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
    while True:
        more = {
            name
            for name, definitions in candidates.items()
            if name not in unreached
            and all(
                any(start <= line <= end for start, end in ranges[path])
                or any(file == path and start <= line <= end for file, start, end in definitions)
                for path, line in places[name]
            )
        }
        if not more:
            return unreached
        unreached |= more
        for name in more:
            for path, start, end in candidates[name]:
                ranges[path].append((start, end))


def python_only_tests(
    files: Mapping[str, SourceFile] | None = None,
    benchmarks: Mapping[str, SourceFile] | None = None,
    used_elsewhere: Callable[[], set[str]] | None = None,
) -> list[str]:
    """Returns the public functions, methods and classes that neither package nor benchmarks use.

    What ``__all__`` lists or a page for users names is for others to use, and so are the methods of classes that the
    public modules export. Code of the lab may be there for tests. A name counts as used wherever an identifier or a
    string equals it, so some that nobody uses are not seen.
    """
    files = files or python_sources.package_files()
    benchmarks = python_sources.benchmark_files() if benchmarks is None else benchmarks
    elsewhere = _used_elsewhere() if used_elsewhere is None else used_elsewhere()
    file_exports = {name for path in _FACES if path in files for name in files[path].exported}
    elsewhere |= {name for file in files.values() for name in file.exported}
    external = _classes_with_outside_bases(files)
    candidates: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    exempt: set[str] = set()
    qualified: dict[str, list[str]] = defaultdict(list)
    for path, file in files.items():
        for item in file.definitions:
            if item.kind not in {"class", "function", "method", "property"} or not item.is_public or item.is_nested:
                continue
            candidates[item.name].append((path, item.line, item.end_line))
            qualified[item.name].append(f"{path}: {item.qualified_name}")
            is_offered = item.qualified_name.partition(".")[0] in file_exports or path.startswith("lab/")
            if is_offered or item.name in elsewhere or _is_called_by_others(item, external):
                exempt.add(item.name)
    references = [
        (name, f"{prefix}{path}", line)
        for prefix, group in (("", files), ("benchmarks/", benchmarks))
        for path, file in group.items()
        for name, line in file.references
    ]
    considered = {name: definitions for name, definitions in candidates.items() if name not in exempt}
    return sorted(entry for name in _unreached(considered, references) for entry in qualified[name])


def _used_elsewhere() -> set[str]:
    return documented_words() | _template_words() | _called_from_rust(rust_sources.crate_files())


def _programs() -> list[tuple[str, str, int]]:
    """Returns the identifiers in the programs that measure the crates."""
    references = []
    for path in sorted(rust_sources.CRATES_FOLDER.glob("*/examples/**/*.rs")):
        relative = path.relative_to(rust_sources.CRATES_FOLDER).as_posix()
        file = rust_sources.read_source(relative, path.read_text(encoding="utf-8"))
        references += [(name, relative, line) for name, line, _ in file.identifiers]
    return references


def rust_only_tests(
    files: Mapping[str, RustFile] | None = None, used_elsewhere: Callable[[], set[str]] | None = None
) -> list[str]:
    """Returns the public Rust functions that neither crates, measuring programs nor Python use."""
    programs = _programs() if files is None else []
    files = files or rust_sources.crate_files()
    python_words = _words_used_in_python() if used_elsewhere is None else used_elsewhere()
    candidates: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    qualified: dict[str, list[str]] = defaultdict(list)
    exempt: set[str] = set()
    references = programs
    for path, file in files.items():
        if file.is_test:
            continue
        references += [(name, path, line) for name, line, is_test in file.identifiers if not is_test]
        for item in file.items:
            if item.kind != "fn" or item.is_test or item.is_trait_impl or _is_module(item):
                continue
            python_name = _python_name(file, item)
            if not item.is_public and python_name is None:
                continue
            candidates[item.name].append((path, item.line, item.end_line))
            qualified[item.name].append(f"{path}: {item.owner}::{item.name}".replace(": ::", ": "))
            if python_name is not None and (python_name in python_words or python_name.startswith("__")):
                exempt.add(item.name)
    considered = {name: definitions for name, definitions in candidates.items() if name not in exempt}
    # The line of a definition holds the name itself; it lies in the range of the definition.
    return sorted(entry for name in _unreached(considered, references) for entry in qualified[name])


def _words_used_in_python() -> set[str]:
    files = [*python_sources.package_files().values(), *python_sources.benchmark_files().values()]
    return {name for file in files for name, _ in file.references}


def _is_module(item: Item) -> bool:
    return any(attribute.startswith("pymodule") for attribute in item.attributes)


def _python_name(file: RustFile, item: Item) -> str | None:
    """Returns the name by which Python may call a function of the binding; ``None`` if it cannot."""
    attributes = " ".join(item.attributes)
    if file.crate != "twigcast-python" or (item.is_public and "pyfunction" not in attributes):
        return None
    renamed = re.search(r'name = "(\w+)"', attributes)
    return item.name.removeprefix("r#") if renamed is None else renamed[1]
