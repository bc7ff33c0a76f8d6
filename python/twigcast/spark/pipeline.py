"""The pipeline: messages and subscriptions in; matches, deliveries and rejected messages out."""

import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from twigcast.envelope import Envelope
from twigcast.errors import PipelineError
from twigcast.limits import Limits
from twigcast.reading.options import ReadOptions
from twigcast.registration import Dialect
from twigcast.spark.followed_settings import FollowedSettings, checked_settings, windows_of
from twigcast.spark.following import answers_of, check_checkpoint, columns_of, followed_settings, following_of
from twigcast.spark.frame_jobs import KEPT, run_frame_job, sized_messages, write_answers
from twigcast.spark.jobs import run_job, run_related_job, spark_errors
from twigcast.spark.lifecycle_settings import LifecycleSettings
from twigcast.spark.living import LivingPopulation
from twigcast.spark.message_format import source_frame
from twigcast.spark.population import OnBad, PopulationFeed, PopulationInput
from twigcast.spark.progress import ProgressReporter, reporter_here
from twigcast.spark.session import STREAM_SETTINGS, arrow_settings, is_connected, own_session
from twigcast.spark.sinks import open_sink
from twigcast.spark.sinks.frame_sink import FrameSink, RowOrigin
from twigcast.spark.sinks.sink import Sink
from twigcast.spark.snapshots import Snapshot
from twigcast.spark.sources import open_source
from twigcast.spark.sources.files import FileSource
from twigcast.spark.sources.plan import plan_frame, plan_source
from twigcast.spark.sources.source import MessageSource, check_columns
from twigcast.spark.streaming import (
    FrameBatches,
    Stream,
    folder_frame,
    run_frame_stream,
    run_stream,
    start_frame_stream,
)
from twigcast.spark.summary import Summary, TaskReport
from twigcast.spark.window_settings import WindowSettings
from twigcast.subscriptions import SubscriptionSet

SPARK_LOG: Final = "_spark.log"
"""In the output folder: what Spark and its workers write to standard error."""


