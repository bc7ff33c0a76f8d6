"""Random traces on the ring: joins, leaves, crashes, loss, subscriptions, publications; the checkers judge.

A few larger networks; `test_chord_seeds` runs thousands of small ones.
"""

from __future__ import annotations

import dataclasses

import pytest

from tests.lab.overlays.many_seeds import seeds
from tests.overlay.overlay_population import matches, random_messages, random_queries
from twigcast.lab.overlays.checkers import check_conservation, check_copies, check_notifications, check_ring
from twigcast.lab.overlays.chord.scenario import ROBUST, ChordRun, start_run
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.lab.overlays.trace import TraceShape, TraceStep, random_trace
from twigcast.overlay.chord.messages import Notification, Published

SHAPE = TraceShape(duration=1000.0, joins=3, leaves=2, crashes=3, crashes_at_once=2, subscriptions=15, publications=10)


def run(seed: int, shape: TraceShape, faults: NetworkFaults, **settings: object) -> tuple[ChordRun, list[TraceStep]]:
    # Every message has its own name: a message that was published twice could not be told from a late one.
    trace = random_trace(seed, shape, random_queries(seed, 15), random_messages(seed, shape.publications))
    chosen = dataclasses.replace(ROBUST, **settings)  # type: ignore[arg-type]
    result = start_run(trace, shape.nodes, chosen, faults, seed)
    result.run(settle=1500)
    return result, trace


def assert_sound(result: ChordRun, trace: list[TraceStep]) -> None:
    assert check_notifications(result.simulator.journal, trace, matches) == []
    assert check_ring(result.peers) == []
    assert check_copies(result.peers, ROBUST.replicas) == []


@pytest.mark.parametrize("seed", seeds(4, 0))
def test_churn(seed: int) -> None:
    shape = dataclasses.replace(SHAPE, nodes=6 + seed % 9)
    result, trace = run(seed, shape, NetworkFaults(0.5, 1.5), fragment_levels=seed % 3)
    assert_sound(result, trace)


@pytest.mark.parametrize("seed", seeds(3, 5000))
def test_churn_with_loss_and_duplication(seed: int) -> None:
    shape = dataclasses.replace(SHAPE, nodes=6 + seed % 9)
    faults = NetworkFaults(0.2, 2.5, loss=0.03, duplication=0.03)
    result, trace = run(seed, shape, faults, fragment_levels=seed % 2)
    assert_sound(result, trace)


@pytest.mark.parametrize("seed", seeds(2, 10_000))
def test_shedding_and_small_messages_change_nothing(seed: int) -> None:
    shape = dataclasses.replace(SHAPE, nodes=6 + seed % 9, publications=20)
    result, trace = run(
        seed,
        shape,
        NetworkFaults(0.5, 1.5),
        shedding=True,
        shed_window=20,
        shed_replicas=3,
        message_bytes_max=700,
        ship_subtrees=True,
    )
    assert check_notifications(result.simulator.journal, trace, matches) == []
    assert check_ring(result.peers) == []


@pytest.mark.parametrize("seed", seeds(2, 20_000))
def test_rings_parted_by_a_partition_join_again(seed: int) -> None:
    shape = dataclasses.replace(SHAPE, joins=0, leaves=0, crashes=0, partitions=1, withdrawals=0)
    trace = random_trace(seed, shape, random_queries(seed, 15), random_messages(seed, 10))
    after = max(step.time for step in trace) + 1500
    delayed = [
        TraceStep(after + 20 * n, "publish", n % shape.nodes, m) for n, m in enumerate(random_messages(seed, 8, "late"))
    ]
    trace += delayed
    result = start_run(trace, shape.nodes, ROBUST, NetworkFaults(0.5, 1.5), seed)
    result.run(settle=1000)
    parted = [step.time for step in trace if step.what in ("partition", "heal")]
    assert check_ring(result.peers) == []
    violations = check_notifications(
        result.simulator.journal, trace, matches, settled=lambda time: time < parted[0] - 300 or time >= after
    )
    assert violations == []


@pytest.mark.parametrize("nodes", [1, 2, 3, 24])
@pytest.mark.parametrize("virtual_nodes", [1, 3])
@pytest.mark.parametrize("levels", [0, 2])
def test_calm_networks_of_all_sizes(nodes: int, virtual_nodes: int, levels: int) -> None:
    shape = TraceShape(
        nodes=nodes * virtual_nodes, duration=300, joins=0, leaves=0, crashes=0, subscriptions=30, publications=10
    )
    trace = random_trace(nodes, shape, random_queries(nodes, 30), random_messages(nodes, 10))
    settings = dataclasses.replace(
        ROBUST, virtual_nodes=virtual_nodes, fragment_levels=levels, meet_at_subscriber=False, cache_addresses=True
    )
    result = start_run(trace, nodes, settings, seed=nodes)
    result.run(settle=600)
    assert_sound(result, trace)
    assert sum(isinstance(entry.item, Published) for entry in result.simulator.journal.delivered()) == 10


def test_the_same_seed_gives_the_same_journal() -> None:
    shape = dataclasses.replace(SHAPE, duration=300)
    digests = set()
    for seed in (1, 1, 2):
        trace = random_trace(1, shape, random_queries(1, 15), random_messages(1, 10))
        result = start_run(trace, shape.nodes, ROBUST, NetworkFaults(0.5, 1.5, loss=0.02, duplication=0.02), seed)
        result.run(settle=300)
        digests.add(result.simulator.journal.digest())
        assert check_conservation(result.simulator.journal) == []
        assert any(isinstance(entry.item, Notification) for entry in result.simulator.journal.delivered())
    assert len(digests) == 2
