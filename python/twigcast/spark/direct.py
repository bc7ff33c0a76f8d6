"""Messages that tasks read themselves, so that they go from the disk to the engine without a way through the JVM.

Spark's readers make rows of what they read, and rows are made Arrow batches again for Python; that costs as much as
matching a thousand subscriptions. Where messages lie in files that Python can open, a pipeline hands out no messages
but parts of a plan: which files, or stretches of Parquet files, a task reads. The plan is a file in the staging folder,
which tasks see anyhow.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from twigcast.errors import SourceError
from twigcast.reading.messages import MessageFile, find_message_files
from twigcast.spark.sources import (
    BATCH_BYTES,
    PARTITIONS_WANTED_MAX,
    ReadOptions,
    check_readable,
    is_parquet,
    plan_partitions,
    read_batches,
    read_messages,
)

STRETCH_BYTES: Final = 8 << 20
_STRETCH_BYTES_LARGE: Final = 64 << 20
"""A task reads at least and, until they are very many, at most about this much of Parquet files."""

_TASKS_PER_CORE: Final = 3
"""In between, this many tasks: starting one takes as long as matching a few thousand messages, but with too few of them
cores that are done early have nothing to do.
"""

_STRETCHES_MAX: Final = 500
"""A task reads at most so many Parquet files."""

_ROWS_MAX: Final = 256
"""Messages read from Parquet at a time, at most: those that repeat may be larger than the file lets on."""

_PLAN: Final = "plan.jsonl"

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class RowGroupRange:
    """The row groups of a Parquet file whose middle lies in a range of its bytes."""

    path: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TaskInput:
    """What one task reads: files and archives, or stretches of Parquet files."""

    sources: tuple[MessageFile, ...] = ()
    stretches: tuple[RowGroupRange, ...] = ()

    def line(self) -> bytes:
        """As a line of the plan."""
        return json.dumps([[astuple(one) for one in kind] for kind in (self.sources, self.stretches)]).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> "TaskInput":
        """From a line of the plan."""
        sources, stretches = json.loads(line)
        return cls(
            tuple(MessageFile(*fields) for fields in sources), tuple(RowGroupRange(*fields) for fields in stretches)
        )

    def read(self, reading: ReadOptions) -> Batches:
        """The messages as Arrow batches with ``message_id``, ``xml`` and perhaps ``problem``.

        Raises:
            SourceError: A Parquet file cannot be read. (Whatever else cannot be read is a ``problem``.)
        """
        yield from read_batches(self.sources, reading)
        for stretch in self.stretches:
            yield from _read_stretch(stretch)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The rows that tasks are handed, and how they get their messages from them."""

    rows: DataFrame
    read: Callable[[Batches], Batches]


def handed_over(messages: DataFrame) -> ReadPlan:
    """Messages that Spark reads and hands over."""
    return ReadPlan(messages, iter)


def find_work(spark: SparkSession, path: str | os.PathLike[str], reading: ReadOptions, staging: Path) -> ReadPlan:
    """The messages at a path, read by the tasks wherever these can.

    Args:
        spark: The session.
        path: As for :func:`~twigcast.spark.read_messages`.
        reading: How messages are cut out of their files.
        staging: A folder that driver and tasks see, for the plan.

    Raises:
        SourceError: There is nothing there, or no such columns.
    """
    location = os.fspath(path)
    parts: Sequence[TaskInput] | None
    if not is_parquet(location):
        check_readable(location)
        result = find_message_files([Path(location).absolute()], include=reading.include)
        parts = [TaskInput(sources=partition.sources) for partition in plan_partitions(result)]
    else:
        tasks = _TASKS_PER_CORE * spark.sparkContext.defaultParallelism
        parts = None if reading.record is not None else _parquet_parts(location, tasks)
    if parts is None:
        return handed_over(read_messages(spark, location, reading))
    rows = spark.range(0, len(parts), 1, max(1, len(parts)))
    return ReadPlan(rows, _part_reading(_write_plan(staging / _PLAN, parts), str(staging / _PLAN), reading))


def _write_plan(path: Path, parts: Sequence[TaskInput]) -> list[int]:
    """Write a plan; where in the file each part is."""
    positions = []
    with path.open("wb") as file:
        for part in parts:
            positions.append(file.tell())
            file.write(part.line())
    return positions


