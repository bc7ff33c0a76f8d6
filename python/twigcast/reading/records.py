"""Cutting of one large document into messages at a record element, as a stream.

expat reports where each record starts and ends, and the bytes of the record are copied from the document: white space,
CDATA sections, comments and references stay as they are. A record becomes a message of its own, always in UTF-8 and
without an XML declaration:

- namespace declarations that are in scope at the record, and that it does not repeat, are added to its start tag;
- if the DTD of the document declares entities or default attributes, a record that needs them gets the document type
  declaration;
- ``xml:lang`` and the like on elements around the record are lost, as is everything between records.

Documents that are not in UTF-8 are decoded chunk by chunk before expat reads them. Memory is bounded by one record.
Entities are not expanded: records inside an entity are not recognised. The only state is the stack of open elements
around the record, with the namespaces that each declares.
"""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from twigcast.errors import MalformedMessage, MessageLimitExceeded, RejectedMessage
from twigcast.reading.conversion import charset

HEAD_BYTES: Final = 64 << 10
"""Bytes that are kept of a record over the size limit."""

_CHUNK_BYTES: Final = 1 << 16

_NO_ELEMENTS: Final = expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]
_NO_MARKUP: Final = codecs.BOM_UTF8 + b" \t\r\n"
"""The bytes of which a document without any markup consists."""

_START_TAG = re.compile(rb"""<[^\s/>"']+(?:[^"'>]|"[^"]*"|'[^']*')*>""")
_TAG_NAME = re.compile(rb"<[^\s/>]+")
_DECLARED_REFERENCE = re.compile(rb"&(?!#|(?:amp|lt|gt|quot|apos);)")
_DECLARED_ENCODING = re.compile(rb"""<\?xml\s[^>]*?\sencoding\s*=\s*["']([A-Za-z][\w.\-]*)["']""")

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNMARKED_UTF16: Final = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))


class ByteStream(Protocol):
    """A stream that bytes can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """Returns at most ``size`` bytes, all of them if it is negative, and none at the end."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record, or the rest of a document that cannot be cut further."""

    xml: bytes
    """The record as a document; if there is an error, as much of it as was read, at most 64 KiB."""

    error: RejectedMessage | None = None


def cut_records(stream: ByteStream, record: str, *, bytes_max: int) -> Iterator[Record]:
    """Cuts the records of a document, in order.

    A record over the size limit has an error, and the next ones follow. If the document stops being well-formed, one
    last record has the error, with its position in the document.

    Args:
        stream: The document, in UTF-8, UTF-16 or an encoding that it declares and Python knows.
        record: ``name`` (with any prefix), ``prefix:name`` as the document writes it, or ``{namespace}name``.
            Of nested elements, the outermost one is the record.
        bytes_max: Bytes that one record may have, and any tag, comment or the like between records.
    """
    cutter = _Cutter(record, bytes_max)
    try:
        for chunk in _utf8_chunks(stream, cutter):
            yield from cutter.feed(chunk)
        yield from cutter.feed(b"", last=True)
    except RejectedMessage as error:
        yield Record(cutter.open_record()[:HEAD_BYTES], error)


