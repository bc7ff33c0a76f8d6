"""Reading messages from everything that may hold them, with stable ids, whatever is wrong with some of them."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import random
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from tests.seeds import printed_seed
from twigcast import Limits, SubscriptionSet
from twigcast.errors import MalformedMessage, MessageLimitExceeded, SourceError, UnreadableMessage
from twigcast.reading.messages import Message, RejectedInput, find_message_files, read_messages
from twigcast.reading.options import ReadOptions

LIMITS = Limits(message_bytes_max=10_000)


def read(
    *arguments: str | Path, record: str | None = None, include: str | None = None
) -> dict[str, bytes | RejectedInput]:
    items = list(read_messages(arguments, ReadOptions(record=record, include=include), limits=LIMITS))
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
    assert read(document, record="i") == {"all.xml#1": b"<i>1</i>", "all.xml#2": b"<i>2</i>"}


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
    assert result["all.xml#1"] == b"<i>1</i>"
    second = result["all.xml#2"]
    assert isinstance(second, RejectedInput)
    assert isinstance(second.error, MalformedMessage)


def compressed(kind: str, data: bytes) -> bytes:
    match kind:
        case "gz":
            return gzip.compress(data)
        case "bz2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data)
    return bytes(pa.compress(data, "zstd", asbytes=True))


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_compressed_messages_and_archives_of_all_kinds(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a.xml.{kind}"
    path.write_bytes(compressed(kind, b"<a><i/><i/></a>"))
    assert read(path) == {f"a.xml.{kind}": b"<a><i/><i/></a>"}
    assert list(read(path, record="i")) == [f"a.xml.{kind}#1", f"a.xml.{kind}#2"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Pipe(path.read_bytes()))))
    assert read("-") == {"-": b"<a><i/><i/></a>"}
    plain = make_tar(tmp_path / "plain.tar", {"m.xml": b"<m/>"}, "w").read_bytes()
    archive = tmp_path / f"b.tar.{kind}"
    archive.write_bytes(compressed(kind, plain))
    assert read(archive) == {"m.xml": b"<m/>"}
    cut_short = tmp_path / f"short.xml.{kind}"
    cut_short.write_bytes(compressed(kind, b"<a>" + random.Random(1).randbytes(5_000).hex().encode() + b"</a>")[:-900])
    (rejected,) = read(cut_short).values()
    assert isinstance(rejected, RejectedInput)
    assert isinstance(rejected.error, UnreadableMessage | MalformedMessage)


def _before_the_cut(kind: str, cut: bytes) -> bytes:
    """Returns what can be decompressed of a file that was cut short."""
    match kind:
        case "gz":
            return zlib.decompressobj(wbits=31).decompress(cut)
        case "bz2":
            return bz2.BZ2Decompressor().decompress(cut)
        case "xz":
            return lzma.LZMADecompressor().decompress(cut)
    plain, stream = bytearray(), pa.CompressedInputStream(pa.py_buffer(cut), "zstd")
    with contextlib.suppress(OSError):
        while byte := stream.read(1):
            plain += byte
    return bytes(plain)


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_records_before_a_cut_are_read_and_then_the_cut_is_told(tmp_path: Path, kind: str, times: int) -> None:
    randomness = random.Random(printed_seed())
    items = b"".join(b"<i>%s</i>" % randomness.randbytes(450).hex().encode() for _ in range(400))
    whole = compressed(kind, b"<r>" + items + b"</r>")
    inner = [whole, whole[: randomness.randrange(len(whole) // 2, len(whole) - 40)], whole[:40]]
    for data in inner:
        path = tmp_path / f"a.xml.{kind}"
        path.write_bytes(gzip.compress(data) if times == 2 else data)
        count = _before_the_cut(kind, data).count(b"</i>")
        read_whole = data is whole
        matches = list(SubscriptionSet({"i": "/i"}).match_records(path, "i"))
        results = list(read(path, record="i").values())
        assert sum(match.keys == ["i"] for match in matches) == count
        assert sum(isinstance(result, bytes) for result in results) == count
        assert len(matches) == len(results) == count + (not read_whole)
        if not read_whole:
            assert isinstance(results[-1], RejectedInput)
            assert matches[-1].number == count + 1
            assert "Compressed file ended before" in str(matches[-1].error)
            assert str(matches[-1].error) == str(results[-1].error)


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
def test_a_name_may_say_the_wrong_compression_or_one_that_is_undone(tmp_path: Path, kind: str) -> None:
    for other in ("gz", "bz2", "xz", "zst", "plain"):
        path = tmp_path / f"a.xml.{kind}"
        path.write_bytes(b"<a><i/></a>" if other == "plain" else compressed(other, b"<a><i/></a>"))
        assert read(path) == {f"a.xml.{kind}": b"<a><i/></a>"}
        assert [one.keys for one in SubscriptionSet({"i": "/i"}).match_records(path, "i")] == [["i"]]


def test_archives_in_archives_are_read(tmp_path: Path) -> None:
    inner = make_zip(tmp_path / "inner.zip", {"x.xml": b"<x/>", "y.xml.gz": gzip.compress(b"<y/>")}).read_bytes()
    tar = make_tar(tmp_path / "middle.tar.gz", {"d/inner.zip": inner, "z.xml": b"<z/>"}).read_bytes()
    outer = make_zip(tmp_path / "outer.zip", {"middle.tar.gz": tar, "broken.zip": b"PK", "w.xml": b"<w/>"})
    result = read(outer, include="*")
    broken = result.pop("broken.zip")
    assert isinstance(broken, RejectedInput)
    assert result == {
        "middle.tar.gz/d/inner.zip/x.xml": b"<x/>",
        "middle.tar.gz/d/inner.zip/y.xml.gz": b"<y/>",
        "middle.tar.gz/z.xml": b"<z/>",
        "w.xml": b"<w/>",
    }


@pytest.mark.parametrize("record", [None, "i"])
def test_the_first_bytes_count_where_a_name_says_nothing(tmp_path: Path, record: str | None) -> None:
    data = b"<r><i>1</i></r>"
    number = "" if record is None else "#1"
    contents = data if record is None else b"<i>1</i>"
    compressed = {"g": gzip.compress(data), "b": bz2.compress(data), "x": lzma.compress(data)}
    for name, its_bytes in compressed.items():
        path = tmp_path / f"{name}.xml"
        path.write_bytes(its_bytes)
        assert read(path, record=record) == {f"{name}.xml{number}": contents}
    make_zip(tmp_path / "z.dat", {"a.xml": data, "b.xml": gzip.compress(data)})
    make_tar(tmp_path / "t.dat", {"a.xml": data}, "w")
    found = read(tmp_path / "z.dat", tmp_path / "t.dat", record=record)
    assert list(found) == [f"{name}{number}" for name in ("z.dat/a.xml", "z.dat/b.xml", "t.dat/a.xml")]
    assert set(map(bytes, found.values())) == {contents}  # type: ignore[arg-type]
    (tmp_path / "cut.zip").write_bytes((tmp_path / "z.dat").read_bytes()[:60])
    [rejected] = read(tmp_path / "cut.zip").values()
    assert isinstance(rejected, RejectedInput)
    assert "cut short" in str(rejected.error)


def test_archives_that_lie_too_deep_are_named(tmp_path: Path) -> None:
    data = b"<a/>"
    for depth in range(6):
        data = make_zip(tmp_path / f"{depth}.zip", {"a.xml" if depth == 0 else "in.zip": data}).read_bytes()
    ((name, rejected),) = read(tmp_path / "5.zip").items()
    assert name == "/".join(["in.zip"] * 4)
    assert isinstance(rejected, RejectedInput)
    assert "more than 4 deep" in rejected.error.reason


def test_records_are_named_by_their_ids_once_each(tmp_path: Path) -> None:
    path = tmp_path / "feed.xml"
    path.write_bytes(b"<r><i><g>a</g></i>\n<i><g>a</g></i><i/><i><g>b</g>&</i></r>")
    options = ReadOptions(record="i", record_id="g")
    messages = [item for item in read_messages([path], options) if isinstance(item, Message)]
    assert [message.id for message in messages] == ["a", "a (2)", "feed.xml#3", "feed.xml#4"]
    assert [message.line for message in messages] == [1, 2, 2, 2]
    error = messages[1].located(MalformedMessage(3, 4, "wrong"))
    assert (error.line, error.column) == (4, 4)


def test_messages_come_without_their_doctype_where_more_is_known_of_it(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_bytes(b"<!DOCTYPE a SYSTEM 'x'><a>&eacute;</a>")
    assert read(path) == {"a.xml": path.read_bytes()}
    (message,) = read_messages([path], ReadOptions(entities="html"))
    assert message.xml.decode().lstrip() == "<a>\xe9</a>"
    path.write_bytes(b"<!DOCTYPE a SYSTEM 'x'><a>&nosuch;</a>")
    (rejected,) = read_messages([path], ReadOptions(entities="html"))
    assert isinstance(rejected, RejectedInput)
    with pytest.raises(SourceError):
        list(read_messages([path], ReadOptions(dtd=str(tmp_path / "none.dtd"))))


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
    (tmp_path / "e.gz").write_bytes(b"not compressed")
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


def _compressed(name: str, data: bytes) -> bytes:
    match name:
        case "gz":
            return gzip.compress(data)
        case "bz2":
            return bz2.compress(data)
        case "xz":
            return lzma.compress(data)
    return lzma.compress(data, format=lzma.FORMAT_ALONE)


def _tar(compression: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("m.xml")
        member.size = len(b"<m/>")
        archive.addfile(member, io.BytesIO(b"<m/>"))
    return _compressed(compression, out.getvalue()) if compression else out.getvalue()


@pytest.mark.parametrize("compression", ["gz", "bz2", "xz", "lzma"])
@pytest.mark.parametrize("suffix", ["", ".{0}", ".tar.{0}", ".t{0}"])
def test_archives_are_read_whatever_their_name(tmp_path: Path, compression: str, suffix: str) -> None:
    path = tmp_path / f"a{suffix.format(compression)}"
    path.write_bytes(_tar(compression))
    (message,) = read_messages([path])
    assert isinstance(message, Message)
    assert (message.id.rsplit("/")[-1], message.xml) == ("m.xml", b"<m/>")


@pytest.mark.parametrize("suffix", [".tbz2", ".txz", ".tgz", ".tlz", ".tbz"])
def test_short_suffixes_of_archives(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(_tar({".tbz2": "bz2", ".tbz": "bz2", ".txz": "xz", ".tgz": "gz", ".tlz": "lzma"}[suffix]))
    (message,) = read_messages([path])
    assert (message.id, message.xml) == ("m.xml", b"<m/>")


@pytest.mark.parametrize("inner", ["gz", "bz2", "xz", "lzma"])
@pytest.mark.parametrize("outer", ["gz", "bz2", "xz", "lzma"])
def test_what_was_compressed_twice_is_read(tmp_path: Path, inner: str, outer: str) -> None:
    for name in (f"a.{outer}", f"a.{inner}.{outer}", "a"):
        path = tmp_path / name
        path.write_bytes(_compressed(outer, _compressed(inner, b"<a/>")))
        (message,) = read_messages([path])
        assert (message.id, message.xml) == (name, b"<a/>")
    data = b"<a/>"
    for _ in range(12):
        data = _compressed(outer, data)
    (tmp_path / "deep").write_bytes(data)
    (rejected,) = read_messages([tmp_path / "deep"])
    assert isinstance(rejected, RejectedInput)
    assert "compressed again and again" in str(rejected.error)


@pytest.mark.parametrize(
    ("name", "start", "what"),
    [
        ("a.7z", b"7z\xbc\xaf\x27\x1c\0\4", "7-Zip"),
        ("a.rar", b"Rar!\x1a\x07\x01\0", "RAR"),
        ("a.Z", b"\x1f\x9d\x90", "compress"),
        ("a.lz", b"LZIP\x01", "lzip"),
        ("a.lz4", b"\x04\x22\x4d\x18", "LZ4"),
        ("a.br", b"\x0b\x02\x80<a/>\x03", "Brotli"),
        ("a.cab", b"MSCF\0\0", "cabinet"),
    ],
)
def test_archives_that_are_not_read_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, start: bytes, what: str
) -> None:
    path = tmp_path / name
    path.write_bytes(start + bytes(600))
    packed = tmp_path / "packed.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(path, name)
    for argument in (path, packed):
        for options in (ReadOptions(), ReadOptions(record="i")):
            (rejected,) = read_messages([argument], options)
            assert isinstance(rejected, RejectedInput)
            assert rejected.id == name
            assert f"{what}" in str(rejected.error)
            assert "which is not read" in str(rejected.error)
    if what != "Brotli":
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(start + bytes(600))))
        (rejected,) = read_messages(["-"])
        assert isinstance(rejected, RejectedInput)
        assert what in str(rejected.error)


@pytest.mark.parametrize("layers", [("gz",), ("gz", "bz2"), ("xz",)])
def test_standard_input_and_files_tell_archives_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layers: tuple[str, ...]
) -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("m.xml", b"<m/>")
    for data in (_tar(), zipped.getvalue(), b"<m/>"):
        packed = data
        for layer in layers:
            packed = _compressed(layer, packed)
        path = tmp_path / "a"
        path.write_bytes(packed)
        (of_file,) = read_messages([path])
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
        (of_stdin,) = read_messages(["-"])
        assert (of_file.xml, of_stdin.xml) == (b"<m/>", b"<m/>")
        assert (of_file.id, of_stdin.id) == (("a", "-") if data == b"<m/>" else ("a/m.xml", "m.xml"))
