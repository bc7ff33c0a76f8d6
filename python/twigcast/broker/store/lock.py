"""One broker for each folder: a lock file that the system gives free when its process ends, however it ends.

And, for the threads of that one, a lock that is passed on.
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


class FairLock:
    """A lock between threads that who gives it back does not take again before those that wait for it.

    With an ordinary one, a thread that works without a pause takes it again before another has woken up.
    """

    def __init__(self) -> None:
        self._next = threading.Lock()
        self._lock = threading.Lock()

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for it, or is just taking it."""
        return self._next.locked()

    def __enter__(self) -> None:
        # Who waits for the lock holds up all others here.
        with self._next:
            self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
