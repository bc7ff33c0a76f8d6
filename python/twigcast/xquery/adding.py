"""Adding subscriptions whose queries may be in XQuery: the engine takes what it can, Saxon the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twigcast._core import Engine
from twigcast.errors import QueryError, QueryLimitExceeded, TwigcastError
from twigcast.xquery.saxon import shared


def add(
    engine: Engine, key: str, query: str, namespaces: Mapping[str, str], dialect: str, *, replace: bool
) -> list[str]:
    """Register one query; returns warnings.

    Raises:
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed.
        DuplicateKey: The key is taken.
        QueryError: Neither takes the query.
    """
    if dialect != "xquery":
        return engine.add(key, query, namespaces, dialect, replace)
    saxon = shared()
    try:
        return engine.add(key, query, namespaces, "xpath", replace)
    except QueryLimitExceeded:
        raise
    except QueryError:
        saxon.check(query, namespaces)
        return engine.add(key, query, namespaces, "xquery", replace)


def add_many(
    engine: Engine,
    keys: Sequence[str],
    queries: Sequence[str],
    namespaces: Sequence[Mapping[str, str]],
    dialect: str,
    *,
    replace: bool,
) -> list[tuple[int, TwigcastError]]:
    """Register many queries; the positions and errors of those refused. ``namespaces``: one for all, or one each.

    Raises:
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed.
    """
    if dialect != "xquery":
        return engine.add_many(keys, queries, namespaces, dialect, replace)
    shared()
    refused = []
    for position, error in engine.add_many(keys, queries, namespaces, "xpath", replace):
        if isinstance(error, QueryError) and not isinstance(error, QueryLimitExceeded):
            its_own = namespaces[position] if len(namespaces) > 1 else namespaces[0]
            try:
                add(engine, keys[position], queries[position], its_own, dialect, replace=replace)
            except TwigcastError as last:
                refused.append((position, last))
        else:
            refused.append((position, error))
    return refused
