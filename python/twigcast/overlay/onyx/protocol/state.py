"""The state of a node that the parts of the protocol share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

from twigcast.limits import Limits
from twigcast.overlay.core import Address, LinkSettings, ProtocolNode
from twigcast.overlay.onyx.content.routing_table import RoutingTable
from twigcast.overlay.onyx.messages import Hello, OverlayMessage, Root, SourceEntry
from twigcast.overlay.onyx.protocol.events import NodeWarning
from twigcast.overlay.onyx.protocol.link_projection import LinkProjections
from twigcast.overlay.onyx.protocol.root_stream import ReceivedRanges, RootStream
from twigcast.overlay.onyx.protocol.settings import OnyxSettings
from twigcast.overlay.onyx.protocol.topology import Topology


@dataclass(slots=True)
class LinkTraffic:
    """Counts of the messages of one link: those that were sent, and those that no broker behind it wants."""

    sent: int = 0
    left_out: int = 0


class NodeState(ProtocolNode):
    """The links, streams, counts and effects of one node."""

    def __init__(
        self,
        address: Address,
        incarnation: int,
        table: RoutingTable,
        settings: OnyxSettings | None = None,
        *,
        last: int = 0,
        horizons: Mapping[Root, int] | None = None,
        where: str = "",
        limits: Limits | None = None,
        text: Callable[[OverlayMessage], bytes] | None = None,
    ) -> None:
        """Begins without links.

        Args:
            address: The identity of the broker, which never changes.
            incarnation: Number of this start, greater than those before.
            table: The routing table, empty.
            settings: Times and bounds.
            last: Number of the broker's own last message.
            horizons: By root, the stored horizon.
            where: How others reach the broker.
            limits: Of messages and queries, where messages are reduced.
            text: Returns the text of a message in another form; without it, such messages are sent whole.
        """
        super().__init__(address, LinkSettings(), incarnation)
        self.table = table  #: The routing table.
        self.settings = settings or OnyxSettings()  #: Times and bounds.
        #: What is used of messages, here and behind each link; `None`: messages are always sent whole.
        self.projections = LinkProjections(limits, text) if self.settings.reduces else None
        #: The link states of all brokers.
        self.topology = Topology(address, incarnation, where, shared=self.settings.shared_tree)
        self.links: set[Address] = set()  #: Neighbours whose link is up.
        self.peers: dict[Address, Hello] = {}  #: By neighbour that has greeted, its greeting.
        self.parents: dict[Root, Address] = {}  #: By root, the neighbour towards it.
        self.streams: dict[Root, RootStream] = {}  #: By root, the stream of its messages.
        self.deltas_sent: Counter[Address] = Counter()  #: By neighbour, the routing deltas sent on the current link.
        self.traffic: dict[Address, LinkTraffic] = {}  #: By neighbour, the messages of the current link.
        self.catalogue: dict[str, SourceEntry] = {}  #: The newest entry of each source.
        #: By token of `settle`, the attachment that each root has to confirm; `None`: they are not sent yet.
        self.settling: dict[Hashable, dict[Root, int] | None] = {}
        self.unreachable: dict[Address, float] = {}  #: Brokers without a path to them, and since when.
        self.counts: Counter[str] = Counter()  #: What has happened, by name.
        self.has_changed_links = True  #: Whether parents have to be chosen anew.
        self.has_changed_trees = True  #: Whether the routing table has to be given the broadcast trees anew.
        self._armed: set[Hashable] = set()
        self.streams[address] = RootStream(address, ReceivedRanges(last), end=last)
        for root, horizon in (horizons or {}).items():
            if root != address:
                self.streams[root] = RootStream(root, ReceivedRanges(horizon), end=horizon, stored=horizon)

    def arm(self, name: Hashable, delay: float) -> None:
        """Sets a timer unless it is set."""
        if name not in self._armed:
            self._armed.add(name)
            self.set_timer(delay, name)

    def disarm(self, name: Hashable) -> None:
        """Clears a timer that went off, so that it can be set again."""
        self._armed.discard(name)

    def arm_flush(self) -> None:
        """Sets the timer after which neighbours are sent what has changed."""
        self.arm("flush", self.settings.flush_delay)

    def note_link_change(self) -> None:
        """Notes a change of links, here or elsewhere."""
        self.has_changed_links = True
        self.arm_flush()

    def warn(self, kind: str, reason: str) -> None:
        """Hands the application a warning, and counts it."""
        self.counts[f"trouble_{kind}"] += 1
        self.deliver(NodeWarning(kind, reason))

    def route(self, message: OverlayMessage, among: Iterable[Address]) -> frozenset[Address]:
        """Returns those of some neighbours that want a message.

        Raises:
            RejectedMessage: The message is malformed or over a limit.
        """
        return self.table.route(message.body, message.scope, message.root, among)

    def traffic_to(self, neighbour: Address) -> LinkTraffic:
        """Returns the counts of the link to a neighbour, which begin at 0."""
        traffic = self.traffic.get(neighbour)
        if traffic is None:
            traffic = self.traffic[neighbour] = LinkTraffic()
        return traffic

    def stream(self, root: Root) -> RootStream:
        """Returns the stream of a root, which is begun if it is new."""
        stream = self.streams.get(root)
        if stream is None:
            stream = self.streams[root] = RootStream(root, ReceivedRanges())
        return stream
