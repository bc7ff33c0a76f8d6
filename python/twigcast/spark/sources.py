"""Reading messages into Spark: files, folders and archives by a data source of our own, Parquet by Spark's.

Spark's own per-file sources need 15 s for 20,000 small files with their defaults, since they plan a task for every
few of them. The data source here plans by size and number, opens the files in Python, and hands Arrow batches to the
JVM::

    spark.dataSource.register(MessageSource)
    messages = spark.read.format("twigcast").option("path", "feed/").load()

or, shorter, :func:`read_messages`. Whatever cannot be read becomes a row with a ``problem``, so one bad file never
fails a job.
"""

import os
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, StringType, StructType

from twigcast.errors import SourceError
from twigcast.limits import Limits
from twigcast.reading.messages import MessageFile, RejectedInput, find_message_files, read_message_file
from twigcast.spark.schemas import MESSAGES, MESSAGES_DDL

FORMAT: Final = "twigcast"
"""Name of the data source."""

PARTITION_BYTES_MIN: Final = 4 << 20
PARTITION_SOURCES_MAX: Final = 2_000
PARTITIONS_WANTED_MAX: Final = 2_000
"""A task reads at least this many bytes unless it has this many files; with very much to read, tasks grow rather than
multiply.

The plan depends on the files alone, not on the cores at hand, so a job that is started again does the same work in
the same parts.
"""

BATCH_BYTES: Final = 1 << 20
BATCH_MESSAGES_MAX: Final = 1_000
"""Size of the Arrow batches: larger and smaller ones move through Spark at half the speed."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How messages are cut out of their files."""

    record: str | None = None
    """Cut each document into messages at this element (see :func:`twigcast.reading.messages.read_messages`)."""

    include: str | None = None
    """A pattern such as ``*.xml`` that names must match."""

    message_bytes_max: int = Limits().message_bytes_max
    """Larger messages are rejected unread."""

    def options(self) -> dict[str, str]:
        """As options of the data source."""
        options = {"messageBytesMax": str(self.message_bytes_max)}
        if self.record is not None:
            options["record"] = self.record
        if self.include is not None:
            options["include"] = self.include
        return options

    @classmethod
    def of(cls, options: MutableMapping[str, str]) -> "ReadOptions":
        """From options of the data source; Spark makes their names lower-case or not, depending on the version."""
        lowered = {name.lower(): value for name, value in options.items()}
        limit = lowered.get("messagebytesmax")
        return cls(
            lowered.get("record"), lowered.get("include"), Limits().message_bytes_max if limit is None else int(limit)
        )


class SourcesPartition(InputPartition):
    """What one task reads."""

    def __init__(self, sources: Sequence[MessageFile]) -> None:
        super().__init__(None)
        self.sources = tuple(sources)


