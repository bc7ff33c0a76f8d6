"""Workloads made on Spark, and experiments with a task per point."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from twigcast.experiments import registry, runner, store
from twigcast.workload import bundled_dtd, documents, path_queries
from twigcast.workload.distributed import documents_on_spark, path_queries_on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_documents_are_those_of_one_process(spark: "SparkSession") -> None:
    news = bundled_dtd("news")
    rows = documents_on_spark(spark, news, 11, 3, tasks=3).collect()
    made = {row["message_id"]: bytes(row["xml"]) for row in rows}
    assert made == {f"d{number}": document for number, document in enumerate(documents(news, 11, 3), 1)}


def test_queries_are_different_and_reproducible(spark: "SparkSession") -> None:
    news = bundled_dtd("news")
    first = {row["query"] for row in path_queries_on_spark(spark, news, 2_000, 5, tasks=2).collect()}
    again = {row["query"] for row in path_queries_on_spark(spark, news, 2_000, 5, tasks=2).collect()}
    assert first == again
    assert 1_500 < len(first) <= 2_000
    assert first == set(path_queries(news, 1_000, 10, depth=8)) | set(path_queries(news, 1_000, 11, depth=8))


def test_points_run_as_tasks(spark: "SparkSession", tmp_path: Path) -> None:
    experiment = registry.experiment_by_id("D-T1")
    (path,) = runner.run([experiment], "small", tmp_path, spark=spark, progress=lambda _line: None)
    assert store.load(path).results.measured == runner.run_here(experiment, "small").measured
