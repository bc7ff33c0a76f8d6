"""What the ring does when things go wrong, and what the checkers see when it cannot cope."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.overlay.overlay_population import matches, message, random_messages, random_queries
from twigcast.lab.overlays.checkers import check_notifications, check_ring
from twigcast.lab.overlays.chord.build import build_ring, make_peer
from twigcast.lab.overlays.chord.scenario import ROBUST, ChordRun, start_run
from twigcast.lab.overlays.simulator import NetworkFaults, Simulator
from twigcast.lab.overlays.trace import TraceShape, TraceStep, random_trace
from twigcast.overlay.chord import indexing, maintenance, publication
from twigcast.overlay.chord.messages import Branched, Joined, Neighbours, Notification, RingFailure, Suspected
from twigcast.overlay.chord.peer import Peer
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.overlay.chord.table import Ref
from twigcast.overlay.core import LinkSettings
from twigcast.overlay.documents import split_document
from twigcast.overlay.errors import (
    IdentifierClash,
    ImpossibleSetting,
    MessageTooLarge,
    TraceError,
    UndistributableQuery,
    UnknownNode,
)
from twigcast.query import FunctionCall, Path, child, descendant, nested


def delivered(run: ChordRun, kind: type) -> list[Any]:
    return [entry.item for entry in run.simulator.journal.delivered() if isinstance(entry.item, kind)]


def population(seed: int, nodes: int) -> list[TraceStep]:
    """Thirty subscriptions on a quiet ring."""
    shape = TraceShape(nodes=nodes, duration=200, joins=0, leaves=0, crashes=0, subscriptions=30, publications=0,
                       withdrawals=0)  # fmt: skip
    return random_trace(seed, shape, random_queries(seed, 30), [None])


def publications(seed: int, start: float, nodes: list[int]) -> list[TraceStep]:
    return [
        TraceStep(start + 10 * number, "publish", nodes[number % len(nodes)], document)
        for number, document in enumerate(random_messages(seed, 20, f"after{start}-"))
    ]


def owners_in_a_row(settings: ChordSettings, nodes: int, count: int) -> list[int]:
    """The owner of the start state and those after it."""
    peers = sorted(build_ring(settings, nodes), key=lambda peer: peer.ref.identifier)
    position = peers[0].identifier("start")
    first = next((n for n, peer in enumerate(peers) if peer.ref.identifier >= position), 0)
    return [peers[(first + step) % nodes].address for step in range(count)]


@pytest.mark.parametrize("seed", range(3))
def test_no_subscription_is_lost_when_all_but_one_replica_fail_at_once(seed: int) -> None:
    victims = owners_in_a_row(ROBUST, 12, ROBUST.replicas - 1)
    trace = population(seed, 12) + [TraceStep(600, "crash", victim) for victim in victims]
    trace += publications(seed, 602, [node for node in range(12) if node not in victims])
    run = start_run(trace, 12, seed=seed)
    run.run(settle=1500)
    assert check_notifications(run.simulator.journal, trace, matches) == []
    assert delivered(run, Notification)


def test_the_checker_sees_what_is_lost_without_replicas() -> None:
    settings = dataclasses.replace(ROBUST, replicas=1)
    victims = owners_in_a_row(settings, 12, 1)
    trace = [*population(1, 12), TraceStep(600, "crash", victims[0])]
    trace += publications(1, 900, [node for node in range(12) if node not in victims])
    run = start_run(trace, 12, settings)
    run.run(settle=1500)
    assert {violation.rule for violation in check_notifications(run.simulator.journal, trace, matches)} == {"lost"}


def test_all_peers_but_one_fail_at_once() -> None:
    trace = population(2, 8) + [TraceStep(600, "crash", node) for node in range(1, 8)]
    trace += [TraceStep(2000, "subscribe", 0, ("late", Path.absolute(descendant("a"))))]
    trace += publications(2, 2500, [0])
    run = start_run(trace, 8)
    run.run(settle=1500)
    assert check_ring(run.peers) == []
    # What only the others held is gone with them; the survivor is a working network of one.
    assert {notification.key for notification in delivered(run, Notification)} >= {"late"}


def test_all_peers_fail_and_new_ones_start_over() -> None:
    simulator = Simulator()
    for peer in build_ring(ROBUST, 4):
        simulator.add(peer)
    for address in range(4):
        simulator.at(50, simulator.remove, address)
    simulator.run(until=100)
    assert simulator.nodes == {}
    with pytest.raises(UnknownNode, match="no live node 2"):
        simulator.command(2, maintenance.leave)
    fresh = make_peer(9, ROBUST)
    simulator.add(fresh)
    simulator.command(9, maintenance.start_alone)
    assert fresh.active


def test_a_node_whose_seeds_are_all_dead_gives_up_by_name() -> None:
    items: list[Any] = []
    simulator = Simulator(on_delivery=lambda time, node, item: items.append(item))
    simulator.add(make_peer(5, ROBUST))
    simulator.command(5, maintenance.start_join, (1, 2))
    simulator.run(until=2000)
    assert items == [RingFailure("join", "no seed took this node in")]


class Liar(Peer):
    """Claims that its successor is someone else; otherwise a good peer."""

    claim: Ref | None = None

    def send_once(self, to: int, message: Any) -> None:
        if isinstance(message, Neighbours) and self.claim is not None:
            message = message._replace(successors=(self.claim, *message.successors[1:]))
        super().send_once(to, message)


def ring_with_liar(claim_place: int) -> tuple[Simulator, Liar, list[Any]]:
    items: list[Any] = []
    simulator = Simulator(on_delivery=lambda time, node, item: items.append((node, item)))
    peers = build_ring(ROBUST, 10)
    honest = peers[4]
    liar = Liar(honest.ref, ROBUST)
    liar.table, liar.active = honest.table, True
    maintenance.set_timers(liar)
    ordered = sorted(peers, key=lambda peer: peer.ref.identifier)
    index = ordered.index(honest)
    liar.claim = ordered[(index + claim_place) % 10].ref
    for peer in peers:
        simulator.add(liar if peer is honest else peer)
    return simulator, liar, items


def test_a_lie_about_the_successor_does_not_outlive_the_liar() -> None:
    simulator, liar, _ = ring_with_liar(claim_place=5)
    simulator.run(until=300)
    simulator.remove(liar.address)
    simulator.run(until=1500)
    assert check_ring(node for node in simulator.nodes.values() if isinstance(node, Peer)) == []


def test_a_lie_about_a_place_is_seen_at_once() -> None:
    simulator, liar, items = ring_with_liar(claim_place=1)
    assert liar.claim is not None
    liar.claim = liar.claim._replace(identifier=(liar.ref.identifier + 1) % (1 << 160))
    simulator.run(until=300)
    assert {item.address for _, item in items if isinstance(item, Suspected)} == {liar.address}
    honest = [node for node in simulator.nodes.values() if isinstance(node, Peer) and node is not liar]
    assert all(ref.identifier != liar.claim.identifier for peer in honest for ref in peer.table.successors)


def test_a_joining_node_that_forges_its_place_is_refused() -> None:
    simulator = Simulator()
    for peer in build_ring(ROBUST, 5):
        simulator.add(peer)
    items: list[Any] = []
    simulator.on_delivery = lambda time, node, item: items.append((node, item))
    simulator.add(make_peer(77, ROBUST, identifier=12345))
    simulator.command(77, maintenance.start_join, (0,))
    simulator.run(until=500)
    assert (77, RingFailure("join", "the identifier is not the hash of the address")) in items
    assert not any(isinstance(item, Joined) for _, item in items)


def test_identifier_clashes() -> None:
    with pytest.raises(IdentifierClash, match="wanted by nodes"):
        build_ring(ChordSettings(bits=4), 30)
    settings = dataclasses.replace(ROBUST, bits=6)
    ring = build_ring(settings, 2, identifiers=[20, 40])
    items: list[Any] = []
    simulator = Simulator(on_delivery=lambda time, node, item: items.append((node, item)))
    for peer in ring:
        simulator.add(peer)
    simulator.add(make_peer(7, settings, identifier=40))
    simulator.command(7, maintenance.start_join, (0,))
    simulator.run(until=200)
    assert (7, RingFailure("join", "identifier 40 is taken")) in items


def test_a_large_message_travels_in_fragments_and_matches_the_same() -> None:
    xml = b"<a>" + b"".join(b"<b x='%d'><c>%d</c></b>" % (n % 5, n % 7) for n in range(200)) + b"<d/></a>"
    document = message("large", xml)
    settings = dataclasses.replace(ROBUST, message_bytes_max=1500)
    pieces = split_document(document, 1500)
    assert len(pieces) > 3
    assert all(piece.size_bytes <= 1500 for piece in pieces)
    queries = [*random_queries(5, 40), Path.absolute(child("a", nested(child("d"))), child("b"), child("c"))]
    trace = [TraceStep(5.0 + n, "subscribe", n % 6, (f"s{n}", query)) for n, query in enumerate(queries)]
    trace.append(TraceStep(600, "publish", 2, document))
    run = start_run(trace, 6, settings)
    run.run(settle=600)
    assert check_notifications(run.simulator.journal, trace, matches) == []
    assert delivered(run, Notification)


def test_a_message_with_one_element_over_the_limit_is_refused() -> None:
    document = message("lump", b"<a><b>" + b"<c/>" * 2 + b"x" * 10 + b"</b><d y='" + b"z" * 900 + b"'/></a>")
    with pytest.raises(MessageTooLarge, match="a node accepts at most 300"):
        split_document(document, 300)
    settings = dataclasses.replace(ROBUST, message_bytes_max=300)
    run = start_run([], 3, settings)
    with pytest.raises(MessageTooLarge):
        run.simulator.command(0, publication.publish, document)


def test_a_peer_refuses_what_is_over_its_limit() -> None:
    run = start_run([], 3)
    owner = run.simulator.node(owners_in_a_row(ROBUST, 3, 1)[0])
    assert isinstance(owner, Peer)
    owner.settings = dataclasses.replace(ROBUST, message_bytes_max=256)
    document = message("wide", b"<a>" + b"<b/>" * 100 + b"</a>")
    publisher = next(peer for peer in run.peers if peer is not owner)
    run.simulator.command(publisher.address, publication.publish, document)
    run.simulator.run(until=100)
    assert delivered(run, RingFailure) == [RingFailure("expand start", f"a message of {document.size_bytes} bytes")]


def test_a_query_whose_peer_has_just_left_is_indexed_all_the_same() -> None:
    victims = owners_in_a_row(ROBUST, 10, 2)
    node = next(node for node in range(10) if node not in victims)
    trace = [
        TraceStep(100, "leave", victims[0]),
        TraceStep(100.5, "subscribe", node, ("s", Path.absolute(descendant("a")))),
        TraceStep(130, "crash", victims[1]),
        TraceStep(130.5, "subscribe", node, ("t", Path.absolute(child("a"), descendant("b")))),
    ]
    trace += publications(3, 800, [node])
    run = start_run(trace, 10)
    run.run(settle=800)
    assert check_notifications(run.simulator.journal, trace, matches) == []
    assert {notification.key for notification in delivered(run, Notification)} == {"s", "t"}


def test_withdrawn_queries_leave_no_states_behind() -> None:
    settings = ChordSettings(fragment_levels=1)
    peers = build_ring(settings, 9)
    simulator = Simulator()
    for peer in peers:
        simulator.add(peer)
    queries = random_queries(8, 60)
    for number, query in enumerate(queries):
        simulator.command(number % 9, indexing.subscribe, str(number), query)
    simulator.run()
    assert sum(len(peer.store) for peer in peers) > 60
    for number in range(60):
        simulator.command(number % 9, indexing.unsubscribe, str(number))
        simulator.command(number % 9, indexing.unsubscribe, str(number))
    simulator.run()
    assert {key for peer in peers for key in peer.store.states} == {"start"}
    assert all(peer.requests == {} for peer in peers)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (Path.relative(child("a")), "only absolute"),
        (Path.absolute(), "only absolute"),
        (Path.absolute(child("a", FunctionCall("last"))), "cannot be distributed"),
        (Path.absolute(child("a", FunctionCall("not", (nested(child("b")),)))), "cannot be distributed"),
        (Path.absolute(child("a", Path.absolute(child("b")))), "does not start at the context node"),
    ],
)
def test_queries_outside_the_subset_are_refused_by_name(query: Path, reason: str) -> None:
    run = start_run([], 2)
    with pytest.raises(UndistributableQuery, match=reason):
        run.simulator.command(0, indexing.subscribe, "k", query)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ChordSettings(bits=2),
        lambda: ChordSettings(replicas=9, successors=4),
        lambda: ChordSettings(fragment_levels=-1),
        lambda: ChordSettings(shed_share=1.0),
        lambda: ChordSettings(virtual_nodes=0),
        lambda: ChordSettings(message_bytes_max=10),
        lambda: build_ring(ChordSettings(), 0),
        lambda: NetworkFaults(latency_min=0),
        lambda: NetworkFaults(loss=1.0),
        lambda: TraceShape(nodes=0),
        lambda: TraceShape(nodes=2, joins=0, leaves=1, crashes=1),
        lambda: Simulator(nodes_per_host=0),
    ],
)
def test_impossible_settings_are_named(make: Any) -> None:
    with pytest.raises(ImpossibleSetting, match="must be"):
        make()


def test_unknown_steps_of_a_trace_are_named() -> None:
    run = start_run([TraceStep(1, "explode", 0)], 2)
    with pytest.raises(TraceError, match="explode"):
        run.run(settle=10)


def test_a_link_gives_up_after_its_attempts() -> None:
    link = LinkSettings(reliable=True, retry_delay=2.0, attempts_max=3)
    settings = dataclasses.replace(ROBUST, link=link)
    run = start_run([TraceStep(5, "crash", 1)], 3, settings)
    run.run(settle=400)
    assert check_ring(run.peers) == []


def test_reports_that_overtake_each_other_do_not_complete_a_publication() -> None:
    # A grandchild's report may come before its parent's: counting reports and announcements would be satisfied.
    run = start_run([], 1)
    peer = run.peers[0]
    document = message("tree", b"<a/>")
    progress = publication.PublicationProgress([document])
    root, child_a, child_b, grandchild = 11, 22, 33, 44
    progress.open = root
    peer.publications["tree"] = progress
    reports = {root: child_a ^ child_b, child_a: grandchild, child_b: 0, grandchild: 0}
    for ticket in (root, grandchild, child_b, child_b):
        publication.on_branched(peer, 0, Branched("tree", 0, ticket, reports[ticket]))
        assert "tree" in peer.publications
    publication.on_branched(peer, 0, Branched("tree", 0, child_a, reports[child_a]))
    assert "tree" not in peer.publications
