"""Thousands of random traces on small rings, judged by the checkers; `test_chord_properties` has larger ones.

A failing seed is named in the assertion; `play_churn(seed)` and its like replay it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from tests.lab.overlays.many_seeds import Violations, failures, seeds, settled
from tests.overlay.overlay_population import matches, random_messages, random_queries
from twigcast.lab.overlays.checkers import check_copies, check_notifications, check_ring
from twigcast.lab.overlays.chord.scenario import ROBUST, ChordRun, start_run
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.lab.overlays.trace import TraceShape, TraceStep, random_trace

JITTER = NetworkFaults(0.5, 1.5)
LOSSY = NetworkFaults(0.2, 2.5, loss=0.03, duplication=0.03)
SHAPE = TraceShape(
    duration=250.0,
    joins=2,
    leaves=1,
    crashes=2,
    crashes_at_once=2,
    calm=120.0,
    subscriptions=8,
    withdrawals=2,
    publications=6,
)
HARSH = NetworkFaults(0.2, 2.5, loss=0.15, duplication=0.1)
RETURNING = dataclasses.replace(
    SHAPE, duration=400.0, crashes=1, restarts=3, crashes_at_once=1, reuse=0.4, publications=8
)
ROUND = 50.0
ROUNDS = 8


def run(
    seed: int, faults: NetworkFaults, shape: TraceShape = SHAPE, **settings: object
) -> tuple[ChordRun, list[TraceStep]]:
    """One small ring after its trace; every message has its own name."""
    chosen = dataclasses.replace(shape, nodes=4 + seed % 5)
    queries, messages = random_queries(seed, shape.subscriptions), random_messages(seed, shape.publications)
    trace = random_trace(seed, chosen, queries, messages)
    if chosen.partitions:
        trace += after_partitions(seed, trace, chosen.nodes)
    result = start_run(trace, chosen.nodes, dataclasses.replace(ROBUST, **settings), faults, seed)  # type: ignore[arg-type]
    result.run(settle=0)
    return result, trace


def after_partitions(seed: int, trace: list[TraceStep], nodes: int) -> list[TraceStep]:
    """Publications long after a trace with partitions, when everybody has to get them."""
    live = set(range(nodes))
    for step in trace:
        if step.what == "join":
            live.add(step.node)
        elif step.what in ("crash", "leave"):
            live.discard(step.node)
    start = max(step.time for step in trace) + 900
    return [
        TraceStep(start + 20 * number, "publish", sorted(live)[number % len(live)], document)
        for number, document in enumerate(random_messages(seed, 4, "late"))
    ]


def is_judged(trace: list[TraceStep]) -> Callable[[float], bool]:
    """Whether what is published at a time has to reach everybody: not shortly before a partition, nor soon after."""
    cuts = [step.time for step in trace if step.what == "partition"]
    late = [step.time for step in trace if step.what == "publish" and step.argument.name.startswith("late")]
    return lambda time: not cuts or time < cuts[0] - 150 or time >= late[0]


def judged(result: ChordRun, trace: list[TraceStep], rounds: int, whole: bool) -> Violations:
    """What all checkers find in the end. An edge may be pruned just when the trace ends, and its states one by one."""
    return settled(
        lambda: result.simulator.run(until=result.simulator.now + ROUND),
        lambda: [
            *check_copies(result.peers, ROBUST.replicas),
            *check_notifications(result.simulator.journal, trace, matches, is_judged(trace)),
            *check_ring(result.peers),
        ],
        rounds,
        whole=whole,
    )


def play_churn(seed: int) -> Violations:
    """Joins, leaves and crashes while subscriptions and messages come."""
    return judged(*run(seed, JITTER, fragment_levels=seed % 3), ROUNDS, seed % 16 == 0)


def play_faults(seed: int) -> Violations:
    """The same on a network that loses and doubles messages."""
    return judged(*run(seed, LOSSY, fragment_levels=seed % 2), 2 * ROUNDS, seed % 16 == 0)


def play_returns(seed: int) -> Violations:
    """Nodes return at their own address, often before the others give them up; keys and messages are used again.

    The network may be cut in two meanwhile.
    """
    shape = dataclasses.replace(RETURNING, partitions=seed % 2)
    return judged(*run(seed, JITTER, shape, fragment_levels=seed % 3), 4 * ROUNDS, seed % 16 == 0)


def play_returns_and_faults(seed: int) -> Violations:
    """The same without partitions, on a network that loses 15 % of the messages, and doubles 10 %."""
    settings = {"meet_at_subscriber": seed % 4 > 0, "bundle": seed % 3 > 0, "fragment_levels": seed % 2}
    return judged(*run(seed, HARSH, RETURNING, **settings), 4 * ROUNDS, seed % 16 == 0)


def play_returns_and_partitions(seed: int) -> Violations:
    """All of it: nodes return, the network is cut in two for a while, loses 15 % of the messages, and doubles 10 %."""
    shape = dataclasses.replace(RETURNING, partitions=1)
    meeting = {"meet_at_subscriber": seed % 4 > 0}
    return judged(*run(seed, HARSH, shape, fragment_levels=seed % 2, **meeting), 4 * ROUNDS, seed % 16 == 0)


def play_shedding(seed: int) -> Violations:
    """The same with copies of hot states, and messages cut into fragments."""
    shape = dataclasses.replace(SHAPE, publications=12)
    result = run(
        seed,
        JITTER,
        shape,
        shedding=True,
        shed_window=20,
        shed_replicas=3,
        message_bytes_max=700,
        ship_subtrees=True,
    )
    return judged(*result, ROUNDS, seed % 16 == 0)


def play_partition(seed: int) -> Violations:
    """A partition makes two rings; after it there is one, and it serves everybody."""
    shape = dataclasses.replace(SHAPE, joins=0, leaves=0, crashes=0, partitions=1, withdrawals=0)
    return judged(*run(seed, JITTER, shape), 2 * ROUNDS, seed % 16 == 0)


@pytest.mark.parametrize(
    ("play", "seed"),
    [
        # Requests to join were kept, and granted to nodes that were dead by then.
        (play_churn, 100_055),
        (play_churn, 100_131),
        # A node was welcomed as the neighbour of the former life of one that wanted to join through it.
        (play_returns, 500_023),
        # A restarted node asked one that had left, then a ring that was long in mending, and gave up.
        (play_returns, 500_043),
        # The last look at a network that had been sound for long came while an edge was being pruned.
        (play_returns_and_faults, 610_112),
        # After a partition, those who knew the other ring were not those between whom it belonged.
        (play_returns_and_partitions, 23),
        (play_returns_and_partitions, 59),
        # The welcome of a new node was lost in a partition: others kept it, and its requests to join came back to it.
        (play_returns_and_partitions, 159),
        (play_returns_and_partitions, 182),
        # A node that started again during a partition gave up joining, and its application did not ask again.
        (play_returns_and_partitions, 111),
    ],
)
def test_seeds_that_failed_once(play: Callable[[int], Violations], seed: int) -> None:
    assert play(seed) == []


def test_churn() -> None:
    assert failures(play_churn, seeds(600, 100_000)) == {}


def test_churn_with_loss_and_duplication() -> None:
    assert failures(play_faults, seeds(400, 200_000)) == {}


def test_nodes_return() -> None:
    assert failures(play_returns, seeds(60, 500_000)) == {}


def test_nodes_return_on_a_harsh_network() -> None:
    assert failures(play_returns_and_faults, seeds(60, 600_000)) == {}


def test_nodes_return_on_a_harsh_network_that_is_cut_in_two() -> None:
    assert failures(play_returns_and_partitions, seeds(60, 700_000)) == {}


def test_shedding_and_small_messages() -> None:
    assert failures(play_shedding, seeds(300, 300_000)) == {}


def test_partitions() -> None:
    assert failures(play_partition, seeds(100, 400_000)) == {}
