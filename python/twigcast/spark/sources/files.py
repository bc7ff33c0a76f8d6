"""The source of files, folders and archives, and of the records inside them.

Tasks are planned by the size and the number of files. The plan depends on the files alone, so a job that is started
again does the same work in the same parts. What cannot be read becomes a row with a ``problem``: one bad file never
fails a job.
"""

import base64
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.errors import SourceError, UnreadableMessage
from twigcast.limits import Limits
from twigcast.reading.messages import (
    Message,
    MessageFile,
    NamedRecords,
    RejectedInput,
    find_message_files,
    read_message_file,
    read_record_batches,
)
from twigcast.reading.options import ReadOptions
from twigcast.reading.repair_counts import RepairCounts
from twigcast.reading.splits import DocumentPart, read_part_batches, split_document
from twigcast.spark.schemas import MESSAGES, METADATA, PLACED_MESSAGES
from twigcast.spark.sources.source import (
    BATCH_BYTES,
    BATCH_MESSAGES_MAX,
    TASKS_MAX,
    Batches,
    MessageSource,
    TaskInput,
    group_neighbours,
)

_REPLACED: Final = "the file was written anew before it was read: what is in it now is read as a file of its own"

_TASK_BYTES_MIN: Final = 4 << 20
_PART_BYTES: Final = 16 << 20
"""A document that is cut into records is read in parts of at least this many bytes."""

_TASK_FILES_MAX: Final = 2_000
"""A task reads at least this many bytes unless it has this many files."""


class FileSource(MessageSource):
    """A file, folder or archive: whatever no other source reads."""

    @classmethod
    def takes(cls, path: str) -> bool:
        """Returns ``True``: :meth:`check` says what is wrong with a path that cannot be read."""
        return True

    def check(self) -> None:
        """Raises :class:`SourceError` unless there is a file or folder that can be opened."""
        if self.path == "-":
            raise SourceError(self.path, "the pipeline reads files, folders, archives and Parquet, not standard input")
        try:
            os.stat(self.path)  # noqa: PTH116 - Path.stat would lose a trailing slash, and so the reason
            if Path(self.path).is_dir():
                with os.scandir(self.path):
                    pass
        except OSError as error:
            raise SourceError(self.path, error.strerror or str(error)) from None

    def plan(self, tasks: int) -> list[TaskInput]:
        """Spreads the files at the path over tasks, however many cores there are."""
        files = find_message_files([Path(self.path).absolute()], include=self.options.include)
        return plan_files(files, self.options, self.limits)

    def read(self, task_input: TaskInput) -> Batches:
        """Yields the messages of the files of one task."""
        return self._read(map(FilePart.of_fields, task_input.parts), is_checked=False)

    def read_versions(self, task_input: TaskInput) -> Batches:
        """Yields the messages of the files of one task of a stream. A file that is not as it was found is rejected."""
        return self._read(map(FilePart.of_fields, task_input.parts), is_checked=True)

    def _read(self, parts: Iterable["FilePart"], *, is_checked: bool) -> Batches:
        return self._records(parts, is_checked) if self.options.cuts else self._batches(self._items(parts, is_checked))

    def _records(self, parts: Iterable["FilePart"], is_checked: bool) -> Batches:
        """Yields the records of files, as the compiled core cuts them."""
        pending: list[pa.RecordBatch] = []
        size = 0
        for part in parts:
            for records in self._cut(part, is_checked):
                batch = self._record_batch(part.file, records)
                pending.append(batch)
                size += batch.nbytes
                if size >= BATCH_BYTES:
                    yield from _joined(pending)
                    pending, size = [], 0
        if pending:
            yield from _joined(pending)

    def _cut(self, part: "FilePart", is_checked: bool) -> Iterator[NamedRecords | RejectedInput]:
        if (is_checked or part.part is not None) and is_replaced(part.file):
            return iter([RejectedInput(part.file.id.rstrip("/"), UnreadableMessage(_REPLACED))])
        if part.part is not None:
            return read_part_batches(part.file, part.part, self.options, limits=self.limits)
        return read_record_batches(part.file, self.options, limits=self.limits, chunk_bytes=BATCH_BYTES)

    def _record_batch(self, file: MessageFile, records: NamedRecords | RejectedInput) -> pa.RecordBatch:
        if isinstance(records, RejectedInput):
            return self._batch([_Read(file, records)])
        batch, name = records.batch, text_of(records.document)
        count = len(batch)
        numbers = pa.array(range(records.first, records.first + count), pa.int64())
        ids = pc.binary_join_element_wise(name, numbers.cast(pa.string()), "#")
        if batch.ids:
            ids = pc.coalesce(pa.array([*batch.ids, *[None] * (count - len(batch.ids))], pa.string()), ids)
        problems = pa.nulls(count, pa.string())
        if batch.errors:
            texts = {row: str(error) for row, error in batch.errors.items()}
            problems = pa.array([texts.get(row) for row in range(count)], pa.string())
        columns = [ids, pa.array(batch.arrow(with_heads=True)).cast(pa.binary()), problems]
        if not self.has_places:
            return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)
        line, column, added, offset, length = batch.location_columns()
        if not batch.has_offsets or file.kind != "file" or self.options.tolerant:
            offset = length = pa.nulls(count, pa.int64())
        else:
            length = pc.if_else(pc.equal(length, 0), pa.scalar(None, pa.int64()), length)
        repairs = [records.repairs, *[0] * (count - 1)] if self.options.tolerant else [None] * count
        ranges = [offset, length, pa.array(repairs, pa.int64()), line, column, added]
        return pa.RecordBatch.from_arrays([*columns, _places([file], ranges, count)], schema=PLACED_MESSAGES)

    def _batches(self, items: Iterable["_Read"]) -> Batches:
        waiting: list[_Read] = []
        size = 0
        for found in items:
            item_bytes = len(found.item.xml)
            if waiting and (size + item_bytes > BATCH_BYTES or len(waiting) >= BATCH_MESSAGES_MAX):
                yield self._batch(waiting)
                waiting, size = [], 0
            waiting.append(found)
            size += item_bytes
        if waiting:
            yield self._batch(waiting)

    def _batch(self, items: Sequence["_Read"]) -> pa.RecordBatch:
        columns = [
            pa.array([text_of(item.id) for _, item, _ in items], pa.string()),
            pa.array([item.xml for _, item, _ in items], pa.binary()),
            pa.array(
                [str(item.error) if isinstance(item, RejectedInput) else None for _, item, _ in items], pa.string()
            ),
        ]
        if not self.has_places:
            return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)
        files = [file for file, *_ in items]
        sizes = [
            file.size if file.kind == "file" and not isinstance(item, RejectedInput) else None
            for file, item, _ in items
        ]
        none = pa.nulls(len(items), pa.int64())
        offsets = pa.array([None if size is None else 0 for size in sizes], pa.int64())
        repairs = pa.array([repairs for *_, repairs in items], pa.int64())
        places = _places(files, [offsets, pa.array(sizes, pa.int64()), repairs, none, none, none], 1)
        return pa.RecordBatch.from_arrays([*columns, places], schema=PLACED_MESSAGES)

    def _items(self, parts: Iterable["FilePart"], is_checked: bool) -> Iterator["_Read"]:
        for file in (part.file for part in parts):
            if is_checked and is_replaced(file):
                yield _Read(file, RejectedInput(file.id.rstrip("/"), UnreadableMessage(_REPLACED)))
                continue
            repairs, counted = RepairCounts(), 0
            for item in read_message_file(file, self.options, limits=self.limits, repairs=repairs):
                yield _Read(file, item, repairs.total - counted if self.options.tolerant else None)
                counted = repairs.total


