"""Rules about documentation and length: first lines are sentences, and functions stay short."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tests.architecture import python_sources, rust_sources
from tests.architecture.python_sources import Definition, SourceFile
from tests.architecture.rust_sources import Item, RustFile

FUNCTION_LINES_MAX = 69

_NOUNS = frozenset(
    {
        *("across", "afterwards", "always", "as", "atoms", "attachments", "besides", "bits", "brokers"),
        *("bytes", "columns", "conditions", "conjunctions", "deliveries", "documents", "entries", "files"),
        *("hops", "horizons", "hosts", "identifiers", "integers", "items", "its", "keys", "kinds", "lanes"),
        *("less", "levels", "lines", "lists", "messages", "milliseconds", "names", "namespaces"),
        *("neighbours", "nodes", "numbers", "offsets", "options", "others", "otherwise", "pairs"),
        *("parameters", "parents", "partitions", "parts", "pauses", "payloads", "peers", "perhaps"),
        *("places", "plus", "queries", "requests", "responses", "rows", "seconds", "settings", "sizes"),
        *("sometimes", "spans", "subscriptions", "substrings", "tables", "tenants", "texts", "this", "thus"),
        *("tokens", "towards", "transitions", "tuples", "unless", "us", "words", "yes"),
    }
)
"""Words that end in ``s`` and begin no sentence as a verb in this project."""
_BEHIND_NOUNS = frozenset({"of", "that", "which", "whose", "are", "were", "and"})
_QUESTIONS = frozenset(
    {
        *("what", "where", "why", "how", "who", "whom", "whose", "whether", "if", "when", "is", "are"),
        *("was", "does", "do", "did", "can", "could", "has", "have", "had", "should", "must", "may"),
        *("it", "this", "that", "these", "those", "here", "there", "and", "or", "but", "not", "to"),
        *("than", "so", "as"),
    }
)
"""Words that begin a question, a clause or a riddle, but no noun phrase."""
_COMMANDS = re.compile(r"cli/|(.*/)?commands\.py|broker/admin\.py")
"""Files whose docstrings are the help of commands, in the imperative as in other programs."""


def _first_words(text: str) -> tuple[str, str]:
    first, second, *_ = [*re.findall(r"[\w'\-`]+", text)[:2], "", ""]
    return first, second.lower()


def begins_with_verb(text: str) -> bool:
    """Returns whether a sentence begins with a verb in the third person, such as ``Returns``."""
    first, second = _first_words(text)
    if re.fullmatch(r"[A-Z][a-z\-]*s", first) is None or first.endswith("ss"):
        return False
    return first.lower() not in _NOUNS and second not in _BEHIND_NOUNS


def is_sentence(text: str, *, needs_verb: bool) -> bool:
    """Returns whether a first line is a sentence as the glossary asks: a verb first, or for types a noun phrase."""
    if not text.endswith("."):
        return False
    if needs_verb:
        return begins_with_verb(text)
    first = _first_words(text)[0]
    begins_well = first[:1].isupper() or first[:1].isdigit() or text[:1] in "`*:"
    return begins_well and first.lower() not in _QUESTIONS


def python_first_lines(files: Mapping[str, SourceFile] | None = None) -> list[str]:
    """Returns the public modules, classes and functions whose docstring begins otherwise."""
    offenders = []
    for path, file in (files or python_sources.package_files()).items():
        if file.first_line is not None and not is_sentence(file.first_line, needs_verb=False):
            offenders.append(f"{path}: the module")
        offenders += [f"{path}: {item.qualified_name}" for item in file.definitions if _is_offender(path, item)]
    return offenders


def _is_offender(path: str, item: Definition) -> bool:
    if not item.is_public or item.first_line is None:
        return False
    if item.kind in {"function", "method"} and _COMMANDS.match(path):
        return not item.first_line.endswith(".")
    return not is_sentence(item.first_line, needs_verb=item.kind in {"function", "method"})


_PUBLICATION = re.compile(r"lab/experiments/(?!framework/|reporting/)\w+/")
"""The folders of publications: their modules are named after figures, which need no map."""


def package_maps(files: Mapping[str, SourceFile] | None = None) -> list[str]:
    """Returns the modules and packages that the docstring of their package does not name: it is a map of the folder."""
    files = files or python_sources.package_files()
    offenders = []
    for path in files:
        folder, _, name = path.removesuffix("/__init__.py").rpartition("/")
        package = files.get(f"{folder}/__init__.py" if folder else "__init__.py")
        stem = name.removesuffix(".py")
        if package is None or stem.startswith("__") or _PUBLICATION.match(path.removesuffix("__init__.py")):
            continue
        if re.search(rf"`{stem}(?:\.py|/)?`", package.docstring) is None:
            offenders.append(f"{package.path}: {stem}")
    return sorted(offenders)


def rust_first_lines(files: Mapping[str, RustFile] | None = None) -> list[str]:
    """Returns the modules and public items of Rust whose documentation begins otherwise."""
    offenders = []
    for path, file in (files or rust_sources.crate_files()).items():
        if file.is_test:
            continue
        if file.doc and not is_sentence(_first_sentence(file.doc), needs_verb=False):
            offenders.append(f"{path}: the module")
        offenders += [
            f"{path}: {item.owner}::{item.name}".replace(": ::", ": ")
            for item in file.items
            if item.is_public and not item.is_test and item.doc and not _is_rust_sentence(item)
        ]
    return offenders


def _is_rust_sentence(item: Item) -> bool:
    return is_sentence(_first_sentence(item.doc), needs_verb=item.kind == "fn")


def _first_sentence(paragraph: str) -> str:
    """Returns the first sentence of a paragraph, or all of it if no full stop ends one."""
    match = re.match(r".*?\.(?=\s|$)", paragraph)
    return paragraph if match is None else match.group()


def long_functions(
    python: Mapping[str, SourceFile] | None = None, rust: Mapping[str, RustFile] | None = None
) -> list[str]:
    """Returns the functions of 70 lines and more, docstrings not counted. Tests are left out."""
    return sorted(
        [*_long_python(python or python_sources.package_files()), *_long_rust(rust or rust_sources.crate_files())]
    )


def _long_python(files: Mapping[str, SourceFile]) -> Iterator[str]:
    for path, file in files.items():
        for item in file.definitions:
            if item.code_lines > FUNCTION_LINES_MAX:
                yield f"{path}: {item.qualified_name}"


def _long_rust(files: Mapping[str, RustFile]) -> Iterator[str]:
    for path, file in files.items():
        if file.is_test:
            continue
        for item in file.items:
            if item.kind == "fn" and not item.is_test and item.end_line - item.line + 1 > FUNCTION_LINES_MAX:
                yield f"{path}: {item.owner}::{item.name}".replace(": ::", ": ")
