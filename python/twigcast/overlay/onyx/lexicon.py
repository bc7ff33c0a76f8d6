"""A lexicon: a dictionary that grows with the messages of a source, and how a neighbour learns of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from twigcast._core import NameDictionary

LEXICON_NAMES_MAX: Final = 4_096
"""Names of one lexicon; later ones are spelled out in each message."""


LEXICON_NAME_BYTES_MAX: Final = 256
"""Bytes of a name in a lexicon."""


class LexiconUpdate(NamedTuple):
    """To a neighbour, before the first message that needs it: names with numbers.

    Attributes:
        dictionary: The dictionary's id, a hash of its names.
        base: Id of one that the neighbour has been taught on this link, whose names come first; `None`: there is none.
        names: The names that follow.
    """

    dictionary: int
    base: int | None
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """A dictionary with its names, and the one that it has grown from."""

    names: tuple[str, ...]
    base: int | None = None
    """Id of the one that it has grown from."""
    base_size: int = 0
    """How many of the names are that one's."""
    dictionary: NameDictionary = field(init=False)
    id: int = field(init=False)
    """The dictionary's."""
    name: str = field(init=False)
    """The id in hexadecimal digits."""

    def __post_init__(self) -> None:
        """Make the dictionary.

        Raises:
            ValueError: One of the names is none, or stands twice.
        """
        object.__setattr__(self, "dictionary", NameDictionary(self.names))
        object.__setattr__(self, "id", self.dictionary.id)
        object.__setattr__(self, "name", f"{self.dictionary.id:016x}")

    def grown(self, names: tuple[str, ...]) -> Lexicon:
        """It with more names."""
        return Lexicon(self.names + names, self.id, len(self.names))

    def update(self, has_base: bool) -> LexiconUpdate:
        """What a neighbour is to be taught, who knows the one that it has grown from, or not."""
        if has_base:
            return LexiconUpdate(self.id, self.base, self.names[self.base_size :])
        return LexiconUpdate(self.id, None, self.names)
