"""Reading messages: files, folders, archives, standard input, and records inside one large file.

A *source* is one file as found on disk: a message, a compressed message, an archive of messages, or (when messages
are cut at a record element) a document that holds many. :func:`find_message_files` lists the sources behind the
arguments a user gave; :func:`read_message_file` reads one. The two are apart so that a pipeline can spread sources over
workers.

Whatever goes wrong with one message becomes a :class:`RejectedInput` in its place, and reading goes on.

Kinds are told by name: ``.zip``, ``.tar``, ``.tar.gz``, ``.tgz``, ``.tar.bz2``, ``.tar.xz`` (archives), ``.gz`` (one
compressed message), anything else (one message). Standard input has no name, so its first bytes decide. An archive
inside an archive is a message like any other member, and no XML.

Message ids are paths relative to the argument: the file's own name; ``sub/name.xml`` below a folder; the member's
path in an archive, after the archive's own path where that lies in a folder. Record *n* of a document, counted from
1, has ``#n`` appended; of a document that is the only argument it is just ``#n``.
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
"""Bytes kept of a message that is over the size limit."""

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
"""What the standard library raises on unreadable files and on damaged, encrypted or exotic archives."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was found."""

    id: str
    xml: bytes


@dataclass(frozen=True, slots=True)
class RejectedInput:
    """A message that could not be read or cannot be processed."""

    id: str
    error: RejectedMessage
    xml: bytes = b""
    """Its bytes as far as they were had; of a message over the size limit, the first 64 KiB."""


@dataclass(frozen=True, slots=True)
class MessageFile:
    """One file to read messages from."""

    path: str
    """Where it is; ``-`` for standard input."""

    kind: Kind

    id: str
    """Id of its message; of an archive, what the members' ids start with (empty, or ending in ``/``)."""

    size: int
    """Bytes on disk, 0 where unknown."""

    alone: bool = False
    """Whether it is all that was asked for, so that its records need no name but their number."""


def find_message_files(arguments: Iterable[str | os.PathLike[str]], *, include: str | None = None) -> list[MessageFile]:
    """The sources behind the arguments, folders in order of their sorted paths.

    Hidden files and folders (``.name``) and the by-products of other programs (``_name`` as Spark writes them,
    ``__MACOSX``) are left out.

    Args:
        arguments: Files, folders, archives, or ``-`` for standard input.
        include: A pattern such as ``*.xml`` that names of files in folders must match; archives are always taken.

    Raises:
        SourceError: There is nothing at an argument.
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
    """The messages behind the arguments, one after the other; ids are unique.

    Where two arguments would give the same id, the later ones are told apart by the path of their source.

    Args:
        arguments: Files, folders, archives, or ``-`` for standard input.
        record: Cut each document into messages at this element: ``name`` (with any prefix), ``prefix:name`` as it is
            written, or ``{namespace}name``. Of nested ones the outermost counts.
        include: A pattern such as ``*.xml`` that names in folders and archives must match.
        limits: ``message_bytes_max`` holds for each message (or record).

    Raises:
        SourceError: There is nothing at an argument.
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
    """The messages of one source, in order. Arguments as for :func:`read_messages`."""
    bytes_max = (limits or Limits()).message_bytes_max
    for name, stream in _open(source, include):
        if isinstance(stream, UnreadableMessage):
            yield RejectedInput(name, stream)
        elif record is None:
            yield _whole(name, stream, bytes_max)
        else:
            yield from _records("" if source.alone else name, stream, record, bytes_max)


def kind_of(path: str) -> Kind:
    """How a file with this name is read."""
    name = path.lower()
    for suffix, kind in _ARCHIVE_SUFFIXES:
        if name.endswith(suffix):
            return kind
    return "file"


# --- finding ----------------------------------------------------------------------------------------------------------


def _walk(folder: str, prefix: str, include: str | None, around: frozenset[tuple[int, int]]) -> Iterator[MessageFile]:
    """The sources below a folder. ``around`` identifies it and the folders it lies in, against loops of links."""
    try:
        with os.scandir(folder) as entries:
            results = sorted(entries, key=lambda entry: entry.name)
    except OSError:
        # Reading the folder as a message fails too and says why: it is reported, not skipped.
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
            # A pipe or a socket would block the reader for good.
            regular = stat.S_ISREG(info.st_mode)
            kind: Kind = kind_of(entry.name) if regular else "special"
            yield MessageFile(entry.path, kind, name, info.st_size)


def _text(name: str) -> str:
    """A file's name as text; bytes in it that are no UTF-8 are written in hexadecimal."""
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
"""Ids of messages, each with a stream of its bytes or the reason why there is none. A stream is good until the next."""


def _open(source: MessageFile, include: str | None) -> _Opened:
    """The streams of a source."""
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
    """Standard input, unpacked as its first bytes tell: no XML document starts like an archive."""
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
    """A stream whose reads are never short before its end, so that a buffer over it can look ahead far enough."""

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
            # Links and devices in an archive are no messages, and following them could lead anywhere.
            stream = archive.extractfile(member) if member.isfile() and _is_included(member.name, include) else None
            if stream is not None:
                yield names.make_unique(prefix + _text(member.name.removeprefix("./"))), stream


def _is_included(member: str, include: str | None) -> bool:
    parts = member.removeprefix("./").split("/")
    return not any(part.startswith((".", "_")) for part in parts) and _included(parts[-1], include)


class _UniqueNames:
    """Tells equal names apart by a number: an archive may hold several members of one name."""

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
    """One stream as one message."""
    try:
        xml = stream.read(bytes_max + 1)
    except _DAMAGE as error:
        return RejectedInput(name, UnreadableMessage(_what_happened(error)))
    if len(xml) > bytes_max:
        return RejectedInput(name, _too_large(bytes_max), xml[:REJECTED_HEAD_BYTES])
    return Message(name, xml)


def _records(prefix: str, stream: ByteStream, record: str, bytes_max: int) -> Iterator[Message | RejectedInput]:
    """One stream as many messages."""
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
    """An error of the operating system or of an archive, in words."""
    if isinstance(error, gzip.BadGzipFile | EOFError | zlib.error | zipfile.BadZipFile | tarfile.TarError):
        return f"the compressed file is damaged: {error}"
    if isinstance(error, FileNotFoundError):
        return "there is no such file or folder (any more)"
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be read: {error.strerror}"
    return f"it cannot be read: {error}"
