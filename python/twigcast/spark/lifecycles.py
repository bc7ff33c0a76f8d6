"""Life cycles on Spark: messages that update, cancel and repeat each other, each followed exactly once.

Messages are matched where they are read. Those of one group then meet in one task, in order, which knows what came
before: a stream keeps that in Spark's state (``transformWithState``), which lies in the checkpoint and belongs to the
micro-batch.
"""

import base64
import inspect
import pickle
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import StructField, StructType

from twigcast.errors import PipelineError, SourceError
from twigcast.spark.chain_tables import ChainGroup, ChainTables
from twigcast.spark.lifecycle_settings import LifecycleSettings
from twigcast.spark.match import snapshot_of
from twigcast.spark.matching import BatchMatcher, MessageColumns
from twigcast.spark.related_rows import (
    PACKED,
    RELATED_ANSWERS,
    MessagePacker,
    RelatedAnswer,
    expired,
    relate,
)
from twigcast.spark.session import changed_settings
from twigcast.spark.snapshots import Snapshot, load_session
from twigcast.spark.sources.source import Batches, check_message_columns
from twigcast.spark.state import (
    PARTITIONS,
    RELATED_DDL,
    STATE_SETTINGS,
    StateTable,
    check_protobuf,
    check_state_store,
    milliseconds_now,
    packed_batches,
    packed_frames,
    packed_in_order,
    seconds_now,
    watermark_of,
    watermarked,
)
from twigcast.subscriptions import SubscriptionSet

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

POPULATION: Final = "spark.twigcast.population"
"""The setting by which a micro-batch tells its tasks what to match with."""

_NAME: Final = "the DataFrame of messages"


def relate_messages(
    messages: DataFrame,
    population: Snapshot | SubscriptionSet,
    lifecycle: LifecycleSettings,
    *,
    message_id: str = "message_id",
    xml: str = "xml",
    problem: str = "problem",
    deliver: bool = True,
    nodes: bool = False,
) -> DataFrame:
    """Matches messages, and says what each is to those who get it: also those whom its original matched.

    The answers are those of :func:`~twigcast.spark.match_messages`, but ``deliveries`` has an element for each
    subscription that gets the message, with its relation, and there is a row for each matter that is over by the time:
    it has the id of its latest message, and of the other columns nothing. Works on DataFrames and on streams. A stream
    keeps what it knows in its checkpoint, needs ``spark.sql.streaming.stateStore.providerClass`` to be RocksDB's, and
    has a micro-batch at each of its intervals, since something may expire: with ``availableNow`` it ends only if expiry
    goes by a watermark.

    Args:
        messages: A row per message, with any columns. The message itself does not come out again.
        population: A set of subscriptions, or a snapshot that was shipped to this Spark session already. An envelope is
            left out.
        lifecycle: How messages are followed.
        message_id: The column of ids, of any type that casts to a string.
        xml: The column of messages: string or binary.
        problem: The column that says why a message could not be read, or null.
        deliver: Whether to rewrite messages.
        nodes: Whether to count the selected nodes.

    Returns:
        The columns of ``messages`` without the message and its problem, then ``effect``, what the message turned out to
        be; ``trouble``, what could not be read of it; ``matches``, an array of (``key``, ``nodes``), of duplicates too;
        ``deliveries``, an array of (``key``, ``payload``, ``relation``); ``rejected``, as
        :func:`~twigcast.spark.match_messages` has it.

    Raises:
        SourceError: A column is missing, or has a name that an added column has.
        PipelineError: The stream has no state store that can be used.
    """
    snapshot = snapshot_of(messages, population)
    columns = MessageColumns(message_id, xml, problem, lifecycle.published)
    relating = Relating.of(messages, lifecycle, columns, FixedPopulation(snapshot), deliver=deliver, nodes=nodes)
    check_state_store(messages)
    return relating.answers(relating.related(messages))


@contextmanager
def state_settings(spark: SparkSession, lifecycle: LifecycleSettings | None) -> Iterator[None]:
    """Sets what a stream that follows messages needs; afterwards the session has its own settings again."""
    if lifecycle is None:
        yield
        return
    check_protobuf()
    # One group needs one task: each more would open a store of its own in each micro-batch, for nothing.
    settings = {**STATE_SETTINGS, **({PARTITIONS: "1"} if lifecycle.by is None else {})}
    with changed_settings(spark, settings):
        yield


@dataclass(frozen=True, slots=True)
class FixedPopulation:
    """A population that stays as it is."""

    snapshot: Snapshot

    def load(self) -> Snapshot:
        """Returns the snapshot."""
        return self.snapshot


