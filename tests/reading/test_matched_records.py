"""Records matched while they are cut: as each of them matched by itself, and as lxml finds them."""

import gzip
import io
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml import etree

from twigcast import SubscriptionSet
from twigcast.engine.records import RecordMatch
from twigcast.errors import RejectedMessage, SourceError
from twigcast.limits import Limits
from twigcast.reading.options import ReadOptions
from twigcast.reading.records import cut_records, located

SEED = 90_125
STARTS = (
    "<r>",
    "<r xmlns:p='u' xml:lang='en'>",
    "<?xml version='1.0'?>\n<r xmlns='d'>",
    "<!DOCTYPE r [<!ENTITY e 'x'><!ATTLIST i k CDATA 'v'>]><r>",
    "<!DOCTYPE r [<!ENTITY e '<k>x</k>'>]><r>",
)
PIECES = (
    "<i>1</i>",
    "<i k='v'/>",
    "<i><k>x</k></i\n>",
    "<i><![CDATA[</i>]]>x</i>",
    "<i><!-- </i> -->x</i>",
    "<i><?p </i>?></i>",
    "<i><i>2</i>3</i>",
    "<i>4<j>5</j></i>",
    "<ii>6</ii>",
    "<i k='>'>7</i>",
    "<i>&e;</i>",
    "<p:i>8</p:i>",
    "<g><i>9</i></g>",
    "<i>\xe9\u4e00</i>",
    "text &amp;\r\n",
    "<!-- <i>no</i> -->",
)
FAULTS = (
    "<i><k></i>",
    "<i k=1/>",
    "<i>&no;</i>",
    "<i>\x01</i>",
    "</g>",
    "<i k='1' k='2'/>",
    "<i>",
    "&no;",
    "<x a=1>",
    "a < b",
)
QUERIES = {
    "one": "/*[. = '1']",
    "k": "/*[@k = 'v']",
    "has": "//k",
    "lang": "/*[lang('en')]",
    "deep": "//j",
    "any": "/*",
    "text": "/*[contains(., 'x')]",
}


