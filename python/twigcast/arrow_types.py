"""Static types of Arrow tables and arrays, since pyarrow has none and would be ``Any`` to type checkers.

The types cover what programs do with the answers of this package. Columns and rows of these answers are typed, and so
is the result of :meth:`ArrowColumn.flatten` on a column of lists; :attr:`ArrowColumn.values` is ``object``. The objects
are pyarrow's own: where more is needed, ``pyarrow.record_batch(batch)`` and ``pyarrow.array(column)`` return them as
pyarrow has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, Self, TypedDict, TypeVar, overload

E = TypeVar("E")
"""What the lists of a column hold."""

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)
"""What a column holds, as objects of Python."""

R = TypeVar("R")
"""The rows of a batch."""


class ErrorRow(TypedDict):
    """The reason why a message was rejected."""

    code: str
    reason: str
    line: int | None
    column: int | None


class UndecidedRow(TypedDict):
    """A subscription that failed on a message."""

    key: str
    reason: str


class MatchRow(TypedDict, total=False):
    """The answer to a message in :meth:`twigcast.SubscriptionSet.match_batch`: of these members, those asked for."""

    keys: list[str] | None
    groups: list[list[str]] | None
    matches: int | None
    nodes: list[int] | None
    payloads: list[bytes | None] | None
    error: ErrorRow | None
    undecided: list[UndecidedRow] | None


class DeliveryRow(TypedDict):
    """A delivery, as :meth:`twigcast.Deliveries.arrow` gives it: without a payload, it is the message itself."""

    key: str
    payload: bytes | None


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


class ArrowScalar(Protocol[V_co]):
    """A value of a column: a ``pyarrow.Scalar``."""

    def as_py(self) -> V_co:
        """Returns the value as an object of Python."""


class ArrowBuffer(Protocol):
    """A piece of memory that a column is in: a ``pyarrow.Buffer``. ``memoryview(buffer)`` reads it without copying."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    @property
    def address(self) -> int:
        """The address of its first byte."""

    @property
    def is_mutable(self) -> bool:
        """``True`` if it may change."""

    def to_pybytes(self) -> bytes:
        """Returns a copy of the bytes."""

    def __len__(self) -> int: ...


class ArrowColumn(Protocol[V]):
    """A column of a record batch, or a part of one, with values of a type: a ``pyarrow.Array``."""

    @overload
    def __getitem__(self, index: int) -> ArrowScalar[V]: ...
    @overload
    def __getitem__(self, index: slice) -> ArrowColumn[V]: ...

    @property
    def type(self) -> object:
        """Its Arrow type."""

    @property
    def null_count(self) -> int:
        """The number of rows that are null."""

    @property
    def values(self) -> ArrowColumn[object]:
        """Of a column of lists, what is in all lists, also in those behind null."""

    @property
    def offsets(self) -> ArrowColumn[int]:
        """Of a column of lists, where each begins in ``values``; and where the last one ends."""

    @property
    def dictionary(self) -> ArrowColumn[V]:
        """Of a column with a dictionary, the distinct values."""

    @property
    def indices(self) -> ArrowColumn[int | None]:
        """Of a column with a dictionary, for each row the position of its value there."""

    @overload
    def flatten(self: ArrowColumn[list[E] | None]) -> ArrowColumn[E]: ...
    @overload
    def flatten(self: ArrowColumn[list[E]]) -> ArrowColumn[E]: ...
    @overload
    def flatten(self) -> ArrowColumn[object]: ...
    def flatten(self) -> object:
        """Returns what is in the lists of a column, list after list."""

    def value_lengths(self) -> ArrowColumn[int | None]:
        """Returns how long each list of a column is."""

    def is_null(self) -> ArrowColumn[bool]:
        """Returns for each row whether it is null."""

    def slice(self, offset: int = 0, length: int | None = None) -> ArrowColumn[V]:
        """Returns some of the rows, without copying."""

    def to_pylist(self) -> list[V]:
        """Returns the rows as objects of Python."""

    def buffers(self) -> list[ArrowBuffer | None]:
        """Returns the memory that the column is in; ``None`` where it needs none."""

    def validate(self, *, full: bool = False) -> None:
        """Raises an error if the column is not valid Arrow."""

    def to_numpy(self, zero_copy_only: bool = True) -> object:
        """Returns the rows as an array of numpy."""

    def equals(self, other: object) -> bool:
        """Returns whether another column has the same type and rows."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[ArrowScalar[V]]: ...
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Exports the column to any library that reads Arrow."""


