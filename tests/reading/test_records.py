"""Cutting records: the same elements, with the same content, that lxml finds in the whole document."""

import io
import random
import tracemalloc
from collections.abc import Iterator
from copy import deepcopy
from typing import Final
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from twigcast.errors import MalformedMessage, MessageLimitExceeded, ReadOptionError
from twigcast.reading.conversion import to_utf8
from twigcast.reading.options import ReadOptions
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


def test_entities_and_defaults_are_in_the_records_that_need_them() -> None:
    doctype = '<!DOCTYPE r [<!ENTITY e "<b>x</b>"><!ENTITY % p SYSTEM "q.ent">]>'
    assert texts(f"{doctype}<r><i>&amp;</i><i>&e;</i></r>", "i") == ["<i>&amp;</i>", "<i><b>x</b></i>"]
    assert texts('<!DOCTYPE r [<!ATTLIST i a CDATA "1">]><r><i/><i a="2"/></r>', "i") == ['<i a="1"/>', '<i a="2"/>']
    # Defaults of the elements around hold too.
    doctype = '<!DOCTYPE r [<!ATTLIST r xmlns CDATA #FIXED "urn:d">]>'
    assert texts(f"{doctype}<r><i/></r>", "{urn:d}i") == ['<i xmlns="urn:d"/>']


def test_an_entity_that_is_not_declared_rejects_its_record_alone() -> None:
    first, second, third = cut("<!DOCTYPE r PUBLIC \"-//X\" 'x.dtd'><r><i>a</i>\n<i>&e;</i><i>b</i></r>", "i")
    assert (first.xml, third.xml, first.error, third.error) == (b"<i>a</i>", b"<i>b</i>", None, None)
    assert isinstance(second.error, MalformedMessage)
    assert (second.error.line, second.error.column) == (2, 4)
    assert 'does not declare the entity "e"' in second.error.reason
    html = ReadOptions(record="i", entities="html")
    (record,) = cut_records(io.BytesIO(b"<!DOCTYPE r SYSTEM 'x'><r><i>&eacute;</i></r>"), html)
    assert record.xml.decode() == "<i>é</i>"


def test_bombs_are_rejected_by_their_limit() -> None:
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 30))
    inside, outside = "<r><i>&e29;</i><i/></r>", "<r>&e29;<i/></r>"
    records = cut(f'<!DOCTYPE r [<!ENTITY e0 "<i/>">{bomb}]>{inside}', "i")
    assert [getattr(record.error, "limit", None) for record in records] == ["entity_amplification_max", None]
    fault, record = cut(f'<!DOCTYPE r [<!ENTITY e0 "<i/>">{bomb}]>{outside}', "i")
    assert isinstance(fault.error, MessageLimitExceeded)
    assert record.error is None


def test_what_precedes_a_fault_is_delivered() -> None:
    first, second = cut("<r>\n<i>a</i>\n<i>b</j><i>c</i></r>", "i")
    assert first == Record(b"<i>a</i>", line=2, column=1, offset=4, length=8)
    assert isinstance(second.error, MalformedMessage)
    assert str(second.error).startswith("line 3, column 5")
    assert second.xml.startswith(b"<i>b</j>")
    # What is wrong inside of a record is left to whoever reads it.
    assert texts("<r><i>a &</i><i>c</i></r>", "i") == ["<i>a &</i>", "<i>c</i>"]


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


def test_depth_has_a_limit() -> None:
    assert texts("<a>" * 1_900 + "<i/>" + "</a>" * 1_900, "i") == ["<i/>"]
    for around in ("<a>{}</a>", "<a><i>{}</i></a>"):
        (record,) = cut(around.format("<b>" * 100_000 + "</b>" * 100_000), "i")
        assert isinstance(record.error, MessageLimitExceeded)
        assert record.error.limit == "depth_max"


@pytest.mark.parametrize(
    ("record", "found"),
    [
        ("/r/i", "12"),
        ("/r/a/i", "3"),
        ("a/i", "34"),
        ("b/{urn:1}i", "5"),
        ("/r/b/p:i", "5"),
        ("{urn:1}b/i", ""),
        ("i | k", "12345k"),
        ("a/i|/r/k", "34k"),
        ("/i", ""),
        ("/r/i/i", "6"),
    ],
)
def test_records_are_chosen_by_path_and_by_several_names(record: str, found: str) -> None:
    document = (
        "<r xmlns:p='urn:1'><i>1</i><i>2<i>6</i></i><a><i>3</i></a><b><p:i>5</p:i><a><i>4</i></a></b><k>k</k></r>"
    )
    values = [etree.fromstring(text).text or "" for text in texts(document, record)]
    assert sorted("".join(values)) == sorted(found)


