"""Ten processes of one cooperative tree: killed, started again, cut in two; each document arrives, and once."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from tests.overlay.overlay_population import random_queries, random_xml
from tests.overlay.peers.peer_processes import PROCESSES, PeerProcess, cut, end, free_ports, mend, wait

SEED = 2030


class TreeOfProcesses:
    """A producer, its subscribers, and the stream."""

    def __init__(self, count: int, folder: Path) -> None:
        self.random = random.Random(SEED)
        ports = free_ports(count)
        self.producer = PeerProcess("codd", ports[0], [], folder)
        queries = [str(query) for query in random_queries(SEED, 40)]
        self.queries = {port: self.random.choice(queries) for port in ports[1:]}
        self.nodes = [
            PeerProcess("codd", port, ports[:1], folder, ["--query", self.queries[port]]) for port in ports[1:]
        ]
        self.stream: list[bytes] = []

    def start(self) -> None:
        """Start all."""
        self.producer.start()
        self.producer.wait_for("listening")
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_for("joined", 60)

    def publish(self, count: int, pause: float = 0.1) -> None:
        """Publish some documents."""
        for _ in range(count):
            self.stream.append(random_xml(self.random))
            self.producer.order("publish", name=f"d{len(self.stream)}", xml=self.stream[-1].decode())
            time.sleep(pause)

    def missing(self) -> dict[int, list[int]]:
        """By port, the numbers of documents that a running node should have got since it joined and has not."""
        missing = {}
        for node in self.nodes:
            if not node.is_running or not (joined := node.all("joined")):
                continue
            wanted = {n for n in self.wanted(node) if n >= joined[0]["first"]}
            if late := sorted(wanted - {event["number"] for event in node.all("received")}):
                missing[node.port] = late
        return missing

    def wanted(self, node: PeerProcess) -> set[int]:
        """The numbers of the documents that satisfy a node's query, by the oracle."""
        return {
            number
            for number, xml in enumerate(self.stream, 1)
            if etree.ElementTree(etree.fromstring(xml)).xpath(self.queries[node.port])
        }

    def check(self) -> None:
        """Wait until all nodes have what is theirs, each document once and no other."""
        wait(lambda: not self.missing(), 60, lambda: f"{self.missing()}")
        for node in self.nodes:
            for life in (*node.former, node.events):
                got = [event for event in life if event["event"] == "received"]
                assert {event["number"] for event in got} <= self.wanted(node)
                assert max(Counter(event["number"] for event in got).values(), default=1) == 1
                assert all(event["xml"].encode() == self.stream[event["number"] - 1] for event in got)
                assert not [event for event in life if event["event"] == "gap"]


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Any]:
    tree = TreeOfProcesses(PROCESSES, tmp_path)
    try:
        tree.start()
        yield tree
    finally:
        end([tree.producer, *tree.nodes])


@pytest.mark.slow
def test_ten_nodes_that_are_killed_started_again_and_cut_off(tree: TreeOfProcesses) -> None:
    tree.publish(30)
    tree.check()
    # Killed, and back at their addresses before the others can have noticed, while the stream goes on.
    for node in tree.random.sample(tree.nodes, 2):
        node.kill()
        node.start()
        tree.publish(15)
        node.wait_for("joined", 60)
    tree.publish(15)
    tree.check()
    # Two killed for good: their children find other parents, and get what they missed.
    for node in tree.random.sample(tree.nodes, 2):
        node.kill()
    tree.publish(40)
    tree.check()
    # Half of them cut off from the producer for a while.
    running = [node for node in tree.nodes if node.is_running]
    cut([tree.producer, *running], running[::2])
    tree.publish(40, 0.3)
    mend([tree.producer, *running])
    tree.publish(20)
    tree.check()
    # One leaves in good order, and the stream ends with its producer.
    assert running[1].stop() == 0
    tree.publish(10)
    tree.check()
    assert tree.producer.stop() == 0
    for node in running:
        if node.is_running:
            node.wait_for("ended", 30)
