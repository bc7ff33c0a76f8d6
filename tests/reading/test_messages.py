"""Reading messages from everything that may hold them, with stable ids, whatever is wrong with some of them."""

import gzip
import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from twigcast import Limits
from twigcast.errors import MalformedMessage, MessageLimitExceeded, SourceError, UnreadableMessage
from twigcast.reading.messages import Message, RejectedInput, find_message_files, read_messages

LIMITS = Limits(message_bytes_max=10_000)


def read(
    *arguments: str | Path, record: str | None = None, include: str | None = None
) -> dict[str, bytes | RejectedInput]:
    items = list(read_messages(arguments, record=record, include=include, limits=LIMITS))
    by_id = {item.id: item.xml if isinstance(item, Message) else item for item in items}
    assert len(by_id) == len(items), "ids are unique"
    return by_id


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def make_tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inbox = tmp_path / "inbox"
    (inbox / "sub" / "deeper").mkdir(parents=True)
    (inbox / "b.xml").write_bytes(b"<b/>")
    (inbox / "a.xml").write_bytes(b"<a/>")
    (inbox / "sub" / "deeper" / "c.nitf").write_bytes(b"<c/>")
    (inbox / "z.xml.gz").write_bytes(gzip.compress(b"<z/>"))
    make_zip(inbox / "sub" / "more.zip", {"x/1.xml": b"<one/>", "2.xml": b"<two/>"})
    return inbox


def test_a_file_is_named_by_its_name(folder: Path) -> None:
    assert read(folder / "a.xml") == {"a.xml": b"<a/>"}


def test_a_folder_is_read_in_order_with_what_lies_below(folder: Path) -> None:
    results = read(folder)
    assert list(results) == [
        "a.xml",
        "b.xml",
        "sub/deeper/c.nitf",
        "sub/more.zip/x/1.xml",
        "sub/more.zip/2.xml",
        "z.xml.gz",
    ]
    assert results["z.xml.gz"] == b"<z/>"


def test_a_folder_with_a_trailing_slash_gives_the_same_ids(folder: Path) -> None:
    assert list(read(f"{folder}/")) == list(read(folder))


def test_hidden_files_and_by_products_are_left_out(folder: Path) -> None:
    before = list(read(folder))
    (folder / ".hidden.xml").write_bytes(b"<h/>")
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / ".git").mkdir()
    (folder / ".git" / "x.xml").write_bytes(b"<x/>")
    assert list(read(folder)) == before


def test_include_picks_names(folder: Path) -> None:
    assert list(read(folder, include="*.xml")) == ["a.xml", "b.xml", "sub/more.zip/x/1.xml", "sub/more.zip/2.xml"]


@pytest.mark.parametrize(
    ("name", "mode"), [("f.tar", "w"), ("f.tar.gz", "w:gz"), ("F.TGZ", "w:gz"), ("f.tar.xz", "w:xz")]
)
def test_tar_archives(tmp_path: Path, name: str, mode: str) -> None:
    members = {"./one.xml": b"<one/>", "d/two.xml": b"<two/>", "._one.xml": b"junk", "__MACOSX/a.xml": b"junk"}
    archive = make_tar(tmp_path / name, members, mode)
    assert read(archive) == {"one.xml": b"<one/>", "d/two.xml": b"<two/>"}


def test_links_in_archives_are_not_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "f.tar", "w") as archive:
        link = tarfile.TarInfo("passwords.xml")
        link.type = tarfile.SYMTYPE
        link.linkname = "/etc/passwd"
        archive.addfile(link)
    assert read(tmp_path / "f.tar") == {}


