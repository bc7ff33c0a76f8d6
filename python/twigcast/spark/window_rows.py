"""The rows of windows: what messages say to them, packed, and what subscribers are told. Without Spark.

A group is one subscription and one value of its ``by``: that is what a state of :mod:`twigcast.windows.states` is of.
"""

import math
import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa

from twigcast.errors import RejectedMessage
from twigcast.limits import Limits
from twigcast.reading.conversion import to_document
from twigcast.registration import Subscription
from twigcast.spark.chain_tables import KeyedTable, MemoryTable, natural
from twigcast.spark.matching import BatchAnswer, BatchMatcher, MessageColumns, RowRejection
from twigcast.windows.declarations import Window
from twigcast.windows.documents import DigestEntry, absence_document, digest_document
from twigcast.windows.expressions import MessageValues, WindowTable
from twigcast.windows.results import changed_result, values_of_change
from twigcast.windows.states import (
    Action,
    Bucket,
    WindowEvent,
    WindowOutput,
    WindowState,
    WindowStep,
    begin,
    due,
    state_of_text,
    state_text,
    step,
)

EVENTS: Final = pa.schema(
    [
        ("key", pa.string()),
        ("window_key", pa.string()),
        ("moment", pa.int64()),
        ("place", pa.string()),
        ("packed", pa.binary()),
        ("event_time", pa.timestamp("us", "UTC")),
    ]
)
"""What a message says to one subscription: its group, what puts it in order, and all about it."""

