"""Cutting RSS and Atom feeds into messages, one for each entry.

An entry becomes a message as :mod:`twigcast.reading.records` cuts it: its own bytes in UTF-8, with the namespace
declarations of the feed around it. Its id is that of the feed (``guid``, ``atom:id``, ``rdf:about``, else its link),
or a digest of its content if the feed has none. The root tells the kind of a feed, whatever it was registered as.
"""

from __future__ import annotations

import codecs
import hashlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

from twigcast.errors import RejectedMessage
from twigcast.reading.records import cut_records

ATOM_NAMESPACE: Final = "http://www.w3.org/2005/Atom"
RDF_NAMESPACE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

ID_CHARACTERS_MAX: Final = 400
"""A longer id of a feed is replaced by its digest."""

_ATOM_ENTRY: Final = f"{{{ATOM_NAMESPACE}}}entry"
_RSS_ITEM: Final = "item"

_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._:-]+)""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a feed, or the error that ends a damaged feed."""

    id: str
    xml: bytes
    error: RejectedMessage | None = None


def cut_entries(feed: bytes, *, media_type: str | None = None, entry_bytes_max: int) -> Iterator[FeedEntry]:
    """Yields the entries of a feed, in its order.

    Args:
        feed: The document.
        media_type: Its ``Content-Type``; a charset in it overrides the declaration (RFC 7303).
        entry_bytes_max: Size in bytes that one entry may have.
    """
    feed = _in_utf8(feed, media_type)
    record = _ATOM_ENTRY if _root_name(feed) == f"{ATOM_NAMESPACE} feed" else _RSS_ITEM
    for result in cut_records(io.BytesIO(feed), record, bytes_max=entry_bytes_max):
        yield FeedEntry("" if result.error else entry_id(result.xml), result.xml, result.error)


def is_feed(feed: bytes) -> bool:
    """Returns whether a document looks like a feed, or is so damaged that its root cannot be read."""
    return _root_name(feed).rpartition(" ")[2] in ("feed", "rss", "RDF", "")


def charset_of(media_type: str | None) -> str | None:
    """Returns the charset that a ``Content-Type`` names."""
    declared = _CHARSET.search(media_type or "")
    return None if declared is None else declared.group(1)


def digest_id(content: bytes) -> str:
    """Returns the id of an entry or file that has none but its content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def entry_id(xml: bytes) -> str:
    """Returns the id of an entry."""
    reader = _IdReader()
    try:
        reader.read(xml)
    except expat.ExpatError:
        return digest_id(xml)
    results = reader.best()
    if not results:
        return digest_id(xml)
    return results if len(results) <= ID_CHARACTERS_MAX else digest_id(results.encode())


class _IdReader:
    """A reader of what may identify an entry: children of its root, and attributes."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._depth = 0
        self._open: str | None = None
        self._text: list[str] = []

    def read(self, xml: bytes) -> None:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._on_text
        parser.Parse(xml, True)

    def best(self) -> str | None:
        """Returns the strongest identifier."""
        for name in ("guid", "id", "about", "link"):
            if self._values.get(name):
                return self._values[name]
        return None

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        local = name.rpartition(" ")[2]
        if self._depth == 1:
            self._values["about"] = attributes.get(f"{RDF_NAMESPACE} about", "")
        elif self._depth == 2 and local in ("guid", "id", "link") and local not in self._values:
            if local == "link" and attributes.get("rel", "alternate") == "alternate" and "href" in attributes:
                self._values["link"] = attributes["href"].strip()
            else:
                self._open, self._text = local, []

    def _end(self, _: str) -> None:
        if self._depth == 2 and self._open is not None:
            text = "".join(self._text).strip()
            if text:
                self._values[self._open] = text
            self._open = None
        self._depth -= 1

    def _on_text(self, text: str) -> None:
        if self._open is not None:
            self._text.append(text)


def _root_name(feed: bytes) -> str:
    """Returns namespace and local name of the root, as far as the feed can be read."""
    names: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")

    def start(name: str, _: dict[str, str]) -> None:
        if not names:
            names.append(name)

    parser.StartElementHandler = start
    for at in range(0, len(feed), 4096):
        try:
            parser.Parse(feed[at : at + 4096], False)
        except expat.ExpatError:
            break
        if names:
            break
    return names[0] if names else ""


def _in_utf8(feed: bytes, media_type: str | None) -> bytes:
    """Returns the feed in UTF-8 if the media type names an encoding."""
    charset = charset_of(media_type)
    if charset is None or feed.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE)):
        return feed
    try:
        text = feed.decode(charset)
    except (LookupError, UnicodeError):
        # The declaration of the document may be right where the server is wrong.
        return feed
    return codecs.BOM_UTF8 + text.encode("utf-8", "replace")