def run_pipeline(
    messages: DataFrame | str | os.PathLike[str],
    subscriptions: SubscriptionSet | LivingPopulation | str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    sink: FrameSink | None = None,
    stream: Stream | None = None,
    read: ReadOptions | None = None,
    lifecycle: LifecycleSettings | None = None,
    windows: WindowSettings | None = None,
    nodes: bool = False,
    envelope: Envelope | None = None,
    whole: bool = False,
    namespaces: Mapping[str, str] | None = None,
    dialect: Dialect = "xpath",
    limits: Limits | None = None,
    on_bad_subscription: OnBad = "fail",
    master: str | None = None,
    spark: SparkSession | None = None,
    reporter: ProgressReporter | None = None,
) -> Summary:
    """Matches messages with Spark, and rewrites them.

    Writes Parquet to ``matches/``, ``deliveries/`` and ``rejected/`` below the output folder, then ``summary.json``.
    One bad message never fails a pipeline: it is kept, whole, among the rejected. A batch job replaces what an
    earlier one left in the folder; killed and started again, it leaves the same output. A stream adds to the folder;
    killed at any point and started again, it continues where it was, and each file lands exactly once.

    Args:
        messages: A file, folder or archive; Parquet with ``message_id`` and ``xml``; or a DataFrame with these
            columns, also a streaming one.
        subscriptions: A set, or a file of subscriptions: JSON lines, Parquet, CSV or a snapshot. A stream checks it
            before each micro-batch and takes what changed. Or a population that lives, whose versions stand in rows;
            its own namespaces, dialect and limits count then.
        output: The output folder, on a file system that driver and executors share.
        sink: Tables or topics in place of a folder: :class:`~twigcast.spark.DeltaTables`,
            :class:`~twigcast.spark.IcebergTables`, :class:`~twigcast.spark.KafkaTopics`.
        stream: Settings of a stream, which watches the folder of messages until it is stopped; without them, a batch
            job runs.
        read: How messages are cut out of their files.
        lifecycle: How messages that update, cancel and repeat each other are followed. ``deliveries/`` then has a row
            for each message and subscription that gets it, with their ``relation``.
        windows: When subscribers are told, beside what a file of subscriptions says of that: ``when`` there is enough
            for a pipeline with windows. ``deliveries/`` then has a row for each time that the subscriber of a window is
            told, with what it tells of; other subscriptions are told as ever.
        nodes: Whether to count the nodes that each subscription selects (takes longer).
        envelope: An element to put around each payload.
        whole: Whether the message itself is the payload where a query does not rewrite; else only results are in
            ``deliveries/``, and a message that many subscriptions match is not repeated.
        namespaces: Prefixes of the subscriptions in a file, besides their own.
        dialect: How subscriptions in a file are read.
        limits: For messages, and for subscriptions in a file.
        on_bad_subscription: ``"fail"`` before any work begins, or ``"skip"`` and report.
        master: Where Spark runs; by default what ``spark-submit`` says, else ``local[*]``.
        spark: A session to use, which is left running; by default that of the DataFrame, or a new one.
        reporter: Receives the progress; by default there is a bar in a notebook, and silence everywhere else.

    Returns:
        What was done; of a stream to a folder, by all its runs together.

    Raises:
        SourceError: There are no messages at the path.
        SubscriptionError: The subscriptions cannot be used.
        OutputError: The output folder cannot be written; nothing has been done then.
        MissingJava: There is no Java runtime that Spark can use.
        PipelineError: Spark failed.
    """
    reporter = reporter or reporter_here()
    followed = checked_settings(subscriptions, lifecycle, windows, envelope)
    population = PopulationInput(
        subscriptions, namespaces, dialect, limits, on_bad_subscription, envelope, whole, windows_of(followed)
    )
    source = _checked_source(messages, stream, _cutting(read, lifecycle), limits)
    columns = columns_of(followed, has_versions=population.is_living)
    if sink is not None:
        if output is not None:
            raise PipelineError("name an output folder or a sink, not both")
        job = _SinkJob(source, population, sink.with_columns(columns), stream, reporter, nodes, followed)
        with _session(messages, spark, master, None, is_stream=stream is not None) as session, spark_errors():
            return job.run(session)
    if output is None:
        raise PipelineError("say where the answers go: an output folder, or sink=...")
    with (
        open_sink(output, "batch" if stream is None else "stream", columns=columns) as folder,
        _session(messages, spark, master, folder.folder / SPARK_LOG, is_stream=stream is not None) as session,
        spark_errors(),
        arrow_settings(session),
        followed_settings(session, followed if stream is not None else None),
    ):
        if stream is not None:
            _check_stream_session(session)
        reporter.say("reading the subscriptions")
        feed = PopulationFeed(session, population, reporter)
        if stream is None:
            return _run_batch(session, source, feed, folder, followed, nodes=nodes, reporter=reporter)
        checkpoint = stream.checkpoint_folder(folder)
        check_checkpoint(session, checkpoint, followed)
        if isinstance(source, FileSource):
            source = folder_frame(session, source, checkpoint, stream, places=followed is not None)
        assert isinstance(source, DataFrame)
        return run_stream(source, feed, folder, stream, nodes=nodes, reporter=reporter, followed=followed)


