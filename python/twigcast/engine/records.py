"""Matching the records of large documents, in one pass over their bytes."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

from twigcast.engine.session import EngineSession
from twigcast.errors import RejectedMessage, SourceError, UndecidedSubscription, UnreadableMessage
from twigcast.notebook import html_table
from twigcast.reading.options import ReadOptions
from twigcast.reading.records import Record, cut_record_batches, feed, located
from twigcast.reading.repair_counts import RepairCounts
from twigcast.reading.repairs import RepairingStream
from twigcast.reading.streams import ByteStream
from twigcast.reading.text import as_bytes
from twigcast.reading.unpacking import DamagedFile, is_packed, unpacked, why_unread


class RecordMatch(NamedTuple):
    """A record that subscriptions match, or one that cannot be used."""

    number: int
    """Which record of the document it is, from 1."""

    keys: list[str]
    """The keys of the subscriptions that it matches."""

    error: RejectedMessage | None = None
    """Why it cannot be used, with the line in the document."""

    undecided: tuple[UndecidedSubscription, ...] = ()
    """The subscriptions that could not be decided on it."""

    id: str | None = None
    """The id that it gives itself, if one was asked for."""


class RecordMatches:
    """The answers to the records of one document, which is read while they are asked for.

    Records that nothing matches, and nothing is wrong with, are counted and otherwise left out.
    """

    def __init__(
        self,
        session: EngineSession,
        document: os.PathLike[str] | ByteStream,
        options: ReadOptions,
        repairs: RepairCounts,
    ) -> None:
        self.count = 0
        """How many records have been read."""
        self._session = session
        self._document = document
        self._options = options
        self._repairs = repairs

    def __iter__(self) -> Iterator[RecordMatch]:
        try:
            yield from self._read()
        except DamagedFile as error:
            # As when messages are read: records before the damage count, and then the damage is reported.
            yield RecordMatch(self.count + 1, [], UnreadableMessage(str(error)))

    def _read(self) -> Iterator[RecordMatch]:
        with _opened(self._document) as stream:
            if self._options.tolerant:
                stream = RepairingStream(stream, self._repairs, self._options.types.declares)
            # The engine alone looks at a record only once. Saxon needs its text, and so does whoever wants its id.
            is_native = self._options.record_id is None and not self._session.engine.has_external
            yield from self._in_one_pass(stream) if is_native else self._one_by_one(stream)

    def __repr__(self) -> str:
        return f"<RecordMatches: {self.count:,} records read>"

    def _repr_html_(self) -> str:
        # To show answers would be to read them: they would be missing where they are asked for.
        plural = "" if self.count == 1 else "s"
        return html_table(f"{self.count:,} record{plural} read; iterate to read on", [], [], 0)

    def _in_one_pass(self, stream: ByteStream) -> Iterator[RecordMatch]:
        engine = self._session.engine
        cutter = self._options.cutter(self._session.limits.message_bytes_max)

        def feeder(
            chunk: bytes, *, last: bool = False
        ) -> tuple[
            int, list[tuple[int, list[str]]], list[tuple[int, RejectedMessage]], list[tuple[int, UndecidedSubscription]]
        ]:
            return engine.match_records(cutter, chunk, last=last)

        for count, matched, errors, undecided in feed(stream, cutter, feeder):
            first = self.count + 1
            self.count += count
            if not errors and not undecided:
                for position, keys in matched:
                    yield RecordMatch(first + position, keys)
                continue
            found = {position: RecordMatch(first + position, keys) for position, keys in matched}
            for position, error in errors:
                found[position] = RecordMatch(first + position, [], error)
            for position, failure in undecided:
                one = found.get(position, RecordMatch(first + position, []))
                found[position] = one._replace(undecided=(*one.undecided, failure))
            yield from (found[position] for position in sorted(found))
        self._repairs.inherited.update(self._options.inherit[index] for index in cutter.inherited)

    def _one_by_one(self, stream: ByteStream) -> Iterator[RecordMatch]:
        bytes_max = self._session.limits.message_bytes_max
        inherited = self._repairs.inherited
        for batch in cut_record_batches(stream, self._options, bytes_max=bytes_max, inherited=inherited):
            for record in batch:
                self.count += 1
                found = self._of_record(self.count, record)
                if found.keys or found.error is not None or found.undecided or found.id is not None:
                    yield found

    def _of_record(self, number: int, record: Record) -> RecordMatch:
        if record.error is not None:
            return RecordMatch(number, [], record.error, id=record.id)
        try:
            match = self._session.match(record.xml)
        except RejectedMessage as error:
            in_document = located(error, record.line, record.column, record.added)
            return RecordMatch(number, [], in_document, id=record.id)
        return RecordMatch(number, match.keys, None, tuple(match.undecided), record.id)


def as_document(document: object) -> os.PathLike[str] | ByteStream:
    """Returns a document as a path, or as a stream of bytes.

    Raises:
        MalformedMessage: It is a text that looks like the path of a file.
        TypeError: It is none.
    """
    if isinstance(document, str | bytes | bytearray | memoryview):
        data = io.BytesIO(as_bytes(document))
        return unpacked(data) if is_packed(data.getvalue()) else data
    if isinstance(document, os.PathLike):
        return cast("os.PathLike[str]", document)
    if isinstance(document, io.TextIOBase):
        raise TypeError("document must be open in binary, since it may declare its encoding: use mode 'rb', or BytesIO")
    if callable(getattr(document, "read", None)):
        return cast("ByteStream", document)
    what = "a path (pathlib.Path), an open file in binary, bytes or str"
    raise TypeError(f"document must be {what}, not {type(document).__name__}")


@contextmanager
def _opened(document: os.PathLike[str] | ByteStream) -> Iterator[ByteStream]:
    """Opens a document that is given by its path."""
    if not isinstance(document, os.PathLike):
        # Looking ahead takes nothing away, and waits no longer than reading would.
        peek = getattr(document, "peek", None)
        yield unpacked(document) if callable(peek) and is_packed(peek(8)) else document
        return
    try:
        file = Path(document).open("rb")  # noqa: SIM115 - errors of who reads it are not those of opening it
    except OSError as error:
        raise SourceError(os.fspath(document), f"it cannot be read: {error.strerror}") from None
    with file:
        try:
            stream = unpacked(file)
        except ValueError as error:
            raise SourceError(os.fspath(document), str(error)) from None
        if (reason := why_unread(stream.peek(16), os.fspath(document), is_document=True)) is not None:
            raise SourceError(os.fspath(document), reason)
        yield stream
