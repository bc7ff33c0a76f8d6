"""The protocol of sinks that Spark itself writes to: tables of a catalogue, topics of Kafka."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from twigcast.spark.schemas import AnswerColumns


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """The origin of rows: the run that made them, and its micro-batch. Both stand in each row."""

    run: str
    """A stream with all its starts, or a batch job."""

    batch: int
    """The number of the micro-batch; 0 of a batch job."""

    is_stream: bool

    population_version: int | None = None
    """The version of the population that a micro-batch is matched with, if that one lives."""

    may_be_there: bool = False
    """Whether the rows may be there: a job that was killed, or that had this name, may have written them."""


class FrameSink(ABC):
    """A sink that Spark writes answers to. It holds settings only, and can be used by several pipelines at once."""

    run: str | None
    """The name of a batch job, which takes the place of earlier ones of this name; else each has its own."""

    event_time: str | None
    """The column of the messages that tells when they happened; by default it is the time of their processing."""

    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """Returns the kinds of answers that it takes: of ``matches``, ``deliveries``, ``rejected``."""

    @abstractmethod
    def open(self, spark: SparkSession) -> None:
        """Prepares the sink: checks that it can be written to, and creates what is missing.

        Raises:
            OutputError: It cannot be written to.
        """

    def with_columns(self, columns: AnswerColumns) -> "FrameSink":
        """Returns the sink for rows that have further columns, such as ``population_version`` or ``relation``.

        Most sinks take any columns.
        """
        return self

    def refresh(self, spark: SparkSession) -> None:  # noqa: B027 - most sinks have nothing to do
        """Lets a session see what streams in the same process have written, which run in sessions of their own."""

    @abstractmethod
    def write(self, kind: str, rows: DataFrame, origin: RowOrigin) -> None:
        """Writes the answers of one kind: all of a micro-batch or, if that fails, none.

        `rows` has the columns of the kind (:mod:`twigcast.spark.schemas`), then ``run``, ``batch``, ``event_time``,
        ``day`` and, if the population lives, ``population_version``. Deliveries have ``relation`` too, if life cycles
        are followed, or :data:`~twigcast.spark.schemas.WINDOW_COLUMNS`, if there are windows.
        """
