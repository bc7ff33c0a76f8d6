"""The source of Parquet files with the columns ``message_id`` and ``xml``.

Tasks read the row groups of local files themselves. Only Spark reads the others: files elsewhere, in nested folders or
among other files, and columns of types that Spark converts to strings by its own rules.
"""

import os
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from twigcast.errors import RejectedMessage, SourceError
from twigcast.limits import Limits
from twigcast.reading.options import ReadOptions
from twigcast.reading.preparation import prepared
from twigcast.reading.repair_counts import RepairCounts
from twigcast.reading.text import as_bytes
from twigcast.spark.schemas import METADATA
from twigcast.spark.sources.source import (
    BATCH_BYTES,
    TASKS_MAX,
    Batches,
    MessageSource,
    TaskInput,
    check_columns,
    group_neighbours,
)

_SUFFIXES: Final = (".parquet", ".pq")
_TASK_BYTES_MIN: Final = 8 << 20
_TASK_BYTES_LARGE: Final = 64 << 20
"""A task reads at least and, until there are very many, at most about this much."""

_TASK_FILES_MAX: Final = 500
"""A task reads at most this many files."""

_REPAIRS: Final = "repairs"

_ROWS_MAX: Final = 256
"""Messages read at a time, at most: repeated ones may be larger than the sizes in the file suggest."""


@dataclass(frozen=True, slots=True)
class RowGroupRange:
    """The row groups of a Parquet file whose middle lies in a range of its bytes."""

    path: str
    start: int
    end: int


class ParquetSource(MessageSource):
    """A Parquet file, or a folder of them as Spark writes it.

    A URI counts as Parquet: no other source can be read from where only Spark has access.
    """

    @classmethod
    def takes(cls, path: str) -> bool:
        """Returns whether the path is a URI, a Parquet file by its name, or a folder that holds such files."""
        if "://" in path:
            return True
        if Path(path).is_dir():
            with os.scandir(path) as entries:
                return any(entry.name.endswith(".parquet") for entry in entries)
        return path.lower().endswith(_SUFFIXES)

    def check(self) -> None:
        """Raises :class:`SourceError` if records are requested. Spark reports errors in the files."""
        if self.options.record is not None:
            raise SourceError(self.path, "records are cut out of files and archives, not out of Parquet columns")

    def plan(self, tasks: int) -> list[TaskInput] | None:
        """Spreads ranges of row groups over about this many tasks."""
        paths = _local_files(self.path)
        if not paths or (reason := _unsupported_reason(paths[0])) is not None:
            if self.options.changes_messages and (paths or "://" in self.path or Path(self.path).exists()):
                what = (
                    f"only Spark can read it ({reason if paths else 'it lies elsewhere, or not all in it is Parquet'})"
                )
                raise SourceError(self.path, f"{what}, which neither repairs messages nor knows entities or DTDs")
            return None
        sizes = {path: Path(path).stat().st_size for path in paths}
        bytes_max = _task_bytes(sum(sizes.values()), tasks)
        ranges = [
            RowGroupRange(path, start, min(start + bytes_max, sizes[path]))
            for path in paths
            for start in range(0, sizes[path], bytes_max)
        ]
        groups = group_neighbours(((one, one.end - one.start) for one in ranges), bytes_max, _TASK_FILES_MAX)
        return [TaskInput(tuple(map(astuple, group))) for group in groups]

    def read(self, task_input: TaskInput) -> Batches:
        """Yields the messages of the row groups of one task.

        Raises:
            SourceError: A file is no Parquet, or lacks a column.
        """
        for fields in task_input.parts:
            part = RowGroupRange(*fields)
            batches = _read_range(part)
            if self.options.changes_messages:
                batches = _prepared(batches, self.options, self.limits)
            yield from _with_places(batches, part.path) if self.has_places else batches

    def frame(self, spark: SparkSession) -> DataFrame:
        """Returns the messages as Spark's own reader of Parquet reads them."""
        return check_columns(spark.read.parquet(self.path), self.path)


