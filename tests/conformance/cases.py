"""The cases of the corpus as values. ``tests/corpus/README.md`` describes the files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

CORPUS: Final = Path(__file__).resolve().parent.parent / "corpus"
FOLDERS: Final = ("xpath", "flwr", "namespaces", "messages", "limits", "sets")
QUERY_KEY: Final = "q"
"""Key of the subscription of a case that has one query only."""

Dialect = Literal["xpath", "legacy", "xquery"]

_SOURCES: Final = {"message", "on", "hex", "file"}
_ONE_QUERY: Final = {"query", "dialect", "xpath", "payload", "undecided", "nodes", "count", "matches"}
_SHARED: Final = {"name", "namespaces", "encoding", "limits", "error", "skip", "verified", *_SOURCES}
_SEVERAL: Final = {"subscriptions", "matches", "nodes", "payload", "undecided"}


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """How a message or a query is refused. What is ``None`` or empty is not compared."""

    code: str
    line: int | None = None
    column: int | None = None
    limit: str | None = None
    contains: str = ""

    @property
    def is_of_query(self) -> bool:
        """Whether the query is refused, not the message."""
        return self.code.startswith(("query", "subscription"))


@dataclass(frozen=True, slots=True)
class CaseQuery:
    """A subscription of a case."""

    key: str
    query: str
    namespaces: Mapping[str, str]
    dialect: Dialect
    xpath: str
    """The same in XPath 1.0, for oracles; the query itself unless the case says otherwise."""

    error: ExpectedError | None

    @property
    def is_flwr(self) -> bool:
        """Whether it makes results; then messages that match it are rewritten."""
        start = self.query.lstrip()
        return start.startswith(("for", "let", "<", "(:", "if", "(for")) and self.dialect == "xpath" and "$" in start


@dataclass(frozen=True, slots=True)
class Case:
    """A message, subscriptions, and what they say of it."""

    name: str
    file: str
    """The file it stands in, relative to the corpus."""

    message: bytes
    encoding: str
    queries: tuple[CaseQuery, ...]
    limits: Mapping[str, int]
    matches: frozenset[str] | None
    nodes: Mapping[str, tuple[str, ...]]
    counts: Mapping[str, int]
    payloads: Mapping[str, str]
    undecided: Mapping[str, str]
    error: ExpectedError | None
    skip: Mapping[str, str]
    verified: str
    """How the expected answer was verified, where that differs from the rest of the folder."""

    @property
    def id(self) -> str:
        """Unique in the corpus."""
        return f"{self.file}: {self.name}"

    @property
    def accepted(self) -> tuple[CaseQuery, ...]:
        """The subscriptions that are accepted."""
        return tuple(query for query in self.queries if query.error is None)

    @property
    def refused(self) -> tuple[CaseQuery, ...]:
        """The subscriptions that are refused."""
        return tuple(query for query in self.queries if query.error is not None)

    @property
    def is_plain(self) -> bool:
        """Whether the message is valid, plain UTF-8."""
        try:
            text = self.message.decode("utf-8")
        except UnicodeDecodeError:
            return False
        return self.encoding == "utf-8" and "\0" not in text


class CaseError(ValueError):
    """A case is written wrongly."""


@dataclass(slots=True)
class _File:
    path: Path
    messages: Mapping[str, Any]
    defaults: dict[str, Any]
    entries: list[dict[str, Any]]

    def cases(self) -> Iterator[Case]:
        file = self.path.relative_to(CORPUS).as_posix()
        for entry in self.entries:
            # A case that has a message of its own does not also have that of the file.
            defaults = {k: v for k, v in self.defaults.items() if k not in _SOURCES or not _SOURCES & entry.keys()}
            case = {**defaults, **entry}
            try:
                if "on" in case:
                    case["message"] = self.messages[case.pop("on")]
                yield case_from(file, case)
            except (CaseError, KeyError) as error:
                raise CaseError(f"{file}: {entry.get('name', entry.get('query'))}: {error}") from error


def files() -> list[str]:
    """The files that hold cases."""
    return sorted(
        path.relative_to(CORPUS).as_posix() for folder in FOLDERS for path in (CORPUS / folder).glob("*.toml")
    )


@cache
def cases_of(file: str) -> tuple[Case, ...]:
    """The cases of one file."""
    path = CORPUS / file
    defaults = tomllib.loads(path.read_text(encoding="utf-8"))
    entries, messages = defaults.pop("case"), defaults.pop("messages", {})
    return tuple(_File(path, messages, defaults, entries).cases())


@cache
def all_cases() -> tuple[Case, ...]:
    """All cases of the corpus."""
    return tuple(case for file in files() for case in cases_of(file))


def case_from(file: str, entry: dict[str, Any]) -> Case:
    """A case from its fields."""
    several = "subscriptions" in entry
    unknown = entry.keys() - _SHARED - (_SEVERAL if several else _ONE_QUERY)
    if unknown:
        raise CaseError(f"unknown fields: {', '.join(sorted(unknown))}")
    error = _error(entry.get("error"))
    queries = tuple(_queries(entry, error if error is not None and error.is_of_query else None))
    expected = _several(entry) if several else _single(entry, error)
    return Case(
        name=entry.get("name") or entry["query"],
        file=file,
        message=_message(entry),
        encoding=entry.get("encoding", "utf-8"),
        queries=queries,
        limits=entry.get("limits", {}),
        error=None if error is None or error.is_of_query else error,
        skip=entry.get("skip", {}),
        verified=entry.get("verified", ""),
        **expected,
    )


def _message(entry: dict[str, Any]) -> bytes:
    sources = _SOURCES & entry.keys()
    if len(sources) != 1:
        raise CaseError("exactly one of message, on, hex and file is due")
    if "hex" in entry:
        return bytes.fromhex(entry["hex"])
    if "file" in entry:
        return CORPUS.joinpath("files", str(entry["file"])).read_bytes()
    encoding: str = entry.get("encoding", "utf-8")
    return text_of(entry["message"]).encode(encoding)


def text_of(parts: str | list[Any]) -> str:
    """A text as cases hold it: as it is, or in parts, of which some are repeated."""
    if isinstance(parts, str):
        return parts
    return "".join(part if isinstance(part, str) else part["repeat"] * part["times"] for part in parts)


def _queries(entry: dict[str, Any], error: ExpectedError | None) -> Iterator[CaseQuery]:
    namespaces = entry.get("namespaces", {})
    if "subscriptions" not in entry:
        query = text_of(entry["query"])
        yield CaseQuery(QUERY_KEY, query, namespaces, entry.get("dialect", "xpath"), entry.get("xpath", query), error)
        return
    for row in entry["subscriptions"]:
        query = text_of(row["query"])
        own = {**namespaces, **row.get("namespaces", {})}
        refused = _error(row.get("error"))
        yield CaseQuery(row["key"], query, own, row.get("dialect", "xpath"), row.get("xpath", query), refused)


def _error(entry: dict[str, Any] | None) -> ExpectedError | None:
    return None if entry is None else ExpectedError(**entry)


def _single(entry: dict[str, Any], error: ExpectedError | None) -> dict[str, Any]:
    told = {name: {QUERY_KEY: entry[name]} if name in entry else {} for name in ("nodes", "payload", "undecided")}
    counts = {QUERY_KEY: entry["count"]} if "count" in entry else {}
    if error is not None:
        matches = None
    elif "matches" in entry:
        matches = bool(entry["matches"])
    elif told["nodes"] or counts:
        matches = bool(entry.get("nodes") or entry.get("count"))
    elif told["payload"]:
        matches = True
    else:
        raise CaseError("nothing is expected: matches, nodes, count, payload or error is due")
    return {
        "matches": None if matches is None else frozenset({QUERY_KEY} if matches else ()),
        "nodes": {key: tuple(nodes) for key, nodes in told["nodes"].items()},
        "counts": counts | {key: len(nodes) for key, nodes in told["nodes"].items()},
        "payloads": told["payload"],
        "undecided": told["undecided"],
    }


def _several(entry: dict[str, Any]) -> dict[str, Any]:
    nodes = {key: tuple(found) for key, found in entry.get("nodes", {}).items()}
    return {
        "matches": None if "error" in entry else frozenset(entry["matches"]),
        "nodes": nodes,
        "counts": {key: len(found) for key, found in nodes.items()},
        "payloads": entry.get("payload", {}),
        "undecided": entry.get("undecided", {}),
    }
