"""One broker for each folder: a lock file that the system gives free when its process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

from twigcast.broker.errors import StoreInUse, StoreUnavailable


class FolderLock:
    """Holds the lock of a folder.

    Args:
        path: The lock file.

    Raises:
        StoreInUse: Another process holds it.
        StoreUnavailable: The file cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"the lock file {path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = self._holder()
            os.close(self._file)
            raise StoreInUse(f"another broker works on {path.parent}: {holder}") from error
        self.unclean = os.fstat(self._file).st_size > 0
        """The last holder did not get to give it back."""
        me = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        # It only tells people who holds the lock: with a full disk the broker starts all the same.
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, json.dumps(me).encode() + b"\n", 0)

    def _holder(self) -> str:
        try:
            holder = json.loads(os.pread(self._file, 4096, 0))
            return f"process {holder['pid']} on {holder['host']}, since {holder['started']}"
        except (ValueError, KeyError, TypeError):
            return f"a process that did not say its name in {self._path}"

    def release(self) -> None:
        """Give the lock back."""
        os.ftruncate(self._file, 0)
        os.close(self._file)
