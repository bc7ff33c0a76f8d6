"""Cutting RSS and Atom feeds into messages, one for each entry, and finding messages in a folder on a web server.

An entry becomes a message as :mod:`twigcast.reading.records` cuts it: its own bytes in UTF-8, with the namespace
declarations, ``xml:lang`` and ``xml:base`` of the feed around it. The authors of an Atom feed go into entries that name
none (RFC 4287, section 4.2.1). Its id is that of the feed (``guid``, ``atom:id``, ``rdf:about``, else its link),
or a digest of its content if the feed has none. The root tells the kind of a feed, whatever it was registered as.

A feed that is not well-formed is read on behind the damage: an entry in which it lies is an entry with an error, and
what lies between entries is skipped.
"""

from __future__ import annotations

import hashlib
import io
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit
from xml.parsers import expat

from twigcast.broker.delivery.addresses import origin_of
from twigcast.broker.sources.documents import (
    ATOM_NAMESPACE,
    ATOM_NAMESPACES,
    RDF_NAMESPACE,
    XML_BASE,
    FeedDocument,
    FeedRoot,
    blank,
    read_document,
)
from twigcast.errors import MalformedMessage, RejectedMessage
from twigcast.reading.options import ReadOptions
from twigcast.reading.records import Record, cut_records, located

ID_CHARACTERS_MAX: Final = 400
"""A longer id of a feed is replaced by its digest."""

_IN_URLS: Final = "!$%&'()*+,/:;=?@[]~"

DAMAGES_MAX: Final = 32
"""Places of one feed that are not well-formed, behind which it is read on; of a large feed fewer."""

_READ_AGAIN_BYTES_MAX: Final = 512 << 20
"""Bytes that are read of a feed in all: it is read anew behind each damage."""


@dataclass(frozen=True, slots=True)
class EntryLink:
    """A link of an entry to another document, as it is written."""

    href: str
    media_type: str = ""
    relation: str = "alternate"
    bases: tuple[str, ...] = ()
    """The ``xml:base`` of the elements around it, from the outermost one."""

    def resolved(self, url: str) -> str | None:
        """Returns its address in a feed at ``url``."""
        try:
            for base in (*self.bases, self.href):
                url = urljoin(url, base)
            parts = urlsplit(url)
        except ValueError:
            return None
        path, query = (quote(part, safe=_IN_URLS) for part in (parts.path, parts.query))
        return urlunsplit(parts._replace(path=path, query=query, fragment=""))


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """An entry of a feed, or a part of the feed that cannot be read as one."""

    id: str
    xml: bytes
    error: RejectedMessage | None = None
    """The reason why it cannot be used, with the position in the feed."""
    variant: str = ""
    """A digest of title, links and dates, which distinguishes entries with the same id."""
    content: str = ""
    """A digest of the entry as the feed writes it, without inherited elements."""
    updated: str = ""
    """When it was last changed, as it is written."""
    links: tuple[EntryLink, ...] = ()
    line: int = 1
    column: int = 1
    added: int = 0
    """As of :class:`~twigcast.reading.records.Record`."""

    def in_feed(self, error: RejectedMessage) -> RejectedMessage:
        """Returns an error of its message with the place in the feed."""
        return located(error, self.line, self.column, self.added)


@dataclass(slots=True)
class Feed:
    """The entries of a feed, in its order, and what is wrong with it."""

    document: FeedDocument
    entries: list[FeedEntry] = field(default_factory=list)
    error: RejectedMessage | None = None
    """Why something outside of entries cannot be read, with its place."""
    warnings: list[str] = field(default_factory=list)


def read_feed(body: bytes, *, media_type: str | None = None, entry_bytes_max: int) -> Feed:
    """Returns the entries of a feed. A charset in the media type overrides the declaration (RFC 7303)."""
    document = read_document(body, media_type)
    reader = _FeedReader(document, entry_bytes_max)
    reader.read()
    return reader.feed


