"""Back-tests: what a population would have delivered of an archive, and who would get more or less with another one.

Tasks match where the messages are, and hand on counts and samples only (:mod:`twigcast.spark.delivery_counts`); Spark
adds them up.
"""

import os
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.pandas.types import from_arrow_schema

from twigcast.errors import PipelineError
from twigcast.limits import Limits
from twigcast.reading.options import ReadOptions
from twigcast.registration import Dialect
from twigcast.spark.delivery_counts import COUNTED, PARTS, TOTALS, DeliveryCounter
from twigcast.spark.jobs import join_batches, spark_errors
from twigcast.spark.living import LivingPopulation
from twigcast.spark.matching import BatchMatcher, MessageColumns
from twigcast.spark.message_format import source_frame
from twigcast.spark.message_times import TimeReader
from twigcast.spark.population import OnBad, PopulationFeed, PopulationInput
from twigcast.spark.progress import ProgressReporter, reporter_here
from twigcast.spark.session import arrow_settings, open_session
from twigcast.spark.snapshots import Snapshot, load_session
from twigcast.spark.sources import open_source
from twigcast.spark.sources.frames import FORMAT, expand_path, to_spark_options
from twigcast.spark.sources.source import Batches, MessageSource, check_message_columns
from twigcast.subscriptions import SubscriptionSet

_CHANGES: Final = ("gained", "lost", "changed")

Populations = SubscriptionSet | Snapshot | LivingPopulation | str | os.PathLike[str]
Messages = DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, kw_only=True)
class BacktestReport:
    """The result of a back-test. Its DataFrames are kept by Spark until :meth:`close`; it is a context manager, too."""

    messages: int
    """Messages that were read."""

    rejected: int
    """Messages that could not be matched."""

    undated: int
    """Messages without a time, whose day is null."""

    message_bytes: int
    """Bytes of the messages."""

    delivered: int
    """Deliveries: pairs of a message and a subscription that matches it."""

    undecided: int
    """Pairs that the limits left undecided, with one population or with the other."""

    subscriptions: int

    seconds: float

    is_comparison: bool = False
    """Whether two populations were compared."""

    against: int = 0
    """Subscriptions of the other population."""

    delivered_against: int = 0
    """Deliveries of the other population."""

    gained: int = 0
    """Deliveries that only the other population makes."""

    lost: int = 0
    """Deliveries that only the first population makes."""

    changed: int = 0
    """Deliveries of both whose payloads differ."""

    _parts: DataFrame = field(repr=False)
    _samples_max: int = field(repr=False)

    @property
    def counts(self) -> DataFrame:
        """A row by day and subscription: ``day``, ``key``, ``delivered``, ``undecided``.

        Of a comparison: ``day``, ``key``, ``before``, ``after``, ``gained``, ``lost``, ``changed``, ``undecided``.
        """
        names = COUNTED if self.is_comparison else ("before", "undecided")
        sums = [
            expr(f"sum(numbers[{COUNTED.index(name)}])").alias(name if self.is_comparison else _alone(name))
            for name in names
        ]
        return self._parts.where("kind = 'counts'").groupBy("day", "key").agg(*sums)

    @property
    def samples(self) -> DataFrame:
        """Some messages of each day and subscription: ``day``, ``key``, ``message_id``, ``payload``.

        Of a comparison, some of each ``change``, with the payloads ``before`` and ``after``. Of a payload, there are
        the first 1,000 characters; it is null where the message itself is delivered, and where there is no delivery.
        """
        rows = self._parts.where("kind = 'counts'").selectExpr("day", "key", "inline(samples)")
        kept = f"slice(array_sort(collect_list(struct(message_id, before, after))), 1, {self._samples_max})"
        gathered = rows.groupBy("day", "key", "change").agg(expr(kept).alias("s"))
        listed = gathered.selectExpr("day", "key", "change", "inline(s)")
        if self.is_comparison:
            return listed
        return listed.selectExpr("day", "key", "message_id", "before as payload")

    @property
    def details(self) -> DataFrame:
        """The rows of :attr:`counts`, each with its :attr:`samples` as an array of their other columns."""
        columns = [name for name in self.samples.columns if name not in ("day", "key")]
        kept = f"array_sort(collect_list(struct({', '.join(columns)})))"
        samples = self.samples.groupBy("day", "key").agg(expr(kept).alias("samples"))
        joined = self.counts.alias("c").join(samples.alias("s"), expr("c.day <=> s.day AND c.key = s.key"), "left")
        own = [f"c.{name}" for name in self.counts.columns]
        return joined.selectExpr(*own, "coalesce(s.samples, array()) AS samples")

    @property
    def rejections(self) -> DataFrame:
        """Messages that were rejected, or that left subscriptions undecided: ``message_id`` and why.

        The columns are ``message_id``, ``reason``, ``line``, ``column``.
        """
        return self._parts.where("kind = 'rejected'").selectExpr("rejected.*")

    def close(self) -> None:
        """Lets Spark forget the result."""
        self._parts.unpersist()

    def __enter__(self) -> "BacktestReport":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def table(self) -> str:
        """Returns a short table for people."""
        rows = [("messages", self.messages), ("rejected", self.rejected), ("undated", self.undated)]
        rows += [("subscriptions", self.subscriptions), ("delivered", self.delivered)]
        if self.is_comparison:
            rows += [("against", self.against), ("delivered then", self.delivered_against)]
            rows += [(name, getattr(self, name)) for name in _CHANGES]
        if self.undecided:
            rows.append(("undecided", self.undecided))
        shown = [(name, f"{number:,}") for name, number in rows] + [("seconds", f"{self.seconds:,.1f}")]
        width = max(len(name) for name, _ in shown)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in shown)


