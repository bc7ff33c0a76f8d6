"""The forms of message bodies, the choice of one for a link, and bounded compression."""

from __future__ import annotations

import enum
import sys
import zlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from twigcast.overlay.errors import ImpossibleSetting, WireError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ZLIB_LEVEL: Final = 6  #: The default of zlib, as in the published measurements.
ZSTD_LEVEL: Final = 3  #: The default of Zstandard.


class Structure(enum.StrEnum):
    """The structure of a body."""

    TEXT = "text"
    STREAM = "stream"
    DICTIONARY = "dictionary"


class Compression(enum.StrEnum):
    """The compression of a body."""

    NONE = "plain"
    ZLIB = "zlib"
    ZSTD = "zstd"


class WireForm(NamedTuple):
    """A structure with a compression, named ``structure`` or ``structure+compression``."""

    structure: Structure
    compression: Compression = Compression.NONE

    def __str__(self) -> str:
        return self.structure if self.compression is Compression.NONE else f"{self.structure}+{self.compression}"

    @classmethod
    def named(cls, name: str) -> WireForm:
        """Returns the form of a name.

        Raises:
            ImpossibleSetting: There is no such form.
        """
        try:
            return FORMS[name]
        except KeyError:
            raise ImpossibleSetting("wire form", name, f"one of {', '.join(FORMS)}") from None


#: All forms by name.
FORMS: Final[dict[str, WireForm]] = {
    str(form): form for form in (WireForm(structure, packed) for structure in Structure for packed in Compression)
}


def choose(preferred: Sequence[str], readable: Sequence[str]) -> WireForm:
    """Returns the first preferred form that the receiver can read, or text, which all can read.

    Args:
        preferred: Names of forms, the best first.
        readable: Names of forms that the receiver reads; unknown ones are ignored.

    Raises:
        ImpossibleSetting: One of ``preferred`` is no form.
    """
    for form in map(WireForm.named, preferred):
        if str(form) in readable:
            return form
    return WireForm(Structure.TEXT)


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
            if len(data) > bytes_max:
                raise WireError(compression, f"it holds more than {bytes_max} bytes")
            return data
        case Compression.ZLIB:
            decompressor: Any = zlib.decompressobj()
        case Compression.ZSTD:
            decompressor = zstd.ZstdDecompressor()
    try:
        # One byte more than allowed shows that there is more.
        plain: bytes = decompressor.decompress(data, bytes_max + 1)
    except (zlib.error, zstd.ZstdError) as error:
        raise WireError(compression, str(error)) from error
    if len(plain) > bytes_max:
        raise WireError(compression, f"it holds more than {bytes_max} bytes")
    if not decompressor.eof:
        raise WireError(compression, "it is cut off")
    if decompressor.unused_data:
        raise WireError(compression, f"{len(decompressor.unused_data)} bytes follow its end")
    return plain
