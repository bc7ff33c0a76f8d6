"""Peers that are given much at once: large messages, and more orders than the network can carry out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.overlay.peers.peer_processes import PeerProcess, end, free_ports
from twigcast.peers.orders import DOCUMENT_BYTES_MAX

KEYS = {"all": "//item", "name": "/feed/item[@id = 7]/name", "both": "/feed/item[name][note]"}


def feed(items: int) -> str:
    inner = "".join(f"<item id='{n}'><name>{'x' * 40}</name><note/></item>" for n in range(items))
    return f"<feed>{inner}</feed>"


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[list[PeerProcess]]:
    ports = free_ports(3)
    peers = [PeerProcess("chord", port, ports[:number], tmp_path) for number, port in enumerate(ports)]
    try:
        for peer in peers:
            peer.start()
            peer.wait_for("joined", 40)
        yield peers
    finally:
        end(peers)


@pytest.mark.slow
def test_a_ring_takes_messages_of_thousands_of_branches_and_many_at_once(ring: list[PeerProcess]) -> None:
    for peer in ring:
        for key, query in KEYS.items():
            peer.order("subscribe", key=key, query=query)
    for peer in ring:
        for key in KEYS:
            peer.wait_for("subscribed", 40, key=key)
    sizes = [3_000, *[20] * 60, 1_000]
    for number, size in enumerate(sizes):
        ring[number % 3].order("publish", name=f"m{number}", xml=feed(size))
    for number, _ in enumerate(sizes):
        ring[number % 3].wait_for("published", 120, name=f"m{number}", not_notified=[])
    for peer in ring:
        heard = sorted((event["name"], event["key"]) for event in peer.all("notified"))
        assert heard == sorted((f"m{number}", key) for number, _ in enumerate(sizes) for key in KEYS)
        assert not peer.all("failed")


@pytest.mark.slow
def test_what_is_too_large_is_refused_by_name(ring: list[PeerProcess]) -> None:
    xml = f"<a>{'x' * DOCUMENT_BYTES_MAX}</a>"
    ring[0].order("publish", name="large", xml=xml)
    ring[0].wait_for("refused", order={"do": "publish", "name": "large"}, code="overlay-message-size")
    ring[0].order("subscribe", key="k", query="//[")
    ring[0].wait_for("refused", order={"do": "subscribe", "key": "k"}, code="query-syntax")


@pytest.mark.slow
def test_a_tree_takes_a_burst_of_documents(tmp_path: Path) -> None:
    ports = free_ports(4)
    producer = PeerProcess("codd", ports[0], [], tmp_path)
    nodes = [PeerProcess("codd", port, ports[:1], tmp_path, ["--query", "//item"]) for port in ports[1:]]
    try:
        producer.start()
        producer.wait_for("listening")
        for node in nodes:
            node.start()
            node.wait_for("joined", 40)
        sizes = [12_000, *[100] * 150, 5_000]
        for number, size in enumerate(sizes):
            producer.order("publish", name=f"d{number}", xml=feed(size))
        for node in nodes:
            node.wait_for("received", 120, number=len(sizes))
            assert [event["number"] for event in node.all("received")] == list(range(1, len(sizes) + 1))
    finally:
        end([producer, *nodes])
