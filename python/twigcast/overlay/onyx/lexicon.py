"""A lexicon: a dictionary of names that grows with the messages of a source, and the message that sends it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from twigcast._core import NameDictionary

LEXICON_NAMES_MAX: Final = 4_096  #: Names of one lexicon; further ones are spelled out in each message.

LEXICON_NAME_BYTES_MAX: Final = 256  #: Bytes of a name in a lexicon.


class LexiconUpdate(NamedTuple):
    """A message to a neighbour with a new dictionary, before the first message that needs it."""

    dictionary: int  #: The id of the dictionary, a hash of its names.
    #: Id of a dictionary that was sent over this link before, whose names come first; `None`: there is none.
    base: int | None
    names: tuple[str, ...]  #: The names that follow.


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """A dictionary with its names and its predecessor."""

    names: tuple[str, ...]
    base: int | None = None  #: Id of the predecessor.
    base_size: int = 0  #: The number of names of the predecessor, which come first.
    dictionary: NameDictionary = field(init=False)
    id: int = field(init=False)  #: The id of the dictionary.
    name: str = field(init=False)  #: The id in hexadecimal digits.

    def __post_init__(self) -> None:
        """Makes the dictionary.

        Raises:
            ValueError: A name is not valid, or occurs twice.
        """
        object.__setattr__(self, "dictionary", NameDictionary(self.names))
        object.__setattr__(self, "id", self.dictionary.id)
        object.__setattr__(self, "name", f"{self.dictionary.id:016x}")

    def grown(self, names: tuple[str, ...]) -> Lexicon:
        """Returns its successor, with more names."""
        return Lexicon(self.names + names, self.id, len(self.names))

    def update(self, has_base: bool) -> LexiconUpdate:
        """Returns the message for a neighbour that has the predecessor, or not."""
        if has_base:
            return LexiconUpdate(self.id, self.base, self.names[self.base_size :])
        return LexiconUpdate(self.id, None, self.names)
