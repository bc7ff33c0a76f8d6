"""Reading messages: files, folders, archives, standard input, and records inside one large file.

A *message file* is one file on disk: a message, a compressed message, an archive of messages, or (if messages are cut
at a record element) a document that holds many. :func:`find_message_files` lists the files behind the arguments of a
user; :func:`read_message_file` reads one. They are separate so that a pipeline can distribute the files to workers.

A message that cannot be read becomes a :class:`RejectedInput`, and reading goes on with the next one.

The name of a file decides its kind: ``.zip``, ``.tar``, ``.tar.gz``, ``.tgz``, ``.tar.bz2``, ``.tbz2``, ``.tar.xz``,
``.txz``, ``.tar.lzma`` and ``.tar.zst`` are archives, ``.gz``, ``.bz2``, ``.xz``, ``.lzma`` and ``.zst`` one compressed
message. Of all other files, of standard input and of what was compressed, the first bytes decide. Archives and
compressed messages inside an archive are read too. Other kinds of archives are named in the error.

Message ids are paths relative to the argument: the name of the file itself; ``sub/name.xml`` below a folder; the path
of the member in an archive, preceded by the path of the archive if that lies in a folder or in another archive. The id
of record *n* of a document, counted from 1, ends in ``#n``, unless the record gives itself another.
"""

import fnmatch
import gzip
import io
import lzma
import os
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, Literal, cast

from twigcast.errors import MessageLimitExceeded, RejectedMessage, SourceError, UnreadableMessage
from twigcast.limits import Limits
from twigcast.reading.options import ReadOptions
from twigcast.reading.preparation import prepared
from twigcast.reading.records import CHUNK_BYTES, Record, RecordBatch, cut_record_batches, cut_records, located
from twigcast.reading.repair_counts import RepairCounts
from twigcast.reading.repairs import RepairingStream
from twigcast.reading.streams import ByteStream
from twigcast.reading.unpacking import (
    COMPRESSION_DEPTH_MAX,
    PACKED_TOO_OFTEN,
    ZIP,
    compression_of,
    decompressed_stream,
    is_text,
    why_unread,
)

REJECTED_HEAD_BYTES: Final = 64 << 10
"""Bytes that are kept of a message over the size limit."""

Kind = Literal["file", "gzip", "bzip2", "xz", "zstd", "zip", "tar", "stdin", "special"]

_ARCHIVE_SUFFIXES: Final[tuple[tuple[str, Kind], ...]] = (
    (".zip", "zip"),
    (".tar", "tar"),
    (".tar.gz", "tar"),
    (".tgz", "tar"),
    (".tar.bz2", "tar"),
    (".tar.xz", "tar"),
    (".tar.zst", "tar"),
    (".tar.lzma", "tar"),
    (".tbz2", "tar"),
    (".tbz", "tar"),
    (".txz", "tar"),
    (".tlz", "tar"),
    (".tzst", "tar"),
    (".gz", "gzip"),
    (".bz2", "bzip2"),
    (".xz", "xz"),
    (".lzma", "xz"),
    (".zst", "zstd"),
)

_AS_THEY_ARE: Final = ReadOptions()

_ARCHIVE_DEPTH_MAX: Final = 4
"""Archives that may lie in each other."""

DAMAGE: Final = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,
    ValueError,
)
"""Exceptions of the standard library for unreadable files and for damaged, encrypted or unsupported archives."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was read."""

    id: str
    xml: bytes

    line: int = 1
    """The line of its document on which it begins: more than 1 for a record."""

    column: int = 1
    """The column of its document in which it begins."""

    added: int = 0
    """How many characters at its start do not stand in the document."""

    offset: int | None = None
    """Of a record: the bytes of its document before it, if that is in UTF-8."""

    length: int | None = None
    """Of a record: the bytes that it has in its document, if that is in UTF-8."""

    original: bytes | None = None
    """The message as it came, if it was converted, for :func:`~twigcast.reading.preparation.delivered`."""

    def located(self, error: RejectedMessage) -> RejectedMessage:
        """Returns an error of this message with the place in the document that it was cut from."""
        return located(error, self.line, self.column, self.added)


