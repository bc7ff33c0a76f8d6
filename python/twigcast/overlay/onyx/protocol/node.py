"""The node of a broker in an overlay: links, wishes, attachments, messages; no input or output of its own.

Its parts: ``flooding`` (greetings, link states, the catalogue), ``attachments`` (who is whose parent, and from when on
spans count), ``forwarding`` (messages and silence down the trees, reports up), ``recovery`` (gaps), ``link_projection``
(what of messages suffices on a link), ``relaying`` (what services of brokers say to each other).

What must survive a crash, and is kept by the application: the broker's own messages with their numbers, the
subscriptions, the horizons as they came with `StoreRequested`, and a greater incarnation at each start. All else is
told anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from twigcast.limits import Limits
from twigcast.overlay.core import Address, Effects, LinkSettings, ProtocolNode
from twigcast.overlay.onyx.content.projection import Projection
from twigcast.overlay.onyx.content.routing_table import BroadcastTrees
from twigcast.overlay.onyx.messages import (
    Attach,
    Attached,
    Detach,
    Disjunct,
    Hello,
    LinkState,
    OverlayMessage,
    Recover,
    Recovered,
    Root,
    RoutingDelta,
    RoutingQuery,
    ServiceMessage,
    SetProjection,
    SourceEntry,
    Span,
    StoredReport,
)
from twigcast.overlay.onyx.protocol import attachments, flooding, forwarding, link_projection, recovery, relaying
from twigcast.overlay.onyx.protocol.errors import RemoteProtocolError
from twigcast.overlay.onyx.protocol.events import NodeWarning, ProtocolViolation
from twigcast.overlay.onyx.protocol.root_stream import ReceivedRanges, RootStream
from twigcast.overlay.onyx.protocol.settings import OnyxSettings
from twigcast.overlay.onyx.protocol.topology import Topology

#: Which of some neighbours want a message.
Route: TypeAlias = Callable[[OverlayMessage, Iterable[Address]], frozenset[Address]]


class Table(Protocol):
    """What a node needs of its routing table (see :mod:`twigcast.overlay.onyx.content.routing_table`)."""

    def subscribe(self, key: Hashable, query: RoutingQuery) -> None:
        """Add a subscription's routing query, in place of the one that the key had."""

    def unsubscribe(self, key: Hashable) -> bool:
        """Remove a subscription; whether it was there."""

    def local(self) -> RoutingQuery:
        """The routing query of the broker's own users."""

    def apply(self, neighbour: Address, delta: RoutingDelta) -> bool:
        """Take changes of what a neighbour wants; whether they follow on what is known."""

    def remote(self, neighbour: Address) -> Mapping[Disjunct, frozenset[Root] | str]:
        """What a neighbour wants."""

    def remote_count(self, neighbour: Address) -> int:
        """How many disjuncts a neighbour wants."""

    def forget(self, neighbour: Address) -> None:
        """The link to a neighbour is gone."""

    def set_trees(self, trees: BroadcastTrees) -> None:
        """Take new broadcast trees."""

    def delta(self, neighbour: Address) -> RoutingDelta | None:
        """What is to be told a neighbour."""

    def route(self, message: bytes, scope: str, root: Root, among: Iterable[Address]) -> frozenset[Address]:
        """The neighbours, of those given, that want a message."""


