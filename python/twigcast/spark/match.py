"""Functions for your own Spark programs, which match messages and read the answers."""

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from twigcast.errors import PipelineError, SourceError
from twigcast.spark.matching import ANSWERS, BatchMatcher, MessageColumns
from twigcast.spark.session import is_connected
from twigcast.spark.snapshots import Snapshot, carry_snapshot, load_session, ship_snapshot
from twigcast.spark.sources.source import Batches, check_message_columns
from twigcast.subscriptions import SubscriptionSet

_ADDED = tuple(ANSWERS.names)
_VERSION = "population_version"


def match_messages(
    messages: DataFrame,
    population: Snapshot | SubscriptionSet,
    *,
    message_id: str = "message_id",
    xml: str = "xml",
    problem: str = "problem",
    published: str | None = None,
    deliver: bool = True,
    nodes: bool = False,
) -> DataFrame:
    """Matches messages in one pass, and adds the answers to their rows.

    All columns of the DataFrame stay as they are, so that Spark's windows, watermarks and joins work on the answers.
    Use :func:`~twigcast.spark.matches`, :func:`~twigcast.spark.deliveries` and :func:`~twigcast.spark.rejected` for
    tables of each kind; cache the answers first if you need more than one of them, since Spark matches again for each.
    Works on streaming DataFrames, and in ``foreachBatch``, too. For best speed set
    ``spark.sql.execution.arrow.maxBytesPerBatch`` to about 1 MB, as :func:`~twigcast.spark.run_pipeline` does.

    Args:
        messages: A row per message, with any columns.
        population: A set of subscriptions, or a snapshot that was shipped to this Spark session already.
        message_id: The column of ids, of any type that casts to a string. Envelopes show them.
        xml: The column of messages: string or binary.
        problem: The column that says why a message could not be read, or null; such a message is rejected. There need
            not be one; a column of this name that is not a string is ignored.
        published: The column of timestamps that says when each message was published, which is ``$now`` to queries.
            Without it, and where it is null, a message is published when Spark matches it.
        deliver: Whether to rewrite messages.
        nodes: Whether to count the selected nodes (takes longer).

    Returns:
        The columns of ``messages``, then ``matches``, an array of (``key``, ``nodes``); ``deliveries``, an array of
        (``key``, ``payload``), with an element per subscription that rewrites; ``rejected``, null or (``reason``,
        ``line``, ``column``, ``xml``). Of a version of a population that lives, ``population_version``, too.

    Raises:
        SourceError: A column is missing, or has a name that an added column has.
    """
    name = "the DataFrame of messages"
    columns = check_message_columns(messages, name, MessageColumns(message_id, xml, problem, published))
    taken = [column for column in messages.columns if column.lower() in _ADDED]
    snapshot = snapshot_of(messages, population)
    if snapshot.population_version is not None and _VERSION in map(str.lower, messages.columns):
        taken.append(_VERSION)
    if taken:
        raise SourceError(name, f"the answers add a column {taken[0]}, and there is one already: rename it before")

    def answer(batches: Batches) -> Batches:
        matcher = BatchMatcher(
            load_session(snapshot), deliver=deliver, nodes=nodes, envelope=snapshot.envelope, whole=snapshot.whole
        )
        for batch in batches:
            for answers in matcher.answers(batch, columns, carry=True):
                yield from answers.by_message()

    own = [StructField(field.name, field.dataType, metadata=field.metadata) for field in messages.schema.fields]
    answers = messages.mapInArrow(answer, StructType([*own, *from_arrow_schema(ANSWERS).fields]))
    version = snapshot.population_version
    return answers if version is None else answers.selectExpr("*", f"cast({version} as bigint) {_VERSION}")


def snapshot_of(messages: DataFrame, population: Snapshot | SubscriptionSet) -> Snapshot:
    """Returns the snapshot of a population that the tasks of messages can load.

    Raises:
        PipelineError: They are a stream over Spark Connect, which has no files of its session.
    """
    is_apart = messages.isStreaming and is_connected(messages.sparkSession)
    if isinstance(population, Snapshot):
        if is_apart:
            raise PipelineError("a stream over Spark Connect has no files of its session: pass the set, not a snapshot")
        return population
    return carry_snapshot(population) if is_apart else ship_snapshot(messages.sparkSession, population)


def matches(answers: DataFrame, *, xml: str = "xml") -> DataFrame:
    """Returns a row per message and matching subscription: the message's columns, ``key``, ``nodes``.

    Args:
        answers: What :func:`match_messages` returns.
        xml: The column of messages, which is left out: select from the answers themselves to have it.
    """
    return _table(answers, xml, "inline(matches)")


def deliveries(answers: DataFrame, *, xml: str = "xml") -> DataFrame:
    """Returns a row per message and subscription that rewrites it: the message's columns, ``key``, ``payload``.

    Args:
        answers: What :func:`match_messages` returns.
        xml: The column of messages, which is left out.
    """
    return _table(answers, xml, "inline(deliveries)")


def rejected(answers: DataFrame, *, xml: str = "xml") -> DataFrame:
    """Returns a row per rejected message: its columns, ``reason``, ``line``, ``column``, ``xml``.

    Args:
        answers: What :func:`match_messages` returns.
        xml: The column of messages; the message is found under ``xml`` whatever this name.
    """
    return _table(answers.where("rejected is not null"), xml, "rejected.*")


def _table(answers: DataFrame, xml: str, added: str) -> DataFrame:
    """Returns the columns of the messages without the message itself and the answers, and what is added."""
    own = [column for column in answers.columns if column != xml and column not in _ADDED and column != "problem"]
    return answers.selectExpr(*(f"`{column.replace('`', '``')}`" for column in own), added)
