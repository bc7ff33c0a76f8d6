"""One Spark job over messages: a batch job, or one micro-batch of a stream.

A task matches its messages, writes the answers to the sink, and reports what it did in one row. Nothing is shuffled.
"""

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from twigcast.errors import PipelineError
from twigcast.spark.matching import BatchMatcher, repair_count
from twigcast.spark.progress import Listener, Progress
from twigcast.spark.schemas import AnswerColumns
from twigcast.spark.session import JAVA_GONE
from twigcast.spark.sinks.sink import AnswerRows, AnswerWriter, Sink
from twigcast.spark.snapshots import Snapshot, load_session
from twigcast.spark.sources.plan import ReadPlan
from twigcast.spark.sources.source import Batches
from twigcast.spark.summary import TaskReport

_REPORT: Final = pa.schema([(field.name, pa.int64()) for field in fields(TaskReport)])
_REPORT_DDL: Final = ", ".join(f"{name} bigint" for name in _REPORT.names)
_JOINED_ROWS_MAX: Final = 1_024
_JOINED_BYTES_MAX: Final = 4 << 20
"""Messages that are matched at a time, at most, unless they arrive together."""

_POLL_SECONDS: Final = 0.2
_DONE: Final = "done"
"""In the staging folder: the name of an empty file for each task that is done, with its partition and messages."""

_EXCEPTION_LINE: Final = re.compile(r"^(?:[A-Za-z_][\w.]*)(?:Error|Exception|Limit\w*): .*$", re.MULTILINE)


def run_job(
    plan: ReadPlan, snapshot: Snapshot, sink: Sink, staging: Path, *, nodes: bool, listener: Listener | None = None
) -> list[TaskReport]:
    """Matches messages, and stages the answers in a staging folder of the sink.

    Returns the reports of the tasks, in the order of their partitions. The listener is called on a thread of its own.

    Raises:
        PipelineError: Spark or a worker failed.
    """
    noted = listener is not None
    open_writer = partial(sink.open_writer, population_version=snapshot.population_version)
    run_task = task_function(plan.read, snapshot, open_writer, str(staging), nodes=nodes, noted=noted)
    with spark_errors(), _watching(staging / _DONE, plan.tasks, listener):
        rows = plan.rows.mapInArrow(run_task, _REPORT_DDL).collect()
    return sorted((TaskReport(*row) for row in rows), key=lambda report: report.partition)


class StatefulAnswer(AnswerRows, Protocol):
    """Some messages of a stream or job that knows what came before, with the rows that a sink writes."""

    def counts(self) -> dict[str, int]:
        """Returns the numbers that are not those of rows, as a task reports them."""


AnswersOf = Callable[[pa.Array], Iterable[StatefulAnswer]]
"""Makes answers of what Spark has moved."""


def run_related_job(
    related: DataFrame, snapshot: Snapshot, sink: Sink, staging: Path, answers_of: AnswersOf, columns: AnswerColumns
) -> list[TaskReport]:
    """Stages messages that have been related to earlier ones: what :func:`run_job` does with messages.

    Raises:
        PipelineError: Spark or a worker failed.
    """
    open_writer = partial(sink.open_writer, population_version=snapshot.population_version, columns=columns)
    with spark_errors():
        rows = related.mapInArrow(related_function(open_writer, str(staging), answers_of), _REPORT_DDL).collect()
    return sorted((TaskReport(*row) for row in rows), key=lambda report: report.partition)


def related_function(
    open_writer: Callable[[str, int, int], AnswerWriter], staging: str, answers_of: AnswersOf
) -> Callable[[Batches], Batches]:
    """Returns the function for ``mapInArrow`` that writes related messages and yields its report."""

    def run_task(rows: Batches) -> Batches:
        context = TaskContext.get()
        assert context is not None
        partition, attempt = context.partitionId(), context.taskAttemptId()
        writer = open_writer(staging, partition, attempt)
        counts = Counter(messages=0, bytes=0)
        for batch in rows:
            for answer in answers_of(batch.column(0)):
                writer.write(answer)
                counts.update(answer.counts())
        report = TaskReport(partition, attempt, **counts, **writer.close())
        yield pa.RecordBatch.from_pylist([asdict(report)], _REPORT)

    return run_task