class _Cutter:
    """An expat parser with handlers that record where records start and end."""

    def __init__(self, record: str, bytes_max: int) -> None:
        self._record = record
        self._local_name = record.rpartition("}")[2].rpartition(":")[2]
        self._bytes_max = bytes_max
        self._buffer = bytearray()
        self._buffer_start = 0  # position in the document of the buffer's first byte
        self._depth = 0
        self._scopes: list[tuple[int, dict[str, str]]] = [(0, {})]  # depth and prefixes of elements that declare some
        self._record_start = -1  # position where the open record starts, -1 outside of records
        self._record_depth = 0
        self._record_head: bytes | None = None  # start of an open record that is too large
        self._ended: list[tuple[int, int, dict[str, str]] | Record] = []  # start, end and namespaces to add
        self._inherited: dict[str, str] = {}
        self._doctype_head = b""
        self._doctype_start = -1  # position of the internal subset while it is being read
        self._doctype = b""
        self._has_attribute_declarations = False
        self._has_markup = False  # or anything else but white space
        self._parser = expat.ParserCreate("utf-8")
        self._parser.ordered_attributes = True
        self._parser.StartElementHandler = self._on_start
        self._parser.EndElementHandler = self._on_end
        self._parser.StartDoctypeDeclHandler = self._on_doctype_start
        self._parser.EndDoctypeDeclHandler = self._on_doctype_end
        self._parser.AttlistDeclHandler = self._on_attribute_declaration

    @property
    def pending(self) -> int:
        """Number of bytes that the parser has read and cannot interpret yet."""
        return self._buffer_start + len(self._buffer) - max(self._parser.CurrentByteIndex, 0)

    @property
    def line(self) -> int:
        """Current line of the parser, from 1."""
        return self._parser.CurrentLineNumber

    @property
    def column(self) -> int:
        """Current column of the parser, from 1."""
        return self._parser.CurrentColumnNumber + 1

    def feed(self, chunk: bytes, *, last: bool = False) -> Iterator[Record]:
        """Reads the next bytes, and yields the records that end in them."""
        self._buffer += chunk
        self._has_markup = self._has_markup or bool(chunk.strip(_NO_MARKUP))
        error = None
        try:
            self._parser.Parse(chunk, last)
        except expat.ExpatError as raised:
            error = self._malformed(raised)
        for ended in self._ended:
            yield ended if isinstance(ended, Record) else self._checked(*ended)
        self._ended.clear()
        if error is not None:
            raise error
        self._forget()

    def open_record(self) -> bytes:
        """Returns the record that has started and not ended, as far as it was read."""
        if self._record_head is not None:
            return self._record_head
        return b"" if self._record_start < 0 else bytes(self._slice(self._record_start))

    def _slice(self, start: int, end: int | None = None) -> bytearray:
        return self._buffer[start - self._buffer_start : None if end is None else end - self._buffer_start]

    def _forget(self) -> None:
        """Drops what the parser has read and nothing needs any more."""
        parsed = max(self._parser.CurrentByteIndex, 0)
        starts = [start for start in (self._record_start, self._doctype_start) if start >= 0]
        if starts and parsed - min(starts) > self._bytes_max:
            if self._record_start < 0:
                raise self._too_large("the document type declaration")
            if self._record_head is None:
                self._record_head = bytes(self._slice(self._record_start)[:HEAD_BYTES])
        keep_from = min(starts, default=parsed) if self._record_head is None else parsed
        del self._buffer[: keep_from - self._buffer_start]
        self._buffer_start = keep_from
        if self.pending > self._bytes_max:
            raise self._too_large("a tag, comment or processing instruction")

    def _malformed(self, error: expat.ExpatError) -> MalformedMessage:
        line, column, reason = error.lineno, error.offset + 1, expat.ErrorString(error.code)
        if error.code == _NO_ELEMENTS:
            reason = "the document has no root element"
            if not self._has_markup:
                blank = (line, column) != (1, 1)
                reason = f"the document is empty{' but for white space' * blank}: it has no root element"
        return MalformedMessage(line, column, reason)

    def _too_large(self, what: str) -> MessageLimitExceeded:
        reason = f"{what} is larger than {self._bytes_max:,} bytes"
        return MessageLimitExceeded("message_bytes_max", self._bytes_max, reason, self.line, self.column)

    # What expat calls -----------------------------------------------------------------------------------------------

    def _on_start(self, name: str, attributes: list[str]) -> None:
        self._depth += 1
        if self._record_start >= 0:
            return
        declared = _declared_namespaces(attributes) if attributes else {}
        scope = self._scopes[-1][1]
        if name.rpartition(":")[2] == self._local_name and self._is_record(name, scope | declared):
            self._record_start = self._parser.CurrentByteIndex
            self._record_depth = self._depth
            self._inherited = {prefix: uri for prefix, uri in scope.items() if uri and prefix not in declared}
        elif declared:
            self._scopes.append((self._depth, scope | declared))

    def _on_end(self, _name: str) -> None:
        if self._record_start < 0:
            if self._scopes[-1][0] == self._depth:
                self._scopes.pop()
        elif self._depth == self._record_depth:
            self._end_record()
        self._depth -= 1

    def _end_record(self) -> None:
        if self._record_head is None:
            self._ended.append((self._record_start, self._parser.CurrentByteIndex, self._inherited))
        else:
            self._ended.append(Record(self._record_head, self._too_large("the record")))
        self._record_start = -1
        self._record_head = None

    def _on_doctype_start(self, name: str, system: str | None, public: str | None, has_subset: int) -> None:
        identifiers = f" PUBLIC {quoteattr(public)}" if public else " SYSTEM" if system else ""
        identifiers += f" {quoteattr(system)}" if system else ""
        self._doctype_head = f"<!DOCTYPE {name}{identifiers} ".encode()
        self._doctype_start = self._parser.CurrentByteIndex
        if has_subset:
            # With a default handler, expat reports entity references as they are instead of expanding them.
            self._parser.DefaultHandler = lambda _text: None

    def _on_doctype_end(self) -> None:
        subset = self._slice(self._doctype_start, self._parser.CurrentByteIndex)
        self._doctype = self._doctype_head + subset.rstrip(b"> \t\r\n") + b">"
        self._doctype_start = -1

    def _on_attribute_declaration(self, *_declaration: object) -> None:
        self._has_attribute_declarations = True

    # Making records --------------------------------------------------------------------------------------------------

    def _is_record(self, name: str, scope: dict[str, str]) -> bool:
        if self._record.startswith("{"):
            return self._record == f"{{{scope.get(name.rpartition(':')[0], '')}}}{self._local_name}"
        return ":" not in self._record or name == self._record

    def _checked(self, start: int, last_tag: int, inherited: dict[str, str]) -> Record:
        xml = self._copy(start, last_tag, inherited)
        if len(xml) > self._bytes_max:
            return Record(xml[:HEAD_BYTES], self._too_large("the record"))
        return Record(xml)

    def _copy(self, start: int, last_tag: int, inherited: dict[str, str]) -> bytes:
        """Returns the record from ``start`` to the end of its end tag at ``last_tag``, as a document."""
        at = start - self._buffer_start
        start_tag = _START_TAG.match(self._buffer, at)
        name = _TAG_NAME.match(self._buffer, at)
        if start_tag is None or name is None:
            raise MalformedMessage(self.line, self.column, "the record's start tag cannot be found")
        if start_tag.group().endswith(b"/>"):
            end = start_tag.end()
        else:
            end = self._buffer.index(b">", last_tag - self._buffer_start) + 1
        body = self._buffer[name.end() : end]
        declarations = "".join(
            f" xmlns{':' if prefix else ''}{prefix}={_quoted(uri)}" for prefix, uri in inherited.items()
        )
        needs_doctype = self._doctype and (self._has_attribute_declarations or _DECLARED_REFERENCE.search(body))
        return b"".join((self._doctype if needs_doctype else b"", name.group(), declarations.encode(), body))


