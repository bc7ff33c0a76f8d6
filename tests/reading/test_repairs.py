"""Repairs: what is wrong often becomes right, is counted, and what is right stays as it is."""

import io
import random
from pathlib import Path

import pytest
from lxml import etree

from twigcast.reading.messages import Message, read_messages
from twigcast.reading.options import ReadOptions
from twigcast.reading.records import cut_records
from twigcast.reading.repair_counts import RepairCounts
from twigcast.reading.repairs import RepairingStream, repaired

SEED = 20_240_917


def repair(data: bytes) -> tuple[bytes, dict[str, int]]:
    counts = RepairCounts()
    return repaired(data, counts), dict(counts.by_kind)


@pytest.mark.parametrize(
    ("message", "result", "kind", "count"),
    [
        (b"\n <?xml version='1.0'?><a/>", b"<?xml version='1.0'?><a/>", "white space before the XML declaration", 1),
        (b"<a b='&nbsp;'>&eacute;&amp;</a>", b"<a b='&#160;'>&#233;&amp;</a>", "references to entities of HTML", 2),
        (b"<a>x\x0by&#11;&#x1F;&#10;</a>", b"<a>x y  &#10;</a>", "control characters", 3),
        (b"<a>\x93x\x94 \x81\xc3\xa9</a>", "<a>\u201cx\u201d \x81\xe9</a>".encode(), "bytes of Windows-1252", 3),
    ],
)
def test_each_kind_is_repaired_and_counted(message: bytes, result: bytes, kind: str, count: int) -> None:
    assert repair(message) == (result, {kind: count})
    etree.fromstring(result)


@pytest.mark.parametrize(
    "message",
    [
        b"<?xml version='1.0' encoding='iso-8859-1'?><a>\xe9</a>",
        b"<a><![CDATA[&nbsp;]]><!-- &nbsp; --><?p &nbsp;?>&lt;&#65;</a>",
        b"<!DOCTYPE a [<!ENTITY nbsp 'mine'>]><a>&nbsp;</a>",
        "<a>\xe9</a>".encode("utf-16"),
        "<a>\xe9</a>".encode("utf-16-be"),
        b"<a>&nosuch;</a>",
        b" \n<a/>",
    ],
)
def test_what_is_right_or_wrong_otherwise_stays(message: bytes) -> None:
    assert repair(message) == (message, {})


def test_streams_are_repaired_as_whole_messages_are() -> None:
    pieces = [
        b"<i>",
        b"</i>",
        b"&nbsp;",
        b"<![CDATA[&nbsp;>]]>",
        b"<!-- > &nbsp; -->",
        b"\x93",
        b"\x0b",
        b"text",
        b"&amp;",
    ]
    print(f"seed {SEED}")
    for number in range(300):
        randomness = random.Random(SEED + number)
        data = b"\n<?xml version='1.0'?><r>" + b"".join(randomness.choices(pieces, k=30)) + b"</r>"
        size = randomness.randint(1, 40)
        counts = RepairCounts()
        stream = RepairingStream(io.BytesIO(data), counts)
        read = b"".join(iter(lambda: stream.read(size), b""))  # noqa: B023 - used up within the round
        assert (read, dict(counts.by_kind)) == repair(data), number


