"""The sink ``twigcast`` of Spark: a DataFrame of messages, or a stream of them, is matched and written in one pass.

``df.write.format("twigcast")`` and ``df.writeStream.format("twigcast")`` write to a folder::

    OUTPUT/matches/run=RUN/batch=NUMBER/[day=DAY/]part-00000.parquet
    OUTPUT/deliveries/ and OUTPUT/rejected/ likewise
    OUTPUT/summary.json               numbers of the last run, and its last micro-batch
    OUTPUT/_twigcast.json             marks the folder as output of this sink
    OUTPUT/_commits/, OUTPUT/_snapshots/, OUTPUT/_staging/

A run is a batch job, or a stream with all its starts. Tasks write files to the staging folder, and put them on disk.
The driver gets their names, and commits by the steps of :mod:`twigcast.spark.folder_commits`. So a reader of a table
sees a micro-batch as a whole or not at all. ``summary.json`` is written last: micro-batches up to its ``batch`` are in
all three tables.

Spark makes a new process for each commit, so nothing is kept but in the folder. It hands tasks the writer, and so the
name of the snapshot of the subscriptions, which lies in the folder too: there is no need for Spark's files.
"""

import datetime as dt
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from twigcast.errors import OutputError, PipelineError, SourceError, SubscriptionFileError
from twigcast.limits import Limits
from twigcast.registration import Dialect
from twigcast.spark.folder_commits import Move, claim, finish_moves, read_record, sync_tree, write_atomically
from twigcast.spark.matching import BatchMatcher, MessageColumns, repair_count
from twigcast.spark.population import OnBad, PopulationInput
from twigcast.spark.schemas import KINDS
from twigcast.spark.sinks.folder import FolderWriter, missing_file, write_empty
from twigcast.spark.snapshots import Snapshot, load_session, save_snapshot
from twigcast.spark.sources.frames import FORMAT, local_path
from twigcast.spark.sources.source import Batches
from twigcast.spark.summary import Summary, TaskReport

_MARKER: Final = "_twigcast.json"
_MODE: Final = "format"
_STREAM: Final = "sql.streaming.queryId"
"""The property by which tasks of a stream know its identity."""

_SNAPSHOTS_KEPT: Final = 4
"""Tasks of an earlier micro-batch may still use one before the newest."""

_STALE_SECONDS: Final = 86_400
"""What was staged so long ago is from a job that was killed."""

