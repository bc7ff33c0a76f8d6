"""The simulations of `twigcast overlay simulate`: a network under a small workload, and its measures."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from twigcast.lab.overlays.checkers import check_ring
from twigcast.lab.overlays.chord.build import build_ring
from twigcast.lab.overlays.chord.scenario import ROBUST
from twigcast.lab.overlays.counters import gini, top_share
from twigcast.lab.overlays.draw import draw_load, draw_ring, draw_tree
from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.options import ChordOptions, CoddOptions, OnyxOptions, SimulationOptions
from twigcast.lab.overlays.simulator import NetworkFaults, Simulator
from twigcast.overlay.chord import indexing, publication
from twigcast.overlay.chord.messages import Notification, Published, RingFailure, Subscribed, Visited
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.documents import Document, read_document
from twigcast.overlay.errors import ImpossibleSetting
from twigcast.query import Path, child, descendant

#: Names that the small workload draws from, the more often the earlier they stand.
_NAMES = ("feed", "item", "head", "title", "place", "time", "body", "link", "note", "kind", "source", "area")


@dataclass(slots=True)
class Report:
    """The results of a simulation.

    Attributes:
        measures: By name, in the order to be printed.
        drawings: SVG by file name.
        journal: The journal, if it was kept.
    """

    measures: dict[str, float | int | str] = field(default_factory=dict)
    drawings: dict[str, str] = field(default_factory=dict)
    journal: Journal | None = None

    def text(self) -> str:
        """Returns the measures, one a line."""
        width = max(map(len, self.measures), default=0)
        return "\n".join(f"{name:<{width}}  {_shown(value)}" for name, value in self.measures.items())


def _shown(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def small_queries(count: int, seed: int) -> list[Path]:
    """Returns path queries over the small workload's names."""
    generator = random.Random(f"queries {seed}")  # noqa: S311 - reproducible, not secret
    queries = []
    for _ in range(count):
        steps = []
        for _ in range(generator.randint(2, 5)):
            label = "*" if generator.random() < 0.2 else _name(generator)
            steps.append((descendant if generator.random() < 0.2 else child)(label))
        queries.append(Path.absolute(child("feed"), *steps))
    return queries


def small_documents(count: int, seed: int) -> Iterable[Document]:
    """Yields messages over the same names."""
    generator = random.Random(f"messages {seed}")  # noqa: S311 - reproducible, not secret
    for number in range(count):
        yield read_document(f"message {number}", f"<feed>{_content(generator, 4)}</feed>".encode())


def _content(generator: random.Random, left: int) -> str:
    if not left:
        return ""
    parts = []
    for _ in range(generator.randint(1, 3)):
        name = _name(generator)
        parts.append(f"<{name}>{_content(generator, left - 1)}</{name}>")
    return "".join(parts)


def _name(generator: random.Random) -> str:
    return _NAMES[min(int(generator.expovariate(0.3)), len(_NAMES) - 1)]


