"""Feeds as they arrive: in any encoding, with something before or behind them, and of any kind.

:func:`read_document` returns a feed in plain UTF-8 without an XML declaration. Bytes that it removes become spaces, so
that lines and columns are still those of the feed. Each such repair is a warning. The content of entries is not
changed.
"""

from __future__ import annotations

import codecs
import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import islice
from typing import Final
from urllib.parse import urljoin
from xml.parsers import expat

ATOM_NAMESPACE: Final = "http://www.w3.org/2005/Atom"
ATOM_NAMESPACES: Final = frozenset({ATOM_NAMESPACE, "http://purl.org/atom/ns#", ""})
"""Of Atom 1.0, of Atom 0.3, and of feeds that forget it."""
RDF_NAMESPACE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

XML_BASE: Final = "http://www.w3.org/XML/1998/namespace base"

_CHARSET: Final = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._:-]+)""", re.IGNORECASE)
_DECLARATION: Final = re.compile(rb"<\?xml[ \t\r\n][^>]*\?>")
_DECLARED: Final = re.compile(rb"""<\?xml\s[^>]*?\sencoding\s*=\s*["']([A-Za-z][\w.\-]*)["']""")
_BLANKS: Final = re.compile(rb"(?:[\x00\x09\x0a\x0b\x0c\x0d\x20]+|\xef\xbb\xbf|\xc2\xa0|\xe2\x80\x8b){0,1000}")
_TO_SPACES: Final = bytes(byte if byte in b"\r\n" else 0x20 for byte in range(256))
_FEED_START: Final = re.compile(rb"<\?xml[ \t\r\n]|<(?:feed|rss|(?:[\w.-]+:)?RDF)[ \t\r\n>]")
_HTML_START: Final = re.compile(rb"\s*<(?:!doctype\s+)?html", re.IGNORECASE)
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_JUNK_BYTES_MAX: Final = 1 << 16
"""Bytes before a feed within which its start is looked for."""

_STARTS_MAX: Final = 8
"""Places that are tried."""

_ROOT_BYTES_MAX: Final = 1 << 20
"""Bytes of a document within which its root has to begin."""


@dataclass(frozen=True, slots=True)
class FeedRoot:
    """The root element of a document."""

    namespace: str
    name: str
    """Its local name."""
    base: str | None = None
    """Its ``xml:base``."""

    @property
    def is_feed(self) -> bool:
        """Returns whether it is that of an RSS or Atom feed."""
        return self.name in ("feed", "RDF") or self.name.lower() == "rss"


@dataclass(slots=True)
class FeedDocument:
    """A feed in UTF-8."""

    text: bytes
    root: FeedRoot | None = None
    """``None`` if the document is not XML as far as its root."""
    warnings: list[str] = field(default_factory=list)

    @property
    def is_feed(self) -> bool:
        """Returns whether it is an RSS or Atom feed."""
        return self.root is not None and self.root.is_feed


def read_document(body: bytes, media_type: str | None = None) -> FeedDocument:
    """Returns a feed in UTF-8, whatever its encoding and whatever stands before it."""
    warnings: list[str] = []
    text, is_utf8 = _in_utf8(body, media_type, warnings)
    # Where the encoding is in doubt, what the document declares has to stay.
    result = FeedDocument(_without_declaration(text, warnings) if is_utf8 else text, warnings=warnings)
    result.root = _root_of(result.text)
    if not result.is_feed and not _HTML_START.match(text):
        _skip_junk(result, text)
    return result


def _skip_junk(document: FeedDocument, text: bytes) -> None:
    """Finds the feed behind something else, such as a notice that the server's program printed."""
    for start in islice(_FEED_START.finditer(text, 1, _JUNK_BYTES_MAX), _STARTS_MAX):
        rest = _without_declaration(text[start.start() :], [])
        root = _root_of(rest)
        if root is not None and root.is_feed:
            document.text, document.root = blank(text[: start.start()]) + rest, root
            document.warnings.append(f"{start.start():,} bytes that stand before the feed were skipped")
            return


def not_a_feed(document: FeedDocument, url: str) -> str:
    """Returns the reason for refusing a document that is no feed, with the address of a feed that it names."""
    if _HTML_START.match(document.text) or (document.root is not None and document.root.name.lower() == "html"):
        named = _feeds_named(document.text, url)
        advice = f"; it names this feed: {named[0]}" if named else ""
        return f"it is no RSS or Atom feed but an HTML page{advice}"
    start = document.text.lstrip()[:1]
    if document.root is not None:
        return f"it is no RSS or Atom feed: its root element is {document.root.name[:100]!r}"
    if start in (b"{", b"["):
        return "it is no RSS or Atom feed but " + _json_name(document.text)
    return "it is no RSS or Atom feed: " + ("it is empty" if not start else "it does not begin as XML does")


def charset_of(media_type: str | None) -> str | None:
    """Returns the charset that a ``Content-Type`` names."""
    declared = _CHARSET.search(media_type or "")
    return None if declared is None else declared.group(1)


# --- encodings --------------------------------------------------------------------------------------------------------


def _in_utf8(body: bytes, media_type: str | None, warnings: list[str]) -> tuple[bytes, bool]:
    """Returns a document in UTF-8 and ``True``; or as it is, if its bytes are in no encoding that is named."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            text = _decoded(body, encoding)
            return (body, encoding == "utf-8-sig") if text is None else (text, True)
    match = _DECLARED.match(body.lstrip())
    declared = None if match is None else match[1].decode("ascii")
    text = _as_transported(body, charset_of(media_type), declared, warnings)
    return (text, True) if text is not None else _as_declared(body, declared, warnings)


def _as_transported(body: bytes, charset: str | None, declared: str | None, warnings: list[str]) -> bytes | None:
    """Returns a document in UTF-8 if it is in the charset that the server names."""
    text = None if charset is None else _decoded(body, charset)
    if charset is None or body.isascii():
        return text
    if text is None:
        warnings.append(f"its Content-Type says {charset}, but its bytes are not in it")
    elif _is_utf8(declared) and not _is_utf8(charset) and _decoded(body, "utf-8") is not None:
        # No text in an encoding of single bytes reads as UTF-8 by chance.
        warnings.append(f"its Content-Type says {charset}, but it is in UTF-8")
        return body
    return text


def _as_declared(body: bytes, declared: str | None, warnings: list[str]) -> tuple[bytes, bool]:
    """Returns a document in UTF-8 and ``True``; or as it is, if it is not in the encoding that it declares."""
    for mark, encoding in ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be")):
        if body.startswith(mark):
            text = _decoded(body, encoding)
            return (body, False) if text is None else (text, True)
    if declared is None or _is_utf8(declared):
        # Bytes that are wrong are the matter of the entries in which they stand.
        return body, True
    # Where the declaration reads as ASCII, it cannot be right about UTF-16.
    text = None if declared.lower().startswith(_WIDE) else _decoded(body, declared)
    if text is None and _decoded(body, "utf-8") is not None:
        warnings.append(f"it declares the encoding {declared}, but it is in UTF-8")
        return body, True
    return (body, False) if text is None else (text, True)


_WIDE: Final = ("utf-16", "utf16", "utf-32", "utf32", "ucs", "iso-10646")


def _is_utf8(encoding: str | None) -> bool:
    return encoding is None or encoding.lower() in ("utf-8", "utf8")


def _decoded(body: bytes, encoding: str) -> bytes | None:
    try:
        return body.decode(encoding).encode()
    except (LookupError, UnicodeError, ValueError):
        return None


def _without_declaration(text: bytes, warnings: list[str]) -> bytes:
    """Returns a document with spaces for its XML declaration and for what stands before it."""
    blanks = _BLANKS.match(text)
    assert blanks is not None
    head, rest = text[: blanks.end()], text[blanks.end() :]
    declaration = _DECLARATION.match(rest)
    if declaration is not None:
        if head.strip(codecs.BOM_UTF8):
            warnings.append(f"line {_line_ends(head) + 1}: white space stands before the XML declaration")
        rest = blank(declaration[0]) + rest[declaration.end() :]
    return blank(head.replace(codecs.BOM_UTF8, b"")) + rest


def blank(part: bytes) -> bytes:
    """Returns so many spaces as a part of a document has bytes, with its line ends."""
    return part.translate(_TO_SPACES)


def _line_ends(part: bytes) -> int:
    return part.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n")


# --- roots ------------------------------------------------------------------------------------------------------------


def _root_of(text: bytes) -> FeedRoot | None:
    """Returns the root of a document, as far as it can be read. Prefixes need not be declared."""
    roots: list[FeedRoot] = []
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if not roots:
            prefix, _, name = tag.rpartition(":")
            namespace = attributes.get(f"xmlns:{prefix}" if prefix else "xmlns", "")
            roots.append(FeedRoot(namespace, name, attributes.get("xml:base")))

    parser.StartElementHandler = start
    for at in range(0, min(len(text), _ROOT_BYTES_MAX), 4096):
        try:
            parser.Parse(text[at : at + 4096], False)
        except expat.ExpatError:
            break
        if roots:
            break
    return roots[0] if roots else None


def _json_name(text: bytes) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return "something like JSON"
    is_feed = isinstance(value, dict) and "jsonfeed.org" in str(value.get("version", ""))
    return "a JSON Feed, which is not read" if is_feed else "JSON"


def _feeds_named(page: bytes, url: str) -> list[str]:
    """Returns the addresses of the feeds that the head of an HTML page names."""
    parser = _FeedLinks()
    parser.feed(page[:_PAGE_BYTES].decode("utf-8", "replace"))
    results: list[str] = []
    for reference in parser.references:
        try:
            results.append(urljoin(url, reference))
        except ValueError:
            continue
    return results


_PAGE_BYTES: Final = 1 << 18


class _FeedLinks(HTMLParser):
    """A reader of ``<link rel="alternate" type="application/rss+xml">``."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        is_feed = values.get("type", "").lower() in ("application/rss+xml", "application/atom+xml")
        if tag == "link" and is_feed and values.get("href"):
            self.references.append(values["href"])
