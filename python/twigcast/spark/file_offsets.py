"""The offsets of a stream of files: which files are known, and which ones a micro-batch has.

Spark expects of a source that a range of offsets always means the same data, also after a kill. Spark keeps the offsets
in its checkpoint, and hands only the last one to a stream that starts again. There are two kinds:

- :class:`CheckpointOffsets`: an offset says all. It names the files of its micro-batch, and has a fingerprint of each
  file before them: 11 bytes a file in every offset. Nothing else has to be kept, wherever the checkpoint lies.
- :class:`FileLog`: offset *n* means the first *n* entries of a log. An offset has a few bytes, however many files were
  read before.
"""

import base64
import fcntl
import hashlib
import json
import os
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import astuple
from pathlib import Path
from typing import IO, Any, Final, Protocol

from twigcast.errors import PipelineError
from twigcast.reading.messages import MessageFile
from twigcast.spark.file_watch import FileVersion, version_of

Offset = dict[str, Any]

FILES_MAX: Final = 100_000
"""Files that offsets in the checkpoint remember: 1.1 MB in each of them, of which Spark keeps a hundred."""

_LOCK_SECONDS: Final = 60.0
"""How long to wait until a killed predecessor has exited."""


class FileOffsets(Protocol):
    """The offsets of one stream, used by one process."""

    def initial(self) -> Offset:
        """Returns the offset before the first file."""

    def begin(self, offset: Offset) -> Offset | None:
        """Goes on behind an offset.

        Returns the offset of the micro-batch that follows, if that was determined before a kill.
        """

    def has_read(self, file: MessageFile) -> bool:
        """Returns whether a version of a file is in the offsets."""

    def advance(self, files: Sequence[MessageFile]) -> Offset:
        """Returns the offset behind a micro-batch of these files."""

    def files(self, start: Offset, end: Offset) -> list[MessageFile]:
        """Returns the files between two offsets that follow each other."""

    def last_files(self, offset: Offset) -> list[MessageFile]:
        """Returns the files of the micro-batch that an offset ends."""

    def forget(self, files: Iterable[MessageFile]) -> None:
        """Forgets files that are not there any more."""

    def close(self) -> None:
        """Lets other processes go on."""


class CheckpointOffsets:
    """Offsets that hold all there is to know.

    Args:
        is_there: Returns whether there is a file at a path. Files that are gone are forgotten where there are too many.
    """

    def __init__(self, is_there: Callable[[str], bool]) -> None:
        self._is_there = is_there
        self._known: dict[int, str] = {}
        """By fingerprint: the path, or nothing if it is from an earlier run."""

        self._last: list[MessageFile] = []

    def initial(self) -> Offset:
        """Returns the offset before the first file."""
        return {"files": [], "known": ""}

    def begin(self, offset: Offset) -> Offset | None:
        """Goes on behind an offset, which the checkpoint holds."""
        known = array("Q")
        known.frombytes(base64.b64decode(offset["known"]))
        self._known = dict.fromkeys(known, "")
        self._last = self.last_files(offset)
        self._remember(self._last)
        return None

    def has_read(self, file: MessageFile) -> bool:
        """Returns whether a version of a file is in the offsets."""
        fingerprint = _fingerprint(file)
        if fingerprint not in self._known:
            return False
        self._known[fingerprint] = file.path
        return True

    def advance(self, files: Sequence[MessageFile]) -> Offset:
        """Returns the offset behind a micro-batch of these files.

        Raises:
            PipelineError: There are more files than an offset can hold.
        """
        if len(self._known) > FILES_MAX:
            self._known = {known: path for known, path in self._known.items() if path and self._is_there(path)}
        if len(self._known) > FILES_MAX:
            raise PipelineError(
                f"the stream has read more than {FILES_MAX:,} files that are still there, too many for its checkpoint: "
                "let it move them away (option cleanSource), or name a file for its log (option log) and begin anew"
            )
        known = base64.b64encode(array("Q", self._known).tobytes()).decode()
        self._last = list(files)
        self._remember(files)
        return {"files": [list(astuple(file)) for file in files], "known": known}

    def files(self, start: Offset, end: Offset) -> list[MessageFile]:
        """Returns the files between two offsets that follow each other."""
        return [] if start == end else self.last_files(end)

    def last_files(self, offset: Offset) -> list[MessageFile]:
        """Returns the files of the micro-batch that an offset ends."""
        return [MessageFile(*fields) for fields in offset["files"]]

    def forget(self, files: Iterable[MessageFile]) -> None:
        """Forgets files that are not there any more."""
        for file in files:
            self._known.pop(_fingerprint(file), None)

    def close(self) -> None:
        """Does nothing."""

    def _remember(self, files: Iterable[MessageFile]) -> None:
        self._known.update((_fingerprint(file), file.path) for file in files)


