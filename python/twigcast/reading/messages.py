"""Reading messages: files, folders, archives, standard input, and records inside one large file.

A *message file* is one file on disk: a message, a compressed message, an archive of messages, or (if messages are cut
at a record element) a document that holds many. :func:`find_message_files` lists the files behind the arguments of a
user; :func:`read_message_file` reads one. They are separate so that a pipeline can distribute the files to workers.

A message that cannot be read becomes a :class:`RejectedInput`, and reading goes on with the next one.

The name of a file decides its kind: ``.zip``, ``.tar``, ``.tar.gz``, ``.tgz``, ``.tar.bz2`` and ``.tar.xz`` are
archives, ``.gz`` is one compressed message, and anything else is one message. Standard input has no name: its first
bytes decide. An archive inside an archive is read as a message, and rejected because it is not XML.

Message ids are paths relative to the argument: the name of the file itself; ``sub/name.xml`` below a folder; the path
of the member in an archive, preceded by the path of the archive if that lies in a folder. The id of record *n* of a
document, counted from 1, ends in ``#n``; if the document is the only argument, the id is just ``#n``.
"""

import fnmatch
import gzip
import io
import os
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, Literal

from twigcast.errors import MessageLimitExceeded, RejectedMessage, SourceError, UnreadableMessage
from twigcast.limits import Limits
from twigcast.reading.records import ByteStream, cut_records

REJECTED_HEAD_BYTES: Final = 64 << 10
"""Bytes that are kept of a message over the size limit."""

Kind = Literal["file", "gzip", "zip", "tar", "stdin", "special"]

_ARCHIVE_SUFFIXES: Final[tuple[tuple[str, Kind], ...]] = (
    (".zip", "zip"),
    (".tar", "tar"),
    (".tar.gz", "tar"),
    (".tgz", "tar"),
    (".tar.bz2", "tar"),
    (".tar.xz", "tar"),
    (".gz", "gzip"),
)

_DAMAGE: Final = (OSError, EOFError, zipfile.BadZipFile, tarfile.TarError, zlib.error, RuntimeError, ValueError)
"""Exceptions of the standard library for unreadable files and for damaged, encrypted or unsupported archives."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was read."""

    id: str
    xml: bytes


@dataclass(frozen=True, slots=True)
class RejectedInput:
    """A message that could not be read or cannot be processed."""

    id: str
    error: RejectedMessage
    xml: bytes = b""
    """Its bytes as far as they could be read; of a message over the size limit, the first 64 KiB."""


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

    alone: bool = False
    """Whether it is the only argument, so that its records are named by their number alone."""


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
    arguments = list(arguments)
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
            sources.append(
                MessageFile(path, kind, "" if kind in ("zip", "tar") else _text(Path(path).name), info.st_size)
            )
    if len(arguments) == 1 and len(sources) == 1 and sources[0].kind in ("file", "gzip", "stdin"):
        only = sources[0]
        if only.kind == "stdin" or not Path(os.fspath(arguments[0])).is_dir():
            sources = [replace(only, alone=True)]
    return sources


def read_messages(
    arguments: Iterable[str | os.PathLike[str]],
    *,
    record: str | None = None,
    include: str | None = None,
    limits: Limits | None = None,
) -> Iterator[Message | RejectedInput]:
    """Reads the messages behind the arguments one after the other, with unique ids.

    If two arguments lead to the same id, the later one gets the path of its file as its id.

    Args:
        arguments: Files, folders, archives, or ``-`` for standard input.
        record: Element at which each document is cut into messages: ``name`` (with any prefix), ``prefix:name`` as it
            is written, or ``{namespace}name``. Of nested elements, the outermost one is the record.
        include: A pattern such as ``*.xml`` that names in folders and archives must match.
        limits: ``message_bytes_max`` applies to each message or record.

    Raises:
        SourceError: An argument does not exist.
    """
    arguments = list(arguments)
    sources = find_message_files(arguments, include=include)
    if len(arguments) == 1:
        for source in sources:
            yield from read_message_file(source, record=record, include=include, limits=limits)
        return
    seen: set[str] = set()
    for source in sources:
        for item in read_message_file(source, record=record, include=include, limits=limits):
            yield _with_unique_id(item, source, seen)


def read_message_file(
    source: MessageFile, *, record: str | None = None, include: str | None = None, limits: Limits | None = None
) -> Iterator[Message | RejectedInput]:
    """Reads the messages of one file in order. Arguments as for :func:`read_messages`."""
    bytes_max = (limits or Limits()).message_bytes_max
    for name, stream in _open(source, include):
        if isinstance(stream, UnreadableMessage):
            yield RejectedInput(name, stream)
        elif record is None:
            yield _whole(name, stream, bytes_max)
        else:
            yield from _records("" if source.alone else name, stream, record, bytes_max)


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
        elif kind_of(entry.name) in ("zip", "tar"):
            yield MessageFile(entry.path, kind_of(entry.name), f"{name}/", info.st_size)
        elif _included(entry.name, include):
            # A pipe or a socket would block the reader forever.
            regular = stat.S_ISREG(info.st_mode)
            kind: Kind = kind_of(entry.name) if regular else "special"
            yield MessageFile(entry.path, kind, name, info.st_size)


