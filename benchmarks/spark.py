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
from twigcast.spark import read_messages, run_pipeline
from twigcast.spark.session import open_session

MASTER = "local[2]"
MESSAGES = 100_000
FILES = 20_000
ROUNDS = 3

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
    feeds = ["news", "nitf"] if workloads.has_shared() else ["news"]
    for feed in feeds:
        path = folder / f"{feed}.parquet"
        size = _write_messages(feed, path)
        frame = spark.read.parquet(str(path))
        nothing = _clock(partial(_nothing, frame))
        yield {"feed": feed, "job": "nothing", **_speed(nothing, size), "of_nothing": 1.0}
        for name, queries in _populations(feed):
            population = SubscriptionSet((str(number), query) for number, query in enumerate(queries))
            matches = 0

            def run(population: SubscriptionSet = population, path: Path = path) -> None:
                nonlocal matches
                matches = run_pipeline(path, population, folder / "output", spark=spark).matches

            seconds = _clock(run)
            yield {
                "feed": feed,
                "job": name,
                "queries": len(queries),
                "matches_per_message": matches / MESSAGES,
                **_speed(seconds, size),
                "of_nothing": nothing / seconds,
            }


def _populations(feed: str) -> Iterator[tuple[str, list[str]]]:
    for count in ORDINARY:
        yield "ordinary", ordinary_queries(feed, count)
    yield "bare paths", workloads.queries(feed, "1k")
    yield "bare paths", workloads.queries(feed, "10k")


def _nothing(frame: DataFrame) -> None:
    def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    frame.mapInArrow(hand_on, frame.schema).write.format("noop").mode("overwrite").save()


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
    for name, job in jobs.items():
        yield {"feed": "files", "job": name, **_speed(_clock(job), size, FILES)}


def _clock(job: Callable[[], object]) -> float:
    """Seconds by the clock, the median; once before, uncounted, to start workers and load what they keep."""
    job()
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def _speed(seconds: float, size: int, messages: int = MESSAGES) -> Row:
    return {
        "seconds": seconds,
        "messages_per_second": round(messages / seconds),
        "MB_per_second": size / seconds / 1e6,
        "us_per_message": seconds / messages * 1e6,
    }
