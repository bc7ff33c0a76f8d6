"""Trials of a query on messages: checked, matched, marked, rewritten, explained.

Nothing here touches the broker's own engine: a query is tried in an engine of its own, under the broker's limits.
"""

from __future__ import annotations

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from twigcast.answers import Node
from twigcast.broker.console.region_maps import RegionMapView, region_maps
from twigcast.broker.model import StoredMessage
from twigcast.broker.stored_positions import explain_stored, nodes_of_stored
from twigcast.errors import (
    MissingExtra,
    QueryError,
    QueryLimitExceeded,
    QueryWarning,
    TwigcastError,
    UndecidedSubscription,
    UnsupportedQuery,
    caret,
)
from twigcast.explanation import Explanation
from twigcast.explanation.rendering import lines
from twigcast.limits import Limits
from twigcast.query_check import QueryReport, check
from twigcast.registration import Dialect, Params, Subscription
from twigcast.subscriptions import SubscriptionSet

SECONDS_MAX: Final = 2.0
"""Time that one query is tried on messages."""

STEP_SECONDS: Final = 0.01
"""Time after which other tenants have their turn."""

BYTES_MAX: Final = 16 << 20
"""Bytes of messages that one query is tried on."""

VISITS_MAX: Final = 2_000_000
"""Nodes that a query may visit in one message here, where a person waits."""

ROUTES: Final = {
    "automaton": "the shared automaton",
    "twig": "the shared twigs",
    "keyed": "the shared indexes of values",
    "candidate": "the shared automaton, with its conditions at each candidate",
    "verified": "the XPath engine, on messages with its necessary path",
    "always": "the XPath engine, on every message",
    "xquery": "Saxon, in a process of its own",
}
"""Texts for the names of routes."""


@dataclass(frozen=True, slots=True)
class QueryInput:
    """A query with its namespaces and dialect."""

    query: str
    namespaces: Mapping[str, str]
    dialect: Dialect = "xpath"
    params: Params = field(default_factory=dict)


# Checking -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueryCheckView:
    """The check of a text as a query."""

    report: QueryReport | None
    error: QueryError | None = None

    @property
    def route(self) -> str:
        """The route of the query, for people."""
        return ROUTES.get(self.report.route, self.report.route) if self.report else ""

    @property
    def caret(self) -> str:
        """The line of the query with the error, and a mark below its position."""
        return caret(self.error.text, self.error.column) if self.error else ""


def check_query(query_input: QueryInput, limits: Limits) -> QueryCheckView:
    """Reads a query, and returns how it would run, or what is wrong with it."""
    most = limits.query_bytes_max
    if len(query_input.query.encode()) > most:
        return QueryCheckView(
            None, QueryLimitExceeded("query_bytes_max", most, "the query is too long", query_input.query)
        )
    try:
        asked = query_input
        return QueryCheckView(
            check(asked.query, namespaces=asked.namespaces, dialect=asked.dialect, params=asked.params)
        )
    except QueryError as error:
        return QueryCheckView(None, error)
    except MissingExtra as error:
        return QueryCheckView(None, UnsupportedQuery(query_input.query, 1, str(error)))


# Trying on many messages ----------------------------------------------------------------------------------------------

Answer = Literal["yes", "no", "odd"]


@dataclass(frozen=True, slots=True)
class MessageTrial:
    """The result of a query on one message."""

    message: StoredMessage
    answer: Answer
    """``odd`` if it is undecided."""
    reason: str | None = None
    """Why it is undecided."""


@dataclass(frozen=True, slots=True)
class QueryTrial:
    """The results of a query on several messages."""

    tried: Sequence[MessageTrial]
    left: int = 0
    """Number of messages that were not tried for lack of time or because of their size."""

    @property
    def matching(self) -> int:
        """Number of messages that match."""
        return sum(1 for one in self.tried if one.answer == "yes")


class TrialRun(ABC):
    """A trial on messages, in their order, within bounds of time and size."""

    def __init__(self, messages: Sequence[StoredMessage]) -> None:
        self._messages = messages
        self._until = time.monotonic() + SECONDS_MAX
        self._remaining = BYTES_MAX
        self._tried: list[MessageTrial] = []
        self.is_over = not messages
        """Whether nothing more is tried."""

    def step(self) -> None:
        """Tries some more messages: one, and as many more as can be tried in a moment."""
        until = min(self._until, time.monotonic() + STEP_SECONDS)
        while not self.is_over:
            message = self._messages[len(self._tried)]
            self._remaining -= len(message.xml)
            if self._tried and (self._remaining < 0 or time.monotonic() > self._until):
                self.is_over = True
                return
            self._tried.append(self._try(message))
            self.is_over = len(self._tried) == len(self._messages)
            if time.monotonic() > until:
                return

    @abstractmethod
    def _try(self, message: StoredMessage) -> MessageTrial:
        """Tries it on one message."""

    @property
    def result(self) -> QueryTrial:
        """Returns the result so far."""
        return QueryTrial(self._tried, len(self._messages) - len(self._tried))


