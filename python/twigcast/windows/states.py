"""States of windows, and what follows from messages and from the time: no input, no output and no clock.

A state belongs to one subscription and one key. :func:`step` takes it with what a message says to the window, and
:func:`due` with the time; both return the state as it is then, and what is to be done. ``None`` is the state of a key
of which nothing is known. Whoever calls them keeps the states, and calls :func:`due` at the time that a state names, or
later: what follows is the same, whenever it is called, since :func:`step` looks first for what was due before.

Periods do not hold their end: what is *within* ten minutes is less than ten minutes apart.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from twigcast.windows.declarations import Window, WindowKind

Handle: TypeAlias = str | int
"""What the caller calls a message."""

REMEMBERED_MAX: Final = 1_000
"""How many messages of a sequence are remembered, of each of its two kinds, while late ones may come: the latest."""

DIGEST_MESSAGES_MAX: Final = 1_000
"""How many messages a digest holds; further ones of its period are another part of it."""

DIGEST_BYTES_MAX: Final = 8 << 20
"""How many bytes of messages a digest holds, unless one message alone has more."""


class WindowEvent(NamedTuple):
    """A message as the window of a subscription sees it."""

    handle: Handle
    arrived: float
    """When it came, in seconds since 1970."""
    at: float
    """When it happened; a time that lies ahead of :attr:`arrived` counts as that."""
    value: str | None = None
    """The value of ``changed``; ``None``: it says nothing of it."""
    is_first: bool = True
    """Whether the query of the subscription matches it."""
    is_second: bool = False
    """Whether it meets the condition of a ``sequence``."""
    size: int = 0
    """Bytes of what the subscription would get of it."""


class Action(StrEnum):
    """The kinds of what is to be done."""

    DELIVER = "deliver"
    """The subscription gets the message of the event."""
    ABSENT = "absent"
    """The subscription is told that no message came: no message says so."""
    KEEP = "keep"
    """The message of the event is kept for a digest."""
    RELEASE = "release"
    """What was kept for a digest goes to the subscription as one document, in order of time, then of coming."""


class Bucket(NamedTuple):
    """The period of a digest, or a part of it."""

    start: float
    part: int = 0


class WindowOutput(NamedTuple):
    """Something that is to be done for a subscription."""

    action: Action
    at: float
    """When it follows: when the message of the event came, or when it was due."""
    stands_for: tuple[Handle, ...] = ()
    """The messages that it tells of, in order; of digests, whoever keeps them knows."""
    old: str | None = None
    """The value before, where that has changed."""
    new: str | None = None
    """The value now, where that has changed."""
    bucket: Bucket | None = None
    """Of ``KEEP`` and ``RELEASE``."""
    since: float | None = None
    """Of ``ABSENT``: since when there is no message."""


class OpenBucket(NamedTuple):
    """A digest that is not sent yet."""

    bucket: Bucket
    messages: int
    size: int


class Remembered(NamedTuple):
    """A message that may count with later ones."""

    at: float
    handle: Handle
    is_second: bool = False


@dataclass(frozen=True, slots=True)
class WindowState:
    """The state of one key of one subscription."""

    due: float
    """When :func:`due` has something to do, if nothing comes before."""
    entries: tuple[Remembered, ...] = ()
    """In order of time."""
    last: float = 0.0
    """When the last message that counts happened."""
    handle: Handle | None = None
    """The last message that counts."""
    value: str = ""
    """Its value, of ``changed``."""
    count: int = 0
    """How many messages have been left out since, of ``throttle``."""
    buckets: tuple[OpenBucket, ...] = ()
    """In order."""


class WindowStep(NamedTuple):
    """The consequences of a message, or of the time."""

    state: WindowState | None
    outputs: tuple[WindowOutput, ...] = ()
    is_late: bool = False
    """Whether the message came too late to count."""


def begin(window: Window, now: float) -> WindowState | None:
    """Returns the state of the key ``""`` when a subscription begins: without ``by``, its silence counts from then."""
    if window.kind is not WindowKind.ABSENCE or window.by:
        return None
    return WindowState(now + window.seconds + window.lateness, last=now)


def step(window: Window, state: WindowState | None, event: WindowEvent) -> WindowStep:
    """Returns the outcome of a message. Outputs that were due before it come first."""
    before = due(window, state, event.arrived)
    event = event._replace(at=min(event.at, event.arrived))
    if _is_late(window, event):
        return before._replace(is_late=True)
    after = _STEPS[window.kind](window, before.state, event)
    return after._replace(outputs=before.outputs + after.outputs)


def due(window: Window, state: WindowState | None, now: float) -> WindowStep:
    """Returns the outcome of the time: outputs that are due, and the state without what can be forgotten."""
    if state is None or state.due > now:
        return WindowStep(state)
    if window.kind is WindowKind.ABSENCE:
        silent_since, last = state.last, () if state.handle is None else (state.handle,)
        return WindowStep(None, (WindowOutput(Action.ABSENT, state.due, last, since=silent_since),))
    if window.kind is WindowKind.DIGEST:
        return _release(window, state, now)
    if window.kind in (WindowKind.CHANGED, WindowKind.THROTTLE):
        return WindowStep(None)
    return WindowStep(_remembering(window, state.entries, now))


def _is_late(window: Window, event: WindowEvent) -> bool:
    if window.kind is WindowKind.DIGEST:
        return _start(window, event.at) + window.seconds + window.lateness <= event.arrived
    return event.at < event.arrived - window.lateness


# At least so many -----------------------------------------------------------------------------------------------------


def _at_least(window: Window, state: WindowState | None, event: WindowEvent) -> WindowStep:
    """Counts a message: the earliest that are enough, this one among them, are used up when they are told of."""
    entries = list(state.entries if state else ())
    position = _insert(entries, Remembered(event.at, event.handle))
    for first in range(max(0, position - window.count + 1), position + 1):
        some = entries[first : first + window.count]
        if len(some) == window.count and some[-1].at - some[0].at < window.seconds:
            left = entries[:first] + entries[first + window.count :]
            told = WindowOutput(Action.DELIVER, event.arrived, tuple(one.handle for one in some))
            return WindowStep(_remembering(window, left, event.arrived), (told,))
    return WindowStep(_remembering(window, entries, event.arrived))


def _insert(entries: list[Remembered], entry: Remembered) -> int:
    """Puts a message behind those that did not happen later; returns its position."""
    position = bisect_right(entries, entry.at, key=lambda one: one.at)
    entries.insert(position, entry)
    return position


def _remembering(window: Window, entries: Sequence[Remembered], now: float) -> WindowState | None:
    """Returns the state of a window that remembers messages, without those that count no more."""
    kept = [one for one in entries if _end(window, one) > now]
    if window.kind is WindowKind.SEQUENCE:
        kept = _needed(window, kept, now)
    if not kept:
        return None
    return WindowState(min(_end(window, one) for one in kept), tuple(kept))


def _end(window: Window, entry: Remembered) -> float:
    """Returns until when a message may count with later ones."""
    return entry.at + window.lateness + (0.0 if entry.is_second else window.seconds)


# Sequences ------------------------------------------------------------------------------------------------------------


def _sequence(window: Window, state: WindowState | None, event: WindowEvent) -> WindowStep:
    """Looks for the other half of a pair: as the second one first, since no message follows itself.

    The second message of a pair goes with the latest first one before it, and uses up those before that too. Where late
    messages may come, the first one may come after the second.
    """
    entries = list(state.entries if state else ())
    pairs: list[tuple[Handle, Handle]] = []
    if event.is_second:
        earlier = [one for one in entries if not one.is_second and 0 <= event.at - one.at < window.seconds]
        if earlier:
            pairs.append((earlier[-1].handle, event.handle))
            entries = _without_firsts(entries, earlier[-1].at)
        else:
            _insert(entries, Remembered(event.at, event.handle, True))
    if event.is_first:
        later = [one for one in entries if one.is_second and one.handle != event.handle]
        later = [one for one in later if 0 <= one.at - event.at < window.seconds]
        if later:
            pairs.append((event.handle, later[0].handle))
            entries = _without_firsts([one for one in entries if one != later[0]], event.at)
        else:
            _insert(entries, Remembered(event.at, event.handle))
    outputs = tuple(WindowOutput(Action.DELIVER, event.arrived, pair) for pair in pairs)
    return WindowStep(_remembering(window, entries, event.arrived), outputs)


def _without_firsts(entries: Sequence[Remembered], up_to: float) -> list[Remembered]:
    return [one for one in entries if one.is_second or one.at > up_to]


def _needed(window: Window, entries: Sequence[Remembered], now: float) -> list[Remembered]:
    """Returns the messages of a sequence that can still be one of a pair.

    Of first ones before which nothing can come any more, that is the latest alone.
    """
    firsts = [one for one in entries if not one.is_second]
    settled = [one for one in firsts if one.at <= now - window.lateness]
    gone = set(settled[:-1]) | set(firsts[:-REMEMBERED_MAX])
    gone |= set([one for one in entries if one.is_second][:-REMEMBERED_MAX])
    return [one for one in entries if one not in gone]


# Absence, changed values, throttles -----------------------------------------------------------------------------------


def _absence(window: Window, state: WindowState | None, event: WindowEvent) -> WindowStep:
    if state is not None and event.at < state.last:
        return WindowStep(state)
    end = event.at + window.seconds + window.lateness
    return WindowStep(WindowState(end, last=event.at, handle=event.handle))


def _changed(window: Window, state: WindowState | None, event: WindowEvent) -> WindowStep:
    """Compares a value with the last one; a message that happened before that one is late."""
    if event.value is None:
        return WindowStep(state)
    if state is not None and event.at < state.last:
        return WindowStep(state, is_late=True)
    now = WindowState(event.arrived + window.seconds, last=event.at, handle=event.handle, value=event.value)
    if state is None or state.value == event.value:
        return WindowStep(now)
    assert state.handle is not None, "a value is of a message"
    told = (state.handle, event.handle)
    return WindowStep(now, (WindowOutput(Action.DELIVER, event.arrived, told, old=state.value, new=event.value),))


def _throttle(window: Window, state: WindowState | None, event: WindowEvent) -> WindowStep:
    if state is not None and event.at < state.last + window.seconds:
        return WindowStep(replace(state, count=state.count + 1))
    end = event.at + window.seconds + window.lateness
    told = WindowOutput(Action.DELIVER, event.arrived, (event.handle,))
    return WindowStep(WindowState(end, last=event.at, handle=event.handle), (told,))


# Digests --------------------------------------------------------------------------------------------------------------


def _start(window: Window, at: float) -> float:
    """Returns when the period began in which something happened; periods are counted from 1970, in UTC."""
    return at // window.seconds * window.seconds


def _digest(window: Window, state: WindowState | None, event: WindowEvent) -> WindowStep:
    """Keeps a message for the digest of its period; one that has become too large is sent before the period ends."""
    buckets = {one.bucket: one for one in (state.buckets if state else ())}
    start = _start(window, event.at)
    mine = next((one for one in buckets.values() if one.bucket.start == start), OpenBucket(Bucket(start), 0, 0))
    outputs = []
    if mine.messages >= DIGEST_MESSAGES_MAX or (mine.messages and mine.size + event.size > DIGEST_BYTES_MAX):
        del buckets[mine.bucket]
        outputs.append(WindowOutput(Action.RELEASE, event.arrived, bucket=mine.bucket))
        mine = OpenBucket(Bucket(start, mine.bucket.part + 1), 0, 0)
    outputs.append(WindowOutput(Action.KEEP, event.arrived, (event.handle,), bucket=mine.bucket))
    buckets[mine.bucket] = OpenBucket(mine.bucket, mine.messages + 1, mine.size + event.size)
    return WindowStep(_collecting(window, list(buckets.values())), tuple(outputs))


def _release(window: Window, state: WindowState, now: float) -> WindowStep:
    over = [one for one in state.buckets if _closes(window, one) <= now]
    outputs = [WindowOutput(Action.RELEASE, _closes(window, one), bucket=one.bucket) for one in over]
    return WindowStep(_collecting(window, [one for one in state.buckets if one not in over]), tuple(outputs))


def _closes(window: Window, one: OpenBucket) -> float:
    return one.bucket.start + window.seconds + window.lateness


def _collecting(window: Window, buckets: Sequence[OpenBucket]) -> WindowState | None:
    if not buckets:
        return None
    in_order = tuple(sorted(buckets))
    return WindowState(_closes(window, in_order[0]), buckets=in_order)


_STEPS: Final = {
    WindowKind.AT_LEAST: _at_least,
    WindowKind.SEQUENCE: _sequence,
    WindowKind.ABSENCE: _absence,
    WindowKind.CHANGED: _changed,
    WindowKind.THROTTLE: _throttle,
    WindowKind.DIGEST: _digest,
}


# As they are stored ---------------------------------------------------------------------------------------------------


def state_text(state: WindowState) -> str:
    """Returns a state as a short text."""
    entries = [[one.at, one.handle, int(one.is_second)] for one in state.entries]
    buckets = [[*one.bucket, one.messages, one.size] for one in state.buckets]
    values = [state.due, entries, state.last, state.handle, state.value, state.count, buckets]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def state_of_text(text: str) -> WindowState:
    """Returns the state that :func:`state_text` has written."""
    end, entries, last, handle, value, count, buckets = json.loads(text)
    return WindowState(
        end,
        tuple(Remembered(at, one, bool(is_second)) for at, one, is_second in entries),
        last,
        handle,
        value,
        count,
        tuple(OpenBucket(Bucket(start, part), number, size) for start, part, number, size in buckets),
    )