def start_pipeline(
    messages: DataFrame | str | os.PathLike[str],
    subscriptions: SubscriptionSet | LivingPopulation | str | os.PathLike[str],
    sink: FrameSink,
    *,
    stream: Stream,
    read: ReadOptions | None = None,
    lifecycle: LifecycleSettings | None = None,
    windows: WindowSettings | None = None,
    nodes: bool = False,
    envelope: Envelope | None = None,
    whole: bool = False,
    namespaces: Mapping[str, str] | None = None,
    dialect: Dialect = "xpath",
    limits: Limits | None = None,
    on_bad_subscription: OnBad = "fail",
    spark: SparkSession | None = None,
    reporter: ProgressReporter | None = None,
) -> StreamingQuery:
    """Starts a stream to tables or topics, and returns Spark's query, which runs beside your program.

    ``stream.checkpoint`` is needed. Spark's listeners and its interface show the stream, under ``stream.name``; the
    numbers of each micro-batch are observed under the name ``twigcast``. For a folder of answers use
    ``writeStream.format("twigcast")``, which returns a query as well.

    Args:
        messages: A folder, or a streaming DataFrame with ``message_id`` and ``xml``.
        subscriptions: As for :func:`run_pipeline`.
        sink: Where the answers go.
        stream: Settings of the stream.
        read: As for :func:`run_pipeline`, like all that follow.
        lifecycle: How messages that update, cancel and repeat each other are followed.
        windows: When subscribers are told.
        nodes: Whether to count the nodes that each subscription selects.
        envelope: An element to put around each payload.
        whole: Whether the message itself is the payload where a query does not rewrite.
        namespaces: Prefixes of the subscriptions in a file.
        dialect: How subscriptions in a file are read.
        limits: For messages, and for subscriptions in a file.
        on_bad_subscription: ``"fail"`` or ``"skip"``.
        spark: The session; by default that of the DataFrame, or the active one.
        reporter: Is told of each micro-batch.

    Raises:
        SourceError: There is no such folder.
        SubscriptionError: The subscriptions cannot be used.
        OutputError: The sink cannot be written to.
        PipelineError: Spark failed, or there is no session.
    """
    reporter = reporter or reporter_here()
    followed = checked_settings(subscriptions, lifecycle, windows, envelope)
    population = PopulationInput(
        subscriptions, namespaces, dialect, limits, on_bad_subscription, envelope, whole, windows_of(followed)
    )
    source = _checked_source(messages, stream, _cutting(read, lifecycle), limits)
    session = source.sparkSession if isinstance(source, DataFrame) else spark or SparkSession.getActiveSession()
    if session is None:
        raise PipelineError("there is no Spark session: pass spark=...")
    sink = sink.with_columns(columns_of(followed, has_versions=population.is_living))
    with spark_errors():
        return _SinkJob(source, population, sink, stream, reporter, nodes, followed).start(session).query


@dataclass(frozen=True)
class _SinkJob:
    """A pipeline whose answers Spark writes."""

    source: MessageSource | DataFrame
    population: PopulationInput
    sink: FrameSink
    stream: Stream | None
    reporter: ProgressReporter
    nodes: bool
    followed: FollowedSettings | None

    def run(self, spark: SparkSession) -> Summary:
        """Runs a batch job, or a stream until it ends."""
        if self.stream is not None:
            summary = run_frame_stream(self.start(spark), once=self.stream.once)
            self.sink.refresh(spark)
            return summary
        began = time.monotonic()
        self.sink.open(spark)
        run = self.sink.run
        origin = RowOrigin(run or uuid.uuid4().hex, 0, is_stream=False, may_be_there=run is not None)
        with arrow_settings(spark):
            feed = PopulationFeed(spark, self.population, self.reporter)
            frame = self.source if isinstance(self.source, DataFrame) else source_frame(spark, self.source)
            self.reporter.say(f"matching against {feed.snapshot.subscriptions:,} subscriptions")
            report = self._write(frame, feed.snapshot, origin)
        seconds = time.monotonic() - began
        return Summary().plus([report], seconds, feed.snapshot.subscriptions, feed.snapshot.refused)

    def _write(self, frame: DataFrame, snapshot: Snapshot, origin: RowOrigin) -> TaskReport:
        followed = self.followed
        if followed is None:
            return run_frame_job(frame, snapshot, self.sink, origin, nodes=self.nodes)
        sized = sized_messages(frame, self.sink, followed.columns)
        following = following_of(sized, followed, snapshot, nodes=self.nodes, kept=KEPT)
        answers = following.answers(following.related(sized))
        return write_answers(answers, snapshot, self.sink, origin, columns=columns_of(followed))

    def start(self, spark: SparkSession) -> FrameBatches:
        """Starts a stream."""
        assert self.stream is not None
        _check_stream_session(spark)
        if self.sink.run is not None:
            raise PipelineError("a stream is known by its checkpoint: leave the name of the run out")
        if self.stream.checkpoint is not None:
            check_checkpoint(spark, self.stream.checkpoint, self.followed)
        self.sink.open(spark)
        feed = PopulationFeed(spark, self.population, self.reporter)
        source = self.source
        # The stream keeps the settings that it was started with.
        with arrow_settings(spark), followed_settings(spark, self.followed):
            if isinstance(source, FileSource):
                places = self.followed is not None
                source = folder_frame(spark, source, self._local_checkpoint(), self.stream, places=places)
            assert isinstance(source, DataFrame)
            return start_frame_stream(
                source, feed, self.sink, self.stream,
                nodes=self.nodes, reporter=self.reporter, followed=self.followed,
            )  # fmt: skip

    def _local_checkpoint(self) -> Path | None:
        assert self.stream is not None
        checkpoint = os.fspath(self.stream.checkpoint or "")
        return None if not checkpoint or "://" in checkpoint else Path(checkpoint).absolute()


