"""Each message as a frame: its kind, its length, its fields one after the other.

A frame of a kind that is not known is passed over, as from a newer broker; everything else that does not fit is refused
with what is wrong. What a frame may hold is bounded, so that no frame makes much more of itself than its own bytes.

A routing delta names thousands of disjuncts made of few paths: it holds each path, scope and set of roots once, and the
disjuncts as numbers of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from twigcast._core import BODY_BYTES_MAX, SpanCodec
from twigcast.overlay.onyx.model import (
    EVERYWHERE,
    PROTOCOL,
    Attach,
    Attached,
    Detach,
    Disjunct,
    Hello,
    Known,
    LinearPath,
    LinkState,
    Message,
    Recover,
    Recovered,
    Reduce,
    Relay,
    Root,
    RoutingDelta,
    Source,
    Span,
)
from twigcast.overlay.onyx.network.errors import FrameError
from twigcast.overlay.onyx.network.greeting import (
    NAME_BYTES_MAX,
    Greeting,
    Ping,
    Pong,
    Ready,
    Refused,
)
from twigcast.overlay.onyx.network.primitives import (
    Reader,
    put_bytes,
    put_number,
    put_real,
    put_signed,
    put_text,
)
from twigcast.overlay.onyx.wire.lexicons import LEXICON_NAME_BYTES_MAX, LEXICON_NAMES_MAX, Lexicon, Teaching

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
FORMS_MAX: Final = 64
"""Wire formats that a broker names."""
REASON_BYTES_MAX: Final = 4 << 10
"""Bytes of a reason."""
SCHEMA_BYTES_MAX: Final = 4 << 20
"""Bytes of a schema in the catalogue."""


Agreed: TypeAlias = dict[str, tuple[str, Lexicon | None]]
"""By forms of messages as they are written: the form that is meant, and the lexicon."""

SPANS: Final = SpanCodec(Span, Message)
"""Reads and writes spans, with the messages in them, in the core: of all that goes over links, most is these."""


# Parts that several messages have -------------------------------------------------------------------------------------


def _put_numbers(out: bytearray, numbers: Iterable[int], count: int) -> None:
    put_number(out, count)
    for number in numbers:
        put_number(out, number)


def _numbers(reader: Reader) -> tuple[int, ...]:
    return tuple(reader.several(reader.number, BROKERS_MAX))


def _put_span(out: bytearray, span: Span) -> None:
    out += SPANS.fields(span)


def _span(reader: Reader) -> Span:
    return reader.by(_read_span)


def _read_span(data: bytes, start: int, end: int) -> tuple[Span, int]:
    try:
        return SPANS.read(data, start, end)
    except ValueError as error:
        raise FrameError(str(error)) from None


def _flag(reader: Reader) -> bool:
    value = reader.number()
    if value > 1:
        raise FrameError(f"{value} is neither yes nor no")
    return bool(value)


class _Disjuncts:
    """Writes disjuncts by the numbers of their parts."""

    def __init__(self, disjuncts: Iterable[Disjunct]) -> None:
        self._scopes: dict[str, int] = {}
        self._paths: dict[LinearPath, int] = {}
        for disjunct in disjuncts:
            self._scopes.setdefault(disjunct.scope, len(self._scopes))
            for path in disjunct.paths:
                self._paths.setdefault(path, len(self._paths))

    def put_parts(self, out: bytearray) -> None:
        put_number(out, len(self._scopes))
        for scope in self._scopes:
            put_text(out, scope)
        put_number(out, len(self._paths))
        for path in self._paths:
            put_text(out, path.text)
            put_number(out, len(path.namespaces))
            for prefix, uri in path.namespaces:
                put_text(out, prefix)
                put_text(out, uri)

    def put(self, out: bytearray, disjunct: Disjunct) -> None:
        put_number(out, self._scopes[disjunct.scope])
        numbers = sorted(map(self._paths.__getitem__, disjunct.paths))
        _put_numbers(out, numbers, len(numbers))


class _DisjunctReader:
    """Reads what `_Disjuncts` has written."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._scopes = reader.several(lambda: reader.text(NAME_MAX), DISJUNCTS_MAX)
        self._paths = reader.several(self._path, PATHS_MAX)

    def _path(self) -> LinearPath:
        reader = self._reader
        text = reader.text(PATH_BYTES_MAX)
        return LinearPath(text, tuple(reader.several(self._namespace, NAMESPACES_MAX)))

    def _namespace(self) -> tuple[str, str]:
        return self._reader.text(NAME_MAX), self._reader.text(PATH_BYTES_MAX)

    def disjunct(self) -> Disjunct:
        reader, paths = self._reader, self._paths
        scope = reader.choice(self._scopes)
        return Disjunct(scope, frozenset(reader.choice(paths) for _ in range(reader.count(CONJUNCTS_MAX))))

    def several(self) -> list[Disjunct]:
        return [self.disjunct() for _ in range(self._reader.count(DISJUNCTS_MAX, least_bytes=2))]


# The messages ---------------------------------------------------------------------------------------------------------


