"""Thousands of random traces on small cooperative trees, judged by the checkers."""

from __future__ import annotations

import dataclasses

from tests.lab.overlays.codd.test_codd_properties import JITTER, LOSSY, make_trace
from tests.lab.overlays.many_seeds import Violations, failures, seeds, settled
from twigcast.lab.overlays.codd.measures import check_deliveries, check_tree
from twigcast.lab.overlays.codd.scenario import ROBUST, start_run
from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.simulator import NetworkFaults


def play(seed: int, faults: NetworkFaults, **settings: object) -> Violations:
    """A small tree whose nodes join, leave and crash while the stream runs; what the checkers find."""
    model, trace = make_trace(seed, joins=8, late=3, leaves=2, crashes=2, documents=80)
    pace = (0.4, 0.7, 1.0)[seed % 3]
    trace = [step._replace(time=step.time * pace) for step in trace]
    chosen = dataclasses.replace(
        ROBUST,
        fan_out=2 + seed // 3 % 3,
        reorganise_after=12,
        window=40,
        **settings,  # type: ignore[arg-type]
    )
    run = start_run(model, chosen, faults, seed, Journal())
    run.play(trace, settle=0)
    return settled(
        lambda: run.simulator.run(until=run.simulator.now + 75),
        lambda: [*check_deliveries(run.simulator.journal, trace, model), *check_tree(run)],
        20,
        whole=seed % 16 == 0,
    )


def play_moves(seed: int) -> Violations:
    """Latencies that differ."""
    return play(seed, JITTER)


def play_faults(seed: int) -> Violations:
    """Messages that are lost and doubled."""
    return play(seed, LOSSY)


def play_small_filters(seed: int) -> Violations:
    """Filters of at most three queries, wider than what is asked for."""
    return play(seed, JITTER, filter_max=3)


def test_churn_and_moves() -> None:
    assert failures(play_moves, seeds(1000, 100_000)) == {}


def test_churn_and_moves_with_loss_and_duplication() -> None:
    assert failures(play_faults, seeds(800, 200_000)) == {}


def test_small_filters() -> None:
    assert failures(play_small_filters, seeds(300, 300_000)) == {}
