"""Locks: one broker for each folder, and a fair lock between its threads.

The system releases the lock file of a folder when its process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from twigcast.broker.errors import StoreInUse, StoreUnavailable


class FolderLock:
    """The held lock of a folder.

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
        """Whether the last holder ended without releasing it."""
        me = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        # The text only tells people who holds the lock: with a full disk the broker starts all the same.
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
        """Releases the lock."""
        os.ftruncate(self._file, 0)
        os.close(self._file)


class FairLock:
    """A lock between threads that its last holder cannot take again before the threads that wait for it.

    With an ordinary lock, a thread that works without a pause takes it again before another thread has woken up.
    """

    def __init__(self) -> None:
        self._next = threading.Lock()
        self._lock = threading.Lock()

    @property
    def is_awaited(self) -> bool:
        """Returns whether a thread waits for the lock, or is just taking it."""
        return self._next.locked()

    def __enter__(self) -> None:
        # A thread that waits for the lock delays all others here.
        with self._next:
            self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
