"""The fields of frames: how single values, lists and disjuncts are written and read.

A routing delta holds thousands of disjuncts made of few paths. So it holds each path, scope and set of roots once, and
the disjuncts as indices of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from twigcast.overlay.onyx.messages import EVERYWHERE, Disjunct, LinearPath, Root
from twigcast.overlay.onyx.network.errors import FrameError
from twigcast.overlay.onyx.network.primitives import FrameReader, put_bytes, put_number, put_real, put_signed, put_text

NAME_MAX: Final = 4 << 10
"""Bytes of a name: of a scope, a source, a message, a type."""
PATH_BYTES_MAX: Final = 1 << 20
"""Bytes of a linear path."""
PATHS_MAX: Final = 1 << 20
"""Different paths in one frame."""
DISJUNCTS_MAX: Final = 1 << 20
"""Disjuncts in one frame."""
CONJUNCTS_MAX: Final = 1 << 12
"""Paths of one disjunct."""
NAMESPACES_MAX: Final = 1 << 10
"""Namespaces of one path."""
BROKERS_MAX: Final = 1 << 14
"""Brokers in one list."""


class Field(NamedTuple):
    """The form of one field.

    Attributes:
        put: Appends a value.
        read: Reads a value. Raises `FrameError` if there is none, or it breaks a bound.
    """

    put: Callable[[bytearray, Any], None]
    read: Callable[[FrameReader], Any]


def read_flag(reader: FrameReader) -> bool:
    """Reads a boolean.

    Raises:
        FrameError: The number is neither 0 nor 1.
    """
    value = reader.number()
    if value > 1:
        raise FrameError(f"{value} is neither yes nor no")
    return bool(value)


def put_optional_number(out: bytearray, value: int | None) -> None:
    """Appends a number that may be absent."""
    out.append(value is not None)
    if value is not None:
        put_number(out, value)


def text(bytes_max: int) -> Field:
    """Returns the form of a text of at most so many bytes."""
    return Field(put_text, lambda reader: reader.text(bytes_max))


def data(bytes_max: int) -> Field:
    """Returns the form of at most so many bytes."""
    return Field(put_bytes, lambda reader: reader.bytes(bytes_max))


def several(field: Field, count_max: int) -> Field:
    """Returns the form of a tuple of at most so many values."""

    def put(out: bytearray, values: tuple[Any, ...]) -> None:
        put_number(out, len(values))
        for value in values:
            field.put(out, value)

    return Field(put, lambda reader: tuple(reader.several(lambda: field.read(reader), count_max)))


def pair(first: Field, second: Field) -> Field:
    """Returns the form of a pair."""

    def put(out: bytearray, values: tuple[Any, Any]) -> None:
        first.put(out, values[0])
        second.put(out, values[1])

    return Field(put, lambda reader: (first.read(reader), second.read(reader)))


NUMBER: Final = Field(put_number, FrameReader.number)
SIGNED: Final = Field(put_signed, FrameReader.signed)
REAL: Final = Field(put_real, FrameReader.real)
FLAG: Final = Field(bytearray.append, read_flag)
OPTIONAL_NUMBER: Final = Field(put_optional_number, lambda reader: reader.number() if read_flag(reader) else None)
NAME: Final = text(NAME_MAX)
NUMBERS: Final = several(NUMBER, BROKERS_MAX)


def put_roots(out: bytearray, roots: frozenset[Root] | str) -> None:
    """Appends a set of roots, or `EVERYWHERE`."""
    if isinstance(roots, str) and roots != EVERYWHERE:
        raise ValueError(f"{roots!r} is no set of roots")
    out.append(roots == EVERYWHERE)
    if not isinstance(roots, str):
        NUMBERS.put(out, sorted(roots))


def read_roots(reader: FrameReader) -> frozenset[Root] | str:
    """Reads a set of roots, or `EVERYWHERE`."""
    return EVERYWHERE if read_flag(reader) else frozenset(NUMBERS.read(reader))


_PATH_TEXT: Final = text(PATH_BYTES_MAX)
_NAMESPACES: Final = several(pair(NAME, _PATH_TEXT), NAMESPACES_MAX)
_SCOPES: Final = several(NAME, DISJUNCTS_MAX)


class DisjunctWriter:
    """Writes disjuncts as indices of their scopes and paths."""

    def __init__(self, disjuncts: Iterable[Disjunct]) -> None:
        self._scopes: dict[str, int] = {}
        self._paths: dict[LinearPath, int] = {}
        for disjunct in disjuncts:
            self._scopes.setdefault(disjunct.scope, len(self._scopes))
            for path in disjunct.paths:
                self._paths.setdefault(path, len(self._paths))

    def put_parts(self, out: bytearray) -> None:
        """Appends the scopes and paths, before the first disjunct."""
        _SCOPES.put(out, self._scopes)
        put_number(out, len(self._paths))
        for path in self._paths:
            put_text(out, path.text)
            _NAMESPACES.put(out, path.namespaces)

    def put(self, out: bytearray, disjunct: Disjunct) -> None:
        """Appends a disjunct."""
        put_number(out, self._scopes[disjunct.scope])
        NUMBERS.put(out, sorted(map(self._paths.__getitem__, disjunct.paths)))


class DisjunctReader:
    """Reads what `DisjunctWriter` has written."""

    def __init__(self, reader: FrameReader) -> None:
        self._reader = reader
        self._scopes: tuple[str, ...] = _SCOPES.read(reader)
        self._paths = reader.several(
            lambda: LinearPath(reader.text(PATH_BYTES_MAX), _NAMESPACES.read(reader)), PATHS_MAX
        )

    def disjunct(self) -> Disjunct:
        """Reads a disjunct."""
        reader, paths = self._reader, self._paths
        scope = reader.choice(self._scopes)
        return Disjunct(scope, frozenset(reader.choice(paths) for _ in range(reader.count(CONJUNCTS_MAX))))

    def several(self, count_max: int = DISJUNCTS_MAX) -> list[Disjunct]:
        """Reads a count and so many disjuncts."""
        return [self.disjunct() for _ in range(self._reader.count(count_max, least_bytes=2))]


def put_query(out: bytearray, query: frozenset[Disjunct]) -> None:
    """Appends a routing query."""
    writer = DisjunctWriter(query)
    writer.put_parts(out)
    put_number(out, len(query))
    for disjunct in query:
        writer.put(out, disjunct)


QUERY: Final = Field(put_query, lambda reader: frozenset(DisjunctReader(reader).several()))