def test_members_of_one_name_are_told_apart(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as archive:
        archive.writestr("a.xml", b"<one/>")
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("a.xml", b"<two/>")
    assert read(tmp_path / "f.zip") == {"a.xml": b"<one/>", "a.xml (2)": b"<two/>"}


def test_equal_ids_of_several_arguments_are_told_apart(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.xml").write_bytes(b"<other/>")
    archive = make_zip(tmp_path / "f.zip", {"a.xml": b"<zipped/>"})
    assert read(folder / "a.xml", other / "a.xml", archive, other / "a.xml", folder / "b.xml") == {
        "a.xml": b"<a/>",
        f"{other}/a.xml": b"<other/>",
        f"{archive}/a.xml": b"<zipped/>",
        "a.xml (2)": b"<other/>",
        "b.xml": b"<b/>",
    }


def test_records_of_one_document_are_numbered(tmp_path: Path) -> None:
    document = tmp_path / "all.xml"
    document.write_bytes(b"<r><i>1</i><i>2</i></r>")
    assert read(document, record="i") == {"#1": b"<i>1</i>", "#2": b"<i>2</i>"}


def test_records_of_several_documents_are_numbered_in_each(tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_bytes(b"<r><i>1</i></r>")
    (tmp_path / "y.xml.gz").write_bytes(gzip.compress(b"<r><i>2</i></r>"))
    make_zip(tmp_path / "z.zip", {"m.xml": b"<r><i>3</i></r>"})
    assert list(read(tmp_path, record="i")) == ["x.xml#1", "y.xml.gz#1", "z.zip/m.xml#1"]
    assert list(read(tmp_path / "x.xml", tmp_path / "y.xml.gz", record="i")) == ["x.xml#1", "y.xml.gz#1"]


def test_a_document_that_breaks_keeps_its_first_records(tmp_path: Path) -> None:
    document = tmp_path / "all.xml"
    document.write_bytes(b"<r><i>1</i><i>2</j></r>")
    result = read(document, record="i")
    assert result["#1"] == b"<i>1</i>"
    second = result["#2"]
    assert isinstance(second, RejectedInput)
    assert isinstance(second.error, MalformedMessage)


class Pipe(io.RawIOBase):
    """Standard input that brings a few bytes a read, as pipes may."""

    def __init__(self, data: bytes) -> None:
        self._stream = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(min(len(buffer), 7))
        buffer[: len(data)] = data
        return len(data)


def give_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe(data))))


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    give_stdin(monkeypatch, b"<a/>")
    assert read("-") == {"-": b"<a/>"}
    give_stdin(monkeypatch, b"<r>" + b"<i/>" * 3_000 + b"</r>")
    assert len(read("-", record="i")) == 3_000
    give_stdin(monkeypatch, gzip.compress(b"<a/>"))
    assert read("-") == {"-": b"<a/>"}
    give_stdin(monkeypatch, make_zip(tmp_path / "f.zip", {"a.xml": b"<a/>"}).read_bytes())
    assert read("-") == {"a.xml": b"<a/>"}
    give_stdin(monkeypatch, make_tar(tmp_path / "f.tar.gz", {"a.xml": b"<a/>"}).read_bytes())
    assert read("-") == {"a.xml": b"<a/>"}
    give_stdin(monkeypatch, b"")
    assert read("-") == {"-": b""}


def test_damaged_standard_input_is_a_rejected_message(monkeypatch: pytest.MonkeyPatch) -> None:
    give_stdin(monkeypatch, gzip.compress(b"<a/>" * 100)[:20])
    (rejected,) = read("-").values()
    assert isinstance(rejected, RejectedInput)
    assert isinstance(rejected.error, UnreadableMessage)


@pytest.mark.parametrize("argument", ["no-such-file.xml", "no/such/folder", "a.xml/", "nul\0.xml"])
def test_arguments_that_are_not_there_are_refused_at_once(folder: Path, argument: str) -> None:
    with pytest.raises(SourceError):
        find_message_files([folder / "a.xml", f"{folder}/{argument}"])


def test_a_file_that_vanishes_is_rejected_and_the_others_are_read(folder: Path) -> None:
    reading = read_messages([folder])
    assert next(reading).id == "a.xml"
    (folder / "b.xml").unlink()
    (folder / "sub" / "more.zip").unlink()
    rest = {item.id: item for item in reading}
    for name in ("b.xml", "sub/more.zip"):
        rejected = rest[name]
        assert isinstance(rejected, RejectedInput)
        assert isinstance(rejected.error, UnreadableMessage)
        assert "no such file" in str(rejected.error)
    assert isinstance(rest["z.xml.gz"], Message)


def test_an_empty_file_is_a_message(folder: Path) -> None:
    (folder / "a.xml").write_bytes(b"")
    assert read(folder)["a.xml"] == b""


def test_a_file_over_the_limit_is_rejected_with_its_head(folder: Path) -> None:
    (folder / "a.xml").write_bytes(b"<a>" + b"x" * 20_000)
    rejected = read(folder)["a.xml"]
    assert isinstance(rejected, RejectedInput)
    assert isinstance(rejected.error, MessageLimitExceeded)
    assert rejected.error.value == 10_000
    assert rejected.xml.startswith(b"<a>xxx")


