"""The driver: runs a node in a real network, with links, a clock and timers.

All runs in the event loop in which the driver is made. Commands to the node are given in that loop, and their effects
passed to :meth:`Driver.act`.
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
    """The methods of a node that the driver calls. Times are seconds of a monotonic clock."""

    def link_up(self, neighbour: Address, cost: int, now: float) -> Effects:
        """Begins a link to a neighbour."""

    def link_cost(self, neighbour: Address, cost: int, now: float) -> Effects:
        """Changes the cost of a link."""

    def link_down(self, neighbour: Address, now: float) -> Effects:
        """Ends a link. Messages under way may be lost."""

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        """Processes a message of a neighbour."""

    def wake(self, timer: Hashable, now: float) -> Effects:
        """Runs a timer that was set earlier."""


class Driver:
    """The driver of a node.

    Args:
        node: The node.
        name: Name of the broker.
        instance: Instance of its store.
        incarnation: Number of this start.
        software: Release of the software, for reports.
        deliver: Receives the events of the node.
        settings: Bounds and times.
        certificates: Those of this broker; ``None``: links have none, which the caller has checked.
        listen: Host and port to listen on; ``None``: others cannot dial.
        where: Address for reports; by default that on which the driver listens.
        join: Brokers to dial.
        bodies: Converts message bodies.
        forms: The forms for each neighbour; by default text.
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
        self._costs: dict[int, int] = {}  #: By neighbour, the cost that the node has.
        self._cost_sent_at: dict[int, float] = {}  #: By neighbour, when the node got that cost.
        self._timers: set[asyncio.TimerHandle] = set()
        self._loop = asyncio.get_running_loop()
        self._running = True

    def greeting(self) -> Greeting:
        """Returns the greeting of this broker."""
        return Greeting(
            PROTOCOL, self._name, self._instance, self._incarnation, self._where, time.time(), self._software
        )

    def _exchange(self, peer: str) -> Exchange:
        return Exchange(self._bodies, self._forms.of(peer))

    # Start and stop.

    async def start(self) -> None:
        """Starts listening and dialing.

        Raises:
            NetworkError: The address is in use or unusable.
            CertificateError: A file is unusable.
        """
        if self._listener is not None:
            await self._listener.start()
            self._where = self._where or self._listener.address
            logger.info("listening for brokers on %s", self._listener.address)
        self._tasks = [asyncio.create_task(dialer.run()) for dialer in self._dialers]
        for task in self._tasks:
            task.add_done_callback(_log_failure)

    async def stop(self) -> None:
        """Ends all links, notifies the neighbours, and stops listening."""
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
        """The address of this broker for others; empty: they cannot dial."""
        return self._where

    @property
    def port(self) -> int | None:
        """The port on which the driver listens."""
        return None if self._listener is None else self._listener.port

    def reports(self) -> list[LinkReport]:
        """Returns the state of all links."""
        return [link.report() for link in self.links.all()]

    def dials(self) -> list[DialReport]:
        """Returns the brokers to dial that have no link."""
        return [report for dialer in self._dialers if (report := dialer.report()) is not None]

    @property
    def troubles(self) -> LinkFaults:
        """The faults of links."""
        return self.links.troubles

    def report_fault(self, kind: str, peer: str, reason: str) -> None:
        """Logs a fault for the operator, and adds it to the latest ones."""
        self.troubles.add(kind, peer, reason)
        logger.error("%s", reason, extra={"peer": peer, "kind": kind})

    # The node.

    def act(self, effects: Effects) -> None:
        """Carries out the effects of the node."""
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
        """Returns whether less than a quarter of what may wait for a neighbour is waiting."""
        link = self.links.of(identity)
        return link is None or link.queue_bytes < self.settings.queue_bytes_max // 4

    def read(self, on: bool) -> None:
        """Starts or stops reading from all links. While it is stopped, neighbours wait or close the links."""
        self.links.read(on)

    # Called by links.

    def link_up(self, link: Link) -> None:
        """Reports a new link to the node."""
        cost = self._costs[link.identity] = self._costs.get(link.identity, 1)
        self.act(self._node.link_up(link.identity, cost, time.monotonic()))

    def link_down(self, link: Link) -> None:
        """Reports the end of a link to the node."""
        if self._running:
            self.act(self._node.link_down(link.identity, time.monotonic()))

    def arrived(self, link: Link, message: Any) -> None:
        """Passes a message to the node."""
        if self._running:
            self.act(self._node.receive(link.identity, message, time.monotonic()))

    def round_trip(self, link: Link) -> None:
        """Reports the cost of a link to the node if it differs much from the last one."""
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
    """Returns whether a cost has changed so much that trees may have to change."""
    low, high = sorted((cost, before))
    return high - low >= settings.cost_milliseconds and high >= settings.cost_factor * low


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("a dialer has failed", exc_info=error)
