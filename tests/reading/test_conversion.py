"""Messages in other encodings, or with a DOCTYPE that declares something, as plain UTF-8."""

import contextlib
import encodings.aliases
import time
from html.entities import html5
from pathlib import Path

import pytest
from lxml import etree

from twigcast import SubscriptionSet
from twigcast.engine.session import MessageBuffers
from twigcast.errors import MalformedMessage, MessageLimitExceeded, SourceError
from twigcast.reading.conversion import recoded, to_document, to_utf8, without_doctype
from twigcast.reading.document_types import DocumentTypes


@pytest.mark.parametrize(
    ("message", "converted"),
    [
        (b"<a/>", "<a/>"),
        (b"\xef\xbb\xbf<a/>", "<a/>"),
        (b"<?xml version='1.0' encoding='UTF-8' standalone='no'?>", f"<?xml version='1.0'{' ' * 17} standalone='no'?>"),
        (b"<?xml version='1.0'\nencoding='latin-1'?><a>\xe9</a>", f"<?xml version='1.0'\n{' ' * 18}?><a>é</a>"),
        ("\ufeff<a>日本</a>".encode("utf-16le"), "<a>日本</a>"),
        ("\ufeff<a>😀</a>".encode("utf-16be"), "<a>😀</a>"),
        ("<a>é</a>".encode("utf-16le"), "<a>é</a>"),
        ("<a>é</a>".encode("utf-16be"), "<a>é</a>"),
    ],
)  # fmt: skip
def test_encodings_without_doctype_keep_every_column(message: bytes, converted: str) -> None:
    assert to_utf8(message).decode() == converted


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("GB2312", "中文"),
        ("big5", "繁體"),
        ("EUC-KR", "한국"),
        ("iso-8859-7", "Ελλάδα"),
        ("windows-1252", "€“”"),
        ("Shift_JIS", "日本"),
        ("KOI8-R", "Привет"),
        ("utf8", "é日"),
    ],
)
def test_encodings_that_python_knows_are_decoded(encoding: str, text: str) -> None:
    message = f"<?xml version='1.0' encoding='{encoding}'?><a b='{text}'>{text}</a>".encode(encoding)
    assert to_utf8(message).decode().endswith(f"<a b='{text}'>{text}</a>")


