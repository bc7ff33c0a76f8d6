"""Comparing For-Where-Return results: the same items after canonicalisation."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

from lxml import etree


def canonical(payload: str | bytes) -> str:
    """A payload (a sequence of elements, comments, processing instructions and text) in Canonical XML 2.0.

    Namespace declarations that nothing uses do not count.
    """
    text = payload.decode() if isinstance(payload, bytes) else payload
    return str(etree.canonicalize(f"<sequence>{text}</sequence>", with_comments=True))


def canonical_items(items: Iterable[str]) -> str:
    """The same for a list of items, each an element, comment or processing instruction, or else the value of a text."""
    return canonical("".join(item if item.startswith("<") else escape(item) for item in items))
