"""Parts of a document, one after the other, have the records of the whole: wherever it is split, whatever is in it."""

import random
from pathlib import Path

import pytest

from twigcast.limits import Limits
from twigcast.reading.messages import (
    Message,
    MessageFile,
    RejectedInput,
    find_message_files,
    read_message_file,
)
from twigcast.reading.options import ReadOptions
from twigcast.reading.splits import read_part, split_document

DOCTYPE = (
    '<!DOCTYPE r [<!ENTITY e "entity <b/> text"><!ENTITY i "<i/>"><!ATTLIST i kind CDATA "x" >'
    "<!-- <i> --><?p <i>?><!ATTLIST g xml:lang CDATA 'de'>]>"
)
DISGUISES = ("<!-- <i>no</i> -->", "<![CDATA[<i>no</i>]]>", "<?p <i>no</i> ?>", "<!-- </i></g></r> -->", "&#60;i>")
ATTRIBUTES = ("xmlns='urn:d'", 'xmlns:p="urn:p"', "xml:lang='fr'", 'xml:base="sub/"', "xml:space='preserve'", "day='2'",
              "odd='a > b'", "xmlns=''")  # fmt: skip


def content(chance: random.Random, depth: int) -> str:
    """What is in a record: also elements that are named like records, and what looks like them."""
    pieces = []
    for _ in range(chance.randrange(4)):
        match chance.randrange(6):
            case 0 if depth:
                pieces.append(element(chance, chance.choice(["b", "i", "p:b"]), content(chance, depth - 1)))
            case 1:
                pieces.append(chance.choice(DISGUISES))
            case 2:
                pieces.append(chance.choice(["&amp;", "&#233;", "&e;", "&lt;i>"]))
            case 3:
                pieces.append("<id>n" + str(chance.randrange(99)) + "</id>")
            case _:
                pieces.append("é text " * chance.randrange(4) + chance.choice(["", "\n", "\r\n", "\r"]))
    return "".join(pieces)


def element(chance: random.Random, name: str, inside: str) -> str:
    attributes = "".join(f" {a}" for a in chance.sample(ATTRIBUTES, chance.choice([0, 0, 1, 2])) if a != ATTRIBUTES[-1])
    if ":" in name:
        attributes = ' xmlns:p="urn:p"'
    if not inside and chance.random() < 0.7:
        return f"<{name}{attributes}/>"
    return f"<{name}{attributes}>{inside}</{name}>"


def group(chance: random.Random, depth: int) -> str:
    """What is between records, with records in it."""
    pieces = []
    for _ in range(chance.randrange(1, 7)):
        match chance.randrange(7):
            case 0 if depth:
                pieces.append(element(chance, "g", group(chance, depth - 1)))
            case 1:
                pieces.append(chance.choice(DISGUISES))
            case 2:
                pieces.append(f"<title>{chance.randrange(9)}<![CDATA[<i/>]]></title>")
            case 3:
                pieces.append(chance.choice([" ", "\n", "\r\n", "text", "&e;"]))
            case _:
                pieces.append(element(chance, "i", content(chance, 2)))
    return "".join(pieces)


def document(chance: random.Random) -> str:
    prolog = chance.choice(["", '<?xml version="1.0" encoding="utf-8"?>\n', "<!-- <i/> -->\n"]) + DOCTYPE
    end = chance.choice(["", "\n", "<!-- <i/> -->", "\r\n"])
    return f"{prolog}{element(chance, 'r', group(chance, 3) + '<i/>')}{end}"


def damaged(chance: random.Random, data: bytes) -> bytes:
    """Returns a document with a fault somewhere, perhaps."""
    at = chance.randrange(len(data))
    match chance.randrange(6):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + chance.choice([b"<", b">", b"&", b"</i>", b"\0", b"<i>", b"\xff"]) + data[at:]
        case _:
            return data


def seen(items: list[Message | RejectedInput]) -> list[tuple[object, ...]]:
    """All that there is to see of messages, but of one without an end how much of it was read with the fault."""
    return [
        (item.id, item.xml, item.offset, item.length, item.line, item.column, item.added)
        if isinstance(item, Message)
        else (item.id, item.xml if item.length else b"", item.offset, item.length, str(item.error),
              getattr(item.error, "line", None))
        for item in items
    ]  # fmt: skip


