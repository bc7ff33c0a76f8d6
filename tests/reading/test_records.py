"""Cutting records: the same elements, with the same content, that lxml finds in the whole document."""

import io
import tracemalloc
from collections.abc import Iterator
from copy import deepcopy
from typing import Final
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from twigcast.errors import MalformedMessage, MessageLimitExceeded
from twigcast.reading.records import Record, cut_records

BYTES_MAX: Final = 1 << 20


class Dribble(io.RawIOBase):
    """A stream that hands out a few bytes at a time, whatever is asked for."""

    def __init__(self, data: bytes, size: int) -> None:
        self._stream = io.BytesIO(data)
        self._size = size

    def read(self, size: int = -1, /) -> bytes:
        return self._stream.read(self._size)


def cut(document: bytes | str, record: str, bytes_max: int = BYTES_MAX) -> list[Record]:
    data = document.encode() if isinstance(document, str) else document
    whole = list(cut_records(io.BytesIO(data), record, bytes_max=bytes_max))
    if len(data) < 5_000:
        # The first piece must hold the XML declaration.
        assert list(cut_records(Dribble(data, 64), record, bytes_max=bytes_max)) == whole
    return whole


def texts(document: bytes | str, record: str) -> list[str]:
    records = cut(document, record)
    assert [r.error for r in records] == [None] * len(records)
    return [r.xml.decode() for r in records]


def test_records_are_slices_of_the_document() -> None:
    inside = '<i n = "1" ><!-- c --><![CDATA[<&]]>&amp;&#65; <b/>\r\n</i >'
    assert texts(f"<r>text{inside}<i/>\n<i\n/><j>{inside}</j></r>", "i") == [inside, "<i/>", "<i\n/>", inside]


def test_the_outermost_of_nested_records_counts() -> None:
    assert texts("<r><i><i>a</i><i/></i><i>b</i></r>", "i") == ["<i><i>a</i><i/></i>", "<i>b</i>"]


def test_the_root_can_be_the_record() -> None:
    assert texts("<?xml version='1.0'?><!-- c --><r><r/></r>", "r") == ["<r><r/></r>"]


def test_an_end_tag_right_behind_an_empty_record() -> None:
    assert texts("<r><i/></r>", "i") == ["<i/>"]
    assert texts("<r><i></i></r>", "i") == ["<i></i>"]


def test_quotes_and_angle_brackets_in_attributes() -> None:
    assert texts("""<r><i a="/>" b='>"'>x</i></r>""", "i") == ["""<i a="/>" b='>"'>x</i>"""]


@pytest.mark.parametrize(
    ("record", "found"),
    [("i", ["p:i", "q:i", "i"]), ("p:i", ["p:i"]), ("{urn:1}i", ["p:i"]), ("{urn:2}i", ["q:i", "i"]), ("{}i", [])],
)
def test_how_a_record_can_be_named(record: str, found: list[str]) -> None:
    document = '<r xmlns:p="urn:1" xmlns="urn:2"><p:i/><q:i xmlns:q="urn:2"/><i/></r>'
    assert [text.split()[0].strip("<") for text in texts(document, record)] == found


def test_a_record_in_no_namespace() -> None:
    assert texts('<p:r xmlns:p="urn:1"><p:i/><i/></p:r>', "{}i") == ['<i xmlns:p="urn:1"/>']


def test_namespaces_in_scope_are_declared() -> None:
    document = '<r xmlns="urn:d" xmlns:p="urn:1"><g xmlns:p="urn:2"><i xmlns:q="urn:q">&#x20;</i></g><i p:a=""/></r>'
    assert texts(document, "i") == [
        '<i xmlns="urn:d" xmlns:p="urn:2" xmlns:q="urn:q">&#x20;</i>',
        '<i xmlns="urn:d" xmlns:p="urn:1" p:a=""/>',
    ]


