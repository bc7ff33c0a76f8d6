"""The protocol of sources: what a pipeline reads its messages from, and what all sources share."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StringType

from twigcast.errors import SourceError
from twigcast.limits import Limits

TASKS_MAX: Final = 2_000
"""With very much to read, tasks grow rather than multiply beyond this number."""

BATCH_BYTES: Final = 1 << 20
BATCH_MESSAGES_MAX: Final = 1_000
"""Size of the Arrow batches: larger and smaller ones move through Spark at half the speed."""

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options by which messages are cut out of their files."""

    record: str | None = None
    """Element at which each document is cut into messages (see :func:`twigcast.reading.messages.read_messages`)."""

    include: str | None = None
    """A pattern such as ``*.xml`` that names of files in folders and archives must match."""


@dataclass(frozen=True, slots=True)
class TaskInput:
    """The input of one task: plain values that only its source interprets."""

    parts: tuple[tuple[Any, ...], ...]

    def line(self) -> bytes:
        """Returns the input as a line of the read plan."""
        return json.dumps(self.parts).encode() + b"\n"

    @classmethod
    def of_line(cls, line: bytes) -> "TaskInput":
        """Returns the input that a line of the read plan stands for."""
        return cls(tuple(map(tuple, json.loads(line))))


class MessageSource(Protocol):
    """A source of messages at one path, which tasks read without Spark.

    Spark pickles the source for each task, so it keeps its settings only.

    Args:
        path: The path as the user wrote it.
        options: How messages are cut out of files.
        limits: ``message_bytes_max`` holds for each message: larger ones are rejected unread.
    """

    path: str
    options: ReadOptions
    limits: Limits

    def __init__(self, path: str, options: ReadOptions | None = None, limits: Limits | None = None) -> None:
        self.path = path
        self.options = options or ReadOptions()
        self.limits = limits or Limits()

    @classmethod
    @abstractmethod
    def matches(cls, path: str) -> bool:
        """Returns whether this source reads what lies at a path; opens no file."""

    @abstractmethod
    def check(self) -> None:
        """Raises :class:`SourceError` if the path cannot be read with these options. Runs before Spark starts."""

    @abstractmethod
    def plan(self, tasks: int) -> Sequence[TaskInput] | None:
        """Spreads the messages over tasks.

        Args:
            tasks: How many tasks keep all cores busy; a source may plan more or fewer.

        Returns:
            The inputs of the tasks, or ``None`` if only Spark can read the path.

        Raises:
            SourceError: There is nothing at the path.
        """

    @abstractmethod
    def read(self, task_input: TaskInput) -> Batches:
        """Yields the messages of one task: ``message_id``, ``xml`` and, where it is of use, ``problem``.

        A message that cannot be read is a row with a ``problem``: it is rejected, and the pipeline goes on.

        Raises:
            SourceError: The input as a whole cannot be read; the pipeline fails.
        """

    def frame(self, spark: SparkSession) -> DataFrame | None:
        """Returns the messages as a reader of Spark's own reads them, or ``None`` if it has none for them."""
        return None


def check_columns(messages: DataFrame, name: str) -> DataFrame:
    """Returns a table of messages reduced to the columns that count: ``message_id``, ``xml`` and perhaps ``problem``.

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