def _declared_namespaces(attributes: list[str]) -> dict[str, str]:
    """Returns prefixes with their namespaces, from alternating names and values of attributes."""
    return {
        name[len("xmlns:") :]: value
        for name, value in zip(attributes[::2], attributes[1::2], strict=True)
        if name == "xmlns" or name.startswith("xmlns:")
    }


def _quoted(value: str) -> str:
    """Returns an attribute value as XML, with its white space preserved."""
    return quoteattr(value, {"\t": "&#9;", "\n": "&#10;", "\r": "&#13;", '"': "&quot;"})


# --- encodings --------------------------------------------------------------------------------------------------------


def _utf8_chunks(stream: ByteStream, cutter: _Cutter) -> Iterator[bytes]:
    """Yields the document in UTF-8, chunk by chunk."""
    head = stream.read(_CHUNK_BYTES)
    encoding, mark = _encoding(head)
    decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)()
    chunk = head if encoding == "utf-16" else head[len(mark) :]
    while chunk:
        if decoder is None:
            yield chunk
        else:
            yield _decoded(decoder, chunk, encoding, cutter)
        # The parser rescans an incomplete tag with each chunk: growing chunks avoid quadratic time.
        chunk = stream.read(max(_CHUNK_BYTES, cutter.pending))
    if decoder is not None:
        yield _decoded(decoder, b"", encoding, cutter)


def _decoded(decoder: codecs.IncrementalDecoder, chunk: bytes, encoding: str, cutter: _Cutter) -> bytes:
    try:
        return decoder.decode(chunk, final=not chunk).encode()
    except UnicodeError:
        raise MalformedMessage(cutter.line, cutter.column, f"bytes after this position are not {encoding}") from None


def _encoding(head: bytes) -> tuple[str, bytes]:
    """Returns the encoding that the first bytes indicate, and the byte-order mark."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return encoding, mark
    for start, encoding in _UNMARKED_UTF16:
        if head.startswith(start):
            return encoding, b""
    declared = _DECLARED_ENCODING.match(head)
    if declared is None:
        return "utf-8", b""
    name = declared.group(1).decode("ascii")
    try:
        codec = charset(name)
    except LookupError:
        raise MalformedMessage(1, declared.start(1) + 1, f"the encoding {name!r} is unknown") from None
    if codec is None:
        raise MalformedMessage(1, declared.start(1) + 1, f"the bytes are not in the declared encoding {name!r}")
    return codec, b""
