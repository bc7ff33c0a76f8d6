"""Look-up tables: rows by a key, from which messages of a source are enriched, and how a source uses one.

A table comes as CSV or as JSON lines, and is read as a whole: it is small, and what is wrong with it is said with its
line. All values are texts, written as they came.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from twigcast.broker.errors import Invalid
from twigcast.envelope import no_character, plain_name

TABLE_BYTES_MAX: Final = 8 << 20
"""Bytes of a table as it is sent, and as it is stored."""

ROWS_MAX: Final = 200_000

COLUMNS_MAX: Final = 100

CELL_CHARACTERS_MAX: Final = 10_000

LOOKUPS_MAX: Final = 8
"""Look-ups of one source."""

TableForm = Literal["csv", "lines"]
"""How a table is written: CSV with a head, or JSON lines."""

Missing = Literal["pass", "reject"]
"""What is done with a message for which there is no row: it passes as it is, or is rejected."""

_SHOWN_MAX: Final = 60


class TableContent(NamedTuple):
    """The content of a table."""

    key: str
    """The column by which rows are found."""
    columns: tuple[str, ...]
    """All columns, in order."""
    rows: Mapping[str, tuple[str, ...]]
    """The values of each row, by its key; an empty one stands for none."""


@dataclass(frozen=True, slots=True)
class TableSummary:
    """A description of a table, without its rows."""

    name: str
    version: int
    """Grows with each table that is stored, whatever its name."""
    updated: float
    key: str
    columns: tuple[str, ...]
    rows: int
    """The number of rows."""
    size: int
    """Bytes as it is stored."""


@dataclass(frozen=True, slots=True)
class LookupSettings:
    """The settings of a look-up: how the messages of a source are enriched from a table."""

    table: str
    key: str
    """An expression: each value that it selects in a message is looked up."""
    element: str
    """The element that is added for each row."""
    namespace: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    """The element of each column that is wanted; of all columns, under their names, if there are none."""
    at: str = "/*"
    """A path to the element at whose end they are added: the first that it selects."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Prefix to namespace, for both expressions."""
    missing: Missing = "pass"

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> LookupSettings:
        """Reads them as sources hold them."""
        return cls(**stored)

    def elements(self, columns: Sequence[str]) -> list[tuple[int, str]]:
        """Returns the positions of the wanted columns among those of a table, with the names of their elements.

        Raises:
            Invalid: The table lacks one, or the name of a column is none of an element.
        """
        if not self.columns:
            for column in columns:
                if plain_name().fullmatch(column) is None:
                    raise Invalid(
                        f"the column {shown(column)} of the table {shown(self.table)} is no name of an element: "
                        "choose the columns, each with the name of its element"
                    )
            return list(enumerate(columns))
        places = {column: place for place, column in enumerate(columns)}
        for column in self.columns:
            if column not in places:
                raise Invalid(f"the table {shown(self.table)} has no column {shown(column)}")
        return [(places[column], name) for column, name in self.columns.items()]


def check_element(name: str, what: str) -> None:
    """Raises Invalid unless a name is one of an element, without a prefix."""
    if plain_name().fullmatch(name) is None:
        raise Invalid(f"{what}: {shown(name)} is no name of an element; write one without a prefix, such as county")


