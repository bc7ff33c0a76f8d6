"""Running networks of brokers for the experiments on ONYX, and other ways to disseminate, on the same workload.

* *ONYX*: the protocol itself in the simulator (`twigcast.overlay.onyx`), message by message.
* *flooding*: the same brokers, each of which wants everything; a message goes over every link of its tree.
* *match early* (in the manner of MEDYM): the root knows all subscriptions, and sends along its tree towards the brokers
  with a match alone, whose addresses travel with the message. Computed, on the trees of the simulated network.
* *Chord automaton* and *CoDD*: the two other overlays, each broker being a peer.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from twigcast.lab.experiments.framework.model import Measured, Point
from twigcast.lab.overlays.chord.build import build_ring
from twigcast.lab.overlays.codd.measures import depths
from twigcast.lab.overlays.codd.scenario import start_run
from twigcast.lab.overlays.onyx.simulation import OnyxShape, OnyxSimulation
from twigcast.lab.overlays.simulator import NetworkFaults, Simulator
from twigcast.overlay.chord import indexing, publication
from twigcast.overlay.chord.messages import Notification
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.codd.engine import Item, Query
from twigcast.overlay.codd.messages import Forward
from twigcast.overlay.codd.settings import CoddSettings
from twigcast.overlay.codd.twig_engine import TwigEngine
from twigcast.overlay.codd.twigs import twig_of
from twigcast.overlay.core import Address
from twigcast.overlay.documents import read_document
from twigcast.overlay.onyx.content.routing_table import RoutingTable
from twigcast.query import Path
from twigcast.subscriptions import SubscriptionSet

SEED = 2004
ADDRESS_BYTES = 8


@dataclass(slots=True)
class Shown:
    """The results of one method of dissemination, per publication if nothing else is said.

    Attributes:
        reached: Brokers that got a message, of 100 others.
        wanted: Brokers with a match, of 100 others.
        messages: Sent over links.
        kilobytes: Of these.
        busiest: Messages received by the busiest broker.
        table: Conjunctions, subscriptions, states or queries that a broker keeps of others, on average.
        announced_bytes: Bytes of all announcements.
        hops: Links from the publisher to a broker with a match, on average.
        milliseconds: From publication to handing over, in the middle (simulated).
        computing: Milliseconds of computing, all brokers together, the simulation included.
        useless: Messages that serve nobody where they arrive, nor behind it, of 100.
    """

    reached: float = 0.0
    wanted: float = 0.0
    messages: float = 0.0
    kilobytes: float = 0.0
    busiest: float = 0.0
    table: float = 0.0
    announced_bytes: float = 0.0
    hops: float = 0.0
    milliseconds: float = 0.0
    computing: float = 0.0
    useless: float = 0.0


METRICS = {field: "told" if field == "announced_bytes" else field for field in Shown.__dataclass_fields__}
"""The metric of each field, as stored results name it."""


def rows(series: str, x: float | str, shown: Shown) -> list[Measured]:
    """Returns all measures."""
    return [Measured(series, x, metric, (float(getattr(shown, field)),)) for field, metric in METRICS.items()]


@lru_cache(maxsize=4)
def simulated(frozen: tuple[tuple[str, Any], ...], boxes_max: int | None = None) -> OnyxSimulation:
    """Runs the protocol. A message that is missed ends the experiment.

    Raises:
        AssertionError: A message did not reach a broker with a match.
    """

    def make_table() -> RoutingTable:
        return RoutingTable(boxes_max=boxes_max)

    simulation = OnyxSimulation(OnyxShape(seed=SEED, **dict(frozen)), make_table=make_table)
    simulation.run()
    assert not simulation.outcome.missing, f"{simulation.outcome.missing} messages are missing"
    assert not simulation.outcome.wrong, f"{simulation.outcome.wrong} results are wrong"
    return simulation


def onyx(simulation: OnyxSimulation) -> Shown:
    """Returns the results of the protocol."""
    measures, outcome = simulation.measures(), simulation.outcome
    messages = max(1, len(simulation.messages))
    received: dict[Address, int] = {}
    for (_, receiver), count in outcome.sent.items():
        received[receiver] = received.get(receiver, 0) + count
    lengths = [
        len(store.accepted[key].path)
        for message, needed in zip(simulation.messages, outcome.needed, strict=True)
        for key in ((message.root, message.number),)
        for address in needed
        for store in (simulation.network.stores[address],)
        if key in store.accepted
    ]
    return Shown(
        float(measures["brokers that get it, of 100 others"]),
        float(measures["brokers that want a message, of 100 others"]),
        float(measures["messages a publication"]),
        float(measures["bytes a publication"]) / 1_000,
        max(received.values(), default=0) / messages,
        float(measures["conjunctions in a table, mean"]),
        float(measures["bytes of interests sent"]),
        sum(lengths) / max(1, len(lengths)),
        float(measures["delay, median, ms"]),
        float(measures["ms of computing a publication"]),
        float(measures["messages that serve nobody, of 100"]),
    )


def match_early(simulation: OnyxSimulation) -> Shown:
    """Computes sending along the same trees towards exactly the brokers with a match."""
    outcome = simulation.outcome
    others = max(1, simulation.shape.brokers - 1)
    count = max(1, len(simulation.messages))
    sent, size, reached = 0, 0, 0
    received: dict[Address, int] = {}
    for message, needed in zip(simulation.messages, outcome.needed, strict=True):
        below: dict[Address, int] = {}
        for target in needed:
            node: Address = target
            while node != message.root:
                below[node] = below.get(node, 0) + 1
                parent = simulation.broker(node).streams[message.root].parent
                assert parent is not None
                node = parent
        sent += len(below)
        reached += len(below)
        size += sum(len(message.body) + 112 + ADDRESS_BYTES * targets for targets in below.values())
        for node in below:
            received[node] = received.get(node, 0) + 1
    exact = onyx(simulation)
    alike, sources = simulation.alike, simulation.shape.sources
    reported = sum(len(query) * alike[key] for key, query in simulation.queries.items()) * sources
    return Shown(
        100 * reached / count / others,
        exact.wanted,
        sent / count,
        size / count / 1_000,
        max(received.values(), default=0) / count,
        alike.total() * sources / simulation.shape.brokers,
        reported,
        exact.hops,
        exact.milliseconds,
        0.0,
    )


def frozen(parameters: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Returns parameters as a key."""
    return tuple(sorted(parameters.items()))