def _text(name: str) -> str:
    """Returns the name of a file as text, with bytes that are not UTF-8 in hexadecimal."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _included(name: str, include: str | None) -> bool:
    return include is None or fnmatch.fnmatch(name, include)


def _with_unique_id(item: Message | RejectedInput, source: MessageFile, seen: set[str]) -> Message | RejectedInput:
    name = item.id
    if name in seen:
        number = f"#{name.rpartition('#')[2]}" if "#" in name else ""
        path = _text(source.path)
        name = f"{path}/{name}" if source.kind in ("zip", "tar") else f"{path}{number}"
    copy = 2
    while name in seen:
        name = f"{item.id} ({copy})"
        copy += 1
    seen.add(name)
    return replace(item, id=name)


# --- opening and reading ----------------------------------------------------------------------------------------------

_Opened = Iterator[tuple[str, ByteStream | UnreadableMessage]]
"""Ids of messages, each with a stream of its bytes or the reason why there is none. The next item ends a stream."""


def _open(source: MessageFile, include: str | None) -> _Opened:
    """Opens the streams of a message file."""
    try:
        if source.kind == "stdin":
            yield from _open_stdin(sys.stdin.buffer, include)
            return
        if source.kind == "special":
            yield source.id, UnreadableMessage("it is not a regular file")
            return
        with Path(source.path).open("rb") as file:
            if source.kind == "zip":
                yield from _zip_members(file, source.id, include)
            elif source.kind == "tar":
                yield from _tar_members(file, source.id, include)
            else:
                yield source.id, gzip.GzipFile(fileobj=file) if source.kind == "gzip" else file
    except _DAMAGE as error:
        yield source.id.rstrip("/") or _text(Path(source.path).name), UnreadableMessage(_what_happened(error))


def _open_stdin(stdin: ByteStream, include: str | None) -> _Opened:
    """Opens standard input as its first bytes require: no XML document starts like an archive."""
    stream = io.BufferedReader(_Whole(stdin), buffer_size=1 << 16)
    head = stream.peek(4)
    if head.startswith(b"PK\x03\x04"):
        # The table of contents of a zip file is at its end.
        yield from _zip_members(io.BytesIO(stream.read()), "", include)
        return
    if head.startswith(b"\x1f\x8b"):
        stream = io.BufferedReader(_Whole(gzip.GzipFile(fileobj=stream)), buffer_size=1 << 16)
    if stream.peek(512)[257:262] == b"ustar":
        yield from _tar_members(stream, "", include)
    else:
        yield "-", stream


class _Whole(io.RawIOBase):
    """A stream whose reads are never short before its end, so that a buffer over it can always peek far enough."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _zip_members(file: IO[bytes], prefix: str, include: str | None) -> _Opened:
    names = _UniqueNames()
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.is_dir() or not _is_included(member.filename, include):
                continue
            name = names.make_unique(prefix + member.filename)
            try:
                stream = archive.open(member)
            except _DAMAGE as error:
                yield name, UnreadableMessage(_what_happened(error))
                continue
            with stream:
                yield name, stream


def _tar_members(file: IO[bytes], prefix: str, include: str | None) -> _Opened:
    names = _UniqueNames()
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for member in archive:
            # Links and devices in an archive are not messages, and a link could lead anywhere.
            stream = archive.extractfile(member) if member.isfile() and _is_included(member.name, include) else None
            if stream is not None:
                yield names.make_unique(prefix + _text(member.name.removeprefix("./"))), stream


def _is_included(member: str, include: str | None) -> bool:
    parts = member.removeprefix("./").split("/")
    return not any(part.startswith((".", "_")) for part in parts) and _included(parts[-1], include)


class _UniqueNames:
    """Numbers for equal names: an archive may hold several members of one name."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def make_unique(self, name: str) -> str:
        unique = name
        number = 1
        while unique in self._seen:
            number += 1
            unique = f"{name} ({number})"
        self._seen.add(unique)
        return unique


def _whole(name: str, stream: ByteStream, bytes_max: int) -> Message | RejectedInput:
    """Reads a stream as one message."""
    try:
        xml = stream.read(bytes_max + 1)
    except _DAMAGE as error:
        return RejectedInput(name, UnreadableMessage(_what_happened(error)))
    if len(xml) > bytes_max:
        return RejectedInput(name, _too_large(bytes_max), xml[:REJECTED_HEAD_BYTES])
    return Message(name, xml)


def _records(prefix: str, stream: ByteStream, record: str, bytes_max: int) -> Iterator[Message | RejectedInput]:
    """Reads a stream as many messages."""
    number = 0
    try:
        for number, item in enumerate(cut_records(stream, record, bytes_max=bytes_max), start=1):
            name = f"{prefix}#{number}"
            yield Message(name, item.xml) if item.error is None else RejectedInput(name, item.error, item.xml)
    except _DAMAGE as error:
        yield RejectedInput(f"{prefix}#{number + 1}", UnreadableMessage(_what_happened(error)))


def _too_large(bytes_max: int) -> MessageLimitExceeded:
    return MessageLimitExceeded("message_bytes_max", bytes_max, f"the message is larger than {bytes_max:,} bytes")


def _what_happened(error: Exception) -> str:
    """Describes an error of the operating system or of an archive."""
    if isinstance(error, gzip.BadGzipFile | EOFError | zlib.error | zipfile.BadZipFile | tarfile.TarError):
        return f"the compressed file is damaged: {error}"
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder (any more)"
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be read: {error.strerror}"
    return f"it cannot be read: {error}"
