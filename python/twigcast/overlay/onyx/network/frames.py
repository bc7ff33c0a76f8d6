"""Frames, one for each message, and packets, one for each gRPC message, made of frames that were waiting together.

A frame is the kind of a message, its length, and its fields one after the other. A frame of an unknown kind is skipped,
as from a newer broker; any other fault is refused with a reason. The contents of a frame are bounded, so that no frame
becomes much larger in memory than its own bytes.

A packet begins with the version of its form and a CRC-32 of all that follows. The checksum guards the bytes where there
is no TLS, and detects a broker that writes nonsense. The core takes packets apart, puts them together, and does the
same with frames of spans (see decision 0029).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from twigcast._core import BODY_BYTES_MAX, PACKET_BYTES_MAX, PACKET_FORM, PacketFrame, SpanCodec, packet_of
from twigcast.overlay.errors import FrameError
from twigcast.overlay.onyx.lexicon import LEXICON_NAME_BYTES_MAX, LEXICON_NAMES_MAX, Lexicon, LexiconUpdate
from twigcast.overlay.onyx.messages import (
    DISJUNCTS_PER_DELTA_MAX,
    PROTOCOL,
    Attach,
    Attached,
    Detach,
    Hello,
    LinkState,
    OverlayMessage,
    PeerMessage,
    Recover,
    Recovered,
    Root,
    RoutingDelta,
    ServiceMessage,
    SetProjection,
    SourceEntry,
    Span,
    StoredReport,
)
from twigcast.overlay.onyx.network.fields import (
    BROKERS_MAX,
    DISJUNCTS_MAX,
    FLAG,
    NAME,
    NUMBER,
    NUMBERS,
    OPTIONAL_NUMBER,
    PATH_BYTES_MAX,
    QUERY,
    REAL,
    SIGNED,
    DisjunctReader,
    DisjunctWriter,
    Field,
    FrameReader,
    data,
    pair,
    put_number,
    put_roots,
    read_roots,
    several,
    text,
)
from twigcast.overlay.onyx.network.greeting import NAME_BYTES_MAX, GoAway, Greeting, Ping, Pong, Ready

FORMS_MAX: Final = 64  #: Wire formats in one greeting.
SCHEMA_BYTES_MAX: Final = 4 << 20  #: Bytes of a schema in the catalogue.
REASON_BYTES_MAX: Final = 4 << 10  #: Bytes of the reason of a `GoAway`.

#: By the name of a form as it is written, the form that is meant and its lexicon.
Agreed: TypeAlias = dict[str, tuple[str, Lexicon | None]]

#: Writes and reads spans in the core, since most of the traffic is spans.
SPANS: Final = SpanCodec(Span, OverlayMessage)


class Codec(NamedTuple):
    """The form of the messages of one class."""

    kind: int  #: Number of the class on the wire, which never changes.
    put: Callable[[bytearray, Any], None]  #: Appends the fields.
    read: Callable[[FrameReader], Any]  #: Reads the fields.


def _record(kind: int, message: Callable[..., Any], *fields: Field) -> Codec:
    """Returns the form of a message that is written field by field."""

    def put(out: bytearray, values: tuple[Any, ...]) -> None:
        for field, value in zip(fields, values, strict=True):
            field.put(out, value)

    return Codec(kind, put, lambda reader: message(*[field.read(reader) for field in fields]))


def _put_span(out: bytearray, span: Span) -> None:
    out += SPANS.fields(span)


def _read_span(reader: FrameReader) -> Span:
    def read(data: bytes, start: int, end: int) -> tuple[Span, int]:
        try:
            return SPANS.read(data, start, end)
        except ValueError as error:
            raise FrameError(str(error)) from None

    return reader.by(read)


_VERSION: Final = pair(NUMBER, NUMBER)
# Version and name come first, in all versions.
_GREETING: Final = _record(1, Greeting, _VERSION, text(NAME_BYTES_MAX), data(16), NUMBER, NAME, REAL, NAME)


def _read_greeting(reader: FrameReader) -> Greeting:
    version, name = _VERSION.read(reader), reader.text(NAME_BYTES_MAX)
    if not name or not name.isprintable():
        raise FrameError("the broker gives no name that can be printed")
    if version[0] != PROTOCOL[0]:
        # The fields of another version are unknown, and the broker will be refused.
        reader.skip()
        return Greeting(version, name, b"", 0, "", 0.0, "")
    instance, incarnation = reader.bytes(16), reader.number()
    return Greeting(version, name, instance, incarnation, NAME.read(reader), reader.real(), NAME.read(reader))


def _put_routing_delta(out: bytearray, delta: RoutingDelta) -> None:
    put_number(out, delta.version)
    writer = DisjunctWriter([disjunct for disjunct, _ in delta.interests] + list(delta.unwanted))
    writer.put_parts(out)
    sets: dict[frozenset[Root] | str, int] = {}
    for _, roots in delta.interests:
        sets.setdefault(roots, len(sets))
    put_number(out, len(sets))
    for roots in sets:
        put_roots(out, roots)
    put_number(out, len(delta.interests))
    for disjunct, roots in delta.interests:
        writer.put(out, disjunct)
        put_number(out, sets[roots])
    put_number(out, len(delta.unwanted))
    for disjunct in delta.unwanted:
        writer.put(out, disjunct)


def _read_routing_delta(reader: FrameReader) -> RoutingDelta:
    version = reader.number()
    disjuncts = DisjunctReader(reader)
    sets = reader.several(lambda: read_roots(reader), DISJUNCTS_MAX)
    count = reader.count(DISJUNCTS_PER_DELTA_MAX, least_bytes=3)
    interests = tuple((disjuncts.disjunct(), reader.choice(sets)) for _ in range(count))
    return RoutingDelta(version, interests, tuple(disjuncts.several(DISJUNCTS_PER_DELTA_MAX)))


SPAN_KIND: Final = 16  #: The kind of frames of spans.

_SPAN: Final = Field(_put_span, _read_span)
_LINKS: Final = several(pair(NUMBER, NUMBER), BROKERS_MAX)
_PARTS: Final = several(pair(NAME, text(PATH_BYTES_MAX)), DISJUNCTS_MAX)

#: By class of message.
CODECS: Final[dict[type, Codec]] = {
    Greeting: _GREETING._replace(read=_read_greeting),
    Ready: _record(2, Ready),
    GoAway: _record(3, GoAway, NAME, text(REASON_BYTES_MAX)),
    Ping: _record(4, Ping, NUMBER),
    Pong: _record(5, Pong, NUMBER, REAL),
    LexiconUpdate: _record(
        6, LexiconUpdate, NUMBER, OPTIONAL_NUMBER, several(text(LEXICON_NAME_BYTES_MAX), LEXICON_NAMES_MAX)
    ),
    Span: Codec(SPAN_KIND, _put_span, _read_span),
    Hello: _record(17, Hello, NUMBER, NUMBER, _VERSION, several(NAME, FORMS_MAX)),
    LinkState: _record(18, LinkState, NUMBER, NUMBER, NUMBER, _LINKS, NAME),
    RoutingDelta: Codec(19, _put_routing_delta, _read_routing_delta),
    Attach: _record(20, Attach, NUMBER, NUMBER, NUMBER),
    Attached: _record(21, Attached, NUMBER, NUMBER, SIGNED),
    Recover: _record(22, Recover, NUMBER, SIGNED, SIGNED, QUERY, NUMBERS),
    Recovered: _record(23, Recovered, _SPAN, NUMBERS, FLAG, FLAG),
    StoredReport: _record(24, StoredReport, NUMBER, SIGNED, NUMBER),
    Detach: _record(25, Detach, NUMBER),
    SourceEntry: _record(26, SourceEntry, NAME, NUMBER, NUMBER, text(SCHEMA_BYTES_MAX), REAL, NUMBER, FLAG, NAME),
    ServiceMessage: _record(27, ServiceMessage, NUMBER, NUMBER, NUMBER, data(BODY_BYTES_MAX)),
    SetProjection: _record(28, SetProjection, _PARTS, FLAG),
    PeerMessage: _record(40, PeerMessage, data(BODY_BYTES_MAX)),
}

_READ: Final = {codec.kind: codec.read for codec in CODECS.values()}


def frame_of(message: object) -> bytes:
    """Returns a message as a frame, of any size."""
    codec = CODECS.get(type(message))
    if codec is None:
        raise TypeError(f"{type(message).__name__} is no message between brokers")
    fields = bytearray()
    codec.put(fields, message)
    out = bytearray()
    put_number(out, codec.kind)
    put_number(out, len(fields))
    return bytes(out + fields)


def read_frame(kind: int, data: bytes, start: int, end: int) -> Any:
    """Returns the message in the fields of one frame, or `None` if the kind is unknown."""
    read = _READ.get(kind)
    if read is None:
        return None
    reader = FrameReader(data, start, end)
    try:
        message = read(reader)
        reader.finish()
    except FrameError as error:
        raise FrameError(f"in a frame of kind {kind}: {error.reason}") from None
    return message


def read_span_frame(data: bytes, start: int, end: int, agreed: Agreed | None = None) -> Span:
    """Returns the span in the fields of one frame, in one of the forms that are agreed on for the link."""
    try:
        span: Span
        span, at = SPANS.read(data, start, end, agreed)
    except ValueError as error:
        raise FrameError(f"in a frame of kind {SPAN_KIND}: {error}") from None
    if at != end:
        raise FrameError(f"in a frame of kind {SPAN_KIND}: {end - at:,} bytes are left over")
    return span


FORM: Final = PACKET_FORM  #: Version of the form of packets.

HEADER_BYTES: Final = 5

PACKET_BYTES_WANTED: Final = 256 << 10  #: Size at which a packet is closed.

#: Size of the largest frame that is sent, so that it fits into the largest packet.
FRAME_BYTES_MAX: Final = PACKET_BYTES_MAX - HEADER_BYTES


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
    """Returns all messages of a packet; fails as `messages_of` does."""
    return list(messages_of(data))
