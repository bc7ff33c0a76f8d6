"""Brokers in the simulator, each with a store that survives crashes and an application that fills it.

The store holds what a running broker has in its database: its own messages, those it accepted from others, horizons and
subscriptions. Accepted messages are stored some time after they were handed over. A crash in between loses them, and
the protocol has to request them again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.ordered import OrderedNode, OrderedSettings
from twigcast.lab.overlays.simulator import NetworkFaults, Simulator
from twigcast.overlay.core import Address, Effects
from twigcast.overlay.onyx.content.projection import Projection
from twigcast.overlay.onyx.content.routing_index import RoutingMatcher
from twigcast.overlay.onyx.content.routing_table import RoutingTable
from twigcast.overlay.onyx.messages import OverlayMessage, Recover, Recovered, Root, RoutingQuery, Span
from twigcast.overlay.onyx.protocol.events import (
    InterestSettled,
    NodeWarning,
    ProtocolViolation,
    RangeLost,
    ResendRequested,
    StoreRequested,
)
from twigcast.overlay.onyx.protocol.node import OnyxNode
from twigcast.overlay.onyx.protocol.recovery import backwards
from twigcast.overlay.onyx.protocol.settings import OnyxSettings

#: Costs of links, by their ends, the lower first.
Links: TypeAlias = Mapping[tuple[Address, Address], int]

#: Times for latencies of some hundredths of a second.
BRISK = OrderedSettings(retry_delay=0.2, attempts_max=5, probe_delay=1.0, dial_delay=0.4)
PERFECT = OrderedSettings(perfect=True)


@dataclass(slots=True)
class BrokerStore:
    """The state of a broker that survives a crash.

    Attributes:
        incarnation: Number of its latest start.
        last: Number of its own last message.
        messages: Its own messages by number.
        forgotten: Number up to which its own messages have expired.
        accepted: Messages of others by root and number.
        times: When each of them was first stored.
        horizons: Horizons by root.
        tracked_since: By root, when its first horizon was stored.
        subscriptions: Routing queries by key.
        parts: By key, the part of messages that a subscription uses, if it is not the whole.
        lost: Ranges that were reported as lost.
        repeats: Number of messages that were already stored, in all lives of the broker.
        doubled: Messages that one life of the broker has handed over twice: those of a former life may come again,
            since a broker that has crashed asks for what follows its stored horizon.
    """

    incarnation: int = 0
    last: int = 0
    messages: dict[int, OverlayMessage] = field(default_factory=dict)
    forgotten: int = 0
    accepted: dict[tuple[Root, int], OverlayMessage] = field(default_factory=dict)
    times: dict[tuple[Root, int], float] = field(default_factory=dict)
    horizons: dict[Root, int] = field(default_factory=dict)
    tracked_since: dict[Root, float] = field(default_factory=dict)
    subscriptions: dict[Hashable, RoutingQuery] = field(default_factory=dict)
    parts: dict[Hashable, Projection] = field(default_factory=dict)
    lost: list[RangeLost] = field(default_factory=list)
    repeats: int = 0
    doubled: list[tuple[Root, int]] = field(default_factory=list)


class OnyxNetwork:
    """A network of brokers in a simulator.

    Args:
        links: The links with their costs.
        settings: Settings of all nodes.
        faults: Faults of the network.
        seed: Seed of the faults.
        ordered: Settings of the links.
        store_delay: Time from handing over to storing.
        journal: Records all messages.
        make_table: Makes the routing table of a broker.
        portion: Messages of an answer to `Recover` after which it pauses.
        settings_of: Returns the settings of a node, if they differ.
    """

    def __init__(
        self,
        links: Links,
        settings: OnyxSettings | None = None,
        faults: NetworkFaults | None = None,
        seed: int = 0,
        *,
        ordered: OrderedSettings = BRISK,
        store_delay: float = 0.05,
        journal: Journal | None = None,
        make_table: Callable[[], RoutingTable] = RoutingTable,
        portion: int = 50,
        settings_of: Callable[[Address], OnyxSettings] | None = None,
    ) -> None:
        self.links = dict(links)
        self.settings = settings or OnyxSettings()
        self.settings_of = settings_of or (lambda address: self.settings)
        self.ordered = ordered
        self.store_delay = store_delay
        self.make_table = make_table
        self.portion = portion
        self.simulator = Simulator(seed, faults or NetworkFaults(0.005, 0.03), journal or Journal(keep=False))
        self.simulator.on_delivery = self._delivered
        self.random = random.Random(f"stores {seed}")  # noqa: S311 - reproducible, not secret
        self.stores: dict[Address, BrokerStore] = {}
        self.settled: dict[Address, set[Hashable]] = {}
        self._handed_over: dict[Address, set[tuple[Root, int]]] = {}
        self.refusals: list[tuple[Address, ProtocolViolation]] = []
        self.troubles: list[tuple[Address, NodeWarning]] = []
        self.on_item: Callable[[float, Address, Any], None] | None = None

    # Brokers.

    @property
    def addresses(self) -> list[Address]:
        """The brokers of all links."""
        return sorted({end for link in self.links for end in link})

    def neighbours(self, address: Address) -> dict[Address, int]:
        """Returns the neighbours of a broker with the costs of the links."""
        results = {}
        for (one, other), cost in self.links.items():
            if address in (one, other):
                results[other if address == one else one] = cost
        return results

    def start(self, address: Address) -> None:
        """Starts a broker with the state of its store."""
        store = self.stores.setdefault(address, BrokerStore())
        store.incarnation += 1
        inner = OnyxNode(
            address,
            store.incarnation,
            self.make_table(),
            self.settings_of(address),
            last=store.last,
            horizons=store.horizons,
        )
        self.settled[address] = set()
        self._handed_over[address] = set()
        self.simulator.add(OrderedNode(inner, self.neighbours(address), self.ordered, store.incarnation))
        for key, requested in store.subscriptions.items():
            part = store.parts.get(key)
            self.command(
                address, lambda now, key=key, required=requested, part=part: inner.subscribe(key, required, now, part)
            )

    def start_all(self) -> None:
        """Starts all brokers."""
        for address in self.addresses:
            self.start(address)

    def crash(self, address: Address) -> None:
        """Ends a broker at once."""
        self.simulator.remove(address)

    def broker(self, address: Address) -> OnyxNode:
        """Returns the node of a live broker."""
        inner = self._ordered(address).inner
        assert isinstance(inner, OnyxNode)
        return inner

    def is_alive(self, address: Address) -> bool:
        """Returns whether a broker is running."""
        return address in self.simulator.nodes

    def _ordered(self, address: Address) -> OrderedNode:
        node = self.simulator.node(address)
        assert isinstance(node, OrderedNode)
        return node

    def command(self, address: Address, command: Callable[..., Effects], *arguments: Any) -> None:
        """Calls a method of a broker's node, with the time as the last argument."""

        def run(node: Any) -> None:
            node.act(command(*arguments, self.simulator.now))

        self.simulator.command(address, run)

    def run(self, seconds: float) -> None:
        """Advances the time."""
        self.simulator.run(until=self.simulator.now + seconds)

    # Actions of users.

    def subscribe(
        self, address: Address, key: Hashable, requested: RoutingQuery, part: Projection | None = None
    ) -> None:
        """Adds or replaces a subscription; `part` is what it uses of messages."""
        store = self.stores[address]
        store.subscriptions[key] = requested
        store.parts.pop(key, None)
        if part is not None:
            store.parts[key] = part
        if self.is_alive(address):
            broker = self.broker(address)
            self.command(address, lambda now: broker.subscribe(key, requested, now, part))

    def unsubscribe(self, address: Address, key: Hashable) -> None:
        """Removes a subscription."""
        del self.stores[address].subscriptions[key]
        self.stores[address].parts.pop(key, None)
        if self.is_alive(address):
            self.command(address, self.broker(address).unsubscribe, key)

    def settle(self, address: Address, token: Hashable) -> None:
        """Asks for `InterestSettled` for the current interests of a broker."""
        self.command(address, self.broker(address).settle, token)

    def publish(self, address: Address, body: bytes, message_id: str = "", *, crashing: bool = False) -> OverlayMessage:
        """Publishes a message and returns it.

        Args:
            address: The broker.
            body: XML.
            message_id: A name.
            crashing: Whether the broker crashes as soon as the message is stored.
        """
        store = self.stores[address]
        store.last += 1 if self.random.random() < 0.8 else self.random.randint(2, 4)
        message = OverlayMessage(
            address, store.last, "", "", message_id, "application/xml", body, published=self.simulator.now
        )
        store.messages[message.number] = message
        if crashing:
            self.crash(address)
        else:
            self.command(address, self.broker(address).published, [message])
        return message

    def forget(self, address: Address, upto: int) -> None:
        """Removes expired messages of a broker, up to a number."""
        store = self.stores[address]
        store.forgotten = max(store.forgotten, upto)
        for number in [number for number in store.messages if number <= upto]:
            del store.messages[number]

    # The application of each broker.

    def _delivered(self, time: float, address: Address, item: Any) -> None:
        match item:
            case StoreRequested():
                self._count(address, item)
                life = self.stores[address].incarnation
                self.simulator.at(time + self.store_delay, self._commit, address, life, item)
            case RangeLost():
                self.stores[address].lost.append(item)
            case ResendRequested():
                self._answer(address, item.question)
            case InterestSettled():
                self.settled[address].add(item.token)
            case ProtocolViolation():
                self.refusals.append((address, item))
                self.simulator.command(address, OrderedNode.reset, item.neighbour)
            case NodeWarning():
                self.troubles.append((address, item))
        if self.on_item is not None:
            self.on_item(time, address, item)

    def _count(self, address: Address, item: StoreRequested) -> None:
        if item.message is not None:
            key = item.root, item.message.number
            if key in self._handed_over[address]:
                self.stores[address].doubled.append(key)
            self._handed_over[address].add(key)

    def _commit(self, address: Address, life: int, item: StoreRequested) -> None:
        store = self.stores[address]
        if not self.is_alive(address) or store.incarnation != life:
            return
        if item.message is not None:
            key = item.root, item.message.number
            store.repeats += key in store.accepted
            store.accepted.setdefault(key, item.message)
            store.times.setdefault(key, self.simulator.now)
        store.tracked_since.setdefault(item.root, self.simulator.now)
        store.horizons[item.root] = max(store.horizons.get(item.root, 0), item.horizon)
        self.command(address, self.broker(address).stored, {item.root: item.horizon})

    def _answer(self, address: Address, question: Recover) -> None:
        """Answers a question from the store, in pieces."""
        store, route = self.stores[address], backwards(question)
        broker, after = self.broker(address), question.after
        if after < store.forgotten:
            gone = min(store.forgotten, question.upto)
            self.command(address, broker.answer, Recovered(Span(address, after, gone, None), route, lost=True))
            after = gone
        matcher, left = RoutingMatcher(question.query), self.portion
        for number in sorted(number for number in store.messages if after < number <= question.upto):
            message = store.messages[number]
            if matcher.matches(message.body, message.scope):
                left -= 1
                pauses = not left and number < question.upto
                span = Span(address, after, number, message)
                self.command(address, broker.answer, Recovered(span, route, pauses=pauses))
                after = number
                if pauses:
                    return
        if after < question.upto:
            self.command(address, broker.answer, Recovered(Span(address, after, question.upto, None), route))