def test_a_record_named_like_the_root() -> None:
    assert texts("<i><i><k/></i><i/></i>", "/i/i") == ["<i><k/></i>", "<i/>"]


@pytest.mark.parametrize("record", ["", "/", "a//b", "a/", "{urn:x", "{u}", "a b", "@id", "a[1]", "*", "a|", "<a>"])
def test_what_names_no_record_is_refused_with_what_to_write(record: str) -> None:
    with pytest.raises(ReadOptionError, match=r"names no element.*write name"):
        ReadOptions(record=record)


def test_language_space_and_base_go_with_a_record() -> None:
    document = (
        "<r xml:lang='de' xml:base='http://h/a/b'><g xml:base='../c/' xml:space='preserve'><i/>"
        "<i xml:lang='en' xml:base='x'/></g><i xml:lang=''/></r>"
    )
    assert texts(document, "i") == [
        "<i xml:lang='de' xml:base=\"http://h/c/\" xml:space='preserve'/>",
        "<i xml:space='preserve' xml:lang='en' xml:base=\"http://h/c/x\"/>",
        "<i xml:base='http://h/a/b' xml:lang=''/>",
    ]


@pytest.mark.parametrize(
    ("inherit", "document", "expected"),
    [
        (("until",), "<r until='1'><i/><g until='2'><i/></g><i until='3'/></r>", ["1", "2", "3"]),
        (("a",), "<r><a>A</a><i/><i><a>own</a></i><i><b/></i></r>", ["A", "own", "A"]),
        (("a",), "<r xmlns:p='u'><p:a p:k=''>A</p:a><g><a>B</a><i/></g><i/></r>", ["B", "A"]),
        (("a",), "<r><a>A</a><a>A2</a><g><i/></g></r>", ["AA2"]),
        (("d",), "<r><c><i/></c><d k='1'><i>x</i></d></r>", ["", "x"]),
    ],
)
def test_what_stands_around_a_record_is_inherited_on_request(
    inherit: tuple[str, ...], document: str, expected: list[str]
) -> None:
    records = list(cut_records(io.BytesIO(document.encode()), ReadOptions(record="i", inherit=inherit)))
    assert [record.error for record in records] == [None] * len(expected)
    trees = [etree.fromstring(record.xml) for record in records]
    assert ["".join(tree.itertext()) or tree.get("until", "") for tree in trees] == expected
    if inherit == ("d",):
        assert [record.xml for record in records] == [b"<i/>", b"<d k='1'><i>x</i></d>"]


@pytest.mark.parametrize(
    ("path", "ids"),
    [
        ("guid", ["a b", None, "x"]),
        ("h/id", [None, "7", None]),
        ("@n", ["1", None, None]),
        ("h/@k", [None, "K", None]),
        ("p:guid", [None, None, "x"]),
    ],
)
def test_records_give_themselves_ids(path: str, ids: list[str | None]) -> None:
    document = (
        b"<r xmlns:p='u'><i n='1'><guid> a <!-- c -->b </guid></i><i><h k='K'><id>7</id></h></i>"
        b"<i><p:guid>&#120;</p:guid></i></r>"
    )
    records = cut_records(io.BytesIO(document), ReadOptions(record="i", record_id=path))
    assert [record.id for record in records] == ids
    with pytest.raises(ReadOptionError, match="is no path to an id"):
        ReadOptions(record="i", record_id="a/@b/c")


DOCUMENTS: Final = [
    b"<?xml version='1.0'?>\n<r><p/></r>",
    b"<r><p>1</p>\n</r>",
    b"<!DOCTYPE r [<!ENTITY e 'E'>]><r><p>&e;</p></r><!-- c -->",
    b"\xef\xbb\xbf<s xmlns='u'/>",
]


