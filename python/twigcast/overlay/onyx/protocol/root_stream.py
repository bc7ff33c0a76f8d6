"""What a broker knows of the messages of one root, and to whom it passes them on.

Numbers of a root's messages are known in pieces `(after, upto]`: all messages of a piece were looked at, and those that
were wanted have been given to the application. The end of the first piece is the *horizon*; what lies between two
pieces is a *gap*, to be closed by asking the root.
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
    """Pieces, in order, that do not touch. Without a beginning nothing is known, and nothing missing."""

    def __init__(self, horizon: int | None = None) -> None:
        """Known up to a horizon.

        Args:
            horizon: `None`: not begun.
        """
        self._pieces: list[SequenceRange] = [] if horizon is None else [SequenceRange(horizon, horizon)]

    @property
    def horizon(self) -> int | None:
        """All is known up to it; `None`: not begun."""
        return self._pieces[0].upto if self._pieces else None

    @property
    def end(self) -> int | None:
        """Nothing is known above it."""
        return self._pieces[-1].upto if self._pieces else None

    def knows(self, number: int) -> bool:
        """Whether a number is known, or lies before the beginning."""
        return bool(self._pieces) and (
            number <= self._pieces[0].upto or any(piece.after < number <= piece.upto for piece in self._pieces)
        )

    def add(self, after: int, upto: int) -> bool:
        """A piece is known; whether anything of it was new. The first piece of all is the beginning."""
        if self._pieces and upto <= self._pieces[0].upto:
            return False
        first = bisect_left(self._pieces, after, key=lambda piece: piece.upto)
        last = first
        low, high = after, upto
        while last < len(self._pieces) and self._pieces[last].after <= upto:
            low, high = min(low, self._pieces[last].after), max(high, self._pieces[last].upto)
            last += 1
        merged = [SequenceRange(low, high)]
        if self._pieces[first:last] == merged:
            return False
        self._pieces[first:last] = merged
        return True

    def unknown(self, after: int, upto: int) -> Iterator[SequenceRange]:
        """The parts of a piece that are not known. What lies before the beginning counts as known."""
        if self._pieces:
            after = max(after, self._pieces[0].upto)
        for piece in self._pieces:
            if piece.upto <= after:
                continue
            if piece.after >= upto:
                break
            if piece.after > after:
                yield SequenceRange(after, piece.after)
            after = max(after, piece.upto)
        if after < upto:
            yield SequenceRange(after, upto)

    def gaps(self) -> list[SequenceRange]:
        """What lies between the pieces."""
        pieces = self._pieces
        return [SequenceRange(one.upto, other.after) for one, other in pairwise(pieces)]


@dataclass(slots=True)
class ChildLink:
    """A neighbour below a broker in the tree of a root.

    Attributes:
        number: Of its latest `Attach`.
        hops: Brokers that attachment has come through.
        awaits: The broker's own `Attach` that will answer it; `None`: that is still to be sent.
        end: What it has been sent ends here; `None`: it has not been answered, and is sent nothing.
        horizon, brokers: What it last said of itself and of all below it.
    """

    number: int
    hops: int
    awaits: int | None = None
    is_answered: bool = False
    end: int | None = None
    horizon: int | None = None
    brokers: int = 0


@dataclass(slots=True)
class RootStream:
    """The messages of one root, at one broker.

    Attributes:
        root: Whose.
        knowledge: What is known of them here.
        parent: The neighbour they come from; at the root itself, and where it cannot be reached, `None`.
        number: Of the latest `Attach` sent.
        since: Of the first one sent to the present parent.
        confirmed: Of the latest one answered by the present parent; `None`: spans do not count yet.
        announced: How many deltas the parent had been told at the latest `Attach`, and at the confirmed one.
        end: What was taken from parents, and so what can be passed on, ends here.
        children: Neighbours that are attached, or will be once that is confirmed.
        held: Neighbours that want to be, from whom the way to the root does not lead on.
        stored: Up to where the application has stored what is wanted.
        is_wanting: An `Attach` is to be sent.
        progress: Counts answers to `Recover`.
        asked_at: When its root was last asked for what is missing.
    """

    root: Root
    knowledge: ReceivedRanges
    parent: Address | None = None
    number: int = 0
    since: int = 1
    confirmed: int | None = None
    announced: dict[int, int] = field(default_factory=dict)
    confirmed_announced: int = -1
    end: int = 0
    children: dict[Address, ChildLink] = field(default_factory=dict)
    held: dict[Address, ChildLink] = field(default_factory=dict)
    stored: int | None = None
    is_wanting: bool = False
    sent_at: float = 0.0
    progress: int = 0
    asked_at_progress: int = -1
    is_recovering: bool = False
    asked_at: float = -math.inf
    reported: tuple[int, int] | None = None

    @property
    def is_confirmed(self) -> bool:
        """Whether spans from the parent count."""
        return self.confirmed is not None

    def receivers(self) -> list[Address]:
        """The children that are sent spans."""
        return [child for child, state in self.children.items() if state.end is not None]

    def leave_parent(self) -> None:
        """Spans of the present parent do not count any more."""
        self.parent = None
        self.confirmed = None
        self.confirmed_announced = -1
        self.announced.clear()
