"""Sets that know entities, read a DTD or repair messages: as lxml reads the message with all that written out."""

import pickle
import random
from html.entities import html5
from pathlib import Path

import pytest
from lxml import etree

from twigcast import SubscriptionSet
from twigcast.errors import MalformedMessage, ReadOptionError, SourceError
from twigcast.limits import Limits
from twigcast.reading.messages import Message, read_messages
from twigcast.reading.options import ReadOptions

SEED = 4_711
ENTITIES = ("uuml", "nbsp", "hellip", "alpha", "NotEqualTilde")
TEXTS = ("x", " ", "&amp;", "&#228;", "<b>y</b>", "<![CDATA[&uuml;]]>", "<!-- &uuml; -->")
STARTS = ("", "<?xml version='1.0'?>\n", "<!DOCTYPE a SYSTEM 'x.dtd'>", "<!DOCTYPE a [<!ENTITY own 'o'>]>\n")


def message_and_text(randomness: random.Random) -> tuple[str, str]:
    """Returns a message, and what lxml says that its text is once the entities are written as characters."""
    start = randomness.choice(STARTS)
    body = "".join(randomness.choice([*TEXTS, *(f"&{name};" for name in ENTITIES)]) for _ in range(6))
    plain = body
    for name in ENTITIES:
        plain = plain.replace(f"&{name};", html5[f"{name};"])
    plain = plain.replace(f"<![CDATA[{html5['uuml;']}]]>", "<![CDATA[&uuml;]]>")
    text = str(etree.fromstring(f"<a>{plain}</a>").xpath("string()"))
    return f"{start}<a>{body}</a>", text


def selecting(**reading: object) -> SubscriptionSet:
    return SubscriptionSet({"text": "/a", "copy": "for $a in /a return <c>{ string($a) }</c>"}, **reading)  # type: ignore[arg-type]


def texts(subscriptions: SubscriptionSet, message: bytes) -> set[str]:
    """Returns the text of a message as each way in which a set reads it says it is."""
    [node] = subscriptions.nodes(message, "text")
    [selected] = subscriptions.match(message).nodes("text")
    by_key = {one.key: one.payload for one in subscriptions.deliver(message)}
    [row] = subscriptions.match_batch([message], deliver=True).to_pylist()
    assert row["keys"] is not None
    assert row["payloads"] is not None
    copy = dict(zip(row["keys"], row["payloads"], strict=True))["copy"]
    assert copy is not None
    copies = {copy, by_key["copy"]}
    whole = etree.fromstring(by_key["text"])
    assert whole.getroottree().docinfo.doctype == ""
    return {
        node.text,
        selected.text,
        str(whole.xpath("string()")),
        *(str(etree.fromstring(copy).xpath("string()")) for copy in copies),
    }


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_of_html_are_read_everywhere(encoding: str) -> None:
    print("seed", SEED)
    randomness = random.Random(SEED)
    subscriptions = selecting(entities="html")
    for _ in range(60):
        message, text = message_and_text(randomness)
        assert texts(subscriptions, message.encode(encoding)) == {text}, message


def test_a_dtd_counts_in_messages_with_and_without_doctype(tmp_path: Path) -> None:
    dtd = tmp_path / "a.dtd"
    dtd.write_text("<!ENTITY firm 'Twigcast &amp; Co'><!ATTLIST a lang CDATA 'en'>")
    subscriptions = SubscriptionSet({"k": "/a[@lang = 'en'][. = 'Twigcast & Co']"}, dtd=dtd)
    for start in ("", "<!DOCTYPE a SYSTEM 'elsewhere.dtd'>"):
        message = f"{start}<a>&firm;</a>".encode()
        assert subscriptions.match(message).keys == ["k"]
        assert pickle.loads(pickle.dumps(subscriptions)).match(message).keys == ["k"]
        assert bool(subscriptions.explain(message, "k"))


def test_repairs_are_made_and_counted() -> None:
    subscriptions = selecting(tolerant=True)
    message = b"\n<?xml version='1.0'?><a>M&uuml;ller \x93x\x94 \x0b</a>"
    assert texts(subscriptions, message) == {"M\xfcller \u201cx\u201d  "}
    counts = subscriptions.repairs
    assert set(counts.values()) == {counts["control characters"], counts["bytes of Windows-1252"]}
    with pytest.raises(MalformedMessage):
        selecting().match(message)


def test_sets_read_as_the_reader_of_files_does(tmp_path: Path) -> None:
    print("seed", SEED)
    randomness = random.Random(SEED)
    options = ReadOptions(entities="html", tolerant=True)
    reading, plain = selecting(entities="html", tolerant=True), selecting()
    for number in range(30):
        path = tmp_path / f"{number}.xml"
        path.write_bytes(message_and_text(randomness)[0].encode())
        [message] = read_messages([path], options)
        assert isinstance(message, Message)
        assert reading.node_counts(path) == plain.node_counts(message.xml)
        [node], [other] = reading.nodes(path, "text"), plain.nodes(message.xml, "text")
        assert (node.text, node.line) == (other.text, other.line)


def test_what_cannot_be_read_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(ReadOptionError, match="entities: it must be 'html' or None, not 'iso'"):
        SubscriptionSet(entities="iso")  # type: ignore[arg-type]
    with pytest.raises(SourceError, match="No such file"):
        SubscriptionSet(dtd=tmp_path / "none.dtd")
    with pytest.raises(MalformedMessage, match='"nosuch"'):
        selecting(entities="html").match(b"<a>&nosuch;</a>")
    error = SubscriptionSet(entities="html", limits=Limits()).match_batch([b"<a>&nosuch;</a>"])["error"][0].as_py()
    assert error is not None
    assert error["code"] == "message-malformed"


@pytest.mark.parametrize("option", [{"record_id": "g"}, {"inherit": ("x",)}])
def test_options_about_records_need_records(option: dict[str, object]) -> None:
    with pytest.raises(ReadOptionError, match="there are no records"):
        ReadOptions(**option)  # type: ignore[arg-type]