def _fingerprint(file: MessageFile) -> int:
    """Returns 64 bits that tell versions of files apart."""
    path, size, changed = version_of(file)
    text = f"{size} {changed} {path}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


class FileLog:
    """Offsets into a log, which is open in one process at a time.

    It is a file of JSON lines that only grows. A line that was cut off by a kill has no offset yet, and is dropped.

    Args:
        path: The log; created if it is missing.
        watched: The paths that are watched.
        lock_seconds: How long to wait if another process has the log open.

    Raises:
        PipelineError: Another process has it open, or it belongs to other paths.
    """

    def __init__(self, path: str, watched: Sequence[str], lock_seconds: float = _LOCK_SECONDS) -> None:
        self._watched = [str(Path(each).absolute()) for each in watched]
        self._entries: list[list[MessageFile]] = []
        self._known: set[FileVersion] = set()
        self._known_paths: set[str] = set()
        """From logs of earlier releases, which did not tell versions apart."""

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            self._file = undo.enter_context(Path(path).open("a+b"))
            _lock(self._file, path, lock_seconds)
            self._load(path)
            undo.pop_all()

    def initial(self) -> Offset:
        """Returns the offset before the first entry."""
        return {"entries": 0}

    def begin(self, offset: Offset) -> Offset | None:
        """Goes on behind an offset. An entry that was written before a kill, and Spark had not recorded, comes next."""
        entries = offset["entries"]
        return None if entries == len(self._entries) else {"entries": entries + 1}

    def has_read(self, file: MessageFile) -> bool:
        """Returns whether a version of a file is in the log."""
        return version_of(file) in self._known or file.path in self._known_paths

    def advance(self, files: Sequence[MessageFile]) -> Offset:
        """Adds an entry, which is on disk when this returns, and returns the offset behind it."""
        self._write([astuple(file) for file in files])
        self._remember(list(files))
        return {"entries": len(self._entries)}

    def files(self, start: Offset, end: Offset) -> list[MessageFile]:
        """Returns the files of the entries between two offsets."""
        return [file for entry in self._entries[start["entries"] : end["entries"]] for file in entry]

    def last_files(self, offset: Offset) -> list[MessageFile]:
        """Returns the files of the micro-batch that an offset ends."""
        return self._entries[offset["entries"] - 1] if offset["entries"] else []

    def forget(self, files: Iterable[MessageFile]) -> None:
        """Does nothing: the log keeps them."""

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
            self._write({"paths": self._watched})
            return
        head = json.loads(lines[0])
        watched = head.get("paths") or [head["folder"]]
        if watched != self._watched:
            raise PipelineError(
                f"{path} is the record of {', '.join(watched)}, not of {', '.join(self._watched)}; "
                "use another output or checkpoint"
            )
        for line in lines[1:]:
            self._remember([MessageFile(*fields) for fields in json.loads(line)])

    def _remember(self, entry: list[MessageFile]) -> None:
        self._entries.append(entry)
        self._known.update(version_of(file) for file in entry if file.changed)
        self._known_paths.update(file.path for file in entry if not file.changed)

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
