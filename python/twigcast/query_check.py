"""Questions about a query: is it one, how would it run, and why does it match a message or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twigcast import _core
from twigcast.subscriptions import Dialect, no_query


@dataclass(frozen=True, slots=True)
class QueryReport:
    """What is known of a query without any message."""

    query: str

    normal_form: str
    """The query as the engine runs it, abbreviations resolved."""

    route: str
    """How it runs: ``automaton``, ``twig``, ``keyed`` or ``verified``."""

    reason: str
    """Why it runs so."""

    warnings: tuple[str, ...]
    """What looks wrong with it."""


def check(query: str, *, namespaces: Mapping[str, str] | None = None, dialect: Dialect = "xpath") -> QueryReport:
    """Read a query as :meth:`SubscriptionSet.add` would, and say how it would run.

    Raises:
        QueryError: The query is refused.
    """
    try:
        found = _core.check(query, namespaces or {}, dialect)
    except UnicodeEncodeError:
        raise no_query(query) from None
    warnings = found["warnings"]
    assert isinstance(warnings, list)
    return QueryReport(query, str(found["normal_form"]), str(found["route"]), str(found["reason"]), tuple(warnings))
