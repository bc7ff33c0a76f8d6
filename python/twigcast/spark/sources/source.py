"""The base class of sources: what a pipeline reads its messages from, and what all sources share."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StringType, StructType, TimestampNTZType, TimestampType

from twigcast.errors import SourceError
from twigcast.limits import Limits
from twigcast.reading.options import ReadOptions
from twigcast.spark.matching import MESSAGE_COLUMNS, MessageColumns

TASKS_MAX: Final = 2_000
"""With very much to read, tasks grow rather than multiply beyond this number."""

BATCH_BYTES: Final = 1 << 20
BATCH_MESSAGES_MAX: Final = 1_000
"""Size of the Arrow batches: larger and smaller ones move through Spark at half the speed."""

Batches = Iterator[pa.RecordBatch]

_Part = TypeVar("_Part")


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


def group_neighbours(parts: Iterable[tuple[_Part, int]], bytes_max: int, count_max: int) -> list[list[_Part]]:
    """Returns parts in groups of neighbours.

    Args:
        parts: Each part with its size in bytes.
        bytes_max: A group has no more bytes than this, unless it is a single part.
        count_max: A group has no more parts than this.
    """
    groups: list[list[_Part]] = []
    size = 0
    for part, part_bytes in parts:
        if not groups or size + part_bytes > bytes_max or len(groups[-1]) >= count_max:
            groups.append([])
            size = 0
        groups[-1].append(part)
        size += part_bytes
    return groups


class MessageSource(ABC):
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

    has_places: bool
    """Whether messages come with the column ``_metadata``, where the source knows it."""

    def __init__(self, path: str, options: ReadOptions | None = None, limits: Limits | None = None) -> None:
        self.path = path
        self.has_places = False
        self.options = options or ReadOptions()
        self.limits = limits or Limits()

    @classmethod
    @abstractmethod
    def takes(cls, path: str) -> bool:
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


def check_message_columns(messages: DataFrame, name: str, columns: MessageColumns = MESSAGE_COLUMNS) -> MessageColumns:
    """Returns the names of the columns of messages as they are to be read, after checking that they are there.

    Raises:
        SourceError: The ids or the messages are missing, or the messages are neither strings nor binary.
    """
    types = {field.name: field.dataType for field in messages.schema.fields}
    for column in (columns.message_id, columns.xml):
        if column not in types:
            raise SourceError(name, f"there is no column {column}; the columns are {', '.join(types) or 'none'}")
    if not isinstance(types[columns.xml], StringType | BinaryType):
        found = types[columns.xml].simpleString()
        raise SourceError(name, f"the column {columns.xml} must be string or binary, not {found}")
    published = columns.published
    if published is not None and not isinstance(types.get(published), TimestampType | TimestampNTZType):
        found = types[published].simpleString() if published in types else "missing"
        raise SourceError(name, f"the column {published} must be timestamp, not {found}")
    if isinstance(types.get(columns.problem), StringType):
        return columns
    return replace(columns, problem="")


def check_columns(messages: DataFrame, name: str, further: Sequence[str] = ()) -> DataFrame:
    """Returns a table of messages reduced to what counts: ``message_id``, ``xml``, perhaps ``problem``, places.

    The `further` columns stay, too.

    Raises:
        SourceError: ``message_id`` or ``xml`` is missing, or ``xml`` is neither a string nor binary.
    """
    columns = check_message_columns(messages, name)
    wanted = ["cast(message_id as string) message_id", "xml"]
    places = [field.dataType for field in messages.schema.fields if field.name == "_metadata"]
    has_places = any(
        isinstance(kind, StructType) and {"repairs", "line", "added"} <= set(kind.names) for kind in places
    )
    optional = [*([columns.problem] if columns.problem else []), *(["_metadata"] if has_places else [])]
    return messages.selectExpr(*wanted, *optional, *further)
