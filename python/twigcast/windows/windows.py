"""Windows in a program: when subscribers are told, and of what."""

from __future__ import annotations

import heapq
import os
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twigcast.answers import Delivery
from twigcast.errors import UndecidedSubscription, UnknownKey
from twigcast.lifecycle.records import read_state, write_state
from twigcast.publication import microseconds
from twigcast.reading.text import MessageLike, as_bytes
from twigcast.windows.declarations import Window, read_window
from twigcast.windows.documents import DigestEntry, absence_document, digest_document
from twigcast.windows.explaining import WindowExplanation, explain_event
from twigcast.windows.expressions import MessageValues, WindowTable
from twigcast.windows.results import change_params, changed_result, values_of_change
from twigcast.windows.states import (
    Action,
    Bucket,
    WindowOutput,
    WindowState,
    WindowStep,
    begin,
    due,
    state_of_text,
    state_text,
    step,
)
from twigcast.windows.status import status_text

if TYPE_CHECKING:
    from twigcast.explanation import Explanation
    from twigcast.subscriptions import SubscriptionSet

FORMAT: Final = 1
"""The version of saved states."""


@dataclass(frozen=True, slots=True)
class WindowDelivery:
    """A delivery to one subscriber, at the time that its window says."""

    key: str
    """The subscription."""
    action: Action | None
    """``deliver`` for a message, ``release`` for a digest, ``absent`` where none came; ``None`` without a window."""
    payload: bytes
    """The result of the query, the message itself, or a document about several messages or none."""
    rewritten: bool
    """Whether the payload is not the message itself."""
    window_key: str = ""
    """The value of ``by``."""
    stands_for: tuple[str, ...] = ()
    """The ids of the messages that it tells of, in order."""
    old: str | None = None
    """The value before, of ``changed``."""
    new: str | None = None
    """The value now, of ``changed``."""
    at: float = 0.0
    """When it follows, in seconds since 1970."""


class WindowAnswer(NamedTuple):
    """An answer to one message."""

    deliveries: list[WindowDelivery]
    late: list[str]
    """The keys of subscriptions for whose windows it came too late to count."""
    troubles: dict[str, str]
    """By key, what could not be read of it."""
    undecided: list[UndecidedSubscription]
    """The subscriptions that could not be decided on it."""


class _Kept(NamedTuple):
    """A message that is kept for a digest."""

    message_id: str
    at: float
    payload: bytes
    rewritten: bool


class _Arrival(NamedTuple):
    """A message as one subscription gets it."""

    one: Delivery
    message_id: str
    xml: bytes
    at: float
    arrived: float


_TIMERS_MIN: Final = 1_000

_Place = tuple[str, str]
"""A subscription, and the value of ``by``."""