def _put_hello(out: bytearray, hello: Hello) -> None:
    put_number(out, hello.identity)
    put_number(out, hello.incarnation)
    put_number(out, hello.version[0])
    put_number(out, hello.version[1])
    put_number(out, len(hello.forms))
    for form in hello.forms:
        put_text(out, form)


def _hello(reader: Reader) -> Hello:
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


def _link_state(reader: Reader) -> LinkState:
    origin, incarnation, version = reader.number(), reader.number(), reader.number()
    links = reader.several(lambda: (reader.number(), reader.number()), BROKERS_MAX)
    return LinkState(origin, incarnation, version, tuple(links), reader.text(NAME_MAX))


def _put_routing_delta(out: bytearray, delta: RoutingDelta) -> None:
    put_number(out, delta.version)
    parts = _Disjuncts([disjunct for disjunct, _ in delta.wanted] + list(delta.unwanted))
    parts.put_parts(out)
    sets: dict[frozenset[Root] | str, int] = {}
    for _, roots in delta.wanted:
        sets.setdefault(roots, len(sets))
    put_number(out, len(sets))
    for roots in sets:
        _put_roots(out, roots)
    put_number(out, len(delta.wanted))
    for disjunct, roots in delta.wanted:
        parts.put(out, disjunct)
        put_number(out, sets[roots])
    put_number(out, len(delta.unwanted))
    for disjunct in delta.unwanted:
        parts.put(out, disjunct)


def _routing_delta(reader: Reader) -> RoutingDelta:
    version = reader.number()
    parts = _DisjunctReader(reader)
    sets = reader.several(lambda: _roots(reader), DISJUNCTS_MAX)
    count = reader.count(DISJUNCTS_MAX, least_bytes=3)
    wanted = tuple((parts.disjunct(), reader.choice(sets)) for _ in range(count))
    return RoutingDelta(version, wanted, tuple(parts.several()))


def _put_roots(out: bytearray, roots: frozenset[Root] | str) -> None:
    if isinstance(roots, str):
        if roots != EVERYWHERE:
            raise ValueError(f"{roots!r} is no set of roots")
        out.append(1)
        return
    out.append(0)
    _put_numbers(out, sorted(roots), len(roots))


def _roots(reader: Reader) -> frozenset[Root] | str:
    return EVERYWHERE if _flag(reader) else frozenset(_numbers(reader))


def _put_reduce(out: bytearray, reduce: Reduce) -> None:
    put_number(out, len(reduce.parts))
    for scope, text in reduce.parts:
        put_text(out, scope)
        put_text(out, text)
    out.append(reduce.rest)


def _reduce(reader: Reader) -> Reduce:
    parts = reader.several(lambda: (reader.text(NAME_MAX), reader.text(PATH_BYTES_MAX)), DISJUNCTS_MAX)
    return Reduce(tuple(parts), _flag(reader))


def _put_attach(out: bytearray, attach: Attach) -> None:
    put_number(out, attach.root)
    put_number(out, attach.number)
    put_number(out, attach.hops)


def _attach(reader: Reader) -> Attach:
    return Attach(reader.number(), reader.number(), reader.number())


def _put_detach(out: bytearray, detach: Detach) -> None:
    put_number(out, detach.root)


def _detach(reader: Reader) -> Detach:
    return Detach(reader.number())


def _put_attached(out: bytearray, attached: Attached) -> None:
    put_number(out, attached.root)
    put_number(out, attached.number)
    put_signed(out, attached.position)


def _attached(reader: Reader) -> Attached:
    return Attached(reader.number(), reader.number(), reader.signed())


def _put_recover(out: bytearray, recover: Recover) -> None:
    put_number(out, recover.root)
    put_signed(out, recover.after)
    put_signed(out, recover.upto)
    parts = _Disjuncts(recover.wanted)
    parts.put_parts(out)
    put_number(out, len(recover.wanted))
    for disjunct in recover.wanted:
        parts.put(out, disjunct)
    _put_numbers(out, recover.way, len(recover.way))


def _recover(reader: Reader) -> Recover:
    root, after, upto = reader.number(), reader.signed(), reader.signed()
    wanted = frozenset(_DisjunctReader(reader).several())
    return Recover(root, after, upto, wanted, _numbers(reader))


def _put_recovered(out: bytearray, recovered: Recovered) -> None:
    _put_span(out, recovered.span)
    _put_numbers(out, recovered.way, len(recovered.way))
    out.append(recovered.lost)
    out.append(recovered.pauses)


def _recovered(reader: Reader) -> Recovered:
    return Recovered(_span(reader), _numbers(reader), _flag(reader), _flag(reader))


def _put_known(out: bytearray, known: Known) -> None:
    put_number(out, known.root)
    put_signed(out, known.horizon)
    put_number(out, known.brokers)


def _known(reader: Reader) -> Known:
    return Known(reader.number(), reader.signed(), reader.number())


def _put_source(out: bytearray, source: Source) -> None:
    put_text(out, source.name)
    put_number(out, source.version)
    put_number(out, source.root)
    put_text(out, source.schema)
    put_real(out, source.rate)
    put_number(out, source.size)
    out.append(source.is_gone)
    put_text(out, source.owner)


