"""Runs experiments: a task per point, on Spark or in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from twigcast.experiments import store
from twigcast.experiments.model import Experiment, Measured, Point, Scale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str], None]


def measure_point(experiment: str, point: Point) -> list[Measured]:
    """Measure one point of an experiment, found by its id: what a Spark task does."""
    from twigcast.experiments.registry import experiment_by_id

    return experiment_by_id(experiment).measure(point)


def run_here(experiment: Experiment, scale: Scale) -> list[Measured]:
    """All points of an experiment, one after the other."""
    return [measured for point in experiment.sweep[scale] for measured in measure_point(experiment.id, point)]


def run_on_spark(spark: SparkSession, experiment: Experiment, scale: Scale) -> list[Measured]:
    """All points of an experiment, each as a task of its own."""
    points = list(experiment.sweep[scale])
    name = experiment.id  # the task looks the experiment up: functions stay where they are
    spark.sparkContext.setJobDescription(f"{experiment.id}: {experiment.title}")
    tasks = spark.sparkContext.parallelize(list(enumerate(points)), len(points))
    done = tasks.map(lambda task: (task[0], measure_point(name, task[1]))).collect()
    return [measured for _, part in sorted(done, key=lambda item: item[0]) for measured in part]


def run(
    experiments: Iterable[Experiment],
    scale: Scale,
    output: Path,
    *,
    spark: SparkSession | None = None,
    progress: Progress = print,
) -> list[Path]:
    """Run experiments and store their results under ``output``.

    Args:
        experiments: which.
        scale: how large.
        output: folder for the Parquet files.
        spark: where to run; without it, in this process.
        progress: told what is done.
    """
    written = []
    for experiment in experiments:
        started = perf_counter()
        measured = run_on_spark(spark, experiment, scale) if spark else run_here(experiment, scale)
        seconds = perf_counter() - started
        about = {
            "seconds": round(seconds, 1),
            "points": len(experiment.sweep[scale]),
            "runner": spark.sparkContext.master if spark else "this process",
        }
        written.append(store.save(output, experiment.id, scale, measured, about))
        progress(f"{experiment.id}: {about['points']} points in {seconds:.1f} s")
    return written