def _alone(name: str) -> str:
    """Returns what a number is called where there is one population."""
    return "delivered" if name == "before" else name


def backtest(
    messages: Messages,
    subscriptions: Populations,
    *,
    against: Populations | None = None,
    time: str | None = None,
    published: str | None = None,
    samples: int = 3,
    read: ReadOptions | None = None,
    namespaces: Mapping[str, str] | None = None,
    dialect: Dialect = "xpath",
    limits: Limits | None = None,
    on_bad_subscription: OnBad = "fail",
    master: str | None = None,
    spark: SparkSession | None = None,
    reporter: ProgressReporter | None = None,
) -> BacktestReport:
    """Counts what subscriptions would have delivered of an archive, or compares two populations on it.

    The answers are those of a broker that replays the same messages. Nothing is written or delivered.

    Args:
        messages: A file, folder, archive or pattern, or several of them; Parquet with ``message_id`` and ``xml``; or a
            DataFrame with these columns.
        subscriptions: A set, a file of subscriptions, a population that lives, or a snapshot that was shipped already,
            which is best if many back-tests use it.
        against: Another one, to compare with: which subscriptions, by key, would get more or less.
        time: The path in a message to the time when it was published, such as ``/order/@at``. That time is ``$now``,
            and its day, in UTC, is the one that the message is counted under. By default, it is the time when the file
            was changed last. A message without a time has a null day, and is matched as of the present.
        published: The column of a DataFrame that has this time.
        samples: How many samples to keep by day and subscription, and of a comparison by kind of change.
        read: How messages are cut out of their files.
        namespaces: Prefixes of the subscriptions in files, and of ``time``.
        dialect: How subscriptions in files are read.
        limits: For messages, and for subscriptions in files.
        on_bad_subscription: ``"fail"`` or ``"skip"`` and report.
        master: Where Spark runs, if it is to be started.
        spark: The session; by default that of the DataFrame, the active one, or a new one, which is left running.
        reporter: Is told of subscriptions that are left out.

    Raises:
        SourceError: There are no messages at a path, or a column is missing.
        SubscriptionError: The subscriptions cannot be used.
        PipelineError: The path to the time is refused, or Spark failed.
    """
    sources = check_backtest(
        messages, time=time, published=published, samples=samples, read=read, namespaces=namespaces, limits=limits
    )
    reporter = reporter or reporter_here()
    session = _session(messages, spark, master)
    began = clock.monotonic()
    with spark_errors(), arrow_settings(session):
        frame = messages if isinstance(messages, DataFrame) else _source_frame(session, sources)
        if frame.isStreaming:
            raise PipelineError("a back-test is about messages that are there: give a DataFrame that is not streaming")
        columns = check_message_columns(frame, "the DataFrame of messages", MessageColumns(published=published))

        def snapshot(one: Populations) -> Snapshot:
            if isinstance(one, Snapshot):
                return one
            population = PopulationInput(one, namespaces, dialect, limits, on_bad_subscription, without_windows=True)
            return PopulationFeed(session, population, reporter).snapshot

        snapshots = [snapshot(one) for one in (subscriptions, against) if one is not None]
        count = _count_task(snapshots, columns, None if time is None else (time, namespaces, limits), samples)
        parts = frame.mapInArrow(count, from_arrow_schema(PARTS)).persist()
        sums = [expr(f"sum(numbers[{position}])") for position in range(len(TOTALS))]
        row = parts.where("kind = 'totals'").agg(*sums).collect()[0]
    totals = {name: int(number or 0) for name, number in zip(TOTALS, row, strict=True)}
    return BacktestReport(
        **{name: totals[name] for name in ("messages", "rejected", "undated", "message_bytes", "undecided", *_CHANGES)},
        delivered=totals["before"],
        delivered_against=totals["after"],
        subscriptions=snapshots[0].subscriptions,
        against=snapshots[-1].subscriptions if len(snapshots) > 1 else 0,
        is_comparison=len(snapshots) > 1,
        seconds=round(clock.monotonic() - began, 3),
        _parts=parts,
        _samples_max=samples,
    )


