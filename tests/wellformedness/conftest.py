"""Reads a message with Twigcast and with expat, in one form, so that the two can be compared."""

import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

import pytest
from lxml import etree

from twigcast import _core
from twigcast.errors import NeedsConversion, RejectedMessage
from twigcast.reading.conversion import to_utf8

Event = tuple[Any, ...]

_SEPARATOR = "\x0c"
_DECLARED_ENCODING = re.compile(
    rb"""<\?xml\s+version\s*=\s*(?:"[^"<>]*"|'[^'<>]*')\s+encoding\s*=\s*["']([A-Za-z0-9._-]+)"""
)
_ENCODINGS_OF_EXPAT = {b"utf-8", b"us-ascii", b"iso-8859-1", b"utf-16", b"utf-16le", b"utf-16be"}
_MEANT = re.compile(
    r"XML declaration has the version|does not declare the entity|undeclared parameter entity|is external \(SYSTEM"
    r"|but starts with the byte-order mark|which documents cannot be in|name of the document type"
)


@dataclass(frozen=True)
class Reading:
    """What a parser makes of a message: its events, or why it is rejected."""

    events: list[Event] = field(default_factory=list)
    reason: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def accepted(self) -> bool:
        return self.reason is None


def read_with_twigcast(message: bytes) -> Reading:
    try:
        try:
            events = _core.scan_events(message)
        except NeedsConversion:
            events = _core.scan_events(to_utf8(message))
    except NeedsConversion:
        raise AssertionError(f"a converted message is to be converted again: {message[:2000]!r}") from None
    except RejectedMessage as error:
        return Reading(reason=error.reason, line=error.line, column=error.column)
    return Reading([_with_sorted_attributes(event) for event in events])


def read_with_expat(message: bytes) -> Reading:
    """Encodings that are not expat's own are decoded by Python for it; everything else is expat's own."""
    declared = _DECLARED_ENCODING.match(message)
    if declared is None or declared[1].lower() in _ENCODINGS_OF_EXPAT:
        return _expat(message, None)
    try:
        text = message.decode(declared[1].decode())
    except (UnicodeError, LookupError) as error:
        return Reading(reason=str(error))
    return _expat(text.encode(), "utf-8")


def _expat(message: bytes, encoding: str | None) -> Reading:
    reader = _ExpatReader()
    parser = expat.ParserCreate(encoding, _SEPARATOR)
    reader.attach(parser)
    # Parameter entities of the message itself are read; all others are passed over.
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
    parser.ExternalEntityRefHandler = lambda *_: 1
    try:
        parser.Parse(message, True)
    except expat.ExpatError as error:
        return Reading(reason=expat.ErrorString(error.code), line=error.lineno, column=error.offset + 1)
    except (ValueError, LookupError) as error:  # an encoding that Python does not know, or not byte by byte
        return Reading(reason=str(error))
    return Reading(reader.events)


class _ExpatReader:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self._pieces: list[str] = []
        self._doctype_open = False

    def attach(self, parser: expat.XMLParserType) -> None:
        parser.StartElementHandler = self._start
        parser.EndElementHandler = lambda name: self._add(("end",))
        parser.CharacterDataHandler = self._pieces.append
        parser.CommentHandler = lambda data: self._outside_doctype(("comment", data))
        parser.ProcessingInstructionHandler = lambda target, data: self._outside_doctype(("pi", target, data))
        parser.StartDoctypeDeclHandler = lambda *_: self._doctype(True)
        parser.EndDoctypeDeclHandler = lambda: self._doctype(False)

    def _add(self, event: Event) -> None:
        if self._pieces:
            self.events.append(("text", "".join(self._pieces)))
            self._pieces.clear()
        self.events.append(event)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        values = tuple(sorted((*_expanded(key), value) for key, value in attributes.items()))
        self._add(("start", *_expanded(name), values))

    def _outside_doctype(self, event: Event) -> None:
        if not self._doctype_open:
            self._add(event)

    def _doctype(self, is_open: bool) -> None:
        self._doctype_open = is_open


def _expanded(name: str) -> tuple[str, str]:
    uri, _, local = name.rpartition(_SEPARATOR)
    return uri, local


def _with_sorted_attributes(event: tuple[Any, ...]) -> Event:
    return (*event[:3], tuple(sorted(tuple(a) for a in event[3]))) if event[0] == "start" else tuple(event)


def assert_same_reading(message: bytes, hint: str = "") -> Reading:
    """Twigcast reads a message as expat does, apart from six differences that are meant.

    - Versions: what is no version is rejected; expat looks at no version.
    - Entities: references to what is not read or declared are errors; expat skips them.
    - Byte-order marks: one that contradicts the declared encoding is an error; expat follows the declaration.
    - Document types: their name has to be a qualified name (Namespaces in XML, section 5); expat does not look.
    - Encodings: Python's codecs that shift (UTF-7) or escape are refused; pyexpat takes them for plain bytes.
    - Names: characters follow the fifth edition of XML 1.0; expat has the fourth, and in UTF-16 and Latin-1 two more.
      Libxml2, which also has the fifth, then has to agree with Twigcast.
    """
    ours, theirs = read_with_twigcast(message), read_with_expat(message)
    where = f"{hint} {message[:2000]!r}"
    if ours.accepted == theirs.accepted:
        assert ours.events == theirs.events, where
    elif not (ours.reason and _MEANT.search(ours.reason)):
        # In UTF-16, bytes below 0x80 make other characters too.
        # As a reference, a character of a name can stand in an entity.
        assert not message.isascii() or b"\0" in message or b"&#" in message, (
            f"we say {ours.reason}, expat {theirs.reason}: {where}"
        )
        assert ours.accepted == _libxml2_accepts(message), f"we say {ours.reason}, expat {theirs.reason}: {where}"
    return ours


def _libxml2_accepts(message: bytes) -> bool:
    # Libxml2 knows UTF-16 without a mark by an XML declaration only.
    if message[1:2] == b"\0":
        message = codecs.BOM_UTF16_LE + message
    elif message[:1] == b"\0":
        message = codecs.BOM_UTF16_BE + message
    try:
        etree.fromstring(message, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True))
    except etree.XMLSyntaxError as error:
        # Only libxml2 minds what a namespace name looks like.
        return error.code == etree.ErrorTypes.WAR_NS_URI
    return True


@pytest.fixture(scope="session")
def same_reading() -> Callable[..., Reading]:
    """See :func:`assert_same_reading`."""
    return assert_same_reading


@pytest.fixture(scope="session")
def twigcast_reading() -> Callable[[bytes], Reading]:
    """See :func:`read_with_twigcast`."""
    return read_with_twigcast


@pytest.fixture(scope="session")
def expat_reading() -> Callable[[bytes], Reading]:
    """See :func:`read_with_expat`."""
    return read_with_expat
