"""The answers of a pipeline with windows: what passes at once, and what subscribers are told later. Without Spark.

Messages, their matches and the deliveries of subscriptions without a window wait for nothing. They pass through the
tasks that keep state as a whole, a batch of messages in one row, beside the rows that say something to a window.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from twigcast.limits import Limits
from twigcast.publication import microseconds
from twigcast.spark.matching import ANSWERS, BatchAnswer, BatchMatcher, MessageColumns, RowRejection
from twigcast.spark.schemas import MATCHES, REJECTED, WINDOW_COLUMNS, WINDOW_DELIVERIES
from twigcast.spark.shipped_windows import Clock, ShippedWindows, load_windows
from twigcast.spark.window_rows import (
    OVERDUE,
    UNDECIDED,
    UNTIMED,
    Beginning,
    EventPacker,
    PackedEvent,
    WindowedSubscription,
    event_row,
    microseconds_of,
    window_rows,
)
from twigcast.windows.states import begin

_DELIVERY: Final = pa.struct([WINDOW_DELIVERIES.field(name) for name in WINDOW_DELIVERIES.names[1:]])
WINDOWED_ANSWERS: Final = pa.schema(
    [
        ("message_id", pa.string()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("bytes", pa.int64()),
        ("repairs", pa.int64()),
        ANSWERS.field("matches"),
        ("deliveries", pa.list_(_DELIVERY)),
        ANSWERS.field("rejected"),
        ("overdue", pa.int64()),
        ("untimed", pa.int64()),
    ]
)
"""A row per message, and one for each time that the subscriber of a window is told, which is no message: ``bytes`` is
null there."""

_NEVER_LATE: Final = microseconds(datetime(2200, 1, 1, tzinfo=UTC))
"""The time of rows that Spark is not to drop as late."""


class AnswerPacker:
    """A packer of the answers of a pipeline, for the tasks that keep state.

    Args:
        windows: The subscriptions that have a window, by key.
        events: What packs the messages that concern them.
        files: Whether messages without a time are put in order by the time of their file.
    """

    def __init__(self, windows: Mapping[str, WindowedSubscription], events: EventPacker, *, files: bool) -> None:
        self._windows = windows
        self._events = events
        self._files = files
        self._keys = pa.array(list(windows), pa.string())

    def begun(self, shipped: ShippedWindows) -> pa.RecordBatch:
        """Returns rows that let windows begin that count from their beginning on."""
        silent = [key for key, one in self._windows.items() if begin(one.window, 0.0) is not None]
        return window_rows(_row(key, "", -1, Beginning(shipped.began)) for key in silent)

    def pack(
        self, matcher: BatchMatcher, batch: pa.RecordBatch, columns: MessageColumns, apart: str
    ) -> Iterator[pa.RecordBatch]:
        """Yields rows of :data:`~twigcast.spark.window_rows.EVENTS`.

        Args:
            matcher: What matches the messages.
            batch: The messages.
            columns: Their columns.
            apart: The name of the group in which pass what waits for nothing.
        """
        counted = pc.is_in(matcher.keys, self._keys)
        for answer in matcher.answers(batch, columns, carry=True):
            yield window_rows(self._rows(answer, counted, apart))

    def _rows(self, answer: BatchAnswer, counted: pa.BooleanArray, apart: str) -> Iterator[tuple[Any, ...]]:
        known = {one.row for one in answer.rejections}
        added: dict[int, RowRejection] = {}
        untimed: dict[int, str] = {}
        times = self._file_times(answer)
        for row, key, window_key, packed in self._events.events(answer, counted):
            if packed.trouble is not None and packed.action in (None, UNTIMED):
                untimed[row] = packed.message_id
            elif packed.action is not None and row not in known:
                reason = f"{key}: {packed.trouble}" if key else str(packed.trouble)
                added.setdefault(row, RowRejection(row, reason, undecided=(key,) if key else ()))
            if packed.action is None:
                yield event_row(key, window_key, packed, _moment(packed, times[row], is_timed=self._events.has_clock))
        whole = replace(answer, rejections=[*answer.rejections, *added.values()])
        for batch in whole.by_message():
            yield _row("", apart, 0, _ipc(self._passed(batch)))
        if untimed:
            rows = [_no_message(message_id, untimed=1) for message_id in untimed.values()]
            yield _row("", apart, 0, _ipc(pa.RecordBatch.from_pylist(rows, WINDOWED_ANSWERS)))

    def _file_times(self, answer: BatchAnswer) -> Sequence[int]:
        carried = answer.messages.carried
        if not self._files or carried is None or "_metadata" not in carried.schema.names:
            return [0] * len(answer.messages)
        times = pc.struct_field(carried.column("_metadata"), "modification_time")
        numbers: list[int] = times.cast(pa.timestamp("us", "UTC")).cast(pa.int64()).fill_null(0).to_pylist()
        return numbers

    def _passed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns messages, with the deliveries of subscriptions without a window."""
        count, names = batch.num_rows, batch.schema.names
        sizes = batch.column("bytes") if "bytes" in names else _sizes(batch)
        columns = [
            batch.column("message_id").cast(pa.string()),
            batch.column("event_time") if "event_time" in names else pa.nulls(count, pa.timestamp("us", "UTC")),
            sizes,
            batch.column("repairs") if "repairs" in names else _repairs(batch),
            batch.column("matches"),
            self._without_windows(batch.column("deliveries")),
            batch.column("rejected"),
            pa.repeat(0, count),
            pa.repeat(0, count),
        ]
        typed = [column.cast(field.type) for column, field in zip(columns, WINDOWED_ANSWERS, strict=True)]
        return pa.RecordBatch.from_arrays(typed, schema=WINDOWED_ANSWERS)

    def _without_windows(self, deliveries: pa.ListArray) -> pa.ListArray:
        values = deliveries.flatten()
        key, payload = values.field("key"), values.field("payload")
        kept = pc.invert(pc.is_in(key, self._keys))
        counted = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(kept.cast(pa.int32()))])
        offsets = counted.take(pc.subtract(deliveries.offsets, deliveries.offsets[0]))
        number = pc.sum(kept).as_py() or 0
        columns = [key.filter(kept), payload.filter(kept)]
        columns += [pa.nulls(number, field.type) for field in WINDOW_COLUMNS]
        rows = pa.StructArray.from_arrays(columns, fields=list(_DELIVERY))
        return pa.ListArray.from_arrays(offsets, rows, type=WINDOWED_ANSWERS.field("deliveries").type)


