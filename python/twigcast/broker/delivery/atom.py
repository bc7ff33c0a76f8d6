"""Atom feeds (RFC 4287) of the deliveries of subscriptions and of the messages of sources.

A message is part of its entry as it is (``application/xml``): its root element with its declarations, without
prolog. Feed elements are in the default namespace, which most readers expect, so a root that declares no default
namespace gets ``xmlns=""``. A result that is not one document (several elements, or text) is included as text. A title
and a summary are taken from the content, for readers that do not show XML.

Feeds are paged (RFC 5005, section 3): ``next`` leads to older entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from twigcast.broker.feed_addresses import Capabilities, FeedName
from twigcast.broker.model import QueuedDelivery, StoredMessage
from twigcast.envelope import no_character
from twigcast.errors import RejectedMessage
from twigcast.reading.conversion import to_document

MEDIA_TYPE: Final = "application/atom+xml"

_SUMMARY_CHARACTERS: Final = 300
_TITLE_CHARACTERS: Final = 150
_TITLES: Final = ("title", "headline", "hedline", "hl1", "subject", "event", "name")
"""Local names, in lower case, of elements that usually hold a title; the best first."""

_START_TAG = re.compile(rb"""<(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class AtomContent:
    """The content of an entry."""

    message: StoredMessage
    payload: bytes | None = None

    @classmethod
    def of(cls, delivery: QueuedDelivery) -> AtomContent:
        """Returns the content of a delivery."""
        return cls(delivery.message, delivery.payload)

    @property
    def body(self) -> bytes:
        """The bytes that the subscriber receives."""
        return self.message.xml if self.payload is None else self.payload


@dataclass(frozen=True, slots=True)
class FeedLinks:
    """The addresses in a feed."""

    self_url: str
    hub_url: str
    first_url: str | None = None
    next_url: str | None = None
    """Address of older entries."""


def write_feed(
    feed: FeedName, items: Sequence[AtomContent], links: FeedLinks, capabilities: Capabilities, *, updated: float
) -> bytes:
    """Returns a feed document with the entries, newest first; one without entries has the time ``updated``."""
    newest = max((item.message.received for item in items), default=updated)
    feed_id = capabilities.uuid(feed.kind, str(feed.tenant_id), feed.name)
    parts = [
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n',
        f"<id>{feed_id.urn}</id>\n<title>{_text(feed.name)}</title>\n<updated>{_time(newest)}</updated>\n",
        f"<author><name>{_text(feed.name)}</name></author>\n<generator>Twigcast</generator>\n",
        _link("self", links.self_url),
        _link("hub", links.hub_url),
        _link("first", links.first_url),
        _link("next", links.next_url),
    ]
    pieces = ["".join(parts).encode()]
    pieces += [_entry(item, capabilities.uuid(feed_id.hex, str(item.message.seq)).urn) for item in items]
    pieces.append(b"</feed>\n")
    return b"".join(pieces)


def link_header(links: FeedLinks) -> str:
    """Returns the ``Link`` header that discovery and content distribution need."""
    return f'<{links.hub_url}>; rel="hub", <{links.self_url}>; rel="self"'


def _link(relation: str, url: str | None) -> str:
    return "" if url is None else f"<link rel={quoteattr(relation)} href={quoteattr(url)}/>\n"


def _entry(item: AtomContent, entry_id: str) -> bytes:
    message = item.message
    content = _Content(item.body)
    title = content.title or message.message_id
    summary = f"<summary>{_text(content.summary)}</summary>\n" if content.summary else ""
    head = (
        f"<entry>\n<id>{entry_id}</id>\n<title>{_text(title)}</title>\n<updated>{_time(message.received)}</updated>\n"
        f"<author><name>{_text(message.source)}</name></author>\n{summary}"
    )
    return b"%b%b\n</entry>\n" % (head.encode(), content.element())


class _Content:
    """The content of one entry, read once for the position of its root, a title and a summary."""

    def __init__(self, body: bytes) -> None:
        try:
            self._xml = to_document(body)
        except RejectedMessage:
            self._xml = body
        self._root_at = self._last_tag_at = 0
        self._default_declared = False
        self._depth = 0
        self._titles: dict[str, list[str]] = {}  # text of the first element of each of these names
        self._title_depth = 0  # depth of the open one
        self._title: list[str] = []  # its text
        self._words: list[str] = []
        self._length = 0
        self._is_document = self._read()

    @property
    def title(self) -> str:
        """The text of the element that serves best as a title."""
        result = (_shortened(self._titles.get(name, []), _TITLE_CHARACTERS) for name in _TITLES)
        return next(filter(None, result), "")

    @property
    def summary(self) -> str:
        """The beginning of the text."""
        return _shortened(self._words, _SUMMARY_CHARACTERS)

    def element(self) -> bytes:
        """Returns the ``content`` element."""
        if not self._is_document:
            return b'<content type="text">%b</content>' % _text(self._xml.decode("utf-8", "replace")).encode()
        root = self._xml[self._root_at : self._end()]
        if not self._default_declared:
            name = re.match(rb"<[^\s/>]+", root)
            assert name is not None, "expat has found a tag there"
            root = b'%b xmlns=""%b' % (name.group(), root[name.end() :])
        return b'<content type="application/xml">%b</content>' % root

    def _end(self) -> int:
        """Returns the end of the root."""
        tag = _START_TAG.match(self._xml, self._root_at)
        assert tag is not None, "expat has found a tag there"
        return tag.end() if tag.group().endswith(b"/>") else self._xml.index(b">", self._last_tag_at) + 1

    def _read(self) -> bool:
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True

        def start(name: str, attributes: dict[str, str]) -> None:
            if self._depth == 0:
                self._root_at = parser.CurrentByteIndex
                self._default_declared = "xmlns" in attributes
            self._depth += 1
            local = name.rpartition(":")[2].lower()
            if not self._title_depth and local in _TITLES and local not in self._titles:
                self._title_depth = self._depth
                self._title = self._titles[local] = []

        def end(_: str) -> None:
            if self._depth == self._title_depth:
                self._title_depth = 0
            self._depth -= 1
            if self._depth == 0:
                self._last_tag_at = parser.CurrentByteIndex

        parser.StartElementHandler = start
        parser.EndElementHandler = end
        parser.CharacterDataHandler = self._on_text
        try:
            parser.Parse(self._xml, True)
        except expat.ExpatError:
            return False
        return True

    def _on_text(self, text: str) -> None:
        if self._title_depth:
            self._title.append(text)
        if self._length <= _SUMMARY_CHARACTERS:
            self._words.append(text)
            self._length += len(text.strip())


def _shortened(pieces: Iterable[str], characters: int) -> str:
    text = _SPACE.sub(" ", " ".join(pieces)).strip()
    return text if len(text) <= characters else text[: characters - 1].rstrip() + "…"


def _text(text: str) -> str:
    """Returns text as XML; characters that no XML document can contain are replaced."""
    return escape(no_character().sub("\ufffd", text))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
