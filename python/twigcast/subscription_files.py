"""Subscriptions in files: JSON, CSV, Parquet and plain lists.

===============  =====================================================================================
``key``          the subscriber's own identifier; needed
``query``        XPath, or For-Where-Return; needed
``namespaces``   prefix to namespace: an object in JSON, a map or a struct in Parquet; as text, ``p=urn:p q=urn:q`` or
                 a JSON object
``dialect``      ``xpath``, ``legacy``, ``doubles`` or ``xquery``
``numbers``      ``xs:double`` for the dialect ``doubles``: texts that are compared with numbers may have exponents
``group``        the group that the subscription belongs to
``params``       the values of ``$name`` in the query: an object in JSON, a map or a struct in Parquet; as text, a JSON
                 object
``when``         when the subscription is told, as :class:`twigcast.Windows` takes it: an object in JSON; only for
                 ``twigcast deliver``, ``twigcast pipeline`` and brokers
===============  =====================================================================================

- ``.csv`` and ``.tsv``: a header with these columns; commas, semicolons or tabs between them, or what a line ``sep=;``
  before it names
- ``.json``, ``.jsonl``, ``.ndjson``: objects, one a line or each over several lines, or an array of them; a string is a
  query and its own key; if there is one object alone, it may have queries, or objects, by key
- ``.parquet``, or a folder of such files
- any other name: JSON where it begins with ``{`` or ``[``, else a plain list of queries, one a line, each its own key;
  lines that begin with ``#`` are comments, and repeated queries are left out

Other columns are not read; a name that resembles one of these causes a warning. Text is UTF-8, with or without a byte
order mark, or UTF-16 with one, and may be compressed (``.gz``, ``.bz2``, ``.xz``, ``.zst``). In place of a row that is
not a subscription there is an error, and reading goes on.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from twigcast.errors import QueryWarning, SubscriptionFileError, SubscriptionFileWarning, TwigcastError, UnknownKey
from twigcast.limits import Limits
from twigcast.reading.unpacking import unpacked
from twigcast.registration import Dialect, Subscription, SubscriptionWarning
from twigcast.subscription_formats import FileRows, SubscriptionFileRow, parquet_rows, text_rows
from twigcast.subscription_items import not_read
from twigcast.subscriptions import SubscriptionSet

__all__ = [
    "RefusedSubscriptionRow",
    "SubscriptionFileRow",
    "find_subscription",
    "is_snapshot",
    "load_subscriptions",
    "read_subscriptions",
]

_WARNED_MAX: Final = 3
"""Queries that are named in warnings, of those for which the same holds."""

SNAPSHOT_MAGIC: Final = b"TWIGSNAP"
"""The first bytes of a snapshot."""


def read_subscriptions(path: str | os.PathLike[str]) -> FileRows:
    """Reads the subscriptions of a file, or of a folder of Parquet files.

    Args:
        path: The file; how it is read depends on its name, as described above. ``-`` is standard input.

    Yields:
        Each row, or the error in place of it.

    Raises:
        SubscriptionFileError: The file cannot be read at all, or lacks a column.
        MissingExtra: It is a Parquet file, and pyarrow is not installed.

    Warns:
        SubscriptionFileWarning: There are no subscriptions in it, or a column is not read that resembles one that
            would be.
    """
    name = os.fspath(path)
    is_empty = True

    def warn(column: str, near: str) -> None:
        _warn(f"{name}: the column {not_read(column, near)}")

    try:
        if name.lower().endswith(".parquet") or Path(name).is_dir():
            for row in parquet_rows(name, warn):
                is_empty = False
                yield row
        else:
            with _open_text(name) as file:
                for row in text_rows(name, file, warn):
                    is_empty = False
                    yield row
    except UnicodeError as error:
        reason = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        raise SubscriptionFileError(name, None, f"it is no text in UTF-8 or UTF-16: {reason}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, TwigcastError):
            raise
        raise SubscriptionFileError(
            name, None, f"it cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if is_empty:
        _warn(f"{name}: there are no subscriptions in it")


def _warn(text: str) -> None:
    # The warning names the line of the caller that iterates: this function, the generator's, then its.
    warnings.warn(text, SubscriptionFileWarning, stacklevel=3)


@contextmanager
def _open_text(name: str) -> Iterator[IO[str]]:
    with io.BytesIO(sys.stdin.buffer.read()) if name == "-" else Path(name).open("rb") as file:
        data = unpacked(file)
        if data.peek(4).startswith(b"PK\x03\x04"):
            what = "it is an archive, or a workbook of Excel: unpack it, or save it as CSV UTF-8"
            raise SubscriptionFileError(name, None, what)
        yield _decoded(data)


def _decoded(file: io.BufferedReader) -> IO[str]:
    """Returns a file as text, in the encoding of its byte-order mark: spreadsheets write UTF-16 too."""
    head = file.peek(2)[:2]
    if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return io.TextIOWrapper(file, encoding="utf-16", newline="")
    # Which row has a byte that is not UTF-8 is found out where rows are.
    return io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")


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
    when: dict[str, object] | None = None,
) -> tuple[SubscriptionSet, list[RefusedSubscriptionRow]]:
    """Returns a set of the subscriptions in a file or a snapshot, and the rows that were refused.

    Args:
        path: As for :func:`read_subscriptions`; or a snapshot, which is recognised by its first bytes.
        namespaces: Prefix to namespace, for all queries.
        dialect: How queries are read whose row names no dialect.
        limits: Limits of the set.
        when: Receives, by key, when subscriptions are told that say so.

    Raises:
        SubscriptionFileError: The file cannot be read at all.
        SnapshotError: It is a snapshot that is damaged or of another version.
        MissingExtra: It is a Parquet file, and pyarrow is not installed.

    Warns:
        SubscriptionFileWarning: As for :func:`read_subscriptions`.
        QueryWarning: A query looks wrong, or no value leads to it.
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
                if when is not None and row.when is not None:
                    when[row.subscription.key] = row.when
                yield row.subscription
            else:
                refused.append(RefusedSubscriptionRow(row.path, row.line, row.key, row))

    report = loaded.add_many(good_rows())
    _warn_of_queries(name, rows, report.warnings)
    refused += [RefusedSubscriptionRow(name, rows[one.index].line, one.key, one.error) for one in report.refused]
    refused.sort(key=lambda row: row.line or 0)
    return loaded, refused


