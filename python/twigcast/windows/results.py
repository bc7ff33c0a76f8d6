"""Results with the value before and the value now, as ``$old`` and ``$new``, for subscriptions to what has changed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from twigcast.engine.session import EngineSession
from twigcast.errors import QueryError, WindowError
from twigcast.limits import Limits
from twigcast.query import parse
from twigcast.query.flwr import ForWhereReturn
from twigcast.query.xpath import Literal
from twigcast.registration import Params, Subscription
from twigcast.windows.declarations import Window, WindowKind

OLD_AND_NEW: Final = ("old", "new")
"""The parameters that hold the values."""

_NAMED: Final = re.compile(r"\$(old|new)(?![\w.\-])")
_MARK: Final = "\ue000"
"""A character that queries do not have: it is for private use."""


def change_params(window: Window | None, subscription: Subscription) -> dict[str, str]:
    """Returns those of ``$old`` and ``$new`` that a query uses, with the empty values that it is registered with.

    Raises:
        WindowError: It uses them elsewhere than in its results, or its owner gives them values.
    """
    if window is None or window.kind is not WindowKind.CHANGED:
        return {}
    given = [name for name in OLD_AND_NEW if subscription.params.get(name, "") != ""]
    if given:
        raise WindowError(
            "changed", f"${given[0]} stands for a value that has changed; its value beside the query is an empty text"
        )
    used = dict.fromkeys(_NAMED.findall(subscription.query), _MARK)
    if not used:
        return {}
    dialect = subscription.dialect or "xpath"
    if dialect == "xquery":
        raise WindowError("changed", "$old and $new are for queries that are not in XQuery")
    try:
        tree = parse(subscription.query, subscription.namespaces, dialect, {**subscription.params, **used})
    except QueryError:
        # They stand in a text, or the query is refused for something else: the engine says what it is.
        return {}
    outside = str(replace(tree, result=Literal(""))) if isinstance(tree, ForWhereReturn) else str(tree)
    if _MARK in outside:
        raise WindowError("changed", "$old and $new are known when a message has matched: use them behind return only")
    return dict.fromkeys(used, "")


def query_params(window: Window | None, subscription: Subscription) -> Params:
    """Returns the parameters with which the query of a subscription is registered.

    Raises:
        WindowError: As for :func:`change_params`.
    """
    used = change_params(window, subscription)
    return {**subscription.params, **used} if used else subscription.params


def without_change_params(params: Params, window: Window | None) -> Params:
    """Returns the parameters of a query without those that :func:`change_params` has added."""
    if window is None or window.kind is not WindowKind.CHANGED:
        return params
    return {name: value for name, value in params.items() if name not in OLD_AND_NEW}


def changed_result(
    subscription: Subscription, params: Params, message: bytes, *, arrived: float, limits: Limits
) -> bytes | None:
    """Returns the result of a query for a message, with values for ``$old`` and ``$new``; ``None`` if there is none.

    Raises:
        RejectedMessage: The message is not well-formed, or over a limit.
        QueryError: The query is refused with these values.
    """
    session = EngineSession.empty(limits, is_quiet=True)
    dialect = subscription.dialect or "xpath"
    session.add("", subscription.query, subscription.namespaces, dialect, params={**subscription.params, **params})
    deliveries = session.deliver(message, published=datetime.fromtimestamp(arrived, UTC))
    return next((one.payload for one in deliveries if one.rewritten), None)


def values_of_change(used: Mapping[str, object], old: str, new: str) -> dict[str, str]:
    """Returns the values of those of ``$old`` and ``$new`` that a query uses."""
    return {name: value for name, value in zip(OLD_AND_NEW, (old, new), strict=True) if name in used}
