"""Large documents as messages, one for each record in them, read as a stream.

The compiled core finds where each record starts and ends, and its bytes are copied from the document: white space,
CDATA sections, comments and references stay as they are. A record becomes a message of its own, always in UTF-8 and
without an XML declaration. It takes its context in the document along:

- namespace declarations in scope, ``xml:lang``, ``xml:space`` and ``xml:base`` are added to its start tag;
- entities that the document declares are expanded, and the attribute defaults of its DTD are added;
- attributes and elements that ``inherit`` names are added: an attribute of an element around the record, an element
  before it, or an element around it.

Documents that are not in UTF-8 are decoded piece by piece, each of several in the encoding that it declares itself.
Memory is bounded by one record. Records inside of entities are not recognised. Inside of a record, only what is needed
to find its end is checked. The rest is checked when the record is matched, so that one broken record does not prevent
the next ones from being read.
"""

from __future__ import annotations

import codecs
import re
import sys
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

from twigcast._core import NumberBuffer, RecordCutter
from twigcast.arrow_types import ArrowColumn
from twigcast.errors import MalformedMessage, RejectedMessage
from twigcast.limits import Limits
from twigcast.reading.conversion import charset, without_declared_encoding
from twigcast.reading.options import ReadOptions
from twigcast.reading.streams import ByteStream

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK_BYTES: Final = 1 << 18
"""Bytes that are read of a document at a time, unless a record is larger."""

Buffer = bytes | NumberBuffer
"""Bytes that others read in place."""

_PIECE_BYTES: Final = 1 << 12
_DECLARATION_BYTES_MAX: Final = 1 << 10
_INT64_BYTES: Final = 8
_PLACE_FIELDS: Final = 5

T = TypeVar("T", covariant=True)

_DECLARED_ENCODING = re.compile(rb"""<\?xml\s[^>]*?\sencoding\s*=\s*["']([A-Za-z][\w.\-]*)["']""")

_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNMARKED_UTF16: Final = tuple(
    (start.encode(codec), codec) for codec in ("utf-16-le", "utf-16-be") for start in "< \t\r\n"
)


class Record(NamedTuple):
    """One record, or the rest of a document that cannot be cut further."""

    xml: bytes
    """The record as a document; if there is an error, as much of it as was read, at most 64 KiB."""

    error: RejectedMessage | None = None
    """Why it cannot be used, with the place in the document."""

    id: str | None = None
    """The id that it gives itself, if one was asked for."""

    line: int = 1
    """The line of the document on which it begins, from 1."""

    column: int = 1
    """The column where it begins, from 1."""

    added: int = 0
    """How many characters of ``xml``, before all but its name, do not stand in the document."""

    offset: int | None = None
    """Bytes of the document before it; ``None`` if the document had to be converted."""

    length: int | None = None
    """Bytes that it has in the document; ``None`` also if its end was not found."""


