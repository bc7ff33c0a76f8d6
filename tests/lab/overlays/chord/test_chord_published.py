"""The worked examples of Miliaraki, Kaoudi and Koubarakis (WWW 2008), number by number."""

from __future__ import annotations

import math
from typing import Any

import pytest

from twigcast.lab.overlays.chord.build import build_ring
from twigcast.lab.overlays.journal import Fate, Journal
from twigcast.lab.overlays.simulator import Simulator
from twigcast.overlay.chord import indexing, iterative, publication
from twigcast.overlay.chord.messages import FindSuccessor, IndexQuery, Notification, SuccessorReply, Visited
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.chord.table import identifier_of_key
from twigcast.overlay.core import KeyRoutedMessage
from twigcast.overlay.documents import read_document
from twigcast.query import Path, child, descendant

PLACES = [3, 11, 22, 30, 41, 52]
FINGERS = {
    3: [11, 11, 11, 11, 22, 41],
    11: [22, 22, 22, 22, 30, 52],
    22: [30, 30, 30, 30, 41, 3],
    30: [41, 41, 41, 41, 52, 3],
    41: [52, 52, 52, 52, 3, 11],
    52: [3, 3, 3, 3, 11, 22],
}
QUERIES = {
    "q1": Path.absolute(child("a"), child("b")),
    "q2": Path.absolute(child("a"), child("*")),
    "q3": Path.absolute(descendant("b")),
    "q4": Path.absolute(child("a"), child("b"), child("c")),
}
MESSAGE = b"<a><b><c/></b><b/></a>"


def look_up(peer: Peer, position: int) -> None:
    peer.route(KeyRoutedMessage(position, FindSuccessor(-2), peer.address))


class Network:
    """The six peers, with the four queries indexed by peer 3."""

    def __init__(self, levels: int = 0, positions: list[int] | None = None) -> None:
        self.items: list[Any] = []
        self.settings = ChordSettings(bits=6, fragment_levels=levels, observe=True)
        self.peers = build_ring(self.settings, len(positions or PLACES), positions or PLACES)
        self.simulator = Simulator(journal=Journal(), on_delivery=lambda time, node, item: self.items.append(item))
        for peer in self.peers:
            self.simulator.add(peer)

    def index(self) -> None:
        self.walked = 0
        original = Peer.keyed[IndexQuery]

        def count(peer: Peer, routed: KeyRoutedMessage) -> None:
            self.walked += 1
            original(peer, routed)

        Peer.keyed[IndexQuery] = count
        try:
            self._index()
        finally:
            Peer.keyed[IndexQuery] = original

    def _index(self) -> None:
        for key, query in QUERIES.items():
            self.simulator.command(0, indexing.subscribe, key, query)
        self.simulator.run()

    def publish(self, how: Any) -> None:
        self.items.clear()
        document = read_document("m", MESSAGE)
        self.simulator.command(0, how, document)
        self.simulator.run()

    def at(self, position: int) -> Peer:
        return next(peer for peer in self.peers if peer.ref.identifier == position)

    def received(self, kind: str) -> int:
        """Logical messages of a kind that arrived where they were meant to."""
        return sum(
            1
            for entry in self.simulator.journal.entries
            if entry.fate == Fate.RECEIVED and type(entry.item).__name__ == kind
        )


def test_keys_hash_to_the_published_places() -> None:
    keys = {"start": 13}
    keys |= {"start/a": 9, "start/a/b": 6, "start/a/*": 58, "start/$": 36, "start/$/b": 40, "start/a/b/c": 2}
    assert {key: identifier_of_key(key, 6) for key in keys} == keys


def test_finger_tables() -> None:
    for peer in Network().peers:
        expected = FINGERS[peer.ref.identifier]
        assert [ref.identifier for ref in peer.table.fingers] == sorted(
            set(expected), key=lambda position: (position - peer.ref.identifier) % 64
        )


