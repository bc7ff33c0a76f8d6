"""Thousands of random traces on small cooperative trees, judged by the checkers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tests.lab.overlays.codd.test_codd_properties import JITTER, LOSSY, in_model, make_trace
from tests.lab.overlays.many_seeds import Violations, failures, seeds, settled
from tests.overlay.overlay_population import matches, random_messages, random_queries
from twigcast.lab.overlays.codd.measures import check_deliveries, check_tree
from twigcast.lab.overlays.codd.scenario import ROBUST, CoddRun, start_run
from twigcast.lab.overlays.journal import Journal
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.lab.overlays.trace import TraceStep
from twigcast.overlay.codd.engine import Item, Query
from twigcast.overlay.codd.twig_engine import TwigEngine
from twigcast.overlay.codd.twigs import Twig, twig_of
from twigcast.overlay.documents import Document
from twigcast.query import Path

HARSH = NetworkFaults(0.2, 2.5, loss=0.15, duplication=0.1)


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
        lambda: [*check_deliveries(run.simulator.journal, trace, in_model(model)), *check_tree(run)],
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


def run_twigs(seed: int, faults: NetworkFaults) -> tuple[CoddRun, list[TraceStep], dict[Twig, Path]]:
    """A tree of nodes with twig queries on real documents, after its trace; the twigs lead to the queries as written.

    Nodes return at their own address, and the network may be cut for a while.
    """
    _, trace = make_trace(seed, joins=8, late=2, leaves=1, crashes=1, documents=60, returns=4)
    queries = random_queries(seed, 30)
    documents = random_messages(seed, 60)
    trace = [_with_twigs(step, queries, documents) for step in trace]
    if seed % 3 == 0:
        cut = 400.0 + seed % 97
        trace += [TraceStep(cut, "partition", -1, range(1, 1 + seed % 7)), TraceStep(cut + 150, "heal", -1)]
        trace.sort(key=lambda step: step.time)
    chosen = dataclasses.replace(ROBUST, fan_out=2 + seed // 3 % 3, reorganise_after=12, window=40)
    run = start_run(TwigEngine(), chosen, faults, seed, Journal())
    run.play(trace, settle=0)
    return run, trace, {twig_of(query): query for query in queries}


def play_returns(seed: int, faults: NetworkFaults = JITTER) -> Violations:
    """The same after it has settled; libxml2 says which documents a node wants."""
    run, trace, paths = run_twigs(seed, faults)

    def wants(query: Query, item: Item) -> bool:
        assert isinstance(query, Twig)
        return matches(paths[query], item.content)

    return settled(
        lambda: run.simulator.run(until=run.simulator.now + 75),
        lambda: [
            *check_deliveries(run.simulator.journal, trace, wants),
            *check_tree(run),
        ],
        40,
        whole=seed % 16 == 0,
    )


def _with_twigs(step: TraceStep, queries: Sequence[Path], documents: Sequence[Document]) -> TraceStep:
    if step.what == "join":
        number, seeds = step.argument
        return step._replace(argument=(twig_of(queries[number % len(queries)]), seeds))
    if step.what == "publish":
        number = step.argument.number
        return step._replace(argument=Item(number, documents[number % len(documents)], 100))
    return step


def play_returns_and_faults(seed: int) -> Violations:
    """The same on a network that loses 15 % of the messages, and doubles 10 %."""
    return play_returns(seed, HARSH)


def test_nodes_return() -> None:
    assert failures(play_returns, seeds(60, 500_000)) == {}


def test_nodes_return_on_a_harsh_network() -> None:
    assert failures(play_returns_and_faults, seeds(60, 600_000)) == {}


def test_churn_and_moves() -> None:
    assert failures(play_moves, seeds(1000, 100_000)) == {}


def test_churn_and_moves_with_loss_and_duplication() -> None:
    assert failures(play_faults, seeds(800, 200_000)) == {}


def test_small_filters() -> None:
    assert failures(play_small_filters, seeds(300, 300_000)) == {}
