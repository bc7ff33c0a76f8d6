"""Watches folders for files: a look costs as much as what is new, however many files are there.

A file is known by its path, size and time of change: one that is written anew is a new version. A version counts once
it has been left alone for a while, so that a file that still grows waits.

A folder is listed again only if its own time of change says that names came or went. That time does not tell of files
that are written anew in place: for these, every look checks the files that changed lately, and some of the others in
turn.
"""

import glob
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from twigcast.errors import SourceError
from twigcast.reading.messages import MessageFile, message_file
from twigcast.spark.sources.frames import matching_paths

FILES_PER_BATCH: Final = 20_000
"""A micro-batch takes at most so many files."""

_QUIET_NS: Final = 5_000_000_000
"""Clocks of file systems are coarse, and others than ours: a folder that changed shortly before it was listed is listed
again.
"""

_LATE_NS: Final = 60_000_000_000
"""Files are checked at each look for so long after a change."""

_CHECKS_MAX: Final = 1_000
"""Files that a look checks of those that changed lately, and of all others. Checking one takes about 2 us."""

_POLL_SECONDS: Final = 0.05

FileVersion = tuple[str, int, int]
"""Path, size and time of change."""


def version_of(file: MessageFile) -> FileVersion:
    """Returns what a file is known by."""
    return file.path, file.size, file.changed


@dataclass(slots=True)
class _Folder:
    """A folder as it was listed."""

    changed: int
    listed: int
    names: dict[str, str] = field(default_factory=dict)
    """Path of each file, by its name."""

    folders: dict[str, str] = field(default_factory=dict)
    """Path of each folder in it, by its name."""


@dataclass(frozen=True, slots=True)
class _Growing:
    """A version that was found, and since when it has not changed."""

    file: MessageFile
    since: float


def _age(file: MessageFile) -> tuple[int, str]:
    return file.changed, file.path


