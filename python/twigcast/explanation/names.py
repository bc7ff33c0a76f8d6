"""The names of elements and attributes in a message."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Final, Literal
from xml.parsers import expat

from twigcast.query import NameTest

Kind = Literal["element", "attribute"]

_SEPARATOR: Final = "\f"
"""Between namespace and local name; no message can contain it."""


class MessageNames:
    """Expanded names (namespace, local name) in a message, with how often each occurs.

    Args:
        xml: A well-formed message in UTF-8 without entity declarations.
    """

    def __init__(self, xml: bytes) -> None:
        elements: Counter[tuple[str, str]] = Counter()
        attributes: Counter[tuple[str, str]] = Counter()

        def on_start(name: str, given: dict[str, str]) -> None:
            elements[_expanded(name)] += 1
            attributes.update(map(_expanded, given))

        parser = expat.ParserCreate("utf-8", _SEPARATOR)
        parser.StartElementHandler = on_start
        parser.Parse(xml, True)
        self._names: dict[Kind, Counter[tuple[str, str]]] = {"element": elements, "attribute": attributes}

    def count(self, kind: Kind, test: NameTest) -> int:
        """How many nodes of the kind pass a name test."""
        return sum(count for (namespace, local), count in self._names[kind].items() if test.accepts(namespace, local))

    def namespaces_of(self, kind: Kind, local: str) -> set[str]:
        """The namespaces in which there is a node of that local name."""
        return {namespace for namespace, name in self._names[kind] if name == local}

    def similar(self, kind: Kind, local: str) -> list[str]:
        """Local names that a slip could have made out of another: other case, a letter more, less or different."""
        known = sorted({name for _, name in self._names[kind]})
        same = [name for name in known if name.lower() == local.lower()]
        return same or difflib.get_close_matches(local, known, n=3, cutoff=0.75)


def _expanded(name: str) -> tuple[str, str]:
    namespace, _, local = name.rpartition(_SEPARATOR)
    return namespace, local
