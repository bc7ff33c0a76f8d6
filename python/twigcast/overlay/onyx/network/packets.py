"""Packets: what one gRPC message carries, several frames that were waiting together.

A packet begins with the version of its form and a CRC-32 of all that follows. TLS guards the bytes on the way; the sum
guards them where there is no TLS, and finds a broker that itself writes nonsense.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, Final

from twigcast.overlay.onyx.network.errors import FrameError
from twigcast.overlay.onyx.network.frames import BODY_BYTES_MAX, put_frame, read_frame

FORM: Final = 1
"""Version of the form of packets."""

HEADER_BYTES: Final = 5

PACKET_BYTES_WANTED: Final = 256 << 10
"""A packet is closed when it has got so large."""

PACKET_BYTES_MAX: Final = BODY_BYTES_MAX + (2 << 20)
"""The largest packet that is read: one message with the largest body fits."""

FRAMES_MAX: Final = 1 << 16
"""Frames in one packet."""


def frame(message: object) -> bytes:
    """A message as a frame.

    Raises:
        FrameError: It is too large to be sent.
        TypeError: It is of no class that goes over the wire.
    """
    out = bytearray()
    put_frame(out, message)
    if len(out) > PACKET_BYTES_MAX - HEADER_BYTES:
        raise FrameError(f"a {type(message).__name__} of {len(out):,} bytes is too large to be sent")
    return bytes(out)


def packet(frames: Iterable[bytes]) -> bytes:
    """Frames as one packet."""
    content = b"".join(frames)
    return bytes((FORM, *zlib.crc32(content).to_bytes(4))) + content


def read_packet(data: bytes) -> list[Any]:
    """The messages of a packet, without those of a kind that is not known.

    Raises:
        FrameError: It is none: damaged, cut off, of another form, or beyond a bound.
    """
    if len(data) > PACKET_BYTES_MAX:
        raise FrameError(f"a packet of {len(data):,} bytes where at most {PACKET_BYTES_MAX:,} may be")
    if len(data) < HEADER_BYTES:
        raise FrameError(f"a packet of {len(data)} bytes is cut off")
    if data[0] != FORM:
        raise FrameError(f"the packet has the form {data[0]}, this broker reads {FORM}")
    if zlib.crc32(memoryview(data)[HEADER_BYTES:]) != int.from_bytes(data[1:HEADER_BYTES]):
        raise FrameError("the packet is damaged: its sum does not fit")
    messages: list[Any] = []
    at, end = HEADER_BYTES, len(data)
    for _ in range(FRAMES_MAX):
        if at == end:
            return messages
        message, at = read_frame(data, at, end)
        if message is not None:
            messages.append(message)
    raise FrameError(f"a packet of more than {FRAMES_MAX:,} frames")
