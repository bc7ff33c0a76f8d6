"""The links of a broker: one for each neighbour."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

from twigcast.overlay.errors import PeerRefused
from twigcast.overlay.onyx.network.greeting import (
    CAPACITY,
    DUPLICATE,
    IDENTITY,
    STOPPING,
    SUPERSEDED,
    Greeting,
    check,
)
from twigcast.overlay.onyx.network.link import BROKEN, Link, TransportStream
from twigcast.overlay.onyx.network.reports import LinkFaults
from twigcast.overlay.onyx.network.settings import NetworkSettings
from twigcast.overlay.onyx.wire.exchange import Exchange

logger = logging.getLogger(__name__)

_HARMLESS = frozenset({DUPLICATE})


class LinkObserver(Protocol):
    """A receiver of the events of links. It is called in the event loop, and does not block."""

    def link_up(self, link: Link) -> None:
        """Is called when a link has begun."""

    def link_down(self, link: Link) -> None:
        """Is called when a link has ended."""

    def arrived(self, link: Link, message: Any) -> None:
        """Is called with each message."""

    def round_trip(self, link: Link) -> None:
        """Is called after each measurement of a round trip."""


class Links:
    """The links of a broker.

    Args:
        greeting: Returns the greeting of this broker.
        settings: Bounds and times.
        observer: Receives the events of links.
        exchange: Returns the agreement on forms for a neighbour, by its name.
        protocol: The protocol that is spoken over the links.
    """

    def __init__(
        self,
        greeting: Callable[[], Greeting],
        settings: NetworkSettings,
        observer: LinkObserver,
        exchange: Callable[[str], Exchange],
        protocol: str = "onyx",
    ) -> None:
        self.greeting = greeting
        self.protocol = protocol
        self.settings = settings
        self.troubles = LinkFaults()
        self._observer = observer
        self._exchange = exchange
        self._links: dict[int, Link] = {}  #: By number of the neighbour.
        self._gone: dict[int, asyncio.Event] = {}  #: By number of a neighbour, the event of the end of its link.
        self._skewed: set[int] = set()
        self._reading = asyncio.Event()
        self._reading.set()

    def read(self, on: bool) -> None:
        """Starts or stops reading from all links."""
        if on:
            self._reading.set()
        else:
            self._reading.clear()

    def of(self, identity: int) -> Link | None:
        """Returns the link to a neighbour, if there is one."""
        return self._links.get(identity)

    def all(self) -> list[Link]:
        """Returns all links."""
        return list(self._links.values())

    async def gone(self, identity: int) -> None:
        """Waits until there is no link to a broker."""
        while identity in self._links:
            await self._gone.setdefault(identity, asyncio.Event()).wait()

    def admit(self, peer: Greeting, *, dialed: bool, proven: frozenset[str] | None) -> None:
        """Refuses a broker that may not have a link, by `PeerRefused`."""
        mine = self.greeting()
        check(mine, peer, proven)
        existing = self._links.get(peer.identity)
        if existing is not None:
            _compare(mine, existing, peer, dialed=dialed)
            return
        if any(link.peer.name == peer.name for link in self._links.values()):
            raise PeerRefused(IDENTITY, f"another broker that calls itself {peer.name} is linked already; rename one")
        if len(self._links) >= self.settings.links_max:
            raise PeerRefused(CAPACITY, f"there are {len(self._links):,} links already, as many as there may be")

    async def keep(
        self,
        stream: TransportStream,
        peer: Greeting,
        *,
        where: str,
        dialed: bool,
        proven: frozenset[str] | None,
    ) -> tuple[str, str]:
        """Begins a link and runs it until it ends. Returns kind and reason of the end.

        Raises:
            PeerRefused: There is another link to this broker by now.
        """
        # Other links may have begun during the greeting.
        self.admit(peer, dialed=dialed, proven=proven)
        existing = self._links.get(peer.identity)
        if existing is not None:
            newer = peer.incarnation > existing.peer.incarnation
            self._end(existing, SUPERSEDED if newer else DUPLICATE, f"there is a newer link to {peer.name}")
        link = Link(
            stream,
            peer,
            where=where,
            dialed=dialed,
            secure=proven is not None,
            settings=self.settings,
            exchange=self._exchange(peer.name),
            reading=self._reading,
            on_message=self._observer.arrived,
            on_round_trip=self._measured,
        )
        self._links[link.identity] = link
        logger.info(
            "linked with %s", peer.name, extra={"peer": peer.name, "where": where, "secure": proven is not None}
        )
        self._observer.link_up(link)
        kind, reason = BROKEN, "the connection is lost"
        try:
            kind, reason = await link.run()
        finally:
            self._end(link, kind, reason)
        return kind, reason

    def break_off(self, identity: int, kind: str, reason: str) -> None:
        """Ends the link to a neighbour that broke the protocol."""
        link = self._links.get(identity)
        if link is not None:
            self._end(link, kind, f"{link.peer.name} broke the protocol: {reason}")

    def end_all(self) -> None:
        """Ends all links when this broker stops."""
        for link in self.all():
            self._end(link, STOPPING, f"{self.greeting().name} stops")

    def refused(self, peer: str, refusal: PeerRefused, *, by_them: bool = False) -> None:
        """Logs the refusal of a broker, or by a broker, and adds it to the faults."""
        if refusal.kind in _HARMLESS:
            return
        self.troubles.add(refusal.kind, peer, refusal.reason)
        text = "%s does not talk to this broker: %s" if by_them else "%s is refused: %s"
        logger.warning(text, peer, refusal.reason, extra={"peer": peer, "kind": refusal.kind})

    def _end(self, link: Link, kind: str, reason: str) -> None:
        link.end(kind, reason)
        if self._links.get(link.identity) is not link:
            return
        del self._links[link.identity]
        self._skewed.discard(link.identity)
        waiting = self._gone.pop(link.identity, None)
        if waiting is not None:
            waiting.set()
        if kind not in _HARMLESS and kind != STOPPING:
            self.troubles.add(kind, link.peer.name, reason)
            logger.warning(
                "the link with %s has ended: %s", link.peer.name, reason, extra={"peer": link.peer.name, "kind": kind}
            )
        self._observer.link_down(link)

    def _measured(self, link: Link) -> None:
        skew, most = link.skew, self.settings.skew_seconds
        if skew is not None and abs(skew) > most and link.identity not in self._skewed:
            self._skewed.add(link.identity)
            side = "ahead of" if skew > 0 else "behind"
            reason = f"its clock is {abs(skew):,.0f} s {side} ours; times in reports will not fit"
            self.troubles.add("clock", link.peer.name, reason)
            logger.warning("%s: %s", link.peer.name, reason, extra={"peer": link.peer.name, "kind": "clock"})
        self._observer.round_trip(link)


def _compare(mine: Greeting, existing: Link, peer: Greeting, *, dialed: bool) -> None:
    """Checks whether a new link replaces an existing one.

    Of two links that were dialed at the same time, both sides keep the one that the broker with the lower number
    dialed. A side that dials again knows that its last link has ended, even if the other side has not noticed it.
    """
    if peer.incarnation < existing.peer.incarnation:
        raise PeerRefused(
            SUPERSEDED,
            f"a later start of {peer.name} is linked already: two brokers run on one store, or on copies of one",
        )
    if peer.incarnation > existing.peer.incarnation or existing.dialed == dialed:
        return
    if dialed != (mine.identity < peer.identity):
        raise PeerRefused(DUPLICATE, f"there is a link with {peer.name} already")
