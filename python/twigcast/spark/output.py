"""The output folder: staged, then committed, so that a kill at any point leaves nothing half done.

::

    OUTPUT/matches/  deliveries/  rejected/    Parquet
    OUTPUT/summary.json                        written last
    OUTPUT/_twigcast.json                      says that the folder is ours, and who writes to it now
    OUTPUT/_staging/                           what tasks write before it is committed
    OUTPUT/_commits/                           of a stream: what each micro-batch added
    OUTPUT/_checkpoint/                        of a stream: where it stands

A batch job replaces the three folders as a whole. A micro-batch is committed by writing down, in one atomic step,
which staged files become which final ones; the renames follow, and whoever comes next finishes them. A micro-batch
that is on record is never run again, so its results land exactly once.
"""

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final, Literal, Self

from twigcast.errors import OutputError, PipelineError
from twigcast.spark.parts import TaskReport, write_empty
from twigcast.spark.schemas import KINDS
from twigcast.spark.summary import Summary

MARKER: Final = "_twigcast.json"
SUMMARY: Final = "summary.json"
_STAGING: Final = "_staging"
_COMMITS: Final = "_commits"
_COMMITS_KEPT: Final = 100
"""Records of older micro-batches are dropped: Spark never runs those again."""

Mode = Literal["batch", "stream"]


class OutputFolder:
    """An output folder, open for one pipeline. A context manager: others are kept out until it is closed.

    Args:
        path: The folder; made if missing. Driver and executors must see it under this path.
        mode: Whether a batch job or a stream writes to it.

    Raises:
        OutputError: It cannot be written, is in use, or holds something else.
    """

    def __init__(self, path: str | os.PathLike[str], mode: Mode) -> None:
        location = os.fspath(path)
        if "://" in location:
            raise OutputError(location, "the output must be a folder that driver and executors see under the same path")
        self.path = Path(location).absolute()
        with ExitStack() as undo:
            try:
                self._marker = undo.enter_context(self._take(mode))
                self._recover()
                shutil.rmtree(self.path / _STAGING, ignore_errors=True)
            except OSError as error:
                raise OutputError(location, error.strerror or str(error)) from None
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._marker.close()

    def new_staging(self) -> Path:
        """A fresh folder for the files of one job."""
        staging = self.path / _STAGING / uuid.uuid4().hex
        staging.mkdir(parents=True)
        return staging

    def _take(self, mode: Mode) -> IO[str]:
        self.path.mkdir(parents=True, exist_ok=True)
        marker = self.path / MARKER
        if not marker.exists() and any(self.path.iterdir()):
            raise OutputError(
                str(self.path), "the folder is not empty, and what is in it was not written by twigcast pipeline"
            )
        file = marker.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise OutputError(str(self.path), "another pipeline is writing to this folder") from None
        file.seek(0)
        written = file.read()
        if not written.endswith("\n"):  # new, or cut off by a kill
            file.truncate(0)
            file.write(json.dumps({"mode": mode}) + "\n")
            file.flush()
        elif (result := json.loads(written)["mode"]) != mode:
            file.close()
            raise OutputError(
                str(self.path), f"the folder holds the results of a {result} pipeline; choose another one"
            )
        return file

    def _recover(self) -> None:
        """Finish what a killed predecessor had begun to commit."""