class FileWatch:
    """A watch over some paths.

    Args:
        paths: Folders, files, and patterns of these such as ``feeds/*/2026-*``.
        include: A pattern that names of files in folders must match.
        settle_seconds: How long a file must have been left alone.
        monotonic: Returns seconds that only grow.
    """

    def __init__(
        self,
        paths: Sequence[str],
        include: str | None = None,
        settle_seconds: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = paths
        self._include = include
        self._settle = settle_seconds
        self._monotonic = monotonic
        self._folders: dict[str, _Folder] = {}
        self._files: dict[str, MessageFile] = {}
        self._growing: dict[str, _Growing] = {}
        self._late: dict[str, int] = {}
        """By path, until when it is checked at each look."""
        self._in_turn: deque[str] = deque()

    def __contains__(self, path: str) -> bool:
        """Returns whether there was a file at the last look."""
        return path in self._files

    @property
    def is_growing(self) -> bool:
        """Returns whether files are waiting until they have been left alone."""
        return bool(self._growing)

    def poll(self) -> list[MessageFile]:
        """Returns the versions of files that are new since the last look: those that changed first, first.

        Raises:
            SourceError: A path that is no pattern cannot be read.
        """
        seen: set[str] = set()
        for path in self._paths:
            for location in matching_paths(path):
                self._visit(location, "", frozenset(), seen, is_root=not glob.has_magic(path))
        for gone in [folder for folder in self._folders if folder not in seen]:
            for path in self._folders.pop(gone).names.values():
                self._forget(path)
        self._check_known()
        return sorted(self._settled(), key=_age)

    def wait(self) -> list[MessageFile]:
        """Looks until no file of the first look grows any more, but no longer than one takes to settle."""
        deadline = self._monotonic() + self._settle
        found = {file.path: file for file in self.poll()}
        while self.is_growing and self._monotonic() <= deadline:
            time.sleep(_POLL_SECONDS)
            found.update((file.path, file) for file in self._settled())
        return sorted(found.values(), key=_age)

    def _visit(
        self, path: str, prefix: str, around: frozenset[tuple[int, int]], seen: set[str], *, is_root: bool = False
    ) -> None:
        """Looks at a folder and those in it, or at a file that a path names. ``around``: against loops of links."""
        try:
            info = os.stat(path)  # noqa: PTH116 - quicker than Path.stat
        except OSError as error:
            if is_root:
                raise SourceError(path, error.strerror or str(error)) from None
            return  # it has gone since its name was read
        if not stat.S_ISDIR(info.st_mode):
            self._note(message_file(path, Path(path).name, info))
            return
        identity = (info.st_dev, info.st_ino)
        if identity in around or path in seen:
            return
        seen.add(path)
        folder = self._folders.get(path)
        if folder is None or folder.changed != info.st_mtime_ns or folder.listed - folder.changed < _QUIET_NS:
            folder = self._list(path, prefix, info)
        for name, inner in folder.folders.items():
            self._visit(inner, f"{prefix}{name}/", around | {identity}, seen)

    def _list(self, path: str, prefix: str, info: os.stat_result) -> _Folder:
        """Reads the names in a folder, and what is new among them."""
        before = self._folders.get(path)
        folder = _Folder(info.st_mtime_ns, time.time_ns())
        try:
            with os.scandir(path) as entries:
                self._read(entries, prefix, folder, before)
        except OSError:
            # Reading it as a message fails too, so it is rejected with the reason.
            self._note(MessageFile(path, "file", prefix.rstrip("/") or Path(path).name, 0, info.st_mtime_ns))
        if before is not None:
            for name, file in before.names.items():
                if name not in folder.names:
                    self._forget(file)
        self._folders[path] = folder
        return folder

    def _read(
        self, entries: Iterable["os.DirEntry[str]"], prefix: str, folder: _Folder, before: _Folder | None
    ) -> None:
        for entry in entries:
            if entry.name.startswith((".", "_")):
                continue
            if before is not None and entry.name in before.names:
                folder.names[entry.name] = before.names[entry.name]
                continue
            if entry.is_dir():
                folder.folders[entry.name] = entry.path
                continue
            try:
                info = entry.stat()
            except FileNotFoundError:  # gone since its name was read, or a link to nothing
                continue
            file = message_file(entry.path, prefix + entry.name, info, self._include)
            if file is not None:
                folder.names[entry.name] = entry.path
                self._note(file)

    def _note(self, file: MessageFile | None) -> None:
        """Takes note of a version."""
        if file is None:
            return
        known = self._files.get(file.path)
        if known is not None and version_of(known) == version_of(file):
            return
        if known is None:
            self._in_turn.append(file.path)
        self._files[file.path] = file
        self._growing[file.path] = _Growing(file, self._monotonic())
        self._late[file.path] = time.time_ns() + _LATE_NS

    def _forget(self, path: str) -> None:
        self._files.pop(path, None)
        self._growing.pop(path, None)

    def _forget_name(self, path: str) -> None:
        """Forgets a file that has become a folder, so that its own folder is listed again."""
        self._forget(path)
        folder = self._folders.get(os.path.dirname(path))  # noqa: PTH120 - as the path was joined
        if folder is not None:
            folder.names.pop(os.path.basename(path), None)  # noqa: PTH119
            folder.changed = -1

    def _check_known(self) -> None:
        """Checks the files that changed lately, and some of the others."""
        now = time.time_ns()
        for path in list(islice(self._late, _CHECKS_MAX)):
            until = self._late.pop(path)
            if until >= now and path in self._files:
                self._late[path] = until
                self._check(path)
        for _ in range(min(_CHECKS_MAX, len(self._in_turn))):
            path = self._in_turn.popleft()
            if path in self._files:
                self._in_turn.append(path)
                self._check(path)

    def _check(self, path: str) -> None:
        """Takes note of another version of a file, if there is one."""
        file = self._files.get(path)
        if file is None:
            return
        try:
            info = os.stat(path)  # noqa: PTH116 - quicker than Path.stat
        except OSError:
            return  # its folder has changed, and is listed again
        if stat.S_ISDIR(info.st_mode):
            self._forget_name(path)
        elif (info.st_size, info.st_mtime_ns) != (file.size, file.changed):
            self._note(message_file(path, file.id.rstrip("/"), info))

    def _settled(self) -> Iterator[MessageFile]:
        """Yields the versions that have been left alone for long enough, once."""
        now, now_ns = self._monotonic(), time.time_ns()
        for path in list(self._growing):
            self._check(path)
            growing = self._growing[path]
            is_old = now_ns - growing.file.changed >= self._settle * 1e9
            if is_old or now - growing.since >= self._settle:
                del self._growing[path]
                yield growing.file