def test_repairs_are_made_on_request_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(b"\n<?xml version='1.0'?><r><i>&nbsp;</i><i>\x93</i></r>")
    (strict,) = read_messages([path])
    assert strict.xml == path.read_bytes()
    counts = RepairCounts()
    (message,) = read_messages([path], ReadOptions(tolerant=True), repairs=counts)
    assert isinstance(message, Message)
    assert str(counts) == (
        "white space before the XML declaration: 1, bytes of Windows-1252: 1, references to entities of HTML: 1"
    )
    items = list(read_messages([path], ReadOptions(record="i", tolerant=True)))
    assert [item.xml.decode() for item in items] == ["<i>&#160;</i>", "<i>\u201c</i>"]
    assert [record.error is None for record in cut_records(io.BytesIO(path.read_bytes()), "i")] == [False]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf16_is_repaired_too(tmp_path: Path, encoding: str) -> None:
    text = "\n<?xml version='1.0' encoding='utf-16'?><r><i>\xe9&nbsp;</i><i>\x0b</i></r>"
    expected = {
        "white space before the XML declaration": 1,
        "references to entities of HTML": 1,
        "control characters": 1,
    }
    result, counts = repair(text.encode(encoding))
    assert counts == expected
    assert etree.fromstring(result)[0].text == "\xe9\xa0"
    for size in (1, 3, 1_000):
        repairs = RepairCounts()
        stream = RepairingStream(io.BytesIO(text.encode(encoding)), repairs)
        pieces = io.BytesIO(b"".join(iter(lambda: stream.read(size), b"")))  # noqa: B023 - used up within the round
        records = list(cut_records(pieces, ReadOptions(record="i")))
        assert [record.xml.decode() for record in records] == ["<i>\xe9&#160;</i>", "<i> </i>"]
        assert dict(repairs.by_kind) == expected
    broken = b"\xff\xfe" + "<a>&nbsp;".encode("utf-16-le") + b"\x00\xd8" + "</a>".encode("utf-16-le")
    assert repair(broken) == (broken, {})
    (record,) = cut_records(RepairingStream(io.BytesIO(broken), RepairCounts()), ReadOptions(documents=True))
    with pytest.raises(etree.XMLSyntaxError):
        etree.fromstring(record.xml)


def test_what_a_dtd_declares_is_no_entity_of_html(tmp_path: Path) -> None:
    (tmp_path / "a.dtd").write_text('<!ENTITY copy "from DTD">')
    (tmp_path / "a.xml").write_bytes(b"<r><i>&copy;</i><i>&reg;</i></r>")
    options = ReadOptions(tolerant=True, dtd=str(tmp_path / "a.dtd"))
    counts = RepairCounts()
    (message,) = read_messages([tmp_path / "a.xml"], options, repairs=counts)
    assert etree.fromstring(message.xml).xpath("string()") == "from DTD\xae"
    assert counts.total == 1
    records = read_messages([tmp_path / "a.xml"], ReadOptions(record="i", tolerant=True, dtd=options.dtd))
    assert [etree.fromstring(record.xml).text for record in records] == ["from DTD", "\xae"]


def test_declarations_count_in_streams_wherever_they_arrive() -> None:
    data = b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY nbsp 'mine'>]><a>&nbsp;</a>"
    for size in (1, 7, 30, 1_000):
        counts = RepairCounts()
        stream = RepairingStream(io.BytesIO(data), counts)
        assert b"".join(iter(lambda: stream.read(size), b"")) == data  # noqa: B023 - used up within the round
        assert not counts


@pytest.mark.parametrize("size", [1, 40, 1_000])
def test_documents_in_other_encodings_are_not_repaired_as_utf8(size: int) -> None:
    data = (
        b"<?xml version='1.0' encoding='UTF-8'?><a>\x93</a>\n"
        b"<?xml version='1.0' encoding='ISO-8859-1'?><b><![CDATA[<?xml version='1.0'?>]]>\xfc</b>\n"
        b"<?xml version='1.0' encoding='UTF-8'?><c>\xfc</c>"
    )

    class Pieces(io.RawIOBase):
        def __init__(self) -> None:
            self._stream = io.BytesIO(data)

        def read(self, _size: int = -1, /) -> bytes:
            return self._stream.read(size)

    records = cut_records(RepairingStream(Pieces(), RepairCounts()), ReadOptions(documents=True))
    assert [etree.fromstring(record.xml).text for record in records] == ["\u201c", "<?xml version='1.0'?>\xfc", "\xfc"]
