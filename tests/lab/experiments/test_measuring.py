"""Measurements: results are right or refused, counters come along, two figures run whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from twigcast.lab.experiments.diao2005.filtering import FALSE, LOST, WrongResultError, measure_filters
from twigcast.lab.experiments.diao2005.rewriting import build as build_rewriting
from twigcast.lab.experiments.diao2005.rewriting import contenders, graph_of, measure_plans
from twigcast.lab.experiments.framework import registry, runner, store
from twigcast.lab.experiments.framework.matchers import (
    BFILTER_PUBLISHED,
    ENGINE,
    HYBRID,
    INLINE,
    XFILTER,
    YFILTER,
    Contender,
    ReferenceMatcher,
    parse_path,
    selectivity_of,
    sorting_yfilter,
)
from twigcast.lab.experiments.framework.model import MQPT, TOTAL, Point, Results
from twigcast.lab.experiments.framework.workloads import SEED, build, preset_of, schema_of
from twigcast.lab.reference import YFilter, path_query
from twigcast.lab.transform import Optimization, PlanSharing
from twigcast.lab.workload import bundled_dtd, path_queries
from twigcast.query import parse

SMALL = {"dtd": "news", "depth": 6, "queries": 150, "documents": 2}


@pytest.mark.parametrize(("predicates", "nested"), [(0, 0), (2, 0), (0, 2), (1, 1)])
def test_generated_paths_read_as_the_engine_reads_them(predicates: int, nested: int) -> None:
    for text in path_queries(
        bundled_dtd("news"), 200, predicates=predicates, nested=nested, operators=("=", "<", "!=")
    ):
        expected = path_query(parse(text))
        result = parse_path(text)
        assert str(result) == str(expected)


def test_measuring_filters() -> None:
    queries, documents = build({**SMALL, "predicates": 1})
    rows = Results(measure_filters(5, (YFILTER, HYBRID, XFILTER, INLINE), queries, documents, repetitions=3))
    assert set(rows.series()) == {"YFilter", "Hybrid", "XFilter (List Balance)", "Inline", ENGINE}
    matched = {rows.value(series, 5, "matched") for series in rows.series()}
    assert len(matched) == 1
    for series in rows.series():
        assert len(rows.samples(series, 5, MQPT)) == 3
        assert rows.value(series, 5, TOTAL) >= rows.value(series, 5, MQPT)
    assert rows.value("YFilter", 5, "transitions") > 0


def test_inexact_procedures_are_counted() -> None:
    queries, documents = build({**SMALL, "nested": 2, "queries": 300})
    rows = Results(measure_filters(1, (YFILTER, BFILTER_PUBLISHED), queries, documents, repetitions=1))
    assert rows.value(BFILTER_PUBLISHED.name, 1, LOST) >= 0
    assert rows.samples(BFILTER_PUBLISHED.name, 1, FALSE)


class Forgetful(ReferenceMatcher):
    """Forgets one match."""

    def match(self, number: int) -> set[str]:
        results = super().match(number)
        return set(sorted(results)[1:])


class Eager(ReferenceMatcher):
    """Stores only half of the queries, and says that it found the others."""

    def __init__(self, algorithm: YFilter) -> None:
        super().__init__(algorithm)
        self.invented: set[str] = set()

    def add_all(self, queries: Mapping[str, str]) -> None:
        self.invented = set(queries)

    def match(self, number: int) -> set[str]:
        return self.invented


@pytest.mark.parametrize("wrong", [Forgetful, Eager])
@pytest.mark.parametrize("first", [True, False])
def test_wrong_results_are_never_timed(wrong: type[ReferenceMatcher], first: bool) -> None:
    contender = Contender("wrong", lambda: wrong(YFilter()))
    order: Sequence[Contender] = (contender,) if first else (YFILTER, contender)
    queries, documents = build(SMALL)
    with pytest.raises(WrongResultError):
        measure_filters(1, order, queries, documents, repetitions=1, engine=False)


def test_sorting_never_costs_evaluations() -> None:
    parameters = {**SMALL, "predicates": 5}
    domains = preset_of(parameters).domains(schema_of("news"), SEED)
    contenders_ = (YFILTER, sorting_yfilter("sorted", domains))
    rows = Results(measure_filters(1, contenders_, *build(parameters), repetitions=1))
    assert rows.value("sorted", 1, "predicate_evaluations") <= rows.value("YFilter", 1, "predicate_evaluations")
    step = parse_path("/dispatch[@edition=1]").steps[0]
    assert 0 < selectivity_of(domains)(step, 0) <= 1


def test_measuring_plans() -> None:
    parameters = {"dtd": "manual", "binding_depth": 3, "queries": 60, "documents": 2}
    queries, messages = build_rewriting(parameters)
    chosen = contenders(Optimization.QUERY_AND_DTD, graph_of(parameters))
    rows = Results(measure_plans(1, {**chosen, "PlanSharing": PlanSharing}, queries, messages, repetitions=2))
    for series in (*chosen, "PlanSharing"):
        assert rows.value(series, 1, MQPT) > 0
        assert rows.value(series, 1, "ms: matcher") > 0


def test_wrong_plans_are_never_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = {"dtd": "library", "binding_depth": 2, "queries": 40, "documents": 2}
    queries, messages = build_rewriting(parameters)
    chosen = contenders(Optimization.NONE, graph_of(parameters))
    monkeypatch.setattr("twigcast.lab.transform.operators.hash_semijoin", lambda left, _right, _field: left)
    with pytest.raises(WrongResultError):
        measure_plans(1, chosen, queries, messages, repetitions=1)


@pytest.mark.parametrize("name", ["B-F4.1", "D-T9"])
def test_figures_run_whole(name: str, tmp_path: Path) -> None:
    experiment = registry.experiment_by_id(name)
    (path,) = runner.run([experiment], "small", tmp_path, progress=lambda _line: None)
    verdicts = experiment.judge(store.load(path).results)
    assert all(verdict.seen for verdict in verdicts)
    if name == "D-T9":  # counts of operators depend on nothing but the seed
        assert {verdict.held for verdict in verdicts} == {"held"}


@pytest.mark.parametrize(
    "experiment",
    # The overlays' experiments measure many points at once, and have tests of their own.
    [e for e in registry.experiments() if e.id.startswith(("B-", "D-")) and e.id not in ("D-T1", "B-F4.1", "D-T9")],
    ids=lambda experiment: experiment.id,
)
def test_every_experiment_measures_its_smallest_point(experiment: object) -> None:
    chosen = registry.experiment_by_id(experiment.id)  # type: ignore[attr-defined]
    point = chosen.sweep["small"][0]
    few = {"queries": 30, "existing": 200, "documents": 1, "repetitions": 2}
    parameters = {**point.parameters, **{k: v for k, v in few.items() if k in point.parameters}}
    measured = chosen.measure(replace(point, parameters=parameters) if parameters else Point(point.x, {}))
    assert {row.x for row in measured} <= {point.x, ""}
    assert all(len(row.samples) >= 1 for row in measured)