@dataclass(frozen=True, slots=True)
class RejectedInput:
    """A message that could not be read or cannot be processed."""

    id: str
    error: RejectedMessage
    xml: bytes = b""
    """Its bytes as far as they could be read; of a message over the size limit, the first 64 KiB."""

    offset: int | None = None
    """As :attr:`Message.offset`."""

    length: int | None = None
    """As :attr:`Message.length`; ``None`` also if its end was not found."""


@dataclass(frozen=True, slots=True)
class MessageFile:
    """One file to read messages from."""

    path: str
    """Its path; ``-`` for standard input."""

    kind: Kind

    id: str
    """Id of its message; for an archive, the prefix of the ids of its members (empty, or ending in ``/``)."""

    size: int
    """Bytes on disk; 0 if unknown."""

    changed: int = 0
    """When it was changed last, in nanoseconds since 1970; 0 if unknown."""


def find_message_files(arguments: Iterable[str | os.PathLike[str]], *, include: str | None = None) -> list[MessageFile]:
    """Finds the message files behind the arguments, those of a folder in the order of their paths.

    Hidden files and folders (``.name``) and by-products of other programs (``_name``, as Spark writes them, and
    ``__MACOSX``) are left out.

    Args:
        arguments: Files, folders, archives, or ``-`` for standard input.
        include: A pattern such as ``*.xml`` that names of files in folders must match; archives are always included.

    Raises:
        SourceError: An argument does not exist.
    """
    sources: list[MessageFile] = []
    for argument in arguments:
        path = os.fspath(argument)
        if path == "-":
            sources.append(MessageFile("-", "stdin", "-", 0))
            continue
        try:
            info = os.stat(path)  # noqa: PTH116 - Path.stat would lose a trailing slash, and so the reason
        except (OSError, ValueError) as error:
            raise SourceError(path, _what_happened(error)) from None
        if stat.S_ISDIR(info.st_mode):
            sources.extend(_walk(path, "", include, frozenset({(info.st_dev, info.st_ino)})))
        else:
            kind = kind_of(path)
            name = "" if kind in ("zip", "tar") else _text(Path(path).name)
            sources.append(MessageFile(path, kind, name, info.st_size, info.st_mtime_ns))
    return sources


def read_messages(
    arguments: Iterable[str | os.PathLike[str]],
    options: ReadOptions = _AS_THEY_ARE,
    *,
    limits: Limits | None = None,
    repairs: RepairCounts | None = None,
) -> Iterator[Message | RejectedInput]:
    """Reads the messages behind the arguments one after the other, with unique ids.

    If two arguments lead to the same id, the later one gets the path of its file as its id.

    Args:
        arguments: Files, folders, archives, or ``-`` for standard input.
        options: How the files are cut into messages.
        limits: ``message_bytes_max`` applies to each message or record.
        repairs: Counts the repairs, if there are any to be made.

    Raises:
        SourceError: An argument does not exist, or the file of the DTD cannot be read.
    """
    bytes_max = (limits or Limits()).message_bytes_max
    repairs = RepairCounts() if repairs is None else repairs
    seen: set[str] = set()
    for name, stream in open_documents(arguments, options):
        for item in _read(name, stream, options, bytes_max, repairs):
            # Records may give themselves the same ids.
            yield item if options.record_id is None else replace(item, id=_unique(item.id, seen))


