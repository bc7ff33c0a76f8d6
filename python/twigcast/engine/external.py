"""Queries in XQuery: the engine takes what it reads itself, and Saxon the rest.

Of a query that Saxon evaluates the engine only says on which messages it may have a result: these are *external
matches*. An external match without a result is no match, and one that fails leaves its subscription undecided. A query
that is no For-Where-Return query, such as a path, is a condition, as it is where the engine evaluates it: a message
matches if it is true, and is delivered as it is. Windows, `try`, `switch` and the like, which the engine does not read,
return something.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from twigcast._core import ExternalMatch, QueryCheck, check
from twigcast.errors import QueryError, QueryLimitExceeded, QuerySyntaxError
from twigcast.limits import Limits
from twigcast.registration import NO_PARAMS, Dialect, EngineDialect, Params, no_query

if TYPE_CHECKING:
    from twigcast.xquery.exchange import Reply
    from twigcast.xquery.saxon import Saxon

T = TypeVar("T")

_PLACES: Final = re.compile(r"\bgeo:(?:intersects|disjoint|within|contains|distance|point|circle|box|polygon)\s*\(")


class QueryEvaluator(Protocol):
    """A processor of XQuery: the Saxon of this process, or the one of a broker."""

    def evaluate(
        self, query: str, namespaces: Mapping[str, str], message: bytes, params: Params, is_condition: bool, /
    ) -> Reply:
        """Evaluates a query on a message in UTF-8. What goes wrong is in the reply.

        ``is_condition`` says that only its truth matters.
        """


def shared_saxon() -> Saxon:
    """Returns the Saxon of this process. Its module is loaded when a query in XQuery comes."""
    from twigcast.xquery.saxon import shared

    return shared()


def native_or_external(attempt: Callable[[EngineDialect], T], dialect: Dialect, accept: Callable[[], None]) -> T:
    """Lets the engine read a query by itself; one in XQuery that it refuses, as an external query.

    `attempt` hands the query to the engine, as one of a dialect. `accept` raises an error if Saxon refuses the query.
    """
    if dialect != "xquery":
        return attempt(dialect)
    try:
        return attempt("native")
    except QueryLimitExceeded:
        raise
    except QueryError as refusal:
        if _PLACES.search(refusal.text) and "declare namespace geo" not in refusal.text:
            reason = f"{refusal.reason}; places are asked for by the engine, and Saxon, which reads the rest, has none"
            raise type(refusal)(refusal.text, refusal.column, reason, refusal.expected) from None
        _accepted(accept, refusal)
        return attempt("xquery")


def _accepted(accept: Callable[[], None], refusal: QueryError) -> None:
    """Raises an error if Saxon refuses a query, with the engine's advice if both stumble over the same word."""
    try:
        accept()
    except QuerySyntaxError as error:
        # What is at fault is quoted first: "`like` is no operator of XPath 1.0; write contains(a, 'part')".
        word = refusal.reason.partition("`")[2].partition("`")[0]
        if not word or f"`{word}`" not in error.reason:
            raise
        reason = f"{error.reason}. {refusal.reason[0].upper()}{refusal.reason[1:]}"
        raise QuerySyntaxError(error.text, error.column, reason, error.expected) from None


def check_query(
    query: str,
    namespaces: Mapping[str, str],
    dialect: Dialect,
    params: Params = NO_PARAMS,
    *,
    limits: Limits | None = None,
    saxon: Callable[[], Saxon] = shared_saxon,
) -> QueryCheck:
    """Reads a query without adding it, within limits or those that hold by default.

    Raises:
        QueryError: The query is refused.
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed.
    """
    processor = saxon() if dialect == "xquery" else None
    namespaces = dict(namespaces)

    def accept() -> None:
        assert processor is not None, "only queries in XQuery are external"
        processor.check(query, namespaces, params)

    try:
        kept = (limits or Limits()).as_dict()
        return native_or_external(lambda as_: check(query, namespaces, as_, params, kept), dialect, accept)
    except UnicodeEncodeError:
        raise no_query(query) from None


def replies(
    matches: Sequence[ExternalMatch], message: Callable[[int], bytes], evaluator: QueryEvaluator
) -> Iterator[tuple[ExternalMatch, Reply]]:
    """Evaluates external matches. ``message`` returns the message of a row, in UTF-8."""
    for match in matches:
        xml = message(match.row)
        yield match, evaluator.evaluate(match.query, match.namespaces, xml, match.params, match.is_condition)
