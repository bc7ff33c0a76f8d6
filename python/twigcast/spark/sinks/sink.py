"""The protocol of sinks: where a pipeline puts its answers, so that a kill at any point leaves nothing half done."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol, Self

from twigcast.spark.matching import BatchAnswer
from twigcast.spark.summary import Summary, TaskReport

Mode = Literal["batch", "stream"]


class AnswerWriter(Protocol):
    """A writer of the answers of one task."""

    def write(self, answer: BatchAnswer) -> None:
        """Adds an answer."""

    def close(self) -> dict[str, int]:
        """Finishes what was written and returns the number of rows of each kind of output."""


class Sink(ABC):
    """A sink, open for one pipeline. A context manager: it keeps other pipelines out until it is closed.

    Args:
        path: The path as the user wrote it.
        mode: Whether a batch job or a stream writes to it.

    Raises:
        OutputError: It cannot be written, is in use, or holds something else.
    """

    folder: Path
    """A folder that driver and tasks see: Spark's log and, unless it has its own folder, the checkpoint lie in it."""

    @abstractmethod
    def __init__(self, path: str, mode: Mode) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @classmethod
    @abstractmethod
    def matches(cls, path: str) -> bool:
        """Returns whether this sink writes to a path."""

    @abstractmethod
    def close(self) -> None:
        """Lets other pipelines write."""

    @abstractmethod
    def new_staging(self) -> Path:
        """Creates an empty folder for what the tasks of one job write."""

    @staticmethod
    @abstractmethod
    def open_writer(staging: str, partition: int, attempt: int) -> AnswerWriter:
        """Opens the writer of a task, in the task. An attempt that is not reported leaves nothing behind."""

    @abstractmethod
    def replace(self, staging: Path, reports: Sequence[TaskReport], summary: Summary) -> None:
        """Replaces whatever the sink holds by the output of a batch job."""

    @abstractmethod
    def append(self, batch: int, stream: str, staging: Path, reports: Sequence[TaskReport], totals: Summary) -> None:
        """Adds the output of a micro-batch, once and as a whole.

        Args:
            batch: Number of the micro-batch.
            stream: Identity of the stream.
            staging: Where its tasks wrote.
            reports: What they wrote.
            totals: The sum over all micro-batches up to this one.
        """

    @abstractmethod
    def is_committed(self, batch: int) -> bool:
        """Returns whether the sink holds the output of a micro-batch already."""

    @abstractmethod
    def totals(self) -> Summary:
        """Returns the sum over all micro-batches so far."""

    @abstractmethod
    def check_stream(self, stream: str | None) -> None:
        """Raises :class:`OutputError` if another stream wrote what the sink holds.

        Its checkpoint was removed or replaced then, and the numbers of its micro-batches would start over.
        """

    @abstractmethod
    def write_summary(self, summary: Summary) -> None:
        """Writes the sum over all micro-batches for readers."""
