"""Routing queries and the three functions that construct them (Diao 2005, section 7.3.2).

* *Map* (:func:`routing_query`): a user's query becomes a routing query, the `or` of conjunctions of absolute linear
  paths. Every message that matches the query satisfies the routing query. The converse need not hold, since different
  elements may satisfy the paths of a conjunction.
* *Collect* (:func:`collect`): the routing queries of several neighbours become one table, which
  :mod:`twigcast.overlay.onyx.content.routing_table` updates and matches.
* *Aggregate* (:func:`aggregate`): a table and the queries of the broker's own users become one routing query for all.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar

from twigcast._core import condition_tree
from twigcast.overlay.onyx.content.decompose import Budget, decompose
from twigcast.overlay.onyx.content.implication import conjunction_implies, without_implied
from twigcast.overlay.onyx.content.implication_index import kept_without_implied
from twigcast.overlay.onyx.content.linear import path_of
from twigcast.overlay.onyx.messages import Disjunct, LinearPath, RoutingQuery
from twigcast.query import Expr
from twigcast.query.reading import read
from twigcast.registration import NO_PARAMS, Params

_Target = TypeVar("_Target", bound=Hashable)

#: The routing query that no message satisfies.
NOTHING: RoutingQuery = frozenset()

_NONE: Mapping[str, str] = MappingProxyType({})


def everything(scope: str = "") -> RoutingQuery:
    """Returns the routing query that every message of a scope satisfies."""
    return frozenset({Disjunct(scope, frozenset())})


def matching_condition(
    text: str, namespaces: Mapping[str, str] = _NONE, dialect: str = "xpath", params: Params = NO_PARAMS
) -> Expr:
    """Returns the condition at the document node that every match satisfies: the matching path in normal form.

    Raises:
        QueryError: The query is refused.
    """
    declared = dict(namespaces)
    condition = read(condition_tree(text, declared, dialect, params), declared)
    assert isinstance(condition, Expr)
    return condition


def routing_query(
    text: str,
    namespaces: Mapping[str, str] = _NONE,
    dialect: str = "xpath",
    scope: str = "",
    budget: Budget = Budget(),  # noqa: B008 - immutable
    params: Params = NO_PARAMS,
) -> RoutingQuery:
    """Returns the routing query of one user's query (Map).

    This never fails on a query that the engine accepts. What cannot be expressed, or exceeds the budget, is replaced by
    something that it implies. The result is empty if no message can match.

    Args:
        text: XPath, or For-Where-Return.
        namespaces: URI by prefix; the empty prefix is the default for element names.
        dialect: `xpath`, `legacy`, `doubles` or `xquery`.
        scope: Tenant whose messages are wanted.
        budget: Bounds of the result.
        params: The values of the query's parameters.

    Raises:
        QueryError: The query is refused.
    """
    conjunctions, _ = _conjunctions(text, tuple(sorted(namespaces.items())), dialect, budget, _hashable(params))
    return frozenset(Disjunct(scope, paths) for paths in conjunctions)


def is_generalised(
    text: str,
    namespaces: Mapping[str, str] = _NONE,
    dialect: str = "xpath",
    budget: Budget = Budget(),  # noqa: B008 - immutable
    params: Params = NO_PARAMS,
) -> bool:
    """Returns whether the routing query is wider because of the budget. Recent routing queries are cached.

    Raises:
        QueryError: The query is refused.
    """
    return _conjunctions(text, tuple(sorted(namespaces.items())), dialect, budget, _hashable(params))[1]


def _hashable(params: Params) -> str:
    """Returns parameters as a key, in which values of different types are different."""
    return json.dumps(dict(params), sort_keys=True)


@lru_cache(maxsize=1 << 14)
def _conjunctions(
    text: str, namespaces: tuple[tuple[str, str], ...], dialect: str, budget: Budget, params: str
) -> tuple[tuple[frozenset[LinearPath], ...], bool]:
    condition = matching_condition(text, dict(namespaces), dialect, json.loads(params))
    disjuncts, is_generalised = decompose(condition, budget)
    results = {without_implied(map(path_of, paths)) for paths in disjuncts}
    return tuple(_without_narrower(results)), is_generalised


def _without_narrower(conjunctions: Iterable[frozenset[LinearPath]]) -> list[frozenset[LinearPath]]:
    """Returns conjunctions without those that imply another."""
    kept: list[frozenset[LinearPath]] = []
    for conjunction in sorted(conjunctions, key=lambda paths: (len(paths), sorted(paths))):
        if not any(conjunction_implies(conjunction, other) for other in kept):
            kept = [other for other in kept if not conjunction_implies(other, conjunction)]
            kept.append(conjunction)
    return kept


def collect(received: Mapping[_Target, RoutingQuery]) -> dict[Disjunct, frozenset[_Target]]:
    """Returns one table of the routing queries of several targets, each disjunct once (Collect)."""
    table: dict[Disjunct, frozenset[_Target]] = {}
    for target, query in received.items():
        for disjunct in query:
            table[disjunct] = table.get(disjunct, frozenset()) | {target}
    return table


def aggregate(table: Iterable[Disjunct], mapped: Iterable[RoutingQuery] = ()) -> RoutingQuery:
    """Returns one routing query for a table and the routing queries of the own users (Aggregate).

    Targets are dropped, so that each disjunct counts once. A disjunct that implies another is left out if the
    implication is found without comparing all pairs.
    """
    return frozenset(kept_without_implied([*table, *(disjunct for query in mapped for disjunct in query)]).values())
