"""Runs experiments: a task per point, on Spark or in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, NamedTuple

from twigcast.lab.experiments.framework import store
from twigcast.lab.experiments.framework.model import Experiment, Measured, Point, Scale
from twigcast.lab.experiments.framework.tasks import OnSpark, Tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str], None]


class Done(NamedTuple):
    """The results of a point, or of all of them: the samples, and the processor time they took."""

    measured: list[Measured]
    processor_seconds: float


def measure_point(experiment: str, point: Point) -> Done:
    """Measures one point of an experiment, which it finds by its id, as a Spark task does."""
    from twigcast.lab.experiments.framework.registry import experiment_by_id

    started = process_time()
    measured = experiment_by_id(experiment).measure(point)
    return Done(measured, process_time() - started)


def run_here(experiment: Experiment, scale: Scale) -> Done:
    """Measures all points of an experiment, one after the other."""
    return _gathered(measure_point(experiment.id, point) for point in experiment.sweep[scale])


def _gathered(parts: Iterable[Done]) -> Done:
    done = list(parts)
    return Done([row for part in done for row in part.measured], sum(part.processor_seconds for part in done))


def run_on_spark(spark: SparkSession, experiment: Experiment, scale: Scale) -> Done:
    """Measures all points of an experiment, each as a task of its own, or, if it is spread, in several."""
    points = list(experiment.sweep[scale])
    name = experiment.id  # the task looks the experiment up: functions stay where they are
    spark.sparkContext.setJobDescription(f"{experiment.id}: {experiment.title}")
    if experiment.spread is not None:
        return _run_spread(experiment.spread, points, OnSpark(spark))
    tasks = spark.sparkContext.parallelize(list(enumerate(points)), len(points))
    done = tasks.map(lambda task: (task[0], measure_point(name, task[1]))).collect()
    return _gathered(part for _, part in sorted(done, key=lambda item: item[0]))


def _run_spread(spread: Callable[[Point, Tasks], list[Measured]], points: Iterable[Point], tasks: Tasks) -> Done:
    started = process_time()
    measured = [row for point in points for row in spread(point, tasks)]
    return Done(measured, process_time() - started + tasks.processor_seconds)


def run(
    experiments: Iterable[Experiment],
    scale: Scale,
    output: Path,
    *,
    spark: SparkSession | None = None,
    options: str = "",
    progress: Progress = print,
) -> list[Path]:
    """Runs experiments and stores their results under ``output``.

    Args:
        experiments: which.
        scale: how large.
        output: folder for the Parquet files.
        spark: where to run; without it, in this process.
        options: of the command line, which are stored with the results.
        progress: called with what is done.
    """
    written = []
    for experiment in experiments:
        started = perf_counter()
        done = run_on_spark(spark, experiment, scale) if spark else run_here(experiment, scale)
        seconds = perf_counter() - started
        about = {
            "command": f"twigcast experiment run --scale {scale} {options}{experiment.id}",
            "seconds": round(seconds, 1),
            "processor_seconds": round(done.processor_seconds, 1),
            "points": len(experiment.sweep[scale]),
            "runner": spark.sparkContext.master if spark else "this process",
            "messages": experiment.sweep[scale][0].parameters.get("documents"),
        }
        written.append(store.save(output, experiment.id, scale, done.measured, about))
        progress(
            f"{experiment.id}: {about['points']} points in {seconds:.1f} s, {done.processor_seconds:.1f} s of processor"
        )
    return written