def _part_reading(positions: list[int], plan: str, reading: ReadOptions) -> Callable[[Batches], Batches]:
    """The function that reads the parts whose numbers a task is handed."""

    def read(numbers: Batches) -> Batches:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                try:
                    with Path(plan).open("rb") as file:
                        file.seek(positions[number])
                        line = file.readline()
                except OSError as error:
                    reason = error.strerror or str(error)
                    raise SourceError(plan, f"{reason}; driver and executors must share the output folder") from None
                yield from TaskInput.of_line(line).read(reading)

    return read


# Parquet --------------------------------------------------------------------------------------------------------------


def _parquet_parts(location: str, tasks: int) -> list[TaskInput] | None:
    """What tasks, about as many as these, read of Parquet here; ``None`` where it has to be Spark that reads.

    That is: elsewhere, in nested folders, among other files, and with types that Spark turns into strings its own way.
    """
    paths = _parquet_files(location)
    if not paths or _doubt(paths[0]) is not None:
        return None
    sizes = {path: Path(path).stat().st_size for path in paths}
    requested = _stretch_bytes(sum(sizes.values()), tasks)
    parts: list[TaskInput] = []
    current: list[RowGroupRange] = []
    size = 0
    for path in paths:
        for start in range(0, sizes[path], requested):
            end = min(start + requested, sizes[path])
            if current and (size + end - start > requested or len(current) >= _STRETCHES_MAX):
                parts.append(TaskInput(stretches=tuple(current)))
                current, size = [], 0
            current.append(RowGroupRange(path, start, end))
            size += end - start
    parts.append(TaskInput(stretches=tuple(current)))
    return parts


def _stretch_bytes(total: int, tasks: int) -> int:
    """How much of so many bytes a task reads."""
    share = min(-(-total // tasks), _STRETCH_BYTES_LARGE)
    return max(STRETCH_BYTES, share, total // PARTITIONS_WANTED_MAX)


def _parquet_files(location: str) -> list[str]:
    """The Parquet files at a place that Python can look at, if there is nothing but these."""
    position = Path(location).absolute()
    if "://" in location or not position.exists():
        return []
    if position.is_file():
        return [str(position)]
    visible = sorted(entry for entry in position.iterdir() if not entry.name.startswith((".", "_")))
    if all(entry.is_file() and entry.suffix.lower() in (".parquet", ".pq") for entry in visible):
        return list(map(str, visible))
    return []


def _doubt(path: str) -> str | None:
    """Why a file had better be read by Spark, if it had."""
    try:
        return _column_trouble(pq.read_schema(path))
    except (OSError, pa.ArrowException) as error:
        return str(error)


def _column_trouble(schema: pa.Schema) -> str | None:
    """What is wrong with the columns: not there, or of types that Spark converts its own way, or not at all."""
    for name in ("message_id", "xml"):
        if schema.get_field_index(name) < 0:
            return f"there is no column {name}; the columns are {', '.join(schema.names) or 'none'}"
    id_type, xml_type = schema.field("message_id").type, schema.field("xml").type
    if not (_is_text(id_type) or pa.types.is_integer(id_type)):
        return f"the column message_id must be string or integer, as in the other files, not {id_type}"
    if not (_is_text(xml_type) or _is_binary(xml_type)):
        return f"the column xml must be string or binary, not {xml_type}"
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _read_stretch(stretch: RowGroupRange) -> Batches:
    try:
        with pq.ParquetFile(stretch.path) as file:
            columns = _columns(file.schema_arrow, stretch.path)
            for group in _groups(file.metadata, stretch):
                rows = _rows_at_a_time(file.metadata.row_group(group))
                yield from file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(stretch.path, f"it is not Parquet that can be read: {error}") from error


def _columns(schema: pa.Schema, path: str) -> list[str]:
    trouble = _column_trouble(schema)
    if trouble is not None:
        raise SourceError(path, trouble)
    at = schema.get_field_index("problem")
    return ["message_id", "xml", *(["problem"] if at >= 0 and _is_text(schema.field(at).type) else [])]


def _groups(metadata: pq.FileMetaData, stretch: RowGroupRange) -> Iterator[int]:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(index) for index in range(group.num_columns)]
        first = min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks)
        middle = first + sum(chunk.total_compressed_size for chunk in chunks) // 2
        if stretch.start <= middle < stretch.end:
            yield number


def _rows_at_a_time(group: pq.RowGroupMetaData) -> int:
    each = max(1, int(group.total_byte_size) // max(1, int(group.num_rows)))
    return max(1, min(_ROWS_MAX, BATCH_BYTES // each))
