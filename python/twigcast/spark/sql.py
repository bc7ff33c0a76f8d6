"""The table function by which SQL matches messages."""

from collections.abc import Iterator
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as spark_functions
from pyspark.sql.udtf import UserDefinedTableFunction

from twigcast.errors import PipelineError
from twigcast.spark.matching import BatchMatcher
from twigcast.spark.schemas import MATCH_ROWS_DDL
from twigcast.spark.snapshots import Snapshot, load_session, ship_snapshot
from twigcast.subscriptions import SubscriptionSet


def register_match_function(
    spark: SparkSession,
    population: Snapshot | SubscriptionSet,
    name: str = "twigcast_match",
    *,
    deliver: bool = True,
    nodes: bool = False,
) -> None:
    """Registers a function for SQL that matches a table of messages against a population.

    ``SELECT * FROM twigcast_match(TABLE(SELECT id AS message_id, body AS xml FROM messages))`` has a row per message
    and matching subscription: ``message_id``, ``key``, ``nodes``, ``payload``, ``problem``. A message that was rejected
    has one row without a key, and with its ``problem``. The table may also have a column ``problem``, as
    :func:`~twigcast.spark.read_messages` makes it. Registering another population under the same name replaces the
    first.

    Args:
        spark: The session whose SQL gets the function.
        population: A set of subscriptions, as it is now, or a snapshot that was shipped to this Spark session already.
        name: The name in SQL.
        deliver: Whether to rewrite messages.
        nodes: Whether to count the selected nodes (takes longer).

    Raises:
        PipelineError: This version of Spark has no table functions on Arrow batches.
    """
    if not hasattr(spark_functions, "arrow_udtf"):
        raise PipelineError(
            f"{name} in SQL needs Spark 4.1 or newer, this is {spark.version}; use match_messages instead"
        )
    snapshot = population if isinstance(population, Snapshot) else ship_snapshot(spark, population)

    class MatchFunction:
        """The function's state in one task."""

        def __init__(self) -> None:
            self._matcher: BatchMatcher | None = None

        def eval(self, messages: pa.RecordBatch) -> Iterator[pa.Table]:
            """Yields the rows of some messages."""
            if self._matcher is None:
                self._matcher = BatchMatcher(
                    load_session(snapshot),
                    deliver=deliver,
                    nodes=nodes,
                    envelope=snapshot.envelope,
                    whole=snapshot.whole,
                )
            for answer in self._matcher.answers(messages):
                for rows in answer.match_rows():
                    yield pa.Table.from_batches([rows])

    function = spark_functions.arrow_udtf(MatchFunction, returnType=MATCH_ROWS_DDL)
    spark.udtf.register(name, cast(UserDefinedTableFunction, function))
