"""Workloads made on Spark, and experiments with a task per point."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from twigcast.lab.experiments.framework import registry, runner, store
from twigcast.lab.experiments.framework.model import Point
from twigcast.lab.experiments.framework.tasks import OnSpark
from twigcast.lab.experiments.miliaraki2008 import beyond
from twigcast.lab.workload import WorkloadExhaustedError, bundled_dtd, documents, path_queries
from twigcast.lab.workload.distributed import documents_on_spark, path_queries_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_documents_are_those_of_one_process(spark: "SparkSession") -> None:
    news = bundled_dtd("news")
    rows = documents_on_spark(spark, news, 11, 3, tasks=3).collect()
    created = {row["message_id"]: bytes(row["xml"]) for row in rows}
    assert created == {f"d{number}": document for number, document in enumerate(documents(news, 11, 3), 1)}


def test_queries_are_different_and_reproducible(spark: "SparkSession") -> None:
    news = bundled_dtd("news")
    first = [row["query"] for row in path_queries_on_spark(spark, news, 2_000, 5, tasks=2, depth=8).collect()]
    again = [row["query"] for row in path_queries_on_spark(spark, news, 2_000, 5, tasks=2, depth=8).collect()]
    assert len(first) == len(set(first)) == 2_000
    assert set(first) == set(again)
    parts = set(path_queries(news, 1_000, 10, depth=8)) | set(path_queries(news, 1_000, 11, depth=8))
    assert len(parts) < 2_000  # two parts hold equal queries, so that a second round was needed
    assert len(parts & set(first)) > len(parts) / 2  # what is too much in the end may come from any round


def test_queries_with_duplicates_are_those_of_the_parts(spark: "SparkSession") -> None:
    news = bundled_dtd("news")
    created = [row["query"] for row in path_queries_on_spark(spark, news, 101, 5, tasks=2, distinct=False).collect()]
    assert sorted(created) == sorted(
        path_queries(news, 51, 10, distinct=False) + path_queries(news, 50, 11, distinct=False)
    )


def test_too_many_different_queries_are_an_error(spark: "SparkSession") -> None:
    library = bundled_dtd("library")
    everything = set(path_queries(library, 10_000, 1, wildcard=0, descendant=0, complete=False))
    with pytest.raises(WorkloadExhaustedError) as raised:
        path_queries_on_spark(spark, library, 100, 1, tasks=2, wildcard=0, descendant=0)
    assert raised.value.produced == len(everything) == 8


def test_points_run_as_tasks(spark: "SparkSession", tmp_path: Path) -> None:
    experiment = registry.experiment_by_id("D-T1")
    (path,) = runner.run([experiment], "small", tmp_path, spark=spark, progress=lambda _line: None)
    assert store.load(path).results.measured == runner.run_here(experiment, "small").measured


def test_a_spread_point_is_measured_the_same_way_here_and_on_spark(spark: "SparkSession") -> None:
    sizes = {"makers": 3, "draws": 500, "steps": (1, 3), "groups": 2, "cut": 2, "hosts": 40, "documents": 2}
    tasks = OnSpark(spark)
    measured = beyond.measure_spread(Point("all", sizes), tasks)
    assert measured == beyond.measure(Point("all", sizes))
    assert {row.metric for row in measured} >= {"messages", "latency_steps", "states", "times_mean"}
    assert tasks.processor_seconds > 0


def test_a_spread_experiment_runs_whole_on_spark(spark: "SparkSession", tmp_path: Path) -> None:
    sizes = {"makers": 2, "draws": 300, "steps": (1, 2), "groups": 2, "cut": 2, "hosts": 40, "documents": 1}
    experiment = replace(registry.experiment_by_id("M-F5+"), sweep={"small": [Point("all", sizes)]})
    (path,) = runner.run([experiment], "small", tmp_path, spark=spark, progress=lambda _line: None)
    run = store.load(path)
    assert run.about["processor_seconds"] > 0
    assert [verdict.held for verdict in experiment.judge(run.results, "small")] == ["held", "held"]