@pytest.mark.parametrize(
    ("message", "place", "reason"),
    [
        (b"<?xml version='1.0' encoding='klingon'?><a/>", (1, 31), "'klingon', which is unknown"),
        (b"<?xml version='1.0'\n encoding='UTF-16'?><a/>", (2, 12), "'UTF-16', but its bytes are not in it"),
        (b"<?xml version='1.0' encoding='cp037'?><a/>", (1, 31), "its bytes are not in it"),
        (b"<?xml version='1.0' encoding='utf-7'?><a/>", (1, 31), "which documents cannot be in"),
        (b"<?xml version='1.0' encoding='unicode_escape'?><a/>", (1, 31), "which documents cannot be in"),
        (b"<?xml version='1.0' encoding='hex'?><a/>", (1, 31), "which is unknown"),
        (b"\xef\xbb\xbf<?xml version='1.0' encoding='iso-8859-1'?><a/>", (1, 31), "byte-order mark of UTF-8"),
        ("\ufeff<?xml version='1.0' encoding='utf-8'?><a/>".encode("utf-16le"), (1, 31), "but is UTF-16"),
        ("\ufeff<?xml version='1.0' encoding='utf-16be'?><a/>".encode("utf-16le"), (1, 31), "but is UTF-16"),
        ("\ufeff<a/>".encode("utf-32le"), (1, 1), "UTF-32"),
        ("\ufeff\ufeff<a/>".encode("utf-16le"), (1, 1), "does not start with markup"),
        (b"\0\0\0\0<a/>", (1, 1), "does not start with markup"),
        (
            b"<?xml version='1.0' encoding='us-ascii'?>\n<a>\xe9</a>",
            (2, 4),
            "0xE9 mean nothing in the encoding 'ascii'",
        ),
        (b"<?xml version='1.0' encoding='GB2312'?>\r\n<a>\xff</a>", (2, 4), "encoding 'gb2312'"),
        ("\ufeff<a>\n".encode("utf-16le") + b"\x00\xd8<\x00", (2, 1), "0x00D8 mean nothing"),
        (b"<a/>\xff", (1, 5), "0xFF mean nothing in the encoding 'utf-8'"),
    ],
)
def test_bytes_that_contradict_their_encoding_are_rejected(message: bytes, place: tuple[int, int], reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason) as caught:
        to_utf8(message)
    assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize(
    ("subset", "content", "converted"),
    [
        ("<!ENTITY e 'x'>", "<a>1&e;2</a>", "<a>1x2</a>"),
        ("<!ENTITY e '&lt;&#38;amp;'>", "<a>&e;</a>", "<a>&lt;&amp;</a>"),
        ("<!ENTITY e '<b>x</b>'>", "<a>1&e;2</a>", "<a>1<b>x</b>2</a>"),
        ("<!ENTITY e 'x'>", "<a b='&e;&#10;\"'/>", "<a b='x&#10;\"'/>"),
        ("<!ATTLIST a b NMTOKENS ' 1  2 ' c CDATA 'é'>", "<a/>", '<a b="1 2" c="é"/>'),
        ("<!ATTLIST p:a xmlns:p CDATA 'u'>", "<p:a/>", '<p:a xmlns:p="u"/>'),
        ("<!-- s --><?s s?>", "<?p 1?><a><!--c--><?q?></a>", "<?p 1?><a><!--c--><?q?></a>"),
        ("", "<a><![CDATA[<&]]>&#13;</a>", "<a><![CDATA[<&]]>&#13;</a>"),
    ],
)  # fmt: skip
def test_a_doctype_takes_effect_and_goes(subset: str, content: str, converted: str) -> None:
    doctype = f"<!DOCTYPE a [{subset}]>"
    assert to_utf8(f"{doctype}{content}".encode()) == f"{' ' * len(doctype.encode())}{converted}".encode()
    assert to_document(f"{doctype}\n{content}".encode()).decode() == converted


def test_a_doctype_goes_wherever_it_stands() -> None:
    message = "<!DOCTYPE a PUBLIC 'p' 's'>\n<a>&lt;&#65;é</a>"
    assert to_utf8(message.encode("utf-16")).decode() == " " * 27 + "\n<a>&lt;&#65;é</a>"
    hidden = "<!-- <!DOCTYPE x> --><!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>"
    assert to_document(hidden.encode()) == b"<!-- <!DOCTYPE x> --><a>x</a>"
    assert to_document(b"<!DOCTYPE a SYSTEM '>' []><a/>") == b"<a/>"
    assert to_document(b"<!DOCTYPE a SYSTEM 'x\">' []><a b='\"'/>") == b"<a b='\"'/>"
    text = b"<a><![CDATA[<!DOCTYPE x>]]></a>"
    assert to_document(text) == text == without_doctype(text)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_what_comes_without_a_doctype_stays_as_it_came(encoding: str) -> None:
    for text in ("<a>é</a>", "<a><!-- DOCTYPE --></a>"):
        assert without_doctype(text.encode(encoding)) == text.encode(encoding)
    assert without_doctype("<!DOCTYPE a SYSTEM 'x'><a>é</a>".encode(encoding)) == "<a>é</a>".encode()


def test_external_entities_are_never_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    subset = f"<!ENTITY e SYSTEM '{secret.as_uri()}'><!ENTITY % p SYSTEM '{secret.as_uri()}'>%p;"
    with pytest.raises(MalformedMessage, match=r"entity \"e\" is external \(SYSTEM .* put its text into the message"):
        to_utf8(f"<!DOCTYPE a SYSTEM '{secret.as_uri()}' [{subset}]><a>1&e;2</a>".encode())
    assert to_document(f"<!DOCTYPE a [{subset}]><a>12</a>".encode()) == b"<a>12</a>"


