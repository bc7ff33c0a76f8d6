"""Questions about a query: is it one, how would it run, and why does it match a message or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twigcast import _core
from twigcast.errors import QueryError, QueryLimitExceeded
from twigcast.registration import Dialect, no_query
from twigcast.xquery.saxon import shared


@dataclass(frozen=True, slots=True)
class QueryReport:
    """What is known of a query without any message."""

    query: str

    normal_form: str
    """The query as the engine runs it, abbreviations resolved."""

    route: str
    """How it runs: ``automaton``, ``twig``, ``keyed`` or ``verified`` in the engine, ``xquery`` by Saxon."""

    reason: str
    """Why it runs so."""

    warnings: tuple[str, ...]
    """What looks wrong with it."""


def check(query: str, *, namespaces: Mapping[str, str] | None = None, dialect: Dialect = "xpath") -> QueryReport:
    """Read a query as :meth:`SubscriptionSet.add` would, and say how it would run.

    Raises:
        QueryError: The query is refused.
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed.
    """
    try:
        result = _report_fields(query, namespaces or {}, dialect)
    except UnicodeEncodeError:
        raise no_query(query) from None
    warnings = result["warnings"]
    assert isinstance(warnings, list)
    return QueryReport(query, str(result["normal_form"]), str(result["route"]), str(result["reason"]), tuple(warnings))


def _report_fields(query: str, namespaces: Mapping[str, str], dialect: Dialect) -> dict[str, object]:
    """What the engine knows of a query; of one in XQuery that it does not read itself, once Saxon has accepted it."""
    if dialect != "xquery":
        return _core.check(query, namespaces, dialect)
    saxon = shared()
    try:
        return _core.check(query, namespaces, "xpath")
    except QueryLimitExceeded:
        raise
    except QueryError:
        saxon.check(query, namespaces)
        return _core.check(query, namespaces, "xquery")
