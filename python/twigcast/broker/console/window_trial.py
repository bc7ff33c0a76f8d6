"""Trials of a window on messages: what its subscriber would have been told of them, and when.

The messages are taken from the oldest on, as if the subscription had begun with it. A trial is bounded as that of a
query is.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from twigcast.broker.console.query_trial import MessageTrial, QueryInput, QueryTrial, TrialRun, trial_engine
from twigcast.broker.model import StoredMessage
from twigcast.broker.store.messages import WINDOW_SOURCE
from twigcast.errors import TwigcastError
from twigcast.limits import Limits
from twigcast.windows.declarations import Window
from twigcast.windows.explaining import WindowExplanation
from twigcast.windows.windows import WindowDelivery, Windows

_KEY: Final = "q"
SHOWN_MAX: Final = 100
"""Deliveries that are shown."""

_STANDS_FOR_MAX: Final = 20
"""Messages of a delivery that are named."""


@dataclass(frozen=True, slots=True)
class TriedDelivery:
    """A time that the subscriber would have been told."""

    at: float
    what: str
    """Of what, in words."""
    window_key: str
    messages: Sequence[tuple[int, str]]
    """The numbers and ids of the first messages that it tells of."""
    more: int
    """How many more there are."""
    change: tuple[str, str] | None
    """The value before and the value now, of ``changed``."""


@dataclass(frozen=True, slots=True)
class WindowTrial:
    """The results of a window on several messages."""

    deliveries: Sequence[TriedDelivery]
    """The last times that the subscriber would have been told, the latest first."""
    times: int
    """How often it would have been told."""
    matching: int
    """How often without a window."""
    overdue: int
    """How many messages would have come too late to count."""
    holds: Mapping[str, str]
    """What would be known now, in words, by the value of ``by``."""
    explanations: Mapping[int, WindowExplanation]
    """What the window makes of each message, by its number."""
    delivered: frozenset[int]
    """The messages with which the subscriber would have been told."""


class WindowTrialRun(TrialRun):
    """A trial of a query with a window on messages, the oldest first; raises QueryError, or WindowError."""

    def __init__(
        self, query_input: QueryInput, window: Window, messages: Sequence[StoredMessage], limits: Limits
    ) -> None:
        super().__init__(messages)
        self._engine = trial_engine(query_input, limits)
        self._windows = Windows(self._engine)
        began = datetime.fromtimestamp(messages[0].received, UTC) if messages else None
        self._windows.add(_KEY, window, now=began)
        self._ids = {message.seq: message.message_id for message in messages}
        self._told: list[WindowDelivery] = []
        self._explanations: dict[int, WindowExplanation] = {}
        self._delivered: set[int] = set()

    def _try(self, message: StoredMessage) -> MessageTrial:
        if message.source == WINDOW_SOURCE:
            return MessageTrial(message, "no")  # what the broker has written is for its subscriber alone
        published, name = datetime.fromtimestamp(message.received, UTC), str(message.seq)
        try:
            match = self._engine.match(message.with_ids, published=published)
            if match.undecided:
                return MessageTrial(message, "odd", match.undecided[0].reason)
            self._explanations[message.seq] = self._windows.explain_window(
                message.with_ids, _KEY, matches=bool(match), message_id=name, published=published
            )
            answer = self._windows.deliver(message.with_ids, message_id=name, published=published)
        except TwigcastError as error:
            return MessageTrial(message, "odd", str(error))
        self._take(answer.deliveries)
        if any(one.action == "deliver" for one in answer.deliveries):
            self._delivered.add(message.seq)
        return MessageTrial(message, "yes" if match else "no")

    def _take(self, deliveries: Sequence[WindowDelivery]) -> None:
        # What is delivered is not shown, so it is not kept.
        self._told += [replace(one, payload=b"") for one in deliveries]

    @property
    def result(self) -> QueryTrial:
        """Returns what the query matches, the newest message first."""
        return QueryTrial(self._tried[::-1], len(self._messages) - len(self._tried))

    def windows(self) -> WindowTrial:
        """Returns what the subscriber would have been told, with what is due by now."""
        if self._tried and len(self._tried) == len(self._messages):
            self._take(self._windows.due(datetime.fromtimestamp(time.time(), UTC)))
        return WindowTrial(
            [self._shown(one) for one in self._told[: -SHOWN_MAX - 1 : -1]],
            len(self._told),
            sum(one.answer == "yes" for one in self._tried),
            self._windows.late,
            self._windows.status(_KEY),
            self._explanations,
            frozenset(self._delivered),
        )

    def _shown(self, one: WindowDelivery) -> TriedDelivery:
        numbers = [int(name) for name in one.stands_for]
        named = [(seq, self._ids[seq]) for seq in numbers[:_STANDS_FOR_MAX]]
        change = None if one.old is None or one.new is None else (one.old, one.new)
        return TriedDelivery(
            one.at, _WHAT[str(one.action)], one.window_key, named, max(0, len(numbers) - _STANDS_FOR_MAX), change
        )


_WHAT: Final = {"deliver": "a message", "release": "a digest", "absent": "silence"}
