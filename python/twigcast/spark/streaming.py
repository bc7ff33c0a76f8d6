"""The pipeline as a stream: each micro-batch uses the newest subscriptions, and lands exactly once."""

import json
import os
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from twigcast.errors import PipelineError, TwigcastError
from twigcast.spark.file_watch import FILES_PER_BATCH
from twigcast.spark.followed_settings import FollowedSettings
from twigcast.spark.following import Following, answers_of, columns_of, following_of
from twigcast.spark.frame_jobs import KEPT, run_frame_job, sized_messages, write_answers
from twigcast.spark.jobs import run_job, run_related_job, spark_errors
from twigcast.spark.lifecycles import choose_population
from twigcast.spark.message_format import MessageFormat
from twigcast.spark.population import PopulationFeed
from twigcast.spark.progress import ProgressReporter
from twigcast.spark.schemas import MESSAGES_DDL, AnswerColumns
from twigcast.spark.sinks.frame_sink import FrameSink, RowOrigin
from twigcast.spark.sinks.sink import Sink, StreamCommit
from twigcast.spark.snapshots import Snapshot
from twigcast.spark.sources.files import FileSource
from twigcast.spark.sources.frames import FORMAT, to_spark_options
from twigcast.spark.sources.plan import plan_frame
from twigcast.spark.sources.source import check_columns
from twigcast.spark.summary import Summary, TaskReport

_FOLDER_LOG: Final = "files.jsonl"
_MESSAGE_COLUMNS: Final = "message_id string, xml binary, problem string"
_WAIT_SECONDS: Final = 1
_START_SECONDS: Final = 60
"""Spark returns a stream that it has started long before."""


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
    """Folder where the stream records its progress; by default inside the output folder. With `sink`, it may be a URI,
    and has no default."""

    name: str | None = None
    """The name under which Spark's interface and listeners show the stream."""

    def checkpoint_folder(self, sink: Sink) -> Path:
        """Returns the folder where the stream records its progress."""
        return sink.folder / "_checkpoint" if self.checkpoint is None else Path(self.checkpoint).absolute()


def folder_frame(
    spark: SparkSession, source: FileSource, checkpoint: Path | None, stream: Stream, *, places: bool = False
) -> DataFrame:
    """Returns the messages that come into a folder, as a streaming DataFrame, with the `places` of their files.

    What was read is kept beside the checkpoint, or in it, if there is no such folder on this machine.
    """
    spark.dataSource.register(MessageFormat)
    columns = MESSAGES_DDL if places or source.options.has_places else _MESSAGE_COLUMNS
    reader = spark.readStream.format(FORMAT).schema(columns).options(**to_spark_options(source))
    if checkpoint is None:
        return reader.load()
    reader = reader.option("maxFilesPerTrigger", stream.files_per_batch)
    return reader.option("log", str(checkpoint / _FOLDER_LOG)).load()


def run_stream(
    messages: DataFrame,
    feed: PopulationFeed,
    sink: Sink,
    stream: Stream,
    *,
    nodes: bool,
    reporter: ProgressReporter,
    followed: FollowedSettings | None = None,
) -> Summary:
    """Processes messages until there are no more (``once``), a signal comes, or something fails.

    Returns the sum over all runs of the stream.
    """
    checkpoint = stream.checkpoint_folder(sink)
    sink.last_commit_of(_stream_id(checkpoint))  # another stream is refused before this one starts
    frame: DataFrame
    batches: _MicroBatches
    if followed is None:
        frame = check_columns(messages, "the DataFrame of messages")
        batches = _MicroBatches(feed, sink, checkpoint, reporter, nodes=nodes)
    else:
        frame = following_of(messages, followed, feed.snapshot, nodes=nodes).related(messages)
        batches = _RelatedMicroBatches(feed, sink, checkpoint, reporter, nodes=nodes, followed=followed)
    with spark_errors(), _stop_signals() as stopping:
        query = _start(frame, batches.run, os.fspath(checkpoint), stream)
        _wait_for(query, batches, stopping, once=stream.once)
    last = sink.last_commit()
    return Summary() if last is None else last.totals


def start_frame_stream(
    messages: DataFrame,
    feed: PopulationFeed,
    sink: FrameSink,
    stream: Stream,
    *,
    nodes: bool,
    reporter: ProgressReporter,
    followed: FollowedSettings | None = None,
) -> "FrameBatches":
    """Starts a stream whose answers Spark writes."""
    if stream.checkpoint is None:
        raise PipelineError("a stream to this sink needs a folder for its progress: Stream(checkpoint=FOLDER)")
    batches: FrameBatches
    if followed is None:
        batches = FrameBatches(feed, sink, reporter, nodes=nodes)
    else:
        messages = sized_messages(messages, sink, followed.columns)
        following = following_of(messages, followed, feed.snapshot, nodes=nodes, kept=KEPT)
        columns = columns_of(followed)
        batches = RelatedFrameBatches(feed, sink, reporter, nodes=nodes, following=following, columns=columns)
        messages = following.related(messages)
    batches.started(_start(messages, batches.run, os.fspath(stream.checkpoint), stream))
    return batches


