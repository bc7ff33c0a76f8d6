"""The lexicons of sources, which grow with their messages."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from twigcast._core import ParsedMessage
from twigcast.overlay.onyx.lexicon import LEXICON_NAME_BYTES_MAX, LEXICON_NAMES_MAX, Lexicon

#: Sources with lexicons. Beyond, the source that has not published for longest begins a new one.
SOURCES_MAX: Final = 256

_PATIENCE: Final = 100  #: Messages after which even a single new name is added.
_SHARE: Final = 16  #: New names are added at once if they are at least this part (1/16) of the lexicon.


@dataclass(slots=True)
class _GrowingLexicon:
    lexicon: Lexicon
    new: dict[str, None] = field(default_factory=dict)  #: Names that messages have spelled out since the lexicon grew.
    waited: int = 0  #: Messages since the lexicon grew.


class Lexicons:
    """The lexicons of the sources whose messages are converted here."""

    def __init__(self) -> None:
        self._growing: OrderedDict[tuple[str, str], _GrowingLexicon] = OrderedDict()

    def write(self, source: tuple[str, str], message: ParsedMessage) -> tuple[bytes, Lexicon]:
        """Returns the stream of a message, written with the lexicon of its source, and that lexicon.

        A source is given by its scope and its name.
        """
        growing = self._of(source)
        lexicon = growing.lexicon
        stream, names = message.stream_and_names(lexicon.dictionary)
        if not lexicon.names and names and self._grow(growing, names):
            # The first message makes the first lexicon and is written with it.
            lexicon = growing.lexicon
            return message.stream(lexicon.dictionary), lexicon
        self._grow(growing, names)
        return stream, lexicon

    def _of(self, source: tuple[str, str]) -> _GrowingLexicon:
        result = self._growing.get(source)
        if result is None:
            if len(self._growing) >= SOURCES_MAX:
                self._growing.popitem(last=False)
            result = self._growing[source] = _GrowingLexicon(Lexicon(()))
        else:
            self._growing.move_to_end(source)
        return result

    @staticmethod
    def _grow(growing: _GrowingLexicon, names: list[str]) -> bool:
        """Adds new names if this is due. Returns whether the lexicon has grown."""
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
