"""Brokers in the simulator: each with a store that survives crashes, and an application that keeps it.

What the store holds is what the network driver's broker keeps in its database: the broker's own messages, those it
accepted from others, horizons, subscriptions. Accepted messages are stored some time after they were handed over, so
that a crash in between loses them here; the protocol has to get them again.
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

#: Links by their ends, the lower first, and what they cost.
Links: TypeAlias = Mapping[tuple[Address, Address], int]

#: Times that suit latencies of some hundredths of a second.
BRISK = OrderedSettings(retry_delay=0.2, attempts_max=5, probe_delay=1.0, dial_delay=0.4)
PERFECT = OrderedSettings(perfect=True)


@dataclass(slots=True)
class BrokerStore:
    """What survives a crash of a broker.

    Attributes:
        incarnation: Of its latest start.
        last: Number of its own last message.
        messages: Its own messages.
        forgotten: Its own messages up to here are gone.
        accepted: Messages of others, by root and number.
        times: When they were stored first.
        horizons: Up to where it knows others.
        tracked_since: When it had stored the first horizon of each of them.
        subscriptions: By key: the routing query.
        parts: By key: the part of messages that a subscription takes, where that is not the whole.
        lost: Ranges that were named as lost.
        repeats: How many messages came that it had.
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


class OnyxNetwork:
    """A network of brokers in a simulator.

    Args:
        links: Who is linked to whom.
        settings: Of all nodes.
        faults: Of the network.
        seed: Of its faults.
        ordered: Of the links.
        store_delay: From handing over to storing.
        journal: Of all messages.
        make_table: Makes the routing table of a broker.
        portion: Messages of an answer to `Recover` after which it pauses.
        settings_of: Settings of single nodes, where they differ.
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
        self.refusals: list[tuple[Address, ProtocolViolation]] = []
        self.troubles: list[tuple[Address, NodeWarning]] = []
        self.on_item: Callable[[float, Address, Any], None] | None = None

    # Brokers.

    @property
    def addresses(self) -> list[Address]:
        """All brokers that links name."""
        return sorted({end for link in self.links for end in link})

    def neighbours(self, address: Address) -> dict[Address, int]:
        """Whom a broker is to be linked to, and what that costs."""
        results = {}
        for (one, other), cost in self.links.items():
            if address in (one, other):
                results[other if address == one else one] = cost
        return results

    def start(self, address: Address) -> None:
        """Start a broker with what its store holds."""
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
        self.simulator.add(OrderedNode(inner, self.neighbours(address), self.ordered, store.incarnation))
        for key, requested in store.subscriptions.items():
            part = store.parts.get(key)
            self.give(
                address, lambda now, key=key, required=requested, part=part: inner.subscribe(key, required, now, part)
            )

    def start_all(self) -> None:
        """Start all brokers."""
        for address in self.addresses:
            self.start(address)

    def crash(self, address: Address) -> None:
        """End a broker at once."""
        self.simulator.remove(address)

    def broker(self, address: Address) -> OnyxNode:
        """The node of a live broker."""
        inner = self._ordered(address).inner
        assert isinstance(inner, OnyxNode)
        return inner

    def is_alive(self, address: Address) -> bool:
        """Whether a broker runs."""
        return address in self.simulator.nodes

    def _ordered(self, address: Address) -> OrderedNode:
        node = self.simulator.node(address)
        assert isinstance(node, OrderedNode)
        return node

    def give(self, address: Address, command: Callable[..., Effects], *arguments: Any) -> None:
        """Give a broker a command (a method of its node, without the time)."""

        def run(node: Any) -> None:
            node.act(command(*arguments, self.simulator.now))

        self.simulator.command(address, run)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.simulator.run(until=self.simulator.now + seconds)

    # What users do.

    def subscribe(
        self, address: Address, key: Hashable, requested: RoutingQuery, part: Projection | None = None
    ) -> None:
        """A user subscribes, or replaces a subscription; `part`: what it takes of messages."""
        store = self.stores[address]
        store.subscriptions[key] = requested
        store.parts.pop(key, None)
        if part is not None:
            store.parts[key] = part
        if self.is_alive(address):
            broker = self.broker(address)
            self.give(address, lambda now: broker.subscribe(key, requested, now, part))

    def unsubscribe(self, address: Address, key: Hashable) -> None:
        """A user takes a subscription back."""
        del self.stores[address].subscriptions[key]
        self.stores[address].parts.pop(key, None)
        if self.is_alive(address):
            self.give(address, self.broker(address).unsubscribe, key)

    def settle(self, address: Address, token: Hashable) -> None:
        """Ask whether what is wanted there is known everywhere."""
        self.give(address, self.broker(address).settle, token)

    def publish(self, address: Address, body: bytes, message_id: str = "", *, crashing: bool = False) -> OverlayMessage:
        """Somebody publishes a message, which is stored.

        Args:
            address: At which broker.
            body: XML.
            message_id: A name.
            crashing: The broker crashes as soon as it has stored it.
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
            self.give(address, self.broker(address).published, [message])
        return message

    def forget(self, address: Address, upto: int) -> None:
        """A broker's own messages up to a number have expired."""
        store = self.stores[address]
        store.forgotten = max(store.forgotten, upto)
        for number in [number for number in store.messages if number <= upto]:
            del store.messages[number]

    # The application of each broker.

    def _delivered(self, time: float, address: Address, item: Any) -> None:
        match item:
            case StoreRequested():
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
        self.give(address, self.broker(address).stored, {item.root: item.horizon})

    def _answer(self, address: Address, question: Recover) -> None:
        """Read the store, and answer in pieces."""
        store, route = self.stores[address], backwards(question)
        broker, after = self.broker(address), question.after
        if after < store.forgotten:
            gone = min(store.forgotten, question.upto)
            self.give(address, broker.answer, Recovered(Span(address, after, gone, None), route, lost=True))
            after = gone
        matcher, left = RoutingMatcher(question.query), self.portion
        for number in sorted(number for number in store.messages if after < number <= question.upto):
            message = store.messages[number]
            if matcher.matches(message.body, message.scope):
                left -= 1
                pauses = not left and number < question.upto
                span = Span(address, after, number, message)
                self.give(address, broker.answer, Recovered(span, route, pauses=pauses))
                after = number
                if pauses:
                    return
        if after < question.upto:
            self.give(address, broker.answer, Recovered(Span(address, after, question.upto, None), route))
