"""The pipeline as a stream: each micro-batch uses the newest subscriptions, and lands exactly once."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from twigcast.errors import PipelineError, TwigcastError
from twigcast.spark.file_stream import FILES_PER_BATCH
from twigcast.spark.jobs import run_job, spark_errors
from twigcast.spark.message_format import MessageFormat
from twigcast.spark.population import PopulationFeed
from twigcast.spark.progress import ProgressReporter
from twigcast.spark.schemas import MESSAGES_DDL
from twigcast.spark.sinks.sink import Sink, StreamCommit
from twigcast.spark.sources.files import FileSource
from twigcast.spark.sources.frames import FORMAT, to_spark_options
from twigcast.spark.sources.plan import plan_frame
from twigcast.spark.sources.source import check_columns
from twigcast.spark.summary import Summary

_FOLDER_LOG: Final = "files.jsonl"
_MESSAGE_COLUMNS: Final = "message_id string, xml binary, problem string"
_WAIT_SECONDS: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """The settings of a pipeline that keeps running."""

    once: bool = False
    """Whether to take what is there now, then stop."""

    interval_seconds: float = 1.0
    """How often to check for new messages."""

    files_per_batch: int = FILES_PER_BATCH
    """How many files of a watched folder a micro-batch takes at most."""

    checkpoint: str | os.PathLike[str] | None = None
    """Folder where the stream records its progress; by default inside the output folder."""

    def checkpoint_folder(self, sink: Sink) -> Path:
        """Returns the folder where the stream records its progress."""
        return sink.folder / "_checkpoint" if self.checkpoint is None else Path(self.checkpoint).absolute()


def folder_frame(spark: SparkSession, source: FileSource, checkpoint: Path, stream: Stream) -> DataFrame:
    """Returns the messages that come into a folder, as a streaming DataFrame."""
    spark.dataSource.register(MessageFormat)
    columns = MESSAGES_DDL if source.options.has_places else _MESSAGE_COLUMNS
    reader = spark.readStream.format(FORMAT).schema(columns).options(**to_spark_options(source))
    reader = reader.option("maxFilesPerTrigger", stream.files_per_batch)
    return reader.option("log", str(checkpoint / _FOLDER_LOG)).load()


def run_stream(
    messages: DataFrame, feed: PopulationFeed, sink: Sink, stream: Stream, *, nodes: bool, reporter: ProgressReporter
) -> Summary:
    """Processes messages until there are no more (``once``), a signal comes, or something fails.

    Returns the sum over all runs of the stream.
    """
    checkpoint = stream.checkpoint_folder(sink)
    sink.last_commit_of(_stream_id(checkpoint))  # another stream is refused before this one starts
    batches = _MicroBatches(feed, sink, checkpoint, reporter, nodes=nodes)
    writer = check_columns(messages, "the DataFrame of messages").writeStream.foreachBatch(batches.run)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if stream.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{max(1, round(stream.interval_seconds * 1000))} milliseconds")
    with spark_errors(), _stop_signals() as stopping:
        query = writer.start()
        try:
            while not (query.awaitTermination(_WAIT_SECONDS) or stopping.is_set()):
                pass
        except PySparkException:
            if batches.failure is not None:
                raise batches.failure from None
            raise
        finally:
            query.stop()
    last = sink.last_commit()
    return Summary() if last is None else last.totals


class _MicroBatches:
    """The micro-batches of a stream. After a kill, Spark may request one that has run already."""

    def __init__(
        self, feed: PopulationFeed, sink: Sink, checkpoint: Path, reporter: ProgressReporter, *, nodes: bool
    ) -> None:
        self._feed = feed
        self._sink = sink
        self._checkpoint = checkpoint
        self._reporter = reporter
        self._nodes = nodes
        self.failure: TwigcastError | None = None

    def run(self, messages: DataFrame, batch: int) -> None:
        """Processes one micro-batch, unless its results are in the sink already."""
        try:
            self._run(messages, batch)
        except TwigcastError as error:
            self.failure = error  # Spark would pass it on as text only
            raise

    def _run(self, messages: DataFrame, batch: int) -> None:
        stream = _stream_id(self._checkpoint)
        if stream is None:
            raise PipelineError("the checkpoint has been removed while the stream was running")
        last = self._sink.last_commit_of(stream)
        if last is not None and batch <= last.batch:
            return
        began = time.monotonic()
        snapshot = self._feed.refresh()
        staging = self._sink.new_staging()
        plan, listener = plan_frame(messages), self._reporter.progress
        reports = run_job(plan, snapshot, self._sink, staging, nodes=self._nodes, listener=listener)
        self._reporter.finished()
        seconds = time.monotonic() - began
        before = Summary() if last is None else last.totals
        totals = before.plus(reports, seconds, snapshot.subscriptions, snapshot.refused)
        self._sink.append(staging, reports, StreamCommit(batch, stream, totals))
        counts = ", ".join(
            f"{getattr(totals, name) - getattr(before, name):,} {name}"
            for name in ("messages", "matches", "deliveries", "rejected")
        )
        self._reporter.say(f"batch {batch}: {counts}, {seconds:.1f} s")


def _stream_id(checkpoint: Path) -> str | None:
    """Returns the identity that Spark gave a stream, or ``None`` before its first start."""
    try:
        text = (checkpoint / "metadata").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return str(json.loads(text)["id"])


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Turns SIGTERM and Ctrl-C into an event: a stream then ends in order, not in the middle of a call to Java."""
    stopping = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopping
        return

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
