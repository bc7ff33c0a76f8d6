"""Subscriptions in files: JSON lines, CSV and Parquet, with the same columns.

===============  =====================================================================================
``key``          the subscriber's own identifier; needed
``query``        XPath, or For-Where-Return; needed
``namespaces``   prefix to namespace: an object in JSON, JSON text in CSV, a map or a struct in Parquet
``dialect``      ``xpath``, ``legacy`` or ``xquery``
===============  =====================================================================================

Other columns are ignored. Text is UTF-8, with or without a byte order mark, and may be compressed (``.gz``). In place
of a row that is not a subscription there is an error, and reading goes on.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from twigcast.errors import MissingExtra, SubscriptionFileError, TwigcastError, UnknownKey
from twigcast.limits import Limits
from twigcast.registration import DIALECTS, Dialect, Subscription
from twigcast.subscriptions import SubscriptionSet

__all__ = [
    "RefusedSubscriptionRow",
    "SubscriptionFileRow",
    "find_subscription",
    "is_snapshot",
    "load_subscriptions",
    "read_subscriptions",
]

SNAPSHOT_MAGIC: Final = b"TWIGSNAP"
"""The first bytes of a snapshot."""

_CSV_FIELD_CHARACTERS_MAX: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class SubscriptionFileRow:
    """A subscription and its line in a file."""

    line: int
    """Line of a text file, row of a Parquet file, from 1."""

    subscription: Subscription


def read_subscriptions(path: str | os.PathLike[str]) -> Iterator[SubscriptionFileRow | SubscriptionFileError]:
    """Reads the subscriptions of a file, or of a folder of Parquet files.

    Args:
        path: A name ending in ``.csv``, ``.parquet`` or anything else (JSON lines); ``-`` for JSON lines on standard
            input.

    Yields:
        Each row, or the error in place of it.

    Raises:
        SubscriptionFileError: The file cannot be read at all, or lacks a column.
        MissingExtra: It is a Parquet file, and pyarrow is not installed.
    """
    name = os.fspath(path)
    plain_name = name.lower().removesuffix(".gz")
    try:
        if plain_name.endswith(".parquet") or Path(name).is_dir():
            yield from _parquet_rows(name)
            return
        with _open_text(name) as file:
            yield from _csv_rows(name, file) if plain_name.endswith(".csv") else _json_rows(name, file)
    except UnicodeDecodeError as error:
        raise SubscriptionFileError(name, None, f"it is not UTF-8: {error.reason}") from None
    except (OSError, EOFError, ValueError) as error:
        raise SubscriptionFileError(
            name, None, f"it cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None


def _open_text(name: str) -> IO[str]:
    if name == "-":
        return io.StringIO(sys.stdin.buffer.read().decode("utf-8-sig"))
    if name.lower().endswith(".gz"):
        return gzip.open(name, "rt", encoding="utf-8-sig")
    return Path(name).open(encoding="utf-8-sig", newline="")


# --- the formats ------------------------------------------------------------------------------------------------------


def _json_rows(name: str, file: IO[str]) -> Iterator[SubscriptionFileRow | SubscriptionFileError]:
    for line, text in enumerate(file, start=1):
        if not text.strip():
            continue
        try:
            values = json.loads(text.rstrip())  # so that what is missing at the end is not missed on a next line
        except json.JSONDecodeError as error:
            yield SubscriptionFileError(name, line, f"it is not JSON: {error.msg} at column {error.colno}")
        except (RecursionError, ValueError) as error:
            yield SubscriptionFileError(name, line, f"it is not JSON that can be read: {error}")
        else:
            if isinstance(values, dict):
                yield _row(name, line, values)
            else:
                yield SubscriptionFileError(name, line, "it is no JSON object")


def _csv_rows(name: str, file: IO[str]) -> Iterator[SubscriptionFileRow | SubscriptionFileError]:
    csv.field_size_limit(max(csv.field_size_limit(), _CSV_FIELD_CHARACTERS_MAX))
    reader = csv.DictReader(file, strict=True)
    _check_columns(name, reader.fieldnames or [])
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield SubscriptionFileError(name, reader.line_num, f"it is no CSV row: {error}")
            continue
        yield _csv_row(name, reader.line_num, values)


def _csv_row(name: str, line: int, values: dict[str, Any]) -> SubscriptionFileRow | SubscriptionFileError:
    filled = {column: value for column, value in values.items() if value != ""}
    if "namespaces" in filled:
        try:
            filled["namespaces"] = json.loads(filled["namespaces"])
        except (ValueError, RecursionError):
            return SubscriptionFileError(name, line, 'namespaces must be JSON such as {"prefix": "namespace"}')
    return _row(name, line, filled)


def _parquet_rows(name: str) -> Iterator[SubscriptionFileRow | SubscriptionFileError]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as missing:
        raise MissingExtra("pyarrow", "arrow") from missing
    paths = sorted(Path(name).glob("[!._]*.parquet")) if Path(name).is_dir() else [Path(name)]
    if not paths:
        raise SubscriptionFileError(name, None, "there are no Parquet files in this folder")
    for path in paths:
        try:
            with parquet.ParquetFile(path) as file:
                _check_columns(str(path), file.schema_arrow.names)
                requested = [c for c in ("key", "query", "namespaces", "dialect") if c in file.schema_arrow.names]
                line = 0
                for batch in file.iter_batches(columns=requested):
                    for values in batch.to_pylist(maps_as_pydicts="lossy"):
                        line += 1
                        yield _row(str(path), line, values)
        except (pa.ArrowException, OSError) as error:
            raise SubscriptionFileError(str(path), None, f"it is no Parquet file that can be read: {error}") from None


# --- rows -------------------------------------------------------------------------------------------------------------


def _check_columns(name: str, columns: Any) -> None:
    missing = [column for column in ("key", "query") if column not in columns]
    if missing:
        raise SubscriptionFileError(name, None, f"there is no column {' and no column '.join(missing)}")


def _row(name: str, line: int, values: Mapping[str, Any]) -> SubscriptionFileRow | SubscriptionFileError:
    for column in ("key", "query"):
        if not isinstance(values.get(column), str):
            what = f"{column} must be a string" if values.get(column) is not None else f"there is no {column}"
            return SubscriptionFileError(name, line, what)
    namespaces = _namespaces(values.get("namespaces"))
    if namespaces is None:
        return SubscriptionFileError(name, line, "namespaces must map prefixes to namespaces, both strings")
    dialect = values.get("dialect")
    if dialect is not None and dialect not in DIALECTS:
        return SubscriptionFileError(name, line, f"dialect must be xpath, legacy or xquery, not {dialect!r}")
    return SubscriptionFileRow(line, Subscription(values["key"], values["query"], namespaces, _dialect(dialect)))


def _dialect(value: str | None) -> Dialect | None:
    return None if value is None else DIALECTS[value]


def _namespaces(value: Any) -> dict[str, str] | None:
    """Returns the namespaces of a row; ``None`` if they are not a mapping of strings."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return None
    # A Parquet struct has a field for every prefix that any row declares; those that this row does not are null.
    declared = {prefix: uri for prefix, uri in value.items() if uri is not None}
    return declared if all(isinstance(uri, str) for uri in declared.values()) else None


