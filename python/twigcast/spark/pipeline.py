"""The pipeline: messages and subscriptions in; matches, deliveries and rejected messages out."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from twigcast.envelope import Envelope
from twigcast.errors import PipelineError
from twigcast.limits import Limits
from twigcast.registration import Dialect
from twigcast.spark.direct import ReadPlan, find_work, handed_over
from twigcast.spark.folder_stream import BATCH_FILES_MAX
from twigcast.spark.jobs import run_job, spark_errors
from twigcast.spark.output import BatchOutput, StreamOutput
from twigcast.spark.population import OnBad, PopulationFeed, PopulationSource
from twigcast.spark.progress import ProgressReporter, SilentReporter
from twigcast.spark.session import JAVA_GONE, arrow_settings, open_session
from twigcast.spark.sources import ReadOptions, check_columns, check_readable, is_parquet
from twigcast.spark.streaming import Stream, folder_stream, run_stream
from twigcast.spark.summary import Summary
from twigcast.subscriptions import SubscriptionSet

SPARK_LOG: Final = "_spark.log"
"""In the output folder: what Spark and its workers write to standard error."""

INTERVAL_SECONDS: Final = 1.0
"""How often a stream looks for new messages."""


def run_pipeline(
    messages: DataFrame | str | os.PathLike[str],
    subscriptions: SubscriptionSet | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    stream: bool = False,
    once: bool = False,
    master: str | None = None,
    record: str | None = None,
    include: str | None = None,
    nodes: bool = False,
    envelope: Envelope | None = None,
    whole: bool = False,
    namespaces: Mapping[str, str] | None = None,
    dialect: Dialect = "xpath",
    limits: Limits | None = None,
    on_bad_subscription: OnBad = "fail",
    checkpoint: str | os.PathLike[str] | None = None,
    interval_seconds: float = INTERVAL_SECONDS,
    files_per_batch: int = BATCH_FILES_MAX,
    spark: SparkSession | None = None,
    reporter: ProgressReporter | None = None,
) -> Summary:
    """Match, rewrite and sort out messages with Spark.

    Writes Parquet to ``matches/``, ``deliveries/`` and ``rejected/`` below the output folder, then ``summary.json``.
    One bad message never fails a pipeline: it is kept, whole, among the rejected. A batch job replaces what an
    earlier one left in the folder; killed and started again, it leaves the same output. A stream adds to the folder;
    killed at any point and started again, it goes on where it was, and each file lands exactly once.

    Args:
        messages: A file, folder or archive; Parquet with ``message_id`` and ``xml``; or a DataFrame with these
            columns, also a streaming one.
        subscriptions: A set, or a file of subscriptions: JSON lines, Parquet, CSV or a snapshot. A stream looks at it
            before each micro-batch and takes what changed.
        output: The output folder, on a file system that driver and executors share.
        stream: Watch the folder of messages and go on until stopped.
        once: With ``stream``: take what is there now, then stop.
        master: Where Spark runs; by default what ``spark-submit`` says, else ``local[*]``.
        record: Cut each document into messages at this element.
        include: A pattern such as ``*.xml`` that names of files in folders and archives must match.
        nodes: Count the nodes that each subscription selects (takes longer).
        envelope: An element to put around each payload.
        whole: Give the message itself as payload where a query does not rewrite; else only results are in
            ``deliveries/``, and a message that many asked for is not repeated.
        namespaces: Prefixes of the subscriptions in a file, besides those they bring.
        dialect: How subscriptions in a file are read.
        limits: For messages, and for subscriptions in a file.
        on_bad_subscription: ``"fail"`` before any work begins, or ``"skip"`` and report.
        checkpoint: Where a stream remembers how far it is; by default inside the output folder.
        interval_seconds: How often a stream looks for new messages.
        files_per_batch: How many files a micro-batch of a watched folder takes at most.
        spark: A session to use, which is left running; by default that of the DataFrame, or a new one.
        reporter: Whom to tell what goes on.

    Returns:
        What was done; of a stream, by all its runs together.

    Raises:
        SourceError: There are no messages at the path.
        SubscriptionError: The subscriptions cannot be used.
        OutputError: The output folder cannot be written; nothing has been done then.
        MissingJava: There is no Java runtime that Spark can use.
        PipelineError: Spark failed.
    """
    if once and not stream:
        raise PipelineError("once goes with stream: a batch job always stops when it is done")
    telling = reporter or SilentReporter()
    population = PopulationSource(subscriptions, namespaces, dialect, limits, on_bad_subscription, envelope, whole)
    _check_messages(messages, stream=stream)
    settings = Stream(
        once,
        interval_seconds,
        nodes,
        files_per_batch,
        None if checkpoint is None else Path(checkpoint).absolute(),
    )
    reading = ReadOptions(record, include, (limits or Limits()).message_bytes_max)
    opened: StreamOutput | BatchOutput
    with (
        StreamOutput(output) if stream else BatchOutput(output) as opened,
        _session(messages, spark, master, opened.path / SPARK_LOG) as session,
        spark_errors(),
        arrow_settings(session),
    ):
        telling.say("reading the subscriptions")
        feed = PopulationFeed(session, population, telling)
        if isinstance(opened, StreamOutput):
            frame = (
                messages
                if isinstance(messages, DataFrame)
                else folder_stream(session, messages, reading, opened, settings)
            )
            return run_stream(frame, feed, opened, settings, telling)
        return _run_batch(partial(_work, session, messages, reading), feed, opened, nodes, telling)


def _run_batch(
    find: Callable[[Path], ReadPlan], feed: PopulationFeed, output: BatchOutput, nodes: bool, reporter: ProgressReporter
) -> Summary:
    """Do the work that ``find`` finds, given the staging folder."""
    began = time.monotonic()
    staging = output.new_staging()
    work = find(staging)
    snapshot = feed.snapshot
    reporter.say(f"matching against {snapshot.subscriptions:,} subscriptions")
    reports = run_job(work, snapshot, staging, nodes=nodes, listener=reporter.progress)
    reporter.finished()
    summary = Summary().plus(reports, time.monotonic() - began, snapshot.subscriptions, snapshot.refused)
    output.commit(staging, reports, summary)
    return summary


def _check_messages(messages: DataFrame | str | os.PathLike[str], *, stream: bool) -> None:
    """See that there are messages before Spark is started."""
    if isinstance(messages, DataFrame):
        if messages.isStreaming != stream:
            raise PipelineError(
                "the DataFrame of messages is a streaming one: use stream=True"
                if messages.isStreaming
                else "the DataFrame of messages is not a streaming one: use stream=False"
            )
        return
    location = os.fspath(messages)
    if stream and not Path(location).is_dir():
        raise PipelineError(f"{location} is not a folder: a stream watches a folder")
    if not is_parquet(location):
        check_readable(location)


def _work(
    spark: SparkSession, messages: DataFrame | str | os.PathLike[str], reading: ReadOptions, staging: Path
) -> ReadPlan:
    if isinstance(messages, DataFrame):
        return handed_over(check_columns(messages, "the DataFrame of messages"))
    return find_work(spark, messages, reading, staging)


@contextmanager
def _session(messages: object, spark: SparkSession | None, master: str | None, log: Path) -> Iterator[SparkSession]:
    """The session to work in; one made here is stopped afterwards."""
    supplied = messages.sparkSession if isinstance(messages, DataFrame) else spark
    if supplied is not None:
        yield supplied
        return
    created = open_session(master, log=log)
    try:
        yield created
    except PipelineError as error:
        if log.exists():
            raise PipelineError(f"{error.reason} (Spark's own account: {log})") from error
        raise
    finally:
        with suppress(*JAVA_GONE):  # it has stopped already
            created.stop()
