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

COMPRESSION_DEPTH_MAX: Final = 6
"""How often what is read may have been compressed; of archives that lie in each other, those layers count too."""

PACKED_TOO_OFTEN: Final = "it is compressed again and again: decompress it first"
"""Why something is not read that was compressed more often."""

_ZSTD_BYTES: Final = 1 << 18
_UNFILLED: Final = b"\xff"
"""A byte that stands in no text in UTF-8."""

_CUT_SHORT: Final = "Compressed file ended before the end-of-stream marker was reached"
"""The message of Python's decompressors for the other kinds of compression."""

ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
"""The first bytes of zip archives."""

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
"""Formats that are not read: first bytes, name, and the command that unpacks them."""


class DamagedFile(OSError):
    """The fault of compressed data that is damaged or cut short, raised once all before that has been read."""


def is_packed(data: bytes) -> bool:
    """Returns whether the first bytes of a file say that it is compressed: no text, and no XML, begins like this."""
    return compression_of(data) is not None


def compression_of(head: bytes) -> Compression | None:
    """Returns how a file is compressed that begins so, if it is."""
    return next((compression for start, compression in _FIRST_BYTES if head.startswith(start)), None)


def is_text(head: bytes) -> bool:
    """Returns whether a file that begins so can only be XML."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<"


def why_unread(head: bytes, name: str, *, is_document: bool = False) -> str | None:
    """Returns why a file is not read that begins so, if it is of a kind that is known and not read.

    ``is_document``: it may only be one document, and no archive.
    """
    if is_document and head.startswith(ZIP):
        return "it is an archive, which may hold many documents: read them one by one with twigcast.reading.messages"
    kind = next(((what, how) for start, what, how in _NOT_READ if head.startswith(start)), None)
    if kind is None and name.lower().endswith(".br") and head and not is_text(head):
        # Nothing in the bytes tells what they are.
        kind = ("compressed with Brotli", "brotli -dc")
    return None if kind is None else f"it is {kind[0]}, which is not read: decompress it first, as with {kind[1]}"


def unpacked(file: ByteStream) -> io.BufferedReader:
    """Returns what a file in binary holds: what was compressed with gzip, bzip2, xz or zstd, or its bytes as they are.

    What was compressed several times is decompressed as often. Reading from it raises :class:`DamagedFile` where the
    compressed data is damaged or cut short.

    Raises:
        ValueError: It is compressed with zstd, and pyarrow is not installed; or it was compressed again and again.
    """
    stream = file if isinstance(file, io.BufferedReader) else io.BufferedReader(_RawStream(file))
    for _ in range(COMPRESSION_DEPTH_MAX):
        compression = compression_of(stream.peek(8))
        if compression is None:
            return stream
        raw = _RawStream(decompressed_stream(stream, compression), _damage(compression))
        stream = io.BufferedReader(raw, buffer_size=1 << 16)
    if is_packed(stream.peek(8)):
        raise ValueError(PACKED_TOO_OFTEN)
    return stream


def _damage(compression: Compression) -> tuple[type[Exception], ...]:
    """Returns the errors that a decompressor raises for damaged data."""
    # Most programs need none of these modules.
    if compression == "gzip":
        import zlib

        return OSError, EOFError, zlib.error
    if compression == "xz":
        import lzma

        return OSError, EOFError, lzma.LZMAError
    return OSError, EOFError


def decompressed_stream(stream: ByteStream, compression: Compression) -> ByteStream:
    """Returns a stream of the decompressed bytes. Reading it raises the errors of the decompressor.

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
    return _ZstdStream(pa.CompressedInputStream(pa.PythonFile(file, "r"), "zstd"))


class _ZstdStream:
    """The decompressed bytes of a zstd stream, up to the point where it is damaged or cut short.

    pyarrow says nothing of what it decompressed before an error, but that stands in the memory that it was to fill.

    Args:
        stream: The stream of pyarrow.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._error: Exception | None = None

    def read(self, size: int = -1) -> bytes:
        """Returns at most ``size`` bytes, all of them if it is negative, and none at the end.

        Raises:
            EOFError: The compressed data was cut short, and all before that has been read.
            OSError: It is damaged, and all before that has been read.
        """
        if size < 0:
            return b"".join(iter(lambda: self.read(_ZSTD_BYTES), b""))
        if self._error is not None:
            raise self._error
        filled = bytearray(_UNFILLED * size)
        try:
            return bytes(filled[: self._stream.readinto(filled)])
        except OSError as error:
            is_cut = "truncated" in str(error).lower()
            self._error = EOFError(_CUT_SHORT) if is_cut else error
        # Where text is cut off in the middle of a character that ends like this, that was of no use anyway.
        before = bytes(filled).rstrip(_UNFILLED)
        return before or self.read(size)


class _RawStream(io.RawIOBase):
    """A stream under a buffer, which raises :class:`DamagedFile` for whatever is damaged.

    Args:
        stream: The stream.
        damage: The errors that it raises for that.
    """

    def __init__(self, stream: Any, damage: tuple[type[Exception], ...] = ()) -> None:
        # Some streams lose what they have decompressed where they are to read more and meet damage.
        self._read = getattr(stream, "read1", None) or stream.read
        self._damage = damage

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._read(len(buffer))
        except self._damage as error:
            if getattr(error, "errno", None) is not None or isinstance(error, DamagedFile):
                raise  # the file cannot be read, or what is compressed in it is damaged
            raise DamagedFile(f"the compressed file is damaged: {error}") from error
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"a file must be read as bytes: open it in binary; read() returns {type(data).__name__}")
        buffer[: len(data)] = data
        return len(data)
