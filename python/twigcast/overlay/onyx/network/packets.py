"""Packets: the content of one gRPC message, made of frames that were waiting together.

A packet begins with the version of its form and a CRC-32 of all that follows. The checksum guards the bytes where there
is no TLS, and detects a broker that writes nonsense. The core takes packets apart, puts them together, and does the
same with frames of spans (see decision 0029).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from twigcast._core import PACKET_BYTES_MAX, PACKET_FORM, PacketFrame, packet_of
from twigcast.overlay.onyx.messages import Span
from twigcast.overlay.onyx.network.errors import FrameError
from twigcast.overlay.onyx.network.frames import SPAN_KIND, SPANS, Agreed, frame_of, read_frame, read_span_frame

FORM: Final = PACKET_FORM
"""Version of the form of packets."""

HEADER_BYTES: Final = 5

PACKET_BYTES_WANTED: Final = 256 << 10
"""Size at which a packet is closed."""

FRAME_BYTES_MAX: Final = PACKET_BYTES_MAX - HEADER_BYTES
"""Size of the largest frame that is sent, so that it fits into the largest packet."""


def frame(message: object) -> bytes:
    """Returns a message as a frame.

    Raises:
        FrameError: The frame is too large to be sent.
        TypeError: Messages of this class are not sent between brokers.
    """
    data = SPANS.frame(SPAN_KIND, message) if type(message) is Span else frame_of(message)
    if len(data) > FRAME_BYTES_MAX:
        raise FrameError(f"a {type(message).__name__} of {len(data):,} bytes is too large to be sent")
    return data


def packet(frames: Iterable[bytes]) -> bytes:
    """Returns frames as one packet."""
    return packet_of(list(frames))


def messages_of(data: bytes, agreed: Agreed | None = None) -> Iterable[Any]:
    """Returns the messages of a packet, without those of unknown kinds.

    Args:
        data: The packet.
        agreed: The meanings of the forms of messages (see `Exchange.agreed`). Messages other than spans may change it,
            so what follows one of these is read only when the caller asks for it.

    Raises:
        FrameError: The packet is damaged, cut off, of another form, or over a bound, and gives no message. Or a frame
            is faulty, and messages before it may have been returned.
    """
    try:
        spans, frames = SPANS.packet(SPAN_KIND, data, agreed)
    except ValueError as error:
        raise FrameError(str(error)) from None
    return chain(spans, _messages(data, frames, agreed)) if frames else spans


def _messages(data: bytes, frames: Iterable[PacketFrame], agreed: Agreed | None) -> Iterator[Any]:
    for one in frames:
        if one.kind == SPAN_KIND:
            yield read_span_frame(data, one.start, one.end, agreed)
        elif (message := read_frame(one.kind, data, one.start, one.end)) is not None:
            yield message


def read_packet(data: bytes) -> list[Any]:
    """Returns all messages of a packet.

    Raises:
        FrameError: The packet, or one of its frames, is faulty.
    """
    return list(messages_of(data))