@pytest.mark.parametrize(
    ("target", "route"), [(50, [3, 41, 52]), (2, [11, 52, 3]), (40, [22, 30, 41]), (20, [41, 11, 22])]
)
def test_lookups_take_the_published_routes(target: int, route: list[int]) -> None:
    network = Network()
    network.simulator.command(network.at(route[0]).address, look_up, target)
    network.simulator.run()
    visited = [
        network.peers[entry.receiver].ref.identifier
        for entry in network.simulator.journal.entries
        if entry.fate == Fate.RECEIVED and isinstance(entry.item, KeyRoutedMessage)
    ]
    assert [route[0], *visited] == route


@pytest.mark.parametrize(("levels", "copies"), [(0, 8), (1, 14), (2, 17)])
def test_copies_by_l(levels: int, copies: int) -> None:
    network = Network(levels)
    network.index()
    states = [state for peer in network.peers for state in peer.store.states.values()]
    assert sum(1 + len(state.fragment or ()) for state in states) == copies


@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_indexing_takes_one_message_a_state_for_every_l(levels: int) -> None:
    network = Network(levels)
    network.index()
    assert network.walked == 13


def test_storage_load() -> None:
    network = Network()
    network.index()
    loads = {
        peer.ref.identifier: sum(
            state.transitions() + sum(copy.transitions() for copy in (state.fragment or {}).values())
            for state in peer.store.states.values()
        )
        for peer in network.peers
    }
    assert loads == {22: 4, 11: 3, 41: 2, 3: 0, 30: 0, 52: 0}


@pytest.mark.parametrize(("levels", "messages"), [(0, 13), (1, 9), (2, 3), (3, 1)])
def test_recursive_messages_by_l(levels: int, messages: int) -> None:
    network = Network(levels)
    network.index()
    network.publish(publication.publish)
    assert sum(isinstance(item, Visited) for item in network.items) == messages
    assert sorted(item.key for item in network.items if isinstance(item, Notification)) == sorted(QUERIES)


def test_recursive_latency() -> None:
    network = Network()
    network.index()
    network.publish(publication.publish)
    visits = [item for item in network.items if isinstance(item, Visited)]
    assert max(visit.steps for visit in visits) == 4
    assert max(visit.hops for visit in visits) == 6
    assert {(visit.key, visit.hops) for visit in visits} == {
        ("start", 2),
        ("start/a", 4),
        ("start/a/b", 4),
        ("start/a/b/c", 6),
        ("start/a/*", 6),
        ("start/$", 4),
        ("start/$/b", 4),
    }


def test_iterative_messages() -> None:
    network = Network()
    network.index()
    network.publish(iterative.publish_iteratively)
    assert sum(peer.filtering_load for peer in network.peers) == 9
    assert network.received("Expanded") == 9
    assert sorted(item.key for item in network.items if isinstance(item, Notification)) == sorted(QUERIES)


@pytest.mark.parametrize("peers", [16, 128, 1024])
def test_lookup_takes_half_the_logarithm(peers: int) -> None:
    hops: list[int] = []
    ring = build_ring(ChordSettings(), peers)
    simulator = Simulator(on_delivery=lambda time, node, item: None)
    for peer in ring:
        simulator.add(peer)
    original = Peer.handlers[SuccessorReply]
    try:
        Peer.handlers[SuccessorReply] = lambda peer, sender, result: hops.append(result.hops)
        for number in range(400):
            origin = ring[number * 7 % peers]
            position = identifier_of_key(f"place {number}", 160)
            simulator.command(origin.address, look_up, position)
        simulator.run()
    finally:
        Peer.handlers[SuccessorReply] = original
    assert len(hops) == 400
    assert max(hops) <= 2 * math.log2(peers)
    assert sum(hops) / len(hops) == pytest.approx(0.5 * math.log2(peers), abs=0.8)


def test_routing_state_is_logarithmic_whatever_the_queries() -> None:
    sizes = {peers: max(peer.table.size() for peer in build_ring(ChordSettings(), peers)) for peers in (64, 1024)}
    assert sizes[64] <= 3 * 6 + 9
    assert sizes[1024] <= 3 * 10 + 9