def test_an_undeclared_default_namespace_is_not_declared() -> None:
    assert texts('<r xmlns="urn:d"><g xmlns=""><i/></g></r>', "i") == ["<i/>"]
    assert texts('<r xmlns="urn:d"><i xmlns=""/></r>', "i") == ['<i xmlns=""/>']


def test_odd_namespace_names_are_escaped() -> None:
    (text,) = texts("<r xmlns:p='urn:&amp;&lt;&quot;\"&#10;'><p:i/></r>", "i")
    assert ET.fromstring(text).tag == '{urn:&<""\n}i'


@pytest.mark.parametrize(
    "encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "cp1252", "ascii", "gb18030"]
)
def test_encodings(encoding: str) -> None:
    name = {"utf-8-sig": "utf-8", "utf-16-le": "utf-16", "utf-16-be": "utf-16"}.get(encoding, encoding)
    word = "cafe" if encoding == "ascii" else "café"
    document = f'<?xml version="1.0" encoding="{name}"?><{word}><i>{word}</i></{word}>'.encode(encoding)
    assert texts(document, "i") == [f"<i>{word}</i>"]


@pytest.mark.parametrize("encoding", ["no-such", "utf-16", "hex", "utf-7", "utf-32"])
def test_encodings_that_do_not_fit_are_rejected(encoding: str) -> None:
    (record,) = cut(f'<?xml version="1.0" encoding="{encoding}"?><r><i/></r>', "i")
    assert isinstance(record.error, MalformedMessage)
    assert "encoding" in record.error.reason


def test_bytes_of_another_encoding_are_rejected() -> None:
    first, second = cut(b'<?xml version="1.0" encoding="ascii"?><r><i/>' + b" " * 70_000 + b"<i>\xe9</i></r>", "i")
    assert first.error is None
    assert isinstance(second.error, MalformedMessage)
    assert "ascii" in second.error.reason


def test_entities_and_defaults_travel_with_the_records_that_need_them() -> None:
    doctype = '<!DOCTYPE r [<!ENTITY e "<b>x</b>"><!ENTITY % p SYSTEM "q.ent">]>'
    plain, referring = texts(f"{doctype}<r><i>&amp;</i><i>&e;</i></r>", "i")
    assert plain == "<i>&amp;</i>"
    assert etree.fromstring(referring).findtext("b") == "x"

    (record,) = texts('<!DOCTYPE r [<!ATTLIST i a CDATA "1">]><r><i/></r>', "i")
    assert ET.fromstring(record).attrib == {"a": "1"}


def test_an_external_dtd_is_named_again() -> None:
    (record,) = texts("<!DOCTYPE r PUBLIC \"-//X\" 'x.dtd'><r><i>&e;</i></r>", "i")
    assert record == '<!DOCTYPE r PUBLIC "-//X" "x.dtd" ><i>&e;</i>'


def test_entities_are_not_expanded_while_cutting() -> None:
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 30))
    assert texts(f'<!DOCTYPE r [<!ENTITY e0 "<i/>">{bomb}]><r>&e29;<i/></r>', "i") == ["<i/>"]


def test_what_precedes_a_fault_is_delivered() -> None:
    first, second = cut("<r>\n<i>a</i>\n<i>b &</i><i>c</i></r>", "i")
    assert first == Record(b"<i>a</i>")
    assert isinstance(second.error, MalformedMessage)
    assert str(second.error).startswith("line 3, column 7")
    assert second.xml.startswith(b"<i>b &")


@pytest.mark.parametrize("document", ["", "  ", "<r>", "<r><i>", "<r><i/>", "text", "<r/><r/>", "<r>\0</r>"])
def test_documents_that_end_early_or_are_none(document: str) -> None:
    assert isinstance(cut(document, "i")[-1].error, MalformedMessage)


def test_a_record_that_is_too_large_does_not_stop_the_others() -> None:
    records = cut(f"<r><i>a</i><i>{'x' * 2_000_000}</i><i>{'y' * 600}</i><i>b</i></r>", "i", bytes_max=500)
    assert [r.xml[:4] for r in records] == [b"<i>a", b"<i>x", b"<i>y", b"<i>b"]
    for record in records[1:3]:
        assert isinstance(record.error, MessageLimitExceeded)
        assert record.error.limit == "message_bytes_max"
    assert len(records[1].xml) <= 64 << 10


