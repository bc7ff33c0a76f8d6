"""Subscriptions as their owners give them, before the engine has seen them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from twigcast.errors import InvalidKey, QuerySyntaxError, TwigcastError
from twigcast.reading.text import NO_CHARACTER, half_pair

Dialect = Literal["xpath", "legacy", "xquery"]
"""``xpath``: XPath 1.0 and For-Where-Return as documented; ``legacy``: the spellings of older papers as well;
``xquery``: what these leave out of XQuery as well, evaluated by Saxon (the extra ``xquery``)."""

DIALECTS: Final[dict[str, Dialect]] = {"xpath": "xpath", "legacy": "legacy", "xquery": "xquery"}
"""By name."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as its owner wrote it."""

    key: str
    """The subscriber's own identifier, unique within a set."""

    query: str
    """XPath, or For-Where-Return."""

    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Prefix to namespace; the empty prefix gives the default namespace of element names."""

    dialect: Dialect | None = None
    """``None``: that of the set."""


@dataclass(frozen=True, slots=True)
class RefusedSubscription:
    """A subscription that was not added."""

    subscription: Subscription
    error: TwigcastError

    index: int
    """Its place among those given, from 0."""

    @property
    def key(self) -> str:
        """Its key."""
        return self.subscription.key


Given = Subscription | tuple[str, str] | tuple[str, str, Mapping[str, str]]
"""A subscription, or a tuple of its key, query and (if need be) namespaces."""


def as_subscription(item: Given) -> Subscription:
    """A subscription that may be written as a tuple."""
    return item if isinstance(item, Subscription) else Subscription(*item)


def runs(values: list[Any]) -> Iterator[tuple[int, int]]:
    """First and past-the-last index of each run of equal values."""
    first = 0
    for index in range(1, len(values) + 1):
        if index == len(values) or values[index] != values[first]:
            yield first, index
            first = index


def is_text(subscription: Subscription) -> bool:
    """Whether a subscription consists of characters; a Python string may hold halves of surrogate pairs besides."""
    parts = (subscription.key, subscription.query, *subscription.namespaces, *subscription.namespaces.values())
    return all(half_pair(part) is None for part in parts)


def no_text(subscription: Subscription) -> TwigcastError:
    """The error for a subscription that is no text."""
    if half_pair(subscription.key) is not None:
        return InvalidKey(subscription.key, NO_CHARACTER)
    return no_query(subscription.query)


def no_query(query: str) -> QuerySyntaxError:
    """The error for a query with half of a surrogate pair, in itself or in its namespaces."""
    position = half_pair(query)
    if position is None:
        return QuerySyntaxError(query, 1, f"in its namespaces, {NO_CHARACTER}")
    return QuerySyntaxError(query, position + 1, NO_CHARACTER)