def measure_methods(point: Point) -> list[Measured]:
    """Measures ONYX, flooding and matching early, in one setting."""
    simulation = simulated(frozen(point.parameters))
    flooded = simulated(frozen({**point.parameters, "flooding": True}))
    return [
        *rows("ONYX", point.x, onyx(simulation)),
        *rows("match early", point.x, match_early(simulation)),
        *rows("flooding", point.x, onyx(flooded)),
    ]


def measure_alone(point: Point) -> list[Measured]:
    """Measures ONYX, in one setting."""
    return rows("ONYX", point.x, onyx(simulated(frozen(point.parameters))))


def measure_reduced(point: Point) -> list[Measured]:
    """Measures ONYX with whole messages on links, and with parts; and flooding."""
    parameters = point.parameters
    return [
        *rows("whole messages", point.x, onyx(simulated(frozen(parameters)))),
        *rows("parts", point.x, onyx(simulated(frozen({**parameters, "reducing": True})))),
        *rows("flooding", point.x, onyx(simulated(frozen({**parameters, "flooding": True})))),
    ]


def measure_relaxed(point: Point) -> list[Measured]:
    """Measures ONYX and matching early, where routing queries are wider than the queries."""
    simulation = simulated(frozen(point.parameters))
    return [*rows("ONYX", point.x, onyx(simulation)), *rows("match early", point.x, match_early(simulation))]


def measure_generalised(point: Point) -> list[Measured]:
    """Measures ONYX under a budget of boxes for its announcements to a neighbour."""
    parameters = dict(point.parameters)
    boxes_max = parameters.pop("boxes_max")
    return rows("ONYX", point.x, onyx(simulated(frozen(parameters), boxes_max)))


# The other overlays.


