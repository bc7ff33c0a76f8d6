"""The two ends of a link: forms agreed on, dictionaries taught as they grow, and what breaks the agreement."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from lxml import etree

from tests.seeds import seed_or
from twigcast._core import NameDictionary
from twigcast.errors import RejectedMessage
from twigcast.limits import Limits
from twigcast.overlay.errors import ImpossibleSetting, WireError
from twigcast.overlay.onyx.lexicon import LEXICON_NAMES_MAX, Lexicon, LexiconUpdate
from twigcast.overlay.onyx.messages import Hello, OverlayMessage, Recovered, Span, StoredReport
from twigcast.overlay.onyx.network.frames import frame, packet, read_packet
from twigcast.overlay.onyx.wire import FORMS, Structure
from twigcast.overlay.onyx.wire.bodies import TEXT, Bodies, in_other_form
from twigcast.overlay.onyx.wire.exchange import TAUGHT_MAX, Exchange, FormPreferences
from twigcast.overlay.onyx.wire.lexicons import Lexicons

SEED = seed_or(20261128)
HELLO = Hello(1, 1, (1, 0), (TEXT,))


def message(text: bytes, number: int = 1, source: str = "s") -> OverlayMessage:
    return OverlayMessage(7, number, "default", source, str(number), "application/xml", text)


def span(text: bytes, number: int = 1, source: str = "s") -> Span:
    return Span(7, number - 1, number, message(text, number, source))


def carried_over(sent: Any) -> Any:
    """What the other side reads."""
    (read,) = read_packet(packet([frame(sent)]))
    return read


class Pair:
    """Two ends of a link, and the bytes between them."""

    def __init__(self, left: Sequence[str], right: Sequence[str]) -> None:
        self.bodies = Bodies(), Bodies()
        self.ends = Exchange(self.bodies[0], (*left, TEXT)), Exchange(self.bodies[1], (*right, TEXT))
        for sender, receiver in (self.ends, self.ends[::-1]):
            (hello,) = self.frames(sender, HELLO)
            receiver.on_hello(hello)
        self.bytes = 0

    def frames(self, sender: Exchange, sent: Any) -> list[Any]:
        data = packet([frame(each) for each in sender.outgoing(sent)])
        self.bytes = len(data)
        return read_packet(data)

    def carry(self, sent: Any) -> Any:
        """From left to right."""
        *taught, last = self.frames(self.ends[0], sent)
        for each in taught:
            self.ends[1].learn(each)
        return self.ends[1].incoming(last)

    def text(self, received: Span) -> bytes:
        assert received.message is not None
        return self.bodies[1].text(received.message)


@pytest.mark.parametrize("form", FORMS)
def test_messages_go_in_the_form_that_both_sides_name(form: str) -> None:
    pair = Pair([form], ["stream+zlib", form])
    for number in range(1, 4):
        text = b"<a b='%d'><c>some text</c></a>" % number
        received = pair.carry(span(text, number))
        assert received.message.form == form
        assert pair.text(received) == (text if form.startswith("text") else text.replace(b"'", b'"'))
        assert received._replace(message=None) == span(text, number)._replace(message=None)
        again = pair.carry(Recovered(span(text, number), (3, 4), pauses=True))
        assert again.pauses
        assert again.span.message.form == form
        assert again.route == (3, 4)
    assert pair.ends[0].sends == pair.ends[1].receives == FORMS[form]
    assert str(pair.ends[1].sends) == ("stream+zlib" if form == "stream+zlib" else form)
    assert pair.carry(StoredReport(7, 3)) == StoredReport(7, 3)


def test_a_side_that_knows_text_alone_gets_text_byte_for_byte() -> None:
    pair = Pair(["dictionary+zstd", "stream"], [])
    text = b"<?xml version='1.0'?><a  b = 'c' ><![CDATA[<]]></a >"
    received = pair.carry(span(text))
    assert received == span(text)
    newer = Exchange(Bodies(), ("stream", TEXT))
    newer.on_hello(HELLO._replace(forms=("hologram", "stream", "text")))
    assert str(newer.sends) == str(newer.receives) == "stream"


def test_a_stream_goes_through_a_broker_as_it_came() -> None:
    """The same dictionary is taught on the next link, and the bytes are the same."""
    first, second = Pair(["dictionary"], ["dictionary"]), Pair(["dictionary"], ["dictionary"])
    for number in range(1, 5):
        received = first.carry(span(b"<a><b>%d</b></a>" % number, number))
        onward = received._replace(message=received.message._replace(path=(7,)))
        arrived = second.carry(onward)
        assert arrived.message.body is not received.message.body
        assert arrived.message.body == received.message.body
        assert second.text(arrived) == b"<a><b>%d</b></a>" % number
    assert second.bodies[0].counts["transcoded"] == 0
    assert second.ends[0].counts["taught"] == 1


def test_where_the_next_link_speaks_another_form_it_is_brought_into_that() -> None:
    received = Pair(["dictionary+zlib"], ["dictionary+zlib"]).carry(span(b"<a><b/></a>"))
    for form in FORMS:
        if form == "dictionary+zlib":
            continue
        pair = Pair([form], [form])
        arrived = pair.carry(received)
        assert arrived.message.form == form
        assert pair.text(arrived) == b"<a><b/></a>"
        assert pair.bodies[0].counts["transcoded"] == 1
        pair.carry(received)
        assert pair.bodies[0].counts["transcoded"] == 1, "it is remembered for the next neighbour"


def test_only_form_and_dictionary_change_on_the_way() -> None:
    first = message(b"<a/>")._replace(path=(7, 8), published=3.5, reduced="part")
    lexicon = Lexicon(("a",))
    assert in_other_form(first, "stream", lexicon) == first._replace(form="stream", lexicon=lexicon)


def test_dictionaries_grow_with_the_messages_and_are_taught_once() -> None:
    pair = Pair(["dictionary"], ["dictionary"])
    chance = random.Random(3)
    sizes = []
    for number in range(1, 400):
        # Names come up little by little.
        names = [f"name-{chance.randrange(1 + number // 2)}" for _ in range(20)]
        text = "<r>{}</r>".format("".join(f"<{name}/>" for name in names)).encode()
        received = pair.carry(span(text, number))
        assert pair.text(received) == text
        sizes.append(pair.bytes)
    taught = pair.ends[0].counts["taught"]
    assert taught == pair.ends[1].counts["learnt"]
    assert 3 <= taught <= TAUGHT_MAX
    assert sum(sizes[-20:]) < 20 * 250
    before = pair.ends[0].counts["taught"]
    for number in range(400, 420):
        pair.carry(span(text, number))
    assert pair.ends[0].counts["taught"] == before


def test_what_grows_is_taught_by_what_is_new() -> None:
    lexicon = Lexicon(("a", "b"))
    grown = lexicon.grown(("c",))
    assert grown.update(has_base=True) == LexiconUpdate(grown.id, lexicon.id, ("c",))
    assert grown.update(has_base=False) == LexiconUpdate(grown.id, None, ("a", "b", "c"))
    assert grown.id == NameDictionary(["a", "b", "c"]).id


OF_ONE_ID = "aXyHrkNg0DlZ7GwcvB3yUXACj", "aQSFDMmYB6kNvjphnJ61r1Xfd"
"""Names whose dictionaries have one id."""


@pytest.mark.parametrize("more", [(), ("c",)])
def test_dictionaries_made_to_have_one_id_are_not_mixed_up(more: tuple[str, ...]) -> None:
    """Whoever chooses names can make two; both come to a broker in the middle, which passes them on."""
    pair = Pair(["dictionary"], ["dictionary"])
    lexicons = [Lexicon((name,)) for name in OF_ONE_ID]
    assert lexicons[0].id == lexicons[1].id
    for number, turn in enumerate([0, 1, 0, 1, 1], 1):
        name, lexicon = OF_ONE_ID[turn], lexicons[turn].grown(more) if more and number > 2 else lexicons[turn]
        text = f"<{name}/>".encode()
        parsed = pair.bodies[0]._parsed(pair.bodies[0].opened(message(text)))
        sent = in_other_form(message(parsed.stream(lexicon.dictionary), number), "dictionary", lexicon)
        received = pair.carry(span(b"", number)._replace(message=sent))
        assert pair.text(received) == text
    assert pair.ends[0].counts["taught"] == pair.ends[1].counts["learnt"] == 4


def test_both_sides_forget_the_oldest_dictionary() -> None:
    pair = Pair(["dictionary"], ["dictionary"])
    rounds = [*range(TAUGHT_MAX + 5), *range(TAUGHT_MAX + 5), 0, 3, 0]
    for number, source in enumerate(rounds, 1):
        text = b"<name-%d/>" % source
        assert pair.text(pair.carry(span(text, number, f"source-{source}"))) == text
    assert pair.ends[0].counts["taught"] > TAUGHT_MAX + 5


def test_a_new_link_begins_anew() -> None:
    """What was taught on a link that broke, mid-way or not, is taught again."""
    bodies = Bodies()
    for lost in (False, True):
        left, right = Exchange(bodies, ("dictionary", TEXT)), Exchange(Bodies(), ("dictionary", TEXT))
        for one in (left, right):
            one.on_hello(HELLO._replace(forms=("dictionary",)))
        taught, sent = left.outgoing(span(b"<a/>"))
        assert isinstance(taught, LexiconUpdate)
        if lost:
            with pytest.raises(WireError, match="never taught"):
                right.incoming(carried_over(sent))
            continue
        right.learn(taught)
        assert right.incoming(carried_over(sent)).message.lexicon is not None


def test_a_source_of_ever_new_names_teaches_no_more_than_it_may() -> None:
    lexicons, bodies = Lexicons(), Bodies()
    lexicon = Lexicon(())
    for number in range(140):
        names = "".join(f"<n{number}-{position}/>" for position in range(200))
        text = f"<r>{names}<{'x' * 300}/></r>".encode()
        parsed = bodies._parsed(bodies.opened(message(text)))
        stream, lexicon = lexicons.write(("t", "s"), parsed)
        assert len(stream) < 2 * len(text)
    assert len(lexicon.names) == LEXICON_NAMES_MAX
    assert max(map(len, lexicon.names)) < 300


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ("hologram", "does not take it"),
        ("stream+zlib", "does not take it"),
        ("dictionary", "a dictionary is named"),
        ("stream:0123456789abcdef", "a dictionary is named"),
        ("dictionary:0123456789abcdef", "0123456789abcdef was never taught"),
        ("dictionary:nonsense", "never taught"),
        ("dictionary:0x0123456789ABCDEF", "never taught"),
    ],
)
def test_what_was_not_agreed_on_is_refused(form: str, reason: str) -> None:
    pair = Pair(["stream", "dictionary"], ["stream", "dictionary"])
    sent = span(b"<a/>")
    assert sent.message is not None
    with pytest.raises(WireError, match=reason):
        pair.ends[1].incoming(sent._replace(message=sent.message._replace(form=form)))


@pytest.mark.parametrize(
    ("teaching", "reason"),
    [
        (LexiconUpdate(1, None, ("a",)), "whose names say"),
        (LexiconUpdate(1, 2, ("a",)), "never taught here"),
        (LexiconUpdate(1, None, ("a", "a")), "stands twice"),
        (LexiconUpdate(1, None, ("a b",)), "no name"),
        (LexiconUpdate(1, None, tuple(f"n{n}" for n in range(LEXICON_NAMES_MAX + 1))), "at most"),
    ],
)
def test_dictionaries_that_do_not_fit_are_refused(teaching: LexiconUpdate, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        Pair(["dictionary"], ["dictionary"]).ends[1].learn(teaching)


def test_a_damaged_body_goes_on_and_is_refused_where_it_is_wanted() -> None:
    pair = Pair(["text"], ["text"])
    damaged = message(b"TW\x01\x00\x05\x00\x00")._replace(form="stream")
    arrived = pair.carry(Span(7, 0, 1, damaged))
    assert arrived.message.form == TEXT
    assert arrived.message.body == damaged.body
    assert pair.bodies[0].counts["damaged"] == 1
    for form in ("stream", "stream+zlib", "text+zstd"):
        with pytest.raises(RejectedMessage):
            pair.bodies[1].text(damaged._replace(form=form))
    assert pair.carry(span(b"no XML at all")).message.body == b"no XML at all"


def test_a_body_that_unpacks_to_too_much_is_refused() -> None:
    small = Bodies(Limits(message_bytes_max=1_000))
    large = Bodies().in_form(message(b"<a>" + b" " * 5_000 + b"</a>"), FORMS["text+zlib"])
    with pytest.raises(RejectedMessage, match="more than 1000 bytes"):
        small.text(large)


@pytest.mark.parametrize("form", [form for form in FORMS if form != TEXT])
def test_what_would_outgrow_the_limit_in_another_form_goes_as_text(form: str) -> None:
    """A stream has a header, and `&amp;` for `&` of CDATA sections; what is taken at one broker is read at all."""
    bytes_max, grown, left = 2_100, 0, 0
    chance = random.Random(SEED)
    for number in range(200):
        name, marks = "n" * chance.choice([1, 100, 700]), chance.choice([0, 10, 300, 600])
        start = f"<{name}><![CDATA[{'&' * marks}]]>".encode()
        end = f"</{name}>".encode()
        remaining = bytes_max - len(start) - len(end)
        text = start + b" " * chance.choice([remaining, remaining - 1, remaining - 60, remaining // 2, 0]) + end
        limits = Limits(message_bytes_max=bytes_max)
        for came_as in (TEXT, "text+zlib"):
            sender, receiver = Bodies(limits), Bodies(limits)
            came = Bodies().in_form(message(text), FORMS[came_as])
            sent = sender.in_form(came, FORMS[form])
            read = receiver.text(sent)
            about = f"seed {SEED}, message {number}: {text.decode()}"
            assert etree.canonicalize(read.decode()) == etree.canonicalize(text.decode()), about
            assert not receiver.opened(sent).is_stream or sent.form == form, about
            grown += sent.form == TEXT and FORMS[form].structure is not Structure.TEXT
            left += sender.counts["left_as_text"]
            assert sender.counts["damaged"] == 0, about
    assert left == grown
    assert FORMS[form].structure is Structure.TEXT or 100 < grown < 350, grown


def test_packed_text_that_fits_no_other_form_goes_as_text_unpacked() -> None:
    """A broker with other limits on the way must not spoil what it cannot read itself."""
    deep = b"<a>" * 5 + b"</a>" * 5
    packed = Bodies().in_form(message(deep), FORMS["text+zlib"])
    assert Bodies(Limits(depth_max=4)).in_form(packed, FORMS["dictionary"]) == message(deep)


def test_wishes_are_for_all_or_for_one() -> None:
    interests = FormPreferences.parse(["dictionary+zstd", "stream", "south=text", "west=stream", "west=text+zlib"])
    assert interests.of("north") == ("dictionary+zstd", "stream", TEXT)
    assert interests.of("south") == (TEXT,)
    assert interests.of("west") == ("stream", "text+zlib", TEXT)
    assert FormPreferences().of("anyone") == (TEXT,)
    for nonsense in ("morse", "=stream", "south=", "south=morse"):
        with pytest.raises(ImpossibleSetting):
            FormPreferences.parse([nonsense])
