"""The record of which files of a watched folder belong to which micro-batch.

Spark expects of a streaming source that a range of offsets always means the same data, also after a kill. So the files
of each micro-batch are logged, in order, before Spark gets its offset: offset *n* means the first *n* entries of this
log. A file is in the log at most once, so it lands exactly once.

The log is one file of JSON lines that only grows. A line that was cut off by a kill has no offset yet, and is dropped.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path
from typing import IO, Final, Self

from twigcast.errors import PipelineError
from twigcast.reading.messages import MessageFile, find_message_files

LOCK_SECONDS: Final = 60.0
"""How long to wait until a killed predecessor has exited."""


class FolderLog:
    """The log of one watched folder, open in one process at a time. A context manager.

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