class MessageReader(DataSourceReader):
    """Reads what lies at a path, once."""

    def __init__(self, path: str, reading: ReadOptions) -> None:
        self._path = path
        self._reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        """A partition per task, and one that is empty where there is nothing: Spark asks for it then."""
        return plan_partitions(find_message_files([self._path], include=self._reading.include)) or [
            SourcesPartition(())
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task, as Arrow batches."""
        assert isinstance(partition, SourcesPartition)
        return read_batches(partition.sources, self._reading)


class MessageSource(DataSource):
    """Spark data source ``twigcast``. Options: ``path``, ``record``, ``include``, ``messageBytesMax``."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Columns of the messages."""
        return MESSAGES_DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reader of a batch job."""
        return MessageReader(self.options["path"], ReadOptions.of(self.options))


def read_messages(spark: SparkSession, path: str | os.PathLike[str], reading: ReadOptions | None = None) -> DataFrame:
    """The messages at a path: ``message_id``, ``xml``, ``problem``.

    Args:
        spark: The session.
        path: A file, folder or archive, or Parquet with the columns ``message_id`` and ``xml``. Executors must be
            able to read it under this path.
        reading: How messages are cut out of their files.

    Raises:
        SourceError: There is nothing there, or no such columns.
    """
    location = os.fspath(path)
    how = reading or ReadOptions()
    if is_parquet(location):
        if how.record is not None:
            raise SourceError(location, "records are cut out of files and archives, not out of Parquet columns")
        return check_columns(spark.read.parquet(location), location)
    check_readable(location)
    spark.dataSource.register(MessageSource)
    reader = spark.read.format(FORMAT).options(**how.options())
    return reader.option("path", str(Path(location).absolute())).load()


def check_readable(path: str) -> None:
    """See that there is something to read before a job starts.

    Raises:
        SourceError: There is nothing.
    """
    if path == "-":
        raise SourceError(path, "the pipeline reads files, folders, archives and Parquet, not standard input")
    try:
        os.stat(path)  # noqa: PTH116 - a file or a folder, whichever
        if Path(path).is_dir():
            with os.scandir(path):
                pass
    except OSError as error:
        raise SourceError(path, error.strerror or str(error)) from None


def is_parquet(path: str) -> bool:
    """Whether a path is a Parquet file, or a folder of them as Spark writes it.

    A URI is taken to be one: nothing else is read from where only Spark can look.
    """
    if "://" in path:
        return True
    if Path(path).is_dir():
        with os.scandir(path) as entries:
            names = [entry.name for entry in entries]
        return any(name.endswith(".parquet") for name in names)
    return path.lower().endswith((".parquet", ".pq"))


def check_columns(messages: DataFrame, name: str) -> DataFrame:
    """A table of messages reduced to the columns that count.

    Raises:
        SourceError: ``message_id`` or ``xml`` is missing, or ``xml`` is neither a string nor binary.
    """
    types = {field.name: field.dataType for field in messages.schema.fields}
    for column in ("message_id", "xml"):
        if column not in types:
            raise SourceError(name, f"there is no column {column}; the columns are {', '.join(types) or 'none'}")
    if not isinstance(types["xml"], StringType | BinaryType):
        raise SourceError(name, f"the column xml must be string or binary, not {types['xml'].simpleString()}")
    columns = ["cast(message_id as string) message_id", "xml"]
    if isinstance(types.get("problem"), StringType):
        columns.append("problem")
    return messages.selectExpr(*columns)


def plan_partitions(sources: Sequence[MessageFile]) -> list[SourcesPartition]:
    """Spread sources over tasks, neighbours together."""
    total = sum(source.size for source in sources)
    requested = max(PARTITION_BYTES_MIN, total // PARTITIONS_WANTED_MAX)
    partitions: list[SourcesPartition] = []
    current: list[MessageFile] = []
    size = 0
    for source in sources:
        if current and (size + source.size > requested or len(current) >= PARTITION_SOURCES_MAX):
            partitions.append(SourcesPartition(current))
            current, size = [], 0
        current.append(source)
        size += source.size
    if current:
        partitions.append(SourcesPartition(current))
    return partitions


def read_batches(sources: Iterable[MessageFile], reading: ReadOptions) -> Iterator[pa.RecordBatch]:
    """The messages of sources as Arrow batches of :data:`~twigcast.spark.schemas.MESSAGES`."""
    limits = Limits(message_bytes_max=reading.message_bytes_max)
    ids: list[str] = []
    bodies: list[bytes] = []
    problems: list[str | None] = []
    size = 0
    for source in sources:
        for item in read_message_file(source, record=reading.record, include=reading.include, limits=limits):
            if ids and (size + len(item.xml) > BATCH_BYTES or len(ids) >= BATCH_MESSAGES_MAX):
                yield _batch(ids, bodies, problems)
                ids, bodies, problems, size = [], [], [], 0
            ids.append(item.id.encode("utf-8", "replace").decode())  # names of files need not be text
            bodies.append(item.xml)
            problems.append(str(item.error) if isinstance(item, RejectedInput) else None)
            size += len(item.xml)
    if ids:
        yield _batch(ids, bodies, problems)


def _batch(ids: list[str], bodies: list[bytes], problems: list[str | None]) -> pa.RecordBatch:
    columns = [pa.array(ids, pa.string()), pa.array(bodies, pa.binary()), pa.array(problems, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)
