"""Peers with certificates: those of one authority form a network, and others are kept out and told why."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

from tests.overlay.onyx.network.network_fakes import certificates
from tests.overlay.peers.peer_processes import PeerProcess, end, free_ports, wait


def await_warning(peer: PeerProcess) -> None:
    wait(lambda: "of one authority" in peer.log, 40, lambda: peer.log)


@pytest.mark.slow
def test_only_peers_of_one_authority_take_part(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    ports = free_ports(4)

    def peer(number: int, name: str, issuer: trustme.CA | None) -> PeerProcess:
        options: list[str] = []
        if issuer is not None:
            files = certificates(tmp_path, name, issuer)
            options = ["--cert", str(files.certificate), "--key", str(files.key), "--ca", str(files.authority)]
            options += ["--name", name]
        return PeerProcess("chord", ports[number], ports[:1] if number else [], tmp_path, options)

    peers = [peer(0, "anna", authority), peer(1, "berta", authority), peer(2, "carla", other), peer(3, "", None)]
    try:
        for one in peers:
            one.start()
            one.wait_for("listening")
        for one in peers[:2]:
            one.wait_for("joined", 40)
        peers[1].order("subscribe", key="k", query="//a")
        peers[1].wait_for("subscribed", 40)
        peers[0].order("publish", name="m", xml="<a/>")
        peers[1].wait_for("notified", 40, name="m", publisher=peers[0].where)
        for one in peers[2:]:
            await_warning(one)
            assert not one.all("joined")
    finally:
        end(peers)
