"""Windows on Spark: *when* subscribers are told, beside *what* they are told of, each time exactly once.

Messages are matched where they are read. What they say to one subscription and one value of its ``by`` then meets in
one task, in order; a stream keeps what is known there in Spark's state (``transformWithState``).
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from twigcast.limits import Limits
from twigcast.spark.match import snapshot_of
from twigcast.spark.matching import BatchMatcher, MessageColumns
from twigcast.spark.shipped_windows import windowed
from twigcast.spark.snapshots import load_session
from twigcast.spark.sources.source import Batches, check_message_columns
from twigcast.spark.state import (
    RELATED_DDL,
    StateTable,
    check_state_store,
    milliseconds_now,
    packed_batches,
    packed_frames,
    packed_in_order,
    seconds_now,
    watermark_of,
    watermarked,
)
from twigcast.spark.window_rows import (
    EVENTS,
    NOTICES,
    Beginning,
    EventPacker,
    WindowedSubscription,
    WindowGroup,
    WindowTables,
    notice_batch,
    play,
)
from twigcast.subscriptions import SubscriptionSet
from twigcast.windows.declarations import Window
from twigcast.windows.states import begin

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

_NAME: Final = "the DataFrame of messages"


def window_messages(
    messages: DataFrame,
    subscriptions: SubscriptionSet,
    when: Mapping[str, Mapping[str, object] | Window],
    *,
    message_id: str = "message_id",
    xml: str = "xml",
    problem: str = "problem",
    published: str | None = None,
    began: datetime | None = None,
) -> DataFrame:
    """Matches messages, and says when subscribers are told of them: what :class:`twigcast.Windows` does in a program.

    Works on DataFrames and on streams. A stream keeps what it knows in its checkpoint, and needs
    ``spark.sql.streaming.stateStore.providerClass`` to be RocksDB's. What is due goes by the clock, with a micro-batch
    at each of its intervals, or by the watermark, if the stream has one of the column ``published``. A batch job tells
    at its end what is due by then.

    Args:
        messages: A row per message.
        subscriptions: The set. Subscriptions of it without a window are told of each message.
        when: By key, when a subscription is told, such as ``{"at_least": 3, "within": "10 min"}``.
        message_id: The column of ids, of any type that casts to a string.
        xml: The column of messages: string or binary.
        problem: The column that says why a message could not be read, or null.
        published: The column of timestamps that says when each message came, which is ``$now`` to queries; by default
            that is the time of its micro-batch. Messages are put in order by it, then by their ids.
        began: When the subscriptions began, from which on silence counts for ``absence`` without ``by``; by default
            when the stream runs for the first time.

    Returns:
        A row for each time that somebody is told: ``key``; ``window_key``, the value of ``by``; ``action``: ``deliver``
        for a message, ``release`` for a digest, ``absent`` where none came, null without a window; ``at``; ``payload``;
        ``stands_for``, the ids of its messages; ``old`` and ``new`` of ``changed``; ``trouble``, what could not be
        read. And for what nobody is told of: ``late``, ``undecided`` and ``rejected`` messages.

    Raises:
        WindowError: A window cannot be used.
        UnknownKey: There is no such subscription.
        SourceError: A column is missing.
        PipelineError: The stream has no state store that can be used.
    """
    columns = check_message_columns(messages, _NAME, MessageColumns(message_id, xml, problem, published))
    check_state_store(messages)
    windows = {key: windowed(subscriptions[key], one) for key, one in when.items()}
    EventPacker(windows, columns, subscriptions.limits)  # its expressions are refused here, not in a task
    snapshot = snapshot_of(messages, subscriptions)

    def pack(batches: Batches) -> Batches:
        matcher = BatchMatcher(load_session(snapshot))
        packer = EventPacker(windows, columns, snapshot.limits)
        for batch in batches:
            yield from packer.pack(matcher, batch)

    at = None if began is None else began.timestamp()
    windowing = Windowing(
        FixedWindows(windows), snapshot.limits, watermark_of(messages, published), silent_keys(windows), at
    )
    return windowing.notices(messages, pack).mapInArrow(_unpack, from_arrow_schema(NOTICES))


class WindowSource(Protocol):
    """A source of windows, in a task."""

    def load(self) -> Mapping[str, WindowedSubscription]:
        """Returns the subscriptions that have a window, by key."""


@dataclass(frozen=True, slots=True)
class FixedWindows:
    """Windows that stay as they are."""

    windows: Mapping[str, WindowedSubscription]

    def load(self) -> Mapping[str, WindowedSubscription]:
        """Returns them."""
        return self.windows


def silent_keys(windows: Mapping[str, WindowedSubscription]) -> list[str]:
    """Returns the subscriptions for which silence counts from their beginning on."""
    return [key for key, one in windows.items() if begin(one.window, 0.0) is not None]


@dataclass(frozen=True, slots=True)
class Windowing:
    """The tasks that know what came before, of a batch job or a stream. Spark pickles it for each of them."""

    source: WindowSource
    limits: Limits
    watermark: int | None
    """By how many milliseconds a message may be late; ``None`` if what is due goes by the clock."""
    silent: Sequence[str]
    """The subscriptions for which silence counts from their beginning on, when it starts."""
    began: float | None
    may_change: bool = False
    """Whether subscriptions come and go while a stream runs."""

    def notices(self, messages: DataFrame, pack: Callable[[Batches], Batches]) -> DataFrame:
        """Returns what subscribers are told, packed, and what passes as it is.

        Args:
            messages: The messages.
            pack: Makes rows of :data:`~twigcast.spark.window_rows.EVENTS` of them, in a task.
        """
        if not messages.isStreaming:
            return self._at_once(messages, pack)
        events = messages.mapInArrow(pack, watermarked(EVENTS, self.watermark)).groupBy("key", "window_key")
        begun = None
        if self.silent or self.may_change:
            # A stream that begins with some subscriptions may go on with others, and its plan stays.
            first = [(key, "", self.began) for key in self.silent]
            names = "key string, window_key string, began double"
            begun = messages.sparkSession.createDataFrame(first, names).groupBy("key", "window_key")
        mode = "ProcessingTime" if self.watermark is None else "EventTime"
        processor = WindowProcessor(self.source, self.limits, has_watermark=self.watermark is not None)
        return events.transformWithStateInPandas(processor, RELATED_DDL, "Append", mode, begun)

    def _at_once(self, messages: DataFrame, pack: Callable[[Batches], Batches]) -> DataFrame:
        events = messages.mapInArrow(pack, from_arrow_schema(EVENTS))
        if self.silent:
            # What begins comes before all messages, also where there are none.
            began = pickle.dumps(Beginning(self.began))
            first = [(key, "", -1, "", began, None) for key in self.silent]
            events = events.union(messages.sparkSession.createDataFrame(first, from_arrow_schema(EVENTS)))
        apart = events.repartition("key", "window_key").sortWithinPartitions("key", "window_key", "moment", "place")
        return apart.mapInArrow(self._play, RELATED_DDL)

    def _play(self, batches: Batches) -> Batches:
        """Plays the messages of a batch job, group by group, up to now."""
        windows = self.source.load()
        rows = (row for batch in batches for row in batch.select(["key", "window_key", "packed"]).to_pylist())
        for place, events in groupby(rows, key=lambda row: (row["key"], row["window_key"])):
            group = WindowGroup(place, windows.get(place[0]), WindowTables.in_memory(), self.limits)
            yield from packed_batches(_of_group(group, events))


def _of_group(group: WindowGroup, events: Iterable[dict[str, Any]]) -> Iterator[object]:
    now = seconds_now()
    for row in events:
        yield from play(group, row["packed"], now)
    yield from group.wake(now)


@dataclass
class WindowProcessor(StatefulProcessor):
    """The part of a stream that knows what came before: what Spark calls for each group and each time that was set."""

    source: WindowSource
    limits: Limits
    has_watermark: bool
    _windows: Mapping[str, WindowedSubscription] | None = field(default=None, init=False)
    _tables: WindowTables | None = field(default=None, init=False)
    _handle: StatefulProcessorHandle | None = field(default=None, init=False)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Opens the state."""
        self._handle = handle
        self._tables = WindowTables(
            StateTable(handle.getMapState("state", "name string", "text string")),
            StateTable(handle.getMapState("kept", "name string", "message binary")),
        )

    def handleInitialState(  # noqa: N802 - Spark's name
        self,
        key: Any,
        initialState: Any,  # noqa: N803
        timerValues: "TimerValues",  # noqa: N803
    ) -> None:
        """Begins to wait for messages."""
        group = self._group(key)
        (began,) = initialState["began"]
        group.begin(seconds_now() if began != began or began is None else float(began))
        self._flush(group, timerValues)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: "TimerValues",  # noqa: N803
    ) -> Iterator[Any]:
        """Lets the messages of a group in a micro-batch count."""
        events = packed_in_order(rows)
        group, now = self._group(key), self._now(timerValues)
        told = (row for packed in events for row in play(group, bytes(packed), now))
        yield from packed_frames(told)
        self._flush(group, timerValues)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: "TimerValues",  # noqa: N803
        expiredTimerInfo: "ExpiredTimerInfo",  # noqa: N803
    ) -> Iterator[Any]:
        """Tells what is due."""
        group = self._group(key)
        group.fired(expiredTimerInfo.getExpiryTimeInMs())
        yield from packed_frames(group.wake(self._now(timerValues)))
        self._flush(group, timerValues)

    def close(self) -> None:
        """Does nothing: Spark closes the state."""

    def _now(self, times: "TimerValues") -> float:
        return milliseconds_now(times, has_watermark=self.has_watermark) / 1000

    def _group(self, key: Any) -> WindowGroup:
        assert self._tables is not None, "Spark opens the state first"
        group_key = (str(key[0]), str(key[1]))
        if self._windows is None:
            self._windows = self.source.load()
        return WindowGroup(group_key, self._windows.get(group_key[0]), self._tables, self.limits)

    def _flush(self, group: WindowGroup, times: "TimerValues") -> None:
        assert self._handle is not None, "Spark opens the state first"
        earliest = milliseconds_now(times, has_watermark=self.has_watermark) + 1
        group.flush(self._handle.registerTimer, earliest)


def _unpack(batches: Batches) -> Batches:
    for batch in batches:
        yield notice_batch(batch.column(0))
