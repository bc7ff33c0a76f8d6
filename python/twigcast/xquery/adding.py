"""Adding subscriptions whose queries may be in XQuery: the engine takes what it can, Saxon the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
    refused = engine.add_many(keys, queries, namespaces, "xpath", replace)

    def again(position: int) -> None:
        its_own = namespaces[position] if len(namespaces) > 1 else namespaces[0]
        add(engine, keys[position], queries[position], its_own, dialect, replace=replace)

    return _refused_at_last(refused, again)


def add_pairs(
    engine: Engine, pairs: list[Any], namespaces: Mapping[str, str], dialect: str, *, replace: bool
) -> list[tuple[int, TwigcastError]] | None:
    """As :func:`add_many`, for tuples of key and query. ``None``: some are not just that; nothing was added.

    Raises:
        MissingExtra: The dialect is ``xquery``, and Saxon is not installed.
    """
    if dialect != "xquery":
        return engine.add_pairs(pairs, namespaces, dialect, replace)
    shared()
    refused = engine.add_pairs(pairs, namespaces, "xpath", replace)
    if refused is None:
        return None

    def again(position: int) -> None:
        key, query = pairs[position]
        add(engine, key, query, namespaces, dialect, replace=replace)

    return _refused_at_last(refused, again)


def _refused_at_last(
    refused: list[tuple[int, TwigcastError]], again: Callable[[int], None]
) -> list[tuple[int, TwigcastError]]:
    """Those that Saxon refuses too, of what the engine refused."""
    remaining = []
    for position, error in refused:
        if isinstance(error, QueryError) and not isinstance(error, QueryLimitExceeded):
            try:
                again(position)
            except TwigcastError as last:
                remaining.append((position, last))
        else:
            remaining.append((position, error))
    return remaining
