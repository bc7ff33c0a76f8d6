"""The rows of windows: what messages say to them, packed, and what subscribers are told. Without Spark.

A group is one subscription and one value of its ``by``: that is what a state of :mod:`twigcast.windows.states` is of.
"""

import hashlib
import math
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa

from twigcast.errors import RejectedMessage
from twigcast.lifecycle.times import seconds_of
from twigcast.limits import Limits
from twigcast.message_expressions import ExpressionValues, MessageExpressions
from twigcast.reading.conversion import to_document
from twigcast.registration import Subscription
from twigcast.spark.chain_tables import KeyedTable, MemoryTable, natural
from twigcast.spark.matching import BatchAnswer, BatchMatcher, MessageColumns, RowRejection
from twigcast.windows.declarations import Window, WindowKind, window_text
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
UNTIMED: Final = "untimed"
"""The action of a message that does not say when it came, or happened: it counts as of now."""
_CLOCK: Final = "time"
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
    payload: str | None
    """``None``: it is the message itself, and nobody asks for that."""
    rewritten: bool
    xml: bytes
    """The message, if its result has to be made anew with the value before."""
    trouble: str | None
    action: str | None = None
    """``undecided`` or ``rejected``, of what does not count; ``untimed``, of a message of which that is to be said."""


class EventPacker:
    """A packer of what messages say to windows.

    Args:
        windows: The subscriptions that have a window, by key.
        columns: The columns of messages.
        limits: For messages.
        clock: An expression that says when a message came, with its prefixes, in place of the column ``published``.
        whole: Whether messages themselves are packed for those who rewrite nothing. Digests have them in any case.

    Raises:
        WindowError: An expression of a window is refused.
        QueryError: The expression of the time is refused.
    """

    def __init__(
        self,
        windows: Mapping[str, WindowedSubscription],
        columns: MessageColumns,
        limits: Limits,
        *,
        clock: tuple[str, Mapping[str, str]] | None = None,
        whole: bool = True,
    ) -> None:
        self._windows: WindowTable[str] = WindowTable(limits)
        for key, one in windows.items():
            self._windows.put(key, one.window, one.subscription.namespaces)
        self._by_key = windows
        self._columns = columns
        self._whole = whole
        self._clock = None if clock is None else MessageExpressions(limits)
        if self._clock is not None and clock is not None:
            self._clock.add_values(_CLOCK, *clock)

    @property
    def has_clock(self) -> bool:
        """Returns whether messages say themselves when they came."""
        return self._clock is not None

    def pack(self, matcher: BatchMatcher, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields rows of :data:`EVENTS`."""
        for answer in matcher.answers(batch, self._columns):
            yield window_rows(event_row(key, window_key, packed) for _, key, window_key, packed in self.events(answer))

    def events(
        self, answer: BatchAnswer, counted: pa.BooleanArray | None = None
    ) -> Iterator[tuple[int, str, str, PackedEvent]]:
        """Yields, by row, key and value of ``by``, what messages say.

        Args:
            answer: Messages, with those whom they match.
            counted: By slot, the subscriptions that are looked at; ``None`` for all.
        """
        times = None if self._columns.published is None or answer.messages.times is None else answer.messages.times
        matching = _matching(answer, counted)
        by_row = {one.row: one for one in answer.rejections}
        for row, message_id in enumerate(answer.messages.ids.to_pylist()):
            if row in answer.left_out:
                continue
            arrived = None if times is None else times[row].as_py() / 1_000_000
            xml = answer.messages.xml[row].as_py() or b""
            one = _Message(message_id or "", arrived, xml, matching.get(row, {}))
            for found in self._of_message(one, by_row.get(row)):
                yield (row, *found)

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
            if values is not None and self._clock is not None:
                at = _time_of(self._clock.read(one.xml))
                one = replace(one, arrived=at)
                if at is None:
                    yield "", "", one.nothing(UNTIMED, "it does not say when it came, so it counts as of now")
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
        has_payload = self._whole or one.is_rewritten(key) or registered.window.kind is WindowKind.DIGEST
        size = len(one.payload(key).encode()) if has_payload else 0
        # Without a time of its own, it is given that of the micro-batch when this is known.
        arrived = math.inf if one.arrived is None else one.arrived
        window_key, event, trouble = values.event(registered, one.message_id, arrived, is_first=is_first, size=size)
        if window_key is None:
            return key, "", one.nothing(UNDECIDED, trouble or "")
        xml = one.xml if self._by_key[key].used else b""
        packed = one.packed(key, event, trouble, has_payload=has_payload)
        return key, window_key, packed._replace(xml=xml)


def _matching(answer: BatchAnswer, counted: pa.BooleanArray | None) -> dict[int, dict[str, str | None]]:
    """Returns, by row, the payloads of the subscriptions that a message matches, by key."""
    rows, slots, payloads = answer.message_rows(), answer.slots, answer.payload_column()
    if counted is not None:
        mine = counted.take(slots)
        rows, slots, payloads = rows.filter(mine), slots.filter(mine), payloads.filter(mine)
    matching: dict[int, dict[str, str | None]] = {}
    keys = answer.keys.take(slots).to_pylist()
    for row, key, payload in zip(rows.to_pylist(), keys, payloads.to_pylist(), strict=True):
        matching.setdefault(row, {})[key] = payload
    return matching


def _time_of(values: ExpressionValues) -> float | None:
    """Returns when a message says that it came."""
    text = next(iter(values.of(_CLOCK)), None)
    return None if text is None else seconds_of(text)


def event_row(key: str, window_key: str, packed: PackedEvent, moment: int | None = None) -> tuple[Any, ...]:
    """Returns a row of :data:`EVENTS`: what a message says, with what puts it in order before its id does."""
    at = None if packed.arrived is None else microseconds_of(packed.arrived)
    return (
        key,
        window_key,
        moment if moment is not None else at or 0,
        natural(packed.message_id),
        pickle.dumps(packed),
        at,
    )


def window_rows(rows: Iterable[tuple[Any, ...]]) -> pa.RecordBatch:
    """Returns rows of :data:`EVENTS` as Arrow has them."""
    columns = list(zip(*rows, strict=True)) or [()] * len(EVENTS)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, EVENTS, strict=True)], schema=EVENTS
    )


def microseconds_of(seconds: float) -> int:
    """Returns a time as rows have it."""
    return round(seconds * 1_000_000)


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

    def is_rewritten(self, key: str) -> bool:
        """Returns whether a subscription gets something else than the message itself."""
        result = self.matching.get(key)
        return result is not None and result != self.document

    def packed(
        self, key: str, event: WindowEvent | None, trouble: str | None, *, has_payload: bool = True
    ) -> PackedEvent:
        """Returns what it says to a subscription."""
        payload, is_rewritten = self.payload(key) if has_payload else None, self.is_rewritten(key)
        return PackedEvent(self.message_id, event, self.arrived, payload, is_rewritten, b"", trouble)

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
        subscription: The subscription; ``None`` if it has no window. What was known for another window is forgotten.
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
        self._name = None if subscription is None else _window_name(subscription.window)
        self._before = tables.state.get(_STATE)
        name, _, text = (self._before or "").partition("\n")
        state = state_of_text(text) if text else None
        self._is_begun = self._before is not None and name == self._name
        if state is not None and not self._is_begun:
            self._forget(state)
            state = None
        self._state: WindowState | None = state

    def _forget(self, state: WindowState) -> None:
        """Removes what is kept for the digests of a window that is no more."""
        for one in state.buckets:
            for number in range(one.messages):
                self._tables.kept.remove(_kept_name(one.bucket, number))

    def begin(self, at: float) -> None:
        """Begins to wait for messages, if the window asks for that and has not begun before."""
        if self._subscription is not None and not self._is_begun:
            self._is_begun = True
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
        registered = self._tables.state.get(_TIMER)
        if self._state is not None:
            needed = max(math.ceil(self._state.due * 1000), earliest)
            if registered is None or needed < int(registered):
                register(needed)
                self._set(_TIMER, registered, str(needed))
        self._set(_STATE, self._before, self._text())

    def _text(self) -> str | None:
        """Returns what is written of the state: with the window that it is of, as that may be another one later."""
        if self._subscription is None:
            return None
        if self._state is not None:
            return f"{self._name}\n{state_text(self._state)}"
        # Silence that was told of counts again from the next message on, and not because it has a beginning.
        has_beginning = begin(self._subscription.window, 0.0) is not None
        return f"{self._name}\n" if has_beginning and self._is_begun else None

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
        self._is_begun = self._is_begun or after.state is not None
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
        assert packed.payload is not None, "digests have messages themselves"
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


def _window_name(window: Window) -> str:
    """Returns a short name of a window, which no other one has."""
    return hashlib.sha256(window_text(window).encode()).hexdigest()[:16]


class Beginning(NamedTuple):
    """The beginning of a window: silence counts from then."""

    at: float | None
    """In seconds since 1970; ``None``: when its micro-batch runs."""


def play(group: WindowGroup, packed: bytes, now: float) -> "Iterator[dict[str, Any] | bytes]":
    """Yields what follows from a row of :data:`EVENTS`; what is no event passes as it is."""
    one: PackedEvent | Beginning | bytes = pickle.loads(packed)  # noqa: S301 - of this job
    if isinstance(one, bytes):
        yield one
    elif isinstance(one, Beginning):
        group.begin(now if one.at is None else one.at)
    else:
        yield from group.enter(one, now)


def notice_batch(packed: pa.Array) -> pa.RecordBatch:
    """Returns the rows that Spark has moved, as :data:`NOTICES` has them."""
    rows = [pickle.loads(one) for one in packed.to_pylist()]  # noqa: S301 - of this job
    times = pa.array([row["at"] for row in rows], pa.int64()).cast(NOTICES.field("at").type)
    columns = [
        times if field.name == "at" else pa.array([row[field.name] for row in rows], field.type) for field in NOTICES
    ]
    return pa.RecordBatch.from_arrays(columns, schema=NOTICES)
