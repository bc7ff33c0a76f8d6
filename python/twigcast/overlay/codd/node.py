"""A node of the cooperative tree: its links, its statistics, and how documents pass (CoDD, sections 2 and 3).

A node has one parent, for a while during a move two, and at most `fan_out` children. For every child it keeps the
child's announced queries and forwards exactly the documents that satisfy one of them. Documents are numbered by the
producer, so repeats during a move are dropped by number.

*Completeness* (ours). The documents of a link come in order, and heartbeats between them say which prefix of the stream
they cover. So a node knows a *watermark*: it has everything it needs up to that document. A move keeps the old
link until the watermark reaches the first document that the new path surely brings; after a crash the producer is asked
for what lies between. Nothing is lost or delivered twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyroaring import BitMap

from twigcast.overlay.codd.engine import Engine, Item, Query
from twigcast.overlay.codd.filters import AggregateFilter
from twigcast.overlay.codd.messages import (
    Forward,
    Heartbeat,
    Leave,
    Received,
    Replayed,
)
from twigcast.overlay.codd.settings import CoddSettings
from twigcast.overlay.core import Address, ProtocolNode


@dataclass(slots=True)
class Child:
    """The state of a node about one child."""

    queries: set[Query]  #: What its subtree asks for.
    mask: int  #: The same as bits.
    epoch: int  #: Number of its attachment.
    forwarded: BitMap = field(default_factory=BitMap)  #: Numbers of the documents sent to it, within the window.
    count: int = 0  #: Documents ever sent to it.
    #: Its announcements that the path above does not carry yet: the node's own version that is needed, its version.
    waiting: list[tuple[int, int]] = field(default_factory=list)
    leaving: bool = False  #: Whether another node replaces it, so that it no longer counts.


@dataclass(slots=True)
class Uplink:
    """The state of a node about one parent."""

    parent: Address
    epoch: int  #: Number of the attachment.
    received_at: float  #: When a new heartbeat of the producer last came on it.
    ancestors: tuple[Address, ...]  #: The nodes above, as the parent last named them.
    version: int = 0  #: Announcements sent to it.
    confirmed: int = -1  #: Latest announcement that the path above carries.
    first: int = 0  #: First document that surely comes on this link; 0 until it is known.
    sure: int = 0  #: First document that surely comes for all that was announced since.
    watermark: int = 0  #: All needed documents from `first` up to this one have come on it.
    round: int = 0  #: Number of the last heartbeat.
    last: int = -1  #: The last document, once the stream has ended on it.


@dataclass(slots=True)
class Replaying:
    """A request to the producer for the documents between `after` and `before`, and how many of them have come."""

    token: int
    after: int
    before: int
    repeated: int = 0


class CoddNode(ProtocolNode):
    """A node of the cooperative tree. The root is the producer and asks for nothing."""

    #: Functions of other modules by the event that calls them (`handlers`).
    hooks: ClassVar[dict[str, Callable[..., None]]] = {}

    def __init__(
        self,
        address: Address,
        query: Query | None,
        engine: Engine,
        settings: CoddSettings,
        root: Address = 0,
        incarnation: int = 0,
    ) -> None:
        super().__init__(address, settings.link, incarnation)
        self.settings = settings
        self.engine = engine
        self.query = query  #: The node's own subscription; `None` at the root.
        self.root = root
        self.active = address == root
        self.last = -1  #: The last document, once the stream has ended for this node.
        self.own_mask = engine.mask([query]) if query is not None else 0
        self.filter = AggregateFilter(engine, settings.filter_max)
        if query is not None:
            self.filter.change([query], [])
        self.summary = engine.new_summary(settings.window)
        self.children: dict[Address, Child] = {}  #: By address.
        self.uplinks: list[Uplink] = []  #: The parent, and during a move the next one, in this order.
        self.ancestors: tuple[Address, ...] = ()
        self.received = BitMap()  #: Numbers of the documents that came, within the window.
        self.own = BitMap()  #: Numbers of the documents that satisfy the node's own query.
        self.received_count = 0  #: Documents that came, ever.
        self.spurious_count = 0  #: Documents that did not satisfy the node's own query.
        #: Numbers above the watermark that came already (on whatever link).
        self.seen_above: set[int] = set()
        self.watermark = 0
        self.newest = 0
        #: The last of the producer's heartbeats that came down the present path.
        self.round = 0
        # Joining and moving.
        self.joining: Any = None
        self.seeds: tuple[Address, ...] = (root,)
        self.moving_to: Address = -1
        self.leaving = False
        self.replaying: Replaying | None = None
        # Reorganisation.
        self.window_received = 0
        self.window_spurious = 0
        self.grant: Any = None
        # The producer.
        self.store: list[Item] = []
        #: Requests to move a subtree, by who asks, first come first.
        self.queue: dict[Address, tuple[float, Address, Address]] = {}
        self.serving: Address = -1

    # Small helpers.

    @property
    def is_root(self) -> bool:
        """True for the producer."""
        return self.address == self.root

    @property
    def parent(self) -> Address:
        """The current parent; -1 without one."""
        return self.uplinks[0].parent if self.uplinks else -1

    @property
    def level(self) -> int:
        """Depth in the tree; 0 for the root."""
        return len(self.ancestors)

    def has_capacity(self) -> bool:
        """Returns whether another child is accepted."""
        slots = sum(not child.leaving for child in self.children.values())
        return self.active and not self.leaving and slots < self.settings.fan_out

    def overhead(self) -> float:
        """Returns the share of all received documents that only passed through."""
        return self.spurious_count / self.received_count if self.received_count else 0.0

    def uplink(self, address: Address) -> Uplink | None:
        """Returns the link to a parent."""
        for link in self.uplinks:
            if link.parent == address:
                return link
        return None

    def on_link_lost(self, address: Address, restarted: bool) -> None:
        """Removes a child, and drops a parent, that does not answer or has started again."""
        self.hooks["link_lost"](self, address)

    # Documents.

    def publish(self, item: Item) -> None:
        """Emits, as the producer, the next document of the stream."""
        self.newest = self.watermark = item.number
        self.store.append(item)
        if len(self.store) > 2 * self.settings.replay:
            del self.store[: -self.settings.replay]
        self._take(item)
        if self.settings.heartbeat and item.number % self.settings.heartbeat == 0:
            self.round += 1
            self.beat()

    def _take(self, item: Item) -> None:
        """Records a new document, delivers it, and passes it on."""
        satisfied = self.engine.satisfied(item)
        number = item.number
        if number > self.newest:
            self.newest = number
        self.received.add(number)
        self.summary.add(item)
        self.received_count += 1
        self.window_received += 1
        if satisfied & self.own_mask:
            self.own.add(number)
            self.deliver(Received(number, item.content))
        elif not self.is_root:
            self.spurious_count += 1
            self.window_spurious += 1
        for address, child in self.children.items():
            if child.mask & satisfied:
                self.forward(address, child, item)
        if number % 256 == 0:
            self._forget_old()
        if self.settings.reorganise and not self.is_root:
            self.hooks["document"](self)

    def forward(self, address: Address, child: Child, item: Item) -> None:
        """Sends a document to a child."""
        child.count += 1
        child.forwarded.add(item.number)
        self.send(address, Forward(item, child.epoch))

    def _forget_old(self) -> None:
        before = self.newest - self.settings.window
        if before > 0:
            for bitmap in (self.received, self.own, *(child.forwarded for child in self.children.values())):
                bitmap.remove_range(0, before)

    def take_if_new(self, item: Item) -> None:
        """Takes a document unless it came before, on another link."""
        if item.number > self.watermark and item.number not in self.seen_above:
            if self.settings.heartbeat:
                self.seen_above.add(item.number)
            elif item.number in self.received:
                return
            self._take(item)

    # Heartbeats.

    def beat(self) -> None:
        """Informs the children how far this node is complete."""
        ancestors = (self.address, *self.ancestors)
        for address, child in self.children.items():
            self.send(address, Heartbeat(self.watermark, ancestors, self.round, child.epoch))

    def advance(self) -> None:
        """Computes how far the node is complete from what its links cover, and informs the children."""
        if not self.settings.heartbeat:
            return
        before = self.watermark
        progress = True
        while progress:
            progress = False
            for link in self.uplinks:
                if 0 < link.first <= self.watermark + 1 and link.watermark > self.watermark:
                    self.watermark = link.watermark
                    progress = True
        if self.watermark > before:
            self.seen_above = {number for number in self.seen_above if number > self.watermark}
            self.beat()


def on_forward(node: CoddNode, sender: Address, message: Forward) -> None:
    """Takes a document from a parent."""
    link = node.uplink(sender)
    if node.active or (link is not None and link.epoch == message.epoch):
        node.take_if_new(message.item)


def on_replayed(node: CoddNode, sender: Address, message: Replayed) -> None:
    """Takes a document from the producer that was missed when a parent failed."""
    node.take_if_new(message.item)
    if node.replaying is not None and node.replaying.token == message.token:
        node.replaying.repeated += 1


def on_heartbeat(node: CoddNode, sender: Address, message: Heartbeat) -> None:
    """Notes how far the documents on a parent's link go."""
    link = node.uplink(sender)
    if link is None or link.epoch != message.epoch:
        # The farewell to this parent was lost.
        node.send_once(sender, Leave(message.epoch))
        return
    if message.round > link.round:
        link.round = message.round
        link.received_at = node.now
        if node.uplinks[0] is link and message.round > node.round:
            node.round = message.round
            node.ancestors = link.ancestors = message.ancestors
            node.beat()
    link.watermark = max(link.watermark, message.watermark)
    link.ancestors = message.ancestors
    if node.uplinks[0] is link and node.ancestors != message.ancestors:
        node.ancestors = message.ancestors
        if not node.settings.heartbeat:
            node.beat()
    if node.settings.heartbeat:
        node.hooks["covered"](node)
