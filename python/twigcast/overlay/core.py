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
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

#: Number of a node. A driver maps it to its own addresses (the simulator: a list index; a network: host and port).
Address: TypeAlias = int

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


def carries(traffic: str, content: int | None = None) -> Callable[[_M], _M]:
    """Returns a class decorator that sets the kind of traffic of messages, the class attribute `traffic`.

    A message class also has a method `size_bytes()`, which returns the estimated bytes on a wire, with the header.

    Args:
        traffic: The kind of traffic.
        content: Bytes after the header, if they are constant; the decorator then adds the method.
    """

    def mark(kind: _M) -> _M:
        vars_of: Any = kind
        vars_of.traffic = traffic
        if content is not None:
            vars_of.size_bytes = lambda self: HEADER_BYTES + content
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
    """A message on a reliable link. Its number is for acknowledgements and to drop repetitions."""

    incarnation: int
    sequence: int
    message: Any

    @property
    def traffic(self) -> str:
        """The traffic of the message inside."""
        return str(self.message.traffic)

    def size_bytes(self) -> int:
        """Returns the estimated bytes on a wire."""
        return int(self.message.size_bytes()) + 12


@carries(Traffic.CONTROL, content=12)
class LinkAcknowledgement(NamedTuple):
    """The acknowledgement of message `sequence` of one incarnation of the receiver."""

    incarnation: int
    sequence: int


class KeyRoutedMessage(NamedTuple):
    """A message to the node that is responsible for an identifier, passed on hop by hop.

    Attributes:
        identifier: The identifier.
        payload: The message inside.
        origin: The first sender.
        hops: Hops over the network so far.
        final: Whether the sender believes that the receiver is responsible for the identifier.
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
        """Returns the estimated bytes on a wire."""
        return int(self.payload.size_bytes()) + 28


class LinkSettings(NamedTuple):
    """The settings of the links of a node."""

    #: Whether messages are numbered, acknowledged and repeated. On a perfect network this would double the events.
    reliable: bool = False
    #: Time after which an unacknowledged message is repeated.
    retry_delay: float = 4.0
    #: Attempts before the other side counts as unreachable.
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
    """A node of a protocol. It dispatches messages and timers to handlers and collects their effects.

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

    # Called by a driver.

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        """Processes one message. A message of an unknown class is ignored, as from a newer peer."""
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
        """Runs a timer that was set earlier."""
        self.now = now
        if type(timer) is int:
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
        sequence = self._sequence
        self._sequence += 1
        self._pending[sequence] = (to, message, 1)
        self._sends.append((to, LinkMessage(self.incarnation, sequence, message)))
        self._timers.append(SetTimer(self.link.retry_delay, sequence))

    def send_once(self, to: Address, message: Any) -> None:
        """Sends a message without repetition, since it is sent periodically anyway."""
        self._sends.append((to, message))

    def set_timer(self, delay: float, name: Hashable) -> None:
        """Sets a timer. Its name is no integer, since integers are the timers of repetitions."""
        self._timers.append(SetTimer(delay, name))

    def deliver(self, item: Any) -> None:
        """Passes an item to the application."""
        self._deliveries.append(item)

    # Overridden by a protocol.

    def on_timer(self, timer: Hashable) -> None:
        """Runs a timer of the protocol."""

    def on_unreachable(self, address: Address, message: Any) -> None:
        """Is called when a message was sent `attempts_max` times and never acknowledged."""

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