def _moment(packed: PackedEvent, file_time: int, *, is_timed: bool) -> int:
    """Returns what puts an event in order: when its message came, which is now if it does not say that."""
    if packed.arrived is not None:
        return microseconds_of(packed.arrived)
    return microseconds(None) if is_timed else file_time


def _sizes(batch: pa.RecordBatch) -> pa.Int64Array:
    return pc.binary_length(batch.column("xml").cast(pa.large_binary())).fill_null(0)


def _repairs(batch: pa.RecordBatch) -> pa.Int64Array:
    if "_metadata" not in batch.schema.names:
        return pa.repeat(0, batch.num_rows)
    return pc.struct_field(batch.column("_metadata"), "repairs").fill_null(0)


def _row(key: str, window_key: str, moment: int, packed: object) -> tuple[Any, ...]:
    return key, window_key, moment, "", pickle.dumps(packed), _NEVER_LATE


def _ipc(batch: pa.RecordBatch) -> bytes:
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, batch.schema) as writer:
        writer.write_batch(batch)
    contents: bytes = written.getvalue().to_pybytes()
    return contents


def _no_message(message_id: str | None, **columns: object) -> dict[str, object]:
    """Returns a row that stands for no message."""
    nothing: dict[str, object] = {"repairs": 0, "matches": [], "deliveries": [], "overdue": 0, "untimed": 0}
    return {"message_id": message_id, **nothing, **columns}


