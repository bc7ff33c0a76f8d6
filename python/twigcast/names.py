"""The names of elements and attributes in a message."""

from __future__ import annotations

from collections import Counter
from xml.parsers import expat

_SEPARATOR = "\f"


def names_in(xml: bytes) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Expanded names (namespace, local name) of elements and of attributes, with how often each occurs.

    Args:
        xml: A well-formed message in UTF-8 without entity declarations.
    """
    elements: Counter[tuple[str, str]] = Counter()
    attributes: Counter[tuple[str, str]] = Counter()

    def on_start(name: str, given: dict[str, str]) -> None:
        elements[_expanded(name)] += 1
        attributes.update(map(_expanded, given))

    parser = expat.ParserCreate("utf-8", _SEPARATOR)
    parser.StartElementHandler = on_start
    parser.Parse(xml, True)
    return elements, attributes


def _expanded(name: str) -> tuple[str, str]:
    namespace, _, local = name.rpartition(_SEPARATOR)
    return namespace, local