@pytest.mark.parametrize("separator", [b"", b"\n", b"\r\n \n"])
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_documents_one_after_the_other(separator: bytes, size: int) -> None:
    data = separator.join(DOCUMENTS) + separator
    whole = list(cut_records(Dribble(data, size), ReadOptions(documents=True)))
    assert [record.error for record in whole] == [None] * 4
    assert [record.xml for record in whole] == [
        b"<r><p/></r>",
        b"<r><p>1</p>\n</r>",
        b"<r><p>E</p></r>",
        b"<s xmlns='u'/>",
    ]
    parts = list(cut_records(Dribble(data, size), ReadOptions(record="p", documents=True)))
    assert [record.xml for record in parts] == [b"<p/>", b"<p>1</p>", b"<p>E</p>"]
    (last,) = [record.error for record in cut(data, "s") if record.error]
    assert "read them with --documents" in last.reason


@pytest.mark.parametrize("size", [1, 5, 1_000])
def test_a_broken_document_does_not_keep_the_next_from_being_read(size: int) -> None:
    data = b"<r>1</r>\n<r>\n<p></r>\n<r>2</r>\n<r>3</s><r>4</r>\n<?xml version='1.0'?><s>5</s>\n<r>6"
    records = list(cut_records(Dribble(data, size), ReadOptions(documents=True)))
    assert [record.xml for record in records if record.error is None] == [b"<r>1</r>", b"<r>2</r>", b"<s>5</s>"]
    errors = [(record.error.line, record.error.column) for record in records if record.error]
    assert errors == [(3, 4), (5, 5), (7, 5)]
    assert "cut short" in (records[-1].error.reason if records[-1].error else "")


def test_documents_arrive_as_soon_as_they_end() -> None:
    """A sender may wait for the answer to one document before it sends the next."""

    class Sender(io.RawIOBase):
        def __init__(self) -> None:
            self.sent = 0

        def read1(self, _size: int = -1) -> bytes:
            self.sent += 1
            return b"<r>%d</r>\n" % self.sent if self.sent <= 3 else b""

    sender = Sender()
    for number, record in enumerate(cut_records(sender, ReadOptions(documents=True)), start=1):
        assert record.xml == b"<r>%d</r>" % number
        assert sender.sent <= number + 1
    assert sender.sent > 3


def test_places_are_those_of_the_document() -> None:
    data = b"<r>\r\n <i/>\r<i/>\n\xc3\xa9<i>\n</i></r>"
    for size in (1, 2, 3, 1_000):
        places = [(record.line, record.column) for record in cut_records(Dribble(data, size), "i")]
        assert places == [(2, 2), (3, 1), (4, 2)], size


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


FAULTS_OF_RECORDS: Final = (
    '<i a="a & b"/>', '<i a="&nope;"/>', '<i a="1" a="2"/>', "<i a=1/>", '<i a="<"/>', '<i a="\x01"/>', "<p:i/>",
    "<i p:a=''>x</i>", "<i a=1>x</i>", "<i>a < b</i>", "<i>1<2</i>", "<i><!x></i>", "<i><![x[ ]]></i>", "<i><1/></i>",
)  # fmt: skip
FAULTS_BETWEEN: Final = (
    "<z>\x01</z>", "&nope;", "a & b", "a < b", "1 < 2 < 3 &c", "]]>", "<!x>", "x<?xml ?>", "<!-- -- -->", "<z a=1/>",
    "<z a='1' a='2'><y/></z>", "<p:z>x</p:z>", "<z a='<'/>", "<z a='&nope;'/>", "<1/>", "\ufffe &nope;",
)  # fmt: skip
OPTIONS_OF_FAULTS: Final = (
    ReadOptions(record="i"),
    ReadOptions(record="/r/i"),
    ReadOptions(record="{}i"),
    ReadOptions(record="i", inherit=("z", "@a")),
    ReadOptions(record="i", documents=True),
    ReadOptions(record="i", entities="html"),
)


def is_well_formed(xml: bytes) -> bool:
    try:
        etree.fromstring(xml)
    except etree.XMLSyntaxError:
        return False
    return True


