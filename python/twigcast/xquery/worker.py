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
from twigcast.reading.conversion import without_doctype
from twigcast.registration import ParameterValue
from twigcast.xquery.exchange import LIST_PREFIX, Reply, Request, prolog
from twigcast.xquery.safety import refuse_unsafe
from twigcast.xquery.tolerant import tolerant

_CLOSED: Final = {
    "http://saxon.sf.net/feature/allowedProtocols": "",
    "http://saxon.sf.net/feature/allow-external-functions": "false",
}
"""Settings of Saxon: it reads nothing by address, and calls no functions of its host."""

_INTEGERS: Final = ("int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger")

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
        self._writer = self._processor.new_xquery_processor()
        self._write_without_additions(self._writer)
        self._writer.set_query_content("declare variable $items external; $items?*")
        self._failure = saxonche.PySaxonApiError
        self._parsed: tuple[bytes, Any] | None = None

    def answer(self, request: Request) -> Reply:
        """Evaluates a request. Errors are in the reply."""
        try:
            refuse_unsafe(request.query)
            return self._evaluate(request)
        except UnsupportedQuery as error:
            return Reply(error=error.reason)
        except self._failure as error:
            return Reply(error=" ".join(_PLACE.sub("", str(error)).split()))

    def _evaluate(self, request: Request) -> Reply:
        runner = self._processor.new_xquery_processor()
        for prefix, uri in request.namespaces.items():
            runner.declare_namespace(prefix, uri)
        # Saxon compiles a query only when it is run, so a small placeholder is used if there is no message.
        document = self._parse(b"<none/>" if request.message is None else request.message)
        runner.set_context(xdm_item=document)
        for name, value in request.params.items():
            is_list = not isinstance(value, str | int | float)
            runner.set_parameter(f"{LIST_PREFIX}{name}" if is_list else name, self._value(value))
        declared = prolog(request.query, request.params)
        changed = tolerant(request.query, request.is_condition)
        if request.message is None:
            # The query as it is written comes first, so that errors name places in it.
            for query in dict.fromkeys((request.query, changed)):
                runner.set_query_content(declared + query)
                self._compile(runner)
            return Reply()
        runner.set_query_content(declared + changed)
        value = runner.run_query_to_value()
        if value is None or not value.size:
            return Reply()
        if request.is_condition:
            return _condition(value)
        # One truth value decides, as that of a condition does.
        if value.size == 1 and (truth := _truth(value.item_at(0))) is not None:
            return Reply(holds=truth)
        return Reply(self._written(value))

    def _written(self, value: Any) -> bytes:
        """Returns a result as XML.

        Saxon could write it while it evaluates the query, but then catches no errors in constructors.
        """
        # A sequence of several items as a parameter ends the process.
        items = self._processor.make_array([value.item_at(at) for at in range(value.size)])
        self._writer.set_parameter("items", items)
        try:
            return str(self._writer.run_query_to_string()).encode()
        finally:
            self._writer.clear_parameters()

    @staticmethod
    def _write_without_additions(runner: Any) -> None:
        """Makes Saxon write neither an XML declaration nor blanks of its own."""
        runner.set_property("!omit-xml-declaration", "yes")
        runner.set_property("!indent", "no")

    def _value(self, value: ParameterValue) -> Any:
        """Returns a value of a parameter as Saxon has it."""
        if isinstance(value, bool):
            return self._processor.make_boolean_value(value)
        if isinstance(value, str):
            return self._processor.make_string_value(value)
        if isinstance(value, int | float):
            return self._processor.make_double_value(float(value))
        # A sequence of several items as a parameter ends the process.
        return self._processor.make_array([self._value(one) for one in value])

    def _compile(self, runner: Any) -> None:
        """Compiles a query, ignoring errors that only its placeholder message causes."""
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


def _truth(item: Any) -> bool | None:
    """Returns the value of an item that is a truth value; ``None`` of others."""
    is_boolean = item.is_atomic and item.primitive_type_name.endswith("}boolean")
    return item.string_value == "true" if is_boolean else None


def _condition(value: Any) -> Reply:
    """Returns whether a result, which is not empty, is true as ``boolean()`` of it is."""
    first = value.item_at(0)
    if first.is_node:
        return Reply(holds=True)
    if not first.is_atomic:
        return Reply(error="FORG0006: the query is a condition, and a map or function is neither true nor false")
    if value.size > 1:
        # As it is in the engine, which finds several values true where XQuery raises an error.
        return Reply(holds=True)
    truth, text = _truth(first), first.string_value
    if truth is not None:
        return Reply(holds=truth)
    kind = first.primitive_type_name.rpartition("}")[2]
    if kind in {"double", "float", "decimal", "integer", *_INTEGERS}:
        return Reply(holds=text != "NaN" and float(text.replace("INF", "inf")) != 0)
    if kind in {"string", "untypedAtomic", "anyURI"}:
        return Reply(holds=bool(text))
    # A date exists, and text that is no date has no value.
    return Reply(holds=True)


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
