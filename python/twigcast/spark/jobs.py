"""Running one Spark job over messages: a batch job, or one micro-batch of a stream."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException

from twigcast.errors import PipelineError
from twigcast.spark.direct import ReadPlan
from twigcast.spark.parts import REPORT_DDL, TaskReport, answer_writing
from twigcast.spark.progress import Listener, Progress
from twigcast.spark.session import JAVA_GONE
from twigcast.spark.snapshots import Snapshot

_POLL_SECONDS: Final = 0.2
_EXCEPTION_LINE = re.compile(r"^(?:[A-Za-z_][\w.]*)(?:Error|Exception|Limit\w*): .*$", re.MULTILINE)


def run_job(
    work: ReadPlan, snapshot: Snapshot, staging: Path, *, nodes: bool, listener: Listener | None = None
) -> list[TaskReport]:
    """Match messages, and write the answers to a staging folder.

    Args:
        work: The messages.
        snapshot: The subscriptions.
        staging: Where tasks write.
        nodes: Whether to count selected nodes.
        listener: Told of progress, from a thread of its own.

    Raises:
        PipelineError: Spark or a worker failed.
    """
    context = work.rows.sparkSession.sparkContext
    done = context.accumulator(0)
    write_answers = answer_writing(work.read, snapshot, str(staging), nodes=nodes, count=done.add)
    with spark_errors(), _watching(context, listener, lambda: done.value):
        rows = work.rows.mapInArrow(write_answers, REPORT_DDL).collect()
    return sorted((TaskReport(*row) for row in rows), key=lambda report: report.partition)


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn what Spark raises into our own error, with the cause in one sentence."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineError(cause(str(error))) from error
    except JAVA_GONE as error:
        raise PipelineError("the Java process of Spark is gone; it may have run out of memory") from error


def cause(report: str) -> str:
    """The sentence in a stack trace, Java's around Python's, that says what went wrong."""
    lines: list[str] = _EXCEPTION_LINE.findall(report)
    own = [line for line in lines if line.startswith("twigcast.")]
    if own:
        return own[-1].split(": ", 1)[1]
    result: list[str] = lines[-1:] or report.strip().splitlines()
    return result[0] if result else "Spark gives no reason"


@contextmanager
def _watching(context: SparkContext, listener: Listener | None, done: Callable[[], int]) -> Iterator[None]:
    """Tell of progress while a job runs."""
    if listener is None:
        yield
        return
    ended = threading.Event()
    tracker = context.statusTracker()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            try:
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            except Py4JError:  # the job is being torn down; its own thread reports why
                return
            running = [stage for stage in stages if stage is not None]
            if running:
                tasks = sum(stage.numTasks for stage in running)
                listener(Progress(tasks, sum(stage.numCompletedTasks for stage in running), done()))

    thread = threading.Thread(target=watch, name="twigcast-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