NOTICES: Final = pa.schema(
    [
        ("key", pa.string()),
        ("window_key", pa.string()),
        ("action", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("payload", pa.string()),
        ("stands_for", pa.list_(pa.string())),
        ("old", pa.string()),
        ("new", pa.string()),
        ("trouble", pa.string()),
    ]
)
"""What subscribers are told: the columns of :func:`twigcast.spark.window_messages`."""

OVERDUE: Final = "late"
"""The action of a message that came too late to count: nobody is told of it."""
UNDECIDED: Final = "undecided"
"""The action of a message that could not be decided for a subscription."""
REJECTED: Final = "rejected"
"""The action of a message that could not be processed, for no subscription."""
_STATE: Final = "state"
_TIMER: Final = "timer"


@dataclass(frozen=True, slots=True)
class WindowedSubscription:
    """A subscription with its window."""

    window: Window
    subscription: Subscription
    used: Mapping[str, str]
    """Which of ``$old`` and ``$new`` its query uses."""


class PackedEvent(NamedTuple):
    """The statement of a message to one subscription."""

    message_id: str
    event: WindowEvent | None
    """``None``: the subscription has no window, or it does not count."""
    arrived: float | None
    """``None``: when its micro-batch runs."""
    payload: str
    rewritten: bool
    xml: bytes
    """The message, if its result has to be made anew with the value before."""
    trouble: str | None
    action: str | None = None
    """``undecided`` or ``rejected``, of what does not count."""


class EventPacker:
    """A packer of what messages say to windows.

    Args:
        windows: The subscriptions that have a window, by key.
        columns: The columns of messages.
        limits: For messages.

    Raises:
        WindowError: An expression of a window is refused.
    """

    def __init__(self, windows: Mapping[str, WindowedSubscription], columns: MessageColumns, limits: Limits) -> None:
        self._windows: WindowTable[str] = WindowTable(limits)
        for key, one in windows.items():
            self._windows.put(key, one.window, one.subscription.namespaces)
        self._by_key = windows
        self._columns = columns

    def pack(self, matcher: BatchMatcher, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields rows of :data:`EVENTS`."""
        for answer in matcher.answers(batch, self._columns):
            rows = list(self._rows(answer))
            columns = list(zip(*rows, strict=True)) or [()] * len(EVENTS)
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, field.type) for column, field in zip(columns, EVENTS, strict=True)], schema=EVENTS
            )

    def _rows(self, answer: BatchAnswer) -> Iterator[tuple[Any, ...]]:
        messages = answer.messages
        times = None if self._columns.published is None or messages.times is None else messages.times.to_pylist()
        for row, (message_id, key, window_key, packed) in self._events(answer, times):
            at = None if times is None else times[row]
            yield key, window_key, at or 0, natural(message_id), pickle.dumps(packed), at

    def _events(
        self, answer: BatchAnswer, times: list[int] | None
    ) -> Iterator[tuple[int, tuple[str, str, str, PackedEvent]]]:
        offsets, ids = answer.offsets.to_pylist(), answer.messages.ids.to_pylist()
        keys = answer.keys.take(answer.slots).to_pylist()
        payloads = answer.payload_column().to_pylist()
        by_row = {one.row: one for one in answer.rejections}
        for row, message_id in enumerate(ids):
            if row in answer.left_out:
                continue
            arrived = None if times is None else times[row] / 1_000_000
            xml = answer.messages.xml[row].as_py() or b""
            part = slice(offsets[row], offsets[row + 1])
            matching = dict(zip(keys[part], payloads[part], strict=True))
            one = _Message(message_id or "", arrived, xml, matching)
            for found in self._of_message(one, by_row.get(row)):
                yield row, (one.message_id, *found)

    def _of_message(self, one: "_Message", rejection: RowRejection | None) -> Iterator[tuple[str, str, PackedEvent]]:
        """Yields, by key and value of ``by``, what a message says."""
        if rejection is not None:
            for key in rejection.undecided:
                yield key, "", one.nothing(UNDECIDED, rejection.reason)
            if not rejection.undecided:
                yield "", "", one.nothing(REJECTED, rejection.reason)
                return
        try:
            values = self._windows.read(one.xml, one.matching)
        except RejectedMessage as error:
            yield "", "", one.nothing(REJECTED, str(error))
            return
        yield from self._of_values(one, values)

    def _of_values(self, one: "_Message", values: MessageValues | None) -> Iterator[tuple[str, str, PackedEvent]]:
        """Yields, by key and value of ``by``, what a message says that can be processed."""
        for key in one.matching:
            if key not in self._by_key:
                yield key, "", one.packed(key, None, None)
            elif values is not None:
                yield self._event(one, key, values, is_first=True)
        if values is not None:
            for key in self._windows.second_for(values):
                if key not in one.matching:
                    yield self._event(one, key, values, is_first=False)

    def _event(
        self, one: "_Message", key: str, values: MessageValues, *, is_first: bool
    ) -> tuple[str, str, PackedEvent]:
        registered = self._windows.get(key)
        assert registered is not None, "it has a window"
        size = len(one.payload(key).encode())
        # Without a time of its own, it is given that of the micro-batch when this is known.
        arrived = math.inf if one.arrived is None else one.arrived
        window_key, event, trouble = values.event(registered, one.message_id, arrived, is_first=is_first, size=size)
        if window_key is None:
            return key, "", one.nothing(UNDECIDED, trouble or "")
        xml = one.xml if self._by_key[key].used else b""
        return key, window_key, one.packed(key, event, trouble)._replace(xml=xml)


@dataclass(frozen=True)
class _Message:
    """A message with the subscriptions that it matches."""

    message_id: str
    arrived: float | None
    xml: bytes
    matching: dict[str, str | None]

    @cached_property
    def document(self) -> str:
        """The message itself, as subscriptions get it."""
        return to_document(self.xml).decode().removeprefix("\ufeff")

    def payload(self, key: str) -> str:
        """Returns what a subscription gets of it."""
        result = self.matching.get(key)
        return self.document if result is None else result

    def packed(self, key: str, event: WindowEvent | None, trouble: str | None) -> PackedEvent:
        """Returns what it says to a subscription."""
        rewritten = self.matching.get(key) is not None
        return PackedEvent(self.message_id, event, self.arrived, self.payload(key), rewritten, b"", trouble)

    def nothing(self, action: str, trouble: str) -> PackedEvent:
        """Returns that it does not count."""
        return PackedEvent(self.message_id, None, self.arrived, "", False, b"", trouble, action)


@dataclass(frozen=True, slots=True)
class WindowTables:
    """The tables of one group."""

    state: KeyedTable[str, str]
    """Its state, and the time that is registered for it."""

    kept: KeyedTable[str, bytes]
    """The messages of digests, by bucket and number."""

    @classmethod
    def in_memory(cls) -> "WindowTables":
        """Returns empty tables."""
        return cls(MemoryTable(), MemoryTable())


class WindowGroup:
    """One subscription and one value of its ``by``, for the time of one micro-batch.

    Args:
        group_key: The key of the subscription, and the value.
        subscription: The subscription; ``None`` if it has no window.
        tables: What is known of it.
        limits: For results that are made anew.
    """

    def __init__(
        self,
        group_key: tuple[str, str],
        subscription: WindowedSubscription | None,
        tables: WindowTables,
        limits: Limits,
    ) -> None:
        self._group_key = group_key
        self._subscription = subscription
        self._tables = tables
        self._limits = limits
        text = tables.state.get(_STATE)
        self._before = text
        self._state: WindowState | None = None if text is None else state_of_text(text)

    def begin(self, at: float) -> None:
        """Begins to wait for messages, if the window asks for that."""
        if self._subscription is not None and self._state is None:
            self._state = begin(self._subscription.window, at)

    def enter(self, packed: PackedEvent, now: float) -> Iterator[dict[str, Any]]:
        """Yields what the subscriber is told, now that a message has come."""
        arrived = now if packed.arrived is None else packed.arrived
        if packed.event is None or self._subscription is None:
            action = packed.action
            ids = (packed.message_id,)
            payload = None if action is not None else packed.payload
            yield self._told(action, arrived, payload, ids, trouble=packed.trouble)
            return
        event = packed.event
        if packed.arrived is None:
            event = event._replace(arrived=now)
        after = step(self._subscription.window, self._state, event)
        if after.is_late:
            yield self._told(OVERDUE, arrived, None, (packed.message_id,), trouble=packed.trouble)
        elif packed.trouble is not None and not after.outputs:
            yield self._told(UNDECIDED, arrived, None, (packed.message_id,), trouble=packed.trouble)
        yield from self._carry_out(after, packed, event)

    def wake(self, now: float) -> Iterator[dict[str, Any]]:
        """Yields what the subscriber is told by now, though no message came."""
        if self._subscription is not None:
            yield from self._carry_out(due(self._subscription.window, self._state, now), None, None)

    def fired(self, time: int) -> None:
        """Takes a time that was registered and has come: it is registered no more."""
        if self._tables.state.get(_TIMER) == str(time):
            self._tables.state.remove(_TIMER)

    def flush(self, register: Callable[[int], None], earliest: int) -> None:
        """Writes the state, and registers when :meth:`wake` is to be called, unless it is called before that anyway."""
        text = None if self._state is None else state_text(self._state)
        registered = self._tables.state.get(_TIMER)
        if self._state is not None:
            needed = max(math.ceil(self._state.due * 1000), earliest)
            if registered is None or needed < int(registered):
                register(needed)
                self._set(_TIMER, registered, str(needed))
        self._set(_STATE, self._before, text)

    def _set(self, name: str, before: str | None, now: str | None) -> None:
        if now == before:
            return
        if now is None:
            self._tables.state.remove(name)
        else:
            self._tables.state.put(name, now)

    def _carry_out(
        self, after: WindowStep, packed: PackedEvent | None, event: WindowEvent | None
    ) -> Iterator[dict[str, Any]]:
        self._state = after.state
        for output in after.outputs:
            ids = tuple(map(str, output.stands_for))
            if output.action is Action.KEEP:
                assert packed is not None, "a message is kept when it comes"
                assert event is not None, "a message is kept when it comes"
                self._keep(output, packed, event)
            elif output.action is Action.ABSENT:
                assert output.since is not None, "silence has a beginning"
                document = absence_document(self._group_key[1], output.since, output.at, ids[0] if ids else None)
                yield self._told(output.action, output.at, document.decode(), ids)
            elif output.action is Action.RELEASE:
                yield self._digest(output)
            else:
                assert packed is not None, "a message is delivered when it comes"
                yield self._message(output, packed)

    def _keep(self, output: WindowOutput, packed: PackedEvent, event: WindowEvent) -> None:
        assert output.bucket is not None, "it is kept for a digest"
        entry = DigestEntry(packed.message_id, min(event.at, event.arrived), packed.payload.encode(), packed.rewritten)
        assert self._state is not None, "it has an open digest"
        (mine,) = [one for one in self._state.buckets if one.bucket == output.bucket]
        number = mine.messages - 1
        self._tables.kept.put(_kept_name(output.bucket, number), pickle.dumps(tuple(entry)))

    def _digest(self, output: WindowOutput) -> dict[str, Any]:
        bucket = output.bucket
        assert bucket is not None, "it is a digest"
        assert self._subscription is not None, "it has a window"
        entries: list[DigestEntry] = []
        while (kept := self._tables.kept.get(_kept_name(bucket, len(entries)))) is not None:
            self._tables.kept.remove(_kept_name(bucket, len(entries)))
            entries.append(DigestEntry(*pickle.loads(kept)))  # noqa: S301 - of this stream
        entries.sort(key=lambda entry: entry.at)
        end = bucket.start + self._subscription.window.seconds
        document = digest_document(self._group_key[1], bucket.start, end, entries, part=bucket.part)
        return self._told(output.action, output.at, document.decode(), tuple(one.message_id for one in entries))

    def _message(self, output: WindowOutput, packed: PackedEvent) -> dict[str, Any]:
        assert self._subscription is not None, "it has a window"
        payload, used = packed.payload, self._subscription.used
        if used and output.old is not None and output.new is not None:
            params = values_of_change(used, output.old, output.new)
            subscription = self._subscription.subscription
            result = changed_result(subscription, params, packed.xml, arrived=output.at, limits=self._limits)
            payload = payload if result is None else result.decode()
        ids = tuple(map(str, output.stands_for))
        return self._told(output.action, output.at, payload, ids, output.old, output.new, packed.trouble)

    def _told(
        self,
        action: str | None,
        at: float,
        payload: str | None,
        ids: tuple[str, ...],
        old: str | None = None,
        new: str | None = None,
        trouble: str | None = None,
    ) -> dict[str, Any]:
        key = None if action == REJECTED else self._group_key[0]
        return {
            "key": key,
            "window_key": self._group_key[1],
            "action": None if action is None else str(action),
            "at": round(at * 1_000_000),
            "payload": payload,
            "stands_for": list(ids),
            "old": old,
            "new": new,
            "trouble": trouble,
        }


def _kept_name(bucket: Bucket, number: int) -> str:
    return f"{bucket.start!r}/{bucket.part}/{number}"


def unpack_event(packed: bytes) -> PackedEvent:
    """Returns what a message says to a subscription, as Spark has moved it."""
    event: PackedEvent = pickle.loads(packed)  # noqa: S301 - of this job
    return event


def notice_batch(packed: pa.Array) -> pa.RecordBatch:
    """Returns the rows that Spark has moved, as :data:`NOTICES` has them."""
    rows = [pickle.loads(one) for one in packed.to_pylist()]  # noqa: S301 - of this job
    times = pa.array([row["at"] for row in rows], pa.int64()).cast(NOTICES.field("at").type)
    columns = [
        times if field.name == "at" else pa.array([row[field.name] for row in rows], field.type) for field in NOTICES
    ]
    return pa.RecordBatch.from_arrays(columns, schema=NOTICES)