def _source(reader: Reader) -> Source:
    name, version, root = reader.text(NAME_MAX), reader.number(), reader.number()
    schema, rate, size, is_gone = reader.text(SCHEMA_BYTES_MAX), reader.real(), reader.number(), _flag(reader)
    return Source(name, version, root, schema, rate, size, is_gone, reader.text(NAME_MAX))


def _put_relay(out: bytearray, relay: Relay) -> None:
    put_number(out, relay.origin)
    put_number(out, relay.target)
    put_number(out, relay.hops)
    put_bytes(out, relay.content)


def _relay(reader: Reader) -> Relay:
    return Relay(reader.number(), reader.number(), reader.number(), reader.bytes(BODY_BYTES_MAX))


# What the driver itself says ------------------------------------------------------------------------------------------


def _put_greeting(out: bytearray, greeting: Greeting) -> None:
    # Version and name come first, in all versions.
    put_number(out, greeting.version[0])
    put_number(out, greeting.version[1])
    put_text(out, greeting.name)
    put_bytes(out, greeting.instance)
    put_number(out, greeting.incarnation)
    put_text(out, greeting.where)
    put_real(out, greeting.clock)
    put_text(out, greeting.software)


def _greeting(reader: Reader) -> Greeting:
    version = reader.number(), reader.number()
    name = reader.text(NAME_BYTES_MAX)
    if not name or not name.isprintable():
        raise FrameError("the broker gives no name that can be told")
    if version[0] != PROTOCOL[0]:
        # What follows is unknown, and the broker will be refused.
        reader.skip()
        return Greeting(version, name, b"", 0, "", 0.0, "")
    instance, incarnation = reader.bytes(16), reader.number()
    where, clock, software = reader.text(NAME_MAX), reader.real(), reader.text(NAME_MAX)
    return Greeting(version, name, instance, incarnation, where, clock, software)


def _put_refused(out: bytearray, refused: Refused) -> None:
    put_text(out, refused.kind)
    put_text(out, refused.reason)


def _refused(reader: Reader) -> Refused:
    return Refused(reader.text(NAME_MAX), reader.text(REASON_BYTES_MAX))


def _put_ping(out: bytearray, ping: Ping) -> None:
    put_number(out, ping.stamp)


def _ping(reader: Reader) -> Ping:
    return Ping(reader.number())


def _put_pong(out: bytearray, pong: Pong) -> None:
    put_number(out, pong.stamp)
    put_real(out, pong.clock)


def _pong(reader: Reader) -> Pong:
    return Pong(reader.number(), reader.real())


def _put_teaching(out: bytearray, teaching: Teaching) -> None:
    put_number(out, teaching.dictionary)
    out.append(teaching.base is not None)
    if teaching.base is not None:
        put_number(out, teaching.base)
    put_number(out, len(teaching.names))
    for name in teaching.names:
        put_text(out, name)


def _teaching(reader: Reader) -> Teaching:
    dictionary = reader.number()
    base = reader.number() if _flag(reader) else None
    names = reader.several(lambda: reader.text(LEXICON_NAME_BYTES_MAX), LEXICON_NAMES_MAX)
    return Teaching(dictionary, base, tuple(names))


def _put_ready(out: bytearray, ready: Ready) -> None:
    """Nothing: its kind says all."""


def _ready(reader: Reader) -> Ready:
    return Ready()


# The table ------------------------------------------------------------------------------------------------------------


class Codec(NamedTuple):
    """How messages of one class are written and read.

    Attributes:
        kind: Number of the class on the wire, for good.
        put: Appends the fields.
        read: Reads them.
    """

    kind: int
    put: Callable[[bytearray, Any], None]
    read: Callable[[Reader], Any]


SPAN_KIND: Final = 16
"""Of frames of spans."""

CODECS: Final[dict[type, Codec]] = {
    Greeting: Codec(1, _put_greeting, _greeting),
    Ready: Codec(2, _put_ready, _ready),
    Refused: Codec(3, _put_refused, _refused),
    Ping: Codec(4, _put_ping, _ping),
    Pong: Codec(5, _put_pong, _pong),
    Teaching: Codec(6, _put_teaching, _teaching),
    Span: Codec(SPAN_KIND, _put_span, _span),
    Hello: Codec(17, _put_hello, _hello),
    LinkState: Codec(18, _put_link_state, _link_state),
    RoutingDelta: Codec(19, _put_routing_delta, _routing_delta),
    Attach: Codec(20, _put_attach, _attach),
    Attached: Codec(21, _put_attached, _attached),
    Recover: Codec(22, _put_recover, _recover),
    Recovered: Codec(23, _put_recovered, _recovered),
    Known: Codec(24, _put_known, _known),
    Detach: Codec(25, _put_detach, _detach),
    Source: Codec(26, _put_source, _source),
    Relay: Codec(27, _put_relay, _relay),
    Reduce: Codec(28, _put_reduce, _reduce),
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
    reader = Reader(data, start, end)
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
