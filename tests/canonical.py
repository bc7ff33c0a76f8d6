"""Comparing For-Where-Return results: payloads that mean the same compare equal."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape

from lxml import etree


def canonical(payload: str | bytes) -> str:
    """A payload (a sequence of elements, comments, processing instructions and text) in Canonical XML 2.0, by lxml.

    Namespace declarations that nothing uses do not count. (lxml leaves out the prefix of an attribute whose namespace
    is also the default namespace; answers that were written with it have to be compared with it.)
    """
    text = payload.decode() if isinstance(payload, bytes) else payload
    return str(etree.canonicalize(f"<sequence>{text}</sequence>", with_comments=True))


def canonical_items(items: Iterable[str]) -> str:
    """The same for a list of items, each an element, comment or processing instruction, or else the value of a text."""
    return canonical("".join(item if item.startswith("<") else escape(item) for item in items))


def expanded(payload: str | bytes) -> str:
    """A payload with namespaces in place of prefixes, so that prefixes do not count."""
    return "".join(_expanded(_parsed(payload)))


def _parsed(payload: str | bytes) -> etree._Element:
    text = payload.decode() if isinstance(payload, bytes) else payload
    return etree.fromstring(f"<sequence>{text}</sequence>", etree.XMLParser(strip_cdata=True, resolve_entities=False))


def _expanded(node: etree._Element) -> Iterable[str]:
    if isinstance(node, etree._Comment):
        yield f"<!--{node.text}-->"
    elif isinstance(node, etree._ProcessingInstruction):
        yield f"<?{node.target} {node.text}?>"
    else:
        attributes = "".join(f" {name}={value!r}" for name, value in sorted(node.attrib.items()))
        yield f"<{node.tag!s}{attributes}>{escape(node.text or '')}"
        for child in node:
            yield from _expanded(child)
        yield "</>"
    yield escape(node.tail or "")


def is_same_document(payload: bytes, message: bytes) -> bool:
    """Whether a message was delivered as the document that its DOCTYPE makes of it, and without that DOCTYPE."""
    reading = etree.XMLParser(resolve_entities=True, attribute_defaults=True, no_network=True, huge_tree=True)
    delivered, sent = (etree.fromstring(text, reading).getroottree() for text in (payload, message))
    if delivered.docinfo.doctype or not sent.docinfo.doctype:
        return False
    return "".join(_expanded(delivered.getroot())) == "".join(_expanded(sent.getroot()))
