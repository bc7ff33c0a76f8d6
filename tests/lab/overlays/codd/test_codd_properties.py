"""Random traces on the cooperative tree: joins, leaves, crashes, moves, loss; the checkers judge.

A few larger networks; `test_codd_seeds` runs thousands of small ones.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pytest

from tests.lab.overlays.many_seeds import seeds
from twigcast.lab.overlays.codd.interest import InterestModel, InterestShape
from twigcast.lab.overlays.codd.measures import check_deliveries, check_tree
from twigcast.lab.overlays.codd.scenario import ROBUST, CoddRun, start_run
from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.lab.overlays.trace import TraceStep
from twigcast.overlay.codd.engine import Item, Query

JITTER = NetworkFaults(0.5, 1.5)
LOSSY = NetworkFaults(0.2, 2.5, loss=0.03, duplication=0.03)


def make_trace(
    seed: int,
    joins: int = 14,
    late: int = 6,
    leaves: int = 4,
    crashes: int = 4,
    documents: int = 150,
    returns: int = 0,
) -> tuple[InterestModel, list[TraceStep]]:
    """Nodes join through random seeds, some leave and some crash while the stream runs, some of which return.

    They return at their own address, mostly before the others give them up, and some with another query.
    """
    generator = random.Random(seed)
    model = InterestModel(InterestShape(joins + late + 1, classes=6, change_every=40), seed)
    steps: list[TraceStep] = []
    live: list[int] = []
    for address in range(1, joins + 1):
        seeds = (generator.choice([0, 0, 0, *live]),)
        steps.append(TraceStep(generator.uniform(0, 300), "join", address, (address, seeds)))
        live.append(address)
    steps.extend(
        TraceStep(generator.uniform(300, 1500), "join", address, (address, (0, generator.choice(live))))
        for address in range(joins + 1, joins + late + 1)
    )
    going = generator.sample(live, leaves + crashes + returns)
    for number, address in enumerate(going):
        time = generator.uniform(500, 1500)
        steps.append(TraceStep(time, "leave" if number < leaves else "crash", address))
        while number >= leaves + crashes and generator.random() < 0.7:
            time += generator.choice((0.1, 5, 60)) * generator.random()
            query = address if generator.random() < 0.6 else generator.choice(live)
            steps.append(TraceStep(time, "join", address, (query, (0, generator.choice(live)))))
            if generator.random() < 0.5:
                break
            time += generator.uniform(1, 200)
            steps.append(TraceStep(time, "crash", address))
    steps.extend(TraceStep(300 + item.number * 10.0, "publish", 0, item) for item in model.items(documents))
    return model, sorted(steps, key=lambda step: step.time)


def play(seed: int, faults: NetworkFaults, **settings: object) -> tuple[CoddRun, InterestModel, list[TraceStep]]:
    model, trace = make_trace(seed)
    chosen = dataclasses.replace(
        ROBUST,
        fan_out=2 + seed % 4,
        reorganise_after=15,
        window=60,
        **settings,  # type: ignore[arg-type]
    )
    run = start_run(model, chosen, faults, seed, Journal())
    run.play(trace, settle=2500)
    return run, model, trace


def in_model(model: InterestModel) -> Callable[[Query, Item], bool]:
    """The oracle of the abstract model: the interests that a document itself names."""
    return lambda query, item: bool(model.satisfied(item) & model.mask([query]))


def assert_sound(run: CoddRun, model: InterestModel, trace: list[TraceStep]) -> None:
    assert check_deliveries(run.simulator.journal, trace, in_model(model)) == []
    assert check_tree(run) == []


@pytest.mark.parametrize("seed", seeds(12, 0))
def test_churn_and_moves(seed: int) -> None:
    run, model, trace = play(seed, JITTER)
    assert_sound(run, model, trace)


@pytest.mark.parametrize("seed", seeds(10, 5000))
def test_churn_and_moves_with_loss_and_duplication(seed: int) -> None:
    run, model, trace = play(seed, LOSSY)
    assert_sound(run, model, trace)


@pytest.mark.parametrize("seed", seeds(4, 9000))
def test_small_filters_are_wider_but_lose_nothing(seed: int) -> None:
    run, model, trace = play(seed, JITTER, filter_max=3)
    assert_sound(run, model, trace)
    assert all(len(node.filter.announced) <= 3 for node in run.nodes)


def test_moves_happen_in_these_traces() -> None:
    runs = [play(seed, JITTER)[0] for seed in range(5)]
    assert sum(move.moved for run in runs for _, move in run.moves) > 10


def test_the_same_seed_gives_the_same_journal() -> None:
    digests = {play(3, LOSSY)[0].simulator.journal.digest() for _ in range(2)}
    assert len(digests) == 1


def test_a_checker_sees_documents_lost_without_heartbeats() -> None:
    # Without heartbeats nobody notices a dead parent.
    model, trace = make_trace(6)
    run = start_run(model, dataclasses.replace(ROBUST, heartbeat=0, fan_out=2), JITTER, 6, Journal())
    run.play(trace, settle=1000)
    assert {violation.rule for violation in check_deliveries(run.simulator.journal, trace, in_model(model))} >= {"lost"}