class _Watch:
    """Time and memory of a run."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._processor = time.process_time()
        self._memory = _memory_bytes()

    def note(self, report: Report, events: int, nodes: int) -> None:
        seconds = time.perf_counter() - self._started
        busy = time.process_time() - self._processor
        report.measures["events"] = events
        report.measures["events a second of processor time"] = round(events / busy) if busy else 0
        report.measures["kB of memory a node"] = max(0.0, (_memory_bytes() - self._memory) / 1000 / max(1, nodes))
        report.measures["seconds"] = seconds


def _memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _check_counts(options: SimulationOptions, **counts: int) -> None:
    if options.nodes < 1:
        raise ImpossibleSetting("nodes", options.nodes, "at least 1")
    for name, count in counts.items():
        if count < 0:
            raise ImpossibleSetting(name, count, "at least 0")


def _check_crashes(options: SimulationOptions) -> None:
    if not 0 <= options.crashes < options.nodes:
        raise ImpossibleSetting("crashes", options.crashes, "at least 0 and fewer than nodes")


def simulate_chord(options: ChordOptions) -> Report:
    """Simulates the distributed automaton on a ring: it indexes queries and publishes messages, while nodes crash.

    With crashes or loss the ring maintains itself: at least three replicas, reliable links, confirmed publications. At
    most two peers crash at a time.

    Raises:
        ImpossibleSetting: A number makes no sense.
    """
    _check_counts(options, queries=options.queries, publications=options.publications)
    _check_crashes(options)
    robust = bool(options.crashes or options.loss)
    settings = replace(
        ROBUST if robust else ChordSettings(),
        virtual_nodes=options.virtual_nodes,
        fragment_levels=options.levels,
        replicas=max(options.replicas, 3) if robust else options.replicas,
        shedding=options.shedding,
        observe=True,
    )
    watch = _Watch()
    faults = NetworkFaults(loss=options.loss)
    simulation = _ChordSimulation(settings, options.nodes, faults, options.seed, options.journal)
    simulation.index(small_queries(options.queries, options.seed))
    simulation.publish(list(small_documents(options.publications, options.seed)), options.crashes)
    report = simulation.report(options.nodes)
    watch.note(report, simulation.simulator.counters.events, options.nodes)
    return report


class _ChordSimulation:
    """One run on a ring."""

    def __init__(self, settings: ChordSettings, hosts: int, faults: NetworkFaults, seed: int, keep: bool) -> None:
        self.settings = settings
        self.random = random.Random(seed)  # noqa: S311 - reproducible, not secret
        journal = Journal(keep=keep)
        self.simulator = Simulator(seed, faults, journal, settings.virtual_nodes, self._note)
        for peer in build_ring(settings, hosts):
            self.simulator.add(peer)
        self.confirmed = 0
        self.indexing_messages = 0
        self.complete = 0
        self.abandoned = 0
        self.notified: set[tuple[int, str, str]] = set()
        self.visits: dict[str, list[Visited]] = {}
        self.gone: set[int] = set()

    def _note(self, time: float, node: int, item: Any) -> None:
        if isinstance(item, Subscribed):
            self.confirmed += 1
        elif isinstance(item, Published):
            self.complete += 1
        elif isinstance(item, Notification):
            self.notified.add((node, item.key, item.name))
        elif isinstance(item, Visited):
            self.visits.setdefault(item.name, []).append(item)
        elif isinstance(item, RingFailure):
            self.abandoned += 1

    @property
    def peers(self) -> list[Peer]:
        nodes = self.simulator.nodes
        return [peer for address in sorted(nodes) if isinstance(peer := nodes[address], Peer)]

    def _pause(self, time: float) -> None:
        if self.settings.maintain:
            self.simulator.run(until=self.simulator.now + time)
        else:
            self.simulator.run()

    def index(self, queries: list[Path]) -> None:
        addresses = sorted(self.simulator.nodes)
        for number, query in enumerate(queries):
            self.simulator.command(self.random.choice(addresses), indexing.subscribe, f"s{number}", query)
            if not self.settings.maintain:
                self.simulator.run()
        self._pause(400)
        self.indexing_messages = self.simulator.counters.by_traffic().get("indexing", 0)
        self.simulator.counters.messages.clear()
        self.simulator.counters.bytes.clear()

    def publish(self, documents: list[Document], crashes: int) -> None:
        every = max(1, len(documents) // max(1, crashes)) if crashes else 0
        left = crashes
        for number, document in enumerate(documents):
            if every and left and number % every == 0:
                self._crash()
                left -= 1
            publisher = self.random.choice(sorted(self.simulator.nodes))
            self.simulator.command(publisher, publication.publish, document)
            self._pause(150)
        self._pause(1500)

    def _crash(self) -> None:
        host = self.random.choice(sorted({self.simulator.host_of(a) for a in self.simulator.nodes}))
        for address in [a for a in self.simulator.nodes if self.simulator.host_of(a) == host]:
            self.simulator.remove(address)

    def report(self, hosts: int) -> Report:
        peers = self.peers
        counters = self.simulator.counters
        filtering = [0.0] * hosts
        storage = [0.0] * hosts
        for peer in peers:
            host = self.simulator.host_of(peer.address)
            filtering[host] += peer.filtering_load
            storage[host] += sum(state.transitions() for state in peer.store.states.values() if _owns(peer, state.key))
        messages = max(1, len(self.visits))
        report = Report(journal=self.simulator.journal if self.simulator.journal.keep else None)
        report.measures |= {
            "peers alive": len({self.simulator.host_of(peer.address) for peer in peers}),
            "subscriptions confirmed": self.confirmed,
            "indexing hops": self.indexing_messages,
            "messages published": len(self.visits),
            "publications confirmed": self.complete if self.settings.confirm else "not requested",
            "given up": self.abandoned,
            "notifications": len(self.notified),
            "logical messages a publication": sum(map(len, self.visits.values())) / messages,
            "latency, logical steps": sum(max(v.steps for v in some) for some in self.visits.values()) / messages,
            "latency, routed hops": sum(max(v.hops for v in some) for some in self.visits.values()) / messages,
            "states": sum(_owns(peer, key) for peer in peers for key in peer.store.states),
            "references a node": max(peer.table.size() for peer in peers),
            "storage: share of the fullest fifth": top_share(storage, 0.2),
            "filtering: share of the heaviest 5 %": top_share(filtering, 0.05),
            "filtering: Gini coefficient": gini(filtering),
            "ring": "whole" if not check_ring(peers) else "not converged",
        }
        for traffic, count in sorted(counters.by_traffic().items()):
            report.measures[f"messages, {traffic}"] = count
        report.drawings = {
            "ring.svg": ring_of(peers, filtering, self.simulator),
            "load.svg": draw_load({"filtering": filtering, "storage": storage}, title="Load of the peers", unit="load"),
        }
        return report


def _owns(peer: Peer, key: str) -> bool:
    return peer.table.is_responsible(peer.identifier(key))


def ring_of(peers: list[Peer], loads: list[float], simulator: Simulator) -> str:
    """Draws the ring with the fingers of its first node, shaded by load."""
    circle = 1 << peers[0].settings.bits
    numbers = {peer.address: number for number, peer in enumerate(peers)}
    fingers = [ref.address for ref in peers[0].table.fingers if ref.address in numbers]
    return draw_ring(
        [peer.ref.identifier / circle for peer in peers],
        [loads[simulator.host_of(peer.address)] for peer in peers],
        [(0, numbers[address]) for address in fingers],
        title=f"{len(peers)} positions on the ring, and the fingers of node {peers[0].address}",
        labels=[str(peer.address) for peer in peers],
        unit="filtering load",
    )


def simulate_codd(options: CoddOptions) -> Report:
    """Simulates a cooperative tree over drifting interests: nodes join, documents flow, subtrees move, nodes crash.

    Raises:
        ImpossibleSetting: A number makes no sense.
        MissingExtra: The package of the extra `lab` is not installed.
    """
    _check_counts(options, documents=options.documents)
    _check_crashes(options)
    from twigcast.lab.overlays.codd.simulation import CoddSimulation

    watch = _Watch()
    simulation = CoddSimulation(
        options.nodes,
        fan_out=options.fan_out,
        reorganise=options.reorganise,
        reorganise_after=options.reorganise_after,
        robust=bool(options.crashes or options.loss),
        loss=options.loss,
        seed=options.seed,
        keep_journal=options.journal,
    )
    simulation.grow(options.documents)
    simulation.stream(options.crashes)
    measures = simulation.measures()
    report = Report(dict(measures), journal=simulation.run.simulator.journal if options.journal else None)
    parents, loads = simulation.tree()
    overheads = [load for load in loads.values() if load]
    report.drawings = {
        "tree.svg": draw_tree(parents, loads, root=0, title=f"{len(parents)} nodes"),
        "load.svg": draw_load({"overhead": overheads or [0.0]}, title="Overhead of the nodes", unit="overhead"),
    }
    watch.note(report, simulation.run.simulator.counters.events, options.nodes)
    return report


def simulate_onyx(options: OnyxOptions) -> Report:
    """Simulates brokers that route by content: subscriptions change, sources publish, brokers crash, links are cut.

    Raises:
        ImpossibleSetting: A number makes no sense.
    """
    _check_counts(options, queries=options.queries, publications=options.publications)
    if options.nodes < 2:
        raise ImpossibleSetting("nodes", options.nodes, "at least 2")
    for name, share in (("locality", options.locality), ("churn", options.churn)):
        if not 0 <= share <= 1:
            raise ImpossibleSetting(name, share, "between 0 and 1")
    if options.sources < 1:
        raise ImpossibleSetting("sources", options.sources, "at least 1")
    from twigcast.lab.overlays.onyx.simulation import OnyxShape, OnyxSimulation

    watch = _Watch()
    shape = OnyxShape(
        options.nodes,
        options.queries,
        options.publications,
        options.sources,
        options.locality,
        options.churn,
        options.crashes,
        options.cuts,
        options.loss,
        options.shared_tree,
        seed=options.seed,
    )
    simulation = OnyxSimulation(shape, keep_journal=options.journal)
    outcome = simulation.run()
    report = Report(simulation.measures(), journal=simulation.network.simulator.journal if options.journal else None)
    for traffic, count in sorted(simulation.network.simulator.counters.by_traffic().items()):
        report.measures[f"messages, {traffic}"] = count
    tables = [float(size) for size in outcome.tables]
    report.drawings = {
        "flows.svg": simulation.map_of_flows(),
        "tables.svg": draw_load({"conjunctions": tables or [0.0]}, title="Routing tables", unit="conjunctions"),
    }
    watch.note(report, simulation.network.simulator.counters.events, options.nodes)
    return report