@pytest.mark.parametrize("message", ["<!DOCTYPE a SYSTEM 'x'><a b='&e;'/>", "<!DOCTYPE a SYSTEM 'x'><a>&e;</a>"])
def test_an_entity_that_an_unread_dtd_may_declare_is_named(message: str) -> None:
    with pytest.raises(
        MalformedMessage, match=r'declare the entity "e", and its DTD \(SYSTEM "x"\) is not read.*--dtd'
    ):
        to_utf8(message.encode())
    with pytest.raises(MalformedMessage, match='undeclared entity "e"'):
        to_utf8(f"<?xml version='1.0' standalone='yes'?>{message}".encode())


@pytest.mark.parametrize(
    "doctype",
    [
        "html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x'",
        "rss PUBLIC '-//Netscape Communications//DTD RSS 0.91//EN' 'x'",
        "a [<!ENTITY % s PUBLIC 'ISO 8879:1986//ENTITIES Added Latin 1//EN//XML' 'x'>%s;]",
    ],
)
def test_known_public_identifiers_stand_for_their_entities(doctype: str) -> None:
    message = f"<!DOCTYPE {doctype}><a b='&uuml;'>&mdash;&uuml;</a>".encode()
    assert to_document(message).decode() == "<a b='ü'>—ü</a>"
    with pytest.raises(MalformedMessage, match=r"declare the entity|undeclared entity"):
        to_document(message.replace(b"mdash", b"nosuch"))


def test_entities_of_html_are_used_where_they_are_asked_for() -> None:
    html = DocumentTypes(entities="html")
    for name, value in html5.items():
        if not name.endswith(";") or name in ("lang;", "rang;"):
            continue
        for doctype in ("<!DOCTYPE a>", "<!DOCTYPE a SYSTEM 'x'>"):
            result = to_document(f"{doctype}<a b='&{name}'>&{name}</a>".encode(), types=html)
            element = etree.fromstring(result)
            # Line feeds of entities become spaces in attributes.
            assert (element.text, element.get("b")) == (value, value.replace("\n", " ").replace("\t", " ")), name
    own = b"<!DOCTYPE a [<!ENTITY uuml 'mine'>]><a>&uuml;</a>"
    assert to_document(own, types=html) == b"<a>mine</a>"
    with pytest.raises(ValueError, match="entities: it must be 'html'"):
        DocumentTypes(entities="iso")  # type: ignore[arg-type]


def test_a_dtd_that_the_user_names_is_read_with_its_parts(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "part.ent").write_text("<!ENTITY b 'B'><!ENTITY out SYSTEM 'file:///x'>")
    path = tmp_path / "a.dtd"
    path.write_text(
        "<?xml version='1.0' encoding='utf-8'?><!ENTITY % part SYSTEM 'more/part.ent'>%part;<!ENTITY a '&b;&#38;amp;'>"
        "<!ATTLIST i kind NMTOKEN 'x' id ID #IMPLIED><![INCLUDE[<!ENTITY c '<i/>'>]]>"
    )
    types = DocumentTypes(dtd=str(path))
    message = b"<!DOCTYPE a SYSTEM 'elsewhere' [<!ATTLIST i kind CDATA 'own'>]><a><i id=' 1 '/>&a;&c;</a>"
    assert to_document(message, types=types) == b"""<a><i id='1' kind="own"/>B&amp;<i kind="own"/></a>"""
    with pytest.raises(
        MalformedMessage, match='neither the message nor the DTD that was given declares the entity "d"'
    ):
        to_document(b"<!DOCTYPE a SYSTEM 'x'><a>&d;</a>", types=types)
    with pytest.raises(MalformedMessage, match="is external"):
        to_document(b"<!DOCTYPE a SYSTEM 'x'><a>&out;</a>", types=types)


