"""Messages as DataFrames: by Spark's own reader where a source has one, else by the data source ``twigcast``.

Spark's own per-file reader needs 15 s for 20,000 small files with its defaults, since it plans a task for every few of
them. The data source plans by size and number, opens the files in Python, and hands Arrow batches to the JVM.
"""

import os
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from twigcast.limits import Limits
from twigcast.spark.schemas import MESSAGES_DDL
from twigcast.spark.sources import open_source
from twigcast.spark.sources.source import Batches, MessageSource, ReadOptions, TaskInput

_FORMAT: Final = "twigcast"
_TASKS: Final = 32
"""Spark does not tell a data source how many cores there are."""


def read_messages(
    spark: SparkSession,
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    *,
    limits: Limits | None = None,
) -> DataFrame:
    """Returns the messages at a path as a DataFrame: ``message_id``, ``xml``, ``problem``.

    Args:
        spark: The session.
        path: A file, folder or archive, or Parquet with the columns ``message_id`` and ``xml``. Executors must be
            able to read it under this path.
        options: How messages are cut out of their files.
        limits: Larger messages than ``message_bytes_max`` get a ``problem``.

    Raises:
        SourceError: There is nothing at the path, or no such columns.
    """
    return source_frame(spark, open_source(path, options, limits))


def source_frame(spark: SparkSession, source: MessageSource) -> DataFrame:
    """Returns the messages of a source as a DataFrame."""
    frame = source.frame(spark)
    if frame is not None:
        return frame
    spark.dataSource.register(MessageFormat)
    return spark.read.format(_FORMAT).options(**to_spark_options(source)).load()


def to_spark_options(source: MessageSource) -> dict[str, str]:
    """Returns the path and the settings of a source as options of a data source."""
    path = source.path if "://" in source.path else str(Path(source.path).absolute())
    options = {"path": path, "messageBytesMax": str(source.limits.message_bytes_max)}
    if source.options.record is not None:
        options["record"] = source.options.record
    if source.options.include is not None:
        options["include"] = source.options.include
    return options


def from_spark_options(options: Mapping[str, str]) -> tuple[str, ReadOptions, Limits]:
    """Returns the path and the settings that options of a data source stand for.

    Their names are in lower case or not, depending on the version of Spark.
    """
    lowered = {name.lower(): value for name, value in options.items()}
    bytes_max = lowered.get("messagebytesmax")
    limits = Limits() if bytes_max is None else Limits(message_bytes_max=int(bytes_max))
    return lowered["path"], ReadOptions(record=lowered.get("record"), include=lowered.get("include")), limits


class TaskPartition(InputPartition):
    """The partition of one task."""

    def __init__(self, task_input: TaskInput) -> None:
        super().__init__(None)
        self.task_input = task_input


class MessageReader(DataSourceReader):
    """A reader of what lies at a path, once."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._source = open_source(*from_spark_options(options))

    def partitions(self) -> Sequence[InputPartition]:
        """Returns a partition per task, and an empty one if there is nothing: Spark expects at least one."""
        inputs = self._source.plan(_TASKS) or [TaskInput(())]
        return [TaskPartition(task_input) for task_input in inputs]

    def read(self, partition: InputPartition) -> Batches:
        """Yields the messages of one task as Arrow batches."""
        assert isinstance(partition, TaskPartition)
        return self._source.read(partition.task_input)


class MessageFormat(DataSource):
    """The Spark data source ``twigcast``. Options: ``path``, ``record``, ``include``, ``messageBytesMax``."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return _FORMAT

    def schema(self) -> str:
        """Returns the columns of the messages."""
        return MESSAGES_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader of a batch job."""
        return MessageReader(self.options)
