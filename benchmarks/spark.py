"""The Spark pipeline beside the same job with a ``mapInArrow`` that does nothing; and reading many small files."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from xml.etree import ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks import workloads
from benchmarks.measure import Row
from twigcast import SubscriptionSet
from twigcast.spark import Reading, read_messages, run_pipeline
from twigcast.spark.direct import find_work
from twigcast.spark.session import open_session

MASTER = "local[2]"
MESSAGES = 100_000
FILES = 20_000
ROUNDS = 5

ORDINARY = (1_000, 10_000, 100_000)
"""Sizes of populations of ordinary selectivity."""


def measure() -> list[Row]:
    """All rows of the section."""
    with tempfile.TemporaryDirectory(prefix="twigcast-bench-") as folder:
        spark = open_session(MASTER, log=Path(folder, "spark.log"), settings={"spark.driver.memory": "3g"})
        try:
            return [*_pipelines(spark, Path(folder)), *_small_files(spark, Path(folder))]
        finally:
            spark.stop()


def ordinary_queries(feed: str, count: int) -> list[str]:
    """Queries for a few values of an element of some message, by its path, so that each matches few messages.

    Published workloads of bare paths match a fifth of all messages, as no subscriber would want.
    """
    chance = random.Random(workloads.SEED)
    made: dict[str, None] = {}
    elements = [found for xml in workloads.messages(feed) for found in _elements(ET.fromstring(xml), "")]  # noqa: S314
    while len(made) < count:
        path, attributes = chance.choice(elements)
        values = chance.sample(attributes, chance.randint(2, min(4, len(attributes))))
        made[path + "".join(f"[@{name}='{value}']" for name, value in values)] = None
    return list(made)


def _elements(element: ET.Element, above: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Path and attributes of the elements that have two attributes."""
    path = f"{above}/{element.tag}"
    attributes = [(name, value) for name, value in element.attrib.items() if "'" not in value and "{" not in name]
    if len(attributes) > 1:
        yield path, attributes
    for child in element:
        yield from _elements(child, path)


def _pipelines(spark: SparkSession, folder: Path) -> Iterator[Row]:
    for feed in ["news", "nitf"] if workloads.has_shared() else ["news"]:
        path = folder / f"{feed}.parquet"
        size = _write_messages(feed, path)
        read = partial(spark.read.parquet, str(path))
        nothing = partial(_nothing, read)
        by_tasks = partial(_nothing_by_tasks, spark, path, folder)
        baseline, seconds = _side_by_side(nothing, by_tasks)
        for read_by, spent in (("Spark", baseline), ("tasks", seconds)):
            yield {"feed": feed, "job": "nothing", "read_by": read_by, **_speed(spent, size), **_share(baseline, spent)}
        for name, queries in _populations(feed):
            population = SubscriptionSet((str(number), query) for number, query in enumerate(queries))
            sources: list[tuple[str, Callable[[], Path | DataFrame]]] = [
                ("tasks", partial(Path, path)),
                ("Spark", read),
            ]
            if (name, len(queries)) != ("ordinary", ORDINARY[0]):
                del sources[1:]  # who reads makes the same difference, which is little beside more matching
            for read_by, source in sources:
                job = _Pipeline(spark, source, population, folder / "output")
                baseline, seconds = _side_by_side(nothing, job)
                yield {
                    "feed": feed,
                    "job": name,
                    "read_by": read_by,
                    "queries": len(queries),
                    "matches_per_message": job.matches / MESSAGES,
                    **_speed(seconds, size),
                    **_share(baseline, seconds),
                }


class _Pipeline:
    """The whole pipeline, from opening the messages to committing the results."""

    def __init__(
        self, spark: SparkSession, source: Callable[[], Path | DataFrame], population: SubscriptionSet, output: Path
    ) -> None:
        self._spark, self._source, self._population, self._output = spark, source, population, output
        self.matches = 0

    def __call__(self) -> None:
        self.matches = run_pipeline(self._source(), self._population, self._output, spark=self._spark).matches


def _populations(feed: str) -> Iterator[tuple[str, list[str]]]:
    for count in ORDINARY:
        yield "ordinary", ordinary_queries(feed, count)
    yield "bare paths", workloads.queries(feed, "1k")
    yield "bare paths", workloads.queries(feed, "10k")


def _nothing(read: Callable[[], DataFrame]) -> None:
    """Spark reads the messages, hands them to Python and takes them back."""

    def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    frame = read()
    frame.mapInArrow(hand_on, frame.schema).write.format("noop").mode("overwrite").save()


def _nothing_by_tasks(spark: SparkSession, path: Path, folder: Path) -> None:
    """Tasks read the messages, as they do in a pipeline, and hand them to Spark."""
    work = find_work(spark, path, Reading(), folder)
    work.rows.mapInArrow(work.read, "message_id string, xml binary").write.format("noop").mode("overwrite").save()


def _write_messages(feed: str, path: Path) -> int:
    """Write the messages of a feed over and over; bytes in all."""
    made = workloads.messages(feed)
    bodies = [made[number % len(made)] for number in range(MESSAGES)]
    table = pa.table({"message_id": [f"{feed}-{number}" for number in range(MESSAGES)], "xml": pa.array(bodies)})
    pq.write_table(table, path, compression="zstd", row_group_size=MESSAGES // 8)
    return sum(map(len, bodies))


def _small_files(spark: SparkSession, folder: Path) -> Iterator[Row]:
    feed = folder / "feed"
    feed.mkdir()
    made = workloads.messages("news")
    size = 0
    for number in range(FILES):
        body = made[number % len(made)]
        (feed / f"{number:05d}.xml").write_bytes(body)
        size += len(body)

    def read() -> None:
        read_messages(spark, feed).write.format("noop").mode("overwrite").save()

    def read_by_spark() -> None:
        spark.read.format("binaryFile").load(str(feed)).write.format("noop").mode("overwrite").save()

    population = SubscriptionSet((str(n), query) for n, query in enumerate(ordinary_queries("news", ORDINARY[0])))
    jobs: dict[str, Callable[[], object]] = {
        f"read {FILES:,} small files": read,
        f"the same, binaryFile at openCostInBytes {spark.conf.get('spark.sql.files.openCostInBytes')}": read_by_spark,
        "read and match them": lambda: run_pipeline(feed, population, folder / "small", spark=spark),
    }
    for name, seconds in zip(jobs, _side_by_side(*jobs.values()), strict=True):
        yield {"feed": "files", "job": name, **_speed(seconds, size, FILES)}


def _side_by_side(*jobs: Callable[[], object]) -> list[list[float]]:
    """Seconds by the clock of jobs taken in turn; once before, uncounted, to start workers and load what they keep."""
    for job in jobs:
        job()
    seconds: list[list[float]] = [[] for _ in jobs]
    for _ in range(ROUNDS):
        for job, spent in zip(jobs, seconds, strict=True):
            start = time.perf_counter()
            job()
            spent.append(time.perf_counter() - start)
    return seconds


def _share(nothing: list[float], seconds: list[float]) -> Row:
    """Speed as a share of that of the job that does nothing: the median of the rounds."""
    return {"of_nothing": median(before / after for before, after in zip(nothing, seconds, strict=True))}


def _speed(rounds: list[float], size: int, messages: int = MESSAGES) -> Row:
    seconds = median(rounds)
    return {
        "seconds": seconds,
        "messages_per_second": round(messages / seconds),
        "MB_per_second": size / seconds / 1e6,
        "us_per_message": seconds / messages * 1e6,
    }
