"""A message in every form in which programs have it is the same message."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import zipfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest
from lxml import etree

from twigcast import Limits, SubscriptionSet
from twigcast.errors import MalformedMessage, MessageLimitExceeded, ReadOptionError, SourceError
from twigcast.reading.options import ReadOptions

Form = Callable[[bytes, Path], Any]


def written(xml: bytes, folder: Path) -> Path:
    path = folder / "message.xml"
    path.write_bytes(xml)
    return path


def zipped(xml: bytes, folder: Path) -> Any:
    with zipfile.ZipFile(folder / "message.zip", "w") as archive:
        archive.writestr("m.xml", xml)
    return zipfile.ZipFile(folder / "message.zip").open("m.xml")


def gzipped(xml: bytes, folder: Path) -> Any:
    (folder / "message.gz").write_bytes(gzip.compress(xml))
    return gzip.open(folder / "message.gz")


def packed_path(pack: Callable[[bytes], bytes]) -> Form:
    return lambda xml, folder: written(pack(xml), folder)


def packed_file(pack: Callable[[bytes], bytes]) -> Form:
    return lambda xml, folder: written(pack(xml), folder).open("rb")


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda xml: pa.compress(xml, "zstd", asbytes=True),
}

FORMS: dict[str, Form] = {
    "bytes": lambda xml, _: xml,
    "bytearray": lambda xml, _: bytearray(xml),
    "memoryview": lambda xml, _: memoryview(xml),
    "str": lambda xml, _: xml.decode(),
    "path": written,
    "BytesIO": lambda xml, _: io.BytesIO(xml),
    "StringIO": lambda xml, _: io.StringIO(xml.decode()),
    "open file": lambda xml, folder: written(xml, folder).open("rb"),
    "open text": lambda xml, folder: written(xml, folder).open(encoding="utf-8"),
    "gzip": gzipped,
    "zip member": zipped,
    **{f"path, {kind}": packed_path(pack) for kind, pack in PACKED.items()},
    **{f"open file, {kind}": packed_file(pack) for kind, pack in PACKED.items()},
    "BytesIO, gzip": lambda xml, _: io.BytesIO(gzip.compress(xml)),
    "Arrow buffer": lambda xml, _: pa.py_buffer(xml),
    "Arrow string": lambda xml, _: pa.scalar(xml.decode()),
    "Arrow binary": lambda xml, _: pa.scalar(xml, pa.large_binary()),
    "Arrow dictionary": lambda xml, _: pa.array([xml.decode()]).dictionary_encode()[0],
    "array of bytes": lambda xml, _: array("B", xml),
    "numpy bytes": lambda xml, _: np.frombuffer(xml, np.uint8),
    "lxml element": lambda xml, _: etree.fromstring(xml),
    "lxml tree": lambda xml, _: etree.ElementTree(etree.fromstring(xml)),
    "xml.etree element": lambda xml, _: ET.fromstring(xml),
    "xml.etree tree": lambda xml, _: ET.ElementTree(ET.fromstring(xml)),
}


@contextmanager
def made(name: str, xml: bytes, folder: Path) -> Iterator[Any]:
    """A message in one form; a file is closed in the end."""
    message = FORMS[name](xml, folder)
    try:
        yield message
    finally:
        if hasattr(message, "close"):
            message.close()


def generated(chance: random.Random) -> bytes:
    items = "".join(
        f"<{name} k='{chance.randrange(5)}'>{chance.choice(('a &amp; b', 'é', '', '<p:x/>'))}</{name}>"
        for name in (chance.choice("abc") for _ in range(chance.randrange(1, 9)))
    )
    return f"<r xmlns:p='urn:p'>{items}</r>".encode()


@pytest.mark.parametrize("name", FORMS)
def test_every_form_is_the_same_message(name: str, tmp_path: Path) -> None:
    queries = {f"{n}{k}": f"//{n}[@k = {k}]" for n in "abc" for k in range(5)}
    subscriptions = SubscriptionSet({**queries, "text": "//*[. = 'a & b']", "prefix": "//*:x", "é": "//*[. = 'é']"})
    for seed in range(20):
        print(f"seed {seed}")
        xml = generated(random.Random(seed))
        with made(name, xml, tmp_path) as message:
            assert subscriptions.match(message).keys == subscriptions.match(xml).keys


def test_an_element_is_matched_alone() -> None:
    """As the root of the message, with the namespaces around it, without the text behind it."""
    subscriptions = SubscriptionSet(
        {"root": "/p:b[not(..//a)]", "text": "//text()[. = 'tail']"}, namespaces={"p": "urn:p"}
    )
    text = "<a xmlns:p='urn:p'><p:b/>tail</a>"
    for element in (etree.fromstring(text)[0], ET.fromstring(text)[0]):
        assert subscriptions.match(element).keys == ["root"]
        assert element.tail == "tail"


def test_delivering_and_nodes_take_the_same_forms(tmp_path: Path) -> None:
    subscriptions = SubscriptionSet({"a": "/a", "f": "for $a in /a return <r>{ $a/b }</r>"})
    for name in FORMS:
        with made(name, b"<a><b>1</b></a>", tmp_path) as message:
            assert subscriptions.deliver(message)[1].payload == b"<r><b>1</b></r>"
        with made(name, b"<a><b>1</b></a>", tmp_path) as message:
            assert [node.name for node in subscriptions.nodes(message, "a")] == ["a"]


@pytest.mark.parametrize(
    "text", ["inbox/flood.xml", "flood.xml", "C:\\in\\flood.xml", "feed.tar.gz", "/tmp/x", " a.xml\n"]
)
def test_text_that_looks_like_a_path_is_told_so(text: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        SubscriptionSet({"a": "/a"}).match(text)
    assert f"pass pathlib.Path({text!r})" in str(caught.value)


@pytest.mark.parametrize("text", ["", "hello", "a b c.", "<a>b.xml", "1 > 2/3"])
def test_other_text_that_is_no_xml_is_malformed_as_ever(text: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        SubscriptionSet({"a": "/a"}).match(text)
    assert "pathlib" not in str(caught.value)


def test_a_file_that_is_not_there_and_one_that_reads_something_else(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="missing"):
        SubscriptionSet().match(tmp_path / "missing.xml")

    class Odd:
        def read(self) -> int:
            return 7

    with pytest.raises(TypeError, match=r"read\(\) of this one returns int"):
        SubscriptionSet().match(Odd())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [*PACKED, "zip"])
def test_packed_bytes_are_named(kind: str, tmp_path: Path) -> None:
    xml = b"<a>text</a>"
    zipped(xml, tmp_path)
    packed = PACKED[kind](xml) if kind in PACKED else (tmp_path / "message.zip").read_bytes()
    subscriptions = SubscriptionSet({"a": "/a"})
    with pytest.raises(MalformedMessage, match=f"{kind}.*: unpack it first"):
        subscriptions.match(packed)
    (row,) = subscriptions.match_batch([packed]).to_pylist()
    assert row["error"] is not None
    assert kind in row["error"]["reason"]


@pytest.mark.parametrize("pack", ["plain", *PACKED])
def test_archives_and_unread_kinds_are_named_where_a_message_is_due(pack: str, tmp_path: Path) -> None:
    zipped(b"<a/>", tmp_path)
    contents = {
        "archive": (tmp_path / "message.zip").read_bytes(),
        "7-Zip": b"7z\xbc\xaf\x27\x1c",
        "LZ4": b"\x04\x22\x4d\x18",
    }
    for name, content in contents.items():
        path = written(PACKED[pack](content) if pack in PACKED else content, tmp_path)
        with pytest.raises(SourceError, match=name):
            SubscriptionSet().match(path)
        with path.open("rb") as file, pytest.raises(SourceError, match=name):
            SubscriptionSet().match(file)


@pytest.mark.parametrize("kind", PACKED)
def test_packed_files_that_are_damaged_or_expand_without_measure(kind: str, tmp_path: Path) -> None:
    xml = b"<a>" + bytes(random.Random(kind).choices(range(97, 123), k=5_000)) + b"</a>"
    damaged = written(PACKED[kind](xml)[:-900], tmp_path)
    with pytest.raises(SourceError, match=r"message\.xml: it cannot be read"):
        SubscriptionSet().match(damaged)
    with damaged.open("rb") as file, pytest.raises(SourceError, match=r"message\.xml: it cannot be read"):
        SubscriptionSet().match(file)
    large = written(PACKED[kind](b"<a>" + bytes(50_000_000) + b"</a>"), tmp_path)
    small = SubscriptionSet({"a": "/a"}, limits=Limits(message_bytes_max=100_000))
    for ask in (small.match, small.deliver, small.nearest):
        with pytest.raises(MessageLimitExceeded, match="message_bytes_max = 100,000"):
            ask(large)
    (row,) = small.match_batch([large]).to_pylist()
    assert row["error"] is not None
    assert row["error"]["code"] == "message-limit"


def test_objects_that_have_whatever_they_are_asked_for() -> None:
    class Soup:
        """Like an element of Beautiful Soup: a child that it does not have is None."""

        def __getattr__(self, name: str) -> None:
            return None

    for module, cure in (("bs4.element", ": pass str(message)"), ("other", "")):
        Soup.__module__ = module
        with pytest.raises(TypeError) as caught:
            SubscriptionSet().match(Soup())
        assert str(caught.value).endswith(f"lxml or xml.etree, not Soup{cure}")


@pytest.mark.parametrize(
    "other", [np.array([1.5, 2.5]), array("i", [1]), pa.scalar(7), pa.scalar(None, pa.string()), {}]
)
def test_other_buffers_and_values_are_no_message(other: Any) -> None:
    with pytest.raises(TypeError, match="message must be bytes, str, a path"):
        SubscriptionSet().match(other)


DOCUMENTS: dict[str, Form] = {
    "bytes": lambda xml, _: xml,
    "bytes, packed": lambda xml, _: gzip.compress(xml),
    "memoryview": lambda xml, _: memoryview(xml),
    "str": lambda xml, _: xml.decode(),
    "path": written,
    "BytesIO": lambda xml, _: io.BytesIO(xml),
    **{f"path, {kind}": packed_path(pack) for kind, pack in PACKED.items()},
    "open file": lambda xml, folder: written(xml, folder).open("rb"),
    "open file, packed": lambda xml, folder: written(bz2.compress(xml), folder).open("rb"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_records_of_documents_in_every_form(name: str, tmp_path: Path) -> None:
    xml = b"<r>" + b"<i>1</i><i>2</i>" * 20_000 + b"</r>"
    document = DOCUMENTS[name](xml, tmp_path)
    answers = SubscriptionSet({"k": "/i[. = 2]"}).match_records(document, "i")
    assert [found.number for found in answers] == list(range(2, 40_001, 2))
    assert answers.count == 40_000
    if hasattr(document, "close"):
        document.close()


def test_documents_that_are_none_are_told_so_at_once(tmp_path: Path) -> None:
    subscriptions = SubscriptionSet({"k": "/i"})
    with pytest.raises(MalformedMessage, match=r"pass pathlib.Path\('inbox/feed.xml'\)"):
        subscriptions.match_records("inbox/feed.xml", "i")
    for text in (io.StringIO("<r/>"), written(b"<r/>", tmp_path).open(encoding="utf-8")):
        with text, pytest.raises(TypeError, match="document must be open in binary"):
            subscriptions.match_records(text, "i")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"document must be a path \(pathlib.Path\), .*, not int"):
        subscriptions.match_records(7, "i")  # type: ignore[arg-type]


def test_one_name_to_inherit_need_not_be_in_a_tuple() -> None:
    document = b"<r author='me'><i/></r>"
    for inherit in ("author", ["author"], ("author",)):
        options = ReadOptions(record="i", inherit=inherit)  # type: ignore[arg-type]
        assert options == ReadOptions(record="i", inherit=("author",))
        assert [one.keys for one in SubscriptionSet({"k": "/i/@author"}).match_records(document, options)] == [["k"]]
    wrong: list[Any] = [7, ["author", 7]]
    for inherit in wrong:
        with pytest.raises(ReadOptionError, match="inherit: it must be names"):
            ReadOptions(record="i", inherit=inherit)