class Windows:
    """The windows of a set of subscriptions: who is told when, beside of what.

    Args:
        subscriptions: The set. Subscriptions of it without a window get each message as it comes.
        when: By key, when a subscription is told, such as ``{"at_least": 3, "within": "10 min"}``.

    Raises:
        WindowError: A window cannot be used.
        UnknownKey: There is no such subscription.

    It can be pickled, with the set. One thread at a time may use it; messages are to come in order.
    """

    def __init__(
        self, subscriptions: SubscriptionSet, when: Mapping[str, Mapping[str, object] | Window] | None = None
    ) -> None:
        self._subscriptions = subscriptions
        self._windows: WindowTable[str] = WindowTable(subscriptions.limits)
        self._used: dict[str, dict[str, str]] = {}
        """By key, which of ``$old`` and ``$new`` a query uses."""
        self._states: dict[_Place, WindowState] = {}
        self._kept: dict[tuple[str, str, Bucket], list[_Kept]] = {}
        self._timers: list[tuple[float, str, str]] = []
        self.late = 0
        """How many messages came too late to count, for a subscription each."""
        for key, one in (when or {}).items():
            self.add(key, one)

    def __len__(self) -> int:
        return len(self._windows)

    def __repr__(self) -> str:
        return f"<Windows of {len(self):,} subscriptions, {len(self._states):,} keys>"

    # Subscriptions ----------------------------------------------------------------------------------------------------

    def add(self, key: str, when: Mapping[str, object] | Window, *, now: datetime | None = None) -> None:
        """Says when a subscription is told. What was known for another window of it is forgotten.

        Args:
            key: The subscription.
            when: When it is told.
            now: The time from which on ``absence`` counts; ``None`` for the present.

        Raises:
            WindowError: The window cannot be used.
            UnknownKey: There is no such subscription.
        """
        subscription, window = self._subscriptions[key], read_window(when)
        used = change_params(window, subscription)
        self._windows.put(key, window, subscription.namespaces)
        self._forget(key)
        self._used[key] = used
        self._set((key, ""), begin(window, microseconds(now) / 1_000_000))

    def discard(self, key: str) -> None:
        """Removes the window of a subscription, with what is known for it; it is told of each message from then on."""
        self._windows.discard(key)
        self._forget(key)

    def _forget(self, key: str) -> None:
        self._used.pop(key, None)
        for place in [place for place in self._states if place[0] == key]:
            del self._states[place]
        for kept in [kept for kept in self._kept if kept[0] == key]:
            del self._kept[kept]

    def window(self, key: str) -> Window | None:
        """Returns the window of a subscription."""
        registered = self._windows.get(key)
        return None if registered is None else registered.window

    # Messages ---------------------------------------------------------------------------------------------------------

    def deliver(self, message: MessageLike, *, message_id: str = "", published: datetime | None = None) -> WindowAnswer:
        """Returns who is told of what, now that a message has come; what was due before comes first.

        Args:
            message: The message, as for :meth:`SubscriptionSet.match`.
            message_id: What deliveries call it.
            published: When it came, which is ``$now`` to queries; ``None`` for the present.

        Raises:
            RejectedMessage: It is malformed, or over a limit; then nothing is remembered.
        """
        xml = as_bytes(message, self._subscriptions.limits.message_bytes_max)
        arrived = microseconds(published) / 1_000_000
        found = self._subscriptions.deliver(xml, message_id=message_id, published=published)
        answer = WindowAnswer([], [], {}, list(found.undecided))
        values = self._windows.read(xml, found.keys)
        answer.deliveries.extend(self._due(arrived))
        for one in found:
            if one.key not in self._windows:
                told = WindowDelivery(one.key, None, one.payload, one.rewritten, stands_for=(message_id,), at=arrived)
                answer.deliveries.append(told)
            elif values is not None:
                self._enter(_Arrival(one, message_id, xml, arrived, arrived), values, answer, is_first=True)
        if values is not None:
            matching = frozenset(found.keys)
            for key in self._windows.second_for(values):
                if key not in matching and key in self._subscriptions:
                    arrival = _Arrival(Delivery(key, found.message), message_id, xml, arrived, arrived)
                    self._enter(arrival, values, answer, is_first=False)
        return answer

    def _enter(self, arrival: _Arrival, values: MessageValues, answer: WindowAnswer, *, is_first: bool) -> None:
        """Lets a message count for one subscription."""
        key = arrival.one.key
        registered = self._windows.get(key)
        assert registered is not None, "it has a window"
        size = len(arrival.one.payload)
        window_key, event, trouble = values.event(
            registered, arrival.message_id, arrival.arrived, is_first=is_first, size=size
        )
        if trouble is not None:
            answer.troubles[key] = trouble
        if window_key is None:
            return
        after = step(registered.window, self._states.get((key, window_key)), event)
        if after.is_late:
            answer.late.append(key)
            self.late += 1
        arrival = arrival._replace(at=min(event.at, arrival.arrived))
        answer.deliveries.extend(self._carry_out((key, window_key), after, arrival))

    def due(self, at: datetime | None = None) -> list[WindowDelivery]:
        """Returns who is told of what by now, or by another time, though no message comes.

        Args:
            at: The time; ``None`` for the present.
        """
        return list(self._due(microseconds(at) / 1_000_000))

    def _due(self, now: float) -> Iterator[WindowDelivery]:
        while self._timers and self._timers[0][0] <= now:
            _, key, window_key = heapq.heappop(self._timers)
            state, registered = self._states.get((key, window_key)), self._windows.get(key)
            if state is not None and registered is not None and state.due <= now:
                yield from self._carry_out((key, window_key), due(registered.window, state, now))

    @property
    def next_due(self) -> datetime | None:
        """Returns the time at which :meth:`due` may have something to tell; ``None`` if it has not."""
        return datetime.fromtimestamp(self._timers[0][0], UTC) if self._timers else None

    def _carry_out(self, place: _Place, after: WindowStep, arrival: _Arrival | None = None) -> Iterator[WindowDelivery]:
        """Does what follows; yields what its subscriber is told."""
        self._set(place, after.state)
        for output in after.outputs:
            if output.action is Action.KEEP:
                assert arrival is not None, "a message is kept when it comes"
                assert output.bucket is not None, "it is kept for a digest"
                one = arrival.one
                kept = _Kept(arrival.message_id, arrival.at, one.payload, one.rewritten)
                self._kept.setdefault((*place, output.bucket), []).append(kept)
            elif output.action is Action.ABSENT:
                yield self._absence(place, output)
            elif output.action is Action.RELEASE:
                yield self._digest(place, output)
            else:
                assert arrival is not None, "a message is delivered when it comes"
                yield self._message(place, output, arrival)

    def _absence(self, place: _Place, output: WindowOutput) -> WindowDelivery:
        assert output.since is not None, "silence has a beginning"
        ids = _ids(output)
        document = absence_document(place[1], output.since, output.at, ids[0] if ids else None)
        return WindowDelivery(place[0], output.action, document, True, place[1], ids, at=output.at)

    def _digest(self, place: _Place, output: WindowOutput) -> WindowDelivery:
        bucket, registered = output.bucket, self._windows.get(place[0])
        assert bucket is not None, "it is a digest"
        assert registered is not None, "it has a window"
        kept = sorted(self._kept.pop((*place, bucket)), key=lambda entry: entry.at)
        entries = [DigestEntry(entry.message_id, entry.at, entry.payload, entry.rewritten) for entry in kept]
        end = bucket.start + registered.window.seconds
        document = digest_document(place[1], bucket.start, end, entries, part=bucket.part)
        ids = tuple(entry.message_id for entry in kept)
        return WindowDelivery(place[0], output.action, document, True, place[1], ids, at=output.at)

    def _message(self, place: _Place, output: WindowOutput, arrival: _Arrival) -> WindowDelivery:
        payload, rewritten = arrival.one.payload, arrival.one.rewritten
        used, old, new = self._used[place[0]], output.old, output.new
        if used and old is not None and new is not None:
            subscription, limits = self._subscriptions[place[0]], self._subscriptions.limits
            params = values_of_change(used, old, new)
            result = changed_result(subscription, params, arrival.xml, arrived=arrival.arrived, limits=limits)
            payload = payload if result is None else result
        ids = _ids(output)
        return WindowDelivery(place[0], output.action, payload, rewritten, place[1], ids, old, new, output.at)

    def explain(
        self, message: MessageLike, key: str, *, message_id: str = "", published: datetime | None = None
    ) -> Explanation:
        """Returns why a subscription would be told of a message that came now, or not; nothing is remembered of it.

        The explanation is that of :meth:`SubscriptionSet.explain`. Its ``details`` have a member ``window``, if the
        subscription has one: what that holds (``holds``), whether its subscriber would be told (``delivers``), and why
        (``reason``).

        Args:
            message: The message.
            key: The subscription.
            message_id: What the explanation calls it.
            published: When it came; ``None`` for the present.

        Raises:
            UnknownKey: There is no such subscription.
            RejectedMessage: It is malformed, or over a limit.
            UndecidedSubscription: The query could not be decided on the message within the limits.
        """
        explanation = self._subscriptions.explain(message, key, published=published)
        if key not in self._windows:
            return explanation
        matches = explanation.matches
        return explanation.with_window(
            self.explain_window(message, key, matches=matches, message_id=message_id, published=published)
        )

    def explain_window(
        self, message: MessageLike, key: str, *, matches: bool, message_id: str = "", published: datetime | None = None
    ) -> WindowExplanation:
        """Returns what the window of a subscription would make of a message that came now.

        Args:
            message: The message.
            key: The subscription, which has a window.
            matches: Whether its query matches.
            message_id: What the explanation calls the message.
            published: When it came; ``None`` for the present.

        Raises:
            UnknownKey: There is no such window.
            RejectedMessage: The message is malformed, or over a limit.
        """
        registered = self._windows.get(key)
        if registered is None:
            raise UnknownKey(key)
        xml = as_bytes(message, self._subscriptions.limits.message_bytes_max)
        arrived = microseconds(published) / 1_000_000
        values = self._windows.values(xml)
        window_key, event, trouble = values.event(registered, message_id, arrived, is_first=matches)
        state = None if window_key is None else self._states.get((key, window_key))
        # What is due before the message is told before it.
        before = due(registered.window, state, arrived).state
        return explain_event(registered.window, window_key, before, event, trouble)

    # State ------------------------------------------------------------------------------------------------------------

    def status(self, key: str) -> dict[str, str]:
        """Returns what is known for the window of a subscription, in words, by the value of ``by``."""
        registered = self._windows.get(key)
        if registered is None:
            return {}
        mine = {place[1]: state for place, state in self._states.items() if place[0] == key}
        return {window_key: status_text(registered.window, state) for window_key, state in sorted(mine.items())}

    def _set(self, place: _Place, state: WindowState | None) -> None:
        """Sets a state, and the time at which something is to be done with it."""
        before = self._states.get(place)
        if state is None:
            self._states.pop(place, None)
            return
        self._states[place] = state
        if before is None or state.due != before.due:
            heapq.heappush(self._timers, (state.due, *place))
        if len(self._timers) > 2 * len(self._states) + _TIMERS_MIN:
            # Most are of times that states no longer name.
            self._timers = [(one.due, *name) for name, one in self._states.items()]
            heapq.heapify(self._timers)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes what is known to a file, at once or not at all; not the windows themselves.

        Raises:
            OutputError: The file cannot be written.
        """
        write_state(path, self._state(), "the windows")

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Reads what is known from a file that :meth:`save` wrote. What is known for other windows is left out.

        Raises:
            SnapshotError: The file cannot be read, is damaged, or is of a later version.
        """
        with read_state(path, FORMAT, "windows") as state:
            self._restore(state)

    def _state(self) -> dict[str, Any]:
        windows = {key: registered.window.as_mapping() for key, registered in self._windows.items()}
        return {
            "format": FORMAT,
            "late": self.late,
            "windows": windows,
            "states": [[*place, state_text(state)] for place, state in self._states.items()],
            "kept": [
                [key, window_key, *bucket, [[*one[:2], b64encode(one.payload).decode(), one.rewritten] for one in some]]
                for (key, window_key, bucket), some in self._kept.items()
            ],
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        same = {
            key
            for key, when in state["windows"].items()
            if (registered := self._windows.get(key)) is not None and registered.window == read_window(when)
        }
        states = {(key, by): state_of_text(text) for key, by, text in state["states"] if key in same}
        kept = {
            (key, by, Bucket(start, part)): [
                _Kept(name, at, text.encode(), is_result) for name, at, text, is_result in some
            ]
            for key, by, start, part, some in state["kept"]
            if key in same
        }
        for place in [place for place in self._states if place[0] in same]:
            del self._states[place]
        self._kept = {place: some for place, some in self._kept.items() if place[0] not in same} | kept
        for place, one in states.items():
            self._set(place, one)
        self.late += int(state["late"])

    def __reduce__(self) -> tuple[Any, ...]:
        windows = {key: registered.window for key, registered in self._windows.items()}
        return _unpickled, (self._subscriptions, windows, self._state())


def _unpickled(subscriptions: SubscriptionSet, windows: Mapping[str, Window], state: Mapping[str, Any]) -> Windows:
    made = Windows(subscriptions, windows)
    made._restore(state)
    return made


def _ids(output: WindowOutput) -> tuple[str, ...]:
    return tuple(str(handle) for handle in output.stands_for)
