"""The node that a broker runs: what is asked of it beyond what the network driver asks, and what it hands on.

All times are seconds of a clock that only goes forward.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, Protocol

from twigcast.overlay.core import Address, Effects
from twigcast.overlay.onyx.content.projection import Projection
from twigcast.overlay.onyx.messages import OverlayMessage, Recovered, Root, RoutingQuery, SourceEntry
from twigcast.overlay.onyx.network.driver import OverlayNode
from twigcast.overlay.onyx.wire.bodies import Bodies


class Keep(NamedTuple):
    """To be stored, if a subscription here matches; then :meth:`NodeInterface.stored` is to be called.

    Attributes:
        message: What has arrived; `None`: nothing, only that more is known.
        horizons: How far others are known once it is stored.
    """

    message: OverlayMessage | None
    horizons: Mapping[Root, int]


class ReadAgain(NamedTuple):
    """Messages published here are asked for again.

    Attributes:
        after, upto: Their numbers: above the first, up to the last.
        interests: What the asker wants of them.
        route: Brokers along which the answer goes, the next one first.
    """

    after: int
    upto: int
    query: RoutingQuery
    route: tuple[Address, ...]


class Break(NamedTuple):
    """A neighbour broke the protocol: its link is to be broken off.

    Attributes:
        kind: In a word.
        reason: In a sentence.
    """

    neighbour: Address
    kind: str
    reason: str


class Warn(NamedTuple):
    """Something is wrong that a person should know.

    Attributes:
        kind: In a word.
        reason: In a sentence.
    """

    kind: str
    reason: str


class Learned(NamedTuple):
    """A source of the catalogue is new, or something about it is."""

    source: SourceEntry


class Said(NamedTuple):
    """The service of another broker says something to that of this one."""

    origin: Address
    content: bytes


class LinkDecision(NamedTuple):
    """What became, or would become, of a message on one link.

    Attributes:
        neighbour: The broker at its other end.
        is_child: Whether it lies below this broker in the tree of the message's root.
        interests: Routing query, as texts, that lets the message pass; empty: none does.
        reduced: The query whose result is sent in place of the message; empty: the message itself is.
    """

    neighbour: Address
    is_child: bool
    interests: tuple[str, ...]
    reduced: str = ""


class BrokerInfo(NamedTuple):
    """A broker that is known to be part of the overlay.

    Attributes:
        identity: Its number.
        label: What it says of itself (see `twigcast.overlay.onyx.registry.description`).
        links: Its neighbours and what the links cost.
    """

    identity: Address
    label: str
    links: tuple[tuple[Address, int], ...]


class NodeStatus(NamedTuple):
    """What is told of a node.

    Attributes:
        peers: All brokers that it knows of, itself included.
        tables: By neighbour, how many disjuncts it wants from here.
        horizons: By root, how far it is known.
        gaps: By root, how many numbers below that are asked for again.
        parents: By root, the next broker towards it.
        counts: What the node has done since its start, by name.
        flows: By neighbour, messages that were sent to it, and that nobody behind it wanted, since the link began.
    """

    peers: tuple[BrokerInfo, ...]
    tables: Mapping[Address, int]
    horizons: Mapping[Root, int]
    gaps: Mapping[Root, int]
    parents: Mapping[Root, Address]
    counts: Mapping[str, int] = {}
    flows: Mapping[Address, tuple[int, int]] = {}


class NodeInterface(OverlayNode, Protocol):
    """A node of ONYX, from the side of the broker."""

    def published(self, messages: Sequence[OverlayMessage], upto: int, now: float) -> Effects:
        """Messages were published here and are durable, with all numbers up to one."""

    def stored(self, horizons: Mapping[Root, int], now: float) -> Effects:
        """So far others are known in the store."""

    def subscribe(
        self, interests: Mapping[Hashable, RoutingQuery], now: float, parts: Mapping[Hashable, Projection] | None = None
    ) -> Effects:
        """Subscriptions here, by key, want this from now on; of the messages, those among `parts` take that part."""

    def unsubscribe(self, keys: Sequence[Hashable], now: float) -> Effects:
        """These want nothing any more."""

    def recovered(self, answer: Recovered, now: float) -> Effects:
        """A piece of what `ReadAgain` asked for is on its way."""

    def describe(self, source: SourceEntry, now: float) -> Effects:
        """A source is new, or something about it is: all brokers are to know."""

    def relay(self, target: Address, content: bytes, now: float) -> Effects:
        """Say something to the service of another broker; it may be lost on the way."""

    def matcher(self, query: RoutingQuery) -> Callable[[OverlayMessage], bool]:
        """Says of messages whether a routing query wants them; for any thread, one at a time."""

    def retained_above(self) -> int | None:
        """The number above which some broker may still ask for messages of this one; `None`: there is no other."""

    def branches(self, message: OverlayMessage) -> list[LinkDecision]:
        """What becomes of a message on each link, and why."""

    def labels(self) -> dict[Address, str]:
        """What each broker that is known says of itself, this one included."""

    def is_catching_up(self) -> bool:
        """Whether messages of brokers that were known before are missing, and are about to come."""

    def reached(self) -> frozenset[Address]:
        """The other brokers that can be reached now."""

    def status(self) -> NodeStatus:
        """What is told of it."""


class NodeSettings(NamedTuple):
    """What a node is made with.

    Attributes:
        identity: Its number.
        incarnation: Of this start.
        label: What it says of itself to others (see `twigcast.overlay.onyx.registry.description`).
        last: The last number that it gave.
        horizons: By root, how far it is known in the store.
        bodies: What reads messages in other forms than text.
        reduces: Whether messages are reduced on links to what is taken behind them.
    """

    identity: Address
    incarnation: int
    label: str
    last: int
    horizons: Mapping[Root, int]
    bodies: Bodies
    reduces: bool = False


class MakeNode(Protocol):
    """Makes a node."""

    def __call__(self, settings: NodeSettings) -> NodeInterface:
        """It, with nothing sent yet."""