def digest_id(content: bytes) -> str:
    """Returns the id of an entry or file that has none but its content."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def short_id(text: str) -> str:
    """Returns an id as it is stored: itself, or its digest if it is long."""
    return text if len(text) <= ID_CHARACTERS_MAX else digest_id(text.encode("utf-8", "surrogatepass"))


def entry_id(xml: bytes) -> str:
    """Returns the id of an entry."""
    return _entry_of(Record(xml), xml).id


class _FeedReader:
    """A reader of one feed."""

    def __init__(self, document: FeedDocument, entry_bytes_max: int) -> None:
        self.feed = Feed(document, warnings=document.warnings)
        self._text = document.text
        self._root = document.root or FeedRoot("", "rss")
        self._bytes_max = entry_bytes_max
        name = re.escape(self._root.name.encode())
        entry = b"entry" if self._root.name == "feed" else b"item"
        self._path = _record_path(self._root)
        self._ends = re.compile(rb"</(?:[^\s<>/:]+:)?" + name + rb"\s*>")
        self._starts = re.compile(rb"<(?:[^\s<>/:!?]+:)?" + entry + rb"[\s/>]")
        self._edges = re.compile(
            rb"(?P<cdata><!\[CDATA\[)|(?P<comment><!--)|(?P<start><(?:[^\s<>/:!?]+:)?" + entry + rb"[\s/>])"
            rb"|(?P<end></(?:[^\s<>/:]+:)?" + entry + rb"\s*>)"
        )
        self._done = 0
        """Bytes of the feed that have been read to the end."""

    def read(self) -> None:
        """Reads all entries."""
        records: list[Record] = []
        damages_max = max(4, min(DAMAGES_MAX, _READ_AGAIN_BYTES_MAX // (len(self._text) or 1)))
        for _ in range(damages_max):
            failed = self._cut(records)
            if failed is None or not self._skip(failed, records):
                break
        else:
            self.feed.error = self.feed.error or MalformedMessage(1, 1, f"more than {damages_max} places are damaged")
        with_authors = self._with_authors(records)
        for record in records:
            if record.error is not None:
                damaged = FeedEntry("", record.xml, record.error, line=record.line, column=record.column)
                self.feed.entries.append(damaged)
                continue
            entry = _entry_of(record, with_authors.get(record.offset, record.xml))
            if self._is_own(entry):
                self.feed.entries.append(entry)

    def _cut(self, records: list[Record]) -> Record | None:
        """Adds the records behind what is done; returns the one at which the feed stops being well-formed."""
        for record in cut_records(io.BytesIO(self._text), self._path, bytes_max=self._bytes_max):
            if record.offset is not None and record.offset < self._done:
                continue
            if record.error is not None and record.length is None:
                return record
            records.append(record)
            if record.offset is not None and record.length is not None:
                self._done = record.offset + record.length
        return None

    def _skip(self, failed: Record, records: list[Record]) -> bool:
        """Replaces a damaged part by spaces; returns whether there is more behind it."""
        at, error = failed.offset, failed.error
        if at is None or error is None or self.feed.document.root is None:
            self.feed.error = error
            return False
        root_end = self._ends.search(self._text, self._done)
        if root_end is not None and root_end.end() <= at:
            junk = len(self._text) - root_end.end()
            self.feed.warnings.append(f"line {error.line}: {junk:,} bytes behind the end of the feed were skipped")
            return False
        if failed.xml and (end := self._end_of_entry(at)) is not None:
            records.append(failed._replace(xml=self._text[at:end], error=self._error_before(end, failed, error)))
            self._blank(at, end)
            return True
        self.feed.error = self.feed.error or error
        start = self._starts.search(self._text, at + 1)
        if start is None:
            return False
        begin = self._done or self._end_of_head(start.start())
        if begin is None:
            return False
        self._blank(begin, start.start())
        return True

    def _error_before(self, end: int, failed: Record, error: RejectedMessage) -> RejectedMessage:
        """Returns the error of a damaged entry; if nothing is wrong with it before the end of the feed, at its own."""
        line = self._text.count(b"\n", 0, end) + 1
        column = len(self._text[self._text.rfind(b"\n", 0, end) + 1 : end].decode("utf-8", "replace")) + 1
        if error.line is None or error.column is None or (error.line, error.column) <= (line, column):
            return error
        entry = io.BytesIO(self._text[failed.offset : end])
        alone = next((one.error for one in cut_records(entry, ReadOptions(documents=True)) if one.error), error)
        return located(alone, failed.line, failed.column, 0)

    def _end_of_entry(self, start: int) -> int | None:
        """Returns the end of a damaged entry: behind its end tag, or where the next one begins."""
        at = start + 1
        is_open = {b"]]>": True, b"-->": True}
        while (edge := self._edges.search(self._text, at)) is not None:
            if edge["end"]:
                return edge.end()
            if edge["start"]:
                return edge.start()
            closing = b"]]>" if edge["cdata"] else b"-->"
            # What does not end is looked through; that there is no end is found out once.
            end = self._text.find(closing, edge.end()) if is_open[closing] else -1
            is_open[closing] = end >= 0
            at = edge.end() if end < 0 else end + len(closing)
        return None

    def _end_of_head(self, limit: int) -> int | None:
        """Returns the end of the start tags around entries, before ``limit``."""
        around = b"feed" if self._root.name == "feed" else b"RDF" if self._root.name == "RDF" else b"channel"
        tag = re.compile(rb"<(?:[^\s<>/:!?]+:)?" + around + rb"(?=[\s/>])").search(self._text, 0, limit)
        end = -1 if tag is None else self._text.find(b">", tag.end(), limit)
        return None if end < 0 else end + 1

    def _blank(self, begin: int, end: int) -> None:
        self._text = self._text[:begin] + blank(self._text[begin:end]) + self._text[end:]
        self._done = end

    def _with_authors(self, records: list[Record]) -> dict[int | None, bytes]:
        """Returns, by offset, the entries of an Atom feed with the authors that stand before them in the feed."""
        first = next((r.offset for r in records if r.error is None and r.offset is not None), None)
        if self._root.name != "feed" or first is None or b"author" not in self._text[:first]:
            return {}
        options = ReadOptions(record=self._path, inherit=("author",))
        results = cut_records(io.BytesIO(self._text), options, bytes_max=self._bytes_max)
        return {record.offset: record.xml for record in results if record.error is None}

    def _is_own(self, entry: FeedEntry) -> bool:
        """Returns whether an element is an entry, and not one of a foreign vocabulary with that name."""
        namespace = _namespace_of(entry.xml)
        if self._root.name == "feed":
            return namespace == self._root.namespace or namespace in ATOM_NAMESPACES
        return namespace in (self._root.namespace, "") or "rss" in namespace.lower() or "netscape" in namespace


def _record_path(root: FeedRoot) -> str:
    if root.name == "feed":
        return "/feed/entry"
    if root.name == "RDF":
        return "/RDF/item|/RDF/channel/item"
    return f"/{root.name}/channel/item|/{root.name}/item"


# --- what an entry says of itself -------------------------------------------------------------------------------------


def _entry_of(record: Record, with_authors: bytes) -> FeedEntry:
    """Returns an entry that was cut."""
    xml = record.xml
    reader = _EntryReader()
    content = content_digest(_as_written(record))
    try:
        reader.read(xml)
    except expat.ExpatError:
        # Matching reports the fault.
        identity, variant = digest_id(xml), content
    else:
        identity, variant = short_id(reader.identity() or digest_id(xml)), reader.variant()
        if reader.names_author:
            with_authors = xml
    return FeedEntry(
        identity,
        with_authors,
        None,
        variant,
        content,
        reader.updated(),
        tuple(reader.links),
        record.line,
        record.column,
        # What it inherits shifts columns only on its first line.
        record.added + (len(with_authors) - len(xml)),
    )


def _as_written(record: Record) -> bytes:
    """Returns a record without what was added to its start tag."""
    if not record.added:
        return record.xml
    name = re.match(rb"<[^\s/>]+", record.xml)
    text = record.xml.decode("utf-8", "replace")
    start = 0 if name is None else len(name[0].decode("utf-8", "replace"))
    return (text[:start] + text[start + record.added :]).encode()


def content_digest(content: bytes) -> str:
    """Returns the digest by which versions of an entry or document are known apart."""
    return hashlib.sha256(content).hexdigest()[:12]


def _namespace_of(xml: bytes) -> str:
    names: list[str] = []
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler = lambda name, _: names.append(name)
    try:
        parser.Parse(xml[: xml.find(b">") + 1], False)
    except expat.ExpatError:
        return ""
    return names[0].rpartition(" ")[0] if names else ""


_DCTERMS: Final = "http://purl.org/dc/terms/"
_DC: Final = "http://purl.org/dc/elements/1.1/"
_OWN_TEXTS: Final = frozenset({"guid", "id", "link", "title", "updated", "modified", "pubDate", "published", "issued"})
_FOREIGN_TEXTS: Final = frozenset(
    {f"{ATOM_NAMESPACE} updated", f"{ATOM_NAMESPACE} published", f"{_DCTERMS} modified", f"{_DC} date"}
)
_DATES: Final = (
    "updated",
    f"{ATOM_NAMESPACE} updated",
    f"{_DCTERMS} modified",
    "modified",
    "pubDate",
    f"{_DC} date",
    "published",
    f"{ATOM_NAMESPACE} published",
    "issued",
)
"""The elements that say when an entry was changed, the best first."""


class _EntryReader:
    """A reader of what an entry says of itself: children of its root in its own namespace, and attributes."""

    def __init__(self) -> None:
        self.links: list[EntryLink] = []
        self.names_author = False
        self._texts: dict[str, str] = {}
        self._names: list[str] = []
        self._own = ""
        self._bases: list[str] = []
        self._open: str | None = None
        self._text: list[str] = []

    def read(self, xml: bytes) -> None:
        """Reads an entry; raises ExpatError if it is not well-formed."""
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._on_text
        parser.Parse(xml, True)

    def identity(self) -> str | None:
        """Returns the strongest identifier."""
        for name in ("guid", "id", "about", "link"):
            if self._texts.get(name):
                return self._texts[name]
        return None

    def variant(self) -> str:
        """Returns a digest of title, links and dates."""
        parts = [f"{name}={text}" for name, text in sorted(self._texts.items()) if name not in ("guid", "id")]
        return content_digest("\n".join([*parts, *(link.href for link in self.links)]).encode("utf-8", "surrogatepass"))

    def updated(self) -> str:
        """Returns when the entry was last changed, as it is written."""
        return next((self._texts[name] for name in _DATES if self._texts.get(name)), "")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        if not self._names:
            self._own = namespace
            self._texts["about"] = attributes.get(f"{RDF_NAMESPACE} about", "").strip()
            self._bases = [attributes[XML_BASE]] if XML_BASE in attributes else []
        elif local == "author" and namespace == self._own:
            self.names_author |= [one.rpartition(" ")[2] for one in self._names[1:]] in ([], ["source"])
        self._names.append(name)
        if len(self._names) != 2:
            return
        is_own = namespace == self._own
        if local in ("link", "enclosure") and (is_own or name == f"{ATOM_NAMESPACE} link"):
            self._add_link(local, attributes, is_own=is_own)
        key = local if is_own and local in _OWN_TEXTS else name
        if key not in self._texts and (key in _FOREIGN_TEXTS or (is_own and local in _OWN_TEXTS)):
            self._open, self._text = key, []

    def _add_link(self, local: str, attributes: dict[str, str], *, is_own: bool) -> None:
        href = attributes.get("href", attributes.get("url", "")).strip()
        if not href:
            return
        relation = attributes.get("rel", "alternate" if local == "link" else "enclosure")
        inner = attributes.get(XML_BASE)
        bases = (*self._bases, inner) if inner else tuple(self._bases)
        self.links.append(EntryLink(href, attributes.get("type", "").strip().lower(), relation, bases))
        if local == "link" and relation == "alternate" and is_own:
            self._texts.setdefault("link", href)

    def _end(self, _: str) -> None:
        if len(self._names) == 2 and self._open is not None:
            text = "".join(self._text).strip()
            if text:
                self._texts[self._open] = text
                if self._open == "link":
                    self.links.append(EntryLink(text, bases=tuple(self._bases)))
            self._open = None
        self._names.pop()

    def _on_text(self, text: str) -> None:
        if self._open is not None:
            self._text.append(text)


# --- folders ----------------------------------------------------------------------------------------------------------


_SUFFIXES: Final = (".xml", ".xml.gz")
LINKS_MAX: Final = 100_000


def find_links(page: bytes, url: str, media_type: str) -> list[str]:
    """Returns the URLs of XML files in or below a folder from its index page (HTML, or a name a line), each once."""
    text = page.decode("utf-8", "replace")
    looks_like_html = "html" in media_type or text.lstrip()[:1] == "<"
    references = _anchors(text) if looks_like_html else [line.strip() for line in text.splitlines()]
    folder = url.rpartition("/")[0] + "/"
    results: dict[str, None] = {}
    for reference in references:
        link = _resolved(reference, url)
        if link is not None and link.startswith(folder) and urlsplit(link).path.lower().endswith(_SUFFIXES):
            results[link] = None
        if len(results) >= LINKS_MAX:
            break
    return list(results)


def name_in_folder(link: str, url: str) -> str:
    """Returns the id of the message behind a link: its path relative to the folder."""
    folder = url.rpartition("/")[0] + "/"
    return unquote(link.removeprefix(folder))


def _resolved(reference: str, url: str) -> str | None:
    try:
        link = urljoin(url, reference)
        parts = urlsplit(link)
    except ValueError:
        return None
    return urlunsplit(parts._replace(fragment="")) if origin_of(link) == origin_of(url) else None


def _anchors(text: str) -> list[str]:
    parser = _Anchors()
    parser.feed(text)
    parser.close()
    return parser.references


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.references += [value for name, value in attrs if name == "href" and value]
