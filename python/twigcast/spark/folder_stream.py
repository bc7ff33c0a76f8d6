"""A watched folder as a Spark streaming source: files land exactly once, in micro-batches of bounded size.

Spark expects of a streaming source that a range of offsets always means the same data, also after a kill. So the files
of each micro-batch are logged, in order, before Spark gets its offset: offset *n* means the first *n* entries of the
log. A file is in the log at most once, so it lands exactly once.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterable, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path
from typing import IO, Final, Self

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from twigcast.errors import PipelineError
from twigcast.reading.messages import MessageFile, find_message_files
from twigcast.spark.schemas import MESSAGES_DDL
from twigcast.spark.sources.files import FileSource, plan_files
from twigcast.spark.sources.frames import TaskPartition, from_spark_options
from twigcast.spark.sources.source import Batches

FILES_PER_BATCH: Final = 20_000
BATCH_BYTES_MAX: Final = 512 << 20
"""A micro-batch takes at most this many files and, unless one file is larger, this many bytes."""

LOCK_SECONDS: Final = 60.0
"""How long to wait until a killed predecessor has exited."""


class FolderLog:
    """The log of one watched folder, open in one process at a time. A context manager.

    It is a file of JSON lines that only grows. A line that was cut off by a kill has no offset yet, and is dropped.

    Args:
        path: The log; created if it is missing.
        folder: The watched folder.
        include: A pattern that names of files must match.
        lock_seconds: How long to wait if another process has the log open.

    Raises:
        PipelineError: Another process has it open, or it belongs to another folder.
    """

    def __init__(self, path: str, folder: str, include: str | None = None, lock_seconds: float = LOCK_SECONDS) -> None:
        self._folder = str(Path(folder).absolute())
        self._include = include
        self._entries: list[list[MessageFile]] = []
        self._logged: set[str] = set()
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            self._file = undo.enter_context(Path(path).open("a+b"))
            _lock(self._file, path, lock_seconds)
            self._load(path)
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._entries)

    def files(self, start: int, end: int) -> list[MessageFile]:
        """Returns the files of entries ``start`` (from 0) up to, not including, ``end``."""
        return [file for entry in self._entries[start:end] for file in entry]

    def pending(self) -> list[MessageFile]:
        """Returns the files in the folder that are in no entry yet, in order of their names."""
        files = find_message_files([self._folder], include=self._include)
        return [file for file in files if file.path not in self._logged]

    def append(self, files: Iterable[MessageFile]) -> None:
        """Adds an entry, which is on disk when this returns."""
        entry = list(files)
        self._write([astuple(file) for file in entry])
        self._remember(entry)

    def close(self) -> None:
        """Lets another process open the log."""
        self._file.close()

    def _load(self, path: str) -> None:
        self._file.seek(0)
        lines = self._file.read().split(b"\n")
        torn = lines.pop()
        if torn:
            self._file.truncate(self._file.tell() - len(torn))
        if not lines:
            self._write({"folder": self._folder})
            return
        folder = json.loads(lines[0])["folder"]
        if folder != self._folder:
            raise PipelineError(
                f"{path} is the record of {folder}, not of {self._folder}; use another output or checkpoint"
            )
        for line in lines[1:]:
            self._remember([MessageFile(*fields) for fields in json.loads(line)])

    def _remember(self, entry: list[MessageFile]) -> None:
        self._entries.append(entry)
        self._logged.update(file.path for file in entry)

    def _write(self, value: object) -> None:
        self._file.write(json.dumps(value).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def _lock(file: IO[bytes], path: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise PipelineError(f"{path} is in use by another stream") from None
            time.sleep(0.05)
        else:
            return


class FolderReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of the entries of a :class:`FolderLog`, one per micro-batch.

    The offset ``{"entries": n}`` means the first ``n`` of them. Spark creates one reader on the driver, which keeps
    the log, and copies for the tasks, which only read.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._source = FileSource(*from_spark_options(options))
        self._log_path = options["log"]
        self._files_max = int(options.get("batchFilesMax", options.get("batchfilesmax", FILES_PER_BATCH)))
        self._log: FolderLog | None = None
        self._last_files: list[MessageFile] | None = None
        """What this run still has to take, if it stops when that is done."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_log": None, "_last_files": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Returns the offset before the first entry."""
        return {"entries": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remembers the files that are there now: later ones are left to the next run."""
        self._last_files = self._open().pending()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Returns the offset one entry further, if there is anything new."""
        log = self._open()
        if start["entries"] < len(log):  # logged, but a kill came before Spark recorded it
            return {"entries": start["entries"] + 1}
        pending = log.pending() if self._last_files is None else self._last_files
        batch = _first_files(pending, self._files_max)
        if self._last_files is not None:
            self._last_files = self._last_files[len(batch) :]
        if not batch:
            return start
        log.append(batch)
        return {"entries": len(log)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Returns the tasks of a micro-batch."""
        return [TaskPartition(task) for task in plan_files(self._open().files(start["entries"], end["entries"]))]

    def read(self, partition: InputPartition) -> Batches:
        """Yields the messages of one task as Arrow batches."""
        assert isinstance(partition, TaskPartition)
        return self._source.read(partition.task_input)

    def stop(self) -> None:
        """Closes the log."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _open(self) -> FolderLog:
        if self._log is None:
            self._log = FolderLog(self._log_path, self._source.path, self._source.options.include)
        return self._log


class FolderSource(DataSource):
    """The Spark data source ``twigcast-folder``.

    Options: ``path`` (the folder), ``log`` (file that records what was read), ``batchFilesMax``, and those of
    :class:`~twigcast.spark.sources.frames.MessageFormat`.
    """

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return "twigcast-folder"

    def schema(self) -> str:
        """Returns the columns of the messages."""
        return MESSAGES_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Returns the reader of a stream."""
        return FolderReader(dict(self.options))


def _first_files(files: Sequence[MessageFile], files_max: int) -> list[MessageFile]:
    """Returns as many files as make one micro-batch."""
    size = 0
    for count, file in enumerate(files[:files_max]):
        size += file.size
        if count and size > BATCH_BYTES_MAX:
            return list(files[:count])
    return list(files[:files_max])