def measure_systems(point: Point) -> list[Measured]:
    """Measures all five systems: one subscription a broker, one source."""
    simulation = simulated(frozen(point.parameters))
    interests = [interest_of(simulation, broker) for broker in range(simulation.shape.brokers)]
    bodies = [message.body for message in simulation.messages]
    requested = onyx(simulation).wanted
    root = simulation.roots[0]
    shown = {"Chord automaton": _chord(interests, bodies, root), "CoDD": _codd(interests, bodies, root)}
    for other in shown.values():
        other.wanted = requested
    return measure_methods(point) + [row for name, some in shown.items() for row in rows(name, point.x, some)]


def interest_of(simulation: OnyxSimulation, broker: int) -> Path:
    """Returns the query of the only user of a broker."""
    return simulation.interests[f"{broker} {broker}"]


def _chord(interests: list[Path], bodies: list[bytes], root: Address) -> Shown:
    """Every broker a peer; a unit of time is a hop."""
    times: list[float] = []
    started = 0.0

    def note(time: float, address: Address, item: Any) -> None:
        if isinstance(item, Notification) and address != root:
            times.append(time - started)

    simulator = Simulator(SEED, NetworkFaults(), on_delivery=note)
    for peer in build_ring(ChordSettings(), len(interests)):
        simulator.add(peer)
    addresses = sorted(simulator.nodes)
    for address, interest in zip(addresses, interests, strict=True):
        simulator.command(address, indexing.subscribe, f"s{address}", interest)
        simulator.run()
    reported = sum(simulator.counters.bytes.values())
    simulator.counters.messages.clear()
    simulator.counters.bytes.clear()
    simulator.counters.received.clear()
    for number, body in enumerate(bodies):
        started = simulator.now
        simulator.command(root, publication.publish, read_document(f"m{number}", body))
        simulator.run()
    count, peers = len(bodies), [node for node in simulator.nodes.values() if isinstance(node, Peer)]
    return Shown(
        reached=100 * len(times) / count / (len(interests) - 1),
        messages=sum(simulator.counters.messages.values()) / count,
        kilobytes=sum(simulator.counters.bytes.values()) / count / 1_000,
        busiest=max(simulator.counters.received.values(), default=0) / count,
        table=sum(len(peer.store.states) for peer in peers) / len(peers),
        announced_bytes=reported,
        hops=sum(times) / max(1, len(times)),
    )


def _codd(interests: list[Path], bodies: list[bytes], root: Address) -> Shown:
    """Every broker but the producer a node of one tree. The first half of the messages builds it."""
    others = [interest for broker, interest in enumerate(interests) if broker != root]
    twigs: list[Query] = [twig_of(interest) for interest in others]
    engine = TwigEngine()
    engine.mask(twigs)
    subscriptions = SubscriptionSet()
    texts = {str(interest): twig for interest, twig in zip(others, twigs, strict=True)}
    for text in texts:
        subscriptions.add(text, text)
    items = []
    for number, body in enumerate([*bodies, *bodies], 1):
        items.append(Item(number, read_document(str(number), body), len(body)))
        engine.set_answer(number, [texts[key] for key in subscriptions.match(body).keys])
    run = start_run(engine, CoddSettings(reorganise_after=20), seed=SEED)
    stream = iter(items)
    generator = random.Random(SEED)  # noqa: S311 - reproducible, not secret
    for address in generator.sample(range(1, len(interests)), len(interests) - 1):
        run.add(address, twigs[address - 1])
        run.simulator.run(until=run.simulator.now + 1)
    run.stream(islice(stream, len(bodies)))
    counters = run.simulator.counters
    reported = sum(counters.bytes.values()) - counters.bytes[Forward]
    for counted in (counters.messages, counters.bytes, counters.received):
        counted.clear()
    before = {node.address: node.received_count for node in run.nodes}
    run.stream(stream)
    results = depths(run)
    received = {node.address: node.received_count - before.get(node.address, 0) for node in run.nodes}
    count = len(bodies)
    return Shown(
        reached=100 * sum(received.values()) / count / (len(interests) - 1),
        messages=counters.messages[Forward] / count,
        kilobytes=sum(counters.bytes.values()) / count / 1_000,
        busiest=max(received.values(), default=0) / count,
        table=sum(len(child.queries) for node in (*run.nodes, run.root) for child in node.children.values())
        / len(interests),
        announced_bytes=reported,
        hops=sum(results.values()) / max(1, len(results) - 1),
    )
