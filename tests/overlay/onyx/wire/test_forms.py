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
from twigcast._core import ConjunctionIndex, Engine, NameDictionary
from twigcast.errors import MalformedMessage, MessageLimitExceeded, RejectedMessage
from twigcast.limits import Limits
from twigcast.overlay.errors import ImpossibleSetting
from twigcast.overlay.onyx.wire import FORMS, BodyCodec, Dictionaries, Structure, WireForm, choose, names_of
from twigcast.overlay.onyx.wire.errors import UnknownDictionary, WireError
from twigcast.schema import read_dtd

NAMES = ("a", "b", "p:a", "x", "xml:lang", "xmlns:p")
STREAMS = [form for form in FORMS.values() if form.structure is not Structure.TEXT]


def coder(limits: Limits | None = None) -> tuple[BodyCodec, NameDictionary]:
    dictionaries = Dictionaries()
    return BodyCodec(dictionaries, limits), dictionaries.learn(NAMES)


def canonical(text: bytes) -> str:
    return str(etree.canonicalize(text.decode(), with_comments=True))


@given(messages())
def test_a_message_comes_back_in_every_form(message: str) -> None:
    coding, dictionary = coder()
    text = message.encode()
    for form in FORMS.values():
        back = coding.read(coding.write(text, form, dictionary), form)
        if form.structure is Structure.TEXT:
            assert back == text
        else:
            assert canonical(back) == canonical(text), form


@given(messages(), st.randoms(use_true_random=False))
def test_the_engine_answers_alike(message: str, source: random.Random) -> None:
    coding, dictionary = coder()
    engine, table = Engine(), ConjunctionIndex()
    generator = Generator(source)
    for number in range(8):
        engine.add(str(number), generator.query(2), NAMESPACES, "xpath", False)
    for number, path in enumerate(["/a", "//b[@x = 1]", "//p:a", "//c[. = 'a']", "/b//a"]):
        table.add([(path, NAMESPACES)], [number])
    requested = [(label, label) for label in range(5)]
    text = message.encode()
    for form in STREAMS:
        opened = coding.open(coding.write(text, form, dictionary), form)
        streamed, answer = engine.match_stream(opened.body, opened.dictionary), engine.answer(text)
        assert (streamed.keys(), streamed.undecided) == (answer.keys(), answer.undecided)
        assert opened.route(table, requested) == table.route(text, requested)


@given(messages(), st.randoms(use_true_random=False))
def test_a_damaged_stream_is_refused_or_another_message(message: str, source: random.Random) -> None:
    coding, dictionary = coder()
    for form in STREAMS:
        body = bytearray(coding.write(message.encode(), form, dictionary))
        for _ in range(source.randint(1, 3)):
            body[source.randrange(len(body))] ^= 1 << source.randrange(8)
        del body[len(body) - source.choice((0, 0, 1, 2, len(body) // 2)) :]
        try:
            back = coding.read(bytes(body), form)
        except (WireError, UnknownDictionary, RejectedMessage):
            continue
        # libxml2 wants more of a namespace's name than Namespaces in XML do.
        expat.ParserCreate(namespace_separator="\f").Parse(back, True)


def test_other_encodings_and_doctypes_travel_as_what_they_mean() -> None:
    coding, dictionary = coder()
    text = '<?xml version="1.0" encoding="iso-8859-1"?><!DOCTYPE a [<!ENTITY e "<b>x</b>">]><a>\xe9&e;</a>'
    for form in STREAMS:
        back = coding.read(coding.write(text.encode("latin-1"), form, dictionary), form)
        assert back == "<a>\xe9<b>x</b></a>".encode()


def test_what_is_no_message_has_no_stream() -> None:
    coding, _ = coder()
    with pytest.raises(MalformedMessage, match="end tag"):
        coding.write(b"<a><b></a>", WireForm.named("stream"))


def test_a_bomb_stays_within_the_limit() -> None:
    limits = Limits(message_bytes_max=100_000)
    coding, _ = coder(limits)
    for form, body in (
        ("text+zlib", zlib.compress(b"x" * 10_000_000)),
        ("stream+zlib", zlib.compress(b"x" * 10_000_000)),
        ("text+zstd", BodyCodec().write(b"x" * 10_000_000, WireForm.named("text+zstd"))),
    ):
        with pytest.raises(WireError, match="more than 100000 bytes"):
            coding.open(body, WireForm.named(form))
    name = "n" * 1000
    stream = BodyCodec().write(f"<a>{f'<{name}/>' * 1000}</a>".encode(), WireForm.named("stream"))
    assert len(stream) < 10_000
    with pytest.raises(MessageLimitExceeded, match="message_bytes_max"):
        coding.read(stream, WireForm.named("stream"))


@pytest.mark.parametrize("form", ["text+zlib", "text+zstd"])
def test_cut_off_or_followed_by_bytes(form: str) -> None:
    coding, _ = coder()
    body = coding.write(b"<a>some text</a>", WireForm.named(form))
    with pytest.raises(WireError, match="cut off"):
        coding.read(body[:-1], WireForm.named(form))
    with pytest.raises(WireError, match="3 bytes follow"):
        coding.read(body + b"abc", WireForm.named(form))
    with pytest.raises(WireError):
        coding.read(b"<a/>", WireForm.named(form))


def test_an_unknown_dictionary_is_named() -> None:
    coding, _ = coder()
    other = NameDictionary(["a", "z"])
    body = BodyCodec(Dictionaries([other])).write(b"<a/>", WireForm.named("dictionary"), other)
    with pytest.raises(UnknownDictionary, match=f"{other.id:016x}"):
        coding.read(body, WireForm.named("dictionary"))


def test_dictionaries_come_from_schemas() -> None:
    schema = read_dtd(b"<!ELEMENT a (b*)><!ELEMENT b EMPTY><!ATTLIST b c CDATA #IMPLIED>")
    names = names_of(schema)
    assert names == ("a", "b", "c", "xmlns")
    dictionaries = Dictionaries()
    assert dictionaries.learn(names) is dictionaries.learn(names)
    assert len(dictionaries) == 1
    with pytest.raises(ValueError, match="no name"):
        dictionaries.learn(["a", "<"])


def test_names_by_number_are_shorter() -> None:
    coding, dictionary = coder()
    text = b"<a>" + b'<b x="1">text</b>' * 50 + b"</a>"
    sizes = {name: len(coding.write(text, form, dictionary)) for name, form in FORMS.items()}
    assert sizes["dictionary"] < sizes["stream"] < sizes["text"]
    assert all(
        sizes[f"{structure}+{packed}"] < sizes[structure]
        for structure, packed in product(("text", "stream", "dictionary"), ("zlib", "zstd"))
    )


def test_compression_can_change_on_the_way() -> None:
    coding, dictionary = coder()
    text = b"<a>" + b"<b>x</b>" * 20 + b"</a>"
    for structure in Structure:
        bodies = {form: coding.write(text, form, dictionary) for form in FORMS.values() if form.structure is structure}
        for (form, body), other in product(bodies.items(), bodies):
            assert coding.repack(body, form, other.compression) == bodies[other]


def test_links_carry_what_both_sides_know() -> None:
    assert choose(["dictionary+zstd", "stream"], ["text", "stream", "newer"]) == WireForm.named("stream")
    assert choose(["stream"], []) == WireForm.named("text")
    assert choose([], list(FORMS)) == WireForm.named("text")
    with pytest.raises(ImpossibleSetting, match="wire form"):
        choose(["morse"], ["text"])
    assert [str(form) for form in FORMS.values()] == list(FORMS)
    assert len(FORMS) == 9