@pytest.mark.parametrize("options", OPTIONS_OF_FAULTS)
@pytest.mark.parametrize("fault", [*FAULTS_OF_RECORDS, "<i a='\udcff'/>"])
def test_a_fault_in_a_record_costs_that_record_alone(fault: str, options: ReadOptions) -> None:
    """Whatever is wrong with it, but for a missing tag: also in its own start tag."""
    data = f"<r>\n<i>1</i>\n{fault}\n<i>9</i></r>".encode("utf-8", "surrogateescape")
    for size in (1, 7, 1_000):
        records = list(cut_records(Dribble(data, size), options))
        assert [record.line for record in records] == [2, 3, 4]
        first, broken, last = records
        assert (first.error, last.error) == (None, None)
        assert [first.xml, last.xml] == [b"<i>1</i>", b"<i>9</i>"]
        assert broken.error is not None or not is_well_formed(broken.xml)


@pytest.mark.parametrize("options", OPTIONS_OF_FAULTS)
@pytest.mark.parametrize("fault", [*FAULTS_BETWEEN, "<z>\udcff</z>"])
def test_a_fault_between_records_is_told_once_and_costs_no_record(fault: str, options: ReadOptions) -> None:
    data = f"<r>\n<i>1</i>\n{fault}\n<i>9</i></r>".encode("utf-8", "surrogateescape")
    expected = None
    for size in (1, 7, 1_000):
        first, told, last = cut_records(Dribble(data, size), options)
        assert (first.error, last.error) == (None, None)
        assert [first.xml, last.xml] == [b"<i>1</i>", b"<i>9</i>"]
        assert isinstance(told.error, MalformedMessage)
        assert told.error.line == 3
        found = (str(told.error), told.line, told.column, told.offset)
        assert found == (expected or found), size
        expected = found


def test_what_a_broken_start_tag_says_holds_as_far_as_it_can_be_read() -> None:
    data = b"<r xmlns='u' a=1 xml:lang='de' b='&nope;' v='V' a='2' p:c=''><i/></r>"
    fault, record = cut_records(io.BytesIO(data), ReadOptions(record="{u}i", inherit=("v", "b")))
    assert "is not quoted" in str(fault.error)
    assert record.xml == b"<i xmlns='u' xml:lang='de' v='V'/>"


@pytest.mark.parametrize("size", [1, 5, 1_000])
@pytest.mark.parametrize(
    ("data", "read", "rejected"),
    [
        ("<a/>\n<b>2</c>\n<c/>\n", ["<a/>", "<c/>"], [2]),
        ("<a/>\n<b>2</c>\r\n\ufeff<c/>\n", ["<a/>", "<c/>"], [2]),
        ("junk\n  at line 7\n<c/>\n", ["<c/>"], [1]),
        ("<b>2\n<?xml version='1.0'?><c/>", ["<c/>"], [2]),
        ("<b>2\n<!DOCTYPE c><c/>\n<d/>", ["<c/>", "<d/>"], [2]),
        ("<b>\n<x>2</y>\n<x/>\n</b>\n<c/>\n<d/>", ["<c/>", "<d/>"], [2]),
        ("<b>\n<x></b>\n<c/>", ["<c/>"], [2]),
        ("<a/><d/>\n<b>\n<x>2</y>\n<z/>\n<a>3</a>\n<c/>", ["<a/>", "<d/>", "<a>3</a>", "<c/>"], [3]),
        # In a comment, nothing begins a document.
        ("<b><!--\n<?xml x?>\n--></b>\n<c/>", ["<b><!--\n<?xml x?>\n--></b>", "<c/>"], []),
        ("<b>\n<?xml-x y?></b>\n<c/>", ["<b>\n<?xml-x y?></b>", "<c/>"], []),
    ],
)  # fmt: skip
def test_reading_goes_on_at_the_next_document(data: str, read: list[str], rejected: list[int], size: int) -> None:
    records = list(cut_records(Dribble(data.encode(), size), ReadOptions(documents=True)))
    assert [record.xml.decode().removeprefix("\ufeff") for record in records if record.error is None] == read
    assert [record.error.line for record in records if isinstance(record.error, MalformedMessage)] == rejected


ENCODINGS: Final = (
    "utf-8", "ISO-8859-1", "windows-1252", "ISO-8859-15", "Shift_JIS", "GB18030", "EUC-KR", "Big5", "KOI8-R",
    "", "utf-16-le", "utf-16-be", "johab",
)  # fmt: skip
LETTERS: Final = ("ü", "€", "¤", "日本", "鎔", "한글", "ж", "é\u0301", "a", "ソ表", ">]")


