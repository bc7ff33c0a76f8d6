"""Workloads on Spark, for more queries or documents than one process makes in reasonable time.

Each task makes a part with a seed of its own; queries that two tasks both made are dropped afterwards, so that a set of
distinct queries may be a few per cent smaller than asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from twigcast.schema import Schema
from twigcast.workload.documents import documents
from twigcast.workload.queries import path_queries
from twigcast.workload.values import draw_domains

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[str]


def path_queries_on_spark(
    spark: SparkSession,
    schema: Schema,
    count: int,
    seed: int = 1,
    *,
    tasks: int = 0,
    depth: int = 8,
    wildcard: float = 0.2,
    descendant: float = 0.2,
    predicates: int = 0,
    nested: int = 0,
    skew: float = 0.0,
    distinct: bool = True,
) -> DataFrame:
    """Path queries as a data frame with the column ``query``; parameters as in ``path_queries``.

    ``tasks``: into how many parts to divide the work; 0: as many as Spark runs at once.
    """
    parts = tasks or spark.sparkContext.defaultParallelism
    domains = draw_domains(schema, seed)

    def make(part: int) -> Iterator[Row]:
        size = count // parts + int(part < count % parts)
        made = path_queries(
            schema,
            size,
            seed * parts + part,
            depth=depth,
            wildcard=wildcard,
            descendant=descendant,
            predicates=predicates,
            nested=nested,
            skew=skew,
            distinct=distinct,
            domains=domains,
        )
        return ((query,) for query in made)

    rows = spark.sparkContext.parallelize(range(parts), parts).flatMap(make)
    frame = spark.createDataFrame(rows, "query string")
    return frame.distinct() if distinct else frame


def documents_on_spark(
    spark: SparkSession,
    schema: Schema,
    count: int,
    seed: int = 1,
    *,
    tasks: int = 0,
    levels: int = 6,
    max_repeats: int = 3,
    max_value: int = 20,
) -> DataFrame:
    """Documents as a data frame with the columns ``message_id`` and ``xml``: the same ones that ``documents`` makes."""
    parts = tasks or spark.sparkContext.defaultParallelism

    def make(part: int) -> Iterator[tuple[str, bytearray]]:
        start, end = count * part // parts, count * (part + 1) // parts
        made = documents(
            schema, end - start, seed, levels=levels, max_repeats=max_repeats, max_value=max_value, start=start
        )
        return ((f"d{number}", bytearray(document)) for number, document in enumerate(made, start + 1))

    rows = spark.sparkContext.parallelize(range(parts), parts).flatMap(make)
    return spark.createDataFrame(rows, "message_id string, xml binary")
