"""Figure 7.7 on a small population: its claims hold, and its numbers are those of single queries."""

from __future__ import annotations

from twigcast.lab.experiments.diao2005 import figure_7_07
from twigcast.lab.experiments.diao2005.figure_7_07 import ADMITTED, EXPERIMENTS, PEP, RANDOM, SHARE, measure
from twigcast.lab.experiments.framework.model import Point, Results


def test_the_claims_hold_on_a_small_population() -> None:
    (experiment,) = EXPERIMENTS
    parameters = {"queries": 4_000, "partitions": 20, "values": 20, "messages": 15, "seed": 3}
    points = [Point(float(repeats), {**parameters, "repeats": repeats}) for repeats in (1, 2, 5)]
    results = Results([row for point in points for row in measure(point)])
    verdicts = experiment.judge(results)
    assert len(verdicts) == 5
    assert [verdict for verdict in verdicts if verdict.held != "held"] == []


def test_shares_count_partitions_with_a_matching_query() -> None:
    parameters = {"queries": 60, "partitions": 4, "values": 4, "messages": 1, "seed": 5, "repeats": 1}
    results = Results(measure(Point(1.0, parameters)))
    population = figure_7_07._population(60, 4, 4, 5)
    share = {series: results.value(series, 1.0, SHARE) for series in (RANDOM, PEP, ADMITTED)}
    assert share[PEP] <= share[ADMITTED]
    assert all(value % 25 == 0 for value in share.values())
    matched = results.value(RANDOM, 1.0, "matched_queries")
    assert (matched == 0) == (share[RANDOM] == 0)
    assert len(population.subscriptions) == 60
