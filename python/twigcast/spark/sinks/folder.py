"""The sink of Parquet files in a folder.

::

    OUTPUT/matches/  deliveries/  rejected/    Parquet
    OUTPUT/summary.json                        written last
    OUTPUT/_twigcast.json                      marks the folder as output of a pipeline, and is locked by its writer
    OUTPUT/_staging/                           what tasks write before it is committed
    OUTPUT/_commits/                           of a stream: what each micro-batch added
    OUTPUT/_checkpoint/                        of a stream: its progress

Answers are written by the Python worker that has them, not sent back through the JVM: with 200 matches a message that
is four times faster. A task names its files after its partition and attempt; only reported files are ever committed.

A batch job replaces the three folders as a whole. A micro-batch is committed by recording, in one atomic step, which
staged files become which final ones; the renames follow, and the next process to open the folder finishes them. A
recorded micro-batch is never run again, so its results land exactly once.
"""

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from twigcast.errors import OutputError, PipelineError
from twigcast.spark.matching import BatchAnswer
from twigcast.spark.schemas import KINDS
from twigcast.spark.sinks.sink import Mode, Sink
from twigcast.spark.summary import Summary, TaskReport

_MARKER: Final = "_twigcast.json"
_SUMMARY: Final = "summary.json"
_STAGING: Final = "_staging"
_COMMITS: Final = "_commits"
_COMMITS_KEPT: Final = 100
"""Records of older micro-batches are dropped: Spark never runs those again."""

_COMPRESSION: Final = "zstd"
_COMPRESSION_LEVEL: Final = 1
_ROWS_MAX: Final = 1 << 18
_BYTES_MAX: Final = 32 << 20
"""A row group is written once it has this many rows or bytes."""


class FolderSink(Sink):
    """A folder on a file system that driver and executors share; created if it is missing."""

    def __init__(self, path: str | os.PathLike[str], mode: Mode) -> None:
        self.folder = Path(path).absolute()
        with ExitStack() as undo:
            try:
                self._marker = undo.enter_context(self._lock(mode))
                if mode == "stream":
                    self._recover()
                shutil.rmtree(self.folder / _STAGING, ignore_errors=True)
            except OSError as error:
                raise OutputError(os.fspath(path), error.strerror or str(error)) from None
            undo.pop_all()

    @classmethod
    def matches(cls, path: str) -> bool:
        """Returns whether the path is no URI."""
        return "://" not in path

    def close(self) -> None:
        """Lets other pipelines write to the folder."""
        self._marker.close()

    def new_staging(self) -> Path:
        """Creates an empty folder for the files of one job."""
        staging = self.folder / _STAGING / uuid.uuid4().hex
        staging.mkdir(parents=True)
        return staging

    @staticmethod
    def open_writer(staging: str, partition: int, attempt: int) -> "FolderWriter":
        """Opens the writer of a task."""
        return FolderWriter(Path(staging), partition, attempt)

    def replace(self, staging: Path, reports: Sequence[TaskReport], summary: Summary) -> None:
        """Replaces the three folders and the summary."""
        final = staging / "final"
        for kind in KINDS:
            (final / kind).mkdir(parents=True)
            for report in _with_rows(reports, kind):
                _staged(staging, kind, report).rename(final / kind / f"part-{report.partition:05d}.parquet")
            if not any((final / kind).iterdir()):
                _write_empty(final / kind / "part-00000.parquet", kind)
        _write_atomically(final / _SUMMARY, summary.as_dict())
        # Without a summary the output counts as incomplete, so it is removed first and renamed last.
        (self.folder / _SUMMARY).unlink(missing_ok=True)
        for kind in KINDS:
            shutil.rmtree(self.folder / kind, ignore_errors=True)
            (final / kind).rename(self.folder / kind)
        (final / _SUMMARY).rename(self.folder / _SUMMARY)
        shutil.rmtree(self.folder / _STAGING, ignore_errors=True)

    def append(self, batch: int, stream: str, staging: Path, reports: Sequence[TaskReport], totals: Summary) -> None:
        """Adds the files of a micro-batch."""
        moves = [
            [
                str(_staged(staging, kind, report).relative_to(self.folder)),
                f"{kind}/part-{batch:010d}-{report.partition:05d}.parquet",
            ]
            for kind in KINDS
            for report in _with_rows(reports, kind)
        ]
        record = {"batch": batch, "stream": stream, "moves": moves, "totals": totals.as_dict()}
        self._record(batch).parent.mkdir(exist_ok=True)
        _write_atomically(self._record(batch), record)  # the micro-batch is committed from here on
        self._finish(record)
        shutil.rmtree(staging, ignore_errors=True)
        self._record(batch - _COMMITS_KEPT).unlink(missing_ok=True)

    def is_committed(self, batch: int) -> bool:
        """Returns whether a micro-batch is recorded."""
        return self._record(batch).exists()

    def totals(self) -> Summary:
        """Returns the totals of the last record."""
        last = self._last_record()
        return Summary() if last is None else Summary(**last["totals"])  # type: ignore[arg-type]

    def check_stream(self, stream: str | None) -> None:
        """Raises :class:`OutputError` if the last record is of another stream."""
        last = self._last_record()
        if last is not None and last["stream"] != stream:
            raise OutputError(
                str(self.folder),
                "the folder holds the results of another stream, or the checkpoint of this one was removed; "
                "choose another one",
            )

    def write_summary(self, summary: Summary) -> None:
        """Writes ``summary.json``."""
        _write_atomically(self.folder / _SUMMARY, summary.as_dict())

    def _lock(self, mode: Mode) -> IO[str]:
        self.folder.mkdir(parents=True, exist_ok=True)
        marker = self.folder / _MARKER
        if not marker.exists() and any(self.folder.iterdir()):
            raise OutputError(
                str(self.folder), "the folder is not empty, and what is in it was not written by twigcast pipeline"
            )
        file = marker.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise OutputError(str(self.folder), "another pipeline is writing to this folder") from None
        file.seek(0)
        written = file.read()
        if not written.endswith("\n"):  # new, or cut off by a kill
            file.truncate(0)
            file.write(json.dumps({"mode": mode}) + "\n")
            file.flush()
        elif (mode_before := json.loads(written)["mode"]) != mode:
            file.close()
            raise OutputError(
                str(self.folder), f"the folder holds the results of a {mode_before} pipeline; choose another one"
            )
        return file

    def _recover(self) -> None:
        """Finishes what a killed stream had begun to commit, and makes each table readable."""
        last = self._last_record()
        if last is not None:
            self._finish(last)
        for kind in KINDS:
            folder = self.folder / kind
            if not folder.is_dir():
                _write_empty(folder / "part-none.parquet", kind)

    def _finish(self, record: Mapping[str, object]) -> None:
        """Does the renames of a record that have not happened yet."""
        moves = record["moves"]
        assert isinstance(moves, list)
        for staged, final in moves:
            source, target = self.folder / staged, self.folder / final
            target.parent.mkdir(exist_ok=True)
            if source.exists():
                source.rename(target)
        self.write_summary(Summary(**record["totals"]))  # type: ignore[arg-type]

    def _record(self, batch: int) -> Path:
        return self.folder / _COMMITS / f"{batch:010d}.json"

    def _last_record(self) -> Mapping[str, object] | None:
        records = sorted((self.folder / _COMMITS).glob("*.json"))
        if not records:
            return None
        record: Mapping[str, object] = json.loads(records[-1].read_text(encoding="utf-8"))
        return record