def _checked_source(
    messages: DataFrame | str | os.PathLike[str], stream: Stream | None, read: ReadOptions | None, limits: Limits | None
) -> MessageSource | DataFrame:
    """Returns the source of the messages, after checking what can be checked before Spark starts."""
    for name, value, kind in (("stream", stream, Stream), ("read", read, ReadOptions)):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")
    if isinstance(messages, DataFrame):
        _check_frame(messages, is_stream=stream is not None)
        return messages
    return _open_source(messages, read, limits, is_stream=stream is not None)


def _cutting(read: ReadOptions | None, lifecycle: LifecycleSettings | None) -> ReadOptions | None:
    """Returns how messages are cut out of their files: into the items of a profile, unless the user says otherwise."""
    return read if lifecycle is None else lifecycle.read.read_options(read)


def _run_batch(
    spark: SparkSession,
    source: MessageSource | DataFrame,
    feed: PopulationFeed,
    sink: Sink,
    followed: FollowedSettings | None,
    *,
    nodes: bool,
    reporter: ProgressReporter,
) -> Summary:
    began = time.monotonic()
    staging = sink.new_staging()
    snapshot = feed.snapshot
    reporter.say(f"matching against {snapshot.subscriptions:,} subscriptions")
    if followed is not None:
        frame = source if isinstance(source, DataFrame) else source_frame(spark, source)
        related = following_of(frame, followed, snapshot, nodes=nodes).related(frame)
        reports = run_related_job(related, snapshot, sink, staging, answers_of(followed), columns_of(followed))
        return _replace(sink, staging, reports, began, snapshot)
    if isinstance(source, DataFrame):
        plan = plan_frame(check_columns(source, "the DataFrame of messages"))
    else:
        plan = plan_source(spark, source, staging)
    reports = run_job(plan, snapshot, sink, staging, nodes=nodes, listener=reporter.progress)
    reporter.finished()
    return _replace(sink, staging, reports, began, snapshot)


def _replace(sink: Sink, staging: Path, reports: Sequence[TaskReport], began: float, snapshot: Snapshot) -> Summary:
    summary = Summary().plus(reports, time.monotonic() - began, snapshot.subscriptions, snapshot.refused)
    sink.replace(staging, reports, summary)
    return summary


def _check_frame(messages: DataFrame, *, is_stream: bool) -> None:
    if messages.isStreaming and not is_stream:
        raise PipelineError("the DataFrame of messages is a streaming one: use stream=Stream()")
    if is_stream and not messages.isStreaming:
        raise PipelineError("the DataFrame of messages is not a streaming one: leave stream out")


def _open_source(
    path: str | os.PathLike[str], read: ReadOptions | None, limits: Limits | None, *, is_stream: bool
) -> MessageSource:
    """Returns the source at a path, checked before Spark is started; of a stream, the watched folder."""
    if not is_stream:
        return open_source(path, read, limits)
    location = os.fspath(path)
    if not Path(location).is_dir():
        raise PipelineError(f"{location} is not a folder: a stream watches a folder")
    source = FileSource(location, read, limits)
    source.check()
    return source


def _check_stream_session(spark: SparkSession) -> None:
    """Raises :class:`PipelineError` if micro-batches would run in another process, where this program is not."""
    if is_connected(spark):
        raise PipelineError(
            "over Spark Connect, a stream cannot be run by this program: write match_messages(...) to a table with "
            "Spark's writeStream, or start the program with spark-submit"
        )


@contextmanager
def _session(
    messages: object, spark: SparkSession | None, master: str | None, log: Path | None, *, is_stream: bool
) -> Iterator[SparkSession]:
    """Yields the session to work in; a new one is stopped afterwards."""
    supplied = messages.sparkSession if isinstance(messages, DataFrame) else spark
    if supplied is not None:
        yield supplied
        return
    with own_session(master, log, STREAM_SETTINGS if is_stream else None) as created:
        yield created
