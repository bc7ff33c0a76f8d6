"""Pipelines that know what came before: with life cycles, or with windows; and the checkpoints that they go on from."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from twigcast.errors import PipelineError
from twigcast.spark.followed_settings import FollowedSettings
from twigcast.spark.jobs import StatefulAnswer
from twigcast.spark.lifecycle_settings import LifecycleSettings
from twigcast.spark.lifecycles import FixedPopulation, PopulationOfBatch, relating_of_batch, state_settings
from twigcast.spark.matching import BatchMatcher, MessageColumns
from twigcast.spark.related_rows import RelatedAnswer
from twigcast.spark.schemas import AnswerColumns
from twigcast.spark.session import changed_settings, task_slots
from twigcast.spark.shipped_windows import Clock, load_windows
from twigcast.spark.snapshots import Snapshot, load_session
from twigcast.spark.sources.source import Batches, check_message_columns
from twigcast.spark.state import PARTITIONS, STATE_SETTINGS, check_protobuf, watermark_of
from twigcast.spark.window_rows import WindowedSubscription
from twigcast.spark.window_settings import WindowSettings
from twigcast.spark.windowed_rows import WINDOWED_ANSWERS, WindowedAnswer, answer_packer
from twigcast.spark.windows import Windowing

_NAME: Final = "the DataFrame of messages"


class Following(Protocol):
    """The work of a pipeline that knows what came before."""

    @property
    def has_watermark(self) -> bool:
        """Returns whether what is due goes by the watermark of a stream."""

    def related(self, messages: DataFrame) -> DataFrame:
        """Returns what follows from messages, packed."""

    def answers(self, related: DataFrame) -> DataFrame:
        """Returns a row per message, and one for all else that follows."""


def following_of(
    messages: DataFrame,
    settings: FollowedSettings,
    snapshot: Snapshot,
    *,
    nodes: bool,
    kept: Collection[str] = ("message_id",),
) -> Following:
    """Returns what a pipeline does with messages.

    Raises:
        SourceError: A column is missing.
    """
    if isinstance(settings, LifecycleSettings):
        return relating_of_batch(messages, settings, snapshot, nodes=nodes, kept=kept)
    return PipelineWindowing.of(messages, settings, snapshot, nodes=nodes)


def columns_of(settings: FollowedSettings | None, *, has_versions: bool = False) -> AnswerColumns:
    """Returns what the answers have besides."""
    return AnswerColumns(
        has_versions,
        has_relations=isinstance(settings, LifecycleSettings),
        has_windows=isinstance(settings, WindowSettings),
    )


def answers_of(settings: FollowedSettings) -> Callable[[pa.Array], Iterable[StatefulAnswer]]:
    """Returns what makes answers of what Spark has moved."""
    if isinstance(settings, WindowSettings):
        return WindowedAnswer.of
    return lambda packed: [RelatedAnswer.of(packed)]


@contextmanager
def followed_settings(spark: SparkSession, settings: FollowedSettings | None) -> Iterator[None]:
    """Sets what a stream with state needs; afterwards the session has its own settings again."""
    if isinstance(settings, WindowSettings):
        check_protobuf()
        # Each partition has a store of its own in each micro-batch: more of them than cores only cost time.
        cores = task_slots(spark)
        changed = {**STATE_SETTINGS, PARTITIONS: str(min(cores, int(spark.conf.get(PARTITIONS) or cores)))}
        with changed_settings(spark, changed):
            yield
        return
    with state_settings(spark, settings):
        yield


@dataclass(frozen=True, slots=True)
class PopulationWindows:
    """The windows of a population, in the tasks of a pipeline."""

    population: FixedPopulation | PopulationOfBatch

    def load(self) -> dict[str, WindowedSubscription]:
        """Returns the subscriptions that have a window, by key."""
        shipped = self.population.load().windows
        return {} if shipped is None else dict(load_windows(shipped))


@dataclass(frozen=True, slots=True)
class PipelineWindowing:
    """The work on messages whose subscribers are told when their windows say so. Spark pickles it for each task."""

    windowing: Windowing
    population: FixedPopulation | PopulationOfBatch
    columns: MessageColumns
    clock: Clock | None
    is_stream: bool
    nodes: bool

    @classmethod
    def of(
        cls, messages: DataFrame, settings: WindowSettings, snapshot: Snapshot, *, nodes: bool
    ) -> "PipelineWindowing":
        """Returns what is to be done, after checking the columns.

        Raises:
            SourceError: A column is missing.
        """
        columns = check_message_columns(messages, _NAME, MessageColumns(published=settings.published))
        population = PopulationOfBatch() if messages.isStreaming else FixedPopulation(snapshot)
        shipped = snapshot.windows
        assert shipped is not None, "a pipeline with windows ships them"
        windowing = Windowing(
            PopulationWindows(population),
            snapshot.limits,
            watermark_of(messages, settings.published),
            shipped.silent,
            shipped.began,
            may_change=messages.isStreaming,
        )
        return cls(windowing, population, columns, shipped.clock, is_stream=messages.isStreaming, nodes=nodes)

    @property
    def has_watermark(self) -> bool:
        """Returns whether what is due goes by the watermark of a stream."""
        return self.windowing.watermark is not None

    def related(self, messages: DataFrame) -> DataFrame:
        """Returns what subscribers are told, and all answers that wait for nothing, packed."""
        return self.windowing.notices(messages, self._pack)

    def answers(self, related: DataFrame) -> DataFrame:
        """Returns a row per message, and one for each time that the subscriber of a window is told."""

        def unpack(batches: Batches) -> Batches:
            for batch in batches:
                for answer in WindowedAnswer.of(batch.column(0)):
                    yield answer.rows

        return related.mapInArrow(unpack, from_arrow_schema(WINDOWED_ANSWERS))

    def _pack(self, batches: Batches) -> Batches:
        snapshot, context = self.population.load(), TaskContext.get()
        assert context is not None
        shipped = snapshot.windows
        assert shipped is not None, "a pipeline with windows ships them"
        matcher = BatchMatcher(load_session(snapshot), nodes=self.nodes, whole=snapshot.whole)
        packer = answer_packer(
            replace(shipped, is_new=False),
            self.columns, snapshot.limits, self.clock, whole=snapshot.whole, files=self.is_stream,
        )  # fmt: skip
        if shipped.is_new:
            yield packer.begun(shipped)
        for batch in batches:
            yield from packer.pack(matcher, batch, self.columns, str(context.partitionId()))


# Checkpoints ----------------------------------------------------------------------------------------------------------

_WITHOUT: Final = "without life cycles or windows"
_BEGUN: Final = {"chains": "with life cycles", "kept": "with windows"}
"""By a table that is in the state: how a stream was begun."""

_ADVICE: Final = {
    "chains": "follow messages as before (lifecycle=LifecycleSettings(...))",
    "kept": "go on with windows (windows=WindowSettings())",
}


def check_checkpoint(
    spark: SparkSession, checkpoint: str | os.PathLike[str], settings: FollowedSettings | None
) -> None:
    """Raises an error if a stream was begun in another way than it is to go on: its state would be lost, or missing.

    Raises:
        PipelineError: It was.
    """
    begun = _begun(spark, os.fspath(checkpoint))
    wanted = None if settings is None else "chains" if isinstance(settings, LifecycleSettings) else "kept"
    if begun is None or begun == (wanted or ""):
        return
    was, now = _BEGUN.get(begun, _WITHOUT), _WITHOUT if wanted is None else _BEGUN[wanted]
    advice = f"{_ADVICE[begun]}, or begin" if begun else "begin"
    raise PipelineError(
        f"the stream in {os.fspath(checkpoint)} was begun {was}, and cannot go on {now}, since what came before is "
        f"not known there: {advice} another one, with a checkpoint and an output of its own"
    )


def _begun(spark: SparkSession, checkpoint: str) -> str | None:
    """Returns the table that tells how a stream was begun, ``""`` if it has no state, ``None`` if it is new."""
    described = _texts(spark, f"{checkpoint}/state/0/_metadata")
    for text in described:
        for table in _BEGUN:
            # The names of tables stand in a text of JSON within JSON.
            if f'"{table}\\"' in text:
                return table
    # Until the first micro-batch is done nothing is known, and nothing can be lost; it may have been killed.
    return "" if not described and _texts(spark, f"{checkpoint}/commits") else None


def _texts(spark: SparkSession, folder: str) -> list[str]:
    """Returns what stands in the files of a folder, wherever that is, and of those below it."""
    if "://" not in folder:
        files = sorted(path for path in Path(folder).rglob("*") if path.is_file() and path.suffix != ".crc")
        return [path.read_text(encoding="utf-8", errors="replace") for path in files]
    try:
        rows = spark.read.text(folder, wholetext=True, recursiveFileLookup=True).collect()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return []
        raise
    return [row[0] for row in rows]
