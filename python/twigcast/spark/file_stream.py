"""Watched folders as a streaming source of Spark: each version of a file lands once, in bounded micro-batches."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, Literal, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from twigcast.errors import SourceError
from twigcast.reading.messages import MessageFile
from twigcast.spark.file_offsets import CheckpointOffsets, FileLog, FileOffsets, Offset
from twigcast.spark.file_watch import FILES_PER_BATCH, FileWatch
from twigcast.spark.sources.files import FileSource, is_replaced, plan_files
from twigcast.spark.sources.frames import FORMAT, TaskPartition, from_spark_options, local_path, with_columns
from twigcast.spark.sources.source import Batches

_FILES_PER_OFFSET: Final = 2_000
"""A micro-batch takes at most this many files, and this many if its offset names them."""

BATCH_BYTES_MAX: Final = 512 << 20
"""A micro-batch takes at most this many bytes, unless one file is larger."""

SETTLE_SECONDS: Final = 1.0

CleanMode = Literal["off", "archive", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStreamOptions:
    """The options of a stream of files, besides those by which messages are read."""

    log: str | None = None
    """A file that keeps what was read; ``None``: the checkpoint of the stream does."""

    files_max: int = FILES_PER_BATCH
    """Files of a micro-batch, at most."""

    bytes_max: int = BATCH_BYTES_MAX
    """Bytes of a micro-batch, at most, unless one file is larger."""

    settle_seconds: float = SETTLE_SECONDS
    """How long a file must have been left alone before it is read."""

    clean: CleanMode = "off"
    """What becomes of files whose micro-batch has been written."""

    archive: str | None = None
    """The folder that they are moved to."""

    @classmethod
    def of_spark(cls, options: Mapping[str, str]) -> "FileStreamOptions":
        """Returns what options of a data source stand for, whose names are in any case.

        Raises:
            SourceError: An option has a value that it cannot have.
        """
        lowered = {name.lower(): value for name, value in options.items()}
        log = lowered.get("log")
        clean = lowered.get("cleansource", "off").lower()
        if clean not in ("off", "archive", "delete"):
            raise SourceError(FORMAT, f"cleanSource must be off, archive or delete, not {clean!r}")
        archive = lowered.get("sourcearchivedir")
        if (clean == "archive") != (archive is not None):
            raise SourceError(FORMAT, "cleanSource=archive and sourceArchiveDir=FOLDER belong together")
        files_max = _number(lowered, "maxFilesPerTrigger", FILES_PER_BATCH if log else _FILES_PER_OFFSET)
        return cls(
            log=log,
            files_max=max(1, int(files_max)),
            bytes_max=int(_number(lowered, "maxBytesPerTrigger", BATCH_BYTES_MAX)),
            settle_seconds=_number(lowered, "settleSeconds", SETTLE_SECONDS),
            clean=cast("CleanMode", clean),
            archive=archive,
        )


STREAM_OPTIONS: Final = frozenset(
    {"log", "maxfilespertrigger", "maxbytespertrigger", "settleseconds", "cleansource", "sourcearchivedir"}
)
"""In lower case."""


def _number(lowered: Mapping[str, str], name: str, default: float) -> float:
    text = lowered.get(name.lower())
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise SourceError(FORMAT, f"{name} must be a number, not {text!r}")
    return number


class FileStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader of the files that come into some folders.

    Spark creates one reader on the driver, which watches the folders, and copies for the tasks, which only read.

    Raises:
        SourceError: A path or an option cannot be used.
    """

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        paths, read, limits = from_spark_options(options, further=STREAM_OPTIONS)
        self._options = FileStreamOptions.of_spark(options)
        self._paths = [str(Path(local_path(path)).absolute()) for path in paths]
        self._columns = columns
        self._source = FileSource(self._paths[0], read, limits)
        self._source.has_places = "_metadata" in columns
        self._offsets: FileOffsets | None = None
        self._watch: FileWatch | None = None
        self._waiting: dict[str, MessageFile] = {}
        """By path: versions that no micro-batch has yet."""

        self._is_watching = True
        """Whether new files are looked for; a run that stops does so once."""

        self._at: Offset | None = None
        """The last offset that Spark was given, or came with."""

        self._offered: tuple[Offset, Offset] | None = None
        self._cleaned: Offset | None = None
        self._check()

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_offsets": None, "_watch": None, "_waiting": {}}

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Returns the offset before the first file."""
        return self._open()[0].initial()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Notes the files that exist now: the next run processes later ones."""
        watch = self._open()[1]
        self._waiting.update((file.path, file) for file in watch.wait())
        self._is_watching = False
        self._at = None

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        """Returns the next offset, if there are new files."""
        offsets, watch = self._open()
        self._clean(start)
        if self._offered is not None and self._offered[0] == start:
            return self._offered[1]
        found: list[MessageFile] = []
        if start != self._at:
            self._at = start
            following = offsets.begin(start)
            if following is not None:
                return self._offer(start, following)
            found = list(self._waiting.values())
            self._waiting = {}
        if self._is_watching:
            found += watch.poll()
        self._waiting.update((file.path, file) for file in found if not offsets.has_read(file))
        while self._waiting:
            batch = first_files(self._waiting, self._options.files_max, self._options.bytes_max)
            for file in batch:
                del self._waiting[file.path]
            if there := [file for file in batch if file.path in watch]:
                return self._offer(start, offsets.advance(there))
        return start

    def _offer(self, start: Offset, end: Offset) -> Offset:
        self._offered = (start, end)
        self._at = end
        return end

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Returns the tasks of a micro-batch."""
        files = self._open()[0].files(start, end)
        return [TaskPartition(0, task) for task in plan_files(files, self._source.options, self._source.limits)]

    def read(self, partition: InputPartition) -> Batches:
        """Yields the messages of one task as Arrow batches."""
        assert isinstance(partition, TaskPartition)
        for batch in self._source.read_versions(partition.task_input):
            yield with_columns(batch, self._columns)

    def commit(self, end: Offset) -> None:
        """Moves away or deletes the files of a micro-batch that has been written, if that is wanted."""
        self._clean(end)

    def stop(self) -> None:
        """Lets other processes go on with the log."""
        if self._offsets is not None:
            self._offsets.close()
            self._offsets = None

    def _open(self) -> tuple[FileOffsets, FileWatch]:
        if self._watch is None:
            self._watch = FileWatch(self._paths, self._source.options.include, self._options.settle_seconds)
        if self._offsets is None:
            log = self._options.log
            self._offsets = CheckpointOffsets(self._watch.__contains__) if log is None else FileLog(log, self._paths)
        return self._offsets, self._watch

    def _check(self) -> None:
        """Raises :class:`SourceError` if files would be moved to where they are found again."""
        if self._options.archive is None:
            return
        archive = Path(self._options.archive).absolute()
        for path in self._paths:
            if archive.is_relative_to(path) and not any(
                part.startswith((".", "_")) for part in archive.relative_to(path).parts
            ):
                raise SourceError(
                    str(archive),
                    f"it lies in {path}, where what is moved to it is read again: begin its name with _",
                )

    def _clean(self, end: Offset) -> None:
        """Does with the files of a micro-batch that has been written what the options say, once."""
        if self._options.clean == "off" or end == self._cleaned:
            return
        offsets = self._open()[0]
        files = [file for file in offsets.last_files(end) if not is_replaced(file)]
        for file in files:
            try:
                if self._options.archive is None:
                    Path(file.path).unlink(missing_ok=True)
                else:
                    _move(file, Path(self._options.archive))
            except FileNotFoundError:
                continue  # somebody else has removed it, or a run before a kill
            except OSError as error:
                raise SourceError(
                    file.path, f"it has been read, and cannot be removed: {error.strerror or error}"
                ) from None
        offsets.forget(files)
        self._cleaned = end


def _move(file: MessageFile, archive: Path) -> None:
    """Moves a file to the place in an archive folder that its path names."""
    target = archive.absolute() / Path(file.path).relative_to("/")
    if target.exists():  # an earlier version
        target = target.with_name(f"{target.name}.{file.changed}")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(file.path, os.fspath(target))


def first_files(waiting: Mapping[str, MessageFile], files_max: int, bytes_max: int) -> list[MessageFile]:
    """Returns as many files as make one micro-batch."""
    files: list[MessageFile] = []
    size = 0
    for file in islice(waiting.values(), files_max):
        size += file.size
        if files and size > bytes_max:
            break
        files.append(file)
    return files
