"""The program of the Saxon process.

It reads requests from standard input and writes replies to standard output. It has no environment, and may not write
to files.
"""

from __future__ import annotations

import importlib
import re
import resource
import sys
from typing import Any, BinaryIO, Final

from twigcast.errors import UnsupportedQuery
from twigcast.reading.prolog import without_doctype
from twigcast.xquery.exchange import Reply, Request, prolog
from twigcast.xquery.safety import refuse_unsafe

_CLOSED: Final = {
    "http://saxon.sf.net/feature/allowedProtocols": "",
    "http://saxon.sf.net/feature/allow-external-functions": "false",
}
"""Settings of Saxon: it reads nothing by address, and calls no functions of its host."""

_PLACE: Final = re.compile(r" of file:\S*?(?=:?\s)")
"""The name of a file in Saxon's messages; there is no such file."""


class Evaluator:
    """A Saxon without access to files, network and host."""

    def __init__(self) -> None:
        # Optional, and without type annotations.
        saxonche: Any = importlib.import_module("saxonche")
        self._processor = saxonche.PySaxonProcessor(license=False)
        for name, value in _CLOSED.items():
            self._processor.set_configuration_property(name, value)
        self._failure = saxonche.PySaxonApiError
        self._parsed: tuple[bytes, Any] | None = None

    def answer(self, request: Request) -> Reply:
        """Evaluates a request. Whatever goes wrong is in the reply."""
        try:
            refuse_unsafe(request.query)
            return Reply(self._evaluate(request))
        except UnsupportedQuery as error:
            return Reply(error=error.reason)
        except self._failure as error:
            return Reply(error=" ".join(_PLACE.sub("", str(error)).split()))

    def _evaluate(self, request: Request) -> bytes | None:
        runner = self._processor.new_xquery_processor()
        for prefix, uri in request.namespaces.items():
            runner.declare_namespace(prefix, uri)
        # Saxon compiles a query only when it is run, so a small message stands in if there is none.
        document = self._parse(b"<none/>" if request.message is None else request.message)
        runner.set_context(xdm_item=document)
        runner.set_property("!omit-xml-declaration", "yes")
        runner.set_property("!indent", "no")
        runner.set_query_content(prolog(request.query) + request.query)
        if request.message is None:
            self._compile(runner)
            return None
        value = runner.run_query_to_value()
        if value is None or not value.size:
            return None
        return str(runner.run_query_to_string()).encode()

    def _compile(self, runner: Any) -> None:
        """Compiles a query, ignoring errors that come of the message that stands in."""
        try:
            runner.run_query_to_value()
        except self._failure as error:
            if is_static(str(error)):
                raise

    def _parse(self, message: bytes) -> Any:
        if self._parsed is None or self._parsed[0] != message:
            text = without_doctype(message).decode("utf-8-sig")
            self._parsed = message, self._processor.parse_xml(xml_text=text)
        return self._parsed[1]


def is_static(reason: str) -> bool:
    """Returns whether an error of Saxon is about the query, not the message: ``XPST``, ``XQST`` and so on."""
    return any(code in reason for code in ("XPST", "XQST", "XTSE", "SXST"))


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Answers requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    evaluator = Evaluator()

    def read(count: int) -> bytes:
        data = requests.read(count)
        if len(data) < count:
            raise EOFError
        return data

    while True:
        try:
            request = Request.read(read)
        except EOFError:
            return
        replies.write(evaluator.answer(request).frame())
        replies.flush()


def main() -> None:
    """Serves the process that started this one."""
    serve(sys.stdin.buffer, sys.stdout.buffer)
