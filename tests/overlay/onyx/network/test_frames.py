"""Frames and packets: what is written is read again; whatever else comes is refused, promptly and with a reason."""

from __future__ import annotations

import inspect
import random
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twigcast._core import PACKET_BYTES_MAX, PACKET_FRAMES_MAX
from twigcast.overlay.errors import FrameError
from twigcast.overlay.onyx import messages as model
from twigcast.overlay.onyx.lexicon import LexiconUpdate
from twigcast.overlay.onyx.messages import PROTOCOL
from twigcast.overlay.onyx.network import frames
from twigcast.overlay.onyx.network.fields import NUMBER_MAX, FrameReader, put_number, put_real, put_signed, put_text
from twigcast.overlay.onyx.network.greeting import GoAway, Greeting, Ping, Pong, Ready

numbers = st.integers(0, NUMBER_MAX)
positions = st.integers(-1, 1 << 62)
texts = st.text(max_size=20)
paths = st.builds(
    model.LinearPath, st.text("/ab*@=", max_size=12), st.lists(st.tuples(texts, texts), max_size=2).map(tuple)
)
disjuncts = st.builds(model.Disjunct, texts, st.frozensets(paths, max_size=3))
roots = st.one_of(st.just(model.EVERYWHERE), st.frozensets(numbers, max_size=3))
ways = st.lists(numbers, max_size=4).map(tuple)
bodies = st.binary(max_size=200)
reals = st.floats(allow_nan=False)
messages = st.builds(
    model.OverlayMessage, numbers, positions, texts, texts, texts, texts, bodies, texts, ways, reals, texts
)
spans = st.builds(model.Span, numbers, positions, positions, st.none() | messages)
greetings = st.builds(
    Greeting,
    st.tuples(st.just(PROTOCOL[0]), numbers),
    st.text("abc.-é", min_size=1, max_size=20),
    st.binary(min_size=16, max_size=16),
    numbers,
    texts,
    reals,
    texts,
)
ANY = st.one_of(
    greetings,
    st.builds(Ready),
    st.builds(GoAway, texts, texts),
    st.builds(Ping, numbers),
    st.builds(Pong, numbers, reals),
    spans,
    st.builds(model.Hello, numbers, numbers, st.tuples(numbers, numbers), st.lists(texts, max_size=3).map(tuple)),
    st.builds(
        model.LinkState,
        numbers,
        numbers,
        numbers,
        st.lists(st.tuples(numbers, numbers), max_size=3).map(tuple),
        texts,
    ),
    st.builds(
        model.RoutingDelta,
        numbers,
        st.lists(st.tuples(disjuncts, roots), max_size=5).map(tuple),
        st.lists(disjuncts, max_size=3).map(tuple),
    ),
    st.builds(model.Attach, numbers, numbers, numbers),
    st.builds(model.Detach, numbers),
    st.builds(model.SourceEntry, texts, numbers, numbers, texts, reals, numbers, st.booleans(), texts),
    st.builds(model.SetProjection, st.lists(st.tuples(texts, texts), max_size=3).map(tuple), st.booleans()),
    st.builds(model.ServiceMessage, numbers, numbers, numbers, st.binary(max_size=50)),
    st.builds(model.Attached, numbers, numbers, positions),
    st.builds(model.Recover, numbers, positions, positions, st.frozensets(disjuncts, max_size=4), ways),
    st.builds(model.Recovered, spans, ways, st.booleans(), st.booleans()),
    st.builds(model.StoredReport, numbers, positions, numbers),
)


def test_each_message_of_the_protocol_goes_over_the_wire() -> None:
    existing = {
        kind
        for _, kind in inspect.getmembers(model, inspect.isclass)
        if hasattr(kind, "traffic") and kind.__module__ == model.__name__
    }
    assert len(existing) >= 8
    assert existing <= frames.CODECS.keys()
    kinds = [codec.kind for codec in frames.CODECS.values()]
    assert len(set(kinds)) == len(kinds)


@given(st.lists(ANY, max_size=5))
def test_what_is_written_is_read_again(sent: list[Any]) -> None:
    assert frames.read_packet(frames.packet(map(frames.frame, sent))) == sent


@given(st.lists(ANY, min_size=1, max_size=3), st.data())
def test_a_packet_that_is_cut_off_or_damaged_is_refused(sent: list[Any], data: st.DataObject) -> None:
    whole = frames.packet(map(frames.frame, sent))
    with pytest.raises(FrameError):
        frames.read_packet(whole[: data.draw(st.integers(0, len(whole) - 1))])
    position, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
    damaged = bytearray(whole)
    damaged[position] ^= 1 << bit
    with pytest.raises(FrameError):
        frames.read_packet(bytes(damaged))


def summed(content: bytes) -> bytes:
    """Content as a packet, whatever it is."""
    return bytes((frames.FORM, *zlib.crc32(content).to_bytes(4))) + content


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=300), st.lists(ANY, min_size=1, max_size=3)), st.randoms(use_true_random=False))
def test_any_bytes_are_read_or_refused(given_: Any, chance: random.Random) -> None:
    """With a sum that fits, as from a broker that writes nonsense: nothing else than a refusal comes out."""
    content = given_ if isinstance(given_, bytes) else b"".join(map(frames.frame, given_))
    mutable = bytearray(content)
    for _ in range(chance.randint(0, 3)):
        if mutable:
            mutable[chance.randrange(len(mutable))] = chance.randrange(256)
    try:
        read = frames.read_packet(summed(bytes(mutable)))
    except FrameError:
        return
    assert all(type(message) in frames.CODECS for message in read)


