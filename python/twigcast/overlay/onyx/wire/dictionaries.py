"""Dictionaries: the names of a schema with numbers, known to all brokers through the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from twigcast._core import NameDictionary
from twigcast.overlay.onyx.wire.errors import UnknownDictionary
from twigcast.schema.model import Schema

_HEADER_BYTES: Final = 12
"""Magic bytes, version, flags and, where the flags say so, the dictionary's id (little-endian)."""

_WITH_DICTIONARY: Final = 1


def names_of(schema: Schema) -> tuple[str, ...]:
    """The names of a schema's elements and attributes, and ``xmlns``, in an order that depends on the names alone."""
    names = {"xmlns"}
    for element in schema.elements.values():
        names.add(element.name)
        names.update(attribute.name for attribute in element.attributes)
    return tuple(sorted(names))


class Dictionaries:
    """The dictionaries that a broker knows, by their ids."""

    def __init__(self, each: Iterable[NameDictionary] = ()) -> None:
        self._by_id = {dictionary.id: dictionary for dictionary in each}

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, dictionary_id: int) -> bool:
        return dictionary_id in self._by_id

    def learn(self, names: Iterable[str]) -> NameDictionary:
        """The dictionary of these names, known from now on.

        Raises:
            ValueError: One is no name, or stands twice.
        """
        dictionary = NameDictionary(list(names))
        return self._by_id.setdefault(dictionary.id, dictionary)

    def of(self, stream: bytes) -> NameDictionary | None:
        """The dictionary that a stream was written with; ``None``: with none, or these bytes are no stream.

        Raises:
            UnknownDictionary: It is none of these.
        """
        if len(stream) < _HEADER_BYTES or not stream[3] & _WITH_DICTIONARY:
            return None
        dictionary_id = int.from_bytes(stream[4:_HEADER_BYTES], "little")
        try:
            return self._by_id[dictionary_id]
        except KeyError:
            raise UnknownDictionary(dictionary_id) from None