@pytest.mark.parametrize("token", ["<!--{}-->", "<a b='{}'/>", "<?p {}?>"])
@pytest.mark.parametrize("around", ["<r>{}</r>", "<r><i>{}</i></r>"])
def test_markup_that_is_too_large_ends_the_cutting(token: str, around: str) -> None:
    document = around.format(token.format("x" * 3_000_000))
    (record,) = cut(document, "i", bytes_max=1_000_000)
    assert isinstance(record.error, MessageLimitExceeded)


def test_a_long_text_between_records_is_passed_over() -> None:
    assert texts(f"<r>{'text ' * 500_000}<i/></r>", "i") == ["<i/>"]


def test_deep_documents() -> None:
    assert texts("<a>" * 100_000 + "<i/>" + "</a>" * 100_000, "i") == ["<i/>"]


class Generated:
    """A document of any size that is never in memory as a whole."""

    def __init__(self, records: int, body: bytes) -> None:
        self._pieces = self._generate(records, body)
        self._rest = b""

    @staticmethod
    def _generate(records: int, body: bytes) -> Iterator[bytes]:
        yield b"<r xmlns='urn:1'>"
        for _ in range(records):
            yield body
        yield b"</r>"

    def read(self, size: int = -1, /) -> bytes:
        while len(self._rest) < size and (piece := next(self._pieces, None)):
            self._rest += piece
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


@pytest.mark.slow
def test_memory_is_bounded_by_a_record() -> None:
    body = b"<i>" + b"<x>some text</x>" * 600 + b"</i>\n"
    count = 2_000
    tracemalloc.start()
    assert sum(1 for _ in cut_records(Generated(count, body), "i", bytes_max=BYTES_MAX)) == count
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000 < count * len(body)


def trees() -> st.SearchStrategy[str]:
    names = st.sampled_from(["i", "p:i", "j", "p:j"])
    declarations = st.sampled_from(["", ' xmlns="urn:1"', ' xmlns=""', " xmlns:p='urn:2'", " p:a = '>' "])
    text = st.sampled_from(["", " ", "x", "&amp;", "<![CDATA[</i>]]>", "<!-- <i> -->", "<?i <i>?>", "é"])
    leaf = st.builds("<{0}{1}/>".format, names, declarations)
    return st.recursive(
        st.one_of(leaf, text),
        lambda inner: st.builds(
            lambda name, attributes, parts: f"<{name}{attributes}>{''.join(parts)}</{name}>",
            names,
            declarations,
            st.lists(inner, max_size=4),
        ),
        max_leaves=20,
    )


@given(trees(), st.sampled_from(["i", "p:i", "{urn:1}i", "{urn:2}i", "{}i"]))
def test_records_equal_the_elements_that_lxml_finds(tree: str, record: str) -> None:
    document = f'<root xmlns:p="urn:0">{tree}</root>'

    def is_record(element: etree._Element) -> bool:
        name = etree.QName(element)
        if record.startswith("{"):
            return record == f"{{{name.namespace or ''}}}{name.localname}"
        written = f"{element.prefix}:{name.localname}" if element.prefix else name.localname
        return record == (written if ":" in record else name.localname)

    def outermost(element: etree._Element) -> Iterator[etree._Element]:
        for child in element:
            if not isinstance(child.tag, str):
                continue
            if is_record(child):
                yield child
            else:
                yield from outermost(child)

    def canonical(element: etree._Element) -> bytes:
        alone = deepcopy(element)
        alone.tail = None
        return etree.tostring(alone, method="c14n", exclusive=True, with_comments=True)

    requested = [canonical(element) for element in outermost(etree.fromstring(document))]
    assert [canonical(etree.fromstring(text)) for text in texts(document, record)] == requested
