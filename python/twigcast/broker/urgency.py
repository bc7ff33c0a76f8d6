"""Urgency: what goes first where more waits than can be done, and what is too late.

Messages and subscriptions have a *priority*, from 0 to 9, and a *deadline*. A delivery has the higher one of the two
priorities, and the earlier one of the two deadlines. :class:`UrgencyQueue` says what is next. The broker asks it
wherever it has a choice: which publication of a tenant is evaluated next, and so stored and routed next; which request
to a host is sent next; and which delivery of a queue is next, if its subscriber does not want them in the order of
publication.
"""

from __future__ import annotations

import enum
import heapq
import json
import math
from collections import deque
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from twigcast.lifecycle.times import seconds_of
from twigcast.windows.declarations import period_text, read_period

T = TypeVar("T")

PRIORITY_MAX: Final = 9
"""The highest priority; the lowest one is 0."""

USUAL_PRIORITY: Final = 4
"""The priority where neither message nor subscription has one."""

OLDEST_EVERY: Final = 10
"""Of so many choices, one is for what has waited longest, however urgent the rest is: so nothing waits for ever, and
what is urgent has nine tenths of what can be done."""

NEVER: Final = 1e15
"""The deadline, in seconds since the epoch, of what has none."""


class OverduePolicy(enum.StrEnum):
    """A choice of what happens to deliveries that are too late."""

    MARK = "mark"
    """They are delivered after all that is in time, and say that they are late."""
    DROP = "drop"
    """They are dropped; the errors of the subscription say how many."""


@dataclass(frozen=True, slots=True)
class Urgency:
    """A declaration of the urgency of deliveries, by a subscription."""

    priority: int | None = None
    deadline_seconds: float | None = None
    """How long after a message was received its delivery is of use."""
    overdue: OverduePolicy = OverduePolicy.MARK

    def as_mapping(self) -> dict[str, object]:
        """Returns it under the names of the API."""
        words: dict[str, object] = {}
        if self.priority is not None:
            words["priority"] = self.priority
        if self.deadline_seconds is not None:
            words["deadline"] = period_text(self.deadline_seconds)
        if self.overdue is not OverduePolicy.MARK:
            words["overdue"] = self.overdue.value
        return words

    def as_text(self) -> str:
        """Returns it as it is stored."""
        return json.dumps([self.priority, self.deadline_seconds, self.overdue])

    @classmethod
    def of_text(cls, text: str) -> Urgency:
        """Returns what was stored."""
        priority, seconds, overdue = json.loads(text)
        return cls(priority, seconds, OverduePolicy(overdue))


class DeliveryUrgency(NamedTuple):
    """The urgency of one delivery."""

    priority: int = USUAL_PRIORITY
    due: float = NEVER
    """Its deadline, in seconds since the epoch."""
    is_dropped: bool = False
    """Whether it is dropped when it is late."""

    @classmethod
    def of(
        cls, priority: int | None, deadline: float | None, received: float, urgency: Urgency | None
    ) -> DeliveryUrgency:
        """Returns the urgency of the delivery of a message with a priority and a deadline to a subscription."""
        mine = urgency or Urgency()
        priorities = [one for one in (priority, mine.priority) if one is not None]
        seconds = mine.deadline_seconds
        due = min(NEVER if deadline is None else deadline, NEVER if seconds is None else received + seconds)
        return cls(max(priorities, default=USUAL_PRIORITY), due, mine.overdue is OverduePolicy.DROP and due < NEVER)


def deadline_of(text: str, now: float) -> float:
    """Returns a deadline that is written as a time, or as a period from now on.

    Raises:
        ValueError: It is neither.
    """
    try:
        return now + read_period(text, "deadline")
    except ValueError:
        moment = seconds_of(text)
    if moment is None or not math.isfinite(moment):
        raise ValueError(f"it must be a time such as 2026-01-31T12:00:00Z, or a period such as '5 min', not {text!r}")
    return moment


class _Waiting(Generic[T]):
    """Something that waits."""

    __slots__ = ("is_taken", "item")

    def __init__(self, item: T) -> None:
        self.item = item
        self.is_taken = False


class UrgencyQueue(Generic[T]):
    """A queue that knows what is next. It has no clock: who asks says what time it is.

    The next one has the highest priority; of several such, the earliest deadline; of these, it has waited longest. What
    is late comes behind all that is in time, in the order in which it came. But every :data:`OLDEST_EVERY`-th one is
    the one that has waited longest, so the n-th that waits is taken after at most ``n * OLDEST_EVERY`` choices,
    whatever comes meanwhile. Without priorities and deadlines, the first one that came is always the next one.
    """

    def __init__(self, choices: int = 0) -> None:
        self.choices = choices
        """The number of choices made."""
        self._plain: deque[T] = deque()
        """What has neither priority nor deadline, as long as nothing else waits: then nothing has to be compared."""
        self._count = 0
        """The number of all others."""
        self._arrived = 0
        self._oldest: deque[_Waiting[T]] = deque()
        self._urgent: list[tuple[int, float, int, _Waiting[T]]] = []
        """A heap, with some that are taken."""
        self._overdue: list[tuple[int, _Waiting[T]]] = []
        """A heap of those whose deadline has passed, with some that are taken."""

    def __len__(self) -> int:
        return len(self._plain) + self._count

    def push(self, item: T, priority: int = USUAL_PRIORITY, due: float = NEVER) -> None:
        """Lets something wait."""
        if priority == USUAL_PRIORITY and due == NEVER and not self._count:
            self._plain.append(item)
            return
        while self._plain:
            self._compare(self._plain.popleft(), USUAL_PRIORITY, NEVER)
        self._compare(item, priority, due)

    def _compare(self, item: T, priority: int, due: float) -> None:
        one = _Waiting(item)
        self._arrived += 1
        self._count += 1
        self._oldest.append(one)
        heapq.heappush(self._urgent, (-priority, due, self._arrived, one))

    def pop(self, now: float) -> T:
        """Returns the next one, which waits no more. Raises IndexError if nothing waits."""
        self.choices += 1
        if self._plain:
            return self._plain.popleft()
        one = self._longest_waiting() if self.choices % OLDEST_EVERY == 0 else self._most_urgent(now)
        one.is_taken = True
        self._count -= 1
        self._forget_taken()
        return one.item

    def _longest_waiting(self) -> _Waiting[T]:
        while self._oldest[0].is_taken:
            self._oldest.popleft()
        return self._oldest[0]

    def _most_urgent(self, now: float) -> _Waiting[T]:
        while self._urgent:
            _, due, number, one = self._urgent[0]
            if not one.is_taken and due > now:
                return one
            heapq.heappop(self._urgent)
            if not one.is_taken:
                heapq.heappush(self._overdue, (number, one))
        while self._overdue[0][1].is_taken:
            heapq.heappop(self._overdue)
        return self._overdue[0][1]

    def _forget_taken(self) -> None:
        """Forgets what is taken, once that is the greater part."""
        if len(self._oldest) > 2 * self._count + OLDEST_EVERY:
            self._oldest = deque(one for one in self._oldest if not one.is_taken)
        if len(self._urgent) + len(self._overdue) > 2 * self._count + OLDEST_EVERY:
            self._urgent = [entry for entry in self._urgent if not entry[3].is_taken]
            self._overdue = [entry for entry in self._overdue if not entry[1].is_taken]
            heapq.heapify(self._urgent)
            heapq.heapify(self._overdue)
