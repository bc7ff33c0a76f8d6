"""Expressions of XPath whose values are read of messages: what profiles of sources and windows ask them.

An engine of its own evaluates them all in one reading of a message: conditions are subscriptions, values are results of
For-Where-Return. There is no second XPath.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from twigcast._core import scan_nodes
from twigcast.engine.session import EngineSession
from twigcast.errors import QueryError, UndecidedSubscription
from twigcast.limits import Limits

VALUE_CHARACTERS_MAX: Final = 1_000
"""How long a value may be that is compared; of what is longer, a digest of all of it stands behind the beginning."""


class ExpressionValues:
    """The values of expressions in one message, under the keys of these."""

    def __init__(self, results: Mapping[str, bytes], undecided: Sequence[UndecidedSubscription]) -> None:
        self._results = results
        self.undecided = undecided
        """The expressions that could not be decided on it, under their keys."""

    @property
    def held(self) -> Iterable[str]:
        """The conditions that are met, and the expressions that select anything."""
        return self._results

    def holds(self, key: str) -> bool:
        """Returns whether a condition is met, or an expression selects anything."""
        return key in self._results

    def of(self, key: str) -> list[str]:
        """Returns the values of an expression that are not empty, without the spaces around them."""
        result = self._results.get(key)
        if not result:
            return []
        values: list[str] = []
        for kind, _, _, name, value, *_ in scan_nodes(b"<values>%b</values>" % result):
            if kind == "element" and name[1] == "value":
                values.append("")
            elif kind == "text" and value is not None:
                values[-1] += value
        return [stripped for value in values if (stripped := value.strip())]


class MessageExpressions:
    """Expressions under keys, evaluated together."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._session = EngineSession.empty(limits or Limits(), is_quiet=True)

    def add_condition(self, key: str, expression: str, namespaces: Mapping[str, str]) -> None:
        """Adds an expression of which only counts whether it holds.

        Raises:
            QueryError: It is refused.
            InvalidContext: A prefix cannot stand for its namespace.
        """
        self._add(key, [expression], namespaces)

    def add_values(self, key: str, expression: str, namespaces: Mapping[str, str]) -> None:
        """Adds an expression whose values are asked for: one for each node, or the one that it is worth.

        Raises:
            QueryError: It is refused.
            InvalidContext: A prefix cannot stand for its namespace.
        """
        self._add(key, [expression], namespaces)  # what is wrong with it is reported as it is written
        each = f"for $value in {expression} return <value>{{string($value)}}</value>"
        self._add(key, [each, f"for $root in /* return <value>{{string({expression})}}</value>"], namespaces)

    def _add(self, key: str, queries: Sequence[str], namespaces: Mapping[str, str]) -> None:
        """Adds the first of the queries that is not refused."""
        refusal: QueryError | None = None
        for query in queries:
            try:
                self._session.add(key, query, namespaces, "xpath", replace=True)
            except QueryError as error:
                refusal = refusal or error
            else:
                return
        self._session.discard(key)
        assert refusal is not None, "there is a query"
        raise refusal

    def discard(self, key: str) -> None:
        """Removes an expression."""
        self._session.discard(key)

    def read(self, message: bytes) -> ExpressionValues:
        """Returns the values of all expressions in a message.

        Raises:
            RejectedMessage: The message is not well-formed, or over a limit.
        """
        deliveries = self._session.deliver(message, None, "", whole=False, published=None)
        return ExpressionValues({one.key: one.payload for one in deliveries}, deliveries.undecided)


def bounded(text: str) -> str:
    """Returns a text, or one of bounded length that no other text has."""
    if len(text) <= VALUE_CHARACTERS_MAX:
        return text
    return f"{text[: VALUE_CHARACTERS_MAX - 65]}~{text_digest(text.encode(errors='surrogatepass'))}"


def text_digest(content: bytes) -> str:
    """Returns a digest of a text, in hexadecimal digits."""
    import hashlib  # hardly ever needed, and not at once

    return hashlib.sha256(content).hexdigest()