@dataclass(frozen=True, slots=True)
class PopulationOfBatch:
    """The population that the driver has chosen for a micro-batch, in one of its tasks.

    The plan of a stream that keeps state is made when it starts, so what changes from one micro-batch to the next
    reaches its tasks as a setting: Spark hands those of the session to each task.
    """

    def load(self) -> Snapshot:
        """Returns the snapshot, in a task."""
        context = TaskContext.get()
        text = None if context is None else context.getLocalProperty(POPULATION)
        if text is None:
            raise PipelineError("a task was not told what to match with: the rows belong to a stream of run_pipeline")
        snapshot: Snapshot = pickle.loads(base64.b64decode(text))  # noqa: S301 - of this job
        return snapshot


def choose_population(spark: SparkSession, snapshot: Snapshot) -> None:
    """Sets the population of a micro-batch, in the session of its rows."""
    spark.conf.set(POPULATION, base64.b64encode(pickle.dumps(snapshot)).decode())


@dataclass(frozen=True, slots=True)
class Relating:
    """The work on messages: settings, columns and subscriptions. Spark pickles it for each task."""

    settings: LifecycleSettings
    columns: MessageColumns
    population: FixedPopulation | PopulationOfBatch
    own: StructType
    """The columns that come out again."""
    is_stream: bool
    watermark: int | None
    """By how many milliseconds a message may be late; ``None`` if expiry goes by the clock."""
    deliver: bool
    nodes: bool

    @property
    def has_watermark(self) -> bool:
        """Returns whether expiry goes by the watermark of a stream."""
        return self.watermark is not None

    @classmethod
    def of(
        cls,
        messages: DataFrame,
        settings: LifecycleSettings,
        columns: MessageColumns,
        population: FixedPopulation | PopulationOfBatch,
        *,
        kept: Collection[str] | None = None,
        deliver: bool = True,
        nodes: bool = False,
    ) -> "Relating":
        """Returns what is to be done, after checking the columns, of which all come out again or those to be `kept`.

        Raises:
            SourceError: A column is missing, or has a name that an added column has.
        """
        checked = check_message_columns(messages, _NAME, columns)
        left_out = {checked.xml, checked.problem}
        for column in (settings.by, settings.order):
            if column is not None and column not in messages.columns:
                raise SourceError(_NAME, f"there is no column {column}; the columns are {', '.join(messages.columns)}")
        wanted = [one for one in messages.columns if one not in left_out] if kept is None else kept
        own = StructType([one for one in messages.schema.fields if one.name in wanted])
        taken = [name for name in own.fieldNames() if name.lower() in RELATED_ANSWERS.names]
        if taken:
            raise SourceError(_NAME, f"the answers add a column {taken[0]}, and there is one already: rename it before")
        return cls(
            settings,
            checked,
            population,
            own,
            is_stream=messages.isStreaming,
            watermark=watermark_of(messages, settings.published),
            deliver=deliver,
            nodes=nodes,
        )

    def related(self, messages: DataFrame) -> DataFrame:
        """Returns the messages after they were related, packed."""
        if not self.is_stream:
            rows = messages.mapInArrow(self._pack, from_arrow_schema(PACKED))
            apart = rows.repartition(1) if self.settings.by is None else rows.repartition("group")
            in_order = apart.sortWithinPartitions("group", "moment", "place")
            return in_order.mapInArrow(self._relate_sorted, RELATED_DDL)
        rows = messages.mapInArrow(self._pack, watermarked(PACKED, self.watermark))
        processor = ChainProcessor(self.settings, self.population, has_watermark=self.has_watermark)
        mode = "EventTime" if self.has_watermark else "ProcessingTime"
        return rows.groupBy("group").transformWithStateInPandas(processor, RELATED_DDL, "Append", mode)

    def answers(self, related: DataFrame) -> DataFrame:
        """Returns a row per message: the columns of the user, then those that were added."""
        own, message_id = arrow_schema(self.own), self.columns.message_id

        def unpack(batches: Batches) -> Batches:
            for batch in batches:
                yield RelatedAnswer.of(batch.column(0)).by_message(own, message_id)

        fields = [StructField(one.name, one.dataType) for one in self.own.fields]
        return related.mapInArrow(unpack, StructType([*fields, *from_arrow_schema(RELATED_ANSWERS).fields]))

    def _pack(self, batches: Batches) -> Batches:
        snapshot = self.population.load()
        if snapshot.envelope is not None:
            raise PipelineError("an envelope cannot be used together with life cycles")
        matcher = BatchMatcher(load_session(snapshot), deliver=self.deliver, nodes=self.nodes, whole=snapshot.whole)
        packer = MessagePacker(
            self.settings, self.columns, tuple(self.own.fieldNames()), whole=snapshot.whole, files=self.is_stream
        )
        for batch in batches:
            yield from packer.pack(matcher, batch, snapshot.limits)

    def _relate_sorted(self, batches: Batches) -> Batches:
        """Relates the messages of a batch job, group by group. What is over by now is told at the end of each."""
        rows = (
            (group, packed)
            for batch in batches
            for group, packed in zip(batch.column("group").to_pylist(), batch.column("packed").to_pylist(), strict=True)
        )
        for _, group_rows in groupby(rows, key=lambda row: row[0]):
            now, waiting = seconds_now(), set[int]()
            group = ChainGroup(
                ChainTables.in_memory(), self.settings, PopulationKeys(self.population).__contains__, waiting.add, 0
            )
            yield from packed_batches(relate(group, (packed for _, packed in group_rows), now))
            for due in sorted(due for due in waiting if due <= now * 1000):
                yield from packed_batches(expired(group, due, now))


