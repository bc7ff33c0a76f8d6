"""The simulated driver: a virtual clock, a network with faults, and nodes that may come, go and crash.

Events are plain tuples `(time, number, what, address, a, b)` on a heap; the running number makes their order, and with
it the whole run, a function of the seed. The network's faults are drawn from one random generator owned by the
simulator; where a fault has probability zero nothing is drawn, so that a run without faults costs nothing for them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Final

from twigcast.lab.overlays.counters import Counters, content_kind
from twigcast.lab.overlays.journal import Fate, Journal
from twigcast.overlay.core import Address, Effects, ProtocolNode
from twigcast.overlay.errors import ImpossibleSetting, UnknownNode

_MESSAGE: Final = 0
_TIMER: Final = 1
_CALL: Final = 2


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """The faults of the simulated network.

    Attributes:
        latency_min: Shortest time of a message under way.
        latency_max: Longest; equal to the shortest for a constant latency, which draws no random number.
        loss: Probability that a message is lost.
        duplication: Probability that a message arrives twice.
    """

    latency_min: float = 1.0
    latency_max: float = 1.0
    loss: float = 0.0
    duplication: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.latency_min <= self.latency_max:
            raise ImpossibleSetting("latency", (self.latency_min, self.latency_max), "positive, shortest first")
        for name in ("loss", "duplication"):
            if not 0 <= getattr(self, name) < 1:
                raise ImpossibleSetting(name, getattr(self, name), "at least 0 and below 1")


@dataclass(slots=True)
class Simulator:
    """Runs nodes against each other in virtual time.

    Attributes:
        seed: Seed of all faults.
        faults: What the network does to messages.
        journal: Where every message is recorded.
        nodes_per_host: Consecutive addresses that live on one host (virtual nodes); messages among them cross no
            network: they arrive at once, are never lost, and count apart.
        on_delivery: Called with (time, address, item) for every item delivered to an application.
        on_send: Called with (sender, receiver, message) for every message that goes over the network.
        latency_of: Time of a message from one node to another, where it is the same always; instead of the faults' one.
    """

    seed: int = 0
    faults: NetworkFaults = NetworkFaults()
    journal: Journal = field(default_factory=lambda: Journal(keep=False))
    nodes_per_host: int = 1
    on_delivery: Callable[[float, Address, Any], None] | None = None
    latency_of: Callable[[Address, Address], float] | None = None
    on_send: Callable[[Address, Address, Any], None] | None = None
    counters: Counters = field(default_factory=Counters)
    now: float = 0.0
    nodes: dict[Address, ProtocolNode] = field(default_factory=dict)
    _random: random.Random = field(init=False)
    _heap: list[tuple[float, int, int, Address, Any, Any]] = field(default_factory=list)
    _number: int = 0
    _side: dict[Address, int] = field(default_factory=dict)
    _births: dict[Address, int] = field(default_factory=dict)
    _cut: set[frozenset[int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.nodes_per_host < 1:
            raise ImpossibleSetting("nodes_per_host", self.nodes_per_host, "at least 1")
        self._random = random.Random(self.seed)  # noqa: S311 - reproducible, not secret

    # Nodes.

    def add(self, node: ProtocolNode) -> None:
        """Adds a live node. Timers of an earlier node at the same address will not reach it."""
        self.nodes[node.address] = node
        self._births[node.address] = self._births.get(node.address, 0) + 1
        self.apply(node.address, node.drain())

    def next_life(self, address: Address) -> int:
        """Returns the incarnation of the next node to be added at an address: how many there were before."""
        return self._births.get(address, 0)

    def remove(self, address: Address) -> None:
        """Removes a node, as a crash does: what it has sent is still under way, what is sent to it is dropped."""
        if self.nodes.pop(address, None) is None:
            raise UnknownNode(address)

    def node(self, address: Address) -> ProtocolNode:
        """Returns the live node at an address."""
        try:
            return self.nodes[address]
        except KeyError:
            raise UnknownNode(address) from None

    def host_of(self, address: Address) -> int:
        """Returns the host an address lives on."""
        return address // self.nodes_per_host

    # The network's shape.

    def partition(self, groups: Iterable[Iterable[Address]]) -> None:
        """Cuts the network: messages pass only inside a group. Addresses in no group form one more group."""
        self._side = {self.host_of(address): side for side, group in enumerate(groups, 1) for address in group}

    def heal(self) -> None:
        """Ends the partition."""
        self._side = {}

    def cut(self, one: Address, other: Address) -> None:
        """Cuts the link between two hosts."""
        self._cut.add(frozenset({self.host_of(one), self.host_of(other)}))

    def mend(self, one: Address, other: Address) -> None:
        """Ends a cut."""
        self._cut.discard(frozenset({self.host_of(one), self.host_of(other)}))

    # Running.

    def at(self, time: float, action: Callable[..., None], *arguments: Any) -> None:
        """Schedules `action(*arguments)` at a time, between two events."""
        self._push(max(time, self.now), _CALL, -1, action, arguments)

    def command(self, address: Address, action: Callable[..., None], *arguments: Any) -> None:
        """Lets the application at a live node call `action(node, *arguments)` now, and carries out its effects."""
        node = self.node(address)
        node.now = self.now
        action(node, *arguments)
        self.apply(address, node.drain())

    def run(self, until: float | None = None, events_max: int | None = None) -> int:
        """Processes events in order of time until there are none, or the time or the number is reached.

        Returns:
            Number of events processed.
        """
        heap = self._heap
        nodes = self.nodes
        births = self._births
        journal = self.journal if self.journal.active else None
        received = self.counters.received
        done = 0
        while heap and (events_max is None or done < events_max):
            if until is not None and heap[0][0] > until:
                break
            time, _, what, address, first, second = heappop(heap)
            self.now = time
            done += 1
            if what == _CALL:
                first(*second)
                continue
            node = nodes.get(address)
            if what == _TIMER:
                if node is not None and births[address] == second:
                    self.apply(address, node.wake(first, time))
                continue
            if node is None:
                self.counters.dropped += 1
                if journal is not None:
                    journal.record(time, Fate.DROPPED, first, address, second)
                continue
            received[address] += 1
            if journal is not None:
                journal.record(time, Fate.RECEIVED, first, address, second)
            self.apply(address, node.receive(first, second, time))
        if until is not None and self.now < until:
            self.now = until
        self.counters.events += done
        return done

    def apply(self, address: Address, effects: Effects) -> None:
        """Carries out the effects of a node."""
        for to, message in effects.sends:
            self._send(address, to, message)
        for delay, name in effects.timers:
            self._push(self.now + delay, _TIMER, address, name, self._births[address])
        for item in effects.deliveries:
            if self.journal.active:
                self.journal.record(self.now, Fate.DELIVERED, address, address, item)
            if self.on_delivery is not None:
                self.on_delivery(self.now, address, item)

    def _push(self, time: float, what: int, address: Address, first: Hashable | Any, second: Any) -> None:
        self._number += 1
        heappush(self._heap, (time, self._number, what, address, first, second))

    def _send(self, sender: Address, receiver: Address, message: Any) -> None:
        counters = self.counters
        journal = self.journal if self.journal.active else None
        if journal is not None:
            journal.record(self.now, Fate.SENT, sender, receiver, message)
        if sender // self.nodes_per_host == receiver // self.nodes_per_host:
            counters.local_messages += 1
            self._push(self.now, _MESSAGE, receiver, sender, message)
            return
        kind = content_kind(message)
        counters.messages[kind] += 1
        counters.bytes[kind] += message.size_bytes()
        if self.on_send is not None:
            self.on_send(sender, receiver, message)
        fate = self._fate(sender, receiver)
        if fate is not None:
            if journal is not None:
                journal.record(self.now, fate, sender, receiver, message)
            if fate != Fate.DOUBLED:
                return
            self._push(self.now + self._latency(sender, receiver), _MESSAGE, receiver, sender, message)
        self._push(self.now + self._latency(sender, receiver), _MESSAGE, receiver, sender, message)

    def _fate(self, sender: Address, receiver: Address) -> str | None:
        """What the network does to a message, if anything; a network that is whole and has no faults draws nothing."""
        faults = self.faults
        if self._side and self._side.get(self.host_of(sender), 0) != self._side.get(self.host_of(receiver), 0):
            self.counters.blocked += 1
            return Fate.BLOCKED
        if self._cut and frozenset({self.host_of(sender), self.host_of(receiver)}) in self._cut:
            self.counters.blocked += 1
            return Fate.BLOCKED
        if faults.loss and self._random.random() < faults.loss:
            self.counters.lost += 1
            return Fate.LOST
        if faults.duplication and self._random.random() < faults.duplication:
            self.counters.doubled += 1
            return Fate.DOUBLED
        return None

    def _latency(self, sender: Address, receiver: Address) -> float:
        if self.latency_of is not None:
            return self.latency_of(sender, receiver)
        faults = self.faults
        if faults.latency_min == faults.latency_max:
            return faults.latency_min
        return self._random.uniform(faults.latency_min, faults.latency_max)
