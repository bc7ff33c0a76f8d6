"""Interests: the routing queries of the subscriptions of this broker, updated as these change.

Computing a routing query takes almost a millisecond, and a broker may have a million subscriptions. After its start, a
broker first requests everything in the scopes in which it has subscriptions, which is always correct. It narrows this
when all routing queries are computed. New subscriptions have precedence over stored ones, and so have messages that
were missed while the broker was down.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from twigcast.errors import TwigcastError
from twigcast.overlay.onyx.content.projection import Projection, part_of
from twigcast.overlay.onyx.content.routing_query import everything, is_generalised, routing_query
from twigcast.overlay.onyx.messages import RoutingQuery
from twigcast.registration import NO_PARAMS, Params
from twigcast.windows.declarations import Window

logger = logging.getLogger(__name__)

SLICE_SECONDS: Final = 0.002
"""Longest time that computing routing queries may hold up forwarding."""

_LATER_SECONDS: Final = 0.02
_NAMED_MAX: Final = 100
"""Subscriptions with generalised routing queries that the log names; further ones are only counted."""


class LocalInterest(NamedTuple):
    """A subscription, as far as it concerns other brokers."""

    id: int
    scope: str
    query: str
    namespaces: Mapping[str, str]
    dialect: str
    params: Params = NO_PARAMS
    window: Window | None = None


@dataclass(eq=False)
class LocalInterests:
    """The routing queries of the subscriptions; lives in the overlay's thread.

    ``subscribe`` adds or replaces routing queries by key, with the parts of messages that some of them use (if
    ``reduces``), and ``unsubscribe`` removes them. ``can_begin`` says that nothing is more urgent than the stored ones.
    """

    _subscribe: Callable[[Mapping[Hashable, RoutingQuery], Mapping[Hashable, Projection]], None]
    _unsubscribe: Callable[[list[Hashable]], None]
    reduces: bool = field(kw_only=True, default=False)
    can_begin: Callable[[], bool] = field(kw_only=True, default=lambda: True)
    _fresh: deque[LocalInterest] = field(init=False, default_factory=deque)
    _stored: deque[LocalInterest] = field(init=False, default_factory=deque)
    """Subscriptions of the start that are still to be processed."""
    _current: dict[int, LocalInterest | None] = field(init=False, default_factory=dict)
    """By id, the state of each subscription that waits or has changed since the start; ``None``: removed."""
    _generalised: set[int] = field(init=False, default_factory=set)
    """Subscriptions with generalised routing queries, since exact ones would be too large."""
    _named: int = field(init=False, default=0)
    _wide: set[str] = field(init=False, default_factory=set)
    """Scopes in which everything is requested."""
    _loading: bool = field(init=False, default=True)
    _has_work: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    @property
    def waiting(self) -> int:
        """The number of subscriptions whose routing queries are still to be computed."""
        return len(self._fresh) + len(self._stored)

    @property
    def generalised(self) -> int:
        """The number of subscriptions with generalised routing queries."""
        return len(self._generalised)

    @property
    def wide_scopes(self) -> frozenset[str]:
        """The scopes in which everything is requested for now."""
        return frozenset(self._wide)

    def begin(self, scopes: list[str]) -> None:
        """Subscribes to everything in the scopes that have subscriptions."""
        self._wide |= set(scopes)
        if scopes:
            self._subscribe({("everything", scope): everything(scope) for scope in scopes}, {})

    def add_stored(self, interests: list[LocalInterest]) -> None:
        """Adds stored subscriptions. Changes since the start have precedence."""
        self._stored.extend(interest for interest in interests if interest.id not in self._current)
        self._has_work.set()

    def finish_loading(self) -> None:
        """Marks the end of the stored subscriptions."""
        self._loading = False
        self._has_work.set()

    def change(self, changed: list[LocalInterest], removed: list[int]) -> None:
        """Adds or replaces subscriptions, and removes others."""
        for interest in changed:
            self._current[interest.id] = interest
            self._fresh.append(interest)
        for number in removed:
            self._current[number] = None
        self._generalised.difference_update(removed)
        if removed:
            self._unsubscribe(list(removed))
        self._has_work.set()

    async def run(self) -> None:
        """Computes routing queries, until cancelled."""
        while True:
            await self._has_work.wait()
            self._has_work.clear()
            while self._fresh or self._stored:
                can_begin = self.can_begin()
                self._slice(can_begin)
                # All that waits for this loop has precedence.
                await asyncio.sleep(0 if can_begin or self._fresh else _LATER_SECONDS)
            if not self._loading:
                self._narrow()

    def _slice(self, can_begin: bool) -> None:
        """Computes routing queries for `SLICE_SECONDS`."""
        end = time.perf_counter() + SLICE_SECONDS
        created: dict[Hashable, RoutingQuery] = {}
        parts: dict[Hashable, Projection] = {}
        while self._fresh or self._stored:
            if self._fresh:
                interest = self._fresh.popleft()
                if self._current.get(interest.id) is not interest:
                    continue
                if not (self._loading or self._stored):
                    # Before that, its older stored state may still be added.
                    del self._current[interest.id]
            elif not can_begin:
                break
            else:
                interest = self._stored.popleft()
                if interest.id in self._current:
                    continue
            created[interest.id] = self._routing_query(interest)
            part = _part(interest) if self.reduces else None
            if part is not None:
                parts[interest.id] = part
            if time.perf_counter() >= end:
                break
        if created:
            self._subscribe(created, parts)

    def _routing_query(self, interest: LocalInterest) -> RoutingQuery:
        if interest.window is not None and interest.window.second:
            # The second message of a sequence matters though the query does not match it.
            return everything(interest.scope)
        try:
            about = interest.query, interest.namespaces, interest.dialect
            query = routing_query(*about, interest.scope, params=interest.params)
            generalised = is_generalised(*about, params=interest.params)
        except TwigcastError as error:
            # The engine accepts the subscription, so it must get its messages.
            logger.warning("everything is requested for subscription %d: %s", interest.id, error)
            return everything(interest.scope)
        if generalised:
            self._note_generalised(interest.id)
        else:
            self._generalised.discard(interest.id)
        return query

    def _note_generalised(self, number: int) -> None:
        if number not in self._generalised and self._named < _NAMED_MAX:
            self._named += 1
            logger.info(
                "for subscription %d more is asked for than it wants: its routing query would be too large%s",
                number,
                "; further ones are counted only" if self._named == _NAMED_MAX else "",
            )
        self._generalised.add(number)

    def _narrow(self) -> None:
        """Replaces the requests for everything by the computed routing queries."""
        self._current.clear()
        if self._wide:
            scopes, self._wide = self._wide, set()
            self._unsubscribe([("everything", scope) for scope in sorted(scopes)])
            logger.info("the routing queries of all subscriptions are computed")


def _part(interest: LocalInterest) -> Projection | None:
    """Returns the part of a message that a subscription uses; ``None``: the whole."""
    if interest.params or interest.window is not None:
        # What windows ask messages is in no part.
        return None
    try:
        return part_of(interest.query, interest.namespaces, interest.dialect)
    except TwigcastError:
        # The log names this subscription already (see `_routing_query`).
        return None
