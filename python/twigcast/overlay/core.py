"""The base of all overlay protocols: nodes without input and output of their own.

A node is a state machine. It gets a message or the name of a timer that went off, with the time, and returns `Effects`:
messages to send, timers to set, items for the application. It opens no socket, reads no clock and draws no random
number. So the simulator and a networked driver run the same code, and a simulation can be repeated from its seed (as in
h11 and etcd's raft).

Messages are immutable tuples (`NamedTuple`), so that a simulated network can pass them by reference. Each message class
has a kind of traffic and an estimate of its bytes on a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

#: Number of a node. A driver maps it to its own addresses (the simulator: a list index; a network: host and port).
Address: TypeAlias = int

#: Numbers that a life of a node may draw before they reach those of a life that began one later.
TOKENS_OF_A_LIFE = 1 << 20

#: Bytes of a message without its content: addresses, type, length.
HEADER_BYTES = 24


class Traffic:
    """The kinds of traffic with counts of their own."""

    MAINTENANCE = "maintenance"
    INDEXING = "indexing"
    FILTERING = "filtering"
    NOTIFICATION = "notification"
    BALANCING = "balancing"
    REPLICATION = "replication"
    CONTROL = "control"
    DATA = "data"


_M = TypeVar("_M", bound=type)


def carries(traffic: str, content: int | Callable[[Any], int]) -> Callable[[_M], _M]:
    """Returns a class decorator that gives messages what counts need: their kind of traffic, and their size.

    The attribute `traffic` is the kind. The method `size_bytes()` returns the estimated bytes on a wire: the header and
    `content`, a number or a function of the message.
    """

    def mark(kind: _M) -> _M:
        vars_of: Any = kind
        vars_of.traffic = traffic
        if callable(content):
            vars_of.size_bytes = lambda message: HEADER_BYTES + content(message)
        else:
            vars_of.size_bytes = lambda message: HEADER_BYTES + content
        return kind

    return mark


class SetTimer(NamedTuple):
    """A request to wake the node with `name` after `delay` units of time."""

    delay: float
    name: Hashable


class Effects(NamedTuple):
    """The effects of a step of a node: messages to send, timers to set, items for the application."""

    sends: list[tuple[Address, Any]]
    timers: list[SetTimer]
    deliveries: list[Any]


class LinkMessage(NamedTuple):
    """A message in a session of a link. Its number puts it in order, and drops repetitions."""

    incarnation: int  #: The sender's.
    session: int  #: Number of the sender's session with the receiver. Messages of earlier sessions are ignored.
    receiver: int  #: The incarnation that it is meant for; -1 for any, as long as the sender knows none.
    sequence: int  #: Its place in the session; -1 for a message that is sent once.
    message: Any

    @property
    def traffic(self) -> str:
        """The traffic of the message inside."""
        return str(self.message.traffic)

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return int(self.message.size_bytes()) + 20


@carries(Traffic.CONTROL, 20)
class LinkAcknowledgement(NamedTuple):
    """An acknowledgement: all messages of a session below `next` have arrived.

    If it comes from a later incarnation than the one the messages were meant for, it is a refusal.
    """

    incarnation: int  #: The sender's.
    receiver: int  #: The incarnation whose messages these are.
    session: int
    next: int


class KeyRoutedMessage(NamedTuple):
    """A message to the node that is responsible for an identifier, passed on hop by hop."""

    identifier: int
    payload: Any  #: The message inside.
    origin: Address  #: The first sender.
    hops: int = 0  #: Hops over the network so far.
    final: bool = False  #: Whether the sender believes that the receiver is responsible for the identifier.

    @property
    def traffic(self) -> str:
        """The traffic of the message inside."""
        return str(self.payload.traffic)

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return int(self.payload.size_bytes()) + 28


class LinkSettings(NamedTuple):
    """The settings of the links of a node."""

    #: Whether messages are numbered, acknowledged and repeated. On a perfect network this would double the events.
    reliable: bool = False
    #: Time after which an unacknowledged message is repeated.
    retry_delay: float = 4.0
    #: Attempts without progress before the other side counts as unreachable.
    attempts_max: int = 5
    #: Most bytes under way to one node; what is over it waits until some are acknowledged. 0: no bound.
    window_bytes: int = 0
    #: Most bytes that wait for one node, with a window. With more it counts as unreachable: it is too slow.
    backlog_bytes_max: int = 64 << 20


class RetryTimer(NamedTuple):
    """The name of the timer that repeats what was not acknowledged."""

    to: Address
    session: int


@dataclass(slots=True)
class _Outgoing:
    """A session of this node with a receiver: what was not acknowledged, with the time of its last sending."""

    number: int
    next: int = 0
    waiting: dict[int, tuple[Any, float]] = field(default_factory=dict)
    sent: int = 0  #: Messages below this number have been sent; the others wait until the window has space.
    bytes_under_way: int = 0
    bytes_waiting: int = 0  #: Of all that was not acknowledged, sent or not.
    attempts: int = 1
    armed: bool = False  #: Whether its timer is set.


@dataclass(slots=True)
class _Incoming:
    """A session of a sender with this node: the number due next, and what came before it."""

    session: tuple[int, int]
    next: int = 0
    early: dict[int, Any] = field(default_factory=dict)


Handler: TypeAlias = Callable[[Any, Address, Any], None]


class ProtocolNode:
    """A node of a protocol. It dispatches messages and timers to handlers and collects their effects.

    A subclass sets tables of functions, or overrides `on_timer`, `on_link_lost` and `on_unreachable`. Handlers call
    `send`, `set_timer` and `deliver`.

    *Sessions.* On reliable links, the messages to one receiver form a session: they arrive in order, each once, or the
    session is lost, and with it all that was not acknowledged. Each message names the incarnation of its sender and,
    as far as it is known, of its receiver. A node that has started again refuses what was meant for its former life,
    so that restarting counts as failing, however quickly it happens.
    """

    #: By class of a message: `function(node, sender, message)`.
    handlers: ClassVar[dict[type, Handler]] = {}
    #: By name of a timer, or by the first item of a tuple, whose other items follow the node as arguments.
    timer_handlers: ClassVar[dict[str, Callable[..., None]]] = {}
    #: By class of a message that was never acknowledged: `function(node, receiver, message)`.
    lost_handlers: ClassVar[dict[type, Handler]] = {}

    def __init__(self, address: Address, link: LinkSettings, incarnation: int = 0) -> None:
        self.address = address
        self.link = link
        self.incarnation = incarnation
        self.now = 0.0
        self._tokens = incarnation * TOKENS_OF_A_LIFE
        self._sends: list[tuple[Address, Any]] = []
        self._timers: list[SetTimer] = []
        self._deliveries: list[Any] = []
        self._outgoing: dict[Address, _Outgoing] = {}
        self._incoming: dict[Address, _Incoming] = {}
        self._sessions = 0
        #: By node, the incarnation that it was last heard of with, and whether it said so itself.
        self._lives: dict[Address, tuple[int, bool]] = {}

    # Called by a driver.

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        """Processes one message. A message of an unknown class is ignored, as from a newer peer."""
        self.now = now
        kind = type(message)
        if kind is LinkMessage:
            self._open(sender, message)
        elif kind is LinkAcknowledgement:
            self._acknowledged(sender, message)
        else:
            self._dispatch(sender, message)
        return self.drain()

    def wake(self, timer: Hashable, now: float) -> Effects:
        """Runs a timer that was set earlier."""
        self.now = now
        if type(timer) is RetryTimer:
            self._retry(timer)
        else:
            self.on_timer(timer)
        return self.drain()

    def drain(self) -> Effects:
        """Returns the effects collected since the last call, for drivers and for commands from outside."""
        effects = Effects(self._sends, self._timers, self._deliveries)
        if self._sends:
            self._sends = []
        if self._timers:
            self._timers = []
        if self._deliveries:
            self._deliveries = []
        return effects

    # Called by handlers.

    def send(self, to: Address, message: Any) -> None:
        """Sends a message, over a reliable link if the settings say so. A message to the node itself always arrives."""
        if not self.link.reliable or to == self.address:
            self._sends.append((to, message))
            return
        link = self._outgoing.get(to)
        if link is None:
            self._sessions += 1
            link = self._outgoing[to] = _Outgoing(self._sessions)
        if not link.armed:
            link.armed, link.attempts = True, 1
            self._timers.append(SetTimer(self.link.retry_delay, RetryTimer(to, link.number)))
        link.waiting[link.next] = message, self.now
        link.next += 1
        link.bytes_waiting += self._counted_bytes(message)
        self._fill(to, link)

    def send_once(self, to: Address, message: Any) -> None:
        """Sends a message without repetition, since it is sent periodically anyway."""
        if not self.link.reliable or to == self.address:
            self._sends.append((to, message))
        else:
            self._envelop(to, 0, -1, message)

    def resume(self, to: Address) -> None:
        """Sends again what a node has not acknowledged, since the driver has lost it together with its connection."""
        link = self._outgoing.get(to)
        if link is not None and link.waiting:
            link.sent, link.bytes_under_way = next(iter(link.waiting)), 0
            self._fill(to, link)

    def is_too_slow(self, to: Address) -> bool:
        """Returns whether too much waits for a node. The timer of its repetitions then ends the session."""
        link = self._outgoing.get(to)
        # One message alone may be as large as it is.
        return link is not None and len(link.waiting) > 1 and link.bytes_waiting > self.link.backlog_bytes_max

    @property
    def unacknowledged(self) -> int:
        """Returns how many messages have not been acknowledged, those that have not been sent included."""
        return sum(len(link.waiting) for link in self._outgoing.values())

    def life_of(self, address: Address) -> int:
        """Returns the incarnation by which a node is known; -1 for an unknown one."""
        return self._lives.get(address, (-1, False))[0]

    def presume(self, address: Address, incarnation: int) -> None:
        """Notes the incarnation that others say a node has. A later one counts more, and what the node itself says.

        The former life ends here, since it will not be noticed later: the node itself says only the same again.
        """
        known, heard = self._lives.get(address, (-1, False))
        if self.link.reliable and not heard and incarnation > known:
            self._lives[address] = incarnation, False
            if known >= 0:
                self._lose(address, restarted=True)

    def is_outdated(self, address: Address, incarnation: int) -> bool:
        """Returns whether a node has said itself that it has started again since this incarnation."""
        known, heard = self._lives.get(address, (-1, False))
        return heard and incarnation < known

    def new_token(self) -> int:
        """Returns a number greater than all that this node has drawn before, in its former lives, too."""
        self._tokens += 1
        return self._tokens

    def set_timer(self, delay: float, name: Hashable) -> None:
        """Sets a timer."""
        self._timers.append(SetTimer(delay, name))

    def deliver(self, item: Any) -> None:
        """Passes an item to the application."""
        self._deliveries.append(item)

    # Overridden by a protocol.

    def on_timer(self, timer: Hashable) -> None:
        """Runs a timer of the protocol."""
        name, *arguments = timer if isinstance(timer, tuple) else (timer,)
        self.timer_handlers[name](self, *arguments)

    def on_link_lost(self, address: Address, restarted: bool) -> None:
        """Is called when a node has not acknowledged a message in `attempts_max` attempts, or has started again."""

    def on_unreachable(self, address: Address, message: Any) -> None:
        """Is called for each message that was not acknowledged when the session was lost, after `on_link_lost`."""
        handler = self.lost_handlers.get(type(message))
        if handler is not None:
            handler(self, address, message)

    # Links.

    def _dispatch(self, sender: Address, message: Any) -> None:
        handler = self.handlers.get(type(message))
        if handler is not None:
            handler(self, sender, message)

    def _envelop(self, to: Address, session: int, sequence: int, message: Any) -> None:
        self._sends.append((to, LinkMessage(self.incarnation, session, self.life_of(to), sequence, message)))

    def _counted_bytes(self, message: Any) -> int:
        """Returns the size of a message where sizes count."""
        return int(message.size_bytes()) if self.link.window_bytes else 0

    def _fill(self, to: Address, link: _Outgoing) -> None:
        """Sends what the window has room for, one message at least."""
        while link.sent < link.next:
            message, _ = link.waiting[link.sent]
            size = self._counted_bytes(message)
            if link.bytes_under_way and link.bytes_under_way + size > self.link.window_bytes:
                return
            link.waiting[link.sent] = message, self.now
            link.bytes_under_way += size
            self._envelop(to, link.number, link.sent, message)
            link.sent += 1

    def _open(self, sender: Address, envelope: LinkMessage) -> None:
        if not self._is_present(sender, envelope.incarnation):
            return
        if envelope.receiver not in (-1, self.incarnation):
            refusal = LinkAcknowledgement(self.incarnation, envelope.incarnation, envelope.session, 0)
            self._sends.append((sender, refusal))
            return
        if envelope.sequence < 0:
            self._dispatch(sender, envelope.message)
            return
        session = envelope.incarnation, envelope.session
        link = self._incoming.get(sender)
        if link is None or link.session < session:
            link = self._incoming[sender] = _Incoming(session)
        elif link.session > session:
            return
        if envelope.sequence >= link.next:
            link.early[envelope.sequence] = envelope.message
        while link.next in link.early:
            message = link.early.pop(link.next)
            link.next += 1
            self._dispatch(sender, message)
        self._sends.append((sender, LinkAcknowledgement(self.incarnation, *session, link.next)))

    def _acknowledged(self, sender: Address, message: LinkAcknowledgement) -> None:
        if message.receiver != self.incarnation or not self._is_present(sender, message.incarnation):
            return
        link = self._outgoing.get(sender)
        if link is None or link.number != message.session:
            return
        arrived = [sequence for sequence in link.waiting if sequence < message.next]
        for sequence in arrived:
            size = self._counted_bytes(link.waiting.pop(sequence)[0])
            link.bytes_waiting -= size
            if sequence < link.sent:
                link.bytes_under_way -= size
        if arrived:
            link.attempts = 1
            # What arrived before a connection was lost may not have been sent again.
            link.sent = max(link.sent, arrived[-1] + 1)
            self._fill(sender, link)

    def _is_present(self, address: Address, incarnation: int) -> bool:
        """Notes the incarnation that a node has by its own word. Returns false for a message of a former life."""
        if self.is_outdated(address, incarnation):
            return False
        known = self.life_of(address)
        self._lives[address] = incarnation, True
        if incarnation > known >= 0:
            self._lose(address, restarted=True)
        return True

    def _retry(self, timer: RetryTimer) -> None:
        link = self._outgoing.get(timer.to)
        if link is None or link.number != timer.session:
            return
        if not link.waiting:
            link.armed = False
            return
        if link.attempts >= self.link.attempts_max or self.is_too_slow(timer.to):
            self._lose(timer.to, restarted=False)
            return
        due = self.now - self.link.retry_delay / 2
        if next(iter(link.waiting.values()))[1] <= due:
            link.attempts += 1
        for sequence, (message, sent) in link.waiting.items():
            if sequence >= link.sent:
                break
            if sent <= due:
                link.waiting[sequence] = message, self.now
                self._envelop(timer.to, link.number, sequence, message)
        self._timers.append(SetTimer(self.link.retry_delay, timer))

    def _lose(self, address: Address, *, restarted: bool) -> None:
        """Ends the session with a node. The next one begins with the next message to it."""
        link = self._outgoing.pop(address, None)
        self.on_link_lost(address, restarted)
        for message, _ in link.waiting.values() if link is not None else ():
            self.on_unreachable(address, message)
