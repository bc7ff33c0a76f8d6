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

from twigcast.errors import SourceError
from twigcast.spark.sources.source import BATCH_BYTES, TASKS_MAX, Batches, MessageSource, TaskInput, check_columns

_SUFFIXES: Final = (".parquet", ".pq")
_TASK_BYTES_MIN: Final = 8 << 20
_TASK_BYTES_LARGE: Final = 64 << 20
"""A task reads at least and, until there are very many, at most about this much."""

_TASK_FILES_MAX: Final = 500
"""A task reads at most this many files."""

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
    def matches(cls, path: str) -> bool:
        """Returns whether the path is a URI, a Parquet file by its name, or a folder that holds such files."""
        if "://" in path:
            return True
        if Path(path).is_dir():
            with os.scandir(path) as entries:
                return any(entry.name.endswith(".parquet") for entry in entries)
        return path.lower().endswith(_SUFFIXES)

    def check(self) -> None:
        """Raises :class:`SourceError` if records are asked for. Spark reports what is wrong with the files."""
        if self.options.record is not None:
            raise SourceError(self.path, "records are cut out of files and archives, not out of Parquet columns")

    def plan(self, tasks: int) -> list[TaskInput] | None:
        """Spreads ranges of row groups over about this many tasks."""
        paths = _local_files(self.path)
        if not paths or _unsupported_reason(paths[0]) is not None:
            return None
        sizes = {path: Path(path).stat().st_size for path in paths}
        bytes_max = _task_bytes(sum(sizes.values()), tasks)
        inputs: list[list[RowGroupRange]] = []
        size = 0
        for path in paths:
            for start in range(0, sizes[path], bytes_max):
                end = min(start + bytes_max, sizes[path])
                if not inputs or size + end - start > bytes_max or len(inputs[-1]) >= _TASK_FILES_MAX:
                    inputs.append([])
                    size = 0
                inputs[-1].append(RowGroupRange(path, start, end))
                size += end - start
        return [TaskInput(tuple(map(astuple, ranges))) for ranges in inputs]

    def read(self, task_input: TaskInput) -> Batches:
        """Yields the messages of the row groups of one task.

        Raises:
            SourceError: A file is no Parquet, or lacks a column.
        """
        for fields in task_input.parts:
            yield from _read_range(RowGroupRange(*fields))

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
