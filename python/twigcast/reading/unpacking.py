"""Tells by first bytes whether a file is compressed, an archive, or of a kind that is not read, and opens it."""

from __future__ import annotations

import io
from typing import IO, Any, Final, Literal, cast

from twigcast.reading.streams import ByteStream

Compression = Literal["gzip", "bzip2", "xz", "zstd"]

_FIRST_BYTES: Final[tuple[tuple[bytes, Compression], ...]] = (
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"]\0\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)

ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
"""What zip archives begin with."""

_NOT_READ: Final = (
    (b"7z\xbc\xaf\x27\x1c", "an archive of 7-Zip", "7z x"),
    (b"Rar!\x1a\x07", "an archive of RAR", "unrar x"),
    (b"MSCF", "a cabinet archive", "cabextract"),
    (b"\x1f\x9d", "compressed with compress (.Z)", "uncompress -c"),
    (b"\x1f\xa0", "compressed with compress (.Z)", "uncompress -c"),
    (b"LZIP", "compressed with lzip", "lzip -dc"),
    (b"\x04\x22\x4d\x18", "compressed with LZ4", "lz4 -dc"),
    (b"\x89LZO\0\r\n\x1a\n", "compressed with lzop", "lzop -dc"),
    (b"\xff\x06\0\0sNaPpY", "compressed with Snappy", "snzip -dc"),
)
"""First bytes of files that are not read, what these are, and what takes them apart."""


def is_packed(data: bytes) -> bool:
    """Returns whether the first bytes of a file say that it is compressed: no text, and no XML, begins like this."""
    return compression_of(data) is not None


def compression_of(head: bytes) -> Compression | None:
    """Returns how a file is compressed that begins so, if it is."""
    return next((compression for start, compression in _FIRST_BYTES if head.startswith(start)), None)


def why_unread(head: bytes, name: str, *, is_document: bool = False) -> str | None:
    """Returns why a file is not read that begins so, if it is of a kind that is known and not read.

    ``is_document``: it may only be one document, and no archive.
    """
    if is_document and head.startswith(ZIP):
        return "it is an archive, which may hold many documents: read them one by one with twigcast.reading.messages"
    kind = next(((what, how) for start, what, how in _NOT_READ if head.startswith(start)), None)
    is_text = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<"
    if kind is None and name.lower().endswith(".br") and head and not is_text:
        # Nothing in the bytes tells what they are.
        kind = ("compressed with Brotli", "brotli -dc")
    return None if kind is None else f"it is {kind[0]}, which is not read: decompress it first, as with {kind[1]}"


def unpacked(file: ByteStream) -> io.BufferedReader:
    """Returns what a file in binary holds: what was compressed with gzip, bzip2, xz or zstd, or its bytes as they are.

    Reading from it raises an ``OSError`` if the compressed data is damaged or cut short.

    Raises:
        ValueError: It is compressed with zstd, and pyarrow is not installed.
    """
    stream = file if isinstance(file, io.BufferedReader) else io.BufferedReader(_RawStream(file))
    compression = compression_of(stream.peek(8))
    if compression is None:
        return stream
    damage: tuple[type[Exception], ...] = (EOFError,)
    if compression == "gzip":
        import zlib

        damage = (EOFError, zlib.error)
    elif compression == "xz":
        import lzma

        damage = (EOFError, lzma.LZMAError)
    return io.BufferedReader(_RawStream(decompressed_stream(stream, compression), damage))


def decompressed_stream(stream: ByteStream, compression: Compression) -> ByteStream:
    """Returns a stream of what a compressed stream holds, which raises what the decompressor does.

    Raises:
        ValueError: It is compressed with zstd, and pyarrow is not installed.
    """
    file = cast("IO[bytes]", stream)
    # Most programs need none of these modules.
    if compression == "gzip":
        import gzip

        return gzip.GzipFile(fileobj=file)
    if compression == "bzip2":
        import bz2

        return bz2.BZ2File(file)
    if compression == "xz":
        import lzma

        return lzma.LZMAFile(file)
    try:
        import pyarrow as pa
    except ImportError:
        reason = "it is compressed with zstd, which takes twigcast[arrow]: install that, or decompress it with zstd -dc"
        raise ValueError(reason) from None
    return cast("ByteStream", pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"))


class _RawStream(io.RawIOBase):
    """A stream under a buffer, which raises an ``OSError`` for whatever is damaged.

    Args:
        stream: The stream.
        damage: The errors that it raises for that.
    """

    def __init__(self, stream: Any, damage: tuple[type[Exception], ...] = ()) -> None:
        self._stream = cast("ByteStream", stream)
        self._damage = damage

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except self._damage as error:
            raise OSError(f"the compressed file is damaged: {error}") from error
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"a file must be read as bytes: open it in binary; read() returns {type(data).__name__}")
        buffer[: len(data)] = data
        return len(data)