@pytest.mark.slow
def test_compression_bombs_are_not_unpacked(tmp_path: Path) -> None:
    bomb = b"<a>" + b" " * 30_000_000
    make_zip(tmp_path / "f.zip", {"bomb.xml": bomb, "good.xml": b"<g/>"})
    make_tar(tmp_path / "g.tgz", {"bomb.xml": bomb, "good.xml": b"<g/>"})
    (tmp_path / "h.xml.gz").write_bytes(gzip.compress(bomb))
    result = read(tmp_path)
    for name in ("f.zip/bomb.xml", "g.tgz/bomb.xml", "h.xml.gz"):
        rejected = result[name]
        assert isinstance(rejected, RejectedInput)
        assert isinstance(rejected.error, MessageLimitExceeded)
    assert result["f.zip/good.xml"] == result["g.tgz/good.xml"] == b"<g/>"


def test_damaged_archives_are_rejected_and_the_rest_is_read(tmp_path: Path) -> None:
    noise = os.urandom(5_000)
    whole_zip = bytearray(make_zip(tmp_path / "a.zip", {"1.xml": b"<one/>", "2.xml": noise}).read_bytes())
    whole_zip[200] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(whole_zip)
    (tmp_path / "b.zip").write_bytes(b"this is no archive")
    (tmp_path / "c.tgz").write_bytes(
        make_tar(tmp_path / "c.tgz", {"1.xml": b"<one/>", "2.xml": noise}).read_bytes()[:3_000]
    )
    (tmp_path / "d.xml.gz").write_bytes(gzip.compress(noise)[:-2_000])
    (tmp_path / "e.gz").write_bytes(b"<not-compressed/>")
    (tmp_path / "f.tar").write_bytes(b"")
    (tmp_path / "g.xml").write_bytes(b"<good/>")
    result = read(tmp_path)
    assert result["a.zip/1.xml"] == b"<one/>"
    assert result["c.tgz/1.xml"] == b"<one/>"
    assert result["g.xml"] == b"<good/>"
    for name in ("a.zip/2.xml", "b.zip", "c.tgz/2.xml", "d.xml.gz", "e.gz", "f.tar"):
        rejected = result[name]
        assert isinstance(rejected, RejectedInput), name
        assert isinstance(rejected.error, UnreadableMessage), name
        assert "damaged" in str(rejected.error), name


def test_encrypted_members_are_rejected(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "f.zip", {"a.xml": b"<a/>"})
    data = bytearray(path.read_bytes())
    # Bit 0 of the flags, in the local header and in the table of contents, says that a member is encrypted.
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    (rejected,) = read(path).values()
    assert isinstance(rejected, RejectedInput)
    assert "password" in str(rejected.error)


def test_loops_of_links_end(folder: Path) -> None:
    (folder / "sub" / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "dangling.xml").symlink_to(folder / "nowhere")
    results = read(folder)
    assert isinstance(results.pop("dangling.xml"), RejectedInput)
    assert len(results) == 6


def test_a_folder_linked_twice_is_read_twice(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "o.xml").write_bytes(b"<o/>")
    for name in ("l1", "l2"):
        (folder / name).symlink_to(other, target_is_directory=True)
    assert {"l1/o.xml", "l2/o.xml"} <= set(read(folder))


def test_pipes_in_folders_do_not_block(folder: Path) -> None:
    os.mkfifo(folder / "pipe.xml")
    rejected = read(folder)["pipe.xml"]
    assert isinstance(rejected, RejectedInput)
    assert "regular file" in str(rejected.error)


def test_many_small_files(tmp_path: Path) -> None:
    for number in range(2_000):
        (tmp_path / f"{number:05}.xml").write_bytes(b"<m/>")
    assert list(read(tmp_path)) == [f"{number:05}.xml" for number in range(2_000)]


def test_names_that_are_no_utf8_become_text(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/caf\xe9.xml", "wb") as file:  # noqa: PTH123 - a name that Path cannot spell
        file.write(b"<a/>")
    assert read(tmp_path) == {"caf\\xe9.xml": b"<a/>"}
    for item in read_messages([tmp_path]):
        item.id.encode()
