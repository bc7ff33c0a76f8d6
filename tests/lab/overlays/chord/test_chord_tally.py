"""The tally must give, number for number, what the simulator counts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.overlay.overlay_population import random_messages, random_queries
from twigcast.lab.overlays.chord.automaton import Automaton, EncodedPaths, labels_of
from twigcast.lab.overlays.chord.build import build_ring
from twigcast.lab.overlays.chord.parts import Cut, part_paths, total, trunk_rows
from twigcast.lab.overlays.chord.positions import RingPositions
from twigcast.lab.overlays.chord.tally import Network
from twigcast.lab.overlays.simulator import Simulator
from twigcast.overlay.chord import indexing, iterative, publication
from twigcast.overlay.chord.messages import Notification, RecExpand, Visited
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.documents import Document
from twigcast.overlay.errors import ImpossibleSetting
from twigcast.overlay.paths import linear_parts
from twigcast.query import Path


def plain(seed: int, count: int) -> list[Path]:
    """Linear queries without predicates."""
    chosen = [q for q in random_queries(seed, 40 * count, branching=False) if not linear_parts(q)[0].predicates]
    return chosen[:count]


def automaton_of(queries: list[Path]) -> Automaton:
    return Automaton(EncodedPaths(linear_parts(query)[0].labels for query in queries))


class Simulated:
    """The same network in the simulator."""

    def __init__(self, hosts: int, virtual_nodes: int, queries: list[Path]) -> None:
        self.items: list[Any] = []
        settings = ChordSettings(virtual_nodes=virtual_nodes, successors=1, observe=True)
        self.peers = build_ring(settings, hosts)
        self.simulator = Simulator(
            nodes_per_host=virtual_nodes, on_delivery=lambda time, node, item: self.items.append(item)
        )
        for peer in self.peers:
            self.simulator.add(peer)
        for number, query in enumerate(queries):
            self.simulator.command(0, indexing.subscribe, str(number), query)
        self.simulator.run()

    def publish(self, publisher: int, document: Document, how: Any) -> list[Any]:
        self.items.clear()
        for peer in self.peers:
            peer.filtering_load = 0
        self.simulator.command(publisher, how, document)
        self.simulator.run()
        return self.items


@pytest.mark.parametrize(("hosts", "virtual_nodes"), [(1, 1), (7, 1), (40, 1), (13, 3)])
def test_tally_equals_simulation(hosts: int, virtual_nodes: int) -> None:
    queries = plain(hosts, 60)
    simulated = Simulated(hosts, virtual_nodes, queries)
    automaton = automaton_of(queries)
    positions = RingPositions(hosts, virtual_nodes)
    network = Network(automaton, positions)
    generator = random.Random(hosts)
    states = [state for peer in simulated.peers for state in peer.store.states.values()]
    assert len(states) == len(automaton)
    per_host = [0] * hosts
    for peer in simulated.peers:
        for state in peer.store.states.values():
            copies = (state.fragment or {}).values()
            per_host[peer.host(peer.address)] += state.transitions() + sum(copy.transitions() for copy in copies)
    assert network.storage()[0] == per_host
    for document in random_messages(hosts, 12, "tally"):
        publisher = generator.randrange(len(simulated.peers))
        before = simulated.simulator.counters.messages[RecExpand]
        items = simulated.publish(publisher, document, publication.publish)
        visits = [item for item in items if isinstance(item, Visited)]
        network.load[:] = 0
        tally = network.publish(document, positions.index_of[publisher])
        assert tally.messages == len(visits)
        assert tally.hops == simulated.simulator.counters.messages[RecExpand] - before
        assert tally.latency_steps == max(visit.steps for visit in visits)
        assert tally.latency_hops == max(visit.hops for visit in visits)
        assert tally.matched == sum(isinstance(item, Notification) for item in items)
        loads = [0] * hosts
        for peer in simulated.peers:
            loads[peer.host(peer.address)] += peer.filtering_load
        assert network.load.tolist() == loads


@pytest.mark.parametrize("hosts", [1, 9, 30])
def test_tally_of_the_iterative_method(hosts: int) -> None:
    queries = plain(hosts + 100, 60)
    simulated = Simulated(hosts, 1, queries)
    automaton = automaton_of(queries)
    network = Network(automaton, RingPositions(hosts))
    for number, document in enumerate(random_messages(hosts, 8, "iter")):
        publisher = number % hosts
        items = simulated.publish(publisher, document, iterative.publish_iteratively)
        (visit,) = [item for item in items if isinstance(item, Visited)]
        tally = network.publish_iteratively(document, network.positions.index_of[publisher])
        assert tally.messages == 2 * sum(peer.filtering_load for peer in simulated.peers)
        assert tally.latency_steps == 2 * visit.steps
        assert tally.latency_hops == visit.hops
        assert tally.matched == sum(isinstance(item, Notification) for item in items)


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 5, 9])
@pytest.mark.parametrize("parts", [1, 2, 7])
def test_tally_in_parts_equals_the_whole(cut: int, parts: int) -> None:
    seed = 10 * cut + parts
    queries = plain(seed, 300)
    different = {str(query): query for query in queries}
    assert len(different) < len(queries)
    check_parts(list(different.values()), cut, parts, seed)
    check_parts(queries, cut, parts, seed)


def check_parts(queries: list[Path], cut: int, parts: int, seed: int) -> None:
    """What is tallied in parts adds up to the tally of the whole."""
    whole = EncodedPaths(linear_parts(query)[0].labels for query in queries)
    documents = random_messages(seed, 20, f"parts {len(queries)}")
    positions = RingPositions(23, 2)
    publishers = [number * 5 % len(positions) for number in range(len(documents))]
    network = Network(Automaton(whole), positions)
    expected = network.publish_all(documents, publishers)
    how = Cut(cut, positions, documents, publishers)
    tallies, beginnings = [], []
    for _, chosen in part_paths(whole.rows, cut, parts):
        rows = whole.rows[chosen]
        beginnings.append(trunk_rows(rows, cut))
        tallies.append(how.part(whole.with_rows(rows)))
    tallies.append(how.trunk(whole.with_rows(np.concatenate(beginnings))))
    result = total(tallies)
    assert result.messages == expected
    assert result.load == pytest.approx(network.load)
    assert (result.transitions.tolist(), result.stored.tolist()) == network.storage()
    assert (result.states, result.queries) == (len(network.automaton), len(queries))
    assert result.walked == network.automaton.walked
    if 0 < cut < 5:
        assert sum(tally.matched for tally in tallies[-1].messages) < sum(tally.matched for tally in expected)


def test_the_iterative_method_is_not_tallied_in_parts() -> None:
    network = Network(automaton_of(plain(1, 20)), RingPositions(5), range(1, 4))
    with pytest.raises(ImpossibleSetting, match="all states for the iterative method"):
        network.publish_iteratively(random_messages(1, 1, "one")[0], 0)


def test_shedding_spreads_the_load() -> None:
    network = Network(automaton_of(plain(3, 150)), RingPositions(50))
    documents = random_messages(3, 20, "shed")
    for document in documents:
        network.publish(document, 0)
    before = network.load.max()
    network.shed(window=20)
    network.load[:] = 0
    for document in documents:
        network.publish(document, 0)
    assert network.load.max() < before


def test_plain_paths_in_text() -> None:
    assert labels_of("/a//b/*") == ["a", "$", "b", "*"]
    assert labels_of("//a") == ["$", "a"]
