"""Ten processes on one ring: killed, started again, cut in two; nobody misses a message once all is well again."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from lxml import etree

from tests.overlay.overlay_population import random_queries, random_xml
from tests.overlay.peers.peer_processes import PROCESSES, PeerProcess, cut, end, free_ports, mend, wait

SEED = 2029

#: Port of a subscriber, key, name of a message, and its publisher.
Heard: TypeAlias = tuple[int, str, str, str]


class RingOfProcesses:
    """A ring, what its peers subscribe to, and what was published on it."""

    def __init__(self, count: int, folder: Path) -> None:
        ports = free_ports(count)
        self.random = random.Random(SEED)
        self.peers = [
            PeerProcess("chord", port, [other for other in ports[:3] if other != port], folder) for port in ports
        ]
        self.peers[0].join = []
        self.queries = [str(query) for query in random_queries(SEED, 60)]
        self.wanted: dict[tuple[PeerProcess, str], str] = {}
        self.published: dict[str, tuple[PeerProcess, bytes]] = {}

    def start(self) -> None:
        """Start all, the first one alone."""
        for peer in self.peers:
            peer.start()
            if peer is self.peers[0]:
                peer.wait_for("joined")
        for peer in self.peers:
            peer.wait_for("joined", 40)
        # From now on the first one joins the others, too.
        self.peers[0].join = [peer.where for peer in self.peers[1:4]]

    def subscribe(self, peer: PeerProcess, count: int) -> None:
        """Let an application have so many queries, under keys that it has used before."""
        for number in range(count):
            key, query = f"k{number}", self.random.choice(self.queries)
            self.wanted[peer, key] = query
            peer.order("subscribe", key=key, query=query)
        for number in range(count):
            peer.wait_for("subscribed", 40, key=f"k{number}")

    def publish(self, peer: PeerProcess) -> str:
        """Publish a message."""
        name, xml = f"m{len(self.published)}", random_xml(self.random)
        self.published[name] = peer, xml
        peer.order("publish", name=name, xml=xml.decode())
        return name

    def live(self) -> list[PeerProcess]:
        """The peers that run."""
        return [peer for peer in self.peers if peer.is_running]

    def settle(self) -> None:
        """Wait until messages reach everybody again, wherever they are published."""
        names: list[str] = []

        def is_whole() -> bool:
            names[:] = [self.publish(peer) for peer in self.live()]
            time.sleep(3)
            return self.heard(names) >= self.expected(names)

        wait(is_whole, 40, lambda: f"{sorted(self.expected(names) - self.heard(names))}")

    def check(self, count: int = 10) -> None:
        """Publish some messages; all who want them hear of them, and nobody else does."""
        names = [self.publish(self.random.choice(self.live())) for _ in range(count)]
        expected = self.expected(names)
        wait(lambda: self.heard(names) >= expected, 60, lambda: f"{sorted(expected - self.heard(names))}")
        for name in names:
            publisher, _ = self.published[name]
            publisher.wait_for("published", 60, name=name)
        assert self.heard(names) == expected

    def expected(self, names: list[str]) -> set[Heard]:
        """Who has to hear of some messages, by the oracle."""
        expected = set()
        for name in names:
            publisher, xml = self.published[name]
            tree = etree.ElementTree(etree.fromstring(xml))
            for (peer, key), query in self.wanted.items():
                if peer.is_running and tree.xpath(query):
                    expected.add((peer.port, key, name, publisher.where))
        return expected

    def heard(self, names: list[str]) -> set[Heard]:
        """Who has heard of some messages."""
        return {
            (peer.port, event["key"], event["name"], event["publisher"])
            for peer in self.live()
            for event in peer.all("notified")
            if event["name"] in names
        }

    def doubled(self) -> list[Any]:
        """What an application heard twice."""
        lives = [(peer.port, life) for peer in self.peers for life in (*peer.former, peer.events)]
        return [
            (port, heard)
            for port, life in lives
            for heard, times in Counter(
                (event["key"], event["name"]) for event in life if event["event"] == "notified"
            ).items()
            if times > 1
        ]


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[RingOfProcesses]:
    ring = RingOfProcesses(PROCESSES, tmp_path)
    try:
        ring.start()
        for peer in ring.peers:
            ring.subscribe(peer, 3)
        yield ring
    finally:
        end(ring.peers)


@pytest.mark.slow
def test_ten_peers_that_are_killed_started_again_and_cut_off(ring: RingOfProcesses) -> None:
    ring.check()
    # Killed, and back at its address before the others can have noticed.
    for peer in ring.random.sample(ring.peers, 2):
        peer.kill()
        peer.start()
        peer.wait_for("joined", 40)
        ring.subscribe(peer, 3)
        ring.check(4)
    # Two killed at once: the copies of what they held are elsewhere.
    gone = ring.random.sample(ring.peers, 2)
    for peer in gone:
        peer.kill()
    ring.check()
    for peer in gone:
        peer.start()
        peer.wait_for("joined", 60)
        ring.subscribe(peer, 2)
        ring.wanted.pop((peer, "k2"))
    ring.check()
    # Two rings for a while, which become one.
    cut(ring.peers, ring.peers[::2])
    for _ in range(20):
        ring.publish(ring.random.choice(ring.peers))
        time.sleep(0.5)
    mend(ring.peers)
    ring.settle()
    ring.check()
    assert ring.doubled() == []
    assert ring.peers[3].stop() == 0
    ring.check(4)
