"""``twigcast overlay simulate chord``: a ring under a small workload, and its measures."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from twigcast.lab.overlays.checkers import check_ring
from twigcast.lab.overlays.chord.build import build_ring
from twigcast.lab.overlays.chord.scenario import ROBUST
from twigcast.lab.overlays.counters import gini, top_share
from twigcast.lab.overlays.draw import draw_load, draw_ring
from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.options import ChordOptions
from twigcast.lab.overlays.simulations import (
    Report,
    RunClock,
    check_counts,
    check_crashes,
    small_documents,
    small_queries,
)
from twigcast.lab.overlays.simulator import NetworkFaults, Simulator
from twigcast.overlay.chord import indexing, publication
from twigcast.overlay.chord.messages import Notification, Published, RingFailure, Subscribed, Visited
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.documents import Document
from twigcast.query import Path


def simulate(options: ChordOptions) -> Report:
    """Simulates the distributed automaton on a ring: it indexes queries and publishes messages, while nodes crash.

    With crashes or loss the ring maintains itself: at least three replicas, reliable links, confirmed publications. At
    most two peers crash at a time.

    Raises:
        ImpossibleSetting: A number makes no sense.
    """
    check_counts(options, queries=options.queries, publications=options.publications)
    check_crashes(options)
    robust = bool(options.crashes or options.loss)
    settings = replace(
        ROBUST if robust else ChordSettings(),
        virtual_nodes=options.virtual_nodes,
        fragment_levels=options.levels,
        replicas=max(options.replicas, 3) if robust else options.replicas,
        shedding=options.shedding,
        observe=True,
    )
    watch = RunClock()
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