def _notice_row(notice: Mapping[str, Any]) -> dict[str, object] | None:
    """Returns the row of something that a subscriber is told, or of a late message."""
    ids, at = notice["stands_for"], notice["at"]
    message_id = ids[-1] if ids else None
    if notice["action"] == OVERDUE:
        return _no_message(message_id, event_time=at, overdue=1)
    if notice["action"] == UNDECIDED:
        return None  # its time could not be read, which was counted where the message was
    told = {name: notice[name] for name in WINDOW_DELIVERIES.names[1:]}
    return _no_message(message_id, event_time=at, deliveries=[told])


@dataclass(frozen=True, slots=True)
class WindowedAnswer:
    """Some rows of :data:`WINDOWED_ANSWERS`, with the rows that a sink writes."""

    rows: pa.RecordBatch

    @classmethod
    def of(cls, packed: pa.Array) -> "Iterator[WindowedAnswer]":
        """Yields what Spark has moved."""
        notices = []
        for one in packed.to_pylist():
            moved = pickle.loads(one)  # noqa: S301 - of this job
            if isinstance(moved, bytes):
                yield from map(cls, pa.ipc.open_stream(moved))
            elif (row := _notice_row(moved)) is not None:
                notices.append(row)
        if notices:
            yield cls(pa.RecordBatch.from_pylist(notices, WINDOWED_ANSWERS))

    @property
    def rejections(self) -> Sequence[object]:
        """The messages that could not be processed, or on which a subscription is undecided."""
        rejected: Sequence[object] = self.rows.column("rejected").drop_null()
        return rejected

    def counts(self) -> dict[str, int]:
        """Returns the numbers that are not those of rows, as a task reports them."""
        messages = self.rows.num_rows - self.rows.column("bytes").null_count
        names = ("bytes", "repairs", "overdue", "untimed")
        sums = {name: pc.sum(self.rows.column(name)).as_py() or 0 for name in names}
        return {"messages": messages, **sums}

    def matches(self) -> Iterator[pa.RecordBatch]:
        """Yields rows of :data:`~twigcast.spark.schemas.MATCHES`."""
        yield self._flat("matches", MATCHES)

    def deliveries(self) -> pa.RecordBatch:
        """Returns rows of :data:`~twigcast.spark.schemas.WINDOW_DELIVERIES`."""
        return self._flat("deliveries", WINDOW_DELIVERIES)

    def rejected(self) -> pa.RecordBatch:
        """Returns rows of :data:`~twigcast.spark.schemas.REJECTED`."""
        rows = self.rows.filter(self.rows.column("rejected").is_valid())
        found = rows.column("rejected")
        columns = [rows.column("message_id"), *(found.field(name) for name in REJECTED.names[1:])]
        return pa.RecordBatch.from_arrays(columns, schema=REJECTED)

    def _flat(self, name: str, schema: pa.Schema) -> pa.RecordBatch:
        column = self.rows.column(name)
        values, parents = column.flatten(), pc.list_parent_indices(column)
        columns = [self.rows.column("message_id").take(parents), *(values.field(one) for one in schema.names[1:])]
        return pa.RecordBatch.from_arrays(columns, schema=schema)


@lru_cache(maxsize=2)
def answer_packer(
    shipped: ShippedWindows, columns: MessageColumns, limits: Limits, clock: Clock | None, *, whole: bool, files: bool
) -> AnswerPacker:
    """Returns a packer, which a worker keeps: its expressions are compiled once."""
    windows = load_windows(shipped)
    read = None if clock is None else (clock[0], dict(clock[1]))
    return AnswerPacker(windows, EventPacker(windows, columns, limits, clock=read, whole=whole), files=files)
