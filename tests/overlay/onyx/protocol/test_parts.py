"""The parts of a node by themselves: pieces of knowledge, ways, ordered links, what is lost, what may be forgotten."""

from __future__ import annotations

import os
import random
from collections.abc import Hashable
from typing import Any

import pytest

from tests.overlay.onyx.protocol.histories import draw_links
from tests.seeds import seed_or
from twigcast.lab.overlays.onyx.scenario import BRISK, OnyxNetwork
from twigcast.lab.overlays.ordered import OrderedNode
from twigcast.lab.overlays.simulator import NetworkFaults, Simulator
from twigcast.overlay.core import Address, Effects
from twigcast.overlay.errors import ImpossibleSetting
from twigcast.overlay.onyx.content.routing_query import everything, routing_query
from twigcast.overlay.onyx.messages import DISJUNCTS_PER_DELTA_MAX, LinkState, SourceEntry, StoredReport
from twigcast.overlay.onyx.protocol.root_stream import ReceivedRanges, SequenceRange
from twigcast.overlay.onyx.protocol.settings import OnyxSettings
from twigcast.overlay.onyx.protocol.topology import LinkStateVerdict, Topology, minimum_spanning_forest

SEED = seed_or(20261128)
ROUNDS = int(os.environ.get("TWIGCAST_TEST_ROUNDS", "40"))


def test_knowledge_is_a_set_of_numbers() -> None:
    for seed in range(SEED, SEED + 10 * ROUNDS):
        rng = random.Random(seed)
        horizon = rng.randrange(5)
        knowledge, existing = ReceivedRanges(horizon), set(range(horizon + 1))
        for _ in range(12):
            after = rng.randrange(30)
            upto = after + rng.randrange(6)
            new = set(range(after + 1, upto + 1)) - existing
            unknown = {n for piece in knowledge.missing(after, upto) for n in range(piece.after + 1, piece.upto + 1)}
            assert unknown == new, f"seed {seed}"
            changed = knowledge.add(after, upto)
            assert changed or not new, f"seed {seed}"
            existing |= new
            first = next(number for number in range(100) if number not in existing) - 1
            assert knowledge.horizon == first, f"seed {seed}"
            assert all(knowledge.contains(number) == (number in existing) for number in range(40)), f"seed {seed}"
            end = knowledge.end
            assert end is not None
            missing = {n for gap in knowledge.gaps() for n in range(gap.after + 1, gap.upto + 1)}
            assert missing == set(range(end + 1)) - existing, f"seed {seed}"


def test_an_empty_piece_shows_what_is_missing_before_it() -> None:
    knowledge = ReceivedRanges(3)
    assert knowledge.add(9, 9)
    assert knowledge.gaps() == [SequenceRange(3, 9)]
    assert not knowledge.add(9, 9)
    assert ReceivedRanges().add(4, 4)


def topologies(links: dict[tuple[Address, Address], int], *, shared: bool) -> dict[Address, Topology]:
    results = {}
    for node in {end for link in links for end in link}:
        results[node] = topology = Topology(node, 1, shared=shared)
        for (one, other), cost in links.items():
            if node in (one, other):
                topology.set_link(other if node == one else one, cost)
        topology.renew_own()
    for topology in results.values():
        for other_one in results.values():
            topology.apply(other_one.own)
    return results


def distances(links: dict[tuple[Address, Address], int]) -> dict[tuple[Address, Address], float]:
    """Floyd and Warshall."""
    nodes = sorted({end for link in links for end in link})
    far = {(one, other): 0.0 if one == other else float("inf") for one in nodes for other in nodes}
    for (one, other), cost in links.items():
        far[one, other] = far[other, one] = min(cost, far[one, other])
    for via in nodes:
        for one in nodes:
            for other in nodes:
                far[one, other] = min(far[one, other], far[one, via] + far[via, other])
    return far


def test_parents_lead_to_the_root_on_a_shortest_way() -> None:
    for seed in range(SEED, SEED + ROUNDS):
        links = draw_links(random.Random(seed), 8)
        for shared in (False, True):
            nodes = topologies(links, shared=shared)
            used = minimum_spanning_forest(links) if shared else links
            far = distances(dict(used))
            parents = {node: topology.parents() for node, topology in nodes.items()}
            for node in nodes:
                for root in nodes:
                    if node != root:
                        parent = parents[node][root]
                        step = used[min(node, parent), max(node, parent)]
                        assert step + far[parent, root] == far[node, root], f"seed {seed}"


def test_a_link_counts_where_both_ends_name_it() -> None:
    topology = Topology(1, 1)
    topology.set_link(2, 5)
    topology.renew_own()
    assert topology.apply(LinkState(2, 1, 1, ())) is LinkStateVerdict.NEW
    assert topology.parents() == {}
    assert topology.apply(LinkState(2, 1, 2, ((1, 9),))) is LinkStateVerdict.NEW
    assert topology.edges() == {(1, 2): 9}
    assert topology.apply(LinkState(2, 1, 1, ())) is LinkStateVerdict.OLD


