"""Fields of the frames that drivers send each other, before and beside those of the nodes."""

from __future__ import annotations

from typing import Final

from twigcast.overlay.onyx.lexicon import LEXICON_NAME_BYTES_MAX, LEXICON_NAMES_MAX, LexiconUpdate
from twigcast.overlay.onyx.messages import PROTOCOL
from twigcast.overlay.onyx.network.errors import FrameError
from twigcast.overlay.onyx.network.fields import NAME_MAX, read_flag
from twigcast.overlay.onyx.network.greeting import NAME_BYTES_MAX, GoAway, Greeting, Ping, Pong, Ready
from twigcast.overlay.onyx.network.primitives import FrameReader, put_bytes, put_number, put_real, put_text

REASON_BYTES_MAX: Final = 4 << 10
"""Bytes of a reason."""


def put_greeting(out: bytearray, greeting: Greeting) -> None:
    """Append its fields."""
    # Version and name come first, in all versions.
    put_number(out, greeting.version[0])
    put_number(out, greeting.version[1])
    put_text(out, greeting.name)
    put_bytes(out, greeting.instance)
    put_number(out, greeting.incarnation)
    put_text(out, greeting.where)
    put_real(out, greeting.clock)
    put_text(out, greeting.software)


def read_greeting(reader: FrameReader) -> Greeting:
    """Read its fields."""
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


def put_refused(out: bytearray, refused: GoAway) -> None:
    """Append its fields."""
    put_text(out, refused.kind)
    put_text(out, refused.reason)


def read_refused(reader: FrameReader) -> GoAway:
    """Read its fields."""
    return GoAway(reader.text(NAME_MAX), reader.text(REASON_BYTES_MAX))


def put_ping(out: bytearray, ping: Ping) -> None:
    """Append its fields."""
    put_number(out, ping.stamp)


def read_ping(reader: FrameReader) -> Ping:
    """Read its fields."""
    return Ping(reader.number())


def put_pong(out: bytearray, pong: Pong) -> None:
    """Append its fields."""
    put_number(out, pong.stamp)
    put_real(out, pong.clock)


def read_pong(reader: FrameReader) -> Pong:
    """Read its fields."""
    return Pong(reader.number(), reader.real())


def put_teaching(out: bytearray, teaching: LexiconUpdate) -> None:
    """Append its fields."""
    put_number(out, teaching.dictionary)
    out.append(teaching.base is not None)
    if teaching.base is not None:
        put_number(out, teaching.base)
    put_number(out, len(teaching.names))
    for name in teaching.names:
        put_text(out, name)


def read_teaching(reader: FrameReader) -> LexiconUpdate:
    """Read its fields."""
    dictionary = reader.number()
    base = reader.number() if read_flag(reader) else None
    names = reader.several(lambda: reader.text(LEXICON_NAME_BYTES_MAX), LEXICON_NAMES_MAX)
    return LexiconUpdate(dictionary, base, tuple(names))


def put_ready(out: bytearray, ready: Ready) -> None:
    """Nothing: its kind says all."""


def read_ready(reader: FrameReader) -> Ready:
    """Read its fields."""
    return Ready()
