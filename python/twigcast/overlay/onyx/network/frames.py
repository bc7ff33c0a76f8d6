"""Each message as a frame: its kind, its length, its fields one after the other.

A frame of a kind that is not known is passed over, as from a newer broker; everything else that does not fit is refused
with what is wrong. What a frame may hold is bounded, so that no frame makes much more of itself than its own bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from twigcast._core import BODY_BYTES_MAX, SpanCodec
from twigcast.overlay.onyx.lexicon import Lexicon, LexiconUpdate
from twigcast.overlay.onyx.messages import (
    DISJUNCTS_PER_DELTA_MAX,
    Attach,
    Attached,
    Detach,
    Hello,
    LinkState,
    OverlayMessage,
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
from twigcast.overlay.onyx.network import driving
from twigcast.overlay.onyx.network.errors import FrameError
from twigcast.overlay.onyx.network.fields import (
    BROKERS_MAX,
    DISJUNCTS_MAX,
    NAME_MAX,
    PATH_BYTES_MAX,
    DisjunctReader,
    DisjunctWriter,
    put_numbers,
    put_roots,
    read_flag,
    read_numbers,
    read_roots,
)
from twigcast.overlay.onyx.network.greeting import GoAway, Greeting, Ping, Pong, Ready
from twigcast.overlay.onyx.network.primitives import FrameReader, put_bytes, put_number, put_real, put_signed, put_text

FORMS_MAX: Final = 64
"""Wire formats that a broker names."""
SCHEMA_BYTES_MAX: Final = 4 << 20
"""Bytes of a schema in the catalogue."""

Agreed: TypeAlias = dict[str, tuple[str, Lexicon | None]]
"""By forms of messages as they are written: the form that is meant, and the lexicon."""

SPANS: Final = SpanCodec(Span, OverlayMessage)
"""Reads and writes spans, with the messages in them, in the core: of all that goes over links, most is these."""


# Parts that several messages have -------------------------------------------------------------------------------------


def _put_span(out: bytearray, span: Span) -> None:
    out += SPANS.fields(span)


def _span(reader: FrameReader) -> Span:
    return reader.by(_read_span)


def _read_span(data: bytes, start: int, end: int) -> tuple[Span, int]:
    try:
        return SPANS.read(data, start, end)
    except ValueError as error:
        raise FrameError(str(error)) from None


# The messages ---------------------------------------------------------------------------------------------------------


def _put_hello(out: bytearray, hello: Hello) -> None:
    put_number(out, hello.identity)
    put_number(out, hello.incarnation)
    put_number(out, hello.version[0])
    put_number(out, hello.version[1])
    put_number(out, len(hello.forms))
    for form in hello.forms:
        put_text(out, form)


def _hello(reader: FrameReader) -> Hello:
    identity, incarnation = reader.number(), reader.number()
    version = reader.number(), reader.number()
    return Hello(identity, incarnation, version, tuple(reader.several(lambda: reader.text(NAME_MAX), FORMS_MAX)))


def _put_link_state(out: bytearray, state: LinkState) -> None:
    put_number(out, state.origin)
    put_number(out, state.incarnation)
    put_number(out, state.version)
    put_number(out, len(state.links))
    for neighbour, cost in state.links:
        put_number(out, neighbour)
        put_number(out, cost)
    put_text(out, state.where)


def _link_state(reader: FrameReader) -> LinkState:
    origin, incarnation, version = reader.number(), reader.number(), reader.number()
    links = reader.several(lambda: (reader.number(), reader.number()), BROKERS_MAX)
    return LinkState(origin, incarnation, version, tuple(links), reader.text(NAME_MAX))


def _put_routing_delta(out: bytearray, delta: RoutingDelta) -> None:
    put_number(out, delta.version)
    parts = DisjunctWriter([disjunct for disjunct, _ in delta.interests] + list(delta.unwanted))
    parts.put_parts(out)
    sets: dict[frozenset[Root] | str, int] = {}
    for _, roots in delta.interests:
        sets.setdefault(roots, len(sets))
    put_number(out, len(sets))
    for roots in sets:
        put_roots(out, roots)
    put_number(out, len(delta.interests))
    for disjunct, roots in delta.interests:
        parts.submit(out, disjunct)
        put_number(out, sets[roots])
    put_number(out, len(delta.unwanted))
    for disjunct in delta.unwanted:
        parts.submit(out, disjunct)


def _routing_delta(reader: FrameReader) -> RoutingDelta:
    version = reader.number()
    parts = DisjunctReader(reader)
    sets = reader.several(lambda: read_roots(reader), DISJUNCTS_MAX)
    count = reader.count(DISJUNCTS_PER_DELTA_MAX, least_bytes=3)
    requested = tuple((parts.disjunct(), reader.choice(sets)) for _ in range(count))
    return RoutingDelta(version, requested, tuple(parts.several(DISJUNCTS_PER_DELTA_MAX)))


def _put_reduce(out: bytearray, reduce: SetProjection) -> None:
    put_number(out, len(reduce.parts))
    for scope, text in reduce.parts:
        put_text(out, scope)
        put_text(out, text)
    out.append(reduce.rest)


def _reduce(reader: FrameReader) -> SetProjection:
    parts = reader.several(lambda: (reader.text(NAME_MAX), reader.text(PATH_BYTES_MAX)), DISJUNCTS_MAX)
    return SetProjection(tuple(parts), read_flag(reader))


def _put_attach(out: bytearray, attach: Attach) -> None:
    put_number(out, attach.root)
    put_number(out, attach.number)
    put_number(out, attach.hops)


def _attach(reader: FrameReader) -> Attach:
    return Attach(reader.number(), reader.number(), reader.number())


def _put_detach(out: bytearray, detach: Detach) -> None:
    put_number(out, detach.root)


def _detach(reader: FrameReader) -> Detach:
    return Detach(reader.number())


def _put_attached(out: bytearray, attached: Attached) -> None:
    put_number(out, attached.root)
    put_number(out, attached.number)
    put_signed(out, attached.position)


def _attached(reader: FrameReader) -> Attached:
    return Attached(reader.number(), reader.number(), reader.signed())


def _put_recover(out: bytearray, recover: Recover) -> None:
    put_number(out, recover.root)
    put_signed(out, recover.after)
    put_signed(out, recover.upto)
    parts = DisjunctWriter(recover.query)
    parts.put_parts(out)
    put_number(out, len(recover.query))
    for disjunct in recover.query:
        parts.submit(out, disjunct)
    put_numbers(out, recover.route, len(recover.route))


def _recover(reader: FrameReader) -> Recover:
    root, after, upto = reader.number(), reader.signed(), reader.signed()
    requested = frozenset(DisjunctReader(reader).several())
    return Recover(root, after, upto, requested, read_numbers(reader))


def _put_recovered(out: bytearray, recovered: Recovered) -> None:
    _put_span(out, recovered.span)
    put_numbers(out, recovered.route, len(recovered.route))
    out.append(recovered.lost)
    out.append(recovered.pauses)


def _recovered(reader: FrameReader) -> Recovered:
    return Recovered(_span(reader), read_numbers(reader), read_flag(reader), read_flag(reader))


def _put_stored_report(out: bytearray, existing: StoredReport) -> None:
    put_number(out, existing.root)
    put_signed(out, existing.horizon)
    put_number(out, existing.brokers)


def _stored_report(reader: FrameReader) -> StoredReport:
    return StoredReport(reader.number(), reader.signed(), reader.number())


def _put_source(out: bytearray, source: SourceEntry) -> None:
    put_text(out, source.name)
    put_number(out, source.version)
    put_number(out, source.root)
    put_text(out, source.schema)
    put_real(out, source.rate)
    put_number(out, source.size)
    out.append(source.is_gone)
    put_text(out, source.owner)


def _source(reader: FrameReader) -> SourceEntry:
    name, version, root = reader.text(NAME_MAX), reader.number(), reader.number()
    schema, rate, size, is_gone = reader.text(SCHEMA_BYTES_MAX), reader.real(), reader.number(), read_flag(reader)
    return SourceEntry(name, version, root, schema, rate, size, is_gone, reader.text(NAME_MAX))


def _put_relay(out: bytearray, relay: ServiceMessage) -> None:
    put_number(out, relay.origin)
    put_number(out, relay.target)
    put_number(out, relay.hops)
    put_bytes(out, relay.content)


def _relay(reader: FrameReader) -> ServiceMessage:
    return ServiceMessage(reader.number(), reader.number(), reader.number(), reader.bytes(BODY_BYTES_MAX))


# The table ------------------------------------------------------------------------------------------------------------


class Codec(NamedTuple):
    """How messages of one class are written and read.

    Attributes:
        kind: Number of the class on the wire, for good.
        submit: Appends the fields.
        read: Reads them.
    """

    kind: int
    put: Callable[[bytearray, Any], None]
    read: Callable[[FrameReader], Any]


SPAN_KIND: Final = 16
"""Of frames of spans."""

CODECS: Final[dict[type, Codec]] = {
    Greeting: Codec(1, driving.put_greeting, driving.read_greeting),
    Ready: Codec(2, driving.put_ready, driving.read_ready),
    GoAway: Codec(3, driving.put_refused, driving.read_refused),
    Ping: Codec(4, driving.put_ping, driving.read_ping),
    Pong: Codec(5, driving.put_pong, driving.read_pong),
    LexiconUpdate: Codec(6, driving.put_teaching, driving.read_teaching),
    Span: Codec(SPAN_KIND, _put_span, _span),
    Hello: Codec(17, _put_hello, _hello),
    LinkState: Codec(18, _put_link_state, _link_state),
    RoutingDelta: Codec(19, _put_routing_delta, _routing_delta),
    Attach: Codec(20, _put_attach, _attach),
    Attached: Codec(21, _put_attached, _attached),
    Recover: Codec(22, _put_recover, _recover),
    Recovered: Codec(23, _put_recovered, _recovered),
    StoredReport: Codec(24, _put_stored_report, _stored_report),
    Detach: Codec(25, _put_detach, _detach),
    SourceEntry: Codec(26, _put_source, _source),
    ServiceMessage: Codec(27, _put_relay, _relay),
    SetProjection: Codec(28, _put_reduce, _reduce),
}
"""By class of message."""

_READ: Final = {codec.kind: codec.read for codec in CODECS.values()}


def frame_of(message: object) -> bytes:
    """A message as a frame.

    Raises:
        TypeError: It is of no class that goes over the wire.
    """
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
    """Read the fields of one frame.

    Returns:
        The message; `None`: it is of a kind that is not known.

    Raises:
        FrameError: It is none.
    """
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
    """Read the fields of a span, as `read_frame` does.

    Args:
        data: Holds them.
        start: Where they begin.
        end: Where they end.
        agreed: What forms of messages mean on the link.

    Raises:
        FrameError: It is none.
    """
    try:
        span: Span
        span, at = SPANS.read(data, start, end, agreed)
    except ValueError as error:
        raise FrameError(f"in a frame of kind {SPAN_KIND}: {error}") from None
    if at != end:
        raise FrameError(f"in a frame of kind {SPAN_KIND}: {end - at:,} bytes are left over")
    return span
