"""The source of files, folders and archives, and of the records inside them.

Tasks are planned by the size and the number of files. The plan depends on the files alone, so a job that is started
again does the same work in the same parts. What cannot be read becomes a row with a ``problem``: one bad file never
fails a job.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Final

import pyarrow as pa

from twigcast.errors import SourceError
from twigcast.reading.messages import Message, MessageFile, RejectedInput, find_message_files, read_message_file
from twigcast.spark.schemas import MESSAGES
from twigcast.spark.sources.source import BATCH_BYTES, BATCH_MESSAGES_MAX, TASKS_MAX, Batches, MessageSource, TaskInput

_TASK_BYTES_MIN: Final = 4 << 20
_TASK_FILES_MAX: Final = 2_000
"""A task reads at least this many bytes unless it has this many files."""


class FileSource(MessageSource):
    """A file, folder or archive: whatever no other source reads."""

    @classmethod
    def matches(cls, path: str) -> bool:
        """Returns ``True``: :meth:`check` says what is wrong with a path that cannot be read."""
        return True

    def check(self) -> None:
        """Raises :class:`SourceError` unless there is a file or folder that can be opened."""
        if self.path == "-":
            raise SourceError(self.path, "the pipeline reads files, folders, archives and Parquet, not standard input")
        try:
            os.stat(self.path)  # noqa: PTH116 - Path.stat would lose a trailing slash, and so the reason
            if Path(self.path).is_dir():
                with os.scandir(self.path):
                    pass
        except OSError as error:
            raise SourceError(self.path, error.strerror or str(error)) from None

    def plan(self, tasks: int) -> list[TaskInput]:
        """Spreads the files at the path over tasks, however many cores there are."""
        return plan_files(find_message_files([Path(self.path).absolute()], include=self.options.include))

    def read(self, task_input: TaskInput) -> Batches:
        """Yields the messages of the files of one task."""
        ids: list[str] = []
        bodies: list[bytes] = []
        problems: list[str | None] = []
        size = 0
        for item in self._items(MessageFile(*fields) for fields in task_input.parts):
            if ids and (size + len(item.xml) > BATCH_BYTES or len(ids) >= BATCH_MESSAGES_MAX):
                yield _batch(ids, bodies, problems)
                ids, bodies, problems, size = [], [], [], 0
            ids.append(item.id.encode("utf-8", "replace").decode())  # names of files need not be text
            bodies.append(item.xml)
            problems.append(str(item.error) if isinstance(item, RejectedInput) else None)
            size += len(item.xml)
        if ids:
            yield _batch(ids, bodies, problems)

    def _items(self, files: Iterable[MessageFile]) -> Iterator[Message | RejectedInput]:
        options = self.options
        for file in files:
            yield from read_message_file(file, record=options.record, include=options.include, limits=self.limits)


def plan_files(files: Sequence[MessageFile]) -> list[TaskInput]:
    """Returns the inputs of tasks that read these files, neighbours together."""
    bytes_max = max(_TASK_BYTES_MIN, sum(file.size for file in files) // TASKS_MAX)
    tasks: list[list[MessageFile]] = []
    size = 0
    for file in files:
        if not tasks or size + file.size > bytes_max or len(tasks[-1]) >= _TASK_FILES_MAX:
            tasks.append([])
            size = 0
        tasks[-1].append(file)
        size += file.size
    return [TaskInput(tuple(map(astuple, task))) for task in tasks]


def _batch(ids: list[str], bodies: list[bytes], problems: list[str | None]) -> pa.RecordBatch:
    columns = [pa.array(ids, pa.string()), pa.array(bodies, pa.binary()), pa.array(problems, pa.string())]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)