class BatchOutput(OutputFolder):
    """The output of a batch job."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "batch")

    def commit(self, staging: Path, reports: Sequence[TaskReport], summary: Summary) -> None:
        """Put the files of a job in the place of whatever was there."""
        final = staging / "final"
        for kind in KINDS:
            (final / kind).mkdir(parents=True)
            for report in _with_rows(reports, kind):
                _staged(staging, kind, report).rename(final / kind / f"part-{report.partition:05d}.parquet")
            if not any((final / kind).iterdir()):
                write_empty(final / kind / "part-00000.parquet", kind)
        _write_atomically(final / SUMMARY, summary.as_dict())
        # Without a summary the output counts as incomplete, so it goes first and comes last.
        (self.path / SUMMARY).unlink(missing_ok=True)
        for kind in KINDS:
            shutil.rmtree(self.path / kind, ignore_errors=True)
            (final / kind).rename(self.path / kind)
        (final / SUMMARY).rename(self.path / SUMMARY)
        shutil.rmtree(self.path / _STAGING, ignore_errors=True)


class StreamOutput(OutputFolder):
    """The output of a stream."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "stream")

    def _recover(self) -> None:
        last = self._last_record()
        if last is not None:
            self._finish(last)
        for kind in KINDS:
            folder = self.path / kind
            if not folder.is_dir():
                write_empty(folder / "part-none.parquet", kind)

    def is_committed(self, batch: int) -> bool:
        """Whether the results of a micro-batch are in place already."""
        return self._record(batch).exists()

    def totals(self) -> Summary:
        """What all micro-batches came to so far."""
        last = self._last_record()
        return Summary() if last is None else Summary(**last["totals"])  # type: ignore[arg-type]

    def commit(self, batch: int, staging: Path, reports: Sequence[TaskReport], totals: Summary, stream: str) -> None:
        """Add the files of a micro-batch.

        Args:
            batch: Its number.
            staging: Where its tasks wrote.
            reports: What they wrote.
            totals: All micro-batches up to this one.
            stream: Identity of the stream, so that another one cannot take its place.
        """
        moves = [
            [
                str(_staged(staging, kind, report).relative_to(self.path)),
                f"{kind}/part-{batch:010d}-{report.partition:05d}.parquet",
            ]
            for kind in KINDS
            for report in _with_rows(reports, kind)
        ]
        for staged, _ in moves:
            if not (self.path / staged).is_file():
                raise _not_shared(self.path / staged)
        record = {"batch": batch, "stream": stream, "moves": moves, "totals": totals.as_dict()}
        self._record(batch).parent.mkdir(exist_ok=True)
        _write_atomically(self._record(batch), record)  # from here on it has happened
        self._finish(record)
        shutil.rmtree(staging, ignore_errors=True)
        self._record(batch - _COMMITS_KEPT).unlink(missing_ok=True)

    def check_stream(self, stream: str | None) -> None:
        """See that this stream is the one that wrote what is here.

        Raises:
            OutputError: It is not: its checkpoint was removed or replaced, and it would start over with the numbers
            of its micro-batches.
        """
        last = self._last_record()
        if last is not None and last["stream"] != stream:
            raise OutputError(
                str(self.path),
                "the folder holds the results of another stream, or the checkpoint of this one was removed; "
                "choose another one",
            )

    def write_summary(self, summary: Summary) -> None:
        """Tell what all micro-batches came to."""
        _write_atomically(self.path / SUMMARY, summary.as_dict())

    def _finish(self, record: Mapping[str, object]) -> None:
        """Do the renames of a record that are still to do."""
        moves = record["moves"]
        assert isinstance(moves, list)
        for staged, final in moves:
            source, target = self.path / staged, self.path / final
            target.parent.mkdir(exist_ok=True)
            if source.exists():
                source.rename(target)
        self.write_summary(Summary(**record["totals"]))  # type: ignore[arg-type]

    def _record(self, batch: int) -> Path:
        return self.path / _COMMITS / f"{batch:010d}.json"

    def _last_record(self) -> Mapping[str, object] | None:
        records = sorted((self.path / _COMMITS).glob("*.json"))
        if not records:
            return None
        record: Mapping[str, object] = json.loads(records[-1].read_text(encoding="utf-8"))
        return record


def _with_rows(reports: Iterable[TaskReport], kind: str) -> list[TaskReport]:
    return sorted((report for report in reports if report.rows(kind)), key=lambda report: report.partition)


def _staged(staging: Path, kind: str, report: TaskReport) -> Path:
    path = staging / kind / report.file_name()
    if not path.is_file():
        raise _not_shared(path)
    return path


def _not_shared(path: Path) -> PipelineError:
    return PipelineError(
        f"a task reports that it wrote {path}, but the driver does not find it: "
        "the output must lie on a file system that driver and executors share"
    )


def _write_atomically(path: Path, value: Mapping[str, object]) -> None:
    """Write JSON so that others see all of it or nothing, also after a power failure."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
