"""What the subscriptions of this broker want from others: their routing queries, kept as they change.

To make a routing query of a subscription takes the better part of a millisecond, and a broker may have a million of
them. So after a start, a broker first asks for everything in the scopes in which it has subscriptions, which is always
right, and for what it really wants when it knows that. Subscriptions that are new meanwhile, or later, go first; and so
does what was missed while the broker was down.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Final, NamedTuple

from twigcast.errors import TwigcastError
from twigcast.overlay.onyx.content.projection import Projection, part_of
from twigcast.overlay.onyx.content.routing_query import everything, is_generalised, routing_query
from twigcast.overlay.onyx.messages import RoutingQuery

logger = logging.getLogger(__name__)

SLICE_SECONDS: Final = 0.002
"""How long the making of routing queries may keep messages from being passed on."""

_LATER_SECONDS: Final = 0.02
_NAMED_MAX: Final = 100
"""Subscriptions with generalised routing queries that the log names; further ones are counted."""


class LocalInterest(NamedTuple):
    """A subscription as it concerns other brokers."""

    id: int
    scope: str
    query: str
    namespaces: Mapping[str, str]
    dialect: str


class LocalInterests:
    """The routing queries of the subscriptions; lives in the overlay's thread.

    Args:
        subscribe: Adds or replaces the routing queries under some keys.
        unsubscribe: Removes those under some keys.
        reduces: Whether it is told too what part of messages each takes.
        may_begin: Whether there is nothing more urgent than the subscriptions that were there at the start.
    """

    def __init__(
        self,
        subscribe: Callable[[Mapping[Hashable, RoutingQuery], Mapping[Hashable, Projection]], None],
        unsubscribe: Callable[[list[Hashable]], None],
        *,
        reduces: bool = False,
        may_begin: Callable[[], bool] = lambda: True,
    ) -> None:
        self._subscribe = subscribe
        self._reduces = reduces
        self._may_begin = may_begin
        self._unwant = unsubscribe
        self._fresh: deque[LocalInterest] = deque()
        self._stored: deque[LocalInterest] = deque()
        """Those that were there at the start, not looked at yet."""
        self._current: dict[int, LocalInterest | None] = {}
        """By subscription that waits or has changed since the start: as it is now; ``None``: gone."""
        self._generalised: set[int] = set()
        """Subscriptions whose routing queries would be too large, so that something wider is asked for."""
        self._named = 0
        self._wide: set[str] = set()
        """Scopes in which everything is asked for."""
        self._loading = True
        self._news = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Subscriptions whose routing queries are still to be made."""
        return len(self._fresh) + len(self._stored)

    @property
    def generalised(self) -> int:
        """Subscriptions for which more is asked for than they want, since their routing queries would be too large."""
        return len(self._generalised)

    @property
    def wide_scopes(self) -> frozenset[str]:
        """Scopes in which everything is asked for meanwhile."""
        return frozenset(self._wide)

    def begin(self, scopes: list[str]) -> None:
        """Ask for everything in the scopes in which there are subscriptions."""
        self._wide |= set(scopes)
        if scopes:
            self._subscribe({("everything", scope): everything(scope) for scope in scopes}, {})

    def start_with(self, interests: list[LocalInterest]) -> None:
        """Some of those that were there at the start; what was heard of them since counts more."""
        self._stored.extend(interest for interest in interests if interest.id not in self._current)
        self._news.set()

    def started(self) -> None:
        """All that were there at the start have been given."""
        self._loading = False
        self._news.set()

    def change(self, changed: list[LocalInterest], removed: list[int]) -> None:
        """Subscriptions are new or different, or take no part any more."""
        for interest in changed:
            self._current[interest.id] = interest
            self._fresh.append(interest)
        for number in removed:
            self._current[number] = None
        self._generalised.difference_update(removed)
        if removed:
            self._unwant(list(removed))
        self._news.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._fresh or self._stored:
                may_begin = self._may_begin()
                self._slice(may_begin)
                # Whatever waits for this loop comes first.
                await asyncio.sleep(0 if may_begin or self._fresh else _LATER_SECONDS)
            if not self._loading:
                self._narrow()

    def _slice(self, may_begin: bool) -> None:
        """Make routing queries for a moment."""
        end = time.perf_counter() + SLICE_SECONDS
        created: dict[Hashable, RoutingQuery] = {}
        parts: dict[Hashable, Projection] = {}
        while self._fresh or self._stored:
            if self._fresh:
                interest = self._fresh.popleft()
                if self._current.get(interest.id) is not interest:
                    continue
                if not (self._loading or self._stored):
                    # Else what was stored of it, which is older, may still come.
                    del self._current[interest.id]
            elif not may_begin:
                break
            else:
                interest = self._stored.popleft()
                if interest.id in self._current:
                    continue
            created[interest.id] = self._routing_query(interest)
            part = _part(interest) if self._reduces else None
            if part is not None:
                parts[interest.id] = part
            if time.perf_counter() >= end:
                break
        if created:
            self._subscribe(created, parts)

    def _routing_query(self, interest: LocalInterest) -> RoutingQuery:
        try:
            query = routing_query(interest.query, interest.namespaces, interest.dialect, interest.scope)
            generalised = is_generalised(interest.query, interest.namespaces, interest.dialect)
        except TwigcastError as error:
            # The engine takes it, so it counts.
            logger.warning("everything is asked for, for subscription %d: %s", interest.id, error)
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
        """All is known: ask for it, and no longer for everything."""
        self._current.clear()
        if self._wide:
            scopes, self._wide = self._wide, set()
            self._unwant([("everything", scope) for scope in sorted(scopes)])
            logger.info("what the subscriptions here want of other brokers is known")


def _part(interest: LocalInterest) -> Projection | None:
    """What a subscription takes of a message; ``None``: the whole."""
    try:
        return part_of(interest.query, interest.namespaces, interest.dialect)
    except TwigcastError:
        # As above: it has been told of there.
        return None
