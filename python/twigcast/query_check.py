"""Checks a query without adding it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from twigcast._core import QueryCheck
from twigcast.engine.external import check_query
from twigcast.errors import QueryError
from twigcast.limits import Limits
from twigcast.notebook import html_code, html_table
from twigcast.registration import Dialect, Numbers, Params, require_str
from twigcast.subscription_items import checked_namespaces, checked_params, dialect_with_numbers

if TYPE_CHECKING:
    from twigcast.query import Query
    from twigcast.schema import Satisfiability


@dataclass(frozen=True, slots=True)
class QueryReport:
    """A report on a query, without any message."""

    query: str

    normal_form: str
    """The query as the engine runs it, abbreviations resolved."""

    route: str
    """How it runs, which is the class of its cost: ``automaton``, ``twig``, ``keyed``, ``candidate``, ``verified``,
    ``always`` or ``never`` in the engine, ``xquery`` by Saxon."""

    reason: str
    """Why it runs so."""

    cover: str | None
    """The values that lead to it, such as ``looked up by //a[@k = 'x']``; ``None`` if none do."""

    cost: str
    """What it costs on a message, in words."""

    warnings: tuple[str, ...]
    """What looks wrong with it."""

    def _repr_html_(self) -> str:
        rows = [
            ("normal form", html_code(self.normal_form)),
            ("runs as", f"{self.route} ({self.reason})"),
            ("cover", self.cover or "none"),
            ("costs", self.cost),
        ]
        rows += [("warning", text) for text in self.warnings]
        return html_table(self.query, ["", ""], rows, len(rows))

    @classmethod
    def of(cls, checked: QueryCheck) -> Self:
        """Returns what the engine knows of a query."""
        return cls(
            checked.query,
            checked.normal_form,
            checked.route,
            checked.reason,
            checked.cover,
            checked.cost,
            tuple(checked.warnings),
        )


def check(
    query: str,
    *,
    namespaces: Mapping[str, str] | None = None,
    dialect: Dialect = "xpath",
    params: Params | None = None,
    limits: Limits | None = None,
    numbers: Numbers | None = None,
    dtd: str | Path | bytes | Satisfiability | None = None,
) -> QueryReport:
    """Reads a query as :meth:`SubscriptionSet.add` would, and returns how it would run. Arguments are as there.

    With ``dtd``, a query that no message valid by this DTD can match has a warning that says why. It is a file, the
    text of a DTD as bytes, or for many queries ``Satisfiability(read_dtd(...))`` (:mod:`twigcast.schema`).

    Raises:
        QueryError: The query is refused.
        InvalidContext: The namespaces or the parameters cannot be used, or there is no such dialect.
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed; or a DTD is to be read, and lxml is not.
        SchemaError: The DTD cannot be read.
        OSError: The file of the DTD cannot be read.
    """
    require_str(query, "query")
    dialect = dialect_with_numbers(dialect, numbers)
    declared, values = checked_namespaces(namespaces), checked_params(params)
    report = QueryReport.of(check_query(query, declared, dialect, values, limits=limits))
    if dtd is None:
        return report
    schema, parsed = _satisfiability(dtd), parsed_natively(query, declared, dialect, values)
    reason = None if parsed is None else schema.why_never(parsed)
    if reason is None:
        return report
    return replace(report, warnings=(*report.warnings, f"no message that follows the DTD matches: {reason}"))


def parsed_natively(query: str, namespaces: Mapping[str, str], dialect: Dialect, params: Params) -> Query | None:
    """Returns a query as data; ``None`` for one that the engine refuses or leaves to Saxon."""
    from twigcast.query import parse  # most who check queries have no schema

    try:
        return parse(query, namespaces, "native" if dialect == "xquery" else dialect, params)
    except QueryError:
        return None


def _satisfiability(dtd: str | Path | bytes | Satisfiability) -> Satisfiability:
    from twigcast.schema import Satisfiability, read_dtd

    return dtd if isinstance(dtd, Satisfiability) else Satisfiability(read_dtd(dtd))
