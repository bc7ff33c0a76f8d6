"""Compression and bounded decompression of bodies."""

from __future__ import annotations

import sys
import zlib
from typing import Final

from twigcast.overlay.onyx.wire.errors import WireError
from twigcast.overlay.onyx.wire.forms import Compression

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ZLIB_LEVEL: Final = 6
"""The default of zlib, as in the published measurements."""

ZSTD_LEVEL: Final = 3
"""The default of Zstandard."""


def compress(data: bytes, compression: Compression) -> bytes:
    """Compresses a body."""
    match compression:
        case Compression.NONE:
            return data
        case Compression.ZLIB:
            return zlib.compress(data, ZLIB_LEVEL)
        case Compression.ZSTD:
            return zstd.compress(data, ZSTD_LEVEL)


def decompress(data: bytes, compression: Compression, bytes_max: int) -> bytes:
    """Decompresses a body of at most ``bytes_max`` bytes.

    Raises:
        WireError: The body is damaged, cut off or followed by other bytes, or holds more than ``bytes_max`` bytes.
    """
    match compression:
        case Compression.NONE:
            plain = data
        case Compression.ZLIB:
            plain = _from_zlib(data, bytes_max)
        case Compression.ZSTD:
            plain = _from_zstd(data, bytes_max)
    if len(plain) > bytes_max:
        raise WireError(compression, f"it holds more than {bytes_max} bytes")
    return plain


def _from_zlib(data: bytes, bytes_max: int) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        # One byte more than allowed shows that there is more.
        plain = decompressor.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise WireError(Compression.ZLIB, str(error)) from error
    if len(plain) <= bytes_max:
        _check_end(Compression.ZLIB, decompressor.eof, decompressor.unused_data)
    return plain


def _from_zstd(data: bytes, bytes_max: int) -> bytes:
    decompressor = zstd.ZstdDecompressor()
    try:
        plain = decompressor.decompress(data, bytes_max + 1)
    except zstd.ZstdError as error:
        raise WireError(Compression.ZSTD, str(error)) from error
    if len(plain) <= bytes_max:
        _check_end(Compression.ZSTD, decompressor.eof, decompressor.unused_data)
    return plain


def _check_end(compression: Compression, has_ended: bool, unused: bytes) -> None:
    if not has_ended:
        raise WireError(compression, "it is cut off")
    if unused:
        raise WireError(compression, f"{len(unused)} bytes follow its end")
