"""Validation by XML Schema, in a process of its own.

A schema may come from anyone. A count such as ``maxOccurs="100000"`` makes the compiled one explode, and a pattern is a
regular expression that backtracks; libxml2 cannot be interrupted. So each schema has a process, with bounds of memory,
which is ended if it takes too long.
"""

from __future__ import annotations

import importlib.util
import json
import struct
import threading
import time
import weakref
from collections import OrderedDict
from typing import Any, Final

from twigcast.errors import MissingExtra
from twigcast.schema.dtd import SchemaError
from twigcast.worker_process import WorkerProcess

COMPILE_SECONDS_MAX: Final = 5.0
"""The time that reading a schema may take, the start of its process included."""

VALIDATION_SECONDS_MAX: Final = 1.0
"""The time that validating one document may take."""

OVERRUNS_MAX: Final = 3
"""After so many documents in a row that took too long, a schema is set aside."""

SET_ASIDE_SECONDS: Final = 60.0

PROCESSES_MAX: Final = 8
"""Processes at a time. The one that has not been used for longest ends for another one."""

LENGTH: Final = struct.Struct(">Q")
"""What is before each request and reply: its length."""


class XsdValidator:
    """A validator of documents by a schema that was passed as text; threads use it in turn.

    Raises:
        SchemaError: It is no schema, refers to others, or takes too long or too much memory to read.
        MissingExtra: lxml is not installed.
    """

    def __init__(self, text: bytes, *, seconds_max: float = VALIDATION_SECONDS_MAX) -> None:
        if importlib.util.find_spec("lxml") is None:
            raise MissingExtra("lxml", "broker")
        self._text = text
        self._seconds_max = seconds_max
        self._turn = threading.Lock()
        self._process: _XsdProcess | None = None
        self._finalizer: weakref.finalize[[], XsdValidator] | None = None
        self._overruns = 0
        self._aside_until = 0.0
        with self._turn:
            self._running()

    def fault(self, document: bytes) -> tuple[int | None, str] | None:
        """Returns the line and the reason of the first fault of a well-formed document; ``None`` if it is valid."""
        with self._turn:
            if time.monotonic() < self._aside_until:
                return None, f"its schema took too long on {OVERRUNS_MAX} messages, and is tried again within a minute"
            try:
                reply = self._running().ask(document, self._seconds_max)
            except SchemaError as error:
                self._note_overrun()
                return None, f"it cannot be validated by the schema: {error}"
            except _Overrun as error:
                self._end()
                self._note_overrun()
                return None, f"it cannot be validated by the schema: {error}"
            self._overruns = 0
            if reply.get("reason") is None:
                return None
            line: int | None = reply["line"]
            return line, f"the schema does not allow it: {reply['reason']}"

    def close(self) -> None:
        """Ends the process; the next document starts another one."""
        with self._turn:
            self._end()

    def _note_overrun(self) -> None:
        self._overruns += 1
        if self._overruns >= OVERRUNS_MAX:
            self._aside_until = time.monotonic() + SET_ASIDE_SECONDS

    def _running(self) -> _XsdProcess:
        """Returns a process that has read the schema; raises SchemaError if none can."""
        if self._process is None or not self._process.runs:
            self._end()
            process = _XsdProcess()
            try:
                reply = process.ask(self._text, COMPILE_SECONDS_MAX)
            except _Overrun as error:
                process.end()
                raise SchemaError(f"the schema cannot be used: {error}") from None
            if reply.get("reason") is not None:
                process.end()
                raise SchemaError(str(reply["reason"]))
            self._process = process
            self._finalizer = weakref.finalize(self, process.end)
        _used(self, self._process)
        return self._process

    def _end(self) -> None:
        self._process = None
        if self._finalizer is not None:
            self._finalizer()  # which ends the process, once, and lets go of it


class _Overrun(Exception):
    """A process did not answer in time, or ended."""


class _XsdProcess:
    """A process that reads a schema first, and then validates documents by it."""

    def __init__(self) -> None:
        self._process = WorkerProcess("twigcast.schema.xsd_worker")

    @property
    def runs(self) -> bool:
        """Returns whether it has not ended."""
        return self._process.runs

    def ask(self, request: bytes, seconds_max: float) -> dict[str, Any]:
        """Returns the reply to a request; raises _Overrun."""
        try:
            self._process.write(LENGTH.pack(len(request)) + request)
            with self._process.reading(seconds_max) as read:
                (length,) = LENGTH.unpack(read(LENGTH.size))
                reply: dict[str, Any] = json.loads(read(length))
                return reply
        except TimeoutError:
            raise _Overrun(f"it takes longer than {seconds_max:g} seconds") from None
        except (OSError, EOFError):
            raise _Overrun("it takes too much memory") from None

    def end(self) -> None:
        """Ends it."""
        self._process.end()


_latest: OrderedDict[_XsdProcess, weakref.ref[XsdValidator]] = OrderedDict()
"""The processes, the one used last at the end."""
_latest_lock: Final = threading.Lock()


def _used(validator: XsdValidator, process: _XsdProcess) -> None:
    """Notes that a process is used, and ends others if there are too many."""
    superfluous: list[XsdValidator] = []
    with _latest_lock:
        _latest[process] = weakref.ref(validator)
        _latest.move_to_end(process)
        for one in [one for one in _latest if not one.runs]:
            del _latest[one]
        while len(_latest) > PROCESSES_MAX:
            _, reference = _latest.popitem(last=False)
            if (other := reference()) is not None and other is not validator:
                superfluous.append(other)
    for other in superfluous:
        # Where one is at work, this waits for it, so another thread does that.
        threading.Thread(target=other.close, name="twigcast-xsd-end", daemon=True).start()
