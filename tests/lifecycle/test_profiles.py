"""What profiles find in messages of known formats, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from twigcast.errors import LifecycleProfileError, SourceError
from twigcast.lifecycle.builtin import BUILTIN
from twigcast.lifecycle.facts import MessageFacts, MessageKind, ProfileReader
from twigcast.lifecycle.profiles import LifecycleProfile, read_profile

CAP = "urn:oasis:names:tc:emergency:cap:1.2"
G2 = "http://iptc.org/std/nar/2006-10-01/"


def facts(profile: str, message: str) -> MessageFacts:
    return ProfileReader(read_profile(profile)).read(message.encode())


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_an_alert_names_the_alerts_that_it_cancels(version: str) -> None:
    found = facts(
        "cap",
        f"""<c:alert xmlns:c="urn:oasis:names:tc:emergency:cap:{version}">
          <c:identifier> KSTO-17 </c:identifier><c:sender>w@noaa.gov</c:sender>
          <c:sent>2026-06-01T10:00:00-07:00</c:sent><c:msgType>Cancel</c:msgType>
          <c:references>w@noaa.gov,KSTO-15,2026-06-01T08:00:00-07:00
            w@noaa.gov,KSTO-16,2026-06-01T09:00:00-07:00</c:references>
          <c:info><c:expires>2026-06-01T12:00:00-07:00</c:expires></c:info>
          <c:info><c:expires>2026-06-01T13:00:00-07:00</c:expires></c:info></c:alert>""",
    )
    assert found == MessageFacts(
        "w@noaa.gov,KSTO-17",
        MessageKind.CANCEL,
        "2026-06-01T10:00:00-07:00",
        refers=("w@noaa.gov,KSTO-15", "w@noaa.gov,KSTO-16"),
        expires=1780344000.0,
    )


def test_references_that_name_nothing_do_not_tie_alerts_together() -> None:
    head = "<identifier>1</identifier><sender>s</sender><sent>x</sent>"
    found = facts("cap", f"<alert xmlns='{CAP}'>{head}<references>see above s,0,x</references></alert>")
    assert (found.refers, found.trouble) == (("s,0",), "it refers to a message without an identity")


def test_long_identities_are_bounded_and_stay_apart() -> None:
    first, second = (facts("rss", f"<item><guid>{'g' * 5_000}{n}</guid></item>").identity for n in (1, 2))
    assert first is not None
    assert first != second
    assert len(first) == 1_000


def test_an_alert_with_a_block_that_does_not_end_has_no_end() -> None:
    blocks = "<info><expires>2026-06-01T12:00:00-07:00</expires></info><info/>"
    head = "<identifier>1</identifier><sender>s</sender><sent>2026-06-01T10:00:00-07:00</sent>"
    assert facts("cap", f"<alert xmlns='{CAP}'>{head}{blocks}</alert>").expires is None


def test_an_acknowledgement_takes_no_part() -> None:
    head = "<identifier>1</identifier><sender>s</sender><sent>x</sent><msgType>Ack</msgType>"
    assert not facts("cap", f"<alert xmlns='{CAP}'>{head}</alert>").takes_part


def test_an_alert_without_a_sender_has_no_identity() -> None:
    assert facts("cap", f"<alert xmlns='{CAP}'><identifier>1</identifier><sent>x</sent></alert>").identity is None


@pytest.mark.parametrize(
    ("profile", "message", "expected"),
    [
        (
            "atom",
            "<entry xmlns='http://www.w3.org/2005/Atom'><id>urn:a</id><updated>2026-01-01T00:00:00Z</updated></entry>",
            MessageFacts("urn:a", version="2026-01-01T00:00:00Z"),
        ),
        (
            "atom",
            "<d:deleted-entry xmlns:d='http://purl.org/atompub/tombstones/1.0' ref='urn:a' "
            "when='2026-01-02T00:00:00Z'/>",
            MessageFacts("urn:a", MessageKind.CANCEL, "2026-01-02T00:00:00Z"),
        ),
        (
            "rss",
            "<item><link>http://a/1</link><guid>g</guid><pubDate>Mon, 01 Jun 2026 10:00:00 GMT</pubDate></item>",
            MessageFacts("g", version="Mon, 01 Jun 2026 10:00:00 GMT"),
        ),
        (
            "rss",
            "<item xmlns='http://purl.org/rss/1.0/' xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' r:about='u'>"
            "<date xmlns='http://purl.org/dc/elements/1.1/'>2026-06-01</date></item>",
            MessageFacts("u", version="2026-06-01"),
        ),
        (
            "newsml-g2",
            f"<newsItem xmlns='{G2}' guid='urn:newsml:x' version='3'><itemMeta><pubStatus qcode='stat:canceled'/>"
            "</itemMeta></newsItem>",
            MessageFacts("urn:newsml:x", MessageKind.CANCEL, "3"),
        ),
        (
            "nitf",
            "<nitf><head><docdata management-doc-idref='d0'><doc-id id-string='d1'/><du-key key='flood' version='2'/>"
            "<date.expire norm='20260601T120000Z'/></docdata></head></nitf>",
            MessageFacts("flood", version="2", names=("d1",), refers=("d0",), expires=1780315200.0),
        ),
        (
            "siri-sx",
            "<PtSituationElement xmlns='http://www.siri.org.uk/siri'><ParticipantRef>op</ParticipantRef>"
            "<SituationNumber>17</SituationNumber><Version>4</Version><Progress>closed</Progress>"
            "<ValidityPeriod><StartTime>2026-06-01T10:00:00Z</StartTime></ValidityPeriod></PtSituationElement>",
            MessageFacts("op,17", MessageKind.END, "4"),
        ),
    ],
)
def test_known_formats(profile: str, message: str, expected: MessageFacts) -> None:
    assert facts(profile, message) == expected


def test_what_should_have_a_version_and_has_none_is_known_by_its_content() -> None:
    item = "<item><link>http://a/1</link><title>{}</title></item>".format
    first, same, other = (facts("rss", text) for text in (item("a"), f"\n{item('a')}\n", item("b")))
    assert first.version == same.version != other.version
    assert first.identity == other.identity == "http://a/1"


def test_a_situation_needs_no_participant_and_a_document_of_several_is_none_of_them() -> None:
    one = "<PtSituationElement><SituationNumber>1</SituationNumber></PtSituationElement>"
    assert facts("siri-sx", one).identity == ",1"
    assert facts("siri-sx", f"<Siri><Situations>{one}</Situations></Siri>").identity == ",1"
    assert facts("siri-sx", f"<Siri>{one}{one.replace('1', '2')}</Siri>").identity is None


def test_a_time_that_is_none_is_reported_and_ends_nothing() -> None:
    found = facts(
        "nitf", "<nitf><head><docdata><doc-id id-string='d'/><date.expire norm='soon'/></docdata></head></nitf>"
    )
    assert (found.expires, found.trouble) == (None, "it expires at 'soon', which is no time")


def test_profiles_in_files_and_what_they_take_from_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "road.toml"
    path.write_text('identity = ["/r/@site", "/r/@no"]\nrefers = "/r/replaces"\nfollow = true\n')
    assert read_profile(path).identity == ("/r/@site", "/r/@no")
    assert read_profile(str(path)).name == "road"
    path = tmp_path / "quiet.json"
    path.write_text(json.dumps({"extends": "cap", "follow": False}))
    quiet = read_profile(path)
    assert (quiet.name, quiet.follow, quiet.refers) == ("quiet", False, read_profile("cap").refers)


@pytest.mark.parametrize("name", BUILTIN)
def test_a_profile_is_the_same_from_its_mapping(name: str) -> None:
    profile = read_profile(name)
    assert read_profile(profile.as_mapping()) == profile


@pytest.mark.parametrize(
    ("profile", "part", "reason"),
    [
        ({"name": "x"}, "identity", "it is missing"),
        ({"name": "x", "identity": []}, "identity", "at least one"),
        ({"name": "x", "identity": "/a["}, "identity", "column 4"),
        ({"name": "x", "identity": "/p:a"}, "identity", "the prefix `p`"),
        ({"name": "x", "identity": "/a", "cancel": 3}, "cancel", "must be a text"),
        ({"name": "x", "identity": "/a", "verson": "/b"}, "verson", "no such part; it has name, identity"),
        ({"name": "x", "identity": "/a", "item": "a["}, "item", "names no element"),
        ({"name": "x", "identity": "/a", "follow": "yes"}, "follow", "true or false"),
        ({"name": "x", "identity": "/a", "namespaces": 3}, "namespaces", "must be a mapping"),
        ({"name": "", "identity": "/a"}, "name", "1 to 100"),
        ({"name": "x", "extends": "y"}, "extends", "'y' is no known profile"),
        ({"identity": "/a"}, "name", "needs a name"),
        ("capp", "name", "there are atom, cap"),
    ],
)
def test_what_is_wrong_with_a_profile_is_named(profile: str | Mapping[str, object], part: str, reason: str) -> None:
    with pytest.raises(LifecycleProfileError) as raised:
        ProfileReader(read_profile(profile))
    assert raised.value.part == part
    assert reason in raised.value.reason


def test_files_that_hold_no_profile(tmp_path: Path) -> None:
    with pytest.raises(SourceError):
        read_profile(tmp_path / "none.toml")
    for name, text in (("a.toml", "identity ="), ("b.json", "[1]"), ("c.json", "{")):
        (tmp_path / name).write_text(text)
        with pytest.raises(LifecycleProfileError) as raised:
            read_profile(tmp_path / name)
        assert raised.value.part == "file"


def test_items_are_cut_unless_something_else_is(tmp_path: Path) -> None:
    from twigcast.reading.options import ReadOptions

    profile = LifecycleProfile(name="x", identity=("/i/@id",), item="i", inherit=("title",))
    assert profile.read_options() == ReadOptions(record="i", inherit=("title",))
    assert profile.read_options(ReadOptions(record="j")).record == "j"
    assert read_profile("cap").read_options().record is None
