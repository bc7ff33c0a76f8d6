"""Packets and spans by another hand: what the core reads and writes is compared with what this does.

It reads slowly, a byte at a time, and says nothing of why it refuses.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from twigcast.overlay.onyx.messages import OverlayMessage, Span

NAME_MAX: Final = 4_096
BODY_MAX: Final = 64 << 20
REDUCED_MAX: Final = 1 << 20
BROKERS_MAX: Final = 1 << 14


class RefusedBytes(Exception):
    """They are none."""


def number(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    digits = []
    while True:
        value, digit = divmod(value, 128)
        digits.append(digit + (128 if value else 0))
        if not value:
            return bytes(digits)


def signed(value: int) -> bytes:
    """0, -1, 1, -2, 2 and so on as 0, 1, 2, 3, 4."""
    return number(2 * value if value >= 0 else -2 * value - 1)


def text(value: str) -> bytes:
    """Length and UTF-8."""
    return number(len(value.encode())) + value.encode()


def span(value: Span) -> bytes:
    """The fields of a span."""
    head = number(value.root) + signed(value.after) + signed(value.upto)
    message = value.message
    if message is None:
        return head + b"\0"
    fields = [
        number(message.root),
        signed(message.number),
        *(text(getattr(message, name)) for name in ("scope", "source", "message_id", "content_type", "form")),
        number(len(message.path)),
        *map(number, message.path),
        struct.pack(">d", message.published),
        number(len(message.body)),
        message.body,
        text(message.reduced),
    ]
    return head + b"\1" + b"".join(fields)


def frame(kind: int, fields: bytes) -> bytes:
    """A frame."""
    return number(kind) + number(len(fields)) + fields


def packet(frames: list[bytes]) -> bytes:
    """A packet."""
    content = b"".join(frames)
    return b"\1" + zlib.crc32(content).to_bytes(4, "big") + content


class Bytes:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, size: int) -> bytes:
        """So many."""
        if size > len(self.data):
            raise RefusedBytes
        taken, self.data = self.data[:size], self.data[size:]
        return taken

    def number(self) -> int:
        """A number of at most 64 bits in at most ten bytes."""
        value = 0
        for position in range(10):
            (byte,) = self.take(1)
            value += (byte % 128) << (7 * position)
            if byte < 128:
                if value >= 1 << 64:
                    raise RefusedBytes
                return value
        raise RefusedBytes

    def signed(self) -> int:
        """One with its sign."""
        half, is_odd = divmod(self.number(), 2)
        return -half - 1 if is_odd else half

    def sized(self, most: int) -> bytes:
        """Bytes behind their length."""
        size = self.number()
        if size > most:
            raise RefusedBytes
        return self.take(size)

    def text(self, most: int) -> str:
        """A text."""
        try:
            return self.sized(most).decode()
        except UnicodeDecodeError:
            raise RefusedBytes from None


def read_span(data: bytes) -> Span:
    """The span of these fields.

    Raises:
        RefusedBytes: There is none.
    """
    left = Bytes(data)
    root, after, upto, flag = left.number(), left.signed(), left.signed(), left.number()
    if flag > 1:
        raise RefusedBytes
    message = _message(left) if flag else None
    if left.data:
        raise RefusedBytes
    return Span(root, after, upto, message)


def _message(left: Bytes) -> OverlayMessage:
    root, number_ = left.number(), left.signed()
    scope, source, message_id, content_type, form = (left.text(NAME_MAX) for _ in range(5))
    count = left.number()
    if count > BROKERS_MAX:
        raise RefusedBytes
    path = tuple(left.number() for _ in range(count))
    (published,) = struct.unpack(">d", left.take(8))
    body, reduced = left.sized(BODY_MAX), left.text(REDUCED_MAX)
    return OverlayMessage(root, number_, scope, source, message_id, content_type, body, form, path, published, reduced)


def read_frames(data: bytes) -> list[tuple[int, bytes]]:
    """Kinds and fields of the frames of a packet.

    Raises:
        RefusedBytes: It is none.
    """
    if len(data) < 5 or data[0] != 1 or zlib.crc32(data[5:]) != int.from_bytes(data[1:5], "big"):
        raise RefusedBytes
    left, results = Bytes(data[5:]), []
    while left.data:
        results.append((left.number(), left.take(left.number())))
    return results