def open_documents(
    arguments: Iterable[str | os.PathLike[str]], options: ReadOptions = _AS_THEY_ARE
) -> Generator[tuple[str, ByteStream | UnreadableMessage], None, None]:
    """Opens the documents behind the arguments one after the other.

    Yields their ids, as :func:`read_messages` makes them, each with a stream of the bytes or the reason why there is
    none. The next one ends a stream.

    Raises:
        SourceError: An argument does not exist, or the file of the DTD cannot be read.
    """
    arguments = list(arguments)
    options.types.declarations()  # raises if the DTD is wrong, before anything is read
    sources = find_message_files(arguments, include=options.include)
    seen: set[str] = set()
    for source in sources:
        for name, stream in _open(source, options.include):
            yield (name if len(arguments) == 1 else _unique_of_file(name, source, seen)), stream


def read_message_file(
    source: MessageFile,
    options: ReadOptions = _AS_THEY_ARE,
    *,
    limits: Limits | None = None,
    repairs: RepairCounts | None = None,
) -> Iterator[Message | RejectedInput]:
    """Reads the messages of one file in order. ``limits``, ``repairs``: as for :func:`read_messages`."""
    bytes_max = (limits or Limits()).message_bytes_max
    repairs = RepairCounts() if repairs is None else repairs
    for name, stream in _open(source, options.include):
        yield from _read(name, stream, options, bytes_max, repairs)


@dataclass(frozen=True, slots=True)
class NamedRecords:
    """Some records of one document."""

    document: str
    """The id of the document."""

    first: int
    """The number of the first of these records, from 1."""

    batch: RecordBatch

    repairs: int = 0
    """How many repairs were made in the piece of the document that was read for them."""


