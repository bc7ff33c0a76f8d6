"""The Spark pipeline beside the same job with a ``mapInArrow`` that does nothing; and reading many small files."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
from twigcast.spark.sources import open_source
from twigcast.spark.sources.plan import plan_source

MASTER = "local[2]"
LONG = 400_000
"""Messages of the feed on which throughput is compared: enough that starting a job is a small part of any job."""
MIDDLE = 100_000
"""Messages of the feed for jobs that take long for each."""
START = 1_000
"""Messages of a feed so short that it tells what a job costs whatever it has to do."""
ROW_GROUP = 12_500
FILES = 20_000
ROUNDS = 5
ROUNDS_MIDDLE = 3

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
    created: dict[str, None] = {}
    elements = [result for xml in workloads.messages(feed) for result in _elements(ET.fromstring(xml), "")]  # noqa: S314
    while len(created) < count:
        path, attributes = chance.choice(elements)
        values = chance.sample(attributes, chance.randint(2, min(4, len(attributes))))
        created[path + "".join(f"[@{name}='{value}']" for name, value in values)] = None
    return list(created)


def _elements(element: ET.Element, above: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Path and attributes of the elements that have two attributes."""
    path = f"{above}/{element.tag}"
    attributes = [(name, value) for name, value in element.attrib.items() if "'" not in value and "{" not in name]
    if len(attributes) > 1:
        yield path, attributes
    for child in element:
        yield from _elements(child, path)


@dataclass(frozen=True)
class _Feed:
    """Messages in a Parquet file."""

    name: str
    path: Path
    messages: int
    size: int
    """Bytes of all messages."""


def _pipelines(spark: SparkSession, folder: Path) -> Iterator[Row]:
    for name in ["news", "nitf"] if workloads.has_shared() else ["news"]:
        long, middle, start = (_write_messages(name, folder, messages) for messages in (LONG, MIDDLE, START))
        yield from _doing_nothing(spark, long, folder)
        [(kind, queries), *others] = _populations(name)
        for feed, read_by in ((long, "tasks"), (long, "Spark"), (start, "tasks")):
            yield from _beside_nothing(spark, feed, kind, queries, folder, read_by=read_by)
        for kind, queries in others:  # who reads makes the same difference, which is little beside more matching
            yield from _beside_nothing(spark, middle, kind, queries, folder, rounds=ROUNDS_MIDDLE)


def _doing_nothing(spark: SparkSession, feed: _Feed, folder: Path) -> Iterator[Row]:
    rounds = _side_by_side(partial(_nothing, spark, feed), partial(_nothing_by_tasks, spark, feed, folder))
    for read_by, seconds in zip(("Spark", "tasks"), rounds, strict=True):
        job = {"feed": feed.name, "job": "nothing", "read_by": read_by, "messages": feed.messages}
        yield {**job, **_speed(seconds, feed.size, feed.messages), **_share(rounds[0], seconds)}


def _beside_nothing(
    spark: SparkSession,
    feed: _Feed,
    kind: str,
    queries: list[str],
    folder: Path,
    *,
    read_by: str = "tasks",
    rounds: int = ROUNDS,
) -> Iterator[Row]:
    """The row of a pipeline; before it, where it is the start of a job that counts, that of ``nothing``."""
    population = SubscriptionSet((str(number), query) for number, query in enumerate(queries))
    source = partial(spark.read.parquet, str(feed.path)) if read_by == "Spark" else partial(Path, feed.path)
    pipeline = _Pipeline(spark, source, population, folder / "output")
    nothing, seconds = _side_by_side(partial(_nothing, spark, feed), pipeline, rounds=rounds)
    if feed.messages == START:
        job = {"feed": feed.name, "job": "nothing", "read_by": "Spark", "messages": feed.messages}
        yield {**job, **_speed(nothing, feed.size, feed.messages), **_share(nothing, nothing)}
    yield {
        "feed": feed.name,
        "job": kind,
        "read_by": read_by,
        "messages": feed.messages,
        **_speed(seconds, feed.size, feed.messages),
        **_share(nothing, seconds),
        "queries": len(queries),
        "matches_per_message": pipeline.matches / feed.messages,
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


def _nothing(spark: SparkSession, feed: _Feed) -> None:
    """Spark reads the messages, hands them to Python and takes them back."""

    def hand_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    frame = spark.read.parquet(str(feed.path))
    frame.mapInArrow(hand_on, frame.schema).write.format("noop").mode("overwrite").save()


def _nothing_by_tasks(spark: SparkSession, feed: _Feed, folder: Path) -> None:
    """Tasks read the messages, as they do in a pipeline, and hand them to Spark."""
    work = plan_source(spark, open_source(feed.path), folder)
    work.rows.mapInArrow(work.read, "message_id string, xml binary").write.format("noop").mode("overwrite").save()


def _write_messages(name: str, folder: Path, messages: int) -> _Feed:
    """Write the messages of a feed over and over."""
    created = workloads.messages(name)
    path = folder / f"{name}-{messages}.parquet"
    schema = pa.schema([("message_id", pa.string()), ("xml", pa.binary())])
    size = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, messages, ROW_GROUP):
            numbers = range(start, min(start + ROW_GROUP, messages))
            bodies = [created[number % len(created)] for number in numbers]
            writer.write_table(pa.table([[f"{name}-{number}" for number in numbers], bodies], schema=schema))
            size += sum(map(len, bodies))
    return _Feed(name, path, messages, size)


def _small_files(spark: SparkSession, folder: Path) -> Iterator[Row]:
    feed = folder / "feed"
    feed.mkdir()
    created = workloads.messages("news")
    size = 0
    for number in range(FILES):
        body = created[number % len(created)]
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
        yield {"feed": "files", "job": name, "messages": FILES, **_speed(seconds, size, FILES)}


def _side_by_side(*jobs: Callable[[], object], rounds: int = ROUNDS) -> list[list[float]]:
    """Seconds by the clock of jobs taken in turn; once before, uncounted, to start workers and load what they keep."""
    for job in jobs:
        job()
    seconds: list[list[float]] = [[] for _ in jobs]
    for _ in range(rounds):
        for job, spent in zip(jobs, seconds, strict=True):
            start = time.perf_counter()
            job()
            spent.append(time.perf_counter() - start)
    return seconds


def _share(nothing: list[float], seconds: list[float]) -> Row:
    """Speed as a share of that of the job that does nothing: the median of the rounds."""
    return {"of_nothing": median(before / after for before, after in zip(nothing, seconds, strict=True))}


def _speed(rounds: list[float], size: int, messages: int) -> Row:
    seconds = median(rounds)
    return {
        "seconds": seconds,
        "messages_per_second": round(messages / seconds),
        "MB_per_second": size / seconds / 1e6,
        "us_per_message": seconds / messages * 1e6,
    }
