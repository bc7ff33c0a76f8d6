"""A peer: one position on the ring, with its routing table, its states, and the requests that it has not finished.

Handlers are in the modules named after what they do (`maintenance`, `replication`, `indexing`, `publication`,
`iterative`, `meeting`, `shedding`). `handlers.py` puts them into the two tables used here: for messages sent directly
to a node, and for messages routed to a position on the circle (*keyed*), which only the node with the states of that
position may answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, NamedTuple

from twigcast.overlay.chord.messages import Join, Located, Refuse
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.chord.states import State, StateStore, SubscriptionRef
from twigcast.overlay.chord.table import FingerTable, Ref, identifier_of_key
from twigcast.overlay.core import Address, KeyRoutedMessage, ProtocolNode
from twigcast.overlay.paths import LinearPart

#: Publications whose notifications a peer remembers. A repeat is dropped as long as its application was not notified
#: of as many other publications since: it delivers a message that is published again later a second time.
REMEMBERED_PUBLICATIONS = 256


class SubscriptionRequest(NamedTuple):
    """A subscription of this peer's application, or its withdrawal: the parts, and which of them are confirmed."""

    key: str
    parts: tuple[LinearPart, ...]
    time: float
    present: bool
    confirmed: frozenset[int] = frozenset()
    attempts: int = 0


