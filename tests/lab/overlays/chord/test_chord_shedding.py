"""Hot states with the published thresholds, and results that equal the engine's."""

from __future__ import annotations

import dataclasses
from itertools import count
from typing import Any

import pytest

from tests.overlay.overlay_population import message, random_messages, random_queries, source
from twigcast import SubscriptionSet
from twigcast.lab.overlays.chord.build import build_ring
from twigcast.lab.overlays.simulator import Simulator
from twigcast.overlay.chord import indexing, publication
from twigcast.overlay.chord.messages import Notification
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.query import Path, child

PUBLISHED = ChordSettings(shedding=True)
"""More than 10 % of a peer's messages for one state; ten copies."""


class Ring:
    """A ring, and what reaches its applications."""

    def __init__(self, hosts: int, settings: ChordSettings = PUBLISHED) -> None:
        self.items: list[tuple[int, Any]] = []
        self.keys = count()
        self.peers = build_ring(settings, hosts)
        self.simulator = Simulator(on_delivery=lambda time, node, item: self.items.append((node, item)))
        for peer in self.peers:
            self.simulator.add(peer)

    def subscribe(self, queries: list[Path]) -> None:
        for number, query in enumerate(queries):
            key = str(next(self.keys))
            self.simulator.command(number % len(self.peers), indexing.subscribe, key, query)
            self.simulator.run()

    def publish(self, xml: bytes, times: int, name: str) -> None:
        for number in range(times):
            document = message(f"{name} {number}", xml)
            self.simulator.command(number % len(self.peers), publication.publish, document)
            self.simulator.run()

    def holders(self, key: str) -> list[Peer]:
        """The peers that hold copies of a state, once for every copy."""
        return [peer for peer in self.peers for held, _ in peer.held if held == key]

    def owner(self, key: str) -> Peer:
        return next(peer for peer in self.peers if peer.store.get(key) is not None)


def children(count: int) -> list[Path]:
    return [Path.absolute(child("a"), child(f"b{number}")) for number in range(count)]


def feed(count: int) -> bytes:
    return b"<a>" + b"".join(b"<b%d/>" % number for number in range(count)) + b"</a>"


def test_the_start_state_is_copied_from_the_first_query_on() -> None:
    ring = Ring(60)
    ring.subscribe(children(1))
    assert len(ring.holders("start")) == 10


def test_a_state_with_more_than_a_tenth_of_the_messages_is_copied_ten_times() -> None:
    ring = Ring(1)
    ring.subscribe(children(6))
    # Seven messages a publication besides the start state's, all to one peer.
    ring.publish(feed(6), 20, "hot")
    assert sorted(copy for key, copy in ring.peers[0].held if key == "start/a") == list(range(1, 11))


def test_a_state_with_less_than_a_tenth_is_not() -> None:
    ring = Ring(1)
    ring.subscribe(children(12))
    # Fourteen messages a publication: each state has a fourteenth.
    ring.publish(feed(12), 50, "cool")
    assert {key for key, _ in ring.peers[0].held} == {"start"}


def test_copies_take_the_load_off_the_owner_and_go_when_it_has_cooled() -> None:
    ring = Ring(60, dataclasses.replace(PUBLISHED, shed_window=20))
    ring.subscribe(children(2))
    ring.publish(feed(2), 120, "first")
    assert len(ring.holders("start/a")) == 10
    owner = ring.owner("start/a")
    before = owner.filtering_load
    ring.publish(feed(2), 220, "second")
    # Requesters ask the owner and ten holders with equal chance; without copies it would be 220 messages.
    assert owner.filtering_load - before < 80
    keys = [item.key for _, item in ring.items if isinstance(item, Notification)]
    assert len(keys) == 2 * 340, "copies neither lose nor double a notification"
    # Now only states below another name are asked for at that peer: the copied one cools.
    hot = next(name for name in (f"n{number}" for number in range(1000)) if _owned(ring, owner, f"start/{name}"))
    ring.subscribe([Path.absolute(child(hot), child("x"))])
    ring.publish(f"<{hot}><x/></{hot}>".encode(), 500, "other")
    assert ring.holders("start/a") == []
    ring.publish(feed(2), 5, "again")
    assert (
        len([item for _, item in ring.items if isinstance(item, Notification) and item.name.startswith("again")]) == 10
    )


def _owned(ring: Ring, owner: Peer, key: str) -> bool:
    return owner.table.is_responsible(owner.identifier(key))


@pytest.mark.parametrize("seed", range(6))
def test_results_equal_the_engines(seed: int) -> None:
    queries = random_queries(1000 + seed, 60)
    subscriptions = SubscriptionSet()
    subscriptions.add_many([(str(number), str(query)) for number, query in enumerate(queries)])
    ring = Ring(15, ChordSettings(fragment_levels=seed % 3, shedding=seed % 2 == 1, shed_window=20))
    ring.subscribe(queries)
    matched = 0
    for document in random_messages(1000 + seed, 15):
        ring.items.clear()
        ring.simulator.command(seed, publication.publish, document)
        ring.simulator.run()
        results = sorted(item.key for _, item in ring.items if isinstance(item, Notification))
        assert results == sorted(map(str, subscriptions.match(source(document.name)).keys))
        matched += len(results)
    assert matched > 30
