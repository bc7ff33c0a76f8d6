"""The protocol of sinks: where a pipeline puts its answers, so that a kill at any point leaves nothing half done."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, Self

import pyarrow as pa

from twigcast.errors import OutputError
from twigcast.spark.schemas import NO_COLUMNS, AnswerColumns
from twigcast.spark.summary import Summary, TaskReport

Mode = Literal["batch", "stream"]


@dataclass(frozen=True, slots=True)
class StreamCommit:
    """A micro-batch that a sink holds as a whole."""

    batch: int
    """Number of the micro-batch; those of a stream grow."""

    stream: str
    """Identity of the stream."""

    totals: Summary
    """The sum over all micro-batches up to this one."""

    population_version: int | None = None
    """The version of the population that it was matched with, if that one lives."""


class AnswerRows(Protocol):
    """The answers to some messages, as rows: matched, or related to earlier messages too."""

    @property
    def rejections(self) -> Sequence[object]:
        """The messages that could not be processed, or on which a subscription is undecided."""

    def matches(self) -> Iterator[pa.RecordBatch]:
        """Yields rows of matches."""

    def deliveries(self) -> pa.RecordBatch:
        """Returns rows of deliveries."""

    def rejected(self) -> pa.RecordBatch:
        """Returns rows of rejected messages."""


class AnswerWriter(Protocol):
    """A writer of the answers of one task."""

    def write(self, answer: AnswerRows) -> None:
        """Adds an answer."""

    def close(self) -> dict[str, int]:
        """Finishes what was written and returns the number of rows of each kind of output."""


class Sink(ABC):
    """A sink, open for one pipeline. A context manager: it keeps other pipelines out until it is closed.

    Args:
        path: The path as the user wrote it.
        mode: Whether a batch job or a stream writes to it.
        columns: What rows have besides the columns of their kind.

    Raises:
        OutputError: It cannot be written, is in use, or holds something else.
    """

    folder: Path
    """A folder that driver and tasks see: Spark's log and, unless it has its own folder, the checkpoint lie in it."""

    @abstractmethod
    def __init__(self, path: str, mode: Mode, *, columns: AnswerColumns = NO_COLUMNS) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @classmethod
    @abstractmethod
    def takes(cls, path: str) -> bool:
        """Returns whether this sink writes to a path."""

    @abstractmethod
    def close(self) -> None:
        """Lets other pipelines write."""

    @abstractmethod
    def new_staging(self) -> Path:
        """Creates an empty folder for what the tasks of one job write."""

    @staticmethod
    @abstractmethod
    def open_writer(
        staging: str,
        partition: int,
        attempt: int,
        *,
        population_version: int | None = None,
        columns: AnswerColumns = NO_COLUMNS,
    ) -> AnswerWriter:
        """Opens the writer of a task, in the task. An attempt that is not reported leaves nothing behind.

        `population_version` stands in each row, unless it is ``None``; `columns` says what deliveries have besides.
        """

    @abstractmethod
    def replace(self, staging: Path, reports: Sequence[TaskReport], summary: Summary) -> None:
        """Replaces whatever the sink holds by the output of a batch job."""

    @abstractmethod
    def append(self, staging: Path, reports: Sequence[TaskReport], commit: StreamCommit) -> None:
        """Adds the output of a micro-batch, once and as a whole, and its totals for readers.

        Args:
            staging: Where its tasks wrote.
            reports: What they wrote.
            commit: What :meth:`last_commit` returns from then on.
        """

    @abstractmethod
    def last_commit(self) -> StreamCommit | None:
        """Returns the last micro-batch that the sink holds; ``None`` before the first one."""

    def last_commit_of(self, stream: str | None) -> StreamCommit | None:
        """Returns the last micro-batch that the sink holds, of a stream that goes on; ``None`` before the first one.

        Raises:
            OutputError: Another stream wrote it. The checkpoint was removed or replaced then, and the numbers of
                micro-batches would start over.
        """
        last = self.last_commit()
        if last is not None and last.stream != stream:
            raise OutputError(
                str(self.folder),
                "the folder holds the results of another stream, or the checkpoint of this one was removed; "
                "choose another one",
            )
        return last
