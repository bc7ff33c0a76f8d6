"""Refuses queries in XQuery that use a file, the network, the clock, the environment or another message.

Forbidden names are searched in the whole text, strings and comments included: only a parser can distinguish these, and
a mistake in it would open a hole. So a query is also refused if it has such a name before a parenthesis in a string.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from twigcast.errors import UnsupportedQuery

_FUNCTIONS: Final = (
    "doc",
    "doc-available",
    "document",
    "collection",
    "uri-collection",
    "unparsed-text",
    "unparsed-text-lines",
    "unparsed-text-available",
    "unparsed-binary",
    "json-doc",
    "csv-doc",
    "environment-variable",
    "available-environment-variables",
    "current-date",
    "current-dateTime",
    "current-time",
    "implicit-timezone",
    "parse-xml",
    "parse-xml-fragment",
    "parse-html",
    "random-number-generator",
    "transform",
    "load-xquery-module",
    "function-lookup",
    "invisible-xml",
    "trace",
    "message",
    "eval",
    "evaluate",
    "discard-document",
)
"""Local names of forbidden functions, whatever their prefix."""


_CLOCKS: Final = frozenset({"current-date", "current-dateTime", "current-time"})


@cache
def _forbidden() -> re.Pattern[str]:
    """Returns what a query may not contain. Compiling it takes milliseconds, which only queries in XQuery need."""
    return re.compile(
        rf"(?<![\w.\-])(?P<function>{'|'.join(map(re.escape, _FUNCTIONS))})\s*(?:\((?:#|.)|\(|#)"
        r"|(?P<import>\bimport\s)|(?P<module>\bmodule\s+namespace\b)|(?P<option>\bdeclare\s+option\b)"
        r"|(?P<external>\bexternal\b)|(?P<item>\bdeclare\s+context\b)|(?P<pragma>\(#)|(?P<base>\bdeclare\s+base-uri\b)"
        r"|(?P<java>\bjava:|saxon\.sf\.net|saxonica\.com|expath\.org)",
        re.DOTALL,
    )


_REASONS: Final = {
    "function": "the function {}() is not there: a query reads no file, network, clock or other message",
    "import": "a query cannot import anything",
    "module": "a query is no library module",
    "option": "a query declares no options",
    "external": "a query has nothing external",
    "item": "the context item is the message",
    "pragma": "a query has no pragmas",
    "base": "a query has no base address",
    "java": "a query calls no functions of a processor",
}


def refuse_unsafe(query: str) -> None:
    """Raises `UnsupportedQuery` for a query that uses, or may use, more than the message."""
    result = _forbidden().search(query)
    if result is None:
        return
    kind = str(result.lastgroup)
    reason = _REASONS[kind].format(result.group(kind))
    if result.group(kind) in _CLOCKS:
        reason += "; in a query that the engine evaluates, $now is the time at which the message was published"
    raise UnsupportedQuery(query, result.start(kind) + 1, reason)
