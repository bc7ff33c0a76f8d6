"""Queries in XQuery: each follows the stored messages by itself, as replay does, without an end.

Saxon evaluates one query on one message at a time, in a process of its own, and may take up to a limit for it.
Publishing cannot wait for that. So these queries take no part in live matching. A *follower* reads each stored message
once, lets the engine decide whether Saxon has to evaluate it, and stores its deliveries together with its position.
The ceiling of its queue keeps the order, a kill loses nothing, and a slow query delays only itself.

Other subscriptions get the messages before they are paused, and none until they are resumed. So does a follower,
although it may be paused or resumed before it has reached that message: it goes on until the beginning of the pause,
and skips the pauses that have ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final

from twigcast.broker.errors import Invalid
from twigcast.broker.hub.population import RegisteredSubscription, TenantPopulation
from twigcast.broker.hub.tenant_threads import TenantThreads
from twigcast.broker.model import (
    ErrorRecord,
    NewDelivery,
    NewQuery,
    NewSubscription,
    Pause,
    StoredMessage,
    StoredSubscription,
)
from twigcast.broker.options import HubOptions, refused_dialect
from twigcast.broker.store.store import Store
from twigcast.engine.external import check_query
from twigcast.errors import InvalidContext, InvalidKey, TwigcastError
from twigcast.reading.text import NO_CHARACTER, half_pair
from twigcast.registration import DIALECTS, Params, Subscription, no_query
from twigcast.subscription_items import checked_namespaces, checked_params
from twigcast.windows.declarations import Window
from twigcast.windows.results import query_params
from twigcast.xquery.exchange import Reply
from twigcast.xquery.saxon import Saxon

STEP_MESSAGES: Final = 50
"""Number of messages after which the next follower has its turn."""

STEP_BYTES: Final = 4 << 20
STEP_SECONDS: Final = 0.25
"""Time after which the next follower has its turn."""

REPORT_SECONDS: Final = 0.5
"""Time after which a follower without deliveries stores its position."""


class SaxonExecutor:
    """The Saxon process of all followers, called from one thread that tenants share."""

    def __init__(self, options: HubOptions) -> None:
        self._seconds_max = options.xquery_seconds_max
        self._saxon: Saxon | None = None
        self._starting = threading.Lock()
        self.thread = TenantThreads(1, "twigcast-xquery")

    def check(self, query: str, namespaces: Mapping[str, str], params: Params) -> None:
        """Raises QueryError unless engine and Saxon take a query; blocks."""
        check_query(query, namespaces, "xquery", params, saxon=self._started)

    def evaluate(
        self, query: str, namespaces: Mapping[str, str], message: bytes, params: Params, is_condition: bool
    ) -> Reply:
        """Evaluates a query on a message; blocks. Errors are part of the reply."""
        return self._started().evaluate(query, namespaces, message, params, is_condition)

    def _started(self) -> Saxon:
        with self._starting:
            if self._saxon is None:
                self._saxon = Saxon(self._seconds_max)
            return self._saxon

    def stop(self) -> None:
        """Waits for the running evaluation, and ends; blocks."""
        self.thread.stop()
        if self._saxon is not None:
            self._saxon.close()


def refusals_of(
    new: Sequence[NewSubscription] | Sequence[NewQuery], evaluations: SaxonExecutor
) -> list[Exception | None]:
    """Returns for each new subscription or query the error that refuses it, or ``None``."""
    return [refused(n.key, n.query, n.namespaces, n.dialect, n.params, evaluations, n.window) for n in new]


def refused(
    key: str,
    query: str,
    namespaces: Mapping[str, str],
    dialect: str,
    params: Params,
    evaluations: SaxonExecutor,
    window: Window | None = None,
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
        checked_namespaces(namespaces)
        values = checked_params(params)
    except (InvalidContext, TypeError) as error:
        return Invalid(error.reason if isinstance(error, InvalidContext) else str(error))
    try:
        if dialect == "xquery":
            evaluations.check(query, namespaces, values)
        else:
            asked = Subscription(key, query, namespaces, DIALECTS[dialect], "", values)
            check_query(query, namespaces, DIALECTS[dialect], query_params(window, asked))
    except TwigcastError as error:
        return error
    return None


def is_paused_at(position: int, pauses: Sequence[Pause]) -> bool:
    """Returns whether a follower has nothing to read until it is resumed."""
    return bool(pauses) and pauses[-1].last_seq is None and position >= pauses[-1].first_seq


class ExternalQueryRunner:
    """A query in XQuery on its way through the messages, with the pauses that it has not passed."""

    def __init__(
        self,
        subscription: StoredSubscription,
        options: HubOptions,
        evaluations: SaxonExecutor,
        pauses: Sequence[Pause] = (),
    ) -> None:
        self.member = RegisteredSubscription.of(subscription)
        self.stored_at = subscription.replay_next or 0
        """The stored position."""
        self.position = self.stored_at
        """The next sequence number."""
        self.reported_at = time.monotonic()
        self.pauses = list(pauses)
        self._population = TenantPopulation(options.limits, evaluations)
        self._population.register(self.member)
        self.deliveries: list[NewDelivery] = []
        """The deliveries of the last step."""
        self.errors: list[ErrorRecord] = []

    @property
    def is_over(self) -> bool:
        """Returns whether it has reached a pause that lasts."""
        return is_paused_at(self.position, self.pauses)

    @property
    def is_report_due(self) -> bool:
        """Returns whether its deliveries or its position are to be stored now."""
        waited = self.is_over or time.monotonic() - self.reported_at >= REPORT_SECONDS
        return bool(self.deliveries or self.errors or (waited and self.position > self.stored_at))

    def step(self, store: Store, most: int) -> None:
        """Matches the next messages, at most so many; blocks."""
        end = self._end_before_a_pause(store.last_seq())
        most = min(most, STEP_MESSAGES)
        results = store.messages(
            self.member.tenant_id, after=self.position - 1, up_to=end, limit=most, bytes_max=STEP_BYTES
        )
        if not results:
            self.position = max(self.position, end + 1)
        time_is_up = time.monotonic() + STEP_SECONDS
        for message in results:
            self._evaluate(message)
            self.position = message.seq + 1
            if time.monotonic() > time_is_up:
                break

    def _end_before_a_pause(self, last: int) -> int:
        """Skips a pause that has ended; returns the last message before the next pause."""
        for pause in self.pauses:
            if pause.first_seq > self.position:
                return min(last, pause.first_seq - 1)
            if pause.last_seq is None:
                return self.position - 1
            self.position = max(self.position, pause.last_seq + 1)
        return last

    def _evaluate(self, message: StoredMessage) -> None:
        (outcome,) = self._population.match([message.with_ids], [message.received])
        reasons = [failure.reason for failure in outcome.undecided]
        if outcome.error is not None:
            reasons.append(str(outcome.error))
        now = time.time()
        self.errors += [ErrorRecord(self.member.id, now, reason, message.seq) for reason in reasons]
        payloads = outcome.payloads or [None] * len(outcome.slots)
        self.deliveries += [NewDelivery(self.member.queue_id, message.seq, self.member.id, p) for p in payloads]

    def was_stored(self) -> None:
        """Marks its deliveries and its position as stored."""
        self.stored_at, self.reported_at = self.position, time.monotonic()
        self.pauses = [p for p in self.pauses if p.last_seq is None or p.last_seq >= self.position]
        self.deliveries, self.errors = [], []
