"""A node of ONYX in a real network: its links, its clock, its timers.

Everything happens in one event loop, that of the thread which starts the driver. Commands to the node that come from
elsewhere are given in that loop, and their effects handed to :meth:`Driver.act`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

from twigcast.overlay.core import Address, Effects
from twigcast.overlay.onyx.messages import PROTOCOL
from twigcast.overlay.onyx.network.dialer import Dialer
from twigcast.overlay.onyx.network.greeting import Greeting
from twigcast.overlay.onyx.network.link import Link
from twigcast.overlay.onyx.network.links import Links
from twigcast.overlay.onyx.network.listener import Listener
from twigcast.overlay.onyx.network.reports import DialReport, LinkFaults, LinkReport
from twigcast.overlay.onyx.network.settings import NetworkSettings
from twigcast.overlay.onyx.network.tls import Certificates, Target
from twigcast.overlay.onyx.wire.bodies import Bodies
from twigcast.overlay.onyx.wire.exchange import Exchange, FormPreferences

logger = logging.getLogger(__name__)


class OverlayNode(Protocol):
    """What the driver asks of a node. Times are seconds of a clock that only goes forward."""

    def link_up(self, neighbour: Address, cost: int, now: float) -> Effects:
        """There is a new link to a neighbour; what it costs."""

    def link_cost(self, neighbour: Address, cost: int, now: float) -> Effects:
        """A link costs something else now."""

    def link_down(self, neighbour: Address, now: float) -> Effects:
        """The link to a neighbour broke; what was under way may be lost."""

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        """A neighbour has sent a message."""

    def wake(self, timer: Hashable, now: float) -> Effects:
        """A timer set earlier went off."""


class Driver:
    """Runs a node, in the event loop in which it is made.

    Args:
        node: It.
        name: Of the broker.
        instance: Of its store.
        incarnation: Of this start.
        software: Its release, for people.
        deliver: Takes what the node hands to the application.
        settings: Bounds and times.
        certificates: Ours; ``None``: links without them, which the caller has made sure are permitted.
        listen: Host and port for others to dial; ``None``: none is dialed.
        where: How others reach it, for people; by default where it listens.
        join: Brokers to be reached.
        bodies: Brings messages into forms.
        forms: Which forms, for which neighbour; by default text for all.
    """

    def __init__(
        self,
        node: OverlayNode,
        *,
        name: str,
        instance: bytes,
        incarnation: int,
        software: str,
        deliver: Callable[[Sequence[Any]], None],
        settings: NetworkSettings | None = None,
        certificates: Certificates | None = None,
        listen: tuple[str, int] | None = None,
        where: str = "",
        join: Sequence[Target] = (),
        bodies: Bodies | None = None,
        forms: FormPreferences | None = None,
    ) -> None:
        self.settings = settings or NetworkSettings()
        self._node = node
        self._name = name
        self._instance = instance
        self._incarnation = incarnation
        self._software = software
        self._where = where
        self._deliver = deliver
        self._bodies, self._forms = bodies or Bodies(), forms or FormPreferences()
        self.links = Links(self.greeting, self.settings, self, self._exchange)
        self.identity = self.greeting().identity
        self._listener = None if listen is None else Listener(*listen, self.links, certificates)
        self._dialers = [Dialer(target, self.links, certificates) for target in join]
        self._tasks: list[asyncio.Task[None]] = []
        self._costs: dict[int, int] = {}
        """By neighbour, what the node was told."""
        self._cost_sent_at: dict[int, float] = {}
        """When."""
        self._timers: set[asyncio.TimerHandle] = set()
        self._loop = asyncio.get_running_loop()
        self._running = True

    def greeting(self) -> Greeting:
        """How this broker greets now."""
        return Greeting(
            PROTOCOL, self._name, self._instance, self._incarnation, self._where, time.time(), self._software
        )

    def _exchange(self, peer: str) -> Exchange:
        return Exchange(self._bodies, self._forms.of(peer))

    # Start and stop ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and begin to dial.

        Raises:
            NetworkError: The address is taken, or cannot be used.
            CertificateError: A file cannot be used.
        """
        if self._listener is not None:
            await self._listener.start()
            self._where = self._where or self._listener.address
            logger.info("brokers are listened for on %s", self._listener.address)
        self._tasks = [asyncio.create_task(dialer.run()) for dialer in self._dialers]
        for task in self._tasks:
            task.add_done_callback(_see)

    async def stop(self) -> None:
        """End all links, tell the neighbours so, and listen no more."""
        self._running = False
        for task in self._tasks:
            task.cancel()
        self.links.end_all()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            await self._listener.stop()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    @property
    def where(self) -> str:
        """How others reach this broker; empty: they do not."""
        return self._where

    @property
    def port(self) -> int | None:
        """The port on which it listens."""
        return None if self._listener is None else self._listener.port

    def reports(self) -> list[LinkReport]:
        """All links as they are now."""
        return [link.report() for link in self.links.all()]

    def dials(self) -> list[DialReport]:
        """The brokers that are to be reached and are not linked."""
        return [report for dialer in self._dialers if (report := dialer.report()) is not None]

    @property
    def troubles(self) -> LinkFaults:
        """What went wrong with links."""
        return self.links.troubles

    def report_fault(self, kind: str, peer: str, reason: str) -> None:
        """Logs a fault for the operator, and adds it to the latest ones."""
        self.troubles.add(kind, peer, reason)
        logger.error("%s", reason, extra={"peer": peer, "kind": kind})

    # The node ---------------------------------------------------------------------------------------------------------

    def act(self, effects: Effects) -> None:
        """Do what the node wants done."""
        if effects.timers:
            for timer in effects.timers:
                self._set_timer(timer.delay, timer.name)
        for to, message in effects.sends:
            link = self.links.of(to)
            if link is not None:
                link.send(message)
            elif to == self.identity:
                self._loop.call_soon(self._to_itself, message)
        if effects.deliveries:
            self._deliver(effects.deliveries)

    def _to_itself(self, message: Any) -> None:
        if self._running:
            self.act(self._node.receive(self.identity, message, time.monotonic()))

    def _set_timer(self, delay: float, name: Hashable) -> None:
        def wake() -> None:
            self._timers.discard(handle)
            if self._running:
                self.act(self._node.wake(name, time.monotonic()))

        handle = self._loop.call_later(delay, wake)
        self._timers.add(handle)

    def has_capacity_for(self, identity: int) -> bool:
        """Whether a neighbour takes what is sent to it: less than a quarter of what may wait does."""
        link = self.links.of(identity)
        return link is None or link.queue_bytes < self.settings.queue_bytes_max // 4

    def read(self, on: bool) -> None:
        """Read what neighbours send, or leave it with them for now: they then wait, or break the links off."""
        self.links.read(on)

    # What links tell --------------------------------------------------------------------------------------------------

    def link_up(self, link: Link) -> None:
        """A link has begun."""
        cost = self._costs[link.identity] = self._costs.get(link.identity, 1)
        self.act(self._node.link_up(link.identity, cost, time.monotonic()))

    def link_down(self, link: Link) -> None:
        """A link has ended."""
        if self._running:
            self.act(self._node.link_down(link.identity, time.monotonic()))

    def arrived(self, link: Link, message: Any) -> None:
        """A message has come."""
        if self._running:
            self.act(self._node.receive(link.identity, message, time.monotonic()))

    def round_trip(self, link: Link) -> None:
        """There is a new round trip: the node is told where the cost of the link is quite another."""
        if link.round_trip is None or not self._running:
            return
        cost = max(1, math.ceil(link.round_trip * 1_000))
        before, reported = self._costs.get(link.identity, 1), self._cost_sent_at.get(link.identity)
        if _differ(cost, before, self.settings) and (
            reported is None or time.monotonic() - reported >= self.settings.cost_seconds
        ):
            self._costs[link.identity], self._cost_sent_at[link.identity] = cost, time.monotonic()
            self.act(self._node.link_cost(link.identity, cost, time.monotonic()))


def _differ(cost: int, before: int, settings: NetworkSettings) -> bool:
    """Whether a cost is so different that trees may have to change."""
    low, high = sorted((cost, before))
    return high - low >= settings.cost_milliseconds and high >= settings.cost_factor * low


def _see(task: asyncio.Task[None]) -> None:
    """A dialer never ends by itself: what ended it is a fault."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a broker is dialed no more", exc_info=error)
