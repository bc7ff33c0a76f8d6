"""The experiments of the overlays: what is common to them, and the quick ones whole."""

from __future__ import annotations

from twigcast.lab.experiments.codd.runs import interests, twig_queries, xml_workload
from twigcast.lab.experiments.commands import _select
from twigcast.lab.experiments.framework.model import Point, Results
from twigcast.lab.experiments.framework.registry import experiment_by_id
from twigcast.lab.experiments.framework.runner import run_here
from twigcast.lab.experiments.miliaraki2008.runs import make_queries
from twigcast.lab.experiments.onyx.runs import measure_generalised, measure_methods
from twigcast.overlay.codd.twigs import twig_matches, twig_of
from twigcast.overlay.documents import Document


def test_chord_and_codd_name_all_their_experiments() -> None:
    chord = {experiment.id for experiment in _select(["chord"])}
    codd = {experiment.id for experiment in _select(["codd"])}
    assert chord >= {"M-F3a", "M-F3b", "M-F4", "M-F5a", "M-F5b", "M-F5c", "M-F6", "M-F7a", "M-F7b", "M-F7c"}
    assert codd >= {f"C-F{number}" for number in range(9, 25)}
    onyx = {experiment.id for experiment in _select(["onyx"])}
    assert onyx == {
        "O-brokers",
        "O-queries",
        "O-locality",
        "O-churn",
        "O-budget",
        "O-relaxation",
        "O-transformation",
        "O-systems",
    }


def test_a_quick_experiment_of_each() -> None:
    for name in ("C-L1", "M-mix", "O-systems"):
        experiment = experiment_by_id(name)
        verdicts = experiment.judge(Results(run_here(experiment, "small").measured))
        assert [verdict.held for verdict in verdicts] == ["held"] * len(experiment.claims)


def test_ways_to_disseminate_are_measured_alike() -> None:
    setting = {"brokers": 12, "queries": 60, "publications": 20, "sources": 2}
    shown = {(row.series, row.metric): row.samples[0] for row in measure_methods(Point(12, setting))}
    least, ours, most = (shown[name, "messages"] for name in ("match early", "ONYX", "flooding"))
    assert 0 < least <= ours <= most == 11
    assert shown["ONYX", "wanted"] == shown["flooding", "wanted"] <= shown["ONYX", "reached"]
    assert shown["flooding", "reached"] == 100
    assert shown["ONYX", "hops"] == shown["match early", "hops"] >= 1
    narrow = measure_generalised(Point(8, {**setting, "boxes_max": 8}))
    wide = {row.metric: row.samples[0] for row in narrow}
    assert wide["table"] < shown["ONYX", "table"]
    assert wide["messages"] >= ours


def test_the_engine_answers_as_the_twigs_do() -> None:
    engine, queries, items = xml_workload("customers", 12, 8)
    for item in items:
        assert isinstance(item.content, Document)
        for path, query in zip(twig_queries("customers", 12, 2003), queries, strict=True):
            assert bool(engine.satisfied(item) & engine.mask([query])) == twig_matches(twig_of(path), item.content)


def test_queries_come_in_turn_from_every_dtd() -> None:
    queries = make_queries(("news", "auction"), 40, distinct=True)
    assert len(queries) == 40
    assert queries == make_queries(("news", "auction"), 40, distinct=True)


def test_equal_runs_are_shared() -> None:
    assert interests(20, 60) is interests(20, 60)
    assert interests(20, 60).mean >= 0
