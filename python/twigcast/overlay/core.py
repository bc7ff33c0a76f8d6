"""What every overlay protocol is made of: nodes that compute and never touch the outside world.

A node is a state machine. It is given a message or the name of a timer that went off, together with the time, and
returns `Effects`: messages to send, timers to set, items to hand to the application. It opens no socket, reads no clock
and draws no random number of its own, so that the simulator and a networked driver run the very same code, and a run in
the simulator can be repeated from its seed (the manner of h11 and of etcd's raft).

Messages are immutable tuples (`NamedTuple`), so that a simulated network may pass them by reference. Each message class
says what kind of traffic it is and how many bytes it would take on a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

#: Number of a node. A driver maps it to something it can reach (the simulator: a list index; a network: host and port).
Address: TypeAlias = int

#: Bytes of a message without its content: addresses, type, length.
HEADER_BYTES = 24


class Traffic:
    """The kinds of traffic that are counted apart."""

    MAINTENANCE = "maintenance"
    INDEXING = "indexing"
    FILTERING = "filtering"
    NOTIFICATION = "notification"
    BALANCING = "balancing"
    REPLICATION = "replication"
    CONTROL = "control"
    DATA = "data"


_M = TypeVar("_M", bound=type)


def carries(traffic: str) -> Callable[[_M], _M]:
    """Class decorator of messages: says what kind of traffic they are, as the class attribute `traffic`.

    A message class also has a method `size_bytes()`: the estimated bytes on a wire, header included.
    """

    def mark(kind: _M) -> _M:
        vars_of: Any = kind
        vars_of.traffic = traffic
        return kind

    return mark


class SetTimer(NamedTuple):
    """Wake the node with `name` after `delay` units of time."""

    delay: float
    name: Hashable


class Effects(NamedTuple):
    """What a node wants done: messages to send, timers to set, items for the application."""

    sends: list[tuple[Address, Any]]
    timers: list[SetTimer]
    deliveries: list[Any]


class LinkMessage(NamedTuple):
    """A message on a reliable link: numbered, so that it can be acknowledged and repeats be dropped."""

    incarnation: int
    sequence: int
    message: Any

    @property
    def traffic(self) -> str:
        """The traffic of the message inside."""
        return str(self.message.traffic)

    def size_bytes(self) -> int:
        """The message inside and two numbers."""
        return int(self.message.size_bytes()) + 12


@carries(Traffic.CONTROL)
class LinkAcknowledgement(NamedTuple):
    """Message `sequence` of that incarnation of the receiver has arrived."""

    incarnation: int
    sequence: int

    def size_bytes(self) -> int:
        """A header and two numbers."""
        return HEADER_BYTES + 12


class KeyRoutedMessage(NamedTuple):
    """A message on its way to whoever answers for a place in an identifier space, hop by hop.

    Attributes:
        identifier: The place.
        payload: The message inside.
        origin: The node that sent it off.
        hops: Hops over the network so far.
        final: The sender believes that the receiver answers for the place.
    """

    identifier: int
    payload: Any
    origin: Address
    hops: int = 0
    final: bool = False

    @property
    def traffic(self) -> str:
        """The traffic of the message inside."""
        return str(self.payload.traffic)

    def size_bytes(self) -> int:
        """The message inside, the place, the origin and a counter."""
        return int(self.payload.size_bytes()) + 28


class LinkSettings(NamedTuple):
    """How a node treats its links."""

    #: Number, acknowledge and repeat messages; off where the network is perfect, to halve the events.
    reliable: bool = False
    #: Time after which an unacknowledged message is sent again.
    retry_delay: float = 4.0
    #: Sends before the other side is taken for unreachable.
    attempts_max: int = 5


class _Repeats:
    """The sequence numbers received from one sender: all below `floor`, and those in `above`."""

    __slots__ = ("above", "floor", "incarnation")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.floor = 0
        self.above: set[int] = set()

    def is_new(self, sequence: int) -> bool:
        if sequence < self.floor or sequence in self.above:
            return False
        self.above.add(sequence)
        while self.floor in self.above:
            self.above.remove(self.floor)
            self.floor += 1
        return True


Handler: TypeAlias = Callable[[Any, Address, Any], None]


class ProtocolNode:
    """A protocol's node: dispatches messages and timers to handlers and gathers their effects.

    A subclass sets `handlers`, a table from message class to `function(node, sender, message)`, and overrides
    `on_timer` and `on_unreachable`. Handlers call `send`, `set_timer` and `deliver`.
    """

    __slots__ = (
        "_deliveries",
        "_pending",
        "_received",
        "_sends",
        "_sequence",
        "_timers",
        "address",
        "incarnation",
        "link",
        "now",
    )

    handlers: ClassVar[dict[type, Handler]] = {}

    def __init__(self, address: Address, link: LinkSettings, incarnation: int = 0) -> None:
        self.address = address
        self.link = link
        self.incarnation = incarnation
        self.now = 0.0
        self._sends: list[tuple[Address, Any]] = []
        self._timers: list[SetTimer] = []
        self._deliveries: list[Any] = []
        self._sequence = 0
        self._pending: dict[int, tuple[Address, Any, int]] = {}
        self._received: dict[Address, _Repeats] = {}

    # What a driver calls.

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        """Take one message. A message of a class the node does not know is ignored, as from a newer peer."""
        self.now = now
        kind = type(message)
        if kind is LinkMessage:
            self._open(sender, message)
        elif kind is LinkAcknowledgement:
            if message.incarnation == self.incarnation:
                self._pending.pop(message.sequence, None)
        else:
            self._dispatch(sender, message)
        return self.drain()

    def wake(self, timer: Hashable, now: float) -> Effects:
        """A timer set earlier went off."""
        self.now = now
        if type(timer) is int:
            self._retry(timer)
        else:
            self.on_timer(timer)
        return self.drain()

    def drain(self) -> Effects:
        """The effects gathered since the last call; for drivers and for commands given from outside."""
        effects = Effects(self._sends, self._timers, self._deliveries)
        if self._sends:
            self._sends = []
        if self._timers:
            self._timers = []
        if self._deliveries:
            self._deliveries = []
        return effects

    # What handlers call.

    def send(self, to: Address, message: Any) -> None:
        """Send, over a reliable link if the settings say so. A message to oneself is always delivered."""
        if not self.link.reliable or to == self.address:
            self._sends.append((to, message))
            return
        sequence = self._sequence
        self._sequence += 1
        self._pending[sequence] = (to, message, 1)
        self._sends.append((to, LinkMessage(self.incarnation, sequence, message)))
        self._timers.append(SetTimer(self.link.retry_delay, sequence))

    def send_once(self, to: Address, message: Any) -> None:
        """Send without repeats, for messages that are sent again periodically anyway."""
        self._sends.append((to, message))

    def set_timer(self, delay: float, name: Hashable) -> None:
        """Ask to be woken. Timer names are anything but integers, which number the links' repeats."""
        self._timers.append(SetTimer(delay, name))

    def deliver(self, item: Any) -> None:
        """Hand an item to the application."""
        self._deliveries.append(item)

    # What a protocol overrides.

    def on_timer(self, timer: Hashable) -> None:
        """A timer of the protocol went off."""

    def on_unreachable(self, address: Address, message: Any) -> None:
        """`message` was sent `attempts_max` times to `address` and never acknowledged."""

    # Links.

    def _dispatch(self, sender: Address, message: Any) -> None:
        handler = self.handlers.get(type(message))
        if handler is not None:
            handler(self, sender, message)

    def _open(self, sender: Address, envelope: LinkMessage) -> None:
        self._sends.append((sender, LinkAcknowledgement(envelope.incarnation, envelope.sequence)))
        repeats = self._received.get(sender)
        if repeats is None or repeats.incarnation < envelope.incarnation:
            repeats = self._received[sender] = _Repeats(envelope.incarnation)
        if repeats.incarnation == envelope.incarnation and repeats.is_new(envelope.sequence):
            self._dispatch(sender, envelope.message)

    def _retry(self, sequence: int) -> None:
        entry = self._pending.get(sequence)
        if entry is None:
            return
        to, message, attempts = entry
        if attempts >= self.link.attempts_max:
            del self._pending[sequence]
            self.on_unreachable(to, message)
            return
        self._pending[sequence] = (to, message, attempts + 1)
        self._sends.append((to, LinkMessage(self.incarnation, sequence, message)))
        self._timers.append(SetTimer(self.link.retry_delay, sequence))
