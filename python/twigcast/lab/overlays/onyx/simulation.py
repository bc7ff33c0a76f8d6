"""A simulated network of brokers under a workload, for `twigcast overlay simulate onyx` and the experiments.

What arrives is compared with the answers of one engine that has all subscriptions. Without faults, links are perfect
and brokers know all links from the start, so that a thousand brokers can be simulated.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from twigcast.lab.overlays.draw import draw_map
from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.onyx.scenario import BRISK, PERFECT, OnyxNetwork
from twigcast.lab.overlays.onyx.workload import World
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.overlay.core import Address
from twigcast.overlay.onyx.content.projection import part_of
from twigcast.overlay.onyx.content.routing_query import everything, routing_query
from twigcast.overlay.onyx.content.routing_table import RoutingTable
from twigcast.overlay.onyx.messages import LinkState, OverlayMessage, RoutingDelta, RoutingQuery, Span
from twigcast.overlay.onyx.protocol.events import InterestSettled
from twigcast.overlay.onyx.protocol.node import OnyxNode
from twigcast.overlay.onyx.protocol.settings import OnyxSettings
from twigcast.query import Path
from twigcast.subscriptions import SubscriptionSet

#: Cached, since users of many brokers want the same.
_routing_query = lru_cache(10_000)(routing_query)


@dataclass(frozen=True, slots=True)
class OnyxShape:
    """The parameters of a simulation.

    Attributes:
        brokers: Number of brokers.
        queries: Number of subscriptions of all users.
        publications: Number of messages.
        sources: Number of brokers at which messages are published.
        locality: Share of the subscriptions that concern what is near.
        churn: Share of the subscriptions that are replaced during the run.
        crashes: Number of brokers that crash and start again during the run.
        cuts: Number of links that are cut and mended during the run.
        loss: Probability that the network loses a message.
        shared_tree: Whether all roots share one tree.
        flooding: Whether everything is sent everywhere, for comparison.
        areas: Areas of the world; with fewer, more users want the same.
        items: Items of each message; 0: one to three.
        branching: Share of the subscriptions with conditions on several children of an item.
        rewriting: Whether all subscriptions are For-Where-Return queries over one kind of element.
        reducing: Whether links carry only the parts of messages that are used behind them.
        seed: Seed of all random choices.
    """

    brokers: int = 30
    queries: int = 1_000
    publications: int = 200
    sources: int = 5
    locality: float = 0.5
    churn: float = 0.0
    crashes: int = 0
    cuts: int = 0
    loss: float = 0.0
    shared_tree: bool = False
    flooding: bool = False
    areas: int = 100
    items: int = 0
    branching: float = 0.0
    rewriting: bool = False
    reducing: bool = False
    seed: int = 0

    @property
    def is_faulty(self) -> bool:
        """Returns whether there are faults."""
        return bool(self.crashes or self.cuts or self.loss)


@dataclass(slots=True)
class SimulationOutcome:
    """The outcome of a simulation.

    Attributes:
        needed: For each message, the brokers (other than its root) with a matching subscription.
        reached: For each message, the brokers that got it, for their own users or to pass it on.
        missing: Pairs of a message and a broker with a matching subscription that never got it.
        wrong: Results that differ from those of the whole message.
        useless: Messages sent to brokers where they serve no user and need not pass.
        delays: Seconds from publication to handing over, at needed brokers.
        sent: By link and direction, the number of messages.
        sent_bytes: By link and direction, their bytes.
        counts: By name, the number of messages of the protocol.
        bytes: By name, their bytes.
        tables: For each broker, the conjunctions of its neighbours.
        seconds: Seconds of computing while messages were published.
    """

    needed: list[set[Address]] = field(default_factory=list)
    reached: list[set[Address]] = field(default_factory=list)
    missing: int = 0
    wrong: int = 0
    useless: int = 0
    delays: list[float] = field(default_factory=list)
    sent: dict[tuple[Address, Address], int] = field(default_factory=dict)
    sent_bytes: dict[tuple[Address, Address], int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    tables: list[int] = field(default_factory=list)
    seconds: float = 0.0


class OnyxSimulation:
    """A simulation.

    Args:
        shape: Its parameters.
        keep_journal: Whether all messages are kept in a journal.
        make_table: Makes the routing table of a broker.
        world: The workload; by default that of the parameters.
    """

    def __init__(
        self,
        shape: OnyxShape,
        *,
        keep_journal: bool = False,
        make_table: Callable[[], RoutingTable] = RoutingTable,
        world: World | None = None,
    ) -> None:
        self.shape = shape
        self.world = world or _world(shape)
        self.random = random.Random(f"onyx {shape.seed}")  # noqa: S311 - reproducible, not secret
        links = self.world.links()
        self.roots = self.random.sample(range(shape.brokers), min(shape.sources, shape.brokers))
        settings = OnyxSettings(shared_tree=shape.shared_tree, roots=frozenset(self.roots), reduces=shape.reducing)
        self.network = OnyxNetwork(
            links,
            settings,
            NetworkFaults(0.005, 0.005, loss=shape.loss),
            shape.seed,
            ordered=BRISK if shape.is_faulty else PERFECT,
            store_delay=0.01,
            journal=Journal(keep=keep_journal),
            make_table=make_table,
        )
        simulator = self.network.simulator
        costs = links | {(other, one): cost for (one, other), cost in links.items()}
        simulator.latency_of = lambda one, other: costs.get((one, other), 1) / 2_000
        simulator.on_send = self._note_sent
        self.network.on_item = self._note_item
        self.central = SubscriptionSet()
        self.queries: dict[str, str] = {}
        self.alike: Counter[str] = Counter()
        """By key, how many users of the broker have the same query. Only the first of them subscribes."""
        self._first: dict[tuple[Address, str], str] = {}
        self.interests: dict[str, Path] = {}
        self.messages: list[OverlayMessage] = []
        self.outcome = SimulationOutcome()
        self._matching: list[list[str]] = []

    # Phases.

    def run(self) -> SimulationOutcome:
        """Runs the simulation."""
        self.start()
        self.subscribe()
        self.publish()
        self._judge()
        return self.outcome

    def start(self) -> None:
        """Starts the brokers, and waits until they are linked."""
        network = self.network
        network.start_all()
        if not self.shape.is_faulty:
            self._know_all_links()
        network.run(5.0)

    def _know_all_links(self) -> None:
        states = {}
        for address in self.network.addresses:
            links = tuple(sorted(self.network.neighbours(address).items()))
            states[address] = LinkState(address, 1, 1, links)
        for address in self.network.addresses:
            self.broker(address).topology.replace_all(states)

    def broker(self, address: Address) -> OnyxNode:
        """Returns the node of a live broker."""
        return self.network.broker(address)

    def _routing_query(self, query: str) -> RoutingQuery:
        return everything() if self.shape.flooding else _routing_query(query)

    def _add(self, key: str, broker: Address) -> None:
        if self.shape.rewriting:
            query = self.world.text(broker)
        else:
            interest = self.world.interest(broker)
            query = str(interest)
            self.interests.setdefault(key, interest)
        if not self.shape.churn:
            first = self._first.setdefault((broker, query), key)
            self.alike[first] += 1
            if first != key:
                self.interests.pop(key, None)
                return
        else:
            self.alike[key] = 1
        self.queries[key] = query
        part = part_of(query, {}) if self.shape.reducing and not self.shape.flooding else None
        self.network.subscribe(broker, key, self._routing_query(query), part)

    def subscribe(self) -> None:
        """Adds all subscriptions, and waits until they are known everywhere."""
        brokers = self.shape.brokers
        for number in range(self.shape.queries):
            broker = number % brokers
            self._add(f"{broker} {number}", broker)
        if self.shape.flooding:
            # Flooding reaches brokers without users as well.
            for broker in range(brokers):
                self.network.subscribe(broker, "all", everything())
        self.network.run(10.0)

    def publish(self) -> None:
        """Publishes all messages, with changes and faults in between."""
        shape, network, rng = self.shape, self.network, self.random
        self.outcome.sent.clear()
        self.outcome.sent_bytes.clear()
        for key, query in self.queries.items():
            self.central.add(key, query)
        started = time.process_time()
        changes = round(shape.churn * shape.queries)
        for number in range(shape.publications):
            for _ in range(_due(changes, number, shape.publications)):
                self._replace(rng.choice(list(self.queries)))
            for _ in range(_due(shape.crashes, number, shape.publications)):
                self._crash(rng.choice([a for a in network.addresses if network.is_alive(a)]))
            for _ in range(_due(shape.cuts, number, shape.publications)):
                self._cut(rng.choice(sorted(network.links)))
            self._publish(rng.choice([root for root in self.roots if network.is_alive(root)] or self.roots))
            network.run(0.02)
        network.run(40.0 if shape.is_faulty else 3.0)
        self.outcome.seconds = time.process_time() - started

    def _publish(self, root: Address) -> None:
        if not self.network.is_alive(root):
            self.network.start(root)
        body = self.world.message()
        message = self.network.publish(root, body, f"message {len(self.messages)}")
        self.messages.append(message)
        self._matching.append([str(key) for key in self.central.match(body).keys])

    def _replace(self, key: str) -> None:
        broker = _broker_of(key)
        if key in self.central:
            self.central.remove(key)
        del self.queries[key], self.alike[key]
        self.network.unsubscribe(broker, key)
        fresh = f"{broker} {len(self.messages)}+{self.random.randrange(1 << 30)}"
        self._add(fresh, broker)
        if self.network.is_alive(broker):
            self.network.settle(broker, fresh)

    def _note_item(self, time: float, address: Address, item: object) -> None:
        # An interest counts everywhere only when it has settled, so the oracle gets it then.
        if isinstance(item, InterestSettled) and item.token in self.queries:
            self.central.add(str(item.token), self.queries[str(item.token)])

    def _crash(self, address: Address) -> None:
        self.network.crash(address)
        self.network.simulator.at(self.network.simulator.now + 3.0, self._start, address)

    def _start(self, address: Address) -> None:
        if not self.network.is_alive(address):
            self.network.start(address)

    def _cut(self, link: tuple[Address, Address]) -> None:
        simulator = self.network.simulator
        simulator.cut(*link)
        simulator.at(simulator.now + 3.0, simulator.mend, *link)

    # Outcome.

    def _note_sent(self, sender: Address, receiver: Address, message: object) -> None:
        inner = getattr(message, "message", None) if type(message) is not Span else message
        if isinstance(inner, Span) and inner.message is not None:
            link = sender, receiver
            self.outcome.sent[link] = self.outcome.sent.get(link, 0) + 1
            self.outcome.sent_bytes[link] = self.outcome.sent_bytes.get(link, 0) + cast("Any", inner).size_bytes()

    def _judge(self) -> None:
        outcome, stores = self.outcome, self.network.stores
        for message, matching in zip(self.messages, self._matching, strict=True):
            needed = {_broker_of(interest) for interest in matching} - {message.root}
            outcome.needed.append(needed)
            key = message.root, message.number
            reached = {address for address, store in stores.items() if key in store.accepted}
            outcome.reached.append(reached)
            # Subscriptions that were removed since may have been removed before the message arrived.
            kept = {_broker_of(interest) for interest in matching if interest in self.queries} - {message.root}
            outcome.missing += len(kept - reached)
            if self.shape.reducing:
                outcome.wrong += self._wrong(message, matching)
            outcome.useless += len(reached - self._on_paths(message.root, needed))
            store_delay = self.network.store_delay
            outcome.delays += [
                stores[address].times[key] - store_delay - message.published for address in sorted(needed & reached)
            ]
        counters = self.network.simulator.counters
        outcome.counts = counters.by_kind()
        outcome.bytes = {kind.__name__: count for kind, count in counters.bytes.items()}
        outcome.tables = [
            sum(broker.table.remote_count(neighbour) for neighbour in broker.peers)
            for address in self.network.addresses
            if self.network.is_alive(address)
            for broker in (self.broker(address),)
        ]

    def _wrong(self, message: OverlayMessage, matching: list[str]) -> int:
        """Returns how many results differ from those of the whole message."""
        expected = {delivery.key: delivery.payload for delivery in self.central.deliver(message.body)}
        wrong = 0
        by_broker: dict[Address, list[str]] = {}
        for key in matching:
            by_broker.setdefault(_broker_of(key), []).append(key)
        for broker, keys in by_broker.items():
            accepted = self.network.stores[broker].accepted.get((message.root, message.number))
            if accepted is not None and accepted.reduced:
                got = {delivery.key: delivery.payload for delivery in self.central.deliver(accepted.body)}
                wrong += sum(got.get(key) != expected.get(key) for key in keys)
        return wrong

    def _on_paths(self, root: Address, needed: set[Address]) -> set[Address]:
        """Returns the brokers that a message has to pass, with those that want it."""
        if self.shape.is_faulty:
            return set(self.network.addresses)
        results = set()
        for target in needed:
            node = target
            while node != root and node not in results:
                results.add(node)
                parent = self.broker(node).streams[root].parent
                assert parent is not None
                node = parent
        return results

    def measures(self) -> dict[str, float | int | str]:
        """Returns the outcome in numbers, by their names in tables."""
        outcome, shape = self.outcome, self.shape
        others = max(1, shape.brokers - 1)
        messages = max(1, len(self.messages))
        reached = sum(map(len, outcome.reached))
        delays = sorted(outcome.delays) or [0.0]
        return {
            "brokers": shape.brokers,
            "subscriptions": self.alike.total(),
            "messages published": len(self.messages),
            "brokers that want a message, of 100 others": 100 * sum(map(len, outcome.needed)) / messages / others,
            "brokers that get it, of 100 others": 100 * reached / messages / others,
            "missing": outcome.missing,
            "wrong results": outcome.wrong,
            "messages that serve nobody, of 100": 100 * outcome.useless / max(1, sum(outcome.sent.values())),
            "messages a publication": sum(outcome.sent.values()) / messages,
            "bytes a publication": sum(outcome.sent_bytes.values()) / messages,
            "messages over the busiest link, a publication": max(outcome.sent.values(), default=0) / messages,
            "delay, median, ms": 1_000 * delays[len(delays) // 2],
            "delay, longest, ms": 1_000 * delays[-1],
            "conjunctions in a table, mean": sum(outcome.tables) / max(1, len(outcome.tables)),
            "conjunctions in a table, most": max(outcome.tables, default=0),
            "bytes of interests sent": outcome.bytes.get(RoutingDelta.__name__, 0),
            "questions": outcome.counts.get("Recover", 0),
            "ms of computing a publication": 1_000 * outcome.seconds / messages,
        }

    def map_of_flows(self) -> str:
        """Returns a map of the brokers with the load of each link, as SVG."""
        flows: dict[tuple[int, int], float] = dict.fromkeys(self.network.links, 0.0)
        for (one, other), count in self.outcome.sent.items():
            flows[min(one, other), max(one, other)] += count
        loads = [0.0] * self.shape.brokers
        for (_, receiver), count in self.outcome.sent.items():
            loads[receiver] += count
        return draw_map(
            self.world.locations,
            loads,
            flows,
            title=f"{self.shape.brokers} brokers; the broader a link, the more messages it carries",
            marked=set(self.roots),
        )


def _world(shape: OnyxShape) -> World:
    items = {"items_min": shape.items, "items_max": shape.items} if shape.items else {}
    return World(
        shape.brokers,
        areas=shape.areas,
        locality=shape.locality,
        seed=shape.seed,
        branching=shape.branching,
        rewriting=shape.rewriting,
        **items,
    )


def _broker_of(key: str) -> Address:
    return int(key.split()[0])


def _due(count: int, number: int, steps: int) -> int:
    """Returns how many of some evenly spread events fall on a step."""
    return count * (number + 1) // steps - count * number // steps
