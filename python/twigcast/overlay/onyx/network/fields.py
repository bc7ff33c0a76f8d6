"""The fields of frames: how numbers, texts, lists and disjuncts are written and read.

Numbers have a variable length: seven bits a byte, the lowest first. Signed ones are folded (zigzag), as in Protocol
Buffers. Texts are UTF-8. Lengths come first, and are compared with a bound and with the rest of the frame before
anything is allocated.

A routing delta holds thousands of disjuncts made of few paths. So it holds each path, scope and set of roots once, and
the disjuncts as indices of these.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from twigcast.overlay.errors import FrameError
from twigcast.overlay.onyx.messages import EVERYWHERE, Disjunct, LinearPath, Root

T = TypeVar("T")
Data: TypeAlias = bytes  #: The bytes of a frame. In `FrameReader`, `bytes` is a method.

NUMBER_MAX: Final = (1 << 64) - 1  #: The largest number.

_REAL: Final = struct.Struct(">d")


def put_number(out: bytearray, value: int) -> None:
    """Appends a number from 0 to ``NUMBER_MAX``."""
    if value < 0x80:
        if value < 0:
            raise ValueError(f"{value} is below 0")
        out.append(value)
        return
    if value > NUMBER_MAX:
        raise ValueError(f"{value} takes more than 64 bits")
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_signed(out: bytearray, value: int) -> None:
    """Appends a signed number of 64 bits."""
    put_number(out, value << 1 if value >= 0 else ((-value) << 1) - 1)


def put_real(out: bytearray, value: float) -> None:
    """Appends a real number."""
    out += _REAL.pack(value)


def put_bytes(out: bytearray, value: bytes) -> None:
    """Appends bytes."""
    put_number(out, len(value))
    out += value


def put_text(out: bytearray, value: str) -> None:
    """Appends a text."""
    put_bytes(out, value.encode())


class FrameReader:
    """A reader of the fields of one frame.

    All methods raise :class:`FrameError` if the frame ends too early or breaks a bound.

    Args:
        data: The bytes.
        start: Where the frame begins.
        end: Where it ends.
    """

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data = data
        self._at = start
        self._end = end

    @property
    def left(self) -> int:
        """The number of bytes that are left."""
        return self._end - self._at

    def number(self) -> int:
        """Reads a number."""
        at, end, data = self._at, self._end, self._data
        if at < end and (value := data[at]) < 0x80:
            self._at = at + 1
            return value
        value, shift = 0, 0
        while at < end:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > NUMBER_MAX:
                    break
                self._at = at
                return value
            shift += 7
            if shift > 63:
                break
        raise FrameError("a number is cut off" if at >= end and shift <= 63 else "a number takes more than 64 bits")

    def signed(self) -> int:
        """Reads a signed number."""
        folded = self.number()
        return -((folded + 1) >> 1) if folded & 1 else folded >> 1

    def real(self) -> float:
        """Reads a real number."""
        if self.left < _REAL.size:
            raise FrameError("a real number is cut off")
        (value,) = _REAL.unpack_from(self._data, self._at)
        self._at += _REAL.size
        return float(value)

    def bytes(self, size_max: int) -> bytes:
        """Reads bytes, at most `size_max`."""
        size = self.number()
        if size > size_max:
            raise FrameError(f"{size:,} bytes where at most {size_max:,} may be")
        start = self._at
        if size > self._end - start:
            raise FrameError(f"{size:,} bytes are announced and {self._end - start:,} there")
        self._at = start + size
        return self._data[start : start + size]

    def text(self, size_max: int) -> str:
        """Reads a text of at most `size_max` bytes."""
        data = self.bytes(size_max)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise FrameError(f"a text is not UTF-8: {error.reason}") from None

    def count(self, count_max: int, least_bytes: int = 1) -> int:
        """Reads the number of values that follow, of which each takes at least ``least_bytes``."""
        count = self.number()
        if count > count_max:
            raise FrameError(f"{count:,} values where at most {count_max:,} may be")
        if count * least_bytes > self.left:
            raise FrameError(f"{count:,} values are announced in {self.left:,} bytes")
        return count

    def choice(self, values: Sequence[T]) -> T:
        """Reads an index, and returns the value at it."""
        index = self.number()
        if index >= len(values):
            raise FrameError(f"number {index:,} of {len(values):,} values")
        return values[index]

    def several(self, read: Callable[[], T], count_max: int) -> list[T]:
        """Reads a count and so many values."""
        return [read() for _ in range(self.count(count_max))]

    def by(self, read: Callable[[Data, int, int], tuple[T, int]]) -> T:
        """Reads a value by a function of the bytes, the start and the end, which also returns the new position."""
        item, self._at = read(self._data, self._at, self._end)
        return item

    def skip(self) -> None:
        """Skips all that is left."""
        self._at = self._end

    def finish(self) -> None:
        """Refuses a frame with bytes left."""
        if self.left:
            raise FrameError(f"{self.left:,} bytes are left over")


NAME_MAX: Final = 4 << 10  #: Bytes of a name: of a scope, a source, a message, a type.
PATH_BYTES_MAX: Final = 1 << 20  #: Bytes of a linear path.
PATHS_MAX: Final = 1 << 20  #: Different paths in one frame.
DISJUNCTS_MAX: Final = 1 << 20  #: Disjuncts in one frame.
CONJUNCTS_MAX: Final = 1 << 12  #: Paths of one disjunct.
NAMESPACES_MAX: Final = 1 << 10  #: Namespaces of one path.
BROKERS_MAX: Final = 1 << 14  #: Brokers in one list.


class Field(NamedTuple):
    """The form of one field."""

    put: Callable[[bytearray, Any], None]  #: Appends a value.
    read: Callable[[FrameReader], Any]  #: Reads a value. Raises `FrameError` if there is none, or it breaks a bound.


def read_flag(reader: FrameReader) -> bool:
    """Reads a boolean."""
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
