"""Subscriptions as their owners write them, and reports on adding them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn

from twigcast.errors import InvalidKey, QuerySyntaxError, TwigcastError
from twigcast.reading.text import NO_CHARACTER, half_pair

Dialect = Literal["xpath", "legacy", "xquery"]
"""``xpath``: XPath 1.0 and For-Where-Return as documented; ``legacy``: the spellings of older papers as well;
``xquery``: what these leave out of XQuery as well, evaluated by Saxon (the extra ``xquery``)."""

DIALECTS: Final[dict[str, Dialect]] = {"xpath": "xpath", "legacy": "legacy", "xquery": "xquery"}
"""The dialects by name."""


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


SubscriptionLike = Subscription | tuple[str, str] | tuple[str, str, Mapping[str, str]]
"""A subscription, or a tuple of its key, query and (if need be) namespaces."""


@dataclass(frozen=True, slots=True)
class RefusedSubscription:
    """A subscription that was not added."""

    subscription: Subscription
    error: TwigcastError

    index: int
    """Its position among those that were passed, from 0."""

    @property
    def key(self) -> str:
        """The key of the subscription."""
        return self.subscription.key


@dataclass(frozen=True, slots=True)
class SubscriptionWarning:
    """A subscription that was added although its query looks wrong."""

    key: str

    index: int
    """Its position among those that were passed, from 0."""

    text: str
    """What looks wrong."""


@dataclass(frozen=True, slots=True)
class AddReport:
    """A report on adding many subscriptions. It has no truth value: see :attr:`ok`."""

    added: int
    """How many were added, or took the place of others."""

    refused: Sequence[RefusedSubscription]
    """Those that were not added, in the order in which they were passed."""

    warnings: Sequence[SubscriptionWarning]
    """Those that were added and look wrong, in the same order."""

    @property
    def ok(self) -> bool:
        """``True`` if all were added."""
        return not self.refused

    def raise_if_refused(self) -> None:
        """Raises the error of the first subscription that was refused, if any was.

        Raises:
            DuplicateKey: Its key is taken.
            QueryError: Its query is refused.
        """
        for refused in self.refused:
            raise refused.error

    def __bool__(self) -> NoReturn:
        raise TypeError("an AddReport has no truth value; use .ok (all were added) or .refused")


def as_subscription(item: Any) -> Subscription:
    """Returns an item of :data:`SubscriptionLike` as a subscription."""
    return item if isinstance(item, Subscription) else Subscription(*item)


def text_error(subscription: Subscription) -> TwigcastError:
    """Returns the error for a subscription with half of a surrogate pair, which a Python string may hold."""
    if half_pair(subscription.key) is not None:
        return InvalidKey(subscription.key, NO_CHARACTER)
    return no_query(subscription.query)


def no_query(query: str) -> QuerySyntaxError:
    """Returns the error for a query with half of a surrogate pair, in itself or in its namespaces."""
    index = half_pair(query)
    if index is None:
        return QuerySyntaxError(query, 1, f"in its namespaces, {NO_CHARACTER}")
    return QuerySyntaxError(query, index + 1, NO_CHARACTER)


def require_str(value: object, name: str) -> None:
    """Raises an error unless an argument is a string.

    Raises:
        TypeError: It is not; the error names the argument.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str, not {type(value).__name__}")
