"""The pipeline: messages and subscriptions in; matches, deliveries and rejected messages out."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from twigcast.envelope import Envelope
from twigcast.errors import PipelineError
from twigcast.limits import Limits
from twigcast.reading.options import ReadOptions
from twigcast.registration import Dialect
from twigcast.spark.jobs import run_job, spark_errors
from twigcast.spark.population import OnBad, PopulationFeed, PopulationInput
from twigcast.spark.progress import ProgressReporter, reporter_here
from twigcast.spark.session import JAVA_GONE, arrow_settings, open_session
from twigcast.spark.sinks import open_sink
from twigcast.spark.sinks.sink import Sink
from twigcast.spark.sources import open_source
from twigcast.spark.sources.files import FileSource
from twigcast.spark.sources.plan import plan_frame, plan_source
from twigcast.spark.sources.source import MessageSource, check_columns
from twigcast.spark.streaming import Stream, folder_frame, run_stream
from twigcast.spark.summary import Summary
from twigcast.subscriptions import SubscriptionSet

SPARK_LOG: Final = "_spark.log"
"""In the output folder: what Spark and its workers write to standard error."""


def run_pipeline(
    messages: DataFrame | str | os.PathLike[str],
    subscriptions: SubscriptionSet | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    stream: Stream | None = None,
    read: ReadOptions | None = None,
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
            before each micro-batch and takes what changed.
        output: The output folder, on a file system that driver and executors share.
        stream: Settings of a stream, which watches the folder of messages until it is stopped; without them, a batch
            job runs.
        read: How messages are cut out of their files.
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
        What was done; of a stream, by all its runs together.

    Raises:
        SourceError: There are no messages at the path.
        SubscriptionError: The subscriptions cannot be used.
        OutputError: The output folder cannot be written; nothing has been done then.
        MissingJava: There is no Java runtime that Spark can use.
        PipelineError: Spark failed.
    """
    for name, value, kind in (("stream", stream, Stream), ("read", read, ReadOptions)):
        if value is not None and not isinstance(value, kind):
            raise TypeError(f"{name} must be {kind.__name__}, not {type(value).__name__}")
    reporter = reporter or reporter_here()
    population = PopulationInput(subscriptions, namespaces, dialect, limits, on_bad_subscription, envelope, whole)
    if isinstance(messages, DataFrame):
        _check_frame(messages, is_stream=stream is not None)
        source: MessageSource | DataFrame = messages
    else:
        source = _open_source(messages, read, limits, is_stream=stream is not None)
    with (
        open_sink(output, "batch" if stream is None else "stream") as sink,
        _session(messages, spark, master, sink.folder / SPARK_LOG) as session,
        spark_errors(),
        arrow_settings(session),
    ):
        reporter.say("reading the subscriptions")
        feed = PopulationFeed(session, population, reporter)
        if stream is None:
            return _run_batch(session, source, feed, sink, nodes=nodes, reporter=reporter)
        if isinstance(source, FileSource):
            source = folder_frame(session, source, stream.checkpoint_folder(sink), stream)
        assert isinstance(source, DataFrame)
        return run_stream(source, feed, sink, stream, nodes=nodes, reporter=reporter)


def _run_batch(
    spark: SparkSession,
    source: MessageSource | DataFrame,
    feed: PopulationFeed,
    sink: Sink,
    *,
    nodes: bool,
    reporter: ProgressReporter,
) -> Summary:
    began = time.monotonic()
    staging = sink.new_staging()
    if isinstance(source, DataFrame):
        plan = plan_frame(check_columns(source, "the DataFrame of messages"))
    else:
        plan = plan_source(spark, source, staging)
    snapshot = feed.snapshot
    reporter.say(f"matching against {snapshot.subscriptions:,} subscriptions")
    reports = run_job(plan, snapshot, sink, staging, nodes=nodes, listener=reporter.progress)
    reporter.finished()
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


@contextmanager
def _session(messages: object, spark: SparkSession | None, master: str | None, log: Path) -> Iterator[SparkSession]:
    """Yields the session to work in; a new one is stopped afterwards."""
    supplied = messages.sparkSession if isinstance(messages, DataFrame) else spark
    if supplied is not None:
        yield supplied
        return
    created = open_session(master, log=log)
    try:
        yield created
    except PipelineError as error:
        if log.exists():
            raise PipelineError(f"{error.reason} (Spark's own log: {log})") from error
        raise
    finally:
        with suppress(*JAVA_GONE):  # it has stopped already
            created.stop()
