"""A watched folder as a Spark streaming source: files land exactly once, in micro-batches of bounded size."""

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from twigcast.reading.messages import MessageFile
from twigcast.spark.folder_log import FolderLog
from twigcast.spark.schemas import MESSAGES_DDL
from twigcast.spark.sources import ReadOptions, SourcesPartition, plan_partitions, read_batches

FORMAT: Final = "twigcast-folder"
"""Name of the data source."""

BATCH_FILES_MAX: Final = 20_000
BATCH_BYTES_MAX: Final = 512 << 20
"""A micro-batch takes at most this many files and, unless one file is larger, this many bytes."""


class FolderReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Hands out the entries of a :class:`FolderLog`, one per micro-batch.

    The offset ``{"entries": n}`` means the first ``n`` of them. Spark makes one of these on the driver, which keeps
    the log, and copies for the tasks, which only read.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._reading = ReadOptions.of(options)
        self._path = options["path"]
        self._log_path = options["log"]
        self._batch_files_max = int(options.get("batchFilesMax", options.get("batchfilesmax", BATCH_FILES_MAX)))
        self._log: FolderLog | None = None
        self._last_call: list[MessageFile] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_log": None, "_last_call": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Nothing read yet."""
        return {"entries": 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Remember what is there now: later files are left to the next run."""
        self._last_call = self._open().pending()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        """One entry further, if there is anything new."""
        log = self._open()
        if start["entries"] < len(log):  # written down, but not yet known to Spark when it was killed
            return {"entries": start["entries"] + 1}
        pending = log.pending() if self._last_call is None else self._last_call
        batch = _first_of(pending, self._batch_files_max)
        if self._last_call is not None:
            self._last_call = self._last_call[len(batch) :]
        if not batch:
            return start
        log.append(batch)
        return {"entries": len(log)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch."""
        return plan_partitions(self._open().files(start["entries"], end["entries"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of one task, as Arrow batches."""
        assert isinstance(partition, SourcesPartition)
        return read_batches(partition.sources, self._reading)

    def stop(self) -> None:
        """Let go of the log."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _open(self) -> FolderLog:
        if self._log is None:
            self._log = FolderLog(self._log_path, self._path, self._reading.include)
        return self._log


class FolderSource(DataSource):
    """Spark data source ``twigcast-folder``.

    Options: ``path`` (the folder), ``log`` (file that records what was read), ``batchFilesMax``, and those of
    :class:`~twigcast.spark.sources.MessageSource`.
    """

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Columns of the messages."""
        return MESSAGES_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Reader of a stream."""
        return FolderReader(dict(self.options))


def _first_of(sources: Sequence[MessageFile], files_max: int) -> list[MessageFile]:
    """As many as make one micro-batch."""
    size = 0
    for count, source in enumerate(sources[:files_max]):
        size += source.size
        if count and size > BATCH_BYTES_MAX:
            return list(sources[:count])
    return list(sources[:files_max])
