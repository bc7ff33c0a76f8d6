"""Packets: what one gRPC message carries, several frames that were waiting together.

A packet begins with the version of its form and a CRC-32 of all that follows. TLS guards the bytes on the way; the sum
guards them where there is no TLS, and finds a broker that itself writes nonsense. Packets are taken apart and put
together by the core, and so are the frames of messages (see decision 0029).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from twigcast._core import PACKET_BYTES_MAX, PACKET_FORM, packet_of
from twigcast.overlay.onyx.messages import Span
from twigcast.overlay.onyx.network.errors import FrameError
from twigcast.overlay.onyx.network.frames import SPAN_KIND, SPANS, Agreed, frame_of, read_frame, read_span_frame

FORM: Final = PACKET_FORM
"""Version of the form of packets."""

HEADER_BYTES: Final = 5

PACKET_BYTES_WANTED: Final = 256 << 10
"""A packet is closed when it has got so large."""

FRAME_BYTES_MAX: Final = PACKET_BYTES_MAX - HEADER_BYTES
"""The largest frame that is sent: it fits into the largest packet that is read."""


def frame(message: object) -> bytes:
    """A message as a frame.

    Raises:
        FrameError: It is too large to be sent.
        TypeError: It is of no class that goes over the wire.
    """
    data = SPANS.frame(SPAN_KIND, message) if type(message) is Span else frame_of(message)
    if len(data) > FRAME_BYTES_MAX:
        raise FrameError(f"a {type(message).__name__} of {len(data):,} bytes is too large to be sent")
    return data


def packet(frames: Iterable[bytes]) -> bytes:
    """Frames as one packet."""
    return packet_of(list(frames))


def messages_of(data: bytes, agreed: Agreed | None = None) -> Iterable[Any]:
    """The messages of a packet, without those of a kind that is not known.

    Args:
        data: The packet.
        agreed: What the forms in which messages come mean (see `Exchange.agreed`); what other messages than spans say
            may change it, so that what follows one of these is read only when it is asked for.

    Raises:
        FrameError: It is none: damaged, cut off, of another form, or beyond a bound; then no message comes out. Or one
            of its frames is none: then some of those before it may.
    """
    try:
        spans, frames = SPANS.packet(SPAN_KIND, data, agreed)
    except ValueError as error:
        raise FrameError(str(error)) from None
    return chain(spans, _messages(data, frames, agreed)) if frames else spans


def _messages(data: bytes, frames: Iterable[tuple[int, int, int]], agreed: Agreed | None) -> Iterator[Any]:
    for kind, start, end in frames:
        if kind == SPAN_KIND:
            yield read_span_frame(data, start, end, agreed)
        elif (message := read_frame(kind, data, start, end)) is not None:
            yield message


def read_packet(data: bytes) -> list[Any]:
    """All messages of a packet.

    Raises:
        FrameError: It is none, or one of its frames is none.
    """
    return list(messages_of(data))
