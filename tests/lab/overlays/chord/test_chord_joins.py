"""Nodes that join while the ring is being mended, or that die, leave or start again meanwhile: short traces."""

from __future__ import annotations

import dataclasses

from twigcast.lab.overlays.checkers import check_ring
from twigcast.lab.overlays.chord.build import build_ring, make_peer
from twigcast.lab.overlays.chord.scenario import ROBUST, ChordRun, start_run
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.lab.overlays.trace import TraceStep
from twigcast.overlay.chord.messages import Joined, NotifyPredecessor, RingFailure, Subscribed
from twigcast.overlay.chord.table import Ref, distance, identifier_of_address, identifier_of_key
from twigcast.overlay.core import Address
from twigcast.query import Path, child

NODES = 8
EVEN = NetworkFaults(1.0, 1.0)


def in_order() -> list[Ref]:
    """The nodes of the ring, in the order of their positions."""
    return sorted(peer.ref for peer in build_ring(ROBUST, NODES))


def newcomer(low: Ref, high: Ref) -> Address:
    """An address whose position lies between two nodes."""
    return next(
        address
        for address in range(NODES, 10_000)
        if low.identifier < identifier_of_address(address, ROBUST.bits) < high.identifier
    )


def moments(run: ChordRun, kind: type) -> list[tuple[float, Address]]:
    """When which nodes delivered an item of a class."""
    return [(entry.time, entry.receiver) for entry in run.simulator.journal.delivered() if isinstance(entry.item, kind)]


def a_ring_that_recovers(joining: Address, owner: int) -> list[TraceStep]:
    """The owner's predecessor fails, and with it a holder of the copies, so that its range is not whole for a while.

    Meanwhile a node asks to join in this range.
    """
    ring = in_order()
    return [
        TraceStep(100, "crash", ring[owner - 1].address),
        TraceStep(100, "crash", ring[owner + 3].address),
        TraceStep(105, "join", joining, (ring[owner].address,)),
    ]


def was_taken_in(run: ChordRun, node: Address, until: float) -> bool:
    """Whether the node becomes the predecessor of another one while the simulation goes on."""
    while run.simulator.now < until:
        run.simulator.run(until=run.simulator.now + 1)
        if any(peer.table.predecessor is not None and peer.table.predecessor.address == node for peer in run.peers):
            return True
    return False


def test_a_node_that_died_while_it_waited_to_join_is_not_taken_in() -> None:
    ring = in_order()
    joining = newcomer(ring[1], ring[2])
    trace = [*a_ring_that_recovers(joining, 3), TraceStep(140, "crash", joining)]
    run = start_run(trace, NODES, faults=EVEN)
    run.run(settle=0)
    assert not was_taken_in(run, joining, until=600)
    assert check_ring(run.peers) == []


def test_a_node_that_died_while_its_request_was_under_way_to_a_dead_node_is_not_taken_in() -> None:
    # Few successors, so that the way leads over a finger, far from where the new node belongs.
    settings = dataclasses.replace(ROBUST, successors=2)
    peers = sorted(build_ring(settings, 32), key=lambda peer: peer.ref.identifier)
    joining, position = 100, identifier_of_address(100, settings.bits)
    seed, hop = next(
        (peer, hop)
        for peer in peers
        if not peer.table.is_responsible(position)
        and (hop := peer.table.closest_preceding(position)) in peer.table.fingers[2:]
        and distance(hop.identifier, position, settings.bits) > 1 << (settings.bits - 3)
    )
    trace = [
        TraceStep(100, "crash", hop.address),
        TraceStep(100.1, "join", joining, (seed.address,)),
        TraceStep(115, "crash", joining),
    ]
    run = start_run(trace, 32, settings, EVEN)
    run.run(settle=0)
    assert not was_taken_in(run, joining, until=300)


def test_a_node_joins_a_ring_that_takes_longer_to_recover_than_it_would_wait_for_dead_seeds() -> None:
    ring = in_order()
    joining = newcomer(ring[1], ring[2])
    settings = dataclasses.replace(ROBUST, attempts_max=4)
    run = start_run(a_ring_that_recovers(joining, 3), NODES, settings, EVEN)
    run.run(settle=500)
    ((time, node),) = moments(run, Joined)
    assert node == joining
    assert time > 105 + settings.attempts_max * settings.stabilise_period
    assert moments(run, RingFailure) == []
    assert check_ring(run.peers) == []


def test_a_node_that_started_again_joins_through_one_that_was_welcomed_as_the_neighbour_of_its_former_life() -> None:
    ring = in_order()
    joining = newcomer(ring[1], ring[2])
    restarting = ring[1].address
    trace = [
        TraceStep(100, "join", joining, (ring[2].address,)),
        TraceStep(100.1, "crash", restarting),
        # Its request is at the new node before the welcome is, which names its former life.
        TraceStep(100.2, "join", restarting, (joining, ring[4].address)),
    ]
    run = start_run(trace, NODES, faults=EVEN)
    run.run(settle=400)
    assert sorted(node for _, node in moments(run, Joined)) == sorted([joining, restarting])
    assert check_ring(run.peers) == []


def test_a_former_life_is_forgotten_when_others_tell_of_a_later_one() -> None:
    ring = in_order()
    peer, restarted = make_peer(ring[3].address, ROBUST), ring[2]
    peer.active = True
    peer.table.set_successors([ring[4]])
    peer.table.predecessor = None
    peer.receive(restarted.address, NotifyPredecessor(restarted), 1.0)
    assert peer.table.predecessor == restarted
    later = restarted._replace(incarnation=1)
    peer.receive(ring[4].address, NotifyPredecessor(later), 2.0)
    assert peer.table.predecessor == later
    # An older rumour does not bring the former life back.
    peer.presume(restarted.address, 0)
    assert peer.life_of(restarted.address) == 1


def test_what_reaches_a_node_that_has_left_goes_on_to_its_successor() -> None:
    ring = in_order()
    owner = next(index for index, ref in enumerate(ring) if ref.identifier >= identifier_of_key("start", ROBUST.bits))
    before, leaving = ring[owner - 1].address, ring[owner].address
    # The query is under way to the leaving node while its farewell is under way to the subscriber.
    trace = [
        TraceStep(100, "leave", leaving),
        TraceStep(100.5, "subscribe", before, ("k", Path.absolute(child("a")))),
    ]
    run = start_run(trace, NODES, faults=EVEN)
    run.run(settle=ROBUST.confirm_delay / 2)
    assert [node for _, node in moments(run, Subscribed)] == [before]
