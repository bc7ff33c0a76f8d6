"""The forms of a message's body, their names, and which one two brokers use."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, NamedTuple

from twigcast.overlay.errors import ImpossibleSetting


class Structure(enum.StrEnum):
    """What the bytes say."""

    TEXT = "text"
    STREAM = "stream"
    DICTIONARY = "dictionary"


class Compression(enum.StrEnum):
    """How they are packed."""

    NONE = "plain"
    ZLIB = "zlib"
    ZSTD = "zstd"


class WireForm(NamedTuple):
    """A structure and a compression. Its name is ``structure``, or ``structure+compression``."""

    structure: Structure
    compression: Compression = Compression.NONE

    def __str__(self) -> str:
        return self.structure if self.compression is Compression.NONE else f"{self.structure}+{self.compression}"

    @classmethod
    def named(cls, name: str) -> WireForm:
        """The form of a name.

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
"""All forms by their names."""


def choose(wished: Sequence[str], readable: Sequence[str]) -> WireForm:
    """The form in which to send: the first of ``wished`` that the receiver can read; text, which all can, if none is.

    Args:
        wished: Names of forms, the sender's favourite first.
        readable: Names of forms that the receiver has told it reads; names that this version does not know are ignored.

    Raises:
        ImpossibleSetting: One of ``wished`` is no form.
    """
    for form in map(WireForm.named, wished):
        if str(form) in readable:
            return form
    return WireForm(Structure.TEXT)