class Dribble(io.RawIOBase):
    """A stream that brings a few bytes a read."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data, self._size, self._at = data, size, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        start, self._at = self._at, self._at + self._size
        return self._data[start : self._at]


def documents(count: int, *, faulty: bool) -> Iterator[str]:
    print("seed", SEED)
    randomness = random.Random(SEED)
    for _ in range(count):
        start = randomness.choice(STARTS)
        pieces = [randomness.choice(PIECES) for _ in range(randomness.randrange(12))]
        if not start.startswith("<!DOCTYPE"):
            pieces = [piece for piece in pieces if piece != "<i>&e;</i>"]
        if "xmlns:p" not in start:
            pieces = [piece for piece in pieces if "p:i" not in piece]
        if faulty:
            pieces.insert(randomness.randrange(len(pieces) + 1), randomness.choice(FAULTS))
        yield f"{start}{''.join(pieces)}</r>"


def one_by_one(subscriptions: SubscriptionSet, data: bytes, options: ReadOptions) -> list[tuple[int, list[str], str]]:
    """Returns number, keys and error of each record that matches or is wrong, each matched by itself."""
    answers = []
    for number, record in enumerate(cut_records(io.BytesIO(data), options), start=1):
        keys: list[str] = []
        error = record.error
        if error is None:
            try:
                keys = subscriptions.match(record.xml).keys
            except RejectedMessage as rejection:
                error = located(rejection, record.line, record.column, record.added)
        if keys or error is not None:
            answers.append((number, keys, "" if error is None else str(error)))
    return answers


def plain(found: list[RecordMatch]) -> list[tuple[int, list[str], str]]:
    return [(one.number, one.keys, "" if one.error is None else str(one.error)) for one in found]


@pytest.mark.parametrize("faulty", [False, True])
@pytest.mark.parametrize("record", ["i", "/r/i", "p:i|i", "{u}i", "g/i"])
def test_in_one_pass_as_one_by_one(record: str, faulty: bool) -> None:
    subscriptions = SubscriptionSet(QUERIES)
    options = ReadOptions(record=record)
    for document in documents(120, faulty=faulty):
        data = document.encode()
        expected = one_by_one(subscriptions, data, options)
        for stream in (io.BytesIO(data), Dribble(data, 7), Dribble(data, 61)):
            answers = subscriptions.match_records(stream, options)
            assert plain(list(answers)) == expected, document


def test_lxml_finds_the_same_records() -> None:
    subscriptions = SubscriptionSet(QUERIES)
    for document in documents(200, faulty=False):
        root = etree.fromstring(document.encode(), etree.XMLParser(load_dtd=False, resolve_entities=True))
        outermost = root.xpath("//*[local-name() = 'i'][not(ancestor::*[local-name() = 'i'])]")
        answers = subscriptions.match_records(io.BytesIO(document.encode()), "i")
        matching = {one.number: one.keys for one in answers}
        assert answers.count == len(outermost), document
        assert sorted(matching) == list(range(1, len(outermost) + 1))  # each is matched by /*
        for number, element in enumerate(outermost, start=1):
            text = str(element.xpath("string()"))
            assert ("one" in matching[number]) == (text == "1")
            assert ("k" in matching[number]) == (element.get("k") == "v")
            assert ("lang" in matching[number]) == bool(element.xpath("lang('en')"))


def test_documents_after_each_other_and_sizes_over_the_limit() -> None:
    documents_ = b"<a><i>1</i></a>\n<a><i></a>\n<a><i>1</i></a>"
    subscriptions = SubscriptionSet(QUERIES)
    for options in (ReadOptions(documents=True), ReadOptions(record="i", documents=True)):
        expected = one_by_one(subscriptions, documents_, options)
        assert plain(list(subscriptions.match_records(Dribble(documents_, 5), options))) == expected
    small = SubscriptionSet(QUERIES, limits=Limits(message_bytes_max=100))
    data = b"<r><i>1</i><i>" + b"x" * 200 + b"</i><i>1</i></r>"
    for size in (9, 1000):
        first, middle, last = small.match_records(Dribble(data, size), "i")
        assert (first.keys, last.keys) == (["one", "any"], ["one", "any"])
        assert "larger than 100 bytes" in str(middle.error)


def test_records_are_counted_and_named(tmp_path: Path) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(b"<r><i><g>a</g></i><i><g>b</g>1</i><i/></r>")
    subscriptions = SubscriptionSet({"b": "/i[contains(., 'b')]"})
    answers = subscriptions.match_records(path, "i")
    assert [(one.number, one.keys) for one in answers] == [(2, ["b"])]
    assert answers.count == 3
    named = subscriptions.match_records(path, ReadOptions(record="i", record_id="g"))
    assert [(one.number, one.keys, one.id) for one in named] == [(1, [], "a"), (2, ["b"], "b")]
    with pytest.raises(SourceError, match="No such file"):
        list(subscriptions.match_records(tmp_path / "none.xml", "i"))
    with pytest.raises(TypeError, match="options must be str or ReadOptions"):
        subscriptions.match_records(path, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("around", ["<r>", "<r xmlns='u' xml:lang='en'>"])
def test_records_keep_their_id_attributes_until_they_are_delivered(around: str) -> None:
    types = "<!DOCTYPE r [<!ATTLIST i k ID #IMPLIED><!ATTLIST j k ID #IMPLIED n ID #IMPLIED>]>"
    data = f"{types}{around}<i k='x'>1</i><i><j n=' y '/></i><i>2</i></r>".encode()
    subscriptions = SubscriptionSet({"x": "id('x')", "y": "id('y')/.."})
    found = [(one.number, one.keys) for one in subscriptions.match_records(io.BytesIO(data), "i")]
    assert found == [(1, ["x"]), (2, ["y"])]
    first, second, third = cut_records(io.BytesIO(data), "i")
    assert third.xml.startswith(b"<i")
    for record in (first, second):
        [delivery] = subscriptions.deliver(record.xml)
        assert delivery.payload.startswith(b"<i")


@pytest.mark.parametrize("start", STARTS[:3])
@pytest.mark.parametrize("fault", ["&no;", "\x01", "<b c=1/>", "]]>"])
def test_errors_are_where_the_document_has_them(start: str, fault: str) -> None:
    for lines in ("", "\n", "\r\n "):
        before = f"{start}<i>1</i>{lines}<x>\xe9</x> <i k='1'>{lines}\u4e00"
        data = f"{before}{fault}</i></r>".encode()
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        if fault.startswith("<b"):
            column += len("<b c=")
        [(_, _, error)] = plain([one for one in SubscriptionSet().match_records(io.BytesIO(data), "i") if one.error])
        assert error.startswith(f"line {line}, column {column}: "), (data, error)
        assert one_by_one(SubscriptionSet(), data, ReadOptions(record="i")) == [(2, [], error)]


def test_sets_that_repair_and_know_entities_do_so_in_records() -> None:
    subscriptions = SubscriptionSet({"k": "/i[. = '\xfc']"}, entities="html", tolerant=True)
    data = b"\n<?xml version='1.0'?><r><i>&uuml;</i><i>\xfc</i></r>"
    assert [one.number for one in subscriptions.match_records(io.BytesIO(data), "i")] == [1, 2]
    assert subscriptions.repairs["bytes of Windows-1252"] == 1


@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_a_broken_record_whose_end_is_beyond_doubt_keeps_no_other_from_being_read(size: int) -> None:
    data = b"<r>\n<i>1<k></i>\n<i>1</i><i/><i><k a=1/></i><i>1</i></r>"
    [first, *rest] = SubscriptionSet(QUERIES).match_records(Dribble(data, size), "i")
    assert str(first.error).startswith("line 2, column 8: ")
    assert [(one.number, one.keys, one.error is None) for one in rest] == [
        (2, ["one", "any"], True),
        (3, ["any"], True),
        (4, [], False),
        (5, ["one", "any"], True),
    ]
    assert [record.error for record in cut_records(Dribble(data, size), "i")] == [None] * 5


@pytest.mark.parametrize("doubt", ["<!-- -->", "<?p?>", "<![CDATA[]]>", "<i>", "<i a=''>"])
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_where_a_broken_record_may_end_elsewhere_the_reading_ends(doubt: str, size: int) -> None:
    data = f"<r><i>1</i><i>{doubt}<k></i><i>1</i></r>".encode()
    first, last = cut_records(Dribble(data, size), "i")
    assert (first.xml, first.error) == (b"<i>1</i>", None)
    assert "does not match the start tag" in str(last.error)


@pytest.mark.parametrize("size", [1, 61, 100_000])
def test_records_of_names_that_begin_alike_and_of_any_size(size: int) -> None:
    body = "<ii><i2/></ii><i-j>x</i-j>"
    count = 3 if size == 1 else 3_000
    data = f"<r><i>{body}</i><i>{body * count}</i><i a='</i>'/><i>{body}</i ></r>".encode()
    [first, large, fault] = [record.xml for record in cut_records(Dribble(data, size), "i")][:3]
    assert first == f"<i>{body}</i>".encode()
    assert large == f"<i>{body * count}</i>".encode()
    assert fault == b"<i a='</i>'/>"


def test_compressed_files_are_matched_and_archives_are_named(tmp_path: Path) -> None:
    subscriptions = SubscriptionSet({"b": "/i[contains(., 'b')]"})
    document = b"<r><i>a</i><i>b</i></r>"
    for name, data in {"a.xml.gz": gzip.compress(document), "a": gzip.compress(document), "a.xml": document}.items():
        (tmp_path / name).write_bytes(data)
        answers = subscriptions.match_records(tmp_path / name, "i")
        assert [(one.number, one.keys) for one in answers] == [(2, ["b"])]
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.xml", document)
    with pytest.raises(SourceError, match="archive"):
        list(subscriptions.match_records(tmp_path / "a.zip", "i"))
    (tmp_path / "a.7z").write_bytes(b"7z\xbc\xaf\x27\x1c")
    with pytest.raises(SourceError, match="7-Zip"):
        list(subscriptions.match_records(tmp_path / "a.7z", "i"))


def test_ids_of_a_dtd_are_ids(tmp_path: Path) -> None:
    (tmp_path / "a.dtd").write_text("<!ATTLIST i k ID #IMPLIED>")
    subscriptions = SubscriptionSet({"x": "id('x')"}, dtd=tmp_path / "a.dtd")
    message = b"<?xml version='1.0'?>\n<r><i k='x'>1</i></r>"
    assert subscriptions.match(message).keys == ["x"]
    assert subscriptions.match(b"<!DOCTYPE r [<!ATTLIST j k ID #IMPLIED>]>" + message.split(b"\n")[1]).keys == ["x"]
    [delivery] = subscriptions.deliver(message)
    assert b"DOCTYPE" not in delivery.payload
    assert [one.keys for one in subscriptions.match_records(io.BytesIO(message), "i")] == [["x"]]
