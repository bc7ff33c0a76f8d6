"""Routing queries: what they are made of, and the three functions that construct them (Diao 2005, section 7.3.2).

* *Map*: a user's query becomes a routing query, the `or` of conjunctions of absolute linear paths
  (:func:`routing_query`). Every message that matches the query satisfies the routing query; the converse need not hold,
  since the parts of a conjunction may be satisfied by different elements.
* *Collect*: the routing queries of several neighbours become one table (:func:`collect`; kept up to date and matched
  by :mod:`twigcast.overlay.onyx.content.routing_table`).
* *Aggregate*: a table and the queries of one's own users become one routing query that stands for all of them
  (:func:`aggregate`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

from twigcast import _core
from twigcast.overlay.onyx.content.decompose import Budget, decompose
from twigcast.overlay.onyx.content.implication import conjunction_implies, without_implied
from twigcast.overlay.onyx.content.implication_index import kept_without_implied
from twigcast.overlay.onyx.content.linear import path_of
from twigcast.overlay.onyx.messages import Disjunct, LinearPath, RoutingQuery
from twigcast.query import Expr
from twigcast.query.reading import read

_Target = TypeVar("_Target", bound=Hashable)

#: Nothing is wanted.
NOTHING: RoutingQuery = frozenset()

_NONE: Mapping[str, str] = MappingProxyType({})


def everything(scope: str = "") -> RoutingQuery:
    """The routing query that every message of a scope satisfies."""
    return frozenset({Disjunct(scope, frozenset())})


def matching_condition(text: str, namespaces: Mapping[str, str] = _NONE, dialect: str = "xpath") -> Expr:
    """The condition, at the document node, without which a query cannot match: its matching path, in normal form.

    Raises:
        QueryError: The query is refused.
    """
    declared = dict(namespaces)
    condition = read(_core.condition_tree(text, declared, dialect), declared)
    assert isinstance(condition, Expr)
    return condition


def routing_query(
    text: str,
    namespaces: Mapping[str, str] = _NONE,
    dialect: str = "xpath",
    scope: str = "",
    budget: Budget = Budget(),  # noqa: B008 - immutable
) -> RoutingQuery:
    """Map: the routing query of one user query.

    Never fails on a query that the engine accepts: what cannot be expressed, or would take more than the budget, is
    replaced by something that it implies. Empty if no message can match.

    Args:
        text: XPath, or For-Where-Return.
        namespaces: Prefix to URI; the empty prefix is the default for element names.
        dialect: `xpath`, `legacy` or `xquery`.
        scope: Whose messages it is about.
        budget: How much it may hold.

    Raises:
        QueryError: The query is refused.
    """
    conjunctions, _ = _conjunctions(text, tuple(sorted(namespaces.items())), dialect, budget)
    return frozenset(Disjunct(scope, paths) for paths in conjunctions)


def is_generalised(
    text: str,
    namespaces: Mapping[str, str] = _NONE,
    dialect: str = "xpath",
    budget: Budget = Budget(),  # noqa: B008 - immutable
) -> bool:
    """Whether the routing query of a user query is wider for want of budget. Remembered where it was made just now.

    Raises:
        QueryError: The query is refused.
    """
    return _conjunctions(text, tuple(sorted(namespaces.items())), dialect, budget)[1]


@lru_cache(maxsize=1 << 14)
def _conjunctions(
    text: str, namespaces: tuple[tuple[str, str], ...], dialect: str, budget: Budget
) -> tuple[tuple[frozenset[LinearPath], ...], bool]:
    condition = matching_condition(text, dict(namespaces), dialect)
    disjuncts, is_generalised = decompose(condition, budget)
    results = {without_implied(map(path_of, paths)) for paths in disjuncts}
    return tuple(_without_narrower(results)), is_generalised


def _without_narrower(conjunctions: Iterable[frozenset[LinearPath]]) -> list[frozenset[LinearPath]]:
    """Without those that imply another."""
    kept: list[frozenset[LinearPath]] = []
    for conjunction in sorted(conjunctions, key=lambda paths: (len(paths), sorted(paths))):
        if not any(conjunction_implies(conjunction, other) for other in kept):
            kept = [other for other in kept if not conjunction_implies(other, conjunction)]
            kept.append(conjunction)
    return kept


def collect(received: Mapping[_Target, RoutingQuery]) -> dict[Disjunct, frozenset[_Target]]:
    """Collect: one table for the routing queries of several targets; what they have in common is there once."""
    table: dict[Disjunct, frozenset[_Target]] = {}
    for target, query in received.items():
        for disjunct in query:
            table[disjunct] = table.get(disjunct, frozenset()) | {target}
    return table


def aggregate(table: Iterable[Disjunct], mapped: Iterable[RoutingQuery] = ()) -> RoutingQuery:
    """Aggregate: one routing query for a table and the mapped queries of one's own users.

    All identifiers become this broker's own, so that the same disjunct of several targets counts once and a disjunct
    that implies another goes, as far as that is seen without comparing each with each.
    """
    return frozenset(kept_without_implied([*table, *(disjunct for query in mapped for disjunct in query)]).values())
