"""Queries in XQuery: the engine takes what it reads itself, and Saxon the rest.

Of a query that Saxon evaluates the engine only says on which messages it may have a result: these are *external
matches*. An external match without a result is no match, and one that fails leaves its subscription undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from twigcast._core import ExternalMatch, QueryCheck, check
from twigcast.errors import QueryError, QueryLimitExceeded
from twigcast.registration import Dialect, no_query
from twigcast.xquery.exchange import Reply
from twigcast.xquery.saxon import Saxon, shared

T = TypeVar("T")


class QueryEvaluator(Protocol):
    """A processor of XQuery: the Saxon of this process, or the one of a broker."""

    def evaluate(self, query: str, namespaces: Mapping[str, str], message: bytes, /) -> Reply:
        """Evaluates a query on a message in UTF-8. What goes wrong is in the reply."""


def native_or_external(attempt: Callable[[Dialect], T], dialect: Dialect, accept: Callable[[], None]) -> T:
    """Lets the engine read a query by itself; one in XQuery that it refuses, as an external query.

    Args:
        attempt: Hands the query to the engine, as one of a dialect.
        dialect: The dialect of the query.
        accept: Raises an error if Saxon refuses the query.

    Raises:
        QueryError: Neither takes the query.
    """
    if dialect != "xquery":
        return attempt(dialect)
    try:
        return attempt("xpath")
    except QueryLimitExceeded:
        raise
    except QueryError:
        accept()
        return attempt("xquery")


def check_query(
    query: str, namespaces: Mapping[str, str], dialect: Dialect, saxon: Callable[[], Saxon] = shared
) -> QueryCheck:
    """Reads a query without adding it.

    Raises:
        QueryError: The query is refused.
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed.
    """
    processor = saxon() if dialect == "xquery" else None
    namespaces = dict(namespaces)

    def accept() -> None:
        assert processor is not None, "only queries in XQuery are external"
        processor.check(query, namespaces)

    try:
        return native_or_external(lambda as_: check(query, namespaces, as_), dialect, accept)
    except UnicodeEncodeError:
        raise no_query(query) from None


def replies(
    matches: Sequence[ExternalMatch], message: Callable[[int], bytes], evaluator: QueryEvaluator
) -> Iterator[tuple[ExternalMatch, Reply]]:
    """Evaluates external matches. ``message`` returns the message of a row, in UTF-8."""
    for match in matches:
        yield match, evaluator.evaluate(match.query, match.namespaces, message(match.row))
