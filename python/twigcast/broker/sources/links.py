"""Which links of entries are followed to the documents behind them, and where they may lead.

A feed is text by another party, and whoever writes it must not choose what the broker requests. Links are followed only
where the source says so, by media type; only to the host of the feed and to hosts that the source names; and as all
that the broker fetches, over HTTP(S) and not to inner addresses (:mod:`twigcast.broker.delivery.addresses`). Redirects
are judged like links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final
from xml.parsers import expat

from twigcast.broker.delivery.addresses import parse_url
from twigcast.broker.errors import UrlRefused
from twigcast.broker.sources.entries import EntryLink, FeedEntry, short_id

_ANY: Final = "*/*"
_TO_CONTENT: Final = ("alternate", "enclosure")
_CAP_NAMESPACES: Final = ("urn:oasis:names:tc:emergency:cap:", "http://www.incident.com/cap/")


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """The hosts to which links of a feed are followed."""

    feed_urls: tuple[str, ...]
    """Addresses of the feed: the registered one, and the one that answered."""
    hosts: Sequence[str] = ()
    """More hosts: ``name``, ``name:port``, ``*.domain``, or ``*`` for all."""

    def check(self, url: str) -> None:
        """Raises UrlRefused if a link leads elsewhere."""
        parts = parse_url(url)
        host = parts.hostname or ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        for feed_url in self.feed_urls:
            feed = parse_url(feed_url)
            usual = (80, 443, feed.port or (443 if feed.scheme == "https" else 80))
            if host == feed.hostname and port in usual:
                return
        if any(fnmatchcase(host, pattern) or fnmatchcase(f"{host}:{port}", pattern) for pattern in self.hosts):
            return
        raise UrlRefused(f"the link leads to {host}:{port}, which is not the host of the feed; name it in follow_hosts")


def link_to_follow(entry: FeedEntry, media_types: Sequence[str]) -> EntryLink | None:
    """Returns the link of an entry that is followed: the first one of the first media type that has one."""
    for pattern in media_types:
        for link in entry.links:
            kind = link.media_type.partition(";")[0].strip()
            if link.relation in _TO_CONTENT if pattern == _ANY else fnmatchcase(kind, pattern):
                return link
    return None


def document_id(xml: bytes, url: str) -> str:
    """Returns the id of a linked document: that by which alerts (CAP) refer to each other, else its address."""
    reader = _AlertReader()
    try:
        reader.parser.Parse(xml, True)
    except (expat.ExpatError, ValueError):
        return short_id(url)
    parts = [reader.texts.get(name, "") for name in ("sender", "identifier", "sent")]
    return short_id(",".join(parts)) if all(parts) else short_id(url)


class _AlertReader:
    """A reader of what identifies an alert."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._on_text
        self._depth = 0
        self._is_alert = False
        self._open: str | None = None

    def _start(self, name: str, _: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self._is_alert = name.startswith(_CAP_NAMESPACES) and name.endswith(" alert")
        local = name.rpartition(" ")[2]
        if self._is_alert and self._depth == 2 and local in ("sender", "identifier", "sent"):
            self._open = local

    def _end(self, _: str) -> None:
        self._depth -= 1
        if self._open is not None:
            self.texts[self._open] = self.texts.get(self._open, "").strip()
            self._open = None

    def _on_text(self, text: str) -> None:
        if self._open is not None:
            self.texts[self._open] = self.texts.get(self._open, "") + text