def read_table(content: bytes, form: TableForm, key: str | None = None) -> TableContent:
    """Returns a table; ``key`` is the column by which rows are found, by default the first.

    Raises:
        Invalid: Something is wrong with it, at a line that is named.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Invalid(f"line {line}: it is not UTF-8") from None
    records = _csv_records(text) if form == "csv" else _json_records(text)
    _, columns = next(records)
    _check_columns(columns)
    chosen = columns[0] if key is None else key
    if chosen not in columns:
        raise Invalid(f"key: there is no column {shown(chosen)}; there are {', '.join(map(shown, columns[:10]))}")
    place = columns.index(chosen)
    rows: dict[str, tuple[str, ...]] = {}
    for line, values in records:
        name = values[place].strip() if place < len(values) else ""
        if not name:
            raise Invalid(f"line {line}: its key is empty: the column {shown(chosen)}")
        if name in rows:
            raise Invalid(f"line {line}: there is a row with the key {shown(name)} already")
        if len(rows) >= ROWS_MAX:
            raise Invalid(f"line {line}: a table has up to {ROWS_MAX:,} rows")
        for value in values:
            _check_cell(value, line)
        rows[name] = tuple(values)
    return TableContent(chosen, tuple(columns), rows)


def stored_form(table: TableContent) -> bytes:
    """Returns the bytes as which a table is stored; raises Invalid if these are too many."""
    written = json.dumps([table.key, table.columns, list(table.rows.items())], ensure_ascii=False).encode()
    if len(written) > 2 * TABLE_BYTES_MAX:
        raise Invalid(f"it is too large: it is stored in {len(written):,} bytes, of up to {2 * TABLE_BYTES_MAX:,}")
    return written


def of_stored_form(written: bytes) -> TableContent:
    """Returns a table from the bytes as which it is stored."""
    key, columns, rows = json.loads(written)
    return TableContent(key, tuple(columns), {name: tuple(values) for name, values in rows})


def as_lines(table: TableContent) -> Iterator[bytes]:
    """Yields the rows as JSON lines, without what is empty."""
    for values in table.rows.values():
        row = {column: value for column, value in zip(table.columns, values, strict=False) if value}
        yield json.dumps(row, ensure_ascii=False).encode() + b"\n"


Record = tuple[int, list[str]]
"""Values, with the line where they begin."""


def _csv_records(text: str) -> Iterator[Record]:
    """Yields the names of the columns, and then the values of each row."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: list[str] = []
    begins = 1
    try:
        for values in lines:
            line, begins = begins, lines.line_num + 1
            if not values:
                continue
            if not columns:
                columns = [value.strip() for value in values]
                yield line, columns
            elif len(values) != len(columns):
                raise Invalid(f"line {line}: it has {len(values)} values, for {len(columns)} columns")
            else:
                yield line, values
    except csv.Error as error:
        raise Invalid(f"line {max(1, lines.line_num)}: it is no CSV: {error}") from None
    if not columns:
        raise Invalid("it is empty: the first line must name the columns")


def _json_records(text: str) -> Iterator[Record]:
    """Yields the names of the columns, of all rows together, and then the values of each row."""
    rows: list[tuple[int, dict[str, str]]] = []
    columns: dict[str, None] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        row = _json_row(line, number)
        columns.update(dict.fromkeys(row))
        rows.append((number, row))
        if len(rows) > ROWS_MAX:
            raise Invalid(f"line {number}: a table has up to {ROWS_MAX:,} rows")
        if len(columns) > COLUMNS_MAX:
            raise Invalid(f"line {number}: a table has up to {COLUMNS_MAX} columns")
    if not columns:
        raise Invalid("it is empty: each line must be an object, with a value for each column")
    yield 1, list(columns)
    for number, row in rows:
        yield number, [row.get(column, "") for column in columns]


def _json_row(line: str, number: int) -> dict[str, str]:
    def members(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise Invalid(f"line {number}: {shown(name)} is given twice")
            found[name] = value
        return found

    def refused(constant: str) -> Any:
        raise Invalid(f"line {number}: it is no JSON: {constant}")

    try:
        # Numbers stay as they are written: 07 is none, and 1.50 does not become 1.5.
        row = json.loads(line, object_pairs_hook=members, parse_int=str, parse_float=str, parse_constant=refused)
    except (json.JSONDecodeError, RecursionError) as error:
        raise Invalid(f"line {number}: it is no JSON: {error}") from None
    if not isinstance(row, dict):
        raise Invalid(f"line {number}: it is no object")
    return {name: _text_of(value, name, number) for name, value in row.items() if value is not None}


def _text_of(value: Any, name: str, number: int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    raise Invalid(f"line {number}: the value of {shown(name)} must be a text, a number, true, false or null")


def _check_columns(columns: Collection[str]) -> None:
    if len(columns) > COLUMNS_MAX:
        raise Invalid(f"a table has up to {COLUMNS_MAX} columns")
    seen: set[str] = set()
    for column in columns:
        if not column:
            raise Invalid("a column has no name")
        if column in seen:
            raise Invalid(f"there are two columns {shown(column)}")
        _check_cell(column, 1)
        seen.add(column)


def _check_cell(value: str, line: int) -> None:
    if len(value) > CELL_CHARACTERS_MAX:
        raise Invalid(f"line {line}: a value has up to {CELL_CHARACTERS_MAX:,} characters")
    if (found := no_character().search(value)) is not None:
        raise Invalid(f"line {line}: a value has the character U+{ord(found[0]):04X}, which no XML document can hold")


def shown(text: str) -> str:
    """Returns the beginning of a text, in quotes, for errors."""
    return repr(text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…")
