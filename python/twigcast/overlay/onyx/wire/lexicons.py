"""Lexicons: dictionaries that grow with the messages of a source, and are taught to neighbours as they grow."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from twigcast._core import ParsedMessage
from twigcast.overlay.onyx.lexicon import LEXICON_NAME_BYTES_MAX, LEXICON_NAMES_MAX, Lexicon

SOURCES_MAX: Final = 256
"""Sources for which there are lexicons; beyond that, the one that has published least lately begins anew."""

_PATIENCE: Final = 100
"""Messages after which also a single new name is taken in."""
_SHARE: Final = 16
"""At once, new names are taken in that are this part of those known."""


@dataclass(slots=True)
class _Growing:
    lexicon: Lexicon
    new: dict[str, None] = field(default_factory=dict)
    """Names that messages have spelled out since it grew."""
    waited: int = 0
    """Messages since then."""


class Lexicons:
    """The lexicons of the sources whose messages are brought into streams here."""

    def __init__(self) -> None:
        self._growing: OrderedDict[tuple[str, str], _Growing] = OrderedDict()

    def write(self, source: tuple[str, str], message: ParsedMessage) -> tuple[bytes, Lexicon]:
        """The stream of a message by the lexicon of its source, and that lexicon.

        Args:
            source: Scope and name of the source.
            message: The message.
        """
        growing = self._of(source)
        lexicon = growing.lexicon
        stream, names = message.stream_and_names(lexicon.dictionary)
        if not lexicon.names and names and self._grow(growing, names):
            # The first message makes the first lexicon, and is written with it.
            lexicon = growing.lexicon
            return message.stream(lexicon.dictionary), lexicon
        self._grow(growing, names)
        return stream, lexicon

    def _of(self, source: tuple[str, str]) -> _Growing:
        result = self._growing.get(source)
        if result is None:
            if len(self._growing) >= SOURCES_MAX:
                self._growing.popitem(last=False)
            result = self._growing[source] = _Growing(Lexicon(()))
        else:
            self._growing.move_to_end(source)
        return result

    @staticmethod
    def _grow(growing: _Growing, names: list[str]) -> bool:
        """Take in new names, if that is due; whether it was."""
        growing.waited += 1
        existing, new = len(growing.lexicon.names), growing.new
        for name in names:
            if existing + len(new) < LEXICON_NAMES_MAX and len(name.encode()) <= LEXICON_NAME_BYTES_MAX:
                new[name] = None
        if not new or (len(new) * _SHARE <= existing and growing.waited < _PATIENCE):
            return False
        growing.lexicon = growing.lexicon.grown(tuple(new))
        growing.new, growing.waited = {}, 0
        return True
