"""Workloads on Spark, for more queries or documents than one process makes in reasonable time.

Each task makes a part with a seed of its own. Different parts may hold equal queries, so a set of distinct queries is
made in rounds until there are enough; a hash of the text chooses those that are left out. The same
seed and number of tasks give the same set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from twigcast.lab.workload.documents import documents
from twigcast.lab.workload.errors import WorkloadExhaustedError
from twigcast.lab.workload.queries import path_queries
from twigcast.lab.workload.values import ValueDomains, draw_domains
from twigcast.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 10_000
DOCUMENT_BATCH_ROWS = 200
LEAST_GAIN = 0.005
"""A round that adds a smaller share of what it made is the last: nearly everything that there is has been found."""


def path_queries_on_spark(
    spark: SparkSession,
    schema: Schema,
    count: int,
    seed: int = 1,
    *,
    tasks: int = 0,
    depth: int = 6,
    wildcard: float = 0.2,
    descendant: float = 0.2,
    predicates: int = 0,
    nested: int = 0,
    skew: float = 0.0,
    distinct: bool = True,
    domains: ValueDomains | None = None,
) -> DataFrame:
    """Makes path queries as a data frame with the column ``query``; parameters as in ``path_queries``.

    Distinct ones are kept in Spark's storage until ``spark.catalog.clearCache()`` or the end of the session.

    ``tasks``: into how many parts to divide the work; 0: as many as Spark runs at once. The same seed and number of
    tasks give the same queries, in no particular order.

    Raises:
        WorkloadExhaustedError: there are not that many different queries, or the last are too rare to be found.
    """
    parts = tasks or spark.sparkContext.defaultParallelism
    values = domains or draw_domains(schema, seed)

    def make(requested: int) -> DataFrame:
        def batches(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for part in (part for batch in numbers for part in batch.column(0).to_pylist()):
                created = path_queries(
                    schema,
                    requested // parts + int(part < requested % parts),
                    seed * parts + part,
                    depth=depth,
                    wildcard=wildcard,
                    descendant=descendant,
                    predicates=predicates,
                    nested=nested,
                    skew=skew,
                    distinct=distinct,
                    complete=False,
                    domains=values,
                )
                for start in range(0, len(created), BATCH_ROWS):
                    yield pa.record_batch({"query": created[start : start + BATCH_ROWS]})

        return spark.range(0, parts, 1, parts).mapInArrow(batches, "query string")

    return _distinct(make, count) if distinct else make(count)


def _distinct(make: Callable[[int], DataFrame], count: int) -> DataFrame:
    """Ask all tasks for more until there are enough different ones, then leave the surplus out.

    More from the same tasks rather than new ones: a new one begins with the common queries, which have been found.
    """
    asked, before = count, 0
    while True:
        result = make(asked).distinct().persist()
        have = result.count()
        if have >= count:
            return _without_surplus(result, have - count)
        result.unpersist()
        if before and have - before < LEAST_GAIN * asked:
            raise WorkloadExhaustedError(count, have, asked)
        before = have
        asked = int(asked * min(2.0, 1.2 * count / max(1, have))) + 100


def _without_surplus(frame: DataFrame, surplus: int) -> DataFrame:
    """Leave out the rows with the lowest hashes: the same ones whatever the order of the rows."""
    if not surplus:
        return frame
    from pyspark.sql import functions as f

    rank = f.struct(f.xxhash64("query"), "query")
    lowest = frame.select(rank.alias("rank")).orderBy("rank").limit(surplus)
    last = lowest.agg(f.max("rank").alias("last")).first()
    assert last is not None
    return frame.where(rank > f.struct(*map(f.lit, last["last"])))


def documents_on_spark(
    spark: SparkSession,
    schema: Schema,
    count: int,
    seed: int = 1,
    *,
    tasks: int = 0,
    levels: int = 6,
    max_repeats: int = 3,
    repeats: Mapping[str, int] | None = None,
    max_value: int = 20,
    domains: ValueDomains | None = None,
) -> DataFrame:
    """Makes the same documents as ``documents``, as a data frame with the columns ``message_id`` and ``xml``."""
    parts = tasks or spark.sparkContext.defaultParallelism
    values = domains or draw_domains(schema, seed, max_value=max_value)

    def batches(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in (part for batch in numbers for part in batch.column(0).to_pylist()):
            start, end = count * part // parts, count * (part + 1) // parts
            for first in range(start, end, DOCUMENT_BATCH_ROWS):
                size = min(DOCUMENT_BATCH_ROWS, end - first)
                created = documents(
                    schema,
                    size,
                    seed,
                    levels=levels,
                    max_repeats=max_repeats,
                    repeats=repeats,
                    domains=values,
                    start=first,
                )
                names = [f"d{number}" for number in range(first + 1, first + size + 1)]
                yield pa.record_batch({"message_id": names, "xml": pa.array(list(created), pa.binary())})

    return spark.range(0, parts, 1, parts).mapInArrow(batches, "message_id string, xml binary")