def run_frame_stream(batches: "FrameBatches", *, once: bool) -> Summary:
    """Lets a stream run until there are no more messages (``once``), a signal comes, or something fails.

    Returns the sum over the micro-batches of this run.
    """
    with spark_errors(), _stop_signals() as stopping:
        _wait_for(batches.query, batches, stopping, once=once)
    return batches.totals


def _start(
    messages: DataFrame, run: Callable[[DataFrame, int], None], checkpoint: str, stream: Stream
) -> StreamingQuery:
    writer = messages.writeStream.foreachBatch(run).option("checkpointLocation", checkpoint)
    if stream.name is not None:
        writer = writer.queryName(stream.name)
    if stream.once:
        return writer.trigger(availableNow=True).start()
    milliseconds = max(1, round(stream.interval_seconds * 1000))
    return writer.trigger(processingTime=f"{milliseconds} milliseconds").start()


def _wait_for(query: StreamingQuery, batches: "_Batches", stopping: threading.Event, *, once: bool) -> None:
    try:
        while not (query.awaitTermination(_WAIT_SECONDS) or stopping.is_set()):
            if once and batches.is_endless and batches.is_idle(query):
                return
    except PySparkException:
        if batches.failure is not None:
            raise batches.failure from None
        raise
    finally:
        query.stop()


class _Batches(ABC):
    """The micro-batches of a stream."""

    is_endless = False
    """Whether Spark goes on with micro-batches when there is nothing left to read, since something may expire."""

    def __init__(self, feed: PopulationFeed, reporter: ProgressReporter, *, nodes: bool) -> None:
        self._feed = feed
        self._reporter = reporter
        self._nodes = nodes
        self.failure: TwigcastError | None = None
        self._first: int | None = None

    def is_idle(self, query: StreamingQuery) -> bool:
        """Returns whether the last micro-batch had nothing to read, and was not the first one of this run.

        That one may be of the run before, which was killed, and says nothing of what is there now.
        """
        progress = query.lastProgress
        if progress is None or self._first is None or progress.batchId <= self._first:
            return False
        return all(source.startOffset == source.endOffset for source in progress.sources)

    def run(self, messages: DataFrame, batch: int) -> None:
        """Processes one micro-batch, unless its results are in the sink already."""
        self._first = batch if self._first is None else self._first
        try:
            self._run(messages, batch)
        except TwigcastError as error:
            self.failure = error  # Spark would pass it on as text only
            raise

    @abstractmethod
    def _run(self, messages: DataFrame, batch: int) -> None: ...

    def _say(self, batch: int, count_of: Callable[[str], int], seconds: float) -> None:
        counts = ", ".join(f"{count_of(name):,} {name}" for name in ("messages", "matches", "deliveries", "rejected"))
        self._reporter.say(f"batch {batch}: {counts}, {seconds:.1f} s")


class FrameBatches(_Batches):
    """The micro-batches of a stream whose answers Spark writes.

    Only the first one after a start may have been written before: Spark begins the next only after it has noted that
    one is done.
    """

    def __init__(self, feed: PopulationFeed, sink: FrameSink, reporter: ProgressReporter, *, nodes: bool) -> None:
        super().__init__(feed, reporter, nodes=nodes)
        self._sink = sink
        self._query: Future[StreamingQuery] = Future()
        self._is_first = True
        self.totals = Summary()

    @property
    def query(self) -> StreamingQuery:
        """The query of Spark, once it has been started."""
        return self._query.result(_START_SECONDS)

    def started(self, query: StreamingQuery) -> None:
        """Receives the query."""
        self._query.set_result(query)

    def _run(self, messages: DataFrame, batch: int) -> None:
        began = time.monotonic()
        origin = RowOrigin(str(self.query.id), batch, is_stream=True, may_be_there=self._is_first)
        snapshot = self._feed.snapshot_for(origin.run, batch)
        with spark_errors():
            report = self._write(messages, snapshot, origin)
        self._is_first = False
        seconds = time.monotonic() - began
        self.totals = self.totals.plus([report], seconds, snapshot.subscriptions, snapshot.refused)
        self._say(batch, lambda name: getattr(report, name), seconds)

    def _write(self, messages: DataFrame, snapshot: Snapshot, origin: RowOrigin) -> TaskReport:
        return run_frame_job(messages, snapshot, self._sink, origin, nodes=self._nodes)


