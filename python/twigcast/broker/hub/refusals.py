"""Checks of new subscriptions, before anything is stored of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twigcast.broker.errors import Invalid
from twigcast.broker.hub.external_queries import SaxonExecutor
from twigcast.broker.model import NewQuery, NewSubscription
from twigcast.broker.options import refused_dialect
from twigcast.engine.external import check_query
from twigcast.errors import InvalidKey, TwigcastError
from twigcast.reading.text import NO_CHARACTER, half_pair
from twigcast.registration import DIALECTS, no_query


def refused_subscriptions(new: Sequence[NewSubscription], evaluations: SaxonExecutor) -> list[Exception | None]:
    """Returns for each new subscription the error that refuses it, or ``None``."""
    return [refused(n.key, n.query, n.namespaces, n.dialect, evaluations) for n in new]


def refused_queries(new: Sequence[NewQuery], evaluations: SaxonExecutor) -> list[Exception | None]:
    """Returns for each new query the error that refuses it, or ``None``."""
    return [refused(n.subscription.key, n.query, n.namespaces, n.dialect, evaluations) for n in new]


def refused(
    key: str, query: str, namespaces: Mapping[str, str], dialect: str, evaluations: SaxonExecutor
) -> Exception | None:
    """Returns the error that refuses a subscription by itself, or ``None``."""
    if half_pair(key) is not None:
        return InvalidKey(key, NO_CHARACTER)
    if not key or "\0" in key:
        return InvalidKey(key, "it is empty" if not key else "the character U+0000 cannot be kept")
    if any(half_pair(part) is not None for part in (query, *namespaces, *namespaces.values())):
        return no_query(query)
    if any("\0" in part for part in (*namespaces, *namespaces.values())):
        return Invalid("the character U+0000 cannot be part of a namespace")
    if (reason := refused_dialect(dialect)) is not None:
        return Invalid(reason)
    try:
        if dialect == "xquery":
            evaluations.check(query, namespaces)
        else:
            check_query(query, namespaces, DIALECTS[dialect])
    except TwigcastError as error:
        return error
    return None
