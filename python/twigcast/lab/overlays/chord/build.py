"""Rings that have already converged: for experiments, and to start a simulation without waiting for many joins."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from twigcast.overlay.chord import handlers as _handlers  # noqa: F401 - completes Peer
from twigcast.overlay.chord import maintenance
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.chord.table import Ref, identifier_of_address
from twigcast.overlay.core import Address
from twigcast.overlay.errors import IdentifierClash, ImpossibleSetting


def make_peer(address: Address, settings: ChordSettings, incarnation: int = 0, identifier: int | None = None) -> Peer:
    """Makes a peer that is not part of any ring yet. Its identifier is the hash of its address, unless it is passed."""
    if identifier is None:
        identifier = identifier_of_address(address, settings.bits)
    return Peer(Ref(identifier, address, incarnation), settings)


def build_ring(settings: ChordSettings, hosts: int, identifiers: Sequence[int] | None = None) -> list[Peer]:
    """Returns the peers of a converged ring, in order of their addresses, `virtual_nodes` of them on each host.

    Args:
        settings: Settings of all peers.
        hosts: Number of hosts.
        identifiers: Places of the peers; the hashes of their addresses by default.

    Raises:
        ImpossibleSetting: There is no host.
        IdentifierClash: Two peers have the same place; more bits or fewer peers are needed.
    """
    if hosts < 1:
        raise ImpossibleSetting("hosts", hosts, "at least 1")
    count = hosts * settings.virtual_nodes
    positions = identifiers or [identifier_of_address(address, settings.bits) for address in range(count)]
    refs = sorted(Ref(position, address) for address, position in enumerate(positions))
    for one, other in pairwise(refs):
        if one.identifier == other.identifier:
            raise IdentifierClash(one.identifier, f"wanted by nodes {one.address} and {other.address}")
    peers = [Peer(ref, settings) for ref in sorted(refs, key=lambda ref: ref.address)]
    link_ring(peers, refs)
    for peer in peers:
        maintenance.start_alone(peer)
        peer.drain()
        maintenance.set_timers(peer)
    return peers


def link_ring(peers: Sequence[Peer], refs: Sequence[Ref]) -> None:
    """Fills the routing tables of peers from all references, in order of identifier."""
    positions = [ref.identifier for ref in refs]
    for peer in peers:
        index = bisect_left(positions, peer.ref.identifier)
        count = len(refs)
        table = peer.table
        table.set_successors([refs[(index + step) % count] for step in range(1, min(count, table.successors_max + 1))])
        table.predecessor = refs[index - 1]
        maintenance.admit(peer, (*table.successors, table.predecessor))
        table.verified_span = table.own_span() or 0
        table.set_fingers(_distinct_fingers(peer, refs, positions))
        maintenance.admit(peer, table.fingers)


def _distinct_fingers(peer: Peer, refs: Sequence[Ref], positions: Sequence[int]) -> list[Ref]:
    fingers: list[Ref] = []
    power = 0
    while power < peer.settings.bits:
        start = (peer.ref.identifier + (1 << power)) % (1 << peer.settings.bits)
        finger = refs[bisect_left(positions, start) % len(refs)]
        gap = peer.table.gap(finger.identifier)
        if gap == 0:
            break
        fingers.append(finger)
        power = gap.bit_length()
    return fingers
