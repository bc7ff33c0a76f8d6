"""Packets and spans in the core, compared with those of another hand (`frames_oracle`)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.overlay.onyx.network import frames_oracle as oracle
from twigcast._core import packet_of
from twigcast.overlay.onyx.lexicon import Lexicon
from twigcast.overlay.onyx.messages import OverlayMessage, Span
from twigcast.overlay.onyx.network.frames import SPAN_KIND, SPANS

NO_SPANS = 0xFEDC_BA98_7654_3210
"""A kind of frames that no test writes: read as spans, a packet has none of it."""

numbers = st.one_of(st.integers(0, 300), st.integers(0, (1 << 64) - 1))
positions = st.one_of(st.integers(-2, 300), st.integers(-(1 << 63), (1 << 63) - 1))
texts = st.text(max_size=200)
messages = st.builds(
    OverlayMessage,
    numbers,
    positions,
    texts,
    texts,
    texts,
    texts,
    st.binary(max_size=300),
    st.one_of(texts, st.sampled_from(["text", "stream", "dictionary:0123456789abcdef"])),
    st.lists(numbers, max_size=200).map(tuple),
    st.floats(allow_nan=False),
    texts,
)
spans = st.builds(Span, numbers, positions, positions, st.none() | messages)


@given(spans)
def test_the_same_bytes_are_written(span: Span) -> None:
    fields = oracle.span(span)
    assert SPANS.fields(span) == fields
    assert SPANS.frame(SPAN_KIND, span) == oracle.frame(SPAN_KIND, fields)
    assert SPANS.read(b"before" + fields + b"behind", 6, 6 + len(fields)) == (span, 6 + len(fields))
    read, _ = SPANS.read(fields, 0, len(fields))
    assert type(read) is Span
    assert read.message is None or type(read.message) is OverlayMessage


@given(st.lists(st.tuples(numbers, st.binary(max_size=50)), max_size=10))
def test_the_same_packets_are_written(frames: list[tuple[int, bytes]]) -> None:
    written = [oracle.frame(*frame) for frame in frames]
    data = oracle.packet(written)
    assert packet_of(written) == data
    assert [(one.kind, data[one.start : one.end]) for one in SPANS.packet(NO_SPANS, data)[1]] == frames


def outcome(read: Callable[[], Any]) -> Any:
    """What comes out; `None`: a refusal."""
    try:
        return read()
    except (ValueError, oracle.RefusedBytes):
        return None


@settings(max_examples=500)
@given(st.one_of(spans.map(oracle.span), st.binary(max_size=60)), st.randoms(use_true_random=False))
def test_the_same_bytes_are_read_and_the_same_refused(fields: bytes, chance: random.Random) -> None:
    mutable = bytearray(fields)
    for _ in range(chance.randint(0, 3)):
        if mutable:
            # At the front there are more lengths than texts.
            position = chance.randrange(min(len(mutable), chance.choice((8, 40, 1_000))))
            mutable[position] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    data = bytes(mutable)

    def read() -> Span | None:
        span, at = SPANS.read(data, 0, len(data))
        return span if at == len(data) else None

    expected = outcome(lambda: oracle.read_span(data))
    result = outcome(read)
    if expected is not None and expected.message is not None and math.isnan(expected.message.published):
        assert result is not None
        assert math.isnan(result.message.published)
        return
    assert result == expected


@settings(max_examples=300)
@given(st.binary(max_size=60), st.booleans())
def test_the_same_packets_are_read_and_the_same_refused(content: bytes, is_summed: bool) -> None:
    data = oracle.packet([content]) if is_summed else content
    result = outcome(lambda: [(one.kind, data[one.start : one.end]) for one in SPANS.packet(NO_SPANS, data)[1]])
    assert result == outcome(lambda: oracle.read_frames(data))


def test_a_form_that_was_agreed_on_is_put_in_place() -> None:
    lexicon = Lexicon(("a", "b"))
    form = f"dictionary:{lexicon.name}"
    message = OverlayMessage(7, 1, "s", "f", "1", "application/xml", b"body", form)
    fields = oracle.span(Span(7, 0, 1, message))
    agreed: dict[str, tuple[str, Lexicon | None]] = {form: ("dictionary", lexicon)}
    read, _ = SPANS.read(fields, 0, len(fields), agreed)
    assert read.message == message._replace(form="dictionary", lexicon=lexicon)
    assert SPANS.read(fields, 0, len(fields), {})[0].message == message


@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_numbers_out_of_range_are_not_written(number: int) -> None:
    with pytest.raises(ValueError, match="out of range"):
        SPANS.fields(Span(number, 0, 0, None))
    message = OverlayMessage(number, 1, "s", "f", "1", "", b"")
    with pytest.raises(ValueError, match="out of range"):
        SPANS.frame(SPAN_KIND, Span(1, 0, 0, message))


def test_a_large_body_goes_through() -> None:
    body = random.Random(8).randbytes(1 << 20)
    span = Span(1, 0, 1, OverlayMessage(1, 1, "s", "f", "1", "", body))
    data = packet_of([SPANS.frame(SPAN_KIND, span)])
    assert data == oracle.packet([oracle.frame(SPAN_KIND, oracle.span(span))])
    (frame,) = SPANS.packet(NO_SPANS, data)[1]
    assert (frame.kind, SPANS.read(data, frame.start, frame.end)[0]) == (SPAN_KIND, span)
