"""Bodies in every form: the same message comes back, the engine gives the same answers, damage is refused."""

from __future__ import annotations

import random
import zlib
from itertools import product
from xml.parsers import expat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.strategies import NAMESPACES, Generator, messages
from twigcast._core import ConjunctionIndex, Engine
from twigcast.errors import MessageLimitExceeded, RejectedMessage
from twigcast.limits import Limits
from twigcast.overlay.errors import ImpossibleSetting, WireError
from twigcast.overlay.onyx.messages import OverlayMessage
from twigcast.overlay.onyx.wire import FORMS, Compression, Structure, WireForm, choose
from twigcast.overlay.onyx.wire.bodies import Bodies
from twigcast.overlay.onyx.wire.forms import compress

STREAMS = [form for form in FORMS.values() if form.structure is not Structure.TEXT]


def message_of(body: bytes, form: str = "text") -> OverlayMessage:
    return OverlayMessage(1, 1, "", "feed", "m", "application/xml", body, form)


def converted(bodies: Bodies, text: bytes, form: WireForm) -> OverlayMessage:
    """A message in another form, and in no other than that."""
    result = bodies.in_form(message_of(text), form)
    assert result.form == str(form)
    return result


def canonical(text: bytes) -> str:
    return str(etree.canonicalize(text.decode(), with_comments=True))


@given(messages())
def test_a_message_comes_back_in_every_form(message: str) -> None:
    bodies = Bodies()
    text = message.encode()
    for form in FORMS.values():
        back = bodies.text(converted(bodies, text, form))
        if form.structure is Structure.TEXT:
            assert back == text
        else:
            assert canonical(back) == canonical(text), form


@given(messages(), st.randoms(use_true_random=False))
def test_the_engine_answers_alike(message: str, source: random.Random) -> None:
    bodies = Bodies()
    engine, table = Engine(), ConjunctionIndex()
    generator = Generator(source)
    for number in range(8):
        engine.add(str(number), generator.query(2), NAMESPACES, "xpath", False)
    for number, path in enumerate(["/a", "//b[@x = 1]", "//p:a", "//c[. = 'a']", "/b//a"]):
        table.add([(path, NAMESPACES)], [number])
    requested = [(label, label) for label in range(5)]
    text = message.encode()
    for form in STREAMS:
        opened = bodies.opened(converted(bodies, text, form))
        assert opened.is_stream
        streamed, read = engine.match_stream(opened.body, opened.dictionary), engine.answer(text)
        assert (streamed.keys(), streamed.undecided) == (read.keys(), read.undecided)
        assert table.route_stream(opened.body, opened.dictionary, requested) == table.route(text, requested)


@given(messages(), st.randoms(use_true_random=False))
def test_a_damaged_stream_is_refused_or_another_message(message: str, source: random.Random) -> None:
    bodies = Bodies()
    for form in STREAMS:
        whole = converted(bodies, message.encode(), form)
        body = bytearray(whole.body)
        for _ in range(source.randint(1, 3)):
            body[source.randrange(len(body))] ^= 1 << source.randrange(8)
        del body[len(body) - source.choice((0, 0, 1, 2, len(body) // 2)) :]
        try:
            back = bodies.text(whole._replace(body=bytes(body)))
        except RejectedMessage:
            continue
        # libxml2 wants more of a namespace's name than Namespaces in XML do.
        expat.ParserCreate(namespace_separator="\f").Parse(back, True)


def test_other_encodings_travel_as_what_they_mean() -> None:
    bodies = Bodies()
    text = '<?xml version="1.0" encoding="iso-8859-1"?><a>\xe9<b>x</b></a>'
    for form in STREAMS:
        back = bodies.text(converted(bodies, text.encode("latin-1"), form))
        assert back == "<a>\xe9<b>x</b></a>".encode()


def test_what_has_a_doctype_travels_as_text_in_any_form() -> None:
    """Streams cannot say which attributes are IDs, and brokers keep a DOCTYPE for nothing else."""
    bodies = Bodies()
    text = b'<!DOCTYPE a [<!ATTLIST a k ID #IMPLIED>]><a k="1"/>'
    for form in STREAMS:
        sent = bodies.in_form(message_of(text), form)
        assert WireForm.named(sent.form).structure is Structure.TEXT
        assert bodies.text(sent) == text


def test_what_is_no_message_has_no_stream() -> None:
    bodies = Bodies()
    message = message_of(b"<a><b></a>")
    assert bodies.in_form(message, WireForm.named("stream")) == message
    assert bodies.counts == {"damaged": 1}


def test_a_bomb_stays_within_the_limit() -> None:
    limits = Limits(message_bytes_max=100_000)
    bodies = Bodies(limits)
    for form, body in (
        ("text+zlib", zlib.compress(b"x" * 10_000_000)),
        ("stream+zlib", zlib.compress(b"x" * 10_000_000)),
        ("text+zstd", compress(b"x" * 10_000_000, Compression.ZSTD)),
    ):
        with pytest.raises(WireError, match="more than 100000 bytes"):
            bodies.opened(message_of(body, form))
    name = "n" * 1000
    stream = converted(Bodies(), f"<a>{f'<{name}/>' * 1000}</a>".encode(), WireForm.named("stream"))
    assert len(stream.body) < 10_000
    with pytest.raises(MessageLimitExceeded, match="message_bytes_max"):
        bodies.text(stream)


@pytest.mark.parametrize("form", ["text+zlib", "text+zstd"])
def test_cut_off_or_followed_by_bytes(form: str) -> None:
    bodies = Bodies()
    body = converted(bodies, b"<a>some text</a>", WireForm.named(form)).body
    with pytest.raises(WireError, match="cut off"):
        bodies.opened(message_of(body[:-1], form))
    with pytest.raises(WireError, match="3 bytes follow"):
        bodies.opened(message_of(body + b"abc", form))
    with pytest.raises(WireError):
        bodies.opened(message_of(b"<a/>", form))


def test_names_by_number_are_shorter() -> None:
    bodies = Bodies()
    text = b"<a>" + b'<b x="1">text</b>' * 50 + b"</a>"
    sizes = {name: len(converted(bodies, text, form).body) for name, form in FORMS.items()}
    assert sizes["dictionary"] < sizes["stream"] < sizes["text"]
    assert all(
        sizes[f"{structure}+{packed}"] < sizes[structure]
        for structure, packed in product(("text", "stream", "dictionary"), ("zlib", "zstd"))
    )


def test_compression_can_change_on_the_way() -> None:
    bodies = Bodies()
    text = b"<a>" + b"<b>x</b>" * 20 + b"</a>"
    for structure in Structure:
        messages_ = [converted(bodies, text, form) for form in FORMS.values() if form.structure is structure]
        for message, other in product(messages_, messages_):
            assert bodies.in_form(message, WireForm.named(other.form)).body == other.body


def test_links_carry_what_both_sides_know() -> None:
    assert choose(["dictionary+zstd", "stream"], ["text", "stream", "newer"]) == WireForm.named("stream")
    assert choose(["stream"], []) == WireForm.named("text")
    assert choose([], list(FORMS)) == WireForm.named("text")
    with pytest.raises(ImpossibleSetting, match="wire form"):
        choose(["morse"], ["text"])
    assert [str(form) for form in FORMS.values()] == list(FORMS)
    assert len(FORMS) == 9