class Talker:
    """Sends numbers to its neighbour whenever a link comes up, and writes down what it hears."""

    def __init__(self, address: Address, count: int) -> None:
        self.address = address
        self.count = count
        self.heard: list[list[Any]] = []

    def link_up(self, neighbour: Address, cost: int, now: float) -> Effects:
        self.heard.append([])
        sends = [(neighbour, StoredReport(self.address, number)) for number in range(self.count)]
        return Effects(sends, [], [])

    def link_down(self, neighbour: Address, now: float) -> Effects:
        return Effects([], [], [])

    def receive(self, sender: Address, message: Any, now: float) -> Effects:
        self.heard[-1].append(message)
        return Effects([], [], [])

    def wake(self, timer: Hashable, now: float) -> Effects:
        return Effects([], [], [])


def test_links_keep_order_and_begin_anew_when_they_break() -> None:
    for seed in range(SEED, SEED + ROUNDS):
        rng = random.Random(seed)
        simulator = Simulator(seed, NetworkFaults(0.001, 0.2, loss=0.2, duplication=0.2))
        talkers = {}
        for address in (0, 1):
            talkers[address] = Talker(address, 30)
            simulator.add(OrderedNode(talkers[address], {1 - address: 1}, BRISK, 1))
        for incarnation in range(2, 5):
            simulator.run(until=simulator.now + rng.choice((0.3, 2.0, 20.0)))
            if rng.random() < 0.5:
                simulator.remove(1)
                simulator.run(until=simulator.now + rng.choice((0.0, 3.0)))
                talkers[1] = Talker(1, 30)
                simulator.add(OrderedNode(talkers[1], {0: 1}, BRISK, incarnation))
            else:
                simulator.cut(0, 1)
                simulator.run(until=simulator.now + rng.choice((0.1, 5.0)))
                simulator.mend(0, 1)
        simulator.run(until=simulator.now + 60)
        for talker in talkers.values():
            expected = [StoredReport(1 - talker.address, number) for number in range(30)]
            for received in talker.heard:
                assert received == expected[: len(received)], f"seed {seed}"
            assert talker.heard[-1] == expected, f"seed {seed}"


def test_what_the_root_no_longer_has_is_named() -> None:
    network = OnyxNetwork({(0, 1): 5}, OnyxSettings(report_delay=0.5), seed=SEED)
    network.start_all()
    network.subscribe(1, "k", everything())
    network.run(5)
    network.publish(0, b"<a/>")
    network.run(2)
    existing = network.stores[1].horizons[0]
    network.crash(1)
    for _ in range(6):
        network.publish(0, b"<a/>")
    numbers = sorted(network.stores[0].messages)
    network.forget(0, numbers[3])
    network.start(1)
    network.run(20)
    assert [(lost.after, lost.upto) for lost in network.stores[1].lost] == [(existing, numbers[3])]
    assert sorted(number for _, number in network.stores[1].accepted) == [numbers[0], *numbers[4:]]
    assert network.stores[1].horizons[0] == numbers[-1]


def test_nothing_is_forgotten_while_somebody_is_away() -> None:
    network = OnyxNetwork({(0, 1): 5, (1, 2): 5}, OnyxSettings(report_delay=0.5), seed=SEED)
    network.start_all()
    network.run(6)
    network.publish(0, b"<a/>")
    network.run(6)
    first = network.stores[0].last
    assert network.broker(0).forgettable() == first
    network.crash(2)
    network.run(6)
    network.publish(0, b"<a/>")
    network.run(6)
    assert network.broker(0).forgettable() == first
    network.start(2)
    network.run(12)
    assert network.broker(0).forgettable() == network.stores[0].last > first


def test_the_catalogue_reaches_everybody_and_the_newest_counts() -> None:
    network = OnyxNetwork({(0, 1): 5, (1, 2): 5}, seed=SEED)
    network.start_all()
    network.run(3)
    network.command(0, network.broker(0).describe, SourceEntry("feed", 1, 0, "<!ELEMENT a ANY>"))
    network.run(1)
    network.crash(2)
    network.command(1, network.broker(1).describe, SourceEntry("feed", 3, 0, is_gone=True))
    network.command(0, network.broker(0).describe, SourceEntry("feed", 2, 0))
    network.start(2)
    network.run(5)
    assert [network.broker(address).catalogue["feed"].version for address in range(3)] == [3, 3, 3]


def test_a_large_table_is_told_in_pieces() -> None:
    network = OnyxNetwork({(0, 1): 5}, OnyxSettings(disjuncts_per_delta=7), seed=SEED)
    network.start_all()
    network.run(3)
    for number in range(40):
        network.subscribe(1, number, routing_query(f"/a/b{number}"))
    network.run(2)
    assert len(network.broker(0).table.remote(1)) == 40
    for number in range(40):
        network.unsubscribe(1, number)
    network.run(2)
    assert not network.broker(0).table.remote(1)
    assert not network.refusals
    with pytest.raises(ImpossibleSetting, match="disjuncts_per_delta"):
        OnyxSettings(disjuncts_per_delta=DISJUNCTS_PER_DELTA_MAX + 1)
