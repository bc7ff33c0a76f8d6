"""Functions for Spark programs of one's own: match messages, and take the answers apart."""

from pyspark.sql import DataFrame

from twigcast.spark.matching import BatchMatcher
from twigcast.spark.schemas import ANSWERS_DDL
from twigcast.spark.snapshots import Snapshot, load_session, ship_snapshot
from twigcast.spark.sources.source import Batches, check_columns
from twigcast.subscriptions import SubscriptionSet


def match_messages(
    messages: DataFrame, subscriptions: Snapshot | SubscriptionSet, *, deliver: bool = True, nodes: bool = False
) -> DataFrame:
    """Matches messages in one pass, into a table with a row per message.

    Use :func:`~twigcast.spark.matches`, :func:`~twigcast.spark.deliveries` and :func:`~twigcast.spark.rejected` for
    tables of each kind; cache the answers first if you need more than one of them, since Spark matches again for each.
    Works on streaming DataFrames too. For best speed set ``spark.sql.execution.arrow.maxBytesPerBatch`` to
    about 1 MB, as :func:`~twigcast.spark.run_pipeline` does.

    Args:
        messages: ``message_id`` and ``xml`` (string or binary), and perhaps ``problem``: why a message could not
            be read.
        subscriptions: A set, or a snapshot that was shipped to this Spark session already.
        deliver: Whether to rewrite messages.
        nodes: Whether to count the selected nodes (takes longer).

    Returns:
        ``message_id``; ``matches``, an array of (``key``, ``nodes``); ``deliveries``, an array of (``key``,
        ``payload``), with an element per subscription that rewrites; ``rejected``, null or (``reason``, ``line``,
        ``column``, ``xml``).

    Raises:
        SourceError: A column is missing.
    """
    snapshot = (
        subscriptions if isinstance(subscriptions, Snapshot) else ship_snapshot(messages.sparkSession, subscriptions)
    )

    def answer(batches: Batches) -> Batches:
        matcher = BatchMatcher(
            load_session(snapshot), deliver=deliver, nodes=nodes, envelope=snapshot.envelope, whole=snapshot.whole
        )
        for batch in batches:
            for answers in matcher.answers(batch):
                yield from answers.by_message()

    return check_columns(messages, "the DataFrame of messages").mapInArrow(answer, ANSWERS_DDL)


def matches(answers: DataFrame) -> DataFrame:
    """Returns a row per message and matching subscription: ``message_id``, ``key``, ``nodes``."""
    return answers.selectExpr("message_id", "inline(matches)")


def deliveries(answers: DataFrame) -> DataFrame:
    """Returns a row per message and subscription that rewrites it: ``message_id``, ``key``, ``payload``."""
    return answers.selectExpr("message_id", "inline(deliveries)")


def rejected(answers: DataFrame) -> DataFrame:
    """Returns a row per rejected message: ``message_id``, ``reason``, ``line``, ``column``, ``xml``."""
    return answers.where("rejected is not null").selectExpr("message_id", "rejected.*")
