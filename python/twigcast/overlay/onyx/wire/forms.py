"""The forms of message bodies, their names, and the choice of one for a link."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, NamedTuple

from twigcast.overlay.errors import ImpossibleSetting


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


FORMS: Final[dict[str, WireForm]] = {
    str(form): form for form in (WireForm(structure, packed) for structure in Structure for packed in Compression)
}
"""All forms by name."""


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