def located(error: RejectedMessage, line: int, column: int, added: int) -> RejectedMessage:
    """Returns an error of a record with its place in the document: see the fields of :class:`Record`."""
    if not isinstance(error, MalformedMessage) or error.line is None or error.column is None:
        return error
    in_line = max(column, column + error.column - 1 - added)
    return MalformedMessage(line + error.line - 1, in_line if error.line == 1 else error.column, error.reason)


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records that were cut together, one after the other in one buffer."""

    data: Buffer
    """The records, as :attr:`Record.xml`."""

    offsets: Buffer
    """64-bit integers: where each record starts in ``data``, and where the last one ends."""

    errors: dict[int, RejectedMessage]
    """As :attr:`Record.error`, by index."""

    ids: list[str | None]
    """The ids, as :attr:`Record.id`; records beyond the end of the list have none."""

    places: Buffer
    """64-bit integers: the lines of all records, then their columns, and so on, as the last fields of :class:`Record`;
    0 is a length that is not known."""

    has_offsets: bool = True
    """Whether the document was cut as it stands, so that offsets and lengths are of use."""

    def __len__(self) -> int:
        return memoryview(self.offsets).nbytes // _INT64_BYTES - 1

    def arrow(self, *, with_heads: bool = False) -> ArrowColumn[bytes | None]:
        """Returns the records as an Arrow array, without copying, for :meth:`twigcast.SubscriptionSet.match_batch`.

        Records with an error are null, or ``with_heads`` the beginning that was read.
        """
        import pyarrow as pa

        validity = None
        if self.errors and not with_heads:
            bits = bytearray(b"\xff" * (len(self) // 8 + 1))
            for index in self.errors:
                bits[index // 8] &= ~(1 << index % 8)
            validity = pa.py_buffer(bytes(bits))
        buffers = [validity, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        column: ArrowColumn[bytes | None] = pa.Array.from_buffers(pa.large_binary(), len(self), buffers, -1)
        return column

    def location_columns(self) -> list[pa.Int64Array]:
        """Returns ``places`` as Arrow arrays, without copying."""
        import pyarrow as pa

        column_bytes = _INT64_BYTES * len(self)
        places = pa.py_buffer(self.places)
        buffers = [places.slice(field * column_bytes, column_bytes) for field in range(_PLACE_FIELDS)]
        return [pa.Array.from_buffers(pa.int64(), len(self), [None, buffer]) for buffer in buffers]

    def __iter__(self) -> Iterator[Record]:
        """Yields the records one by one."""
        data, errors, count = bytes(self.data), self.errors, len(self)
        start = 0
        ends = memoryview(self.offsets).cast("B").cast("q")[1:]
        fields = memoryview(self.places).cast("B").cast("q")
        places = zip(*(fields[field * count : (field + 1) * count] for field in range(_PLACE_FIELDS)), strict=True)
        for index, (end, place) in enumerate(zip(ends, places, strict=True)):
            record_id = self.ids[index] if index < len(self.ids) else None
            line, column, added, offset, length = place
            found = (offset, length or None) if self.has_offsets else (None, None)
            yield Record(data[start:end], errors.get(index), record_id, line, column, added, *found)
            start = end


def cut_records(
    stream: ByteStream,
    options: str | ReadOptions,
    *,
    bytes_max: int = Limits().message_bytes_max,
    inherited: set[str] | None = None,
) -> Iterator[Record]:
    """Yields the records of a document, in order.

    A record over the size limit has an error, and the next ones follow. So has one with an entity that is not declared.
    What is wrong between records is a record with an error, too. Where the end of an element is not known, one last
    record has the error, with its position in the document. What is wrong inside of a record whose end is beyond doubt
    is not looked at: who matches it finds the error.

    Args:
        stream: The document, in UTF-8, UTF-16 or an encoding that it declares and Python knows.
        options: The elements that are records, or all options: see :class:`~twigcast.reading.options.ReadOptions`.
            Without ``record``, each document is one. They are not repaired here.
        bytes_max: Bytes that one record may have, and any tag, comment or the like between records.
        inherited: At the end, it gets the names of ``inherit`` of which records have inherited something.

    Raises:
        ReadOptionError: The record cannot be read.
        SourceError: The file of the DTD cannot be read.
    """
    for batch in cut_record_batches(stream, options, bytes_max=bytes_max, inherited=inherited):
        yield from batch


def cut_record_batches(
    stream: ByteStream,
    options: str | ReadOptions,
    *,
    bytes_max: int = Limits().message_bytes_max,
    chunk_bytes: int = CHUNK_BYTES,
    inherited: set[str] | None = None,
) -> Iterator[RecordBatch]:
    """Yields the records of a document as :func:`cut_records` does, those together that end in one chunk of it.

    At the end, ``inherited`` gets the names of ``options.inherit`` of which records have inherited something.
    """
    options = ReadOptions(record=options) if isinstance(options, str) else options
    cutter = options.cutter(bytes_max)
    start = DocumentStart.read(stream)
    is_utf8 = start.is_utf8
    for data, offsets, errors, ids, places in feed(start, cutter, cutter.feed, chunk_bytes):
        if len(places):
            yield RecordBatch(data, offsets, dict(errors), ids, places, has_offsets=is_utf8)
        # Behind a document that has to be decoded nobody knows how many bytes there were.
        is_utf8 = is_utf8 and not cutter.is_halted
    if inherited is not None:
        inherited.update(options.inherit[index] for index in cutter.inherited)


class _Feeder(Protocol[T]):
    """Feeds a cutter, and returns what comes of it."""

    def __call__(self, chunk: bytes, *, last: bool = False) -> T: ...


def feed(
    stream: ByteStream | DocumentStart, cutter: RecordCutter, feeder: _Feeder[T], chunk_bytes: int = CHUNK_BYTES
) -> Iterator[T]:
    """Yields what comes of each piece of a document."""
    for chunk in _utf8_chunks(stream, cutter, chunk_bytes):
        yield feeder(chunk)
    yield feeder(b"", last=True)


# --- encodings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentStart:
    """The first bytes of a document that is read as a stream."""

    head: bytes
    """So many that they tell the encoding."""

    more: Callable[[int], bytes]
    """Reads what follows them."""

    @classmethod
    def read(cls, stream: ByteStream) -> DocumentStart:
        """Reads the first bytes of a stream."""
        # What has arrived is read, instead of waiting until there is more: the sender may be waiting too.
        read = getattr(stream, "read1", stream.read)
        return cls(_head(b"", read), read)

    @property
    def is_utf8(self) -> bool:
        """Returns whether the document is in UTF-8 and read as it stands, byte for byte."""
        return _encoding(self.head) == _Encoding("utf-8")


class _Encoding(NamedTuple):
    """How the bytes of a document are to be read."""

    codec: str
    mark: bytes = b""
    """The byte-order mark before it."""

    fault: str | None = None
    """Why it cannot be read."""

    at: int = 0
    """The bytes before the place that is at fault."""


def _utf8_chunks(stream: ByteStream | DocumentStart, cutter: RecordCutter, chunk_bytes: int) -> Iterator[bytes]:
    """Yields the document in UTF-8, chunk by chunk, without the encoding that it declares if that is another.

    Of several documents each is read in its own encoding: the cutter halts before one in another.
    """
    begun = stream if isinstance(stream, DocumentStart) else DocumentStart.read(stream)
    head, read = begun.head, begun.more
    is_alone = False
    while True:
        encoding = _encoding(head)
        if encoding.codec != "utf-8":
            is_alone = True
        cutter.take_back(is_alone=is_alone)
        if encoding.fault is not None:
            # It is rejected at that place. Whatever follows it is looked for in its bytes as they are.
            yield head[len(encoding.mark) : encoding.at]
            cutter.abandon(encoding.fault)
            head = head[encoding.at :]
            encoding = _Encoding("utf-8")
        start = head[len(encoding.mark) :]
        if encoding.codec == "utf-8":
            rest = yield from _as_they_are(start, read, cutter, chunk_bytes)
        else:
            rest = yield from _decoded(_Decoder(encoding.codec), start, read, cutter, chunk_bytes)
        if rest is None:
            return
        # What the cutter cannot read as UTF-8 although it seems to be, it may reject.
        is_alone = not is_alone and _encoding(rest).codec == "utf-8"
        head = _head(rest, read)


def _as_they_are(
    chunk: bytes, read: Callable[[int], bytes], cutter: RecordCutter, chunk_bytes: int
) -> Generator[bytes, None, bytes | None]:
    """Yields the bytes of documents in UTF-8. Returns what has been read of a document in another encoding."""
    while chunk:
        yield chunk
        if cutter.is_halted:
            return cutter.take_back(is_alone=False)
        # The cutter rescans an incomplete tag with each chunk: growing chunks avoid quadratic time.
        chunk = read(max(chunk_bytes, cutter.pending))
    return None


class _Decoder:
    """Decodes the bytes of one document, and finds out which bytes some of the last characters were."""

    def __init__(self, codec: str) -> None:
        self.codec = codec
        self._decoder = codecs.getincrementaldecoder(codec)()
        self._pieces: deque[tuple[bytes, str, tuple[bytes, int]]] = deque()
        """Bytes with their text, and the state of the decoder before them."""

    def decode(self, piece: bytes) -> tuple[str, bytes | None]:
        """Returns the text of a piece, which is empty at the end, up to what is wrong; and the rest if something is."""
        state = self._decoder.getstate()
        wrong: bytes | None = None
        try:
            text = self._decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            text, wrong = error.object[: error.start].decode(self.codec), error.object[error.start :]
        except UnicodeError:
            text, wrong = "", state[0] + piece
        right = len(state[0] + piece) - len(wrong or b"")
        self._pieces.append(((state[0] + piece)[len(state[0]) : right], text, state))
        return text, wrong

    def go_on(self) -> None:
        """Decodes what follows somehow, once the document has been rejected."""
        self._decoder = codecs.getincrementaldecoder(self.codec)(errors="replace")

    def forget(self, pending: int) -> None:
        """Forgets pieces of which nothing is among so many last bytes of the text in UTF-8."""
        kept = sum(len(text.encode()) for _, text, _ in self._pieces)
        while self._pieces and kept - len(self._pieces[0][1].encode()) >= pending:
            kept -= len(self._pieces.popleft()[1].encode())

    def bytes_of(self, characters: int) -> bytes:
        """Returns the bytes from so many last characters of the text on."""
        rest = b""
        while self._pieces:
            piece, text, state = self._pieces.pop()
            if len(text) < characters:
                characters -= len(text)
                rest = piece + rest
                continue
            # The first bytes of a character may have come before.
            whole, before = state[0] + piece, len(text) - characters

            def length(end: int, whole: bytes = whole, state: tuple[bytes, int] = state) -> int:
                decoder = codecs.getincrementaldecoder(self.codec)(self._decoder.errors)
                decoder.setstate((b"", state[1]))
                try:
                    return len(decoder.decode(whole[:end]))
                except UnicodeError:
                    return sys.maxsize

            return whole[bisect_left(range(len(whole) + 1), before, key=length) :] + rest
        return rest


def _decoded(
    decoder: _Decoder, chunk: bytes, read: Callable[[int], bytes], cutter: RecordCutter, chunk_bytes: int
) -> Generator[bytes, None, bytes | None]:
    """Yields a document in UTF-8 that is in another encoding. Returns the bytes read of the next document."""
    start: str | None = ""
    rest, size = b"", _PIECE_BYTES
    while True:
        # What follows a short document is decoded in vain: so little is decoded at first.
        piece, rest, size = chunk[:size], chunk[size:], 2 * size
        text, wrong = decoder.decode(piece)
        if start is not None:
            # The declaration has to be whole.
            start += text
            if piece and wrong is None and start.startswith("<?xml"[: len(start)]) and ">" not in start:
                chunk = rest or read(max(chunk_bytes, cutter.pending))
                continue
            text, start = without_declared_encoding(start), None
        yield text.encode()
        if cutter.is_halted:
            characters = len(cutter.take_back(is_alone=False).decode())
            return decoder.bytes_of(characters) + (wrong or b"") + rest
        decoder.forget(cutter.pending)
        if wrong is not None:
            cutter.abandon(f"the bytes after this position are not {decoder.codec}")
            decoder.go_on()
            rest, piece = wrong + rest, wrong
        if not piece:
            return None
        chunk = rest or read(max(chunk_bytes, cutter.pending))


def _head(head: bytes, read: Callable[[int], bytes]) -> bytes:
    """Returns so many of the first bytes that they tell the encoding."""
    while True:
        start = head.removeprefix(codecs.BOM_UTF8)
        is_declaration = start.startswith(b"<?xml"[: len(start)])
        is_whole = len(head) >= len(codecs.BOM_UTF8) and (not is_declaration or b">" in head)
        if is_whole or len(head) >= CHUNK_BYTES:
            return head
        more = read(CHUNK_BYTES)
        if not more:
            return head
        head += more


def _encoding(head: bytes) -> _Encoding:
    """Returns the encoding that the first bytes indicate."""
    unmarked = next(((b"", codec) for start, codec in _UNMARKED_UTF16 if head.startswith(start)), (b"", ""))
    mark, codec = next((pair for pair in _BYTE_ORDER_MARKS if head.startswith(pair[0])), unmarked)
    start = head[len(mark) :]
    if codec.startswith("utf-16"):
        start = start[:_DECLARATION_BYTES_MAX].decode(codec, "ignore").encode("ascii", "replace")
    declared = _DECLARED_ENCODING.match(start)
    if declared is None:
        return _Encoding(codec or "utf-8", mark)
    name = declared.group(1).decode("ascii")
    at = len(mark) + declared.start(1)
    if codec == "utf-8" and name.lower() not in ("utf-8", "us-ascii", "ascii"):
        fault = f"the message declares the encoding {name!r}, but starts with the byte-order mark of UTF-8"
        return _Encoding("utf-8", mark, fault, at)
    if codec.startswith("utf-16"):
        if name.lower().replace("utf16", "utf-16") in ("utf-16", codec, codec.replace("-16-", "-16")):
            return _Encoding(codec, mark)
        return _Encoding("utf-8", mark, f"the message declares the encoding {name!r}, but is UTF-16", len(mark))
    try:
        declared_codec = charset(name)
    except LookupError:
        return _Encoding("utf-8", mark, f"the encoding {name!r} is unknown", at)
    if declared_codec is None:
        return _Encoding("utf-8", mark, f"the bytes are not in the declared encoding {name!r}", at)
    return _Encoding(declared_codec, mark)