def _warn_of_queries(name: str, rows: Sequence[SubscriptionFileRow], found: Sequence[SubscriptionWarning]) -> None:
    """Warns of queries that were added and look wrong: of the first for which something holds, and how many more."""
    alike: dict[str, list[SubscriptionWarning]] = {}
    for one in found:
        alike.setdefault(one.text, []).append(one)
    for text, ones in alike.items():
        for one in ones[:_WARNED_MAX]:
            warnings.warn(f"{name}:{rows[one.index].line}: {one.key}: {text}", QueryWarning, stacklevel=3)
        if len(ones) > _WARNED_MAX:
            more = f"the same holds for {len(ones) - _WARNED_MAX:,} more; twigcast check -s lists them"
            warnings.warn(f"{name}: {more}", QueryWarning, stacklevel=3)


def says_when(path: str | os.PathLike[str]) -> bool:
    """Returns whether any subscription in a file says when it is told.

    Raises:
        SubscriptionFileError: The file cannot be read at all.
    """
    name = os.fspath(path)
    if not Path(name).is_file() or is_snapshot(name) or name.lower().endswith(".parquet"):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SubscriptionFileWarning)  # who loads the subscriptions is warned
        return _may_say_when(name) and any(
            isinstance(row, SubscriptionFileRow) and row.when is not None for row in read_subscriptions(name)
        )


def _may_say_when(name: str) -> bool:
    """Returns whether the rows of a file are worth reading for that: most files do not have the word."""
    try:
        with _open_text(name) as file:
            return any('"when"' in line for line in file)
    except (OSError, ValueError):
        return True  # reading the rows says what is wrong


def find_subscription(path: str | os.PathLike[str], key: str, *, when: dict[str, object] | None = None) -> Subscription:
    """Returns the subscription with a key in a file, whatever is wrong with the others.

    Args:
        path: As for :func:`load_subscriptions`.
        key: The key.
        when: Receives, under the key, when it is told, if it says so.

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
            if when is not None and row.when is not None:
                when[key] = row.when
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