def check(path: Path, data: bytes, options: ReadOptions, part_bytes: int, limits: Limits) -> int:
    """Compares the parts with the whole, and returns how many there are."""
    path.write_bytes(data)
    (file,) = find_message_files([path])
    whole = seen(list(read_message_file(file, options, limits=limits)))
    parts = split_document(file, options, part_bytes, limits=limits)
    read = [item for part in parts for item in read_part(file, part, options, limits=limits)]
    assert seen(read) == whole
    return len(parts)


@pytest.mark.parametrize("seed", range(40))
def test_the_parts_are_the_whole(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    parts = 0
    for _ in range(25):
        has_many = chance.random() < 0.3
        texts = [document(chance) for _ in range(chance.randrange(1, 4) if has_many else 1)]
        data = damaged(chance, chance.choice(["", "\n", "\r\n"]).join(texts).encode())
        records = ReadOptions(
            record=chance.choice(["i", "i", "g/i", "b|i", "{urn:d}i", "title"]) if not has_many or chance.random() < 0.6
            else None,
            documents=has_many,
            inherit=chance.choice([(), (), ("title",), ("day", "g"), ("title", "g", "day")]),
            record_id=chance.choice([None, None, "id"]),
        )  # fmt: skip
        limits = Limits(message_bytes_max=chance.choice([300, 400, 100_000]))
        parts += check(tmp_path / "d.xml", data, records, chance.randrange(1, 120), limits)
    assert parts > 25


def test_records_are_where_they_are_said_to_be(tmp_path: Path) -> None:
    data = "<r>é\r\n<i>1</i><!--<i/>--><i a='>'/>\n <i>é</i></r>".encode()
    path = tmp_path / "d.xml"
    path.write_bytes(data)
    (file,) = find_message_files([path])
    options = ReadOptions(record="i")
    for part_bytes in (1, 8, 1_000):
        items = [item for part in split_document(file, options, part_bytes) for item in read_part(file, part, options)]
        places = [(item.offset or 0, item.length or 0) for item in items]
        assert [data[offset : offset + length] for offset, length in places] == [item.xml for item in items]
        assert [item.xml for item in items] == [b"<i>1</i>", b"<i a='>'/>", "<i>é</i>".encode()]


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1", "utf-8-sig"])
def test_a_document_that_is_converted_is_one_part(tmp_path: Path, encoding: str) -> None:
    text = "<r>" + "<i>é</i>" * 1_000 + "</r>"
    declared = f'<?xml version="1.0" encoding="{encoding}"?>' if encoding.startswith("iso") else ""
    options = ReadOptions(record="i")
    assert check(tmp_path / "d.xml", (declared + text).encode(encoding), options, 100, Limits()) == 1


def test_what_is_repaired_or_compressed_or_whole_is_one_part(tmp_path: Path) -> None:
    (tmp_path / "d.xml").write_bytes(b"<r>" + b"<i/>" * 1_000 + b"</r>")
    (file,) = find_message_files([tmp_path / "d.xml"])
    records = ReadOptions(record="i")
    assert len(split_document(file, records, 100)) > 30
    assert len(split_document(file, ReadOptions(record="i", tolerant=True), 100)) == 1
    assert len(split_document(file, ReadOptions(), 100)) == 1
    zipped = MessageFile(file.path, "gzip", file.id, file.size)
    assert len(split_document(zipped, records, 100)) == 1


def test_parts_of_a_file_that_became_shorter_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "d.xml"
    path.write_bytes(b"<r>" + b"<i/>" * 1_000 + b"</r>")
    (file,) = find_message_files([path])
    options = ReadOptions(record="i")
    first, second, *_ = split_document(file, options, 1_000)
    path.write_bytes(path.read_bytes()[:1_200])
    assert not any(isinstance(item, RejectedInput) for item in read_part(file, first, options))
    *_, last = read_part(file, second, options)
    assert isinstance(last, RejectedInput)
    assert "shorter" in str(last.error)
