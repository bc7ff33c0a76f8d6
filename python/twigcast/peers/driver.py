"""The driver of a peer: runs a node over links like those of brokers, and dials a link when there is a message for it.

A node knows others by their addresses alone, which hold host and port. The driver keeps one link to each node that it
talks to, or that talks to it. A message that cannot be sent is dropped, and the session of the node sends it again. A
link that has not been used for a while is ended.

Everything runs in the event loop in which the driver is started. Times are those of the wall clock, since nodes compare
some of them with each other, with large margins.

A link loses nothing as long as it exists. So messages that have not been acknowledged are sent again only over a new
link. The node's own repetitions wait while the link is still sending earlier messages: they would only slow it down.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final

from twigcast.overlay.core import Address, Effects, LinkMessage, ProtocolNode, RetryTimer
from twigcast.overlay.errors import FrameError, NetworkError, PeerRefused
from twigcast.overlay.onyx.messages import PROTOCOL, PeerMessage
from twigcast.overlay.onyx.network.dialer import Dialer
from twigcast.overlay.onyx.network.greeting import DUPLICATE, FRAME, IDENTITY, STOPPING, Greeting
from twigcast.overlay.onyx.network.link import Link
from twigcast.overlay.onyx.network.links import Links
from twigcast.overlay.onyx.network.listener import Listener
from twigcast.overlay.onyx.network.settings import NetworkSettings
from twigcast.overlay.onyx.network.tls import Certificates, Target, host_and_port
from twigcast.overlay.onyx.wire.bodies import Bodies
from twigcast.overlay.onyx.wire.exchange import Exchange
from twigcast.peers.addresses import address_of, host_and_port_of, where_of
from twigcast.peers.codec import MessageCodec

logger = logging.getLogger(__name__)

#: Messages that wait for a link that is being dialed.
_WAITING_MAX: Final = 256
_IDLE_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.5
_REFUSED_SECONDS: Final = 2.0
#: Sessions notice peers that do not answer, so these links may be more patient than those of brokers.
_LINKS: Final = NetworkSettings(
    ping_seconds=5.0, silence_seconds=60.0, stall_seconds=20.0, keepalive_seconds=15.0, greeting_seconds=15.0
)


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """The identity of a peer.

    Attributes:
        protocol: What it speaks: `chord` or `codd`.
        address: Where it listens, as a number.
        name: Its name in logs; with certificates, the name in its own.
        incarnation: Number of this start, greater than those before at the same address.
        software: Release of the software.
    """

    protocol: str
    address: Address
    name: str
    incarnation: int
    software: str


class PeerDriver:
    """The driver of one node.

    Args:
        identity: Who it is.
        codec: Makes the form of messages on one link.
        deliver: Is called with each item for the application.
        certificates: Those of this peer; `None`: links have none, which the caller has checked.
        settings: Bounds and times of links.
    """

    def __init__(
        self,
        identity: PeerIdentity,
        codec: Callable[[], MessageCodec],
        deliver: Callable[[Any], None],
        certificates: Certificates | None = None,
        settings: NetworkSettings | None = None,
    ) -> None:
        self.identity = identity
        self._codec = codec
        self._deliver = deliver
        self._certificates = certificates
        self.links = Links(self._greeting, settings or _LINKS, self, lambda peer: Exchange(Bodies()), identity.protocol)
        self._node: ProtocolNode | None = None
        self._listener = Listener(*host_and_port_of(identity.address), self.links, certificates)
        self._identities: dict[Address, int] = {}  #: By address, the number of its link.
        self._addresses: dict[int, Address] = {}  #: The other way round.
        self._codecs: dict[int, MessageCodec] = {}  #: By number of a link.
        self._used: dict[int, float] = {}  #: By number of a link, when it was last used.
        self._dialing: dict[Address, asyncio.Task[None]] = {}
        self._waiting: dict[Address, list[Any]] = {}
        self._troubles: dict[Address, str] = {}  #: By address, why a node was not reached.
        self._timers: set[asyncio.TimerHandle] = set()
        self._running = False
        self._loop = asyncio.get_running_loop()

    def _greeting(self) -> Greeting:
        identity, where = self.identity, self.where
        # The instance follows from the address: a peer that starts again at it is the same one, in a later life.
        instance = hashlib.sha256(f"{identity.protocol} {where}".encode()).digest()[:16]
        return Greeting(PROTOCOL, identity.name, instance, identity.incarnation, where, time.time(), identity.software)

    # Start and stop.

    async def start(self, node: ProtocolNode) -> None:
        """Starts to listen, and to run a node.

        Raises:
            NetworkError: The address is in use or unusable.
            CertificateError: A file is unusable.
        """
        await self._listener.start()
        self._running = True
        self._node = node
        self._call_later(_IDLE_SECONDS, self._end_idle_links)
        self.command(lambda node: None)

    async def stop(self) -> None:
        """Ends all links and stops listening."""
        self._running = False
        self.links.end_all()
        for task in self._dialing.values():
            task.cancel()
        await asyncio.gather(*self._dialing.values(), return_exceptions=True)
        await self._listener.stop()
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    @property
    def where(self) -> str:
        """The address at which others reach it."""
        return where_of(self.identity.address)

    # The node.

    def command(self, action: Callable[..., None], *arguments: Any) -> None:
        """Lets the application call `action(node, *arguments)`, and carries out its effects."""
        assert self._node is not None
        self._node.now = time.time()
        try:
            action(self._node, *arguments)
        finally:
            self._act(self._node.drain())

    def _act(self, effects: Effects) -> None:
        for delay, name in effects.timers:
            self._set_timer(delay, name)
        for to, message in effects.sends:
            if to == self.identity.address:
                self._loop.call_soon(self._receive, to, message)
            else:
                self._send(to, message)
        for item in effects.deliveries:
            self._deliver(item)

    def _receive(self, sender: Address, message: Any) -> None:
        if self._running and self._node is not None:
            self._act(self._node.receive(sender, message, time.time()))

    def _set_timer(self, delay: float, name: Hashable) -> None:
        def wake() -> None:
            assert self._node is not None
            if type(name) is RetryTimer and self._is_sending(name.to) and not self._node.is_too_slow(name.to):
                self._set_timer(delay, name)
            else:
                self._act(self._node.wake(name, time.time()))

        self._call_later(delay, wake)

    def _call_later(self, delay: float, work: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(handle)
            if self._running:
                work()

        handle = self._loop.call_later(delay, run)
        self._timers.add(handle)

    # Sending.

    def _is_sending(self, to: Address) -> bool:
        """Returns whether a link has not taken all that was sent. If it takes nothing for long, it ends."""
        link = self.links.of(self._identities.get(to, -1))
        return link is not None and link.is_open and link.queue_bytes > 0

    def _send(self, to: Address, message: Any) -> None:
        link = self.links.of(self._identities.get(to, -1))
        if link is not None and link.is_open:
            self._transmit(link, message)
            return
        waiting = self._waiting.get(to)
        if waiting is None and to not in self._dialing:
            waiting = self._waiting[to] = []
            self._dialing[to] = self._loop.create_task(self._reach(to))
        is_kept = type(message) is LinkMessage and message.sequence >= 0
        if waiting is not None and not is_kept and len(waiting) < _WAITING_MAX:
            waiting.append(message)

    def _transmit(self, link: Link, message: Any) -> None:
        self._used[link.identity] = time.monotonic()
        try:
            link.send(PeerMessage(self._codecs[link.identity].encode(message)))
        except FrameError as error:
            # Both ends of a link remember what went over it, so they would no longer agree.
            link.end(FRAME, f"a message cannot be sent: {error}")

    async def _reach(self, address: Address) -> None:
        """Dials a node, and runs the link until it ends. After a failure nothing is dialed for a moment."""
        try:
            target = Target(*host_and_port_of(address), secure=self._certificates is not None)
            dialer = Dialer(target, self.links, self._certificates)
            # It fails once where the name in a certificate is another one than the address.
            while not await dialer.attempt():
                logger.debug("dialing %s again under its name", target)
        except (NetworkError, ConnectionError, TimeoutError) as error:
            self._waiting.pop(address, None)
            await asyncio.sleep(self._pause_after(address, error))
        finally:
            self._dialing.pop(address, None)
            self._waiting.pop(address, None)

    def _pause_after(self, address: Address, error: Exception) -> float:
        """Logs why a node is not reached. Returns how long nobody dials it."""
        if isinstance(error, PeerRefused):
            # It is logged where links are, but for a second link, which is no trouble.
            return _PAUSE_SECONDS if error.kind == DUPLICATE else _REFUSED_SECONDS
        reason = str(error) or "it does not answer"
        # A node that is down is dialed again and again.
        level = logging.INFO if self._troubles.get(address) == reason else logging.WARNING
        self._troubles[address] = reason
        # gRPC does not say that a handshake has failed.
        hint = "if a peer runs there, see whether both have certificates, and of one authority"
        logger.log(level, "%s is not reached: %s; %s", where_of(address), reason, hint)
        return _PAUSE_SECONDS

    def _end_idle_links(self) -> None:
        now = time.monotonic()
        for link in self.links.all():
            if link.dialed and now - self._used.get(link.identity, 0.0) > _IDLE_SECONDS:
                link.end(STOPPING, "the link was not used")
        self._call_later(_IDLE_SECONDS, self._end_idle_links)

    # Called by links.

    def link_up(self, link: Link) -> None:
        """Notes the address of a neighbour, and sends what waits for it."""
        try:
            address = address_of(*host_and_port(link.peer.where))
        except (ValueError, NetworkError) as error:
            self.links.break_off(link.identity, IDENTITY, f"it does not say where it is: {error}")
            return
        if address == self.identity.address:
            self.links.break_off(link.identity, IDENTITY, f"it says that it is at {link.peer.where}, as this one is")
            return
        self._troubles.pop(address, None)
        self._identities[address] = link.identity
        self._addresses[link.identity] = address
        self._codecs[link.identity] = self._codec()
        self._used[link.identity] = time.monotonic()
        for message in self._waiting.pop(address, ()):
            self._transmit(link, message)
        self.command(lambda node: node.resume(address))

    def link_down(self, link: Link) -> None:
        """Forgets a link. The node notices when what it sends is not acknowledged."""
        address = self._addresses.pop(link.identity, None)
        self._used.pop(link.identity, None)
        self._codecs.pop(link.identity, None)
        if address is not None and self._identities.get(address) == link.identity:
            del self._identities[address]

    def arrived(self, link: Link, message: Any) -> None:
        """Passes a message to the node."""
        address = self._addresses.get(link.identity)
        if address is None:
            return
        if not isinstance(message, PeerMessage):
            self.links.break_off(link.identity, FRAME, f"it sent a {type(message).__name__}, which is for brokers")
            return
        self._used[link.identity] = time.monotonic()
        self._receive(address, self._codecs[link.identity].decode(message.body))

    def round_trip(self, link: Link) -> None:
        """Ignores the time of a round trip."""
