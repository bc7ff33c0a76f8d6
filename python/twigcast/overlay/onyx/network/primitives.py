"""Primitives of frames: numbers, texts and bytes.

Numbers have a variable length: seven bits a byte, the lowest first. Signed ones are folded (zigzag), as in Protocol
Buffers. Texts are UTF-8. Lengths come first, and are compared with a bound and with the rest of the frame before
anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from twigcast.overlay.onyx.network.errors import FrameError

T = TypeVar("T")
Data: TypeAlias = bytes
"""The bytes of a frame. In `FrameReader`, `bytes` is a method."""

NUMBER_MAX: Final = (1 << 64) - 1
"""The largest number."""

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