class ArrowBatch(Protocol[R]):
    """A record batch, with rows of a type: a ``pyarrow.RecordBatch``."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    @property
    def column_names(self) -> Sequence[str]:
        """The names of the columns."""

    @property
    def schema(self) -> ArrowSchema:
        """The names and types of the columns: a ``pyarrow.Schema``."""

    def slice(self, offset: int = 0, length: int | None = None) -> Self:
        """Returns some of the rows, without copying."""

    def select(self, columns: Sequence[str]) -> Self:
        """Returns some of the columns."""

    def to_pylist(self) -> list[R]:
        """Returns the rows as objects of Python."""

    def validate(self, *, full: bool = False) -> None:
        """Raises an error if the batch is not valid Arrow."""

    def equals(self, other: object) -> bool:
        """Returns whether another batch has the same columns."""

    def __len__(self) -> int: ...

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        """Exports the batch to any library that reads Arrow."""


class MatchBatch(ArrowBatch[MatchRow], Protocol):
    """The answers to messages, a row each: what :meth:`twigcast.SubscriptionSet.match_batch` returns."""

    @overload
    def column(self, name: Literal["keys"]) -> ArrowColumn[list[str] | None]: ...
    @overload
    def column(self, name: Literal["groups"]) -> ArrowColumn[list[list[str]] | None]: ...
    @overload
    def column(self, name: Literal["matches"]) -> ArrowColumn[int | None]: ...
    @overload
    def column(self, name: Literal["nodes"]) -> ArrowColumn[list[int] | None]: ...
    @overload
    def column(self, name: Literal["payloads"]) -> ArrowColumn[list[bytes | None] | None]: ...
    @overload
    def column(self, name: Literal["error"]) -> ArrowColumn[ErrorRow | None]: ...
    @overload
    def column(self, name: Literal["undecided"]) -> ArrowColumn[list[UndecidedRow] | None]: ...
    @overload
    def column(self, name: str | int) -> ArrowColumn[object]: ...
    def column(self, name: str | int) -> object:
        """Returns a column, by its name or its position."""

    @overload
    def __getitem__(self, name: Literal["keys"]) -> ArrowColumn[list[str] | None]: ...
    @overload
    def __getitem__(self, name: Literal["groups"]) -> ArrowColumn[list[list[str]] | None]: ...
    @overload
    def __getitem__(self, name: Literal["matches"]) -> ArrowColumn[int | None]: ...
    @overload
    def __getitem__(self, name: Literal["nodes"]) -> ArrowColumn[list[int] | None]: ...
    @overload
    def __getitem__(self, name: Literal["payloads"]) -> ArrowColumn[list[bytes | None] | None]: ...
    @overload
    def __getitem__(self, name: Literal["error"]) -> ArrowColumn[ErrorRow | None]: ...
    @overload
    def __getitem__(self, name: Literal["undecided"]) -> ArrowColumn[list[UndecidedRow] | None]: ...
    @overload
    def __getitem__(self, name: str | int) -> ArrowColumn[object]: ...
    def __getitem__(self, name: str | int) -> object:
        """Returns a column, as ``column`` does."""


class DeliveryBatch(ArrowBatch[DeliveryRow], Protocol):
    """The deliveries of a message, a row each: what :meth:`twigcast.Deliveries.arrow` returns."""

    @overload
    def column(self, name: Literal["key"]) -> ArrowColumn[str]: ...
    @overload
    def column(self, name: Literal["payload"]) -> ArrowColumn[bytes | None]: ...
    @overload
    def column(self, name: str | int) -> ArrowColumn[object]: ...
    def column(self, name: str | int) -> object:
        """Returns a column, by its name or its position."""

    @overload
    def __getitem__(self, name: Literal["key"]) -> ArrowColumn[str]: ...
    @overload
    def __getitem__(self, name: Literal["payload"]) -> ArrowColumn[bytes | None]: ...
    @overload
    def __getitem__(self, name: str | int) -> ArrowColumn[object]: ...
    def __getitem__(self, name: str | int) -> object:
        """Returns a column, as ``column`` does."""
