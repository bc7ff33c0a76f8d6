"""A watched folder as a Spark streaming source: files land exactly once, in micro-batches of bounded size."""

from collections.abc import MutableMapping, Sequence
from typing import Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from twigcast.reading.messages import MessageFile
from twigcast.spark.folder_log import FolderLog
from twigcast.spark.schemas import MESSAGES_DDL
from twigcast.spark.sources.files import FileSource, plan_files
from twigcast.spark.sources.frames import TaskPartition, from_spark_options
from twigcast.spark.sources.source import Batches

FILES_PER_BATCH: Final = 20_000
BATCH_BYTES_MAX: Final = 512 << 20
"""A micro-batch takes at most this many files and, unless one file is larger, this many bytes."""


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
