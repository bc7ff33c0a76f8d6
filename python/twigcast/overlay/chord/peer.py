"""A peer: one place on the ring, its routing table, its states, and what it has under way.

The handlers live in the modules named after what they do (`maintenance`, `replication`, `indexing`, `publication`,
`iterative`, `meeting`, `shedding`); `handlers.py` puts them into the two tables used here: messages sent straight to a
node, and messages routed to a place on the circle (*keyed*), which only the node that has the states of that place may
answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, NamedTuple

from twigcast.overlay.chord.identifiers import Ref, identifier_of_key
from twigcast.overlay.chord.messages import Located
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.chord.states import State, StateStore, SubscriptionRef
from twigcast.overlay.chord.table import FingerTable
from twigcast.overlay.core import Address, Handler, KeyRoutedMessage, ProtocolNode
from twigcast.overlay.paths import LinearPart

#: Publications whose notifications a peer remembers, to drop repeats.
REMEMBERED_PUBLICATIONS = 256


class SubscriptionRequest(NamedTuple):
    """A subscription of this peer's application: the parts, when it was made or withdrawn, and what is confirmed."""

    parts: tuple[LinearPart, ...]
    time: float
    present: bool
    confirmed: frozenset[int]
    attempts: int


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
    """One place on the ring."""

    __slots__ = (
        "active",
        "arriving",
        "cache",
        "copy_counts",
        "filtering_load",
        "held",
        "iterations",
        "joining",
        "let_go",
        "meetings",
        "next_finger",
        "notified",
        "publications",
        "pulled_at",
        "pulls",
        "replica_ranges",
        "requests",
        "seeds",
        "settings",
        "store",
        "strays",
        "table",
        "tokens",
        "waiting",
        "window",
        "window_total",
        "writes",
    )

    keyed: ClassVar[dict[type, Callable[[Any, KeyRoutedMessage], None]]] = {}
    timer_handlers: ClassVar[dict[str, Callable[..., None]]] = {}
    lost_handlers: ClassVar[dict[type, Callable[[Any, Address, Any], None]]] = {}
    on_lost_node: Callable[[Address], None]
    handlers: ClassVar[dict[type, Handler]] = {}

    def __init__(self, ref: Ref, settings: ChordSettings, incarnation: int = 0) -> None:
        super().__init__(ref.address, settings.link, incarnation)
        self.settings = settings
        self.table = FingerTable(ref, settings.bits, settings.successors)
        self.store = StateStore(settings.bits)
        #: Part of the ring; until then messages for its places wait.
        self.active = False
        #: Attempts at joining so far, and where to try.
        self.joining = 0
        self.seeds: tuple[Address, ...] = ()
        self.tokens = 0
        self.next_finger = 0
        #: Routed messages for places whose states are not all here yet.
        self.waiting: list[KeyRoutedMessage] = []
        #: Nodes whose answers to `Pull` are missing, and when they were asked.
        self.pulls: dict[int, set[Address]] = {}
        self.pulled_at = 0.0
        #: States that belong elsewhere: repair periods since they were first seen to.
        self.strays: dict[str, int] = {}
        #: Ranges this node holds replicas for: owner -> (low, high, last time refreshed).
        self.replica_ranges: dict[Address, tuple[int, int, float]] = {}
        self.writes: dict[int, Write] = {}
        self.cache: OrderedDict[int, Address] = OrderedDict()
        #: Hot states of others: key -> number of extra copies.
        self.copy_counts: dict[str, int] = {}
        #: Copies of others' hot states held here.
        self.held: dict[tuple[str, int], State] = {}
        self.arriving: dict[tuple[str, int], Arriving] = {}
        #: Versions of copies that were let go of.
        self.let_go: dict[tuple[str, int], int] = {}
        self.window: dict[str, int] = {}
        self.window_total = 0
        self.filtering_load = 0
        self.requests: dict[SubscriptionRef, SubscriptionRequest] = {}
        self.publications: dict[str, Any] = {}
        self.iterations: dict[int, Any] = {}
        self.notified: OrderedDict[tuple[str, int], set[Any]] = OrderedDict()
        self.meetings: OrderedDict[tuple[str, SubscriptionRef], Any] = OrderedDict()

    # Small helpers.

    @property
    def ref(self) -> Ref:
        """The peer's own reference."""
        return self.table.own

    def new_token(self) -> int:
        """Returns a number that this peer has not used before."""
        self.tokens += 1
        return self.tokens

    def identifier(self, key: str) -> int:
        """Returns the identifier of a key."""
        return identifier_of_key(key, self.settings.bits)

    def host(self, address: Address) -> int:
        """Returns the host of an address."""
        return address // self.settings.virtual_nodes

    def first_time(self, name: str, attempt: int, item: Hashable) -> bool:
        """Returns whether this item is new for this attempt at a publication, and remembers it."""
        key = (name, attempt)
        seen = self.notified.get(key)
        if seen is None:
            seen = self.notified[key] = set()
            if len(self.notified) > REMEMBERED_PUBLICATIONS:
                self.notified.popitem(last=False)
        if item in seen:
            return False
        seen.add(item)
        return True

    # Routing.

    def route_to_key(self, key: str, payload: Any) -> None:
        """Sends a message to the owner of a key."""
        self.route(KeyRoutedMessage(self.identifier(key), payload, self.address))

    def route(self, routed: KeyRoutedMessage) -> None:
        """Sends a routed message one hop on, or takes it."""
        table = self.table
        identifier = routed.identifier
        if not self.active:
            self.waiting.append(routed)
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
            self.waiting.append(routed)
        else:
            self._hop(table.predecessor.address, routed, final=True)

    def release_waiting(self) -> None:
        """Routes again what had to wait."""
        waiting, self.waiting = self.waiting, []
        for routed in waiting:
            self.route(routed)

    # The node's own hooks.

    def on_timer(self, timer: Hashable) -> None:
        """Dispatches a timer by its name, or by the first item of a tuple."""
        if isinstance(timer, tuple):
            self.timer_handlers[timer[0]](self, *timer[1:])
        elif isinstance(timer, str):
            self.timer_handlers[timer](self)

    def on_unreachable(self, address: Address, message: Any) -> None:
        """Forgets a node that does not answer, and finds another route for what was sent to it."""
        self.on_lost_node(address)
        handler = self.lost_handlers.get(type(message))
        if handler is not None:
            handler(self, address, message)


def on_routed(peer: Peer, sender: Address, routed: KeyRoutedMessage) -> None:
    """Sends a routed message on, or takes it."""
    if routed.hops > 6 * peer.settings.bits:
        routed = routed._replace(hops=0, final=False)
        peer.waiting.append(routed)
    elif routed.final and peer.active:
        peer.take(routed)
    else:
        peer.route(routed)


def on_located(peer: Peer, sender: Address, message: Located) -> None:
    """Remembers the owner of an identifier."""
    peer.cache[message.identifier] = message.ref.address
    if len(peer.cache) > 4096:
        peer.cache.popitem(last=False)
