"""Messages as DataFrames: by Spark's own reader where a source has one, else by the data source ``twigcast``.

Spark's own per-file reader needs 15 s for 20,000 small files with its defaults, since it plans a task for every few of
them. The data source plans by size and number, opens the files in Python, and hands Arrow batches to the JVM.
"""

import glob
import json
from collections.abc import Mapping, MutableMapping, Sequence, Set
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from twigcast.errors import SourceError
from twigcast.limits import Limits
from twigcast.reading.options import ReadOptions
from twigcast.spark.schemas import PLACED_MESSAGES
from twigcast.spark.sources import open_source
from twigcast.spark.sources.source import Batches, MessageSource, TaskInput

FORMAT: Final = "twigcast"
_TASKS: Final = 32
"""A fixed number, since a data source cannot find out from Spark how many cores there are."""

_OPTIONS: Final = frozenset(
    {"path", "paths", "messagebytesmax", *(option.name.replace("_", "") for option in fields(ReadOptions))}
)
"""In lower case."""


def to_spark_options(source: MessageSource) -> dict[str, str]:
    """Returns the path and the settings of a source as options of a data source."""
    path = source.path if "://" in source.path else str(Path(source.path).absolute())
    options = {"path": path, "messageBytesMax": str(source.limits.message_bytes_max)}
    for name, value in asdict(source.options).items():
        if value:
            options[_camel_case(name)] = " ".join(value) if isinstance(value, tuple) else str(value)
    return options


def from_spark_options(
    options: Mapping[str, str], further: Set[str] = frozenset()
) -> tuple[list[str], ReadOptions, Limits]:
    """Returns the paths and the settings that options of a data source stand for.

    Their names are in lower case or not, depending on the version of Spark.

    Args:
        options: The options.
        further: Names, in lower case, of options that the caller reads itself.

    Raises:
        SourceError: There is no path, or an option has a value that it cannot have.
    """
    lowered = {name.lower(): value for name, value in options.items()}
    unknown = sorted(set(lowered) - _OPTIONS - further)
    if unknown:
        raise SourceError(FORMAT, f"there is no option {unknown[0]}; the options are {', '.join(sorted(_OPTIONS))}")
    # load() with several paths passes them as a list in JSON.
    paths = [*json.loads(lowered.get("paths", "[]")), *([lowered["path"]] if "path" in lowered else [])]
    if not paths:
        raise SourceError(FORMAT, "say where the messages are: load(PATH), or option('path', PATH)")
    limits = Limits()
    if (number := lowered.get("messagebytesmax")) is not None:
        if not number.isascii() or not number.isdigit():
            raise SourceError(FORMAT, f"messageBytesMax must be a number of bytes, not {number!r}")
        limits = Limits(message_bytes_max=int(number))
    return paths, _read_options(lowered), limits


def _read_options(lowered: Mapping[str, str]) -> ReadOptions:
    values: dict[str, Any] = {}
    for option in fields(ReadOptions):
        value = lowered.get(option.name.replace("_", ""))
        if value is None:
            continue
        if isinstance(option.default, bool):
            if value.lower() not in ("true", "false"):
                raise SourceError(FORMAT, f"{_camel_case(option.name)} must be true or false, not {value!r}")
            values[option.name] = value.lower() == "true"
        else:
            values[option.name] = tuple(value.split()) if option.default == () else value
    return ReadOptions(**values)


def _camel_case(name: str) -> str:
    """Returns a name as options of Spark are written."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def local_path(path: str) -> str:
    """Returns a path in place of a URI of a file on this machine."""
    return unquote(urlsplit(path).path) if path.startswith("file:/") else path


def matching_paths(path: str) -> list[str]:
    """Returns the paths that a path of a data source stands for: itself, or what a pattern matches now, in order."""
    location = local_path(path)
    if not glob.has_magic(location) or Path(location).exists():
        return [location]
    return sorted(glob.glob(location, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern


def expand_path(path: str) -> list[str]:
    """Returns what :func:`matching_paths` does.

    Raises:
        SourceError: Nothing matches the pattern.
    """
    found = matching_paths(path)
    if not found:
        raise SourceError(path, "nothing matches the pattern")
    return found


class TaskPartition(InputPartition):
    """The partition of one task."""

    def __init__(self, source: int, task_input: TaskInput) -> None:
        super().__init__(None)
        self.source = source
        self.task_input = task_input


class MessageReader(DataSourceReader):
    """A reader of what lies at some paths, once.

    Args:
        options: The options as Spark hands them.
        columns: Names of the columns that are wanted.
    """

    def __init__(self, options: MutableMapping[str, str], columns: Sequence[str]) -> None:
        paths, read, limits = from_spark_options(options)
        expanded = [location for path in paths for location in expand_path(path)]
        self._columns = columns
        self._sources = [open_source(location, read, limits) for location in expanded]
        for source in self._sources:
            source.has_places = "_metadata" in columns

    def partitions(self) -> Sequence[InputPartition]:
        """Returns a partition per task, and an empty one if there is nothing: Spark expects at least one."""
        planned = [
            TaskPartition(number, task_input)
            for number, source in enumerate(self._sources)
            for task_input in self._plan(source)
        ]
        return planned or [TaskPartition(0, TaskInput(()))]

    def _plan(self, source: MessageSource) -> Sequence[TaskInput]:
        inputs = source.plan(_TASKS)
        if inputs is None:
            raise SourceError(source.path, "only Spark's own reader can read this: use twigcast.spark.read_messages")
        return inputs

    def read(self, partition: InputPartition) -> Batches:
        """Yields the messages of one task as Arrow batches."""
        assert isinstance(partition, TaskPartition)
        for batch in self._sources[partition.source].read(partition.task_input):
            yield with_columns(batch, self._columns)


def check_columns_of_format(columns: Sequence[str]) -> None:
    """Raises :class:`SourceError` if a schema has a column that the format does not have."""
    for name in columns:
        if name not in PLACED_MESSAGES.names:
            raise SourceError(FORMAT, f"there is no column {name}; the columns are {', '.join(PLACED_MESSAGES.names)}")


def with_columns(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Returns messages with these columns of the format, whatever a source leaves out."""
    fields = [PLACED_MESSAGES.field(name) for name in columns]
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))
