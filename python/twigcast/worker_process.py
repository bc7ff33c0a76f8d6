"""Processes for work that cannot be interrupted: each answers requests, and is ended if one takes too long."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import subprocess

_READ_MAX: Final = 1 << 20


class WorkerProcess:
    """A process that runs the ``main`` of a module. It reads requests from standard input and writes replies.

    It has no environment but the path of modules, and no folder of its own. It has to read the whole of a request
    before it does anything else, so that writing one ends.
    """

    def __init__(self, module: str) -> None:
        # Most programs never start one.
        import subprocess

        folders = [os.fspath(Path(__file__).parents[1]), *filter(None, sys.path)]
        self._process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - modules of this package
            [sys.executable, "-c", f"from {module} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PYTHONPATH": os.pathsep.join(folders), "PATH": os.defpath},
        )

    @property
    def pid(self) -> int:
        """Returns the number of the process."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Returns whether it has not ended."""
        return self._process.poll() is None

    def write(self, request: bytes) -> None:
        """Writes a request; raises OSError if the process has ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(request)
        self._process.stdin.flush()

    @contextmanager
    def reading(self, seconds_max: float) -> Iterator[Callable[[int], bytes]]:
        """Yields a function that returns so many bytes of the reply.

        The function raises TimeoutError once the seconds are over, and EOFError if the process ends before.
        """
        import selectors

        assert self._process.stdout is not None
        output = self._process.stdout.fileno()
        deadline = time.monotonic() + seconds_max
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)

            def read(count: int) -> bytes:
                taken = bytearray()
                while len(taken) < count:
                    if not selector.select(max(deadline - time.monotonic(), 0)):
                        raise TimeoutError
                    part = os.read(output, min(count - len(taken), _READ_MAX))
                    if not part:
                        raise EOFError
                    taken += part
                return bytes(taken)

            yield read

    def end(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue

    def leave(self) -> None:
        """Leaves the process to the one that started it; called in a process that was forked from that one."""
        # What is left in the buffers of the pipes must not be written again, nor read here.
        with Path(os.devnull).open("r+b") as nothing:
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None and not stream.closed:
                    os.dup2(nothing.fileno(), stream.fileno())
        # It is not a child of this process, which therefore does not wait for it.
        self._process.returncode = 0