class LinkTraffic:
    """What became of messages on one link.

    Attributes:
        sent: Messages that were sent.
        left_out: Messages that nobody behind it wants.
    """

    __slots__ = ("left_out", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.left_out = 0


class OnyxNode(ProtocolNode):
    """A broker.

    Args:
        address: Its identity, for good.
        incarnation: Number of this start, greater than those before.
        table: Its routing table, with nothing of neighbours.
        settings: Times and bounds.
        last: Number of its own last message.
        horizons: Up to where it knows the messages of other roots, as stored.
        where: How others reach it.
        forms: Wire formats that it can read, the dearest first.
        route: Finds the neighbours that want a message; where bodies come in other forms than text.
        limits: Of messages and queries, where messages are reduced.
        text: The text of a message that comes in another form; without it, such messages are not reduced.
    """

    __slots__ = (
        "_armed",
        "catalogue",
        "counts",
        "deltas_sent",
        "flows",
        "forms",
        "has_moved",
        "known_sources",
        "links",
        "parents",
        "peers",
        "reductions",
        "route",
        "settings",
        "settling",
        "streams",
        "table",
        "topology",
        "trees_changed",
        "unreachable",
    )

    handlers = {  # noqa: RUF012 - never changed
        Hello: flooding.on_hello,
        LinkState: flooding.on_link_state,
        SourceEntry: flooding.on_source,
        RoutingDelta: attachments.on_routing_delta,
        SetProjection: link_projection.on_reduce,
        Attach: attachments.on_attach,
        Attached: attachments.on_attached,
        Detach: attachments.on_detach,
        Span: forwarding.on_span,
        StoredReport: forwarding.on_stored_report,
        Recover: recovery.on_recover,
        Recovered: recovery.on_recovered,
        ServiceMessage: relaying.on_relay,
    }

    def __init__(
        self,
        address: Address,
        incarnation: int,
        table: Table,
        settings: OnyxSettings | None = None,
        *,
        last: int = 0,
        horizons: Mapping[Root, int] | None = None,
        where: str = "",
        forms: tuple[str, ...] = ("text",),
        route: Route | None = None,
        limits: Limits | None = None,
        text: Callable[[OverlayMessage], bytes] | None = None,
    ) -> None:
        super().__init__(address, LinkSettings(), incarnation)
        self.table = table
        self.settings = settings or OnyxSettings()
        self.forms = forms
        self.route: Route = route or self._route
        #: What is taken of messages, here and by neighbours; `None`: they are not reduced.
        self.reductions = link_projection.LinkProjections(limits, text) if self.settings.reduces else None
        self.topology = Topology(address, incarnation, where, shared=self.settings.shared_tree)
        #: Neighbours whose link is up, and what they greeted with.
        self.links: set[Address] = set()
        self.peers: dict[Address, Hello] = {}
        self.parents: dict[Root, Address] = {}
        self.streams: dict[Root, RootStream] = {}
        #: Deltas sent to each neighbour on its present link.
        self.deltas_sent: Counter[Address] = Counter()
        #: By neighbour, messages that were sent to it and that it did not want, on its present link.
        self.flows: dict[Address, LinkTraffic] = {}
        self.catalogue: dict[str, SourceEntry] = {}
        self.settling: dict[Hashable, dict[Root, int] | None] = {}
        self.unreachable: dict[Address, float] = {}
        self.counts: Counter[str] = Counter()
        self.trees_changed = True
        self.has_moved = True
        self._armed: set[Hashable] = set()
        self.streams[address] = RootStream(address, ReceivedRanges(last), end=last)
        for root, horizon in (horizons or {}).items():
            if root != address:
                self.streams[root] = RootStream(root, ReceivedRanges(horizon), end=horizon, stored=horizon)

    # What the driver tells.

    def link_up(self, neighbour: Address, cost: int, now: float) -> Effects:
        """There is a new link to a neighbour; what it costs (milliseconds there and back)."""
        self.now = now
        if neighbour in self.links:
            self._down(neighbour)
        flooding.link_up(self, neighbour, cost)
        return self.drain()

    def link_cost(self, neighbour: Address, cost: int, now: float) -> Effects:
        """A link costs something else now."""
        self.now = now
        if neighbour in self.links:
            self.topology.set_link(neighbour, cost)
            self.move()
        return self.drain()

    def link_down(self, neighbour: Address, now: float) -> Effects:
        """The link to a neighbour broke; what was under way may be lost."""
        self.now = now
        self._down(neighbour)
        return self.drain()

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        """Take one message. What comes over no link is nobody's."""
        self.now = now
        if sender not in self.links:
            return self.drain()
        try:
            if sender not in self.peers and type(message) is not Hello:
                raise RemoteProtocolError("order", f"{type(message).__name__} came before the greeting")
            self._dispatch(sender, message)
        except RemoteProtocolError as error:
            self.refuse(sender, error.kind, error.reason)
        return self.drain()

    # What the application wants.

    def subscribe(self, key: Hashable, requested: RoutingQuery, now: float, part: Projection | None = None) -> Effects:
        """A subscription is new, or is replaced.

        Args:
            key: Names it.
            requested: Its routing query.
            now: Time.
            part: What it takes of a message; `None`: the whole.
        """
        self.now = now
        self.table.subscribe(key, requested)
        if self.reductions is not None:
            self.reductions.subscribe(key, requested, part)
        self.soon()
        return self.drain()

    def unsubscribe(self, key: Hashable, now: float) -> Effects:
        """A subscription is gone."""
        self.now = now
        if self.table.unsubscribe(key):
            if self.reductions is not None:
                self.reductions.unsubscribe(key)
            self.soon()
        return self.drain()

    def settle(self, token: Hashable, now: float) -> Effects:
        """Ask for `InterestSettled` when all roots that can be reached have heard of what is wanted here now."""
        self.now = now
        attachments.settle(self, token)
        return self.drain()

    def published(self, messages: Sequence[OverlayMessage], now: float) -> Effects:
        """The broker's own messages, durable, in the order of their numbers.

        Raises:
            ValueError: A number is not above the last one, or the root is another.
        """
        self.now = now
        for message in messages:
            forwarding.publish(self, message)
        return self.drain()

    def stored(self, horizons: Mapping[Root, int], now: float) -> Effects:
        """Horizons, as they came with `StoreRequested`, are durable, and all that came with or before them."""
        self.now = now
        for root, horizon in horizons.items():
            stream = self.streams.get(root)
            if stream is not None and root != self.address and (stream.stored is None or horizon > stream.stored):
                stream.stored = horizon
                self.arm("report", self.settings.report_delay)
        return self.drain()

    def answer(self, answer: Recovered, now: float) -> Effects:
        """A piece of the answer to a question (`ResendRequested`); its way is that of the question, backwards."""
        self.now = now
        recovery.answer(self, answer)
        return self.drain()

    def describe(self, source: SourceEntry, now: float) -> Effects:
        """An entry of the catalogue is new here, or a later version."""
        self.now = now
        flooding.learn(self, source, None)
        return self.drain()

    def relay(self, target: Address, content: bytes, now: float) -> Effects:
        """Say something to the service of another broker; it may be lost on the way."""
        self.now = now
        relaying.send(self, target, content)
        return self.drain()

    def forget(self, broker: Address, now: float) -> Effects:
        """A broker will not come back: nobody waits for it any more."""
        self.now = now
        self.topology.forget(broker)
        self.unreachable.pop(broker, None)
        self.move()
        return self.drain()

    # What others may read.

    @property
    def members(self) -> set[Address]:
        """The brokers that are known, those that cannot be reached just now among them, and oneself."""
        return set(self.topology.states)

    def forgettable(self) -> int | None:
        """All others have stored what they want of one's own messages up to here; `None`: not known yet."""
        return self.streams[self.address].stored

    # For the parts of the node.

    def arm(self, name: Hashable, delay: float) -> None:
        """Set a timer unless it is set."""
        if name not in self._armed:
            self._armed.add(name)
            self.set_timer(delay, name)

    def soon(self) -> None:
        """Neighbours are to be told of changes."""
        self.arm("flush", self.settings.flush_delay)

    def move(self) -> None:
        """Links have changed, here or elsewhere."""
        self.has_moved = True
        self.soon()

    def on_timer(self, timer: Hashable) -> None:
        """A timer went off."""
        self._armed.discard(timer)
        match timer:
            case "flush":
                attachments.flush(self)
            case "attach":
                attachments.ask_again(self)
            case "silence":
                forwarding.tell_silence(self)
            case "report":
                forwarding.report(self)
            case ("recover", int(root)):
                recovery.request_gaps(self, root)

    def refuse(self, neighbour: Address, kind: str, reason: str) -> None:
        """A neighbour broke the protocol: its link is as good as down."""
        self.counts["refused"] += 1
        self._down(neighbour)
        self.deliver(ProtocolViolation(neighbour, kind, reason))

    def trouble(self, kind: str, reason: str) -> None:
        """Something is wrong that breaks nothing here."""
        self.counts[f"trouble_{kind}"] += 1
        self.deliver(NodeWarning(kind, reason))

    def flow(self, neighbour: Address) -> LinkTraffic:
        """What became of messages on the link to a neighbour; begun if it is new."""
        flow = self.flows.get(neighbour)
        if flow is None:
            flow = self.flows[neighbour] = LinkTraffic()
        return flow

    def stream(self, root: Root) -> RootStream:
        """What is known of a root; begun if it is new."""
        stream = self.streams.get(root)
        if stream is None:
            stream = self.streams[root] = RootStream(root, ReceivedRanges())
        return stream

    def _down(self, neighbour: Address) -> None:
        if neighbour in self.links:
            self.links.discard(neighbour)
            self.peers.pop(neighbour, None)
            self.flows.pop(neighbour, None)
            self.topology.drop_link(neighbour)
            attachments.link_down(self, neighbour)
            self.table.forget(neighbour)
            if self.reductions is not None:
                self.reductions.forget(neighbour)
            self.move()

    def _route(self, message: OverlayMessage, among: Iterable[Address]) -> frozenset[Address]:
        return self.table.route(message.body, message.scope, message.root, among)