class RecentPublications:
    """A memory of what was already done for recent publications."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done: OrderedDict[Hashable, set[Hashable]] = OrderedDict()

    def is_first(self, publication: Hashable, item: Hashable) -> bool:
        """Returns whether this item is new for this publication, and remembers it."""
        seen = self._done.setdefault(publication, set())
        self._done.move_to_end(publication)
        if len(self._done) > REMEMBERED_PUBLICATIONS:
            self._done.popitem(last=False)
        if item in seen:
            return False
        seen.add(item)
        return True


class Pulling(NamedTuple):
    """A request for the states of a range that has grown: how far it reaches, and whose answers are missing."""

    token: int
    span: int
    missing: set[Address]
    asked: float


class Write(NamedTuple):
    """A change of a state that waits until its copies have it."""

    waiting_for: set[int]
    then: Callable[[], None]


class Arriving(NamedTuple):
    """A copy of a hot state that is not complete yet: the owner has been asked."""

    state: State
    question: int
    asked: float


class Peer(ProtocolNode):
    """One position on the ring."""

    on_lost_node: Callable[[Address, bool], None]
    keyed: ClassVar[dict[type, Callable[[Any, KeyRoutedMessage], None]]] = {}

    def __init__(self, ref: Ref, settings: ChordSettings) -> None:
        super().__init__(ref.address, settings.link, ref.incarnation)
        self.settings = settings
        self.table = FingerTable(ref, settings.bits, settings.successors)
        self.store = StateStore(settings.bits)
        #: Whether it is part of the ring; until then, messages for its positions wait.
        self.active = False
        #: Whether it has left the ring, and only waits for its farewells to arrive.
        self.left = False
        #: Attempts at joining since the ring last answered, and the nodes to ask.
        self.joining = 0
        self.seeds: tuple[Address, ...] = ()
        self.next_finger = 0
        #: Routed messages for positions whose states are not all here yet.
        self.waiting: list[KeyRoutedMessage] = []
        self.pulling: Pulling | None = None
        #: States that belong elsewhere, with the repair periods since this was noticed.
        self.strays: dict[str, int] = {}
        #: Ranges this node holds replicas for: owner -> (low, high, last time refreshed).
        self.replica_ranges: dict[Address, tuple[int, int, float]] = {}
        #: Writes that wait for an answer, by token, with the node that answers; -1 for the owner of a position.
        self.writes: dict[int, tuple[Write, Address]] = {}
        self.cache: OrderedDict[int, Address] = OrderedDict()
        #: Hot states of others: key -> number of extra copies.
        self.copy_counts: dict[str, int] = {}
        #: Copies of others' hot states held here.
        self.held: dict[tuple[str, int], State] = {}
        self.arriving: dict[tuple[str, int], Arriving] = {}
        #: Versions of dropped copies.
        self.let_go: dict[tuple[str, int], int] = {}
        self.window: dict[str, int] = {}
        self.window_total = 0
        self.filtering_load = 0
        #: By version, the subscriptions that are held or being made, and the withdrawals that are not confirmed.
        self.requests: dict[int, SubscriptionRequest] = {}
        #: By key, the version of its last subscription or withdrawal.
        self.versions: dict[str, int] = {}
        self.publications: dict[str, Any] = {}
        self.iterations: dict[int, Any] = {}
        self.notified = RecentPublications()
        self.reported = RecentPublications()
        self.meetings: OrderedDict[tuple[Address, str, SubscriptionRef, int], Any] = OrderedDict()

    # Small helpers.

    @property
    def ref(self) -> Ref:
        """The peer's own reference."""
        return self.table.own

    def identifier(self, key: str) -> int:
        """Returns the identifier of a key."""
        return identifier_of_key(key, self.settings.bits)

    def host(self, address: Address) -> int:
        """Returns the host of an address."""
        return address // self.settings.virtual_nodes

    def on_link_lost(self, address: Address, restarted: bool) -> None:
        """Removes a node that does not answer, or the former life of one that has started again."""
        self.on_lost_node(address, restarted)

    # Routing.

    def route_to_key(self, key: str, payload: Any) -> None:
        """Sends a message to the owner of a key."""
        self.route(KeyRoutedMessage(self.identifier(key), payload, self.address))

    def route(self, routed: KeyRoutedMessage) -> None:
        """Sends a routed message one hop on, or takes it."""
        table = self.table
        identifier = routed.identifier
        if not self.active:
            self.keep(routed)
            return
        if table.is_responsible(identifier):
            self.take(routed)
            return
        if self.settings.cache_addresses and routed.origin == self.address:
            address = self.cache.get(identifier)
            if address is not None:
                self._hop(address, routed, final=True)
                return
        successor = table.successors[0]
        gap = table.gap(identifier)
        if 0 < gap <= table.gap(successor.identifier):
            self._hop(successor.address, routed, final=True)
        elif successor.address == self.address:
            self.take(routed)
        else:
            self._hop(table.closest_preceding(identifier).address, routed, final=False)

    def _hop(self, address: Address, routed: KeyRoutedMessage, *, final: bool) -> None:
        hops = routed.hops + (self.host(address) != self.host(self.address))
        self.send(address, KeyRoutedMessage(routed.identifier, routed.payload, routed.origin, hops, final))

    def take(self, routed: KeyRoutedMessage) -> None:
        """Handles a routed message that is meant for this peer, or keeps it until the peer can."""
        table = self.table
        if table.is_verified(routed.identifier):
            if self.settings.cache_addresses and routed.hops > 1 and routed.origin != self.address:
                self.send_once(routed.origin, Located(routed.identifier, self.ref))
            handler = self.keyed.get(type(routed.payload))
            if handler is not None:
                handler(self, routed)
        elif table.predecessor is None or table.is_responsible(routed.identifier):
            self.keep(routed)
        else:
            self._hop(table.predecessor.address, routed, final=True)

    def keep(self, routed: KeyRoutedMessage) -> None:
        """Keeps a routed message until this peer can handle it. Once it has left, its successor can."""
        if self.left and self.table.successor.address != self.address:
            self._hop(self.table.successor.address, routed, final=False)
        elif type(routed.payload) is Join:
            if self.active:
                self.put_off(routed)
        else:
            self.waiting.append(routed)

    def put_off(self, routed: KeyRoutedMessage) -> None:
        """Lets a new node ask again, instead of keeping its request or repeating it.

        The node does so for as long as it lives. Later it may be dead, and each request of a dead node would take a
        part of the range from its owner until the death is noticed.
        """
        self.send_once(routed.origin, Refuse("the ring is being mended", final=False))

    def release_waiting(self) -> None:
        """Routes messages again that had to wait."""
        waiting, self.waiting = self.waiting, []
        for routed in waiting:
            self.route(routed)


def on_routed(peer: Peer, sender: Address, routed: KeyRoutedMessage) -> None:
    """Sends a routed message on, or takes it."""
    if routed.hops > 6 * peer.settings.bits:
        peer.keep(routed._replace(hops=0, final=False))
    elif routed.final and peer.active:
        peer.take(routed)
    else:
        peer.route(routed)


def on_located(peer: Peer, sender: Address, message: Located) -> None:
    """Remembers the owner of an identifier."""
    peer.cache[message.identifier] = message.ref.address
    if len(peer.cache) > 4096:
        peer.cache.popitem(last=False)
