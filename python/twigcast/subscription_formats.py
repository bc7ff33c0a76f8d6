"""The formats of files of subscriptions: what each line, row or element becomes.

A format is chosen by the name of the file, and where this says nothing, as on standard input, by its first character.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from twigcast.errors import InvalidContext, InvalidKey, MissingExtra, QuerySyntaxError, SubscriptionFileError
from twigcast.reading.text import half_pair
from twigcast.registration import Subscription
from twigcast.subscription_items import COLUMNS, as_record, objection_to, similar_columns

_CSV_FIELD_CHARACTERS_MAX: Final = 64 << 20
_DELIMITERS: Final = ",;\t"
_NAMED_DELIMITER: Final = re.compile(r'\s*"?sep=(.)"?[,;\t]*\s*', re.IGNORECASE)
"""The line by which Excel names what separates the columns."""

_SPACE: Final = re.compile(r"\s*")


@dataclass(frozen=True, slots=True)
class SubscriptionFileRow:
    """A subscription and its line in a file."""

    line: int
    """Line of a text file, row of a Parquet file, from 1."""

    subscription: Subscription

    when: object = None
    """When it is told, as it is written, if the file says so: for windows, which a set does not have."""


FileRows = Iterator[SubscriptionFileRow | SubscriptionFileError]
"""The rows of a file, or the errors in place of them."""

Warn = Callable[[str, str], None]
"""A function that is called with a column that is not read, and the one that it resembles."""


def text_rows(name: str, file: IO[str], warn: Warn) -> FileRows:
    """Yields the rows of a text file: CSV, JSON or a plain list, as :mod:`twigcast.subscription_files` describes.

    Bytes that are not UTF-8 are expected as halves of surrogate pairs, as the error handler ``surrogateescape`` has
    them: the rows that they are in are refused.
    """
    suffix = Path(_without_compression(name.lower())).suffix
    if suffix in (".csv", ".tsv"):
        return _csv_rows(name, file, warn)
    blank, first, rest = _begun(file)
    if first.lstrip().startswith("["):
        return _json_array_rows(_JsonRows(name, warn), first + "".join(rest), blank)
    if suffix not in (".json", ".jsonl", ".ndjson") and not first.lstrip().startswith("{"):
        return _plain_rows(name, itertools.chain([first], rest), blank + 1)
    return _json_object_rows(_JsonRows(name, warn), first, rest, blank)


def _without_compression(name: str) -> str:
    for suffix in (".gz", ".bz2", ".xz", ".zst"):
        name = name.removesuffix(suffix)
    return name


def _begun(file: Iterable[str]) -> tuple[int, str, Iterator[str]]:
    """Returns how many blank lines a file begins with, the next one, and those behind it."""
    lines = iter(file)
    for blank, line in enumerate(lines):
        if line.strip():
            return blank, line, lines
    return 0, "", iter(())


def _not_utf8(text: str) -> str | None:
    """Returns why a text cannot be read in which bytes are no UTF-8."""
    at = None if text.isascii() else half_pair(text)
    if at is None:
        return None
    byte = f"the byte 0x{ord(text[at]) & 0xFF:02X} is not UTF-8"
    return f"{byte}; save the file as UTF-8 (Excel: CSV UTF-8), or convert it, as iconv -f windows-1252 -t utf-8 does"


class _Similar:
    """A check of the names of records, which reports once each that is not read but resembles one that is."""

    def __init__(self, warn: Warn) -> None:
        self._warn = warn
        self._seen: set[str] = set()

    def look(self, names: Iterable[Any]) -> None:
        for name, near in similar_columns(name for name in names if name not in self._seen):
            self._warn(name, near)
        self._seen.update(names)


# --- JSON and plain lists ---------------------------------------------------------------------------------------------

_LIKE_A_QUERY: Final = re.compile(r"[/(\[$@<=*]")
"""A sign that queries have, and names and words hardly ever."""

_AS_RECORD: Final = 'write {"key": "...", "query": "..."}'


class _Repeating(dict[str, Any]):
    """A JSON object in which a name occurs twice."""


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    return values if len(values) == len(pairs) else _Repeating(values)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_json_object)


class _JsonRows:
    """What the values of a JSON file become."""

    def __init__(self, name: str, warn: Warn) -> None:
        self.name = name
        self._similar = _Similar(warn)
        self._queries: set[str] = set()

    def error(self, line: int, reason: str) -> SubscriptionFileError:
        """Returns the error in place of a row."""
        return SubscriptionFileError(self.name, line, reason)

    def read(self, line: int, values: object, text: str) -> FileRows:
        """Yields the row of a value that is written as a text; none for a query that was there before."""
        not_utf8 = _not_utf8(text)
        if isinstance(values, str) and not_utf8 is None:
            if values not in self._queries:
                self._queries.add(values)
                yield SubscriptionFileRow(line, Subscription(values, values))
            return
        if not_utf8 is not None:
            key = values.get("key") if isinstance(values, dict) else values
            is_whole = isinstance(key, str) and half_pair(key) is None
            yield SubscriptionFileError(self.name, line, not_utf8, cast("str", key) if is_whole else None)
        elif not isinstance(values, dict):
            yield self.error(line, f"it is no JSON object; {_AS_RECORD}")
        elif isinstance(values, _Repeating):
            yield SubscriptionFileError(self.name, line, "a name occurs twice in it", _shown_key(values.get("key")))
        else:
            self._similar.look(values)
            if not {"key", "query"} & set(values) and not similar_columns(values):
                yield self.error(line, f"there is no key and no query; {_AS_RECORD}")
            else:
                yield _row(self.name, line, values)

    def read_mapping(self, line: int, values: Mapping[str, Any], text: str) -> FileRows:
        """Yields the rows of queries, or records, by key, with their lines in the text of the file."""
        position, counted = 0, 0
        for key, value in values.items():
            position = max(text.find(json.dumps(key, ensure_ascii=False), position), position)
            line += text.count("\n", counted, position)
            counted = position
            record = {**value, "key": key} if isinstance(value, dict) else {"key": key, "query": value}
            yield from self.read(line, record, json.dumps(record, ensure_ascii=False))


def _is_mapping(values: object) -> bool:
    """Returns whether a JSON object holds queries, or records, by key, and is no record itself."""
    if not isinstance(values, dict) or isinstance(values, _Repeating) or not values:
        return False
    if any(name.strip().lower() in COLUMNS for name in values) or similar_columns(values):
        return False
    return all(
        _LIKE_A_QUERY.search(value) if isinstance(value, str) else isinstance(value, dict) and "query" in value
        for value in values.values()
    )


def _decoded(text: str) -> tuple[object, Exception | None]:
    """Returns the value of a text in JSON, and what is wrong with it otherwise."""
    try:
        return _DECODER.decode(text), None
    except (RecursionError, ValueError) as error:
        return None, error


def _json_object_rows(rows: _JsonRows, first: str, rest: Iterator[str], blank: int) -> FileRows:
    """Yields the rows of objects: one a line, or written over several lines; or of one that has queries by key."""
    values, error = _decoded(first.strip())
    if error is None:
        between, second, others = _begun(rest)
        if not second and _is_mapping(values):
            yield from rows.read_mapping(blank + 1, cast("dict[str, Any]", values), first)
            return
        lines = itertools.chain([first], [""] * between, [second] if second else [], others)
    elif isinstance(error, json.JSONDecodeError) and error.pos >= len(first.strip()):
        text = (first + "".join(rest)).rstrip()  # so that an object without an end is reported at its last line
        begun = [line for line in io.StringIO(text, newline="") if line.lstrip()[:1] == "{"]
        if text != first.rstrip() and not any(_decoded(line.strip())[1] is None for line in begun):
            yield from _json_document_rows(rows, text, blank)
            return
        lines = itertools.chain(io.StringIO(text, newline=""))
    else:
        lines = itertools.chain([first], rest)
    yield from _json_line_rows(rows, lines, blank + 1)


def _json_document_rows(rows: _JsonRows, text: str, blank: int) -> FileRows:
    """Yields the rows of objects of several lines, one after the other, up to the first one that is not JSON."""
    position, line, counted = _after_space(text, 0), blank + 1, 0
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            values, end = _DECODER.raw_decode(text, position)
        except (RecursionError, ValueError) as error:
            yield rows.error(line, _no_json(error, blank))
            return
        if not text[end:].strip() and not text[:position].strip() and _is_mapping(values):
            yield from rows.read_mapping(line, values, text)
        else:
            yield from rows.read(line, values, text[position:end])
        position = _after_space(text, end)
        position = _after_space(text, position + 1) if text.startswith(",", position) else position


def _no_json(error: Exception, lines_before: int) -> str:
    """Returns what is wrong with a text of several lines that is not JSON."""
    if not isinstance(error, json.JSONDecodeError):
        return f"it is not JSON that can be read: {error}"
    where = f"{error.msg} at line {error.lineno + lines_before}, column {error.colno}"
    return f"it is not JSON, and nothing behind it is read: {where}"


def _json_line_rows(rows: _JsonRows, lines: Iterable[str], first: int) -> FileRows:
    for line, text in enumerate(lines, start=first):
        if not text.strip():
            continue
        values, error = _decoded(text.rstrip())  # so that what is missing at the end is not missed on a next line
        if error is None:
            yield from rows.read(line, values, text)
        elif isinstance(error, json.JSONDecodeError):
            yield rows.error(line, f"it is not JSON: {error.msg} at column {error.colno}")
        else:
            yield rows.error(line, f"it is not JSON that can be read: {error}")


def _json_array_rows(rows: _JsonRows, text: str, lines_before: int) -> FileRows:
    """Yields the elements of an array, up to the first one that is not JSON: the rest cannot be read."""
    line, counted = lines_before + 1, 0
    position = _after_space(text, text.index("[") + 1)
    while not text.startswith("]", position):
        line += text.count("\n", counted, position)
        counted = start = position
        try:
            values, position = _DECODER.raw_decode(text, position)
        except (RecursionError, ValueError) as error:
            yield rows.error(line, _no_json(error, lines_before))
            return
        yield from rows.read(line, values, text[start:position])
        position = _after_space(text, position)
        if text.startswith(",", position):
            position = _after_space(text, position + 1)
        elif not text.startswith("]", position):
            line += text.count("\n", counted, position)
            yield rows.error(line, "a comma or ] is missing, and nothing behind it is read")
            return
    if text[position + 1 :].strip():
        line += text.count("\n", counted, position)
        yield rows.error(line, "something follows the array, and is not read")


def _after_space(text: str, position: int) -> int:
    result = _SPACE.match(text, position)
    assert result is not None, "no space is space"
    return result.end()


def _plain_rows(name: str, lines: Iterable[str], first: int) -> FileRows:
    """Yields a query for each line, which is its own key. Repeated queries are left out."""
    seen: set[str] = set()
    for line, text in enumerate(lines, start=first):
        query = text.strip()
        if not query or query.startswith("#") or query in seen:
            continue
        seen.add(query)
        not_utf8 = _not_utf8(query)
        if not_utf8 is None:
            yield SubscriptionFileRow(line, Subscription(query, query))
        else:
            yield SubscriptionFileError(name, line, not_utf8)


# --- CSV and Parquet --------------------------------------------------------------------------------------------------


def _csv_rows(name: str, file: IO[str], warn: Warn) -> FileRows:
    csv.field_size_limit(max(csv.field_size_limit(), _CSV_FIELD_CHARACTERS_MAX))
    before, header, rest = _begun(file)
    named = _NAMED_DELIMITER.fullmatch(header)
    if named is not None:
        blank, header, rest = _begun(rest)
        before += 1 + blank
    if not header:
        return
    delimiter = _delimiter(header) if named is None else named[1]
    reader = csv.DictReader(itertools.chain([header], rest), delimiter=delimiter, strict=True)
    columns = list(reader.fieldnames or [])
    check_columns(name, columns, before + 1)
    _Similar(warn).look(columns)
    while True:
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield SubscriptionFileError(name, before + reader.line_num, f"it is no CSV row: {error}")
            continue
        line, key = before + reader.line_num, _shown_key(values.get("key"))
        not_utf8 = _not_utf8("".join(value for value in values.values() if isinstance(value, str)))
        if not_utf8 is not None:
            yield SubscriptionFileError(name, line, not_utf8, key)
        elif None in values:
            what = f"it has more than the {len(columns)} fields of the first line; fields that hold commas need quotes"
            yield SubscriptionFileError(name, line, what, key)
        else:
            yield _row(name, line, {column: value for column, value in values.items() if value})


def _delimiter(header: str) -> str:
    """Returns what separates the columns of a header: what leaves most of their names whole."""
    names = {mark: {part.strip().strip('"').lower() for part in header.split(mark)} for mark in _DELIMITERS}
    return max(_DELIMITERS, key=lambda mark: (len(names[mark] & set(COLUMNS)), len(names[mark])))


def parquet_rows(name: str, warn: Warn) -> FileRows:
    """Yields the rows of a Parquet file, or of a folder of such files.

    Raises:
        SubscriptionFileError: A file cannot be read at all, or lacks a column.
        MissingExtra: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as missing:
        raise MissingExtra("pyarrow", "arrow") from missing
    paths = sorted(Path(name).glob("[!._]*.parquet")) if Path(name).is_dir() else [Path(name)]
    if not paths:
        raise SubscriptionFileError(name, None, "there are no Parquet files in this folder")
    similar = _Similar(warn)
    for path in paths:
        try:
            with parquet.ParquetFile(path) as file:
                check_columns(str(path), file.schema_arrow.names)
                similar.look(file.schema_arrow.names)
                requested = [column for column in COLUMNS if column in file.schema_arrow.names]
                line = 0
                for batch in file.iter_batches(columns=requested):
                    for values in batch.to_pylist(maps_as_pydicts="lossy"):
                        line += 1
                        yield _row(str(path), line, values)
        except (pa.ArrowException, OSError) as error:
            raise SubscriptionFileError(str(path), None, f"it is no Parquet file that can be read: {error}") from None


def check_columns(name: str, columns: Sequence[object], line: int | None = None) -> None:
    """Raises an error unless there is one column of keys, one of queries, and no more than one of each other.

    Raises:
        SubscriptionFileError: There is not.
    """
    objection = objection_to(columns)
    if objection is not None:
        raise SubscriptionFileError(name, line, objection)


# --- rows -------------------------------------------------------------------------------------------------------------


def _row(name: str, line: int, values: Mapping[str, Any]) -> SubscriptionFileRow | SubscriptionFileError:
    try:
        return SubscriptionFileRow(line, as_record(values), values.get("when"))
    except (InvalidKey, QuerySyntaxError, InvalidContext) as error:
        return SubscriptionFileError(name, line, error.reason, _shown_key(values.get("key")))


def _shown_key(key: object) -> str | None:
    """Returns a key as errors show it, if there is one that can be shown."""
    return str(key) if key != "" and isinstance(key, str | int | float) and half_pair(str(key)) is None else None