class RelatedFrameBatches(FrameBatches):
    """The micro-batches of a stream that follows messages or windows, and whose answers Spark writes."""

    def __init__(
        self,
        feed: PopulationFeed,
        sink: FrameSink,
        reporter: ProgressReporter,
        *,
        nodes: bool,
        following: Following,
        columns: AnswerColumns,
    ) -> None:
        super().__init__(feed, sink, reporter, nodes=nodes)
        self._following = following
        self._columns = columns
        self._beginnings = _Beginnings()
        self.is_endless = not following.has_watermark

    def _write(self, messages: DataFrame, snapshot: Snapshot, origin: RowOrigin) -> TaskReport:
        choose_population(messages.sparkSession, self._beginnings.of(snapshot))
        answers = self._following.answers(messages)
        report = write_answers(answers, snapshot, self._sink, origin, columns=self._columns)
        self._beginnings.done(snapshot, report.messages)
        return report


class _Beginnings:
    """Which windows a stream has let begin: those that come while it runs begin with the next message."""

    def __init__(self) -> None:
        self._version: str | None = None

    def of(self, snapshot: Snapshot) -> Snapshot:
        """Returns a snapshot that says to tasks whether windows in it are new."""
        shipped = snapshot.windows
        if shipped is None:
            return snapshot
        return replace(snapshot, windows=replace(shipped, silent=(), is_new=shipped.version != self._version))

    def done(self, snapshot: Snapshot, messages: int) -> None:
        """Notes that a micro-batch has run. One without messages may have had no tasks to tell."""
        if messages and snapshot.windows is not None:
            self._version = snapshot.windows.version


class _MicroBatches(_Batches):
    """The micro-batches of a stream. After a kill, Spark may request one that has run already."""

    def __init__(
        self, feed: PopulationFeed, sink: Sink, checkpoint: Path, reporter: ProgressReporter, *, nodes: bool
    ) -> None:
        super().__init__(feed, reporter, nodes=nodes)
        self._sink = sink
        self._checkpoint = checkpoint

    def _run(self, messages: DataFrame, batch: int) -> None:
        stream = _stream_id(self._checkpoint)
        if stream is None:
            raise PipelineError("the checkpoint has been removed while the stream was running")
        last = self._sink.last_commit_of(stream)
        if last is not None and batch <= last.batch:
            self._skip(messages, stream, batch)
            return
        began = time.monotonic()
        snapshot = self._feed.snapshot_for(stream, batch)
        staging = self._sink.new_staging()
        reports = self._stage(messages, snapshot, staging)
        if self.is_endless and not any(report.messages or report.deliveries for report in reports):
            return  # nothing has come, and nothing is over
        seconds = time.monotonic() - began
        before = Summary() if last is None else last.totals
        totals = before.plus(reports, seconds, snapshot.subscriptions, snapshot.refused)
        self._sink.append(staging, reports, StreamCommit(batch, stream, totals, snapshot.population_version))
        self._say(batch, lambda name: getattr(totals, name) - getattr(before, name), seconds)

    def _skip(self, messages: DataFrame, stream: str, batch: int) -> None:
        """Passes over a micro-batch whose answers are in the sink already."""

    def _stage(self, messages: DataFrame, snapshot: Snapshot, staging: Path) -> list[TaskReport]:
        plan, listener = plan_frame(messages), self._reporter.progress
        reports = run_job(plan, snapshot, self._sink, staging, nodes=self._nodes, listener=listener)
        self._reporter.finished()
        return reports


class _RelatedMicroBatches(_MicroBatches):
    """The micro-batches of a stream that follows messages or windows."""

    is_endless = True

    def __init__(
        self,
        feed: PopulationFeed,
        sink: Sink,
        checkpoint: Path,
        reporter: ProgressReporter,
        *,
        nodes: bool,
        followed: FollowedSettings,
    ) -> None:
        super().__init__(feed, sink, checkpoint, reporter, nodes=nodes)
        self._followed = followed
        self._beginnings = _Beginnings()

    def _skip(self, messages: DataFrame, stream: str, batch: int) -> None:
        # Spark's state of this micro-batch may be missing, and goes with its rows, which nobody else asks for.
        choose_population(messages.sparkSession, self._beginnings.of(self._feed.snapshot_for(stream, batch)))
        messages.write.format("noop").mode("overwrite").save()

    def _stage(self, messages: DataFrame, snapshot: Snapshot, staging: Path) -> list[TaskReport]:
        choose_population(messages.sparkSession, self._beginnings.of(snapshot))
        followed = self._followed
        reports = run_related_job(messages, snapshot, self._sink, staging, answers_of(followed), columns_of(followed))
        self._beginnings.done(snapshot, sum(report.messages for report in reports))
        return reports


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