def arrow_schema(columns: StructType) -> pa.Schema:
    """Returns the Arrow schema of columns, as Spark hands them to workers. Since Spark 4.2 it asks for a time zone."""
    asks = "timezone" in inspect.signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if asks else {}
    return to_arrow_schema(columns, **zone)


def relating_of_batch(
    messages: DataFrame,
    settings: LifecycleSettings,
    snapshot: Snapshot,
    *,
    nodes: bool,
    kept: Collection[str] = ("message_id",),
) -> Relating:
    """Returns what a pipeline does with messages: a stream matches each micro-batch with what is chosen for that.

    Raises:
        SourceError: A column is missing.
    """
    columns = MessageColumns(published=settings.published)
    population = PopulationOfBatch() if messages.isStreaming else FixedPopulation(snapshot)
    return Relating.of(messages, settings, columns, population, kept=kept, nodes=nodes)


class PopulationKeys:
    """The keys of the subscriptions that there are, loaded when first asked for: most messages need none of them."""

    def __init__(self, population: FixedPopulation | PopulationOfBatch) -> None:
        self._population = population
        self._has_key: Callable[[str], bool] | None = None

    def __contains__(self, key: object) -> bool:
        if self._has_key is None:
            engine = load_session(self._population.load()).engine
            self._has_key = lambda key: engine.slots_of([key])[0] is not None
        return self._has_key(str(key))


@dataclass
class ChainProcessor(StatefulProcessor):
    """The part of a stream that knows what came before: what Spark calls for each group and each time that was set."""

    settings: LifecycleSettings
    population: FixedPopulation | PopulationOfBatch
    has_watermark: bool
    _tables: ChainTables | None = field(default=None, init=False)
    _handle: StatefulProcessorHandle | None = field(default=None, init=False)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the state."""
        self._handle = handle
        self._tables = ChainTables(
            StateTable(handle.getMapState("names", "name string", "chain bigint")),
            StateTable(handle.getMapState("chains", "chain bigint", "record string")),
            StateTable(handle.getMapState("due", "due bigint", "chains string")),
        )

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: "TimerValues",  # noqa: N803
    ) -> Iterator[Any]:
        """Relates the messages of a group in a micro-batch."""
        messages = packed_in_order(rows)
        group = self._group(timerValues)
        # By the clock, the time of a micro-batch is the same when that is run again.
        now = seconds_now() if self.has_watermark else self._now(timerValues) / 1000
        yield from packed_frames(relate(group, messages, now))
        group.flush()

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: "TimerValues",  # noqa: N803
        expiredTimerInfo: "ExpiredTimerInfo",  # noqa: N803
    ) -> Iterator[Any]:
        """Ends the matters of a group that are over, and forgets those that are old."""
        group = self._group(timerValues)
        due = expiredTimerInfo.getExpiryTimeInMs()
        yield from packed_frames(expired(group, due, self._now(timerValues) / 1000))
        group.flush()

    def close(self) -> None:
        """Does nothing: Spark closes the state."""

    def _now(self, times: "TimerValues") -> int:
        return milliseconds_now(times, has_watermark=self.has_watermark)

    def _group(self, times: "TimerValues") -> ChainGroup:
        assert self._tables is not None, "Spark opens the state first"
        assert self._handle is not None, "Spark opens the state first"
        keys = PopulationKeys(self.population)
        return ChainGroup(
            self._tables, self.settings, keys.__contains__, self._handle.registerTimer, self._now(times) + 1
        )