def encoded(chance: random.Random, letter: str) -> tuple[bytes, str]:
    """Returns a document in some encoding that has the letters, with its text."""
    while True:
        encoding = chance.choice(ENCODINGS)
        declared = "utf-16" if encoding.startswith("utf-16") else encoding
        declaration = f"<?xml version='1.0' encoding='{declared}'?>" if encoding else ""
        text = letter.replace(">]", "&gt;]") * chance.choice([1, 3, 2_000])
        document = f"{declaration}<d>{text}<e/>{text}</d>"
        try:
            return document.encode(encoding or "utf-8"), f"<d>{text}<e/>{text}</d>"
        except UnicodeEncodeError:
            continue


@pytest.mark.parametrize("seed", range(60))
def test_each_document_is_decoded_as_it_declares_itself(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    documents = [encoded(chance, chance.choice(LETTERS)) for _ in range(8)]
    data = b"".join(document for document, _ in documents)
    for separator in (b"", b"\n"):
        # With a line end before it, big-endian UTF-16 begins as little-endian does with one.
        if separator and any(document.startswith(b"\0") for document, _ in documents):
            continue
        data = separator.join(document for document, _ in documents)
        for size in (3, 64, 100_000):
            records = list(cut_records(Dribble(data, size), ReadOptions(documents=True)))
            assert [record.error for record in records] == [None] * len(documents)
            assert [record.xml.decode() for record in records] == [text for _, text in documents]


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_documents_that_cannot_be_decoded_are_rejected_alone(size: int) -> None:
    data = (
        b"<?xml version='1.0' encoding='ascii'?><a>\xfc</a>\n<b>\xc3\xbc</b>\n"
        b"<?xml version='1.0' encoding='no-such'?><c>\xfc</c>\n<?xml version='1.0' encoding='Big5'?><d>\xff\xff</d>\n"
        b"<?xml version='1.0' encoding='ISO-8859-1'?><e>\xfc</e><f>\xc3\xbc</f>\n<g>\xfc</g>"
    )
    records = list(cut_records(Dribble(data, size), ReadOptions(documents=True)))
    usable = {index: record.xml.decode("utf-8", "replace") for index, record in enumerate(records) if not record.error}
    # Who reads the first and the last one rejects them.
    assert {index: xml for index, xml in usable.items() if "\ufffd" not in xml} == {
        1: "<b>ü</b>", 4: "<e>ü</e>", 5: "<f>ü</f>",
    }  # fmt: skip
    assert len(records) == 7
    assert "'no-such' is unknown" in str(records[2].error)
    assert "not big5" in str(records[3].error)


@pytest.mark.parametrize(
    "document",
    [
        b"\xef\xbb\xbf<?xml version='1.0' encoding='ISO-8859-1'?><r><i/></r>",
        "\ufeff<?xml version='1.0' encoding='utf-8'?><r><i/></r>".encode("utf-16-le"),
        "<?xml version='1.0' encoding='ISO-8859-1'?><r><i/></r>".encode("utf-16-be"),
    ],
)
def test_a_mark_that_contradicts_the_declaration_is_an_error_for_records_as_for_messages(document: bytes) -> None:
    with pytest.raises(MalformedMessage) as whole:
        to_utf8(document)
    for options in (ReadOptions(record="i"), ReadOptions(documents=True)):
        (record,) = cut_records(io.BytesIO(document), options)
        assert isinstance(record.error, MalformedMessage)
        assert record.error.reason == whole.value.reason


@pytest.mark.parametrize(
    ("inherit", "values"),
    [
        ("v", ["1", None, None]),
        ("{urn:b}v", [None, "2", "3"]),
        ("z:v", [None, "2", None]),
        ("@v", ["1", None, None]),
        ("{}v", ["1", None, None]),
    ],
)
def test_what_records_inherit_is_named_with_its_namespace(inherit: str, values: list[str | None]) -> None:
    data = (
        b"<r xmlns:z='urn:b' xmlns:y='urn:b'><v>no</v><g v='1'><i/></g><g z:v='2'><i/></g><y:g y:v='3'><i/></y:g></r>"
    )
    inherited: set[str] = set()
    options = ReadOptions(record="i", inherit=(inherit,))
    records = [etree.fromstring(record.xml) for record in cut_records(io.BytesIO(data), options, inherited=inherited)]
    found = [
        next((value for name, value in record.attrib.items() if str(name).endswith("v")), None) for record in records
    ]
    assert found == values
    assert inherited == {inherit}
    list(cut_records(io.BytesIO(data), ReadOptions(record="i", inherit=("w", "@g")), inherited=inherited))
    assert inherited == {inherit}


def test_the_nearest_of_what_stands_before_a_record_is_inherited() -> None:
    data = b"<r><s>A</s><i/><i/><s>B</s><s>C</s><i/><g><i/><s>D</s><i/></g><i/></r>"
    records = cut_records(io.BytesIO(data), ReadOptions(record="i", inherit=("s",)))
    assert ["".join(etree.fromstring(record.xml).itertext()) for record in records] == ["A", "A", "BC", "BC", "D", "BC"]


def test_bases_of_what_is_inherited_are_resolved() -> None:
    data = b"<r xml:base='http://x/y/'><s xml:base='s/'/><g xml:base='z/'><i/></g></r>"
    (record,) = cut_records(io.BytesIO(data), ReadOptions(record="i", inherit=("g", "s")))
    group = etree.fromstring(record.xml)
    bases = {element.tag: element.base for element in group.iter()}
    assert bases == {"g": "http://x/y/z/", "i": "http://x/y/z/", "s": "http://x/y/s/"}


@pytest.mark.parametrize(("path", "ids"), [("{u}id", ["1", "2"]), ("@{u}k", [None, "3"]), ("{}id", [None, None])])
def test_ids_are_named_with_their_namespace(path: str, ids: list[str | None]) -> None:
    data = b"<r xmlns:a='u'><i><a:id>1</a:id></i><i xmlns:b='u' b:k='3'><id xmlns='u'>2</id></i></r>"
    records = cut_records(io.BytesIO(data), ReadOptions(record="i", record_id=path))
    assert [record.id for record in records] == ids


@pytest.mark.parametrize("option", ["record", "inherit", "record_id"])
def test_an_error_names_the_option_that_is_wrong(option: str) -> None:
    value: object = ("a b",) if option == "inherit" else "a b"
    with pytest.raises(ReadOptionError) as refused:
        ReadOptions(**{"record": "i", option: value})  # type: ignore[arg-type]
    assert refused.value.option == option


def test_records_are_chosen_by_spellings_of_xpath() -> None:
    document = "<r><i>1</i><g><i>2</i></g><k/></r>"
    assert texts(document, "//i") == ["<i>1</i>", "<i>2</i>"]
    assert texts(document, "/r/*") == ["<i>1</i>", "<g><i>2</i></g>", "<k/>"]
    assert texts(document, "*/i|k") == ["<i>1</i>", "<i>2</i>", "<k/>"]


@pytest.mark.parametrize("start", ["", "\ufeff"], ids=["plain", "marked"])
@pytest.mark.parametrize("inside", ["\ufeff", "x\ufeff", "\n\ufeff"], ids=["first", "later", "next line"])
def test_a_mark_inside_a_document_is_a_character_of_its_line(start: str, inside: str) -> None:
    document = f"{start}<r>{inside}<i>1</i><i a></i><i>2</i></r>".encode()
    whole = list(cut_records(io.BytesIO(document), "i", bytes_max=BYTES_MAX))
    for size in (5, 8, 9, 10, 64):
        assert list(cut_records(Dribble(document, size), "i", bytes_max=BYTES_MAX)) == whole, f"pieces of {size} bytes"
    before = f"<r>{inside}<i>1</i>".rpartition("\n")[2]
    assert [(one.line, one.column) for one in whole][1] == (1 + inside.count("\n"), len(before) + 1)


@pytest.mark.parametrize("tag", ["</>", "</ >", "</a>"])
def test_an_end_tag_outside_of_all_elements_is_a_fault_of_its_document(tag: str) -> None:
    data = f"<a>1</a>\n{tag}<b/>\n<a>2</a>\n{tag}".encode()
    for stream in (io.BytesIO(data), Dribble(data, 12)):
        records = list(cut_records(stream, ReadOptions(documents=True)))
        assert [one.xml.decode() for one in records if one.error is None] == ["<a>1</a>", "<a>2</a>"]
        assert [(one.error.line, one.error.column) for one in records if one.error is not None] == [(2, 1), (4, 1)]
