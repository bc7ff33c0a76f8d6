"""A node of the cooperative tree: its links, its statistics, and how documents pass (CoDD, sections 2 and 3).

A node has one parent, for a while during a move two, and at most `fan_out` children. For every child it keeps the
child's announced queries and forwards exactly the documents that satisfy one of them. Documents are numbered by the
producer, so repeats during a move are dropped by number.

*Completeness* (ours). The documents of a link are counted, and heartbeats say which prefix of the stream the counted
documents cover. So a node knows a *watermark*: it has everything it needs up to that document. A move keeps the old
link until the watermark reaches the first document that the new path surely brings; after a crash the producer is asked
for what lies between. Nothing is lost or delivered twice.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar

from pyroaring import BitMap

from twigcast.overlay.codd.engine import Engine, Item, Query
from twigcast.overlay.codd.filters import AggregateFilter
from twigcast.overlay.codd.messages import (
    ChangeQueries,
    Forward,
    Heartbeat,
    Received,
    Replayed,
)
from twigcast.overlay.codd.settings import CoddSettings
from twigcast.overlay.core import Address, Handler, ProtocolNode


class Child:
    """The state of a node about one child.

    Attributes:
        queries: What its subtree asks for.
        mask: The same as bits.
        forwarded: Numbers of the documents sent to it, within the window.
        count: Documents sent to it ever.
        version: Announcements taken from it.
        epoch: Which attachment this is.
        early: Announcements that overtook others.
        waiting: Its announcements that the path above does not carry yet: own version needed -> its version.
        leaving: It is being replaced and no longer counts.
    """

    __slots__ = ("count", "early", "epoch", "forwarded", "leaving", "mask", "queries", "version", "waiting")

    def __init__(self, queries: Iterable[Query], mask: int, version: int, epoch: int) -> None:
        self.queries = set(queries)
        self.mask = mask
        self.forwarded = BitMap()
        self.count = 0
        self.version = version
        self.epoch = epoch
        self.early: dict[int, ChangeQueries] = {}
        self.waiting: list[tuple[int, int]] = []
        self.leaving = False


class Uplink:
    """The state of a node about one parent.

    Attributes:
        parent: Its address.
        epoch: Which attachment this is.
        version: Announcements sent to it.
        confirmed: Latest announcement that the path above carries.
        first: First document that surely comes on this link; 0 until it is known.
        sure: First document that surely comes for whatever has been announced since.
        received: How many of the documents sent on it have come without a gap.
        early: Numbers of those that came before others.
        watermark: All needed documents from `first` up to this one have come on it.
        beat: The last heartbeat that has not been reached by the count of documents yet.
        received_at: When a new heartbeat of the producer came on it last.
        round: Which it was.
        ancestors: The nodes above, as the parent said last.
    """

    __slots__ = (
        "ancestors",
        "beat",
        "confirmed",
        "early",
        "epoch",
        "first",
        "parent",
        "received",
        "received_at",
        "round",
        "sure",
        "version",
        "watermark",
    )

    def __init__(self, parent: Address, epoch: int, now: float) -> None:
        self.parent = parent
        self.epoch = epoch
        self.version = 0
        self.confirmed = -1
        self.first = 0
        self.received = 0
        self.watermark = 0
        self.beat: Heartbeat | None = None
        self.received_at = now
        self.early: set[int] = set()
        self.sure = 0
        self.round = 0
        self.ancestors: tuple[Address, ...] = (parent,)

    def arrived(self, sent: int) -> None:
        """Notes the arrival of a document. A heartbeat is fulfilled by the first documents, not by any so many."""
        if sent == self.received + 1:
            self.received = sent
        elif sent > self.received:
            self.early.add(sent)
        while self.early and self.received + 1 in self.early:
            self.received += 1
            self.early.remove(self.received)


class CoddNode(ProtocolNode):
    """A node of the cooperative tree. The root is the producer and asks for nothing.

    Attributes:
        query: The node's own subscription; `None` at the root.
        uplinks: The parent, and during a move the next one, in this order.
        children: By address.
        received: Numbers of the documents that came, within the window.
        own: Those of them that satisfy the node's own query.
        received_count: Documents that came, ever.
        spurious_count: Those of them that the node itself did not want.
    """

    __slots__ = (
        "active",
        "ancestors",
        "children",
        "engine",
        "filter",
        "grant",
        "joining",
        "leaving",
        "moving_to",
        "newest",
        "own",
        "own_mask",
        "query",
        "queue",
        "received",
        "received_count",
        "replaying",
        "root",
        "round",
        "seeds",
        "seen_above",
        "serving",
        "settings",
        "spurious_count",
        "store",
        "summary",
        "tokens",
        "unclaimed",
        "uplinks",
        "watermark",
        "window_received",
        "window_spurious",
    )

    handlers: ClassVar[dict[type, Handler]] = {}
    timer_handlers: ClassVar[dict[str, Callable[..., None]]] = {}
    #: What other modules do when something happens: `covered`, `started`, `moved`, `child_gone`, `document`.
    hooks: ClassVar[dict[str, Callable[..., None]]] = {}
    lost_handlers: ClassVar[dict[type, Callable[[Any, Address, Any], None]]] = {}

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
        self.query = query
        self.root = root
        self.active = address == root
        self.own_mask = engine.mask([query]) if query is not None else 0
        self.filter = AggregateFilter(engine, settings.filter_max)
        if query is not None:
            self.filter.change([query], [])
        self.summary = engine.new_summary(settings.window)
        self.children: dict[Address, Child] = {}
        self.uplinks: list[Uplink] = []
        self.ancestors: tuple[Address, ...] = ()
        self.received = BitMap()
        self.own = BitMap()
        self.received_count = 0
        self.spurious_count = 0
        #: Numbers above the watermark that came already (on whatever link).
        self.seen_above: set[int] = set()
        self.watermark = 0
        self.newest = 0
        #: The last of the producer's heartbeats that came down the present path.
        self.round = 0
        self.tokens = 0
        # Joining and moving.
        self.joining: Any = None
        self.seeds: tuple[Address, ...] = (root,)
        self.moving_to: Address = -1
        self.leaving = False
        #: (after, before) of a replay asked for, or None.
        self.replaying: tuple[int, int] | None = None
        #: Announcements that overtook the attachment they belong to, by (child, epoch).
        self.unclaimed: dict[tuple[Address, int], list[ChangeQueries]] = {}
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

    def new_token(self) -> int:
        """Returns a number not used before."""
        self.tokens += 1
        return self.tokens

    def overhead(self) -> float:
        """Returns the share of all received documents that only passed through."""
        return self.spurious_count / self.received_count if self.received_count else 0.0

    def uplink(self, address: Address) -> Uplink | None:
        """Returns the link to a parent."""
        for link in self.uplinks:
            if link.parent == address:
                return link
        return None

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
        """Note a new document, deliver it, pass it on."""
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
            self.deliver(Received(number))
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
        self.send(address, Forward(item, child.count, child.epoch))

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
            self.send(address, Heartbeat(self.watermark, child.count, ancestors, self.round, child.epoch))

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

    # The node's own hooks.

    def on_timer(self, timer: Hashable) -> None:
        """Dispatches a timer by its name, or by the first item of a tuple."""
        if isinstance(timer, tuple):
            self.timer_handlers[timer[0]](self, *timer[1:])
        elif isinstance(timer, str):
            self.timer_handlers[timer](self)

    def on_unreachable(self, address: Address, message: Any) -> None:
        """Treats the receiver of a message that was given up as dead."""
        handler = self.lost_handlers.get(type(message))
        if handler is not None:
            handler(self, address, message)


def on_forward(node: CoddNode, sender: Address, message: Forward) -> None:
    """Takes a document from a parent."""
    link = node.uplink(sender)
    if link is not None and link.epoch == message.epoch:
        link.arrived(message.sent)
    elif not node.active:
        return
    node.take_if_new(message.item)
    if link is not None and link.epoch == message.epoch and link.beat is not None and link.received >= link.beat.sent:
        beat, link.beat = link.beat, None
        _covered(node, link, beat)


def on_replayed(node: CoddNode, sender: Address, message: Replayed) -> None:
    """Takes a document from the producer that was missed when a parent failed."""
    node.take_if_new(message.item)


def on_heartbeat(node: CoddNode, sender: Address, message: Heartbeat) -> None:
    """Notes how far the documents on a parent's link go."""
    link = node.uplink(sender)
    if link is None or link.epoch != message.epoch:
        return
    if message.round > link.round:
        link.round = message.round
        link.received_at = node.now
        if node.uplinks[0] is link and message.round > node.round:
            node.round = message.round
            node.ancestors = link.ancestors = message.ancestors
            node.beat()
    if link.received >= message.sent:
        _covered(node, link, message)
    elif link.beat is None or link.beat.sent <= message.sent:
        link.beat = message


def _covered(node: CoddNode, link: Uplink, beat: Heartbeat) -> None:
    link.watermark = max(link.watermark, beat.watermark)
    link.ancestors = beat.ancestors
    if node.uplinks[0] is link and node.ancestors != beat.ancestors:
        node.ancestors = beat.ancestors
        if not node.settings.heartbeat:
            node.beat()
    if node.settings.heartbeat:
        node.hooks["covered"](node)