def check_backtest(
    messages: Messages,
    *,
    time: str | None = None,
    published: str | None = None,
    samples: int = 3,
    read: ReadOptions | None = None,
    namespaces: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> list[MessageSource]:
    """Checks what can be checked before Spark starts, and returns the sources of the messages: none of a DataFrame.

    Raises:
        SourceError: There are no messages at a path.
        PipelineError: The path to the time is refused.
    """
    if samples < 0:
        raise ValueError(f"samples must be 0 or more, not {samples}")
    if time is not None and published is not None:
        raise PipelineError("the time of a message comes from the message or from a column: give time or published")
    if time is not None:
        TimeReader(time, namespaces, limits)
    return [] if isinstance(messages, DataFrame) else _open_sources(messages, read, limits, published)


def _open_sources(
    messages: object, read: ReadOptions | None, limits: Limits | None, published: str | None
) -> list[MessageSource]:
    """Returns the sources at some paths, checked before Spark starts."""
    if published is not None:
        raise PipelineError("published names a column of a DataFrame; for files, give the path to the time: time=...")
    paths = [messages] if isinstance(messages, str | os.PathLike) else list(cast("Sequence[str]", messages))
    if not paths:
        raise PipelineError("say where the messages are: a file, a folder, an archive or a pattern")
    return [open_source(one, read, limits) for path in paths for one in expand_path(os.fspath(path))]


def _source_frame(spark: SparkSession, sources: Sequence[MessageSource]) -> DataFrame:
    if len(sources) == 1:
        return source_frame(spark, sources[0])
    options = to_spark_options(sources[0])
    del options["path"]
    return spark.read.format(FORMAT).options(**options).load([to_spark_options(source)["path"] for source in sources])


def _session(messages: object, spark: SparkSession | None, master: str | None) -> SparkSession:
    if isinstance(messages, DataFrame):
        return messages.sparkSession
    return spark or SparkSession.getActiveSession() or open_session(master)


def _count_task(
    snapshots: Sequence[Snapshot],
    columns: MessageColumns,
    time: tuple[str, Mapping[str, str] | None, Limits | None] | None,
    samples: int,
) -> Callable[[Batches], Batches]:
    """Returns the function for ``mapInArrow`` that counts the deliveries of a task."""
    dated = MessageColumns(columns.message_id, columns.xml, columns.problem, "published")

    def count(batches: Batches) -> Batches:
        counter = DeliveryCounter([BatchMatcher(load_session(snapshot)) for snapshot in snapshots], samples)
        reader = None if time is None else TimeReader(*time)
        for batch in join_batches(batches):
            times = _times(batch, columns) if reader is None else reader.times(batch, columns)
            yield from counter.add(_dated(batch, columns, times), dated)
        yield from counter.finish()

    return count


def _times(batch: pa.RecordBatch, columns: MessageColumns) -> pa.TimestampArray:
    """Returns the times that stand beside the messages: in their column, or those of their files."""
    kind = pa.timestamp("us", "UTC")
    if columns.published is not None:
        return batch.column(columns.published).cast(kind)
    if "_metadata" in batch.schema.names and pa.types.is_struct(batch.schema.field("_metadata").type):
        places = batch.column("_metadata")
        if places.type.get_field_index("modification_time") >= 0:
            return pc.struct_field(places, "modification_time").cast(kind)
    return pa.nulls(batch.num_rows, kind)


def _dated(batch: pa.RecordBatch, columns: MessageColumns, times: pa.TimestampArray) -> pa.RecordBatch:
    """Returns the columns of messages that are needed, with the columns ``published`` and ``day``."""
    optional = [name for name in (columns.problem, "_metadata") if name in batch.schema.names]
    wanted = list(dict.fromkeys([columns.message_id, columns.xml, *optional]))
    kept = batch.select(wanted)
    return kept.append_column("published", times).append_column("day", times.cast(pa.date32()))
