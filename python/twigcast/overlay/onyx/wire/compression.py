"""Compression of bodies, and its undoing within bounds."""

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
"""That of zlib by default, as in the published measurements."""

ZSTD_LEVEL: Final = 3
"""That of Zstandard by default."""


def compress(data: bytes, how: Compression) -> bytes:
    """Pack a body."""
    match how:
        case Compression.NONE:
            return data
        case Compression.ZLIB:
            return zlib.compress(data, ZLIB_LEVEL)
        case Compression.ZSTD:
            return zstd.compress(data, ZSTD_LEVEL)


def decompress(data: bytes, how: Compression, bytes_max: int) -> bytes:
    """Unpack a body of at most ``bytes_max`` bytes.

    Raises:
        WireError: The bytes are damaged, cut off or followed by others, or hold more than ``bytes_max`` bytes.
    """
    match how:
        case Compression.NONE:
            plain = data
        case Compression.ZLIB:
            plain = _from_zlib(data, bytes_max)
        case Compression.ZSTD:
            plain = _from_zstd(data, bytes_max)
    if len(plain) > bytes_max:
        raise WireError(how, f"it holds more than {bytes_max} bytes")
    return plain


def _from_zlib(data: bytes, bytes_max: int) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        # One byte more than allowed shows that there is more.
        plain = unpacking.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise WireError(Compression.ZLIB, str(error)) from error
    if len(plain) <= bytes_max:
        _whole(Compression.ZLIB, unpacking.eof, unpacking.unused_data)
    return plain


def _from_zstd(data: bytes, bytes_max: int) -> bytes:
    unpacking = zstd.ZstdDecompressor()
    try:
        plain = unpacking.decompress(data, bytes_max + 1)
    except zstd.ZstdError as error:
        raise WireError(Compression.ZSTD, str(error)) from error
    if len(plain) <= bytes_max:
        _whole(Compression.ZSTD, unpacking.eof, unpacking.unused_data)
    return plain


def _whole(how: Compression, ended: bool, unused: bytes) -> None:
    if not ended:
        raise WireError(how, "it is cut off")
    if unused:
        raise WireError(how, f"{len(unused)} bytes follow its end")
