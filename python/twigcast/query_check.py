"""Checks a query without adding it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from twigcast._core import QueryCheck
from twigcast.engine.external import check_query
from twigcast.registration import Dialect, require_str


@dataclass(frozen=True, slots=True)
class QueryReport:
    """A report on a query, without any message."""

    query: str

    normal_form: str
    """The query as the engine runs it, abbreviations resolved."""

    route: str
    """How it runs: ``automaton``, ``twig``, ``keyed`` or ``verified`` in the engine, ``xquery`` by Saxon."""

    reason: str
    """Why it runs so."""

    warnings: tuple[str, ...]
    """What looks wrong with it."""

    @classmethod
    def of(cls, checked: QueryCheck) -> Self:
        """Returns what the engine knows of a query."""
        return cls(checked.query, checked.normal_form, checked.route, checked.reason, tuple(checked.warnings))


def check(query: str, *, namespaces: Mapping[str, str] | None = None, dialect: Dialect = "xpath") -> QueryReport:
    """Reads a query as :meth:`SubscriptionSet.add` would, and returns how it would run.

    Raises:
        QueryError: The query is refused.
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed.
    """
    require_str(query, "query")
    return QueryReport.of(check_query(query, namespaces or {}, dialect))