# --- sets -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RefusedSubscriptionRow:
    """A row of a file that did not become a subscription."""

    path: str
    line: int | None
    key: str | None
    error: TwigcastError

    @property
    def label(self) -> str:
        """The path, the line and the key, as far as they are known."""
        position = self.path if self.line is None else f"{self.path}:{self.line}"
        return position if self.key is None else f"{position}: {self.key}"

    def __str__(self) -> str:
        return str(self.error) if isinstance(self.error, SubscriptionFileError) else f"{self.label}: {self.error}"


def load_subscriptions(
    path: str | os.PathLike[str],
    *,
    namespaces: Mapping[str, str] | None = None,
    dialect: Dialect = "xpath",
    limits: Limits | None = None,
) -> tuple[SubscriptionSet, list[RefusedSubscriptionRow]]:
    """Returns a set of the subscriptions in a file or a snapshot, and the rows that were refused.

    Args:
        path: As for :func:`read_subscriptions`; or a snapshot, which is recognised by its first bytes.
        namespaces: Prefix to namespace, for all queries.
        dialect: How queries are read whose row names no dialect.
        limits: Limits of the set.

    Raises:
        SubscriptionFileError: The file cannot be read at all.
        SnapshotError: It is a snapshot that is damaged or of another version.
        MissingExtra: It is a Parquet file, and pyarrow is not installed.
    """
    name = os.fspath(path)
    if is_snapshot(name):
        return SubscriptionSet.load(name, namespaces=namespaces, dialect=dialect, limits=limits), []
    loaded = SubscriptionSet(namespaces=namespaces, dialect=dialect, limits=limits)
    refused: list[RefusedSubscriptionRow] = []
    rows: list[SubscriptionFileRow] = []

    def good_rows() -> Iterator[Subscription]:
        for row in read_subscriptions(name):
            if isinstance(row, SubscriptionFileRow):
                rows.append(row)
                yield row.subscription
            else:
                refused.append(RefusedSubscriptionRow(row.path, row.line, None, row))

    report = loaded.add_many(good_rows())
    refused += [RefusedSubscriptionRow(name, rows[one.index].line, one.key, one.error) for one in report.refused]
    refused.sort(key=lambda row: row.line or 0)
    return loaded, refused


def find_subscription(path: str | os.PathLike[str], key: str) -> Subscription:
    """Returns the subscription with a key in a file, whatever is wrong with the others.

    Raises:
        UnknownKey: The file has no such subscription.
        SubscriptionFileError: The file cannot be read at all.
        SnapshotError: It is a snapshot that is damaged or of another version.
        MissingExtra: It is a Parquet file, and pyarrow is not installed.
    """
    name = os.fspath(path)
    if is_snapshot(name):
        return SubscriptionSet.load(name)[key]
    for row in read_subscriptions(name):
        if isinstance(row, SubscriptionFileRow) and row.subscription.key == key:
            return row.subscription
    raise UnknownKey(key)


def is_snapshot(path: str) -> bool:
    """Returns whether a file begins like a snapshot. A pipe does not: reading from it would take its beginning away."""
    if not Path(path).is_file():
        return False
    try:
        with Path(path).open("rb") as file:
            return file.read(len(SNAPSHOT_MAGIC)) == SNAPSHOT_MAGIC
    except OSError:
        return False