class QueryTrialRun(TrialRun):
    """A trial of a query on messages; raises QueryError."""

    def __init__(self, query_input: QueryInput, messages: Sequence[StoredMessage], limits: Limits) -> None:
        super().__init__(messages)
        self._engine = trial_engine(query_input, limits)

    def _try(self, message: StoredMessage) -> MessageTrial:
        return _try(self._engine, message)


def trial_engine(query_input: QueryInput, limits: Limits) -> SubscriptionSet:
    """Returns a set that has a query alone, under the key ``q``; raises QueryError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        return SubscriptionSet(
            [Subscription("q", query_input.query, params=query_input.params)],
            namespaces=query_input.namespaces,
            dialect=query_input.dialect,
            limits=_bounded(limits),
        )


def _bounded(limits: Limits) -> Limits:
    existing = limits.as_dict()
    return Limits(**{**existing, "query_visits_max": min(existing["query_visits_max"], VISITS_MAX)})


def _try(engine: SubscriptionSet, message: StoredMessage) -> MessageTrial:
    try:
        match = engine.match(message.with_ids)
    except TwigcastError as error:
        return MessageTrial(message, "odd", str(error))
    if match.undecided:
        return MessageTrial(message, "odd", match.undecided[0].reason)
    return MessageTrial(message, "yes" if match else "no")


# One message ----------------------------------------------------------------------------------------------------------


class ExplanationLine(NamedTuple):
    """A line of an explanation."""

    depth: int
    kind: Literal["holds", "fails", "note"]
    text: str
    aside: str = ""


@dataclass(frozen=True, slots=True)
class MessageReport:
    """The result of a query on one message, in full."""

    matches: bool
    text: str
    """The message as UTF-8; the positions of nodes refer to it."""
    nodes: Sequence[Node]
    result: bytes | None
    """The payload, if the query rewrites."""
    lines: Sequence[ExplanationLine]
    """The lines of the explanation."""
    trouble: str | None = None
    """Why a part is missing."""
    maps: Sequence[RegionMapView] = ()
    """The regions of the query, and the places of the message."""


def account(
    query_input: QueryInput,
    message: StoredMessage,
    limits: Limits,
    completed: Callable[[Explanation], Explanation] | None = None,
) -> MessageReport:
    """Returns everything about a query and one message; raises QueryError, or RejectedMessage.

    `completed` adds to the explanation what is known of the subscription that has the query.
    """
    engine = trial_engine(query_input, limits)
    xml, text = message.with_ids, as_text(message.xml)
    try:
        outcome = explain_stored(
            query_input.query,
            message,
            namespaces=query_input.namespaces,
            dialect=query_input.dialect,
            limits=_bounded(limits),
            params=query_input.params,
        )
        outcome = outcome if completed is None else completed(outcome)
        nodes = nodes_of_stored(engine.nodes(xml, "q"), message)
        result = _result(engine, xml) if outcome.matches else None
    except UndecidedSubscription as error:
        return MessageReport(False, text, (), None, (), error.reason)
    text = nodes[0].message.decode("utf-8", "replace") if nodes else text
    return MessageReport(
        outcome.matches,
        text,
        nodes if outcome.matches else (),
        result,
        _explanation_lines(lines(outcome.details)),
        maps=region_maps(outcome.details),
    )


def _result(engine: SubscriptionSet, xml: bytes) -> bytes | None:
    for delivery in engine.deliver(xml):
        if delivery.rewritten:
            return delivery.payload
    return None


def as_text(xml: bytes) -> str:
    """Returns a stored message, which is UTF-8, as text."""
    return xml.decode("utf-8", "replace")


_SIGNS: Final[Mapping[str, Literal["holds", "fails"]]] = {"+ ": "holds", "- ": "fails"}


def _explanation_lines(rendered: Iterable[str]) -> list[ExplanationLine]:
    """Returns the lines of an explanation."""
    result = []
    for line in rendered:
        text = line.lstrip(" ")
        depth = min(max((len(line) - len(text)) // 2 - 1, 0), 6)
        kind = _SIGNS.get(text[:2])
        if kind is None:
            result.append(ExplanationLine(depth, "note", text))
            continue
        reported, _, aside = text[2:].partition("  (")
        result.append(ExplanationLine(depth, kind, reported, f"({aside}" if aside else ""))
    return result
