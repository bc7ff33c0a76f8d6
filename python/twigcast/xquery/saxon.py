"""The Saxon process: it evaluates queries, is ended if one takes too long, and is started again when needed."""

from __future__ import annotations

import atexit
import importlib.util
import re
import threading
from collections.abc import Mapping
from typing import Final

from twigcast.errors import MissingExtra, QuerySyntaxError, UnsupportedQuery
from twigcast.forking import renew_in_children
from twigcast.registration import NO_PARAMS, Params
from twigcast.worker_process import WorkerProcess
from twigcast.xquery.exchange import Reply, Request, has_prolog, prolog
from twigcast.xquery.safety import refuse_unsafe

SECONDS_MAX: Final = 10.0
"""The time that one query may take on one message."""

_START_SECONDS_MAX: Final = 60.0

_NO_NOW: Final = (
    "$now is there in queries that the engine evaluates, and Saxon evaluates this one; leave out what only XQuery has, "
    "or $now"
)


def require() -> None:
    """Raises `MissingExtra` unless Saxon is installed."""
    if importlib.util.find_spec("saxonche") is None:
        raise MissingExtra("saxonche", "xquery")


class Saxon:
    """Saxon in a process of its own, which threads use in turn.

    Args:
        seconds_max: The time that one query may take on one message.
    """

    def __init__(self, seconds_max: float = SECONDS_MAX) -> None:
        require()
        self._seconds_max = seconds_max
        self._turn = threading.Lock()
        self._process: WorkerProcess | None = None
        self._inherited: list[WorkerProcess] = []
        atexit.register(self.close)
        renew_in_children(self)

    def renew_locks(self) -> None:
        """Leaves Saxon to the process that forked. The child starts a process of its own when it needs one."""
        self._turn = threading.Lock()
        if self._process is not None:
            self._process.leave()
            self._inherited.append(self._process)
            self._process = None

    def check(self, query: str, namespaces: Mapping[str, str], params: Params = NO_PARAMS) -> None:
        """Compiles a query.

        Raises:
            UnsupportedQuery: It uses more than the message, or has parameters and a prolog.
            QuerySyntaxError: Saxon refuses it, or it does not use a parameter.
        """
        refuse_unsafe(query)
        if params and has_prolog(query):
            given = ", ".join(f"${name}" for name in params)
            reason = (
                f"a query that begins with declarations or a comment takes no parameters ({given}); leave these out"
            )
            raise UnsupportedQuery(query, 1, reason)
        for name in params:
            if re.search(rf"\$\s*{re.escape(name)}(?![\w.\-])", query) is None:
                reason = f"the query does not use the parameter ${name}; name it in the query, or leave its value out"
                raise QuerySyntaxError(query, 1, reason)
        error = self.evaluate(query, namespaces, None, params).error
        if error is not None:
            column = _column(error, query, params)
            if "XPST0008" in error and error.endswith("$now"):
                raise UnsupportedQuery(query, column, _NO_NOW)
            raise QuerySyntaxError(query, column, f"Saxon: {error}")

    def evaluate(
        self,
        query: str,
        namespaces: Mapping[str, str],
        message: bytes | None,
        params: Params = NO_PARAMS,
        is_condition: bool = False,
    ) -> Reply:
        """Evaluates a query on a message in UTF-8. Errors are in the reply."""
        request = Request(query, namespaces, message, params, is_condition).frame()
        with self._turn:
            try:
                reply = self._ask(self._running(), request, self._seconds_max)
            except OSError as error:
                reply = Reply(error=f"Saxon ended: {error.strerror}")
                self._end()
            return reply

    def close(self) -> None:
        """Ends the process."""
        with self._turn:
            self._end()

    def _running(self) -> WorkerProcess:
        if self._process is None or not self._process.runs:
            self._end()
            self._process = WorkerProcess("twigcast.xquery.worker")
            # Starting Saxon does not count towards the time of the first query.
            started = self._ask(self._process, Request("1", {}, None).frame(), _START_SECONDS_MAX)
            if started.error is not None:
                raise OSError(0, f"it does not start: {started.error}")
        assert self._process is not None
        return self._process

    def _ask(self, process: WorkerProcess, request: bytes, seconds_max: float) -> Reply:
        """Returns the reply to a request. If it does not come in time, ends the process and returns an error."""
        process.write(request)
        try:
            with process.reading(seconds_max) as read:
                return Reply.read(read)
        except TimeoutError:
            self._end()
            return Reply(error=f"it took longer than {seconds_max:g} seconds")
        except EOFError:
            self._end()
            return Reply(error="Saxon ended while it evaluated the query")

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()


class _SharedSaxon:
    """The Saxon of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._saxon: Saxon | None = None
        renew_in_children(self)

    def renew_locks(self) -> None:
        """Makes a forked process start a Saxon of its own."""
        self._lock = threading.Lock()
        self._saxon = None

    def get(self) -> Saxon:
        """Returns the Saxon, and creates it at the first call."""
        with self._lock:
            if self._saxon is None:
                self._saxon = Saxon()
            return self._saxon


_shared: Final = _SharedSaxon()


def shared() -> Saxon:
    """Returns the Saxon of this process; a process forked from it starts its own.

    Raises:
        MissingExtra: Saxon is not installed.
    """
    return _shared.get()


_PLACE: Final = re.compile(r"(?:line (?P<line>\d+) column|at char) (?P<column>\d+)")


def _column(error: str, query: str, params: Params) -> int:
    """Returns the column of a query that an error of Saxon names, from 1, line ends included; 1 if it names none."""
    position = _PLACE.search(error)
    if position is None:
        return 1
    line = int(position["line"] or 1) - 1 - prolog(query, params).count("\n")
    before = sum(len(text) + 1 for text in query.split("\n")[: max(line, 0)])
    return min(max(before + int(position["column"]), 1), len(query) + 1)