def read_record_batches(
    source: MessageFile, options: ReadOptions, *, limits: Limits | None = None, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[NamedRecords | RejectedInput]:
    """Reads the records of one file as :func:`read_message_file` does, those together that end in one chunk of it."""
    bytes_max = (limits or Limits()).message_bytes_max
    for name, stream in _open(source, options.include):
        if isinstance(stream, UnreadableMessage):
            yield RejectedInput(name, stream)
            continue
        repairs = RepairCounts()
        if options.tolerant:
            stream = RepairingStream(stream, repairs, options.types.declares)
        waiting: NamedRecords | None = None
        first, counted, damage = 1, 0, None
        try:
            for batch in cut_record_batches(
                stream, options, bytes_max=bytes_max, chunk_bytes=chunk_bytes, inherited=repairs.inherited
            ):
                if waiting is not None:
                    yield waiting
                waiting = NamedRecords(name, first, batch, repairs.total - counted)
                first, counted = first + len(batch), repairs.total
        except DAMAGE as error:
            damage = RejectedInput(f"{name}#{first}", unreadable(error))
        if waiting is not None:
            # What is repaired behind the last record counts with it.
            yield replace(waiting, repairs=waiting.repairs + repairs.total - counted)
        if damage is not None:
            yield damage


def kind_of(path: str) -> Kind:
    """Returns how a file with this name is read."""
    name = path.lower()
    for suffix, kind in _ARCHIVE_SUFFIXES:
        if name.endswith(suffix):
            return kind
    return "file"


# --- finding ----------------------------------------------------------------------------------------------------------


def _walk(folder: str, prefix: str, include: str | None, around: frozenset[tuple[int, int]]) -> Iterator[MessageFile]:
    """Yields the message files below a folder. ``around`` identifies it and its ancestors, against loops of links."""
    try:
        with os.scandir(folder) as entries:
            results = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        # Reading the folder as a message fails too: so it is reported with the reason, not skipped.
        yield MessageFile(folder, "file", prefix.rstrip("/") or _text(Path(folder).name), 0)
        return
    for entry in results:
        if entry.name.startswith((".", "_")):
            continue
        name = prefix + _text(entry.name)
        try:
            info = entry.stat()
        except OSError:
            yield MessageFile(entry.path, "file", name, 0)
            continue
        if stat.S_ISDIR(info.st_mode):
            identity = (info.st_dev, info.st_ino)
            if identity not in around:
                yield from _walk(entry.path, f"{name}/", include, around | {identity})
        elif (file := message_file(entry.path, name, info, include)) is not None:
            yield file


def message_file(path: str, name: str, info: os.stat_result, include: str | None = None) -> MessageFile | None:
    """Returns the file at a path, which is ``name`` below its folder; ``None`` if it is not included.

    Args:
        path: The path of a file.
        name: The id of its message.
        info: Its size and times, by the operating system.
        include: A pattern that its name must match, unless it is an archive.
    """
    own_name = os.path.basename(path)  # noqa: PTH119 - this runs for each of very many files
    kind = kind_of(own_name)
    if kind in ("zip", "tar"):
        return MessageFile(path, kind, f"{_text(name)}/", info.st_size, info.st_mtime_ns)
    if not _included(own_name, include):
        return None
    # A pipe or a socket would block the reader forever.
    is_regular = stat.S_ISREG(info.st_mode)
    return MessageFile(path, kind if is_regular else "special", _text(name), info.st_size, info.st_mtime_ns)


def _text(name: str) -> str:
    """Returns the name of a file as text, with bytes that are not UTF-8 in hexadecimal."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _included(name: str, include: str | None) -> bool:
    return include is None or fnmatch.fnmatch(name, include)


def _unique_of_file(name: str, source: MessageFile, seen: set[str]) -> str:
    """Returns an id that is not taken for a document of a message file: with the path of that if need be."""
    if name in seen:
        path = _text(source.path)
        with_path = f"{path}/{name}" if source.kind in ("zip", "tar") else path
        name = name if with_path in seen else with_path
    return _unique(name, seen)


def _unique(name: str, seen: set[str]) -> str:
    """Returns an id that is not taken, and takes it: an archive, too, may hold several members of one name."""
    unique, copy = name, 1
    while unique in seen:
        copy += 1
        unique = f"{name} ({copy})"
    seen.add(unique)
    return unique


# --- opening and reading ----------------------------------------------------------------------------------------------

_Opened = Iterator[tuple[str, ByteStream | UnreadableMessage]]
"""Ids of messages, each with a stream of its bytes or the reason why there is none. The next item ends a stream."""


def _open(source: MessageFile, include: str | None) -> _Opened:
    """Opens the streams of a message file."""
    try:
        if source.kind == "stdin":
            stdin = io.BufferedReader(_ArrivingStream(sys.stdin.buffer), buffer_size=1 << 16)
            yield from _unnamed(stdin, "-", "-", include, 1)
            return
        if source.kind == "special":
            yield source.id, UnreadableMessage("it is not a regular file")
            return
        with Path(source.path).open("rb") as file:
            yield from _members(file, source.kind, _text(Path(source.path).name), source.id, include)
    except DAMAGE as error:
        yield source.id.rstrip("/") or _text(Path(source.path).name), unreadable(error)


def _members(stream: ByteStream, kind: Kind, name: str, prefix: str, include: str | None, depth: int = 1) -> _Opened:
    """Opens the streams in a stream of some kind. ``prefix``: of the ids of an archive's members, or the id itself."""
    if kind in ("zip", "tar") and depth > _ARCHIVE_DEPTH_MAX:
        reason = f"archives lie in each other more than {_ARCHIVE_DEPTH_MAX} deep: take them apart first"
        yield prefix.rstrip("/"), UnreadableMessage(reason)
    elif kind == "zip":
        # The table of contents of a zip file is at its end.
        is_file = depth == 1 and cast("IO[bytes]", stream).seekable()
        file = stream if is_file else io.BytesIO(stream.read())
        yield from _zip_members(cast("IO[bytes]", file), prefix, include, depth)
    elif kind == "tar":
        if name.lower().endswith((".zst", ".tzst")):
            stream = decompressed_stream(stream, "zstd")
        yield from _tar_members(cast("IO[bytes]", stream), prefix, include, depth)
    elif kind in ("gzip", "bzip2", "xz", "zstd"):
        if depth > COMPRESSION_DEPTH_MAX:
            yield prefix, UnreadableMessage(PACKED_TOO_OFTEN)
            return
        buffered = _peekable(stream)
        head = buffered.peek(512)
        found = compression_of(head)
        if found is None and is_text(head):
            # Some servers decompress what they send and leave the name as it was.
            yield from _unnamed(buffered, _without_compression(name), prefix, include, depth + 1)
            return
        kind, stream = found or kind, buffered
        # What was compressed may be an archive, or compressed itself.
        decompressed = io.BufferedReader(_ArrivingStream(decompressed_stream(stream, kind)), buffer_size=1 << 16)
        yield from _unnamed(decompressed, _without_compression(name), prefix, include, depth + 1)
    else:
        yield from _unnamed(stream, name, prefix, include, depth)


def _unnamed(stream: ByteStream, name: str, prefix: str, include: str | None, depth: int) -> _Opened:
    """Opens the streams in a stream as its first bytes require: no XML document starts like an archive."""
    buffered = _peekable(stream)
    head = buffered.peek(512)
    compression = compression_of(head)
    archive: Kind | None = "zip" if head.startswith(ZIP) else "tar" if head[257:262] == b"ustar" else None
    if archive is not None:
        # Members of an archive on standard input have their own names.
        prefix = "" if prefix == "-" else f"{prefix}/"
        yield from _members(buffered, archive, name, prefix, include, depth)
    elif compression is not None:
        yield from _members(buffered, compression, name, prefix, include, depth)
    elif (reason := why_unread(head, name)) is not None:
        yield prefix, UnreadableMessage(reason)
    else:
        yield prefix, buffered


def _peekable(stream: ByteStream) -> io.BufferedReader:
    """Returns a stream of which the first bytes can be looked at."""
    if hasattr(stream, "peek"):
        return cast("io.BufferedReader", stream)
    return io.BufferedReader(_ArrivingStream(stream), buffer_size=1 << 16)


def _without_compression(name: str) -> str:
    """Returns the name of the file inside a compressed file."""
    return name[: name.rindex(".")] if kind_of(name) in ("gzip", "bzip2", "xz", "zstd") else name


class _ArrivingStream(io.RawIOBase):
    """A stream that returns bytes as they arrive. Its first read returns enough of them to recognise the format."""

    def __init__(self, stream: ByteStream) -> None:
        self._read = getattr(stream, "read1", stream.read)
        self._is_start = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        while self._is_start and not self._is_telling(data):
            more = self._read(len(buffer) - len(data))
            if not more:
                break
            data += more
        self._is_start = False
        buffer[: len(data)] = data
        return len(data)

    @staticmethod
    def _is_telling(head: bytes) -> bool:
        """Returns whether the first bytes tell what they begin: XML, or all that an archive is known by."""
        return len(head) >= 512 or is_text(head)


def _nested(name: str, stream: ByteStream, include: str | None, depth: int) -> _Opened:
    """Opens a member of an archive, which may be an archive itself."""
    kind = kind_of(name)
    prefix = f"{name}/" if kind in ("zip", "tar") else name
    try:
        yield from _members(stream, kind, name, prefix, include, depth + 1)
    except DAMAGE as error:
        yield name, unreadable(error)


def _zip_members(file: IO[bytes], prefix: str, include: str | None, depth: int) -> _Opened:
    seen: set[str] = set()
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.is_dir() or not _is_included(member.filename, include):
                continue
            name = _unique(prefix + member.filename, seen)
            try:
                stream = archive.open(member)
            except DAMAGE as error:
                yield name, unreadable(error)
                continue
            with stream:
                yield from _nested(name, stream, include, depth)


def _tar_members(file: IO[bytes], prefix: str, include: str | None, depth: int) -> _Opened:
    seen: set[str] = set()
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for member in archive:
            # Links and devices in an archive are not messages, and a link could lead anywhere.
            stream = archive.extractfile(member) if member.isfile() and _is_included(member.name, include) else None
            if stream is not None:
                name = _unique(prefix + _text(member.name.removeprefix("./")), seen)
                yield from _nested(name, stream, include, depth)


def _is_included(member: str, include: str | None) -> bool:
    parts = member.removeprefix("./").split("/")
    if any(part.startswith((".", "_")) for part in parts):
        return False
    return kind_of(parts[-1]) in ("zip", "tar") or _included(parts[-1], include)


def _read(
    name: str, stream: ByteStream | UnreadableMessage, options: ReadOptions, bytes_max: int, repairs: RepairCounts
) -> Iterator[Message | RejectedInput]:
    """Reads the messages of one document."""
    if isinstance(stream, UnreadableMessage):
        yield RejectedInput(name, stream)
    elif options.cuts:
        yield from _records(name, stream, options, bytes_max, repairs)
    else:
        yield _whole(name, stream, options, bytes_max, repairs)


def _whole(
    name: str, stream: ByteStream, options: ReadOptions, bytes_max: int, repairs: RepairCounts
) -> Message | RejectedInput:
    """Reads a stream as one message."""
    try:
        xml = stream.read(bytes_max + 1)
    except DAMAGE as error:
        return RejectedInput(name, unreadable(error))
    if len(xml) > bytes_max:
        return RejectedInput(name, _too_large(bytes_max), xml[:REJECTED_HEAD_BYTES])
    try:
        plain = prepared(xml, options, bytes_max, repairs)
        return Message(name, plain, original=None if plain is xml else xml)
    except RejectedMessage as error:
        return RejectedInput(name, error, xml[:REJECTED_HEAD_BYTES])


def _records(
    prefix: str, stream: ByteStream, options: ReadOptions, bytes_max: int, repairs: RepairCounts
) -> Iterator[Message | RejectedInput]:
    """Reads a stream as many messages."""
    if options.tolerant:
        stream = RepairingStream(stream, repairs, options.types.declares)
    records = cut_records(stream, options, bytes_max=bytes_max, inherited=repairs.inherited)
    yield from records_as_messages(prefix, records)


def records_as_messages(prefix: str, cut: Iterable[Record], first: int = 1) -> Iterator[Message | RejectedInput]:
    """Yields records as messages, of which the first one has a number in its document."""
    number = first - 1
    try:
        for number, item in enumerate(cut, start=first):
            name = item.id or f"{prefix}#{number}"
            if item.error is None:
                yield Message(name, item.xml, item.line, item.column, item.added, item.offset, item.length)
            else:
                yield RejectedInput(name, item.error, item.xml, item.offset, item.length)
    except DAMAGE as error:
        yield RejectedInput(f"{prefix}#{number + 1}", unreadable(error))


def unreadable(error: Exception) -> UnreadableMessage:
    """Returns one of :data:`DAMAGE` as the error of the message that could not be read."""
    return UnreadableMessage(_what_happened(error))


def _too_large(bytes_max: int) -> MessageLimitExceeded:
    return MessageLimitExceeded("message_bytes_max", bytes_max, f"the message is larger than {bytes_max:,} bytes")


def _what_happened(error: Exception) -> str:
    """Describes an error of the operating system or of an archive."""
    if isinstance(error, zipfile.BadZipFile) and str(error) == "File is not a zip file":
        return "the archive is damaged: the list at its end is missing, so it has been cut short or is no zip file"
    if isinstance(
        error, gzip.BadGzipFile | EOFError | zlib.error | lzma.LZMAError | zipfile.BadZipFile | tarfile.TarError
    ):
        return f"the compressed file is damaged: {error}"
    if isinstance(error, OSError) and error.errno is None:
        return f"the compressed file is damaged: {error}"  # the system names its errors by number
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder (any more)"
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be read: {error.strerror}"
    return f"it cannot be read: {error}"
