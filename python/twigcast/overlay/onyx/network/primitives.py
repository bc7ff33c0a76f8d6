"""Numbers, texts and bytes as parts of a frame.

Numbers are variable in length, seven bits a byte, the lowest first; those that may be negative are folded (zigzag), as
in Protocol Buffers. Texts are UTF-8. Whatever has a length says it first, and the length is compared with a bound and
with what is left before anything is made of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from twigcast.overlay.onyx.network.errors import FrameError

T = TypeVar("T")
Data: TypeAlias = bytes
"""What is read; `FrameReader` has a method of the other name."""

NUMBER_MAX: Final = (1 << 64) - 1
"""The largest number."""

_REAL: Final = struct.Struct(">d")


def put_number(out: bytearray, value: int) -> None:
    """Append a number from 0 to ``NUMBER_MAX``."""
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
    """Append a number of 64 bits with its sign."""
    put_number(out, value << 1 if value >= 0 else ((-value) << 1) - 1)


def put_real(out: bytearray, value: float) -> None:
    """Append a number with a fraction."""
    out += _REAL.pack(value)


def put_bytes(out: bytearray, value: bytes) -> None:
    """Append bytes."""
    put_number(out, len(value))
    out += value


def put_text(out: bytearray, value: str) -> None:
    """Append a text."""
    put_bytes(out, value.encode())


class FrameReader:
    """Reads what the functions above have written, from one frame.

    Args:
        data: The bytes.
        start: Where the frame begins.
        end: Where it ends.

    All methods raise :class:`FrameError` where the frame ends too early or breaks a bound.
    """

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self._data = data
        self._at = start
        self._end = end

    @property
    def left(self) -> int:
        """Bytes that are left."""
        return self._end - self._at

    @property
    def at(self) -> int:
        """Where the next byte lies."""
        return self._at

    def number(self) -> int:
        """A number."""
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
        """A number with its sign."""
        folded = self.number()
        return -((folded + 1) >> 1) if folded & 1 else folded >> 1

    def real(self) -> float:
        """A number with a fraction."""
        if self.left < _REAL.size:
            raise FrameError("a real number is cut off")
        (value,) = _REAL.unpack_from(self._data, self._at)
        self._at += _REAL.size
        return float(value)

    def bytes(self, most: int) -> bytes:
        """Bytes, at most so many."""
        size = self.number()
        if size > most:
            raise FrameError(f"{size:,} bytes where at most {most:,} may be")
        start = self._at
        if size > self._end - start:
            raise FrameError(f"{size:,} bytes are announced and {self._end - start:,} there")
        self._at = start + size
        return self._data[start : start + size]

    def text(self, most: int) -> str:
        """A text of at most so many bytes."""
        data = self.bytes(most)
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise FrameError(f"a text is not UTF-8: {error.reason}") from None

    def count(self, most: int, least_bytes: int = 1) -> int:
        """How many things follow: at most so many, of which each takes at least ``least_bytes``."""
        count = self.number()
        if count > most:
            raise FrameError(f"{count:,} things where at most {most:,} may be")
        if count * least_bytes > self.left:
            raise FrameError(f"{count:,} things are announced in {self.left:,} bytes")
        return count

    def choice(self, items_: list[T]) -> T:
        """One of the things, by its place."""
        position = self.number()
        if position >= len(items_):
            raise FrameError(f"number {position:,} of {len(items_):,} things")
        return items_[position]

    def several(self, read: Callable[[], T], most: int) -> list[T]:
        """Several things of one kind."""
        return [read() for _ in range(self.count(most))]

    def by(self, read: Callable[[Data, int, int], tuple[T, int]]) -> T:
        """What a function reads: it is given all bytes, where to begin and to end, and says where it has come to."""
        item, self._at = read(self._data, self._at, self._end)
        return item

    def skip(self) -> None:
        """Pass over all that is left."""
        self._at = self._end

    def finish(self) -> None:
        """Make sure that nothing is left."""
        if self.left:
            raise FrameError(f"{self.left:,} bytes are left over")