def _task_bytes(total: int, tasks: int) -> int:
    """Returns how many of these bytes one of about this many tasks reads."""
    share = min(-(-total // tasks), _TASK_BYTES_LARGE)
    return max(_TASK_BYTES_MIN, share, total // TASKS_MAX)


def _local_files(location: str) -> list[str]:
    """Returns the Parquet files at a path if Python sees them, and nothing else beside them."""
    path = Path(location).absolute()
    if "://" in location or not path.exists():
        return []
    if path.is_file():
        return [str(path)]
    visible = sorted(entry for entry in path.iterdir() if not entry.name.startswith((".", "_")))
    if all(entry.is_file() and entry.suffix.lower() in _SUFFIXES for entry in visible):
        return list(map(str, visible))
    return []


def _unsupported_reason(path: str) -> str | None:
    """Returns why only Spark can read this file, or ``None`` if tasks can read it."""
    try:
        return _column_problem(pq.read_schema(path))
    except (OSError, pa.ArrowException) as error:
        return str(error)


def _column_problem(schema: pa.Schema) -> str | None:
    """Returns which column is missing, or of a type that Spark converts by its own rules or not at all."""
    for name in ("message_id", "xml"):
        if schema.get_field_index(name) < 0:
            return f"there is no column {name}; the columns are {', '.join(schema.names) or 'none'}"
    id_type, xml_type = schema.field("message_id").type, schema.field("xml").type
    if not (_is_text(id_type) or pa.types.is_integer(id_type)):
        return f"the column message_id must be string or integer, as in the other files, not {id_type}"
    if not (_is_text(xml_type) or pa.types.is_binary(xml_type) or pa.types.is_large_binary(xml_type)):
        return f"the column xml must be string or binary, not {xml_type}"
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _read_range(part: RowGroupRange) -> Batches:
    try:
        with pq.ParquetFile(part.path) as file:
            columns = _columns(file.schema_arrow, part.path)
            for index in _row_groups(file.metadata, part):
                rows = _rows_at_a_time(file.metadata.row_group(index))
                yield from file.iter_batches(rows, row_groups=[index], columns=columns, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(part.path, f"it is not Parquet that can be read: {error}") from error


def _with_places(batches: Batches, path: str) -> Batches:
    """Yields messages with their file. Where they stand in it, only Parquet knows."""
    kind = METADATA.field("modification_time").type
    changed = pa.scalar(Path(path).stat().st_mtime_ns // 1_000, kind) if Path(path).exists() else pa.scalar(None, kind)
    for batch in batches:
        nothing = pa.nulls(batch.num_rows, pa.int64())
        names = batch.schema.names
        repairs = batch.column(_REPAIRS) if _REPAIRS in names else nothing
        file = pa.repeat(pa.scalar(path), batch.num_rows)
        columns = [file, nothing, nothing, pa.repeat(changed, batch.num_rows), repairs, *[nothing] * 3]
        places = pa.StructArray.from_arrays(columns, fields=list(METADATA))
        kept = batch.select([name for name in names if name != _REPAIRS])
        yield kept.append_column("_metadata", places)


def _prepared(batches: Batches, options: ReadOptions, limits: Limits) -> Batches:
    """Yields messages as the options want them, each with its repairs."""
    for batch in batches:
        rows: list[tuple[bytes | None, str | None, int | None]] = []
        given = batch.column("problem") if "problem" in batch.schema.names else pa.nulls(batch.num_rows, pa.string())
        for message, problem in zip(batch.column("xml").to_pylist(), given.to_pylist(), strict=True):
            repairs = RepairCounts()
            xml = None if message is None else as_bytes(message)
            if xml is not None and problem is None:
                try:
                    xml = prepared(xml, options, limits.message_bytes_max, repairs)
                except RejectedMessage as error:
                    problem = str(error)
            rows.append((xml, problem, repairs.total if options.tolerant else None))
        columns = {
            "message_id": batch.column("message_id"),
            "xml": pa.array([xml for xml, *_ in rows], pa.binary()),
            "problem": pa.array([problem for _, problem, _ in rows], pa.string()),
        }
        if options.tolerant:
            columns[_REPAIRS] = pa.array([repairs for *_, repairs in rows], pa.int64())
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _columns(schema: pa.Schema, path: str) -> list[str]:
    problem = _column_problem(schema)
    if problem is not None:
        raise SourceError(path, problem)
    index = schema.get_field_index("problem")
    return ["message_id", "xml", *(["problem"] if index >= 0 and _is_text(schema.field(index).type) else [])]


def _row_groups(metadata: pq.FileMetaData, part: RowGroupRange) -> Iterator[int]:
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        chunks = [group.column(column) for column in range(group.num_columns)]
        first = min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks)
        middle = first + sum(chunk.total_compressed_size for chunk in chunks) // 2
        if part.start <= middle < part.end:
            yield index


def _rows_at_a_time(group: pq.RowGroupMetaData) -> int:
    row_bytes = max(1, int(group.total_byte_size) // max(1, int(group.num_rows)))
    return max(1, min(_ROWS_MAX, BATCH_BYTES // row_bytes))
