"""The stream of the messages of one root at a broker: the received numbers, and the children they are forwarded to.

The received numbers form ranges `(after, upto]`: each message of a range was either handed to the application or not
wanted. The end of the first range is the *horizon*. What lies between two ranges is a *gap*, which the root is asked
to close.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from twigcast.overlay.core import Address
from twigcast.overlay.onyx.messages import Root


class SequenceRange(NamedTuple):
    """The numbers above `after`, up to `upto`."""

    after: int
    upto: int


class ReceivedRanges:
    """Disjoint ranges of received numbers, in order. Without a first range, nothing is missing."""

    def __init__(self, horizon: int | None = None) -> None:
        """Begins with all numbers up to a horizon as received; `None`: without a first range."""
        self._ranges: list[SequenceRange] = [] if horizon is None else [SequenceRange(horizon, horizon)]

    @property
    def horizon(self) -> int | None:
        """The number up to which all is received; `None` before the first range."""
        return self._ranges[0].upto if self._ranges else None

    @property
    def end(self) -> int | None:
        """The last received number."""
        return self._ranges[-1].upto if self._ranges else None

    def contains(self, number: int) -> bool:
        """Returns whether a number is received, or lies before the first range."""
        return bool(self._ranges) and (
            number <= self._ranges[0].upto or any(part.after < number <= part.upto for part in self._ranges)
        )

    def add(self, after: int, upto: int) -> bool:
        """Adds a range. Returns whether anything of it was new."""
        if self._ranges and upto <= self._ranges[0].upto:
            return False
        first = bisect_left(self._ranges, after, key=lambda part: part.upto)
        last = first
        low, high = after, upto
        while last < len(self._ranges) and self._ranges[last].after <= upto:
            low, high = min(low, self._ranges[last].after), max(high, self._ranges[last].upto)
            last += 1
        merged = [SequenceRange(low, high)]
        if self._ranges[first:last] == merged:
            return False
        self._ranges[first:last] = merged
        return True

    def missing(self, after: int, upto: int) -> Iterator[SequenceRange]:
        """Yields the parts of a range that are not received. What lies before the first range counts as received."""
        if self._ranges:
            after = max(after, self._ranges[0].upto)
        for part in self._ranges:
            if part.upto <= after:
                continue
            if part.after >= upto:
                break
            if part.after > after:
                yield SequenceRange(after, part.after)
            after = max(after, part.upto)
        if after < upto:
            yield SequenceRange(after, upto)

    def gaps(self) -> list[SequenceRange]:
        """Returns what lies between the ranges."""
        return [SequenceRange(one.upto, other.after) for one, other in pairwise(self._ranges)]


@dataclass(slots=True)
class ChildLink:
    """A neighbour below a broker in the tree of a root."""

    number: int  #: Number of its latest `Attach`.
    hops: int  #: Brokers that this attachment has passed.
    awaits: int | None = None  #: Number of the broker's own `Attach` whose answer will answer it; `None`: not sent yet.
    is_answered: bool = False  #: Whether the child was sent `Attached` for its latest `Attach`.
    end: int | None = None  #: Number up to which spans were sent; `None`: none are sent before the first answer.
    horizon: int | None = None  #: The lowest horizon of its latest report.
    brokers: int = 0  #: The number of brokers of that report.


@dataclass(slots=True)
class RootStream:
    """The messages of one root, at one broker."""

    root: Root  #: The broker whose messages these are.
    ranges: ReceivedRanges  #: The received numbers.
    #: The neighbour that they come from; `None` at the root itself, and while the root is unreachable.
    parent: Address | None = None
    number: int = 0  #: Number of the latest `Attach` sent.
    since: int = 1  #: Number of the first `Attach` sent to the current parent.
    #: Number of the latest `Attach` that the current parent has answered; `None`: spans do not count yet.
    confirmed: int | None = None
    #: By unanswered `Attach`, how many deltas the parent had been sent before it.
    announced: dict[int, int] = field(default_factory=dict)
    confirmed_announced: int = -1  #: The same count for the confirmed `Attach`.
    end: int = 0  #: Number up to which spans of parents were taken, and so can be passed on.
    #: Neighbours that are attached, or will be once this is confirmed.
    children: dict[Address, ChildLink] = field(default_factory=dict)
    #: Neighbours that ask to be attached although the path to the root leads over them.
    held: dict[Address, ChildLink] = field(default_factory=dict)
    #: Number up to which the application has stored the messages that it wants; at the root: up to which all brokers
    #: have.
    stored: int | None = None
    is_attach_due: bool = False  #: Whether an `Attach` is to be sent.
    sent_at: float = 0.0  #: Time of the latest `Attach`.
    progress: int = 0  #: Count of answers to `Recover`.
    asked_at_progress: int = -1  #: That count at the latest question.
    is_recovering: bool = False  #: Whether a question was sent and gaps are left.
    asked_at: float = -math.inf  #: Time of the latest question.
    reported: tuple[int, int] | None = None  #: The latest report sent to the parent.

    @property
    def is_confirmed(self) -> bool:
        """Returns whether spans from the parent count."""
        return self.confirmed is not None

    def receivers(self) -> list[Address]:
        """Returns the children that are sent spans."""
        return [child for child, state in self.children.items() if state.end is not None]

    def leave_parent(self) -> None:
        """Detaches from the parent. Its spans no longer count."""
        self.parent = None
        self.confirmed = None
        self.confirmed_announced = -1
        self.announced.clear()
