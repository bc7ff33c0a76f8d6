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
from twigcast.spark.direct import handed_over
from twigcast.spark.folder_stream import FORMAT, FolderSource
from twigcast.spark.jobs import run_job, spark_errors
from twigcast.spark.output import StreamOutput
from twigcast.spark.population import PopulationFeed
from twigcast.spark.progress import ProgressReporter
from twigcast.spark.sources import ReadOptions, check_columns
from twigcast.spark.summary import Summary

_FOLDER_LOG: Final = "files.jsonl"
_WAIT_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class Stream:
    """How a stream runs."""

    once: bool
    """Take what is there, then stop."""

    interval_seconds: float
    """How often to look for new messages."""

    nodes: bool
    """Count selected nodes."""

    files_per_batch: int
    """How many files a micro-batch takes at most."""

    checkpoint: Path | None
    """Where to remember how far it is; inside the output if ``None``."""

    def checkpoint_in(self, output: StreamOutput) -> Path:
        """Where to remember how far it is."""
        return output.path / "_checkpoint" if self.checkpoint is None else self.checkpoint


def folder_stream(
    spark: SparkSession,
    folder: str | os.PathLike[str],
    reading: ReadOptions,
    output: StreamOutput,
    settings: Stream,
) -> DataFrame:
    """The messages that come into a folder, as a streaming DataFrame."""
    spark.dataSource.register(FolderSource)
    stream = spark.readStream.format(FORMAT).options(**reading.options())
    stream = stream.option("batchFilesMax", settings.files_per_batch)
    stream = stream.option("log", str(settings.checkpoint_in(output) / _FOLDER_LOG))
    return stream.option("path", str(Path(folder).absolute())).load()


def run_stream(
    messages: DataFrame, feed: PopulationFeed, output: StreamOutput, settings: Stream, reporter: ProgressReporter
) -> Summary:
    """Process what comes until there is no more (``once``), a signal, or a failure. Arguments as for ``run_pipeline``.

    Returns:
        What all runs of the stream did.
    """
    checkpoint = settings.checkpoint_in(output)
    output.check_stream(_stream_id(checkpoint))
    batches = _Batches(feed, output, settings, reporter)
    writer = check_columns(messages, "the DataFrame of messages").writeStream.foreachBatch(batches.run)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if settings.once:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{max(1, round(settings.interval_seconds * 1000))} milliseconds")
    with spark_errors(), _asked_to_stop() as stopping:
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
    totals = output.totals()
    output.write_summary(totals)
    return totals


class _Batches:
    """Runs micro-batches.

    After a kill Spark may ask for one that it had asked for before.
    """

    def __init__(
        self, feed: PopulationFeed, output: StreamOutput, settings: Stream, reporter: ProgressReporter
    ) -> None:
        self._feed = feed
        self._output = output
        self._settings = settings
        self._reporter = reporter
        self.failure: TwigcastError | None = None

    def run(self, messages: DataFrame, batch: int) -> None:
        """Process one micro-batch, unless its results are in place already."""
        try:
            self._run(messages, batch)
        except TwigcastError as error:
            self.failure = error  # Spark would pass it on as text only
            raise

    def _run(self, messages: DataFrame, batch: int) -> None:
        stream = _stream_id(self._settings.checkpoint_in(self._output))
        if stream is None:
            raise PipelineError("the checkpoint has been removed while the stream was running")
        self._output.check_stream(stream)
        if self._output.is_committed(batch):
            return
        began = time.monotonic()
        snapshot = self._feed.refresh()
        staging = self._output.new_staging()
        reports = run_job(
            handed_over(messages),
            snapshot,
            staging,
            nodes=self._settings.nodes,
            listener=self._reporter.progress,
        )
        self._reporter.finished()
        seconds = time.monotonic() - began
        before = self._output.totals()
        totals = before.plus(reports, seconds, snapshot.subscriptions, snapshot.refused)
        self._output.commit(batch, staging, reports, totals, stream)
        counts = ", ".join(
            f"{getattr(totals, name) - getattr(before, name):,} {name}"
            for name in ("messages", "matches", "deliveries", "rejected")
        )
        self._reporter.say(f"batch {batch}: {counts}, {seconds:.1f} s")


def _stream_id(checkpoint: Path) -> str | None:
    """The identity that Spark gave a stream, ``None`` before its first start."""
    try:
        text = (checkpoint / "metadata").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return str(json.loads(text)["id"])


@contextmanager
def _asked_to_stop() -> Iterator[threading.Event]:
    """Set by SIGTERM and Ctrl-C: a stream then ends in order, instead of in the middle of a talk with Java."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