def task_function(
    read: Callable[[Batches], Batches],
    snapshot: Snapshot,
    open_writer: Callable[[str, int, int], AnswerWriter],
    staging: str,
    *,
    nodes: bool,
    noted: bool = False,
) -> Callable[[Batches], Batches]:
    """Returns the function for ``mapInArrow`` that matches the messages of a task and yields its report.

    `read` reads the messages from the rows of the task: ``message_id``, ``xml`` and perhaps ``problem``. `open_writer`
    opens the writer of the answers in the staging folder, where the end of each task is `noted` if that is wanted.
    """

    def run_task(rows: Batches) -> Batches:
        context = TaskContext.get()
        assert context is not None
        partition, attempt = context.partitionId(), context.taskAttemptId()
        matcher = BatchMatcher(load_session(snapshot), nodes=nodes, envelope=snapshot.envelope, whole=snapshot.whole)
        writer = open_writer(staging, partition, attempt)
        messages = size = repairs = 0
        for batch in join_batches(read(rows)):
            for answer in matcher.answers(batch):
                writer.write(answer)
            messages += batch.num_rows
            size += message_bytes(batch.column("xml"))
            repairs += repair_count(batch)
        report = TaskReport(partition, attempt, messages, **writer.close(), bytes=size, repairs=repairs)
        if noted:
            _note(Path(staging, _DONE), partition, messages)
        yield pa.RecordBatch.from_pylist([asdict(report)], _REPORT)

    return run_task


def join_batches(batches: Batches) -> Batches:
    """Yields the same messages in fewer batches: a batch has a fixed cost of about a hundred matched messages."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        full = rows + batch.num_rows > _JOINED_ROWS_MAX or size + batch.nbytes > _JOINED_BYTES_MAX
        if waiting and (full or batch.schema != waiting[0].schema):
            yield _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def message_bytes(xml: pa.Array) -> int:
    """Returns the bytes of the messages in a column."""
    return pc.sum(pc.binary_length(xml)).as_py() or 0


@contextmanager
def spark_errors() -> Iterator[None]:
    """Raises the errors of Spark as a :class:`PipelineError` that names the cause in one sentence."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineError(cause(str(error))) from error
    except JAVA_GONE as error:
        raise PipelineError("the Java process of Spark is gone; it may have run out of memory") from error


def cause(report: str) -> str:
    """Returns the sentence in a stack trace, Java's around Python's, that names the cause."""
    lines: list[str] = _EXCEPTION_LINE.findall(report)
    own = [line for line in lines if line.startswith("twigcast.")]
    if own:
        return own[-1].split(": ", 1)[1]
    result: list[str] = lines[-1:] or report.strip().splitlines()
    return result[0] if result else "Spark gives no reason"


def _note(done: Path, partition: int, messages: int) -> None:
    """Notes in a folder that a task is done."""
    done.mkdir(exist_ok=True)
    (done / f"{partition}.{messages}").touch()


@contextmanager
def _watching(done: Path, tasks: int, listener: Listener | None) -> Iterator[None]:
    """Reports the progress of the job that runs inside, by what its tasks note in a folder."""
    if listener is None:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_SECONDS):
            try:
                names = [name.split(".") for name in os.listdir(done)]  # noqa: PTH208 - names are enough
            except OSError:  # no task is done, or the folder cannot be used, which the tasks report
                names = []
            counts = {partition: int(messages) for partition, messages in names}
            listener(Progress(tasks, len(counts), sum(counts.values())))

    thread = threading.Thread(target=watch, name="twigcast-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