class FolderWriter:
    """A writer of the matches, deliveries and rejected messages of one task."""

    def __init__(self, staging: Path, partition: int, attempt: int) -> None:
        self._tables = {
            kind: _TableWriter(staged_path(staging, kind, partition, attempt), schema) for kind, schema in KINDS.items()
        }

    def write(self, answer: BatchAnswer) -> None:
        """Adds an answer."""
        for batch in answer.matches():
            self._tables["matches"].write(batch)
        self._tables["deliveries"].write(answer.deliveries())
        if answer.rejections:
            self._tables["rejected"].write(answer.rejected())

    def close(self) -> dict[str, int]:
        """Finishes the files and returns the number of rows of each kind."""
        return {kind: table.close() for kind, table in self._tables.items()}


class _TableWriter:
    """A writer of rows to one Parquet file, which is created with the first row."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= _ROWS_MAX or self._waiting_bytes >= _BYTES_MAX:
            self._flush()

    def close(self) -> int:
        """Finishes the file and returns the number of its rows."""
        if self._waiting:
            self._flush()
        if self._writer is not None:
            self._writer.close()
        return self._rows

    def _flush(self) -> None:
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(
                self._path, self._schema, compression=_COMPRESSION, compression_level=_COMPRESSION_LEVEL
            )
        self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._rows += self._waiting_rows
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


def staged_path(staging: Path, kind: str, partition: int, attempt: int) -> Path:
    """Returns the path of the file that an attempt of a task writes rows of a kind to."""
    return staging / kind / f"part-{partition:05d}.{attempt}.parquet"


def _with_rows(reports: Iterable[TaskReport], kind: str) -> list[TaskReport]:
    return sorted((report for report in reports if report.rows(kind)), key=lambda report: report.partition)


def _staged(staging: Path, kind: str, report: TaskReport) -> Path:
    path = staged_path(staging, kind, report.partition, report.attempt)
    if not path.is_file():
        raise PipelineError(
            f"a task reports that it wrote {path}, but the driver does not find it: "
            "the output must lie on a file system that driver and executors share"
        )
    return path


def _write_empty(path: Path, kind: str) -> None:
    """Writes a file of no rows, so that the folder can be read as a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(KINDS[kind].empty_table(), path, compression=_COMPRESSION)


def _write_atomically(path: Path, value: Mapping[str, object]) -> None:
    """Writes JSON so that readers see all of it or nothing, also after a power failure."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
