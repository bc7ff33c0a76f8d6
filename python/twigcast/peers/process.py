"""The process of a peer: orders come in as lines, events go out as lines, until a signal or the end of the stream."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TextIO

from twigcast.errors import TwigcastError
from twigcast.overlay.core import ProtocolNode
from twigcast.overlay.onyx.network.tls import Certificates
from twigcast.peers.codec import MessageCodec
from twigcast.peers.driver import PeerDriver, PeerIdentity
from twigcast.peers.orders import Order, order_name

logger = logging.getLogger(__name__)

_FAREWELL_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.02
_AGAIN_SECONDS: Final = 2.0


class Member(Protocol):
    """A node with what its user may order and hears."""

    protocol: str

    @property
    def node(self) -> Any:
        """The node."""

    @property
    def is_busy(self) -> bool:
        """Returns whether so much is under way that no more orders should be read."""

    def codec(self) -> MessageCodec:
        """Returns the form of its messages on one link."""

    def begin(self, node: Any) -> None:
        """Joins the network, or starts one."""

    def leave(self, node: Any) -> None:
        """Leaves the network in good order."""

    def order(self, order: Order) -> Callable[[Any], None]:
        """Returns the function that carries out an order on the node."""

    def event(self, item: Any) -> Mapping[str, Any] | None:
        """Returns the event that the user is shown for an item; ``None`` for items without one."""

    def is_lost(self, item: Any) -> bool:
        """Returns whether an item says that the node is part of no network and no longer tries."""


class PeerProcess:
    """A peer that reads orders and writes events.

    Args:
        member: Its node.
        identity: Who it is.
        certificates: Those of this peer, if links have any.
        orders: Where orders come from.
        events: Where events go.
        make_driver: Makes the driver.
    """

    def __init__(
        self,
        member: Member,
        identity: PeerIdentity,
        certificates: Certificates | None,
        orders: TextIO = sys.stdin,
        events: TextIO = sys.stdout,
        make_driver: Callable[..., PeerDriver] = PeerDriver,
    ) -> None:
        self._member = member
        self._orders = orders
        self._events = events
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.driver = make_driver(identity, member.codec, self._delivered, certificates)

    async def run(self) -> None:
        """Runs until a signal ends it, or the writer of the events."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._ended.set)
        member, driver = self._member, self.driver
        await driver.start(member.node)
        self.tell({"event": "listening", "where": driver.where})
        driver.command(member.begin)
        threading.Thread(target=self._read_orders, daemon=True).start()
        await self._ended.wait()
        driver.command(member.leave)
        await self._wait_until_told(member.node)
        await driver.stop()

    async def _wait_until_told(self, node: ProtocolNode) -> None:
        deadline = time.monotonic() + _FAREWELL_SECONDS
        while node.unacknowledged and time.monotonic() < deadline:
            await asyncio.sleep(_PAUSE_SECONDS)

    def _read_orders(self) -> None:
        # In a thread, since standard input may be a file, which an event loop cannot wait for.
        for line in self._orders:
            if self._ended.is_set():
                return
            if line.strip():
                asyncio.run_coroutine_threadsafe(self._obey_in_time(line), self._loop).result()

    async def _obey_in_time(self, line: str) -> None:
        """Obeys an order, and returns when the network can take the next one."""
        self._obey(line)
        while self._member.is_busy and not self._ended.is_set():
            await asyncio.sleep(_PAUSE_SECONDS)

    def _obey(self, line: str) -> None:
        try:
            self.driver.command(self._member.order(Order.read(line)))
        except TwigcastError as error:
            self.tell({"event": "refused", "order": order_name(line), "code": error.code, "reason": str(error)})

    def _delivered(self, item: Any) -> None:
        event = self._member.event(item)
        if event is not None:
            self.tell(event)
        if self._member.is_lost(item):
            # The network may come back, and nobody else would try.
            self._loop.call_later(_AGAIN_SECONDS, self.driver.command, self._member.begin)

    def tell(self, event: Mapping[str, Any]) -> None:
        """Writes an event."""
        try:
            print(json.dumps(event, ensure_ascii=False), file=self._events, flush=True)
        except BrokenPipeError:
            logger.info("nobody reads the events any more: this peer leaves")
            self._ended.set()
