"""Subscriptions as their owners write them, and reports on adding them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn

from twigcast.arrow_types import ArrowArray, ArrowTable
from twigcast.errors import InvalidKey, QuerySyntaxError, TwigcastError
from twigcast.notebook import html_code, html_table
from twigcast.reading.text import NO_CHARACTER, half_pair

Dialect = Literal["xpath", "legacy", "doubles", "xquery"]
"""``xpath``: XPath 1.0 and For-Where-Return as documented; ``legacy``: the spellings of older papers as well;
``doubles``: the same as ``xpath``, but numbers are those of XPath 3.1, which may have exponents;
``xquery``: what these leave out of XQuery as well, evaluated by Saxon (the extra ``xquery``)."""

ParameterScalar = str | int | float | bool
"""A value that a parameter of a query may have."""

ParameterValue = ParameterScalar | Sequence[ParameterScalar]
"""The value of a parameter; what is compared with a list is compared with each of its values."""

Params = Mapping[str, ParameterValue]
"""The values of the parameters of a query, by name without ``$``."""

NO_PARAMS: Final[Params] = {}

Numbers = Literal["xs:double"]
"""How texts are read as numbers where it is not as in XPath 1.0."""

DIALECTS: Final[dict[str, Dialect]] = {"xpath": "xpath", "legacy": "legacy", "doubles": "doubles", "xquery": "xquery"}
"""The dialects by name."""

EngineDialect = Dialect | Literal["native"]
"""A dialect as the engine has it: ``native`` is what it reads of XQuery by itself."""

ENGINE_DIALECTS: Final[dict[str, Dialect]] = {**DIALECTS, "native": "xquery"}
"""The dialects by the name that the engine has for them."""


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

    group: str = ""
    """The group of subscriptions that it belongs to, such as those of one customer. Each group has its own share of the
    work that a message may cost. Subscriptions without a group form one group together."""

    params: Params = field(default_factory=dict)
    """The values of ``$name`` in the query, by name. A query with parameters costs as much as one that has the values
    written in it, and a value is never read as a part of a query."""


SubscriptionLike = (
    Subscription
    | tuple[str, str]
    | tuple[str, str, Mapping[str, str] | None]
    | tuple[str, str, Mapping[str, str] | None, Dialect | None]
    | tuple[str, str, Mapping[str, str] | None, Dialect | None, str | None]
    | tuple[str, str, Mapping[str, str] | None, Dialect | None, str | None, Params | None]
    | Mapping[str, object]
)
"""A subscription; a tuple of its key, query and (if need be) namespaces and dialect; or a record with these names."""

Subscriptions = (
    Mapping[str, str] | Mapping[str, Mapping[str, object]] | Iterable[SubscriptionLike] | ArrowTable | ArrowArray
)
"""Many subscriptions: queries, or records without a key, by key; a collection of subscriptions; or a table."""


@dataclass(frozen=True, slots=True)
class RefusedSubscription:
    """A subscription that was not added."""

    subscription: Subscription
    """The subscription. Values that should be strings and are not are converted by ``str``."""

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

    def _repr_html_(self) -> str:
        refused = [(one.index, one.key, "refused", html_code(str(one.error))) for one in self.refused]
        wrong = [(one.index, one.key, "looks wrong", one.text) for one in self.warnings]
        caption = f"{self.added:,} added, {len(refused):,} refused, {len(wrong):,} look wrong"
        return html_table(caption, ["row", "key", "", "reason"], [*refused, *wrong], len(refused) + len(wrong))

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