@pytest.mark.parametrize(
    ("dtd", "reason"),
    [
        ("<!ENTITY a", "it is not a DTD: line 1"),
        ("<!ENTITY % p SYSTEM 'http://example.org/p'>%p;", "nothing is fetched"),
        ("<!ENTITY % p SYSTEM 'missing'>%p;", "missing.*cannot be read"),
    ],
)
def test_a_dtd_that_cannot_be_read_is_told_with_its_file(tmp_path: Path, dtd: str, reason: str) -> None:
    path = tmp_path / "a.dtd"
    path.write_text(dtd)
    with pytest.raises(SourceError, match=reason):
        to_document(b"<!DOCTYPE a SYSTEM 'x'><a/>", types=DocumentTypes(dtd=str(path)))
    with pytest.raises(SourceError, match="cannot be read"):
        to_document(b"<!DOCTYPE a SYSTEM 'x'><a/>", types=DocumentTypes(dtd=str(tmp_path / "none.dtd")))


@pytest.mark.parametrize(
    ("message", "place", "reason"),
    [
        ("<!DOCTYPE a [\n<!ENTITY e 'x'>]><a>&f;</a>", (2, 21), 'undeclared entity "f"'),
        ("<!DOCTYPE a [\n<!ENTITY e 'x'>]]><a/>", (2, 17), "must end with"),
        ("<!DOCTYPE a [\n<!ENTITY e '<b>'>]><a>&e;</b></a>", (2, 23), "begin and end within it"),
        ("<!DOCTYPE a [<!ENTITY e '&e;'>]><a>&e;</a>", (1, 36), "refers to itself"),
    ],
)
def test_malformed_messages_with_a_doctype_are_rejected_at_their_place(
    message: str, place: tuple[int, int], reason: str
) -> None:
    with pytest.raises(MalformedMessage, match=reason) as caught:
        to_utf8(message.encode())
    assert (caught.value.line, caught.value.column) == place


def exponential(levels: int) -> str:
    declared = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10}'>" for n in range(1, levels))
    return f"<!DOCTYPE a [<!ENTITY e0 'ha'>{declared}]><a>&e{levels - 1};</a>"


def quadratic(length: int) -> str:
    return f"<!DOCTYPE a [<!ENTITY e '{'x' * length}'>]><a>{'&e;' * length}</a>"


def chained(length: int) -> str:
    """Expanded recursively, this would use up the stack."""
    declared = "".join(f"<!ENTITY e{n} '&e{n - 1};'>" for n in range(1, length))
    return f"<!DOCTYPE a [<!ENTITY e0 'x'>{declared}]><a>&e{length - 1};</a>"


def attribute_defaults(count: int) -> str:
    declared = "".join(f" a{n} CDATA '{'x' * 100}'" for n in range(1_000))
    return f"<!DOCTYPE r [<!ATTLIST b{declared}>]><r>{'<b/>' * count}</r>"


@pytest.mark.parametrize(
    "bomb",
    [
        exponential(30),
        quadratic(100_000),
        chained(300_000),
        exponential(30).replace("<a>&", "<a b='&").replace(";</a>", ";'/>"),
    ],
)
def test_entity_bombs_are_rejected_promptly(bomb: str) -> None:
    start = time.monotonic()
    with pytest.raises(MessageLimitExceeded) as caught:
        to_utf8(bomb.encode())
    assert time.monotonic() - start < 20
    assert caught.value.limit in {"entity_amplification_max", "entities_with_references_max"}
    assert caught.value.line is not None
    assert f"{caught.value.limit} = {caught.value.value:,}, which is fixed" in str(caught.value)


def test_the_answer_is_bounded() -> None:
    with pytest.raises(MessageLimitExceeded) as caught:
        to_utf8(attribute_defaults(10_000).encode(), 1_000_000)
    assert (caught.value.limit, caught.value.value) == ("message_bytes_max", 1_000_000)
    with pytest.raises(MessageLimitExceeded):
        to_utf8(b"<?xml version='1.0' encoding='latin-1'?><a>" + b"\xe9" * 60 + b"</a>", 160)
    assert len(to_utf8(attribute_defaults(1).encode())) > 100_000


def test_chains_of_entities_within_reason_are_expanded() -> None:
    assert to_document(chained(900).encode()) == b"<a>x</a>"


