"""Large documents shared among readers: each begins at a record in the middle and ends where the next one begins.

One quick pass over a document finds the split points before any message is read. The cutter itself makes this pass,
without writing records. So a split point is always the start of a record, never text in a comment, a CDATA section or a
processing instruction that looks like one. Each split point comes with the bytes that give its context: the prolog, the
start tags of the elements around it, and the elements before it that records inherit. A reader starts with these bytes,
and is then in the state of a reader of the whole document. So the records of all parts, one after the other, are those
of the document: the same bytes, ids, lines and errors.

If the document stops being well-formed, there is no split point behind the fault, and the reader of the last part
reports it.
Documents that have to be converted or repaired are not split.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from twigcast._core import RecordCutter
from twigcast.limits import Limits
from twigcast.reading.messages import (
    DAMAGE,
    Message,
    MessageFile,
    NamedRecords,
    RejectedInput,
    read_record_batches,
    records_as_messages,
    unreadable,
)
from twigcast.reading.options import ReadOptions
from twigcast.reading.records import DocumentStart, RecordBatch

_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A part of a document: records that follow each other."""

    start: int = 0
    """Bytes of the document before it."""

    end: int | None = None
    """Bytes of the document up to its end; ``None``: it goes to the end of the document."""

    records: int = 0
    """Records before it."""

    line: int = 1
    """Line on which it begins."""

    column: int = 1
    """Column where it begins."""

    around: bytes = b""
    """What a reader reads before."""


def split_document(
    file: MessageFile, options: ReadOptions, part_bytes: int, *, limits: Limits | None = None
) -> list[DocumentPart]:
    """Splits a file into parts of at least so many bytes; there is one part if it cannot be split.

    Raises:
        OSError: The file cannot be read.
    """
    whole = [DocumentPart()]
    if file.kind != "file" or not options.cuts or options.tolerant or file.size < 2 * part_bytes:
        return whole
    cutter = options.cutter((limits or Limits()).message_bytes_max)
    places: list[tuple[int, int, int, int, bytes]] = []
    with Path(file.path).open("rb") as stream:
        start = DocumentStart.read(stream)
        if not start.is_utf8:
            return whole
        chunk = start.head
        while chunk:
            places += cutter.skim(chunk, part_bytes)
            if cutter.is_halted:
                return whole
            chunk = stream.read(max(_CHUNK_BYTES, cutter.pending))
    ends = [offset for offset, *_ in places]
    firsts = [DocumentPart(end=ends[0] if ends else None)]
    for place, end in zip(places, [*ends[1:], None], strict=True) if places else ():
        offset, records, line, column, around = place
        firsts.append(DocumentPart(offset, end, records, line, column, around))
    return firsts


def read_part(
    file: MessageFile, part: DocumentPart, options: ReadOptions, *, limits: Limits | None = None
) -> Iterator[Message | RejectedInput]:
    """Reads the messages of a part of a file, in order."""
    for found in read_part_batches(file, part, options, limits=limits):
        if isinstance(found, RejectedInput):
            yield found
        else:
            yield from records_as_messages(file.id, found.batch, found.first)


def read_part_batches(
    file: MessageFile, part: DocumentPart, options: ReadOptions, *, limits: Limits | None = None
) -> Iterator[NamedRecords | RejectedInput]:
    """Reads the records of a part of a file, those together that end in one piece of it."""
    if part == DocumentPart():
        yield from read_record_batches(file, options, limits=limits)
        return
    cutter = options.cutter((limits or Limits()).message_bytes_max)
    if part.start:
        cutter.resume(part.start, part.records, part.line, part.column, part.around)
    first = part.records + 1
    try:
        with Path(file.path).open("rb") as stream:
            for data, offsets, errors, ids, places in _answers(stream, part, cutter):
                if len(places):
                    batch = RecordBatch(data, offsets, dict(errors), ids, places)
                    yield NamedRecords(file.id, first, batch)
                    first += len(batch)
    except DAMAGE as error:
        yield RejectedInput(f"{file.id}#{first}", unreadable(error))


def _answers(stream: IO[bytes], part: DocumentPart, cutter: RecordCutter) -> Iterator[Any]:
    """Yields what the cutter makes of the bytes of a part."""
    stream.seek(part.start)
    at = part.start
    # The first byte of the next record shows that the text before it has come as a whole.
    end = None if part.end is None else part.end + 1
    while end is None or at < end:
        size = max(_CHUNK_BYTES, cutter.pending)
        chunk = stream.read(size if end is None else min(size, end - at))
        if not chunk:
            break
        at += len(chunk)
        yield cutter.feed(chunk)
    if end is None:
        yield cutter.feed(b"", last=True)
    elif at < end:
        raise ValueError(f"it has become shorter while it was read: it ended at byte {at:,}")