_NO_DAY: Final = "__HIVE_DEFAULT_PARTITION__"
"""The day of messages without a time, as Spark calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """The options of the sink."""

    path: Path
    subscriptions: str
    dialect: Dialect = "xpath"
    on_bad: OnBad = "fail"
    nodes: bool = False
    whole: bool = False
    columns: MessageColumns = field(default_factory=MessageColumns)

    by_day: bool = False
    """Whether each day has a folder of its own."""

    by_key: bool = False
    """Whether the rows of a file are in the order of their keys."""

    event_time: str | None = None
    """The column that tells the day of a message; ``None``: the day is that of its processing."""

    @classmethod
    def of_spark(cls, options: Mapping[str, str], schema: StructType) -> "AnswerOptions":
        """Returns what options of a data source stand for, whose names are in any case.

        Raises:
            OutputError: Something is missing, or has a value that it cannot have.
        """
        lowered = {name.lower(): value for name, value in options.items()}
        unknown = sorted(set(lowered) - _OPTIONS)
        path = local_path(lowered.get("path", ""))
        if not path or "://" in path:
            raise OutputError(path or FORMAT, "name a folder that driver and executors see: save(FOLDER)")
        if unknown:
            raise OutputError(path, f"there is no option {unknown[0]}; the options are {', '.join(sorted(_OPTIONS))}")
        if "subscriptions" not in lowered:
            raise OutputError(path, "say where the subscriptions are: option('subscriptions', FILE)")
        for name, values in (("dialect", ("xpath", "xquery")), ("onbadsubscription", ("fail", "skip"))):
            if lowered.get(name, values[0]) not in values:
                raise OutputError(path, f"{name} must be {' or '.join(values)}, not {lowered[name]!r}")
        if lowered.get("partition", "none") not in ("none", "day"):
            raise OutputError(path, f"partition must be day or none, not {lowered['partition']!r}")
        columns = MessageColumns(
            lowered.get("messageid", "message_id"), lowered.get("xml", "xml"), lowered.get("problem", "problem")
        )
        event_time = lowered.get("eventtime")
        for column in (columns.message_id, columns.xml, *([] if event_time is None else [event_time])):
            if column not in schema.fieldNames():
                found = ", ".join(schema.fieldNames())
                raise SourceError("the DataFrame of messages", f"there is no column {column}; the columns are {found}")
        return cls(
            path=Path(path).absolute(),
            subscriptions=lowered["subscriptions"],
            dialect=cast("Dialect", lowered.get("dialect", "xpath")),
            on_bad=cast("OnBad", lowered.get("onbadsubscription", "fail")),
            nodes=lowered.get("nodes", "false").lower() == "true",
            whole=lowered.get("whole", "false").lower() == "true",
            columns=columns,
            by_day=lowered.get("partition") == "day",
            by_key=lowered.get("sortbykey", "false").lower() == "true",
            event_time=event_time,
        )


_OPTIONS: Final = frozenset(
    {"path", "subscriptions", "dialect", "onbadsubscription", "nodes", "whole", "messageid", "xml", "problem"}
    | {"partition", "eventtime", "sortbykey", "checkpointlocation"}
)
"""In lower case."""


@dataclass
class StagedAnswers(WriterCommitMessage):
    """The files that a task has written, and its numbers."""

    report: TaskReport
    files: list[tuple[str, str, str]]
    """Kind, folder of the day (or nothing) and path of each file."""

    stream: str | None
    """The stream that the task belongs to."""


class AnswerFolder:
    """The folder that the sink writes to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Keeps other writers out for a moment, and finishes what a killed one had begun."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            marker = self.path / _MARKER
            if not marker.exists() and not all(entry.name.startswith("_checkpoint") for entry in self.path.iterdir()):
                reason = "the folder is not empty, and what is in it was not written by twigcast"
                raise OutputError(str(self.path), reason)
            with marker.open("a+", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                claim(file, _MODE)
                self._finish()
                self._make_readable()
                yield
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from None

    def _make_readable(self) -> None:
        """Makes each table readable before its first row, and removes what jobs that were killed have staged."""
        for kind in KINDS:
            if not (self.path / kind).exists():
                write_empty(self.path / kind / "part-none.parquet", kind)
        for staging in (self.path / "_staging").glob("*"):
            if time.time() - staging.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(staging, ignore_errors=True)

    def last_batch(self, run: str) -> int:
        """Returns the number of the last micro-batch of a run that is in the folder, -1 before the first."""
        record = self._record(run)
        return int(read_record(record)["batch"]) if record.exists() else -1

    def commit(
        self,
        staging: Path,
        run: str,
        batch: int,
        messages: Sequence[StagedAnswers],
        subscriptions: int,
        *,
        overwrite: bool = False,
    ) -> None:
        """Adds what tasks have written, or puts it in the place of all that there is."""
        staging.mkdir(parents=True, exist_ok=True)
        moves = self._prepare(staging, run, batch, messages, overwrite=overwrite)
        before = Summary()
        if not overwrite and self._record(run).exists():
            before = Summary(**read_record(self._record(run))["totals"])
        totals = before.plus((message.report for message in messages), 0.0, subscriptions, 0)
        record = {"run": run, "batch": batch, "moves": moves, "totals": totals.as_dict(), "is_open": True}
        self._record(run).parent.mkdir(exist_ok=True)
        write_atomically(self._record(run), record)  # it is committed from here on
        self._finish()
        shutil.rmtree(staging, ignore_errors=True)

    def _prepare(
        self, staging: Path, run: str, batch: int, messages: Sequence[StagedAnswers], *, overwrite: bool
    ) -> list[Move]:
        """Puts the files of all tasks where one move brings them to their table."""
        moves = []
        for kind in reversed(KINDS):  # matches come last: who has seen them finds the others
            final = staging / "final" / kind
            place = final / f"run={run}" / f"batch={batch}" if overwrite else final
            files = [(day, Path(path)) for message in messages for of, day, path in message.files if of == kind]
            for number, (day, path) in enumerate(files):
                (place / day).mkdir(parents=True, exist_ok=True)
                try:
                    path.rename(place / day / f"part-{number:05d}.parquet")
                except FileNotFoundError:
                    raise missing_file(path) from None
            if not files and overwrite:
                write_empty(final / "part-none.parquet", kind)
            if final.exists():
                target = kind if overwrite else f"{kind}/run={run}/batch={batch}"
                moves.append((str(final.relative_to(self.path)), target))
        sync_tree(staging)
        return moves

    def _record(self, run: str) -> Path:
        return self.path / "_commits" / f"{run}.json"

    def _finish(self) -> None:
        """Finishes the commits that have been recorded, and writes the summary of the last one."""
        for path in sorted((self.path / "_commits").glob("*.json")):
            record = read_record(path)
            if not record["is_open"]:
                continue
            finish_moves(self.path, record["moves"])
            summary = {**record["totals"], "run": record["run"], "batch": record["batch"]}
            write_atomically(self.path / "summary.json", summary)
            write_atomically(path, {**record, "moves": [], "is_open": False})


def _state_of(path: str) -> list[object]:
    """Returns what changes with a file."""
    try:
        info = os.stat(path)  # noqa: PTH116 - one call
    except OSError as error:
        raise SubscriptionFileError(path, None, error.strerror or str(error)) from None
    return [path, info.st_size, info.st_mtime_ns, info.st_ino]


class FrameWriter:
    """A writer of the answers of a DataFrame: what batch jobs and streams share. Spark pickles it for each task."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options = AnswerOptions.of_spark(options, schema)
        self.folder = AnswerFolder(self.options.path)
        self.run = uuid.uuid4().hex
        self.staging = self.options.path / "_staging" / self.run
        with self.folder.opened():
            self.snapshot = self._snapshot()

    def _snapshot(self) -> Snapshot:
        """Returns the snapshot of the subscriptions as they are now, in the folder; they are loaded if they changed."""
        given = self.options
        folder = given.path / "_snapshots"
        newest = folder / "newest.json"
        state = _state_of(given.subscriptions)
        if newest.exists() and (known := read_record(newest))["state"] == [*state, given.on_bad, given.dialect]:
            path = folder / known["file"]
            if path.exists():
                return Snapshot(known["version"], str(path), known["subscriptions"], Limits(), 0, None, given.whole)
        population = PopulationInput(given.subscriptions, dialect=given.dialect, on_bad=given.on_bad)
        loaded = population.load()
        folder.mkdir(exist_ok=True)
        snapshot = save_snapshot(loaded.subscriptions, folder, len(loaded.refused), whole=given.whole)
        saved = sorted(folder.glob("*.snapshot"), key=lambda path: path.stat().st_mtime_ns)
        for path in saved[:-_SNAPSHOTS_KEPT]:
            path.unlink()
        record = {
            "state": [*state, given.on_bad, given.dialect],
            "file": Path(snapshot.file_name).name,
            "version": snapshot.version,
            "subscriptions": snapshot.subscriptions,
        }
        write_atomically(newest, record)
        return snapshot

    def write_task(self, batches: Batches) -> StagedAnswers:
        """Matches the messages of a task and stages the answers."""
        context = TaskContext.get()
        assert context is not None
        partition, attempt = context.partitionId(), context.taskAttemptId()
        given = self.options
        matcher = BatchMatcher(load_session(self.snapshot), nodes=given.nodes, whole=given.whole)
        writers: dict[str, FolderWriter] = {}
        messages = size = repairs = 0
        for batch in batches:
            for day, part in self._by_day(batch):
                if day not in writers:
                    writers[day] = FolderWriter(self.staging / f"tasks/{day}", partition, attempt, by_key=given.by_key)
                for answer in matcher.answers(part, given.columns):
                    writers[day].write(answer)
            messages += batch.num_rows
            size += pc.sum(pc.binary_length(batch.column(given.columns.xml))).as_py() or 0
            repairs += repair_count(batch)
        rows = dict.fromkeys(KINDS, 0)
        files = []
        for day, writer in writers.items():
            for kind, count in writer.close().items():
                rows[kind] += count
            files += [(kind, day, str(path)) for kind, path in writer.paths().items()]
        report = TaskReport(partition, attempt, messages, **rows, bytes=size, repairs=repairs)
        return StagedAnswers(report, files, context.getLocalProperty(_STREAM))

    def _by_day(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yields the folder of each day, and its messages."""
        given = self.options
        if not given.by_day:
            yield "", batch
        elif given.event_time is None:
            yield f"day={dt.datetime.now(dt.UTC).date()}", batch
        else:
            days = pc.cast(pc.cast(batch.column(given.event_time), pa.date32()), pa.string())
            for day in days.unique().to_pylist():
                mask = pc.is_null(days) if day is None else pc.equal(days, day)
                yield f"day={day or _NO_DAY}", batch.filter(mask)

    def discard(self) -> None:
        """Removes what tasks have staged."""
        shutil.rmtree(self.staging, ignore_errors=True)


class AnswerBatchWriter(FrameWriter, DataSourceArrowWriter):
    """The writer of a batch job."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema)
        self.overwrite = overwrite

    def write(self, iterator: Batches) -> WriterCommitMessage:
        """Matches the messages of a task."""
        return self.write_task(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Adds the answers to the folder, or puts them in the place of those before."""
        with self.folder.opened():
            self.folder.commit(
                self.staging, self.run, 0, _staged(messages), self.snapshot.subscriptions, overwrite=self.overwrite
            )

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Removes what was staged."""
        self.discard()


class AnswerStreamWriter(FrameWriter, DataSourceStreamArrowWriter):
    """The writer of a stream."""

    def write(self, iterator: Batches) -> WriterCommitMessage:
        """Matches the messages of a task."""
        return self.write_task(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Adds the answers of a micro-batch to the folder, unless they are there already."""
        staged = _staged(messages)
        if not staged:
            return
        stream = staged[0].stream
        if stream is None:
            raise PipelineError("Spark does not say which stream a task belongs to: the property sql.streaming.queryId")
        with self.folder.opened():
            if batchId > self.folder.last_batch(stream):
                staging = self.staging / f"batch-{batchId}"
                self.folder.commit(staging, stream, batchId, staged, self.snapshot.subscriptions)
        shutil.rmtree(self.staging / "tasks", ignore_errors=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Removes what was staged."""
        self.discard()


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedAnswers]:
    return [message for message in messages if isinstance(message, StagedAnswers)]