@pytest.mark.parametrize(
    ("data", "transport", "wanted"),
    [
        (b"<a/>", None, b"<a/>"),
        ("<a>\xe9</a>".encode(), "utf-8", "<a>\xe9</a>".encode()),
        ("<a>\xe9</a>".encode("latin-1"), "ISO-8859-1", "<a>\xe9</a>".encode()),
        # Without a mark UTF-16 is big-endian where the transport says no more.
        ("<a>\xe9</a>".encode("utf-16-be"), "utf-16", "<a>\xe9</a>".encode()),
        # A mark wins over the transport, and the transport over the declaration.
        ("\ufeff<a>\xe9</a>".encode("utf-16-le"), "iso-8859-1", "<a>\xe9</a>".encode()),
        ("\ufeff<a>\xe9</a>".encode(), "iso-8859-1", "<a>\xe9</a>".encode()),
        (
            "<?xml version='1.0' encoding='iso-8859-1'?><a>\xe9</a>".encode(),
            "utf-8",
            "<?xml version='1.0'                      ?><a>\xe9</a>".encode(),
        ),
        # A DOCTYPE stays.
        (b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>", "utf-8", b"<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>"),
        (b"", None, b""),
    ],
)
def test_what_names_the_encoding_of_a_sent_message(data: bytes, transport: str | None, wanted: bytes) -> None:
    assert recoded(data, transport) == wanted


@pytest.mark.parametrize("transport", ["base64", "hex", "rot13", "idna", "utf-7", "nothing", "x\0y"])
def test_what_is_no_encoding_is_refused_as_one_of_the_transport(transport: str) -> None:
    with pytest.raises(MalformedMessage, match="the transport names"):
        recoded(b"<a/>", transport)


@pytest.mark.parametrize(
    "body", [b"", b"<a/>", b"<a>x</a>", "<a>\xe9</a>".encode(), b"<a>\xff\xfe+~{</a>", bytes(range(256))]
)
def test_whatever_the_transport_names_a_message_is_read_or_rejected(body: bytes) -> None:
    for name in {*encodings.aliases.aliases, *encodings.aliases.aliases.values(), "undefined", "mbcs", "oem"}:
        # What is UTF-8 already is not looked into here.
        with contextlib.suppress(MalformedMessage):
            assert recoded(body, name) is not None


def test_a_sent_message_that_grows_over_the_limit_is_refused() -> None:
    with pytest.raises(MessageLimitExceeded):
        recoded("<a>\xe9\xe9\xe9</a>".encode("latin-1"), "latin-1", 12)


CHANGED = [
    b"<!DOCTYPE a [<!ENTITY e '<b/>'>]><a>&e;</a>",
    b"<!DOCTYPE a [<!ATTLIST b c CDATA 'd'>]><a><b c='x'/><b/></a>",
    b"<!DOCTYPE a [<!ATTLIST b c NMTOKENS #IMPLIED>]><a><b c='d'/><b c=' d '/></a>",
]


@pytest.mark.parametrize("message", CHANGED)
def test_the_engine_expands_a_message_itself(message: bytes) -> None:
    """No other copy of the message is made; only nodes, which have positions, are those of a converted message."""
    subs = SubscriptionSet({"b": "//b", "cd": "//b[@c = 'd']", "never": "//e"})
    engine, plain = subs._session.engine, to_utf8(message)
    assert list(engine.answer(message).keys()) == list(subs.match(plain))
    buffers = MessageBuffers.of([message])
    for more in ((False, False), (True, False), (False, True), (True, True)):
        assert subs._session._ask_batch(buffers, *more, 1, "keys", [0], False).needs_conversion == []
    assert dict(engine.node_counts(message)) == subs.node_counts(plain)
    assert engine.results(message).document() == to_document(message)
    match = subs.match(message)
    assert match.node_counts() == subs.match(plain).node_counts() == match.freeze().node_counts()
    assert [node.markup for node in match.nodes("b")] == [node.markup for node in subs.match(plain).nodes("b")]