class _Read(NamedTuple):
    """What was read of a file."""

    file: MessageFile
    item: Message | RejectedInput
    repairs: int | None = None


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file that a task reads, or the part of it that it reads."""

    file: MessageFile
    part: DocumentPart | None = None

    def fields(self) -> tuple[Any, ...]:
        """Returns what a task input holds of it."""
        if self.part is None:
            return astuple(self.file)
        *place, around = astuple(self.part)
        return (*astuple(self.file), *place, base64.b64encode(around).decode())

    @classmethod
    def of_fields(cls, values: tuple[Any, ...]) -> "FilePart":
        """Returns what a task input holds the fields of."""
        file, place = values[:_FILE_FIELDS], values[_FILE_FIELDS:]
        if not place:
            return cls(MessageFile(*file))
        start, end, records, line, column, around = place
        return cls(MessageFile(*file), DocumentPart(start, end, records, line, column, base64.b64decode(around)))


_FILE_FIELDS: Final = len(fields(MessageFile))


def plan_files(files: Sequence[MessageFile], options: ReadOptions, limits: Limits) -> list[TaskInput]:
    """Returns the inputs of tasks that read these files, neighbours together, and large documents in parts."""
    bytes_max = max(_TASK_BYTES_MIN, sum(file.size for file in files) // TASKS_MAX)
    parts = (part for file in files for part in _parts(file, options, limits, max(_PART_BYTES, bytes_max)))
    tasks = group_neighbours(parts, bytes_max, _TASK_FILES_MAX)
    return [TaskInput(tuple(part.fields() for part in task)) for task in tasks]


def _parts(file: MessageFile, options: ReadOptions, limits: Limits, part_bytes: int) -> Iterator[tuple[FilePart, int]]:
    """Yields the parts in which a file is read, and their sizes."""
    try:
        parts = split_document(file, options, part_bytes, limits=limits)
    except OSError:  # the task that reads it reports why
        parts = []
    if len(parts) <= 1:
        yield FilePart(file), file.size
        return
    for part in parts:
        yield FilePart(file, part), (file.size if part.end is None else part.end) - part.start


def is_replaced(file: MessageFile) -> bool:
    """Returns whether there is another version of a file now than the one that was found."""
    try:
        info = os.stat(file.path)  # noqa: PTH116 - quicker than Path.stat
    except OSError:
        return False  # reading it tells the reason
    return bool(file.changed) and (info.st_size, info.st_mtime_ns) != (file.size, file.changed)


def text_of(name: str) -> str:
    """Returns the name of a file as a column holds it: it need not be text."""
    return name.encode("utf-8", "replace").decode()


def _places(files: Sequence[MessageFile], numbers: Sequence[pa.Int64Array], count: int) -> pa.StructArray:
    """Returns where messages were found: the file of each, or of so many, and the columns of numbers."""
    paths = [text_of(file.path) for file in files]
    changed = [file.changed // 1_000 or None for file in files]
    kind = METADATA.field("modification_time").type
    if count > 1:
        path, when = pa.repeat(paths[0], count), pa.repeat(pa.scalar(changed[0], kind), count)
    else:
        path, when = pa.array(paths, pa.string()), pa.array(changed, kind)
    offset, length, *others = numbers
    return pa.StructArray.from_arrays([path, offset, length, when, *others], fields=list(METADATA))


def _joined(batches: list[pa.RecordBatch]) -> Batches:
    """Yields the messages of some batches in batches of the best size."""
    return iter(pa.Table.from_batches(batches).combine_chunks().to_batches(max_chunksize=BATCH_MESSAGES_MAX))
