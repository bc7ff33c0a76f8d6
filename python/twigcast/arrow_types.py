"""Types of tables and arrays of Arrow: pyarrow comes without any, and what has none is ``Any`` in programs that use it.

Only what programs do with the answers of this package is here; the values of rows are whatever the columns hold. The
objects are pyarrow's own: where more is needed, ``pyarrow.record_batch(batch)`` and ``pyarrow.array(column)`` return
them as pyarrow has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, overload


class ArrowTable(Protocol):
    """A table of any library that hands its columns over by Arrow's C interface: pyarrow, polars, pandas, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Exports the table."""


class ArrowArray(Protocol):
    """An array, or one batch of a table, of any library that hands it over by Arrow's C interface."""

    def __arrow_c_array__(self, requested_schema: object = None) -> object:
        """Exports the array."""


class ArrowField(Protocol):
    """A column's name and type: a ``pyarrow.Field``."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def type(self) -> object:
        """Its Arrow type."""

    @property
    def nullable(self) -> bool:
        """``True`` if rows may be null."""


class ArrowSchema(Protocol):
    """The names and types of the columns of a batch: a ``pyarrow.Schema``."""

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns."""

    @property
    def types(self) -> Sequence[object]:
        """Their Arrow types."""

    def field(self, name: str | int) -> ArrowField:
        """Returns name and type of a column."""

    def equals(self, other: object) -> bool:
        """Returns whether another schema has the same columns."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[ArrowField]: ...


class ArrowScalar(Protocol):
    """A value of a column: a ``pyarrow.Scalar``."""

    def as_py(self) -> Any:
        """Returns the value as an object of Python."""


class ArrowColumn(Protocol):
    """A column of a record batch, or a part of one: a ``pyarrow.Array``."""

    @overload
    def __getitem__(self, index: int) -> ArrowScalar: ...
    @overload
    def __getitem__(self, index: slice) -> ArrowColumn: ...

    @property
    def type(self) -> object:
        """Its Arrow type."""

    @property
    def null_count(self) -> int:
        """The number of rows that are null."""

    @property
    def values(self) -> ArrowColumn:
        """Of a column of lists, what is in all lists, also in those behind null."""

    @property
    def offsets(self) -> ArrowColumn:
        """Of a column of lists, where each begins in ``values``; and where the last one ends."""

    @property
    def dictionary(self) -> ArrowColumn:
        """Of a column with a dictionary, the distinct values."""

    @property
    def indices(self) -> ArrowColumn:
        """Of a column with a dictionary, for each row the position of its value there."""

    def flatten(self) -> ArrowColumn:
        """Returns what is in the lists of a column, list after list."""

    def value_lengths(self) -> ArrowColumn:
        """Returns how long each list of a column is."""

    def is_null(self) -> ArrowColumn:
        """Returns for each row whether it is null."""

    def slice(self, offset: int = 0, length: int | None = None) -> ArrowColumn:
        """Returns some of the rows, without copying."""

    def to_pylist(self) -> list[Any]:
        """Returns the rows as objects of Python."""

    def buffers(self) -> list[Any]:
        """Returns the memory that the column is in, as objects of ``pyarrow.Buffer``."""

    def validate(self, *, full: bool = False) -> None:
        """Raises an error if the column is not valid Arrow."""

    def to_numpy(self, zero_copy_only: bool = True) -> object:
        """Returns the rows as an array of numpy."""

    def equals(self, other: object) -> bool:
        """Returns whether another column has the same type and rows."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[ArrowScalar]: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Exports the column to any library that reads Arrow."""


class ArrowBatch(Protocol):
    """A record batch: a ``pyarrow.RecordBatch``."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    @property
    def column_names(self) -> Sequence[str]:
        """The names of the columns."""

    @property
    def schema(self) -> ArrowSchema:
        """The names and types of the columns: a ``pyarrow.Schema``."""

    def column(self, name: str | int) -> ArrowColumn:
        """Returns a column, by its name or its position."""

    def slice(self, offset: int = 0, length: int | None = None) -> ArrowBatch:
        """Returns some of the rows, without copying."""

    def select(self, columns: Sequence[str]) -> ArrowBatch:
        """Returns some of the columns."""

    def to_pylist(self) -> list[dict[str, Any]]:
        """Returns the rows as objects of Python."""

    def validate(self, *, full: bool = False) -> None:
        """Raises an error if the batch is not valid Arrow."""

    def equals(self, other: object) -> bool:
        """Returns whether another batch has the same columns."""

    def __len__(self) -> int: ...
    def __getitem__(self, name: str | int) -> ArrowColumn: ...

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Exports the batch to any library that reads Arrow."""
