"""Subscriptions of one key after the other, messages of one name, and when a publication is done."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from tests.overlay.overlay_population import matches, message, random_messages, random_queries
from twigcast.lab.overlays.checkers import check_notifications
from twigcast.lab.overlays.chord.scenario import ROBUST, ChordRun, start_run
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.lab.overlays.trace import TraceStep
from twigcast.overlay.chord import indexing, iterative, publication
from twigcast.overlay.chord.messages import Notification, Published, RecExpand, Subscribed
from twigcast.overlay.chord.peer import REMEMBERED_PUBLICATIONS
from twigcast.overlay.chord.states import PartClaim, Registration, State, SubscriptionRef
from twigcast.overlay.core import Address
from twigcast.query import Path, child, descendant, nested

A, B = Path.absolute(child("a")), Path.absolute(child("a"), child("b"))
BRANCHING = Path.absolute(child("a", nested(child("c"))), child("b"))
MESSAGES = {name: message(f"sub {name}", f"<a>{inner}</a>".encode()) for name, inner in
            (("empty", ""), ("b", "<b/>"), ("both", "<b/><c/>"))}  # fmt: skip


def told(run: ChordRun, kind: type, node: Address | None = None) -> list[Any]:
    return [
        entry.item
        for entry in run.simulator.journal.delivered()
        if isinstance(entry.item, kind) and node in (None, entry.receiver)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_subscription_made_again_at_the_instant_of_its_withdrawal_stays(seed: int) -> None:
    # By the clock, both were equally old: in half of the runs nothing came any more.
    trace = [
        TraceStep(1, "subscribe", 1, ("k", A)),
        TraceStep(100, "unsubscribe", 1, "k"),
        TraceStep(100, "subscribe", 1, ("k", A)),
        TraceStep(300, "publish", 3, MESSAGES["empty"]),
    ]
    run = start_run(trace, 6, ROBUST, NetworkFaults(0.2, 4.0), seed)
    run.run(settle=200)
    assert [item.key for item in told(run, Notification, 1)] == ["k"]
    assert check_notifications(run.simulator.journal, trace, matches) == []


@pytest.mark.parametrize("first", [A, B, BRANCHING])
@pytest.mark.parametrize("second", [A, B, BRANCHING])
def test_a_query_replaces_the_one_before_it(first: Path, second: Path) -> None:
    trace = [TraceStep(1, "subscribe", 1, ("k", first)), TraceStep(100, "subscribe", 1, ("k", second))]
    trace += [TraceStep(300 + n, "publish", 2 + n, document) for n, document in enumerate(MESSAGES.values())]
    run = start_run(trace, 6)
    run.run(settle=2_000)
    assert check_notifications(run.simulator.journal, trace, matches) == []
    wanted = [document.name for document in MESSAGES.values() if matches(second, document)]
    assert sorted(item.name for item in told(run, Notification)) == sorted(wanted)
    peer = run.peers[1]
    assert len(peer.requests) == 1
    assert [item.present for item in told(run, Subscribed)] == [True, True]
    # What only the first query needed is gone from all peers.
    run.simulator.command(1, indexing.unsubscribe, "k")
    run.simulator.run(until=run.simulator.now + 3_000)
    claims = [
        registration.present
        for peer in run.peers
        for state in peer.store.states.values()
        for group in (state.accepted or {}).values()
        for registration in group.values()
    ]
    assert not any(claims)


def test_the_claims_of_a_former_life_are_withdrawn() -> None:
    trace = [
        TraceStep(1, "subscribe", 1, ("k", B)),
        TraceStep(100, "crash", 1),
        TraceStep(101, "join", 1, (0, 2)),
        TraceStep(200, "subscribe", 1, ("k", A)),
        *(TraceStep(400 + 50 * n, "publish", 3, document) for n, document in enumerate(MESSAGES.values())),
    ]
    run = start_run(trace, 6)
    run.run(settle=1_000)
    assert check_notifications(run.simulator.journal, trace, matches) == []
    live = {
        claim.subscription
        for peer in run.peers
        for state in peer.store.states.values()
        if state.key == "start/a/b"
        for group in (state.accepted or {}).values()
        for claim, registration in group.items()
        if registration.present
    }
    assert live == set()


def test_states_that_are_merged_in_any_order_are_the_same() -> None:
    claim = PartClaim(SubscriptionRef(1, "k"))
    # Two peers have noticed, each for itself, that the subscriber has started again.
    notes = [Registration(5, True, 10.0), Registration(6, False, 200.0), Registration(6, False, 230.0)]
    records = set()
    for order in itertools.permutations(notes):
        merged = State("start/a")
        for note in order:
            one = State("start/a")
            one.register((), claim, note)
            merged.merge(one.record())
        records.add(merged.record())
    assert len(records) == 1


def test_bundled_branches_reach_the_same_subscribers_in_fewer_messages() -> None:
    queries = random_queries(12, 25)
    documents = [*random_messages(12, 12), message("sub wide", b"<a>" + b"<b><c x='1'/></b>" * 100 + b"</a>")]
    heard, messages = [], []
    for bundle in (False, True):
        settings = dataclasses.replace(ROBUST, bundle=bundle, maintain=False, fragment_levels=1)
        run = start_run([TraceStep(n, "subscribe", n % 5, (f"s{n}", query)) for n, query in enumerate(queries)], 5,
                        settings)  # fmt: skip
        run.run(settle=500)
        for number, document in enumerate(documents):
            run.simulator.command(number % 5, publication.publish, document)
        run.simulator.run(until=run.simulator.now + 400)
        assert {item.name for item in told(run, Published)} == {document.name for document in documents}
        heard.append(sorted((item.key, item.name) for item in told(run, Notification)))
        messages.append(run.simulator.counters.messages[RecExpand])
    wanted = [(f"s{n}", d.name) for n, query in enumerate(queries) for d in documents if matches(query, d)]
    assert heard == [sorted(wanted)] * 2
    assert messages[1] < messages[0] / 4


def test_messages_of_one_name_are_known_by_their_publishers() -> None:
    document = MESSAGES["empty"]
    trace = [TraceStep(1, "subscribe", 1, ("k", A))]
    trace += [TraceStep(100 + n, "publish", n % 3 + 2, document) for n in range(9)]
    run = start_run(trace, 6)
    run.run(settle=300)
    assert sorted(item.publisher for item in told(run, Notification)) == [2, 3, 4]
    assert check_notifications(run.simulator.journal, trace, matches) == []


def test_repeats_are_dropped_among_the_messages_that_are_remembered() -> None:
    run = start_run([TraceStep(1, "subscribe", 1, ("k", A))], 3)
    run.run(settle=100)
    documents = [message(f"remembered {n}", b"<a/>") for n in range(REMEMBERED_PUBLICATIONS + 1)]

    def publish(some: list[Any]) -> int:
        before = len(told(run, Notification))
        for document in some:
            run.simulator.command(2, publication.publish, document)
            run.simulator.run(until=run.simulator.now + 20)
        return len(told(run, Notification)) - before

    assert publish(documents[:-1]) == REMEMBERED_PUBLICATIONS
    # Each of them is dropped when it is published again, in any order: a repeat is remembered as the latest.
    assert publish([*documents[:3], documents[-2], documents[100]]) == 0
    # With one more, the one that was heard of longest ago is forgotten.
    assert publish([documents[-1]]) == 1
    assert publish([documents[0], documents[100]]) == 0
    assert publish([documents[3]]) == 1


@pytest.mark.parametrize("publish", [publication.publish, iterative.publish_iteratively])
@pytest.mark.parametrize("query", [A, Path.absolute(descendant("a", nested(child("c"))), child("b"))])
def test_a_publication_is_done_when_its_notifications_have_arrived_or_failed(publish: Any, query: Path) -> None:
    run = start_run([TraceStep(1, "subscribe", node, ("k", query)) for node in (1, 4)], 6)
    run.run(settle=200)
    simulator = run.simulator
    simulator.command(2, publish, MESSAGES["both"])
    simulator.run(until=simulator.now + 40)
    assert told(run, Published) == [Published("sub both", 1)]
    assert {entry.receiver for entry in simulator.journal.delivered() if isinstance(entry.item, Notification)} == {1, 4}
    simulator.remove(4)
    simulator.command(2, publish, message("sub second", b"<a><b/><c/></a>"))
    simulator.run(until=simulator.now + 20)
    assert len(told(run, Published)) == 1, "a notification is under way"
    simulator.run(until=simulator.now + 600)
    done = told(run, Published)[-1]
    assert done.failed == (SubscriptionRef(4, "k"),)