def test_a_frame_of_an_unknown_kind_is_passed_over() -> None:
    out = bytearray()
    put_number(out, 4_711)
    put_number(out, 3)
    out += b"abc"
    assert frames.read_packet(frames.packet([bytes(out), frames.frame(Ping(7))])) == [Ping(7)]


def test_a_greeting_of_another_major_version_is_read_as_far_as_it_is_known() -> None:
    fields = bytearray()
    put_number(fields, PROTOCOL[0] + 1)
    put_number(fields, 3)
    put_text(fields, "north")
    fields += b"whatever comes then"
    out = bytearray()
    put_number(out, frames.CODECS[Greeting].kind)
    put_number(out, len(fields))
    (greeting,) = frames.read_packet(frames.packet([bytes(out + fields)]))
    assert (greeting.version, greeting.name) == ((PROTOCOL[0] + 1, 3), "north")


def frame_of(kind: type, *parts: tuple[Any, Any]) -> bytes:
    fields = bytearray()
    for put, value in parts:
        put(fields, value)
    out = bytearray()
    put_number(out, frames.CODECS[kind].kind)
    put_number(out, len(fields))
    return bytes(out + fields)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (frame_of(model.StoredReport, (put_number, 1)), "cut off"),
        (frame_of(model.StoredReport, (put_number, 1), (put_signed, 1), (put_number, 1), (put_number, 1)), "left over"),
        (frame_of(Pong, (put_number, 1), (put_number, 1)), "cut off"),
        (
            frame_of(model.Span, (put_number, 1), (put_signed, 1), (put_signed, 1), (put_number, 2)),
            "neither yes nor no",
        ),
        # A million brokers announced in a few bytes: no list of that size comes into being.
        (frame_of(model.LinkState, *[(put_number, 1)] * 3, (put_number, 10_000)), "announced"),
        (frame_of(model.LinkState, *[(put_number, 1)] * 3, (put_number, 1 << 40)), "at most"),
        (frame_of(model.RoutingDelta, *[(put_number, 0)] * 4, (put_number, 3)), "announced"),
        # Taking in a delta holds up all else, so a neighbour must tell what is much in pieces.
        (frame_of(model.RoutingDelta, *[(put_number, 0)] * 4, (put_number, 65_537)), "at most 65,536"),
        (frame_of(model.RoutingDelta, *[(put_number, 0)] * 5, (put_number, 65_537)), "at most 65,536"),
        (
            frame_of(model.RoutingDelta, *[(put_number, 0)] * 4, (put_number, 1), *[(put_number, 9)] * 3),
            "number 9 of 0",
        ),
        (frame_of(GoAway, (put_number, 2), (put_number, 0xFF), (put_number, 0)), "UTF-8"),
        (frame_of(GoAway, (put_text, "x" * 5_000), (put_text, "")), "at most"),
        (frame_of(Greeting, (put_number, 1), (put_number, 0), (put_text, "")), "no name"),
        (frame_of(Greeting, (put_number, 1), (put_number, 0), (put_text, "a\nb")), "no name"),
        (
            frame_of(LexiconUpdate, *[(put_number, part) for part in (1, 0, 1)], (put_text, "x" * 300)),
            "300 bytes where at most 256",
        ),
        (b"\x05", "cut off"),
        (b"\x05\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", "64 bits"),
        (b"\x18\x7f\x00", "127"),
    ],
)
def test_a_refusal_says_what_is_wrong(frame: bytes, reason: str) -> None:
    with pytest.raises(FrameError, match=reason):
        frames.read_packet(summed(frame))


def test_packets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FrameError, match="at most"):
        frames.read_packet(bytes(PACKET_BYTES_MAX + 1))
    with pytest.raises(FrameError, match="frames"):
        frames.read_packet(frames.packet([frames.frame(Ready())] * (PACKET_FRAMES_MAX + 1)))
    with pytest.raises(FrameError, match="form"):
        frames.read_packet(b"\x02" + frames.packet([])[1:])
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 100)
    with pytest.raises(FrameError, match="too large"):
        frames.frame(GoAway("x", "y" * 200))


def test_what_is_no_message_is_not_sent() -> None:
    with pytest.raises(TypeError, match="int"):
        frames.frame(3)
    with pytest.raises(ValueError, match="no set of roots"):
        frames.frame(model.RoutingDelta(0, ((model.Disjunct("", frozenset()), "some"),), ()))


def test_numbers_out_of_range_are_not_written() -> None:
    for value in (-1, NUMBER_MAX + 1):
        with pytest.raises(ValueError, match=str(value)):
            put_number(bytearray(), value)


@given(st.integers(-(1 << 62), 1 << 62), reals)
def test_primitives(whole: int, real: float) -> None:
    out = bytearray()
    put_signed(out, whole)
    put_real(out, real)
    reader = FrameReader(bytes(out), 0, len(out))
    assert (reader.signed(), reader.real(), reader.left) == (whole, real, 0)


def test_a_delta_names_each_path_once() -> None:
    shared = [model.LinearPath(f"/feed/item/field{n}[. = 'a value of some length']") for n in range(10)]
    chance = random.Random(5)
    requested = tuple(
        (model.Disjunct("default", frozenset(chance.sample(shared, 3))), model.EVERYWHERE) for _ in range(1_000)
    )
    size = len(frames.frame(model.RoutingDelta(0, requested, ())))
    assert size < 8_000
