"""The identifier circle, and the routing state of one ring node (Chord; Miliaraki 2008, section 2).

Identifiers are SHA-1 of addresses and keys, modulo 2^bits. Distances are always clockwise. An interval `(a, b]` runs
clockwise from a, without a, to b; `(a, a]` is the whole circle.

A node keeps its predecessor, a list of successors, the range that it answers for, and fingers. Finger i is the
successor of `self + 2^i`; of the `bits` fingers only about log2(n) differ, so only the distinct ones are kept, in order
of distance. The table therefore has O(log n) entries whatever the number of bits and of queries.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left, bisect_right, insort
from functools import lru_cache
from typing import NamedTuple

from twigcast.overlay.core import Address


class Ref(NamedTuple):
    """A reference to a ring node: its position on the circle, its address, and the life in which it was there."""

    identifier: int
    address: Address
    incarnation: int = 0


@lru_cache(maxsize=1 << 18)
def identifier_of_key(key: str, bits: int) -> int:
    """Returns the identifier of a key: SHA-1 of its UTF-8 bytes modulo 2^bits."""
    return int.from_bytes(hashlib.sha1(key.encode(), usedforsecurity=False).digest(), "big") % (1 << bits)


def identifier_of_address(address: Address, bits: int) -> int:
    """Returns the identifier of a ring node. Anyone can compute it, so a node cannot lie about its position."""
    return identifier_of_key(f"node/{address}", bits)


def distance(start: int, end: int, bits: int) -> int:
    """Returns the clockwise distance from `start` to `end`."""
    return (end - start) % (1 << bits)


def between(identifier: int, low: int, high: int, bits: int) -> bool:
    """Returns whether `identifier` lies in the open interval (low, high); (a, a) is everything but a."""
    circle = 1 << bits
    span = (high - low) % circle or circle
    return 0 < (identifier - low) % circle < span


class FingerTable:
    """The routing state of one ring node."""

    def __init__(self, own: Ref, bits: int, successors_max: int) -> None:
        self.own = own
        self.bits = bits
        self.successors_max = successors_max
        self.predecessor: Ref | None = own  #: The node before; `None` while it is unknown, the node itself when alone.
        self.successors: list[Ref] = [own]  #: Nearest first, never empty: a node alone is its own successor.
        #: Unreachable nodes, the latest last. They are asked again now and then, which joins separated rings.
        self.forgotten: dict[Address, Ref] = {}
        self.verified_span = 1 << bits  #: The node has all states with keys in so many positions up to its own.
        self._distances: list[int] = []
        self._fingers: list[Ref] = []

    @property
    def successor(self) -> Ref:
        """The next node on the circle."""
        return self.successors[0]

    @property
    def fingers(self) -> list[Ref]:
        """The distinct fingers, nearest first."""
        return self._fingers

    def gap(self, identifier: int) -> int:
        """Returns the clockwise distance from the node to an identifier."""
        return distance(self.own.identifier, identifier, self.bits)

    def gap_before(self, identifier: int) -> int:
        """Returns the clockwise distance from an identifier to the node."""
        return distance(identifier, self.own.identifier, self.bits)

    def own_span(self) -> int | None:
        """Returns how many identifiers the node is responsible for; `None` without a predecessor."""
        if self.predecessor is None:
            return None
        return self.gap_before(self.predecessor.identifier) or 1 << self.bits

    def is_responsible(self, identifier: int) -> bool:
        """Returns whether the identifier belongs to the node, as far as its predecessor shows."""
        span = self.own_span()
        return span is not None and self.gap_before(identifier) < span

    def is_verified(self, identifier: int) -> bool:
        """Returns whether the node has all state of the overlay at this identifier."""
        return self.gap_before(identifier) < self.verified_span

    def set_predecessor(self, predecessor: Ref | None) -> None:
        """Sets the predecessor. A nearer one narrows the verified range, a farther one leaves it."""
        self.predecessor = predecessor
        span = self.own_span()
        if span is not None:
            self.verified_span = min(self.verified_span, span)

    def set_successors(self, refs: list[Ref]) -> None:
        """Replaces the successor list: nearest first, without the node itself and repetitions."""
        newest: dict[Address, Ref] = {}
        for ref in refs:
            if ref.address != self.own.address and ref.incarnation >= newest.get(ref.address, ref).incarnation:
                newest[ref.address] = ref
        kept = sorted(newest.values(), key=lambda ref: self.gap(ref.identifier))
        self.successors = kept[: self.successors_max] or [self.own]

    def add_successor(self, ref: Ref) -> None:
        """Adds a node that may be among the successors."""
        self.set_successors([*self.successors, ref])

    def set_finger(self, start: int, ref: Ref) -> None:
        """Sets `ref` as the first node at or after `start`. Nodes listed in between do not exist."""
        first = bisect_left(self._distances, self.gap(start))
        last = bisect_right(self._distances, self.gap(ref.identifier) or 1 << self.bits)
        del self._distances[first:last]
        del self._fingers[first:last]
        self._insert_finger(ref)

    def _insert_finger(self, ref: Ref) -> None:
        gap = self.gap(ref.identifier)
        if gap and (gap not in self._distances):
            insort(self._distances, gap)
            self._fingers.insert(self._distances.index(gap), ref)

    def set_fingers(self, refs: list[Ref]) -> None:
        """Sets all fingers at once; `refs` are distinct, nearest first, without the node itself."""
        self._fingers = refs
        self._distances = [self.gap(ref.identifier) for ref in refs]

    def closest_preceding(self, identifier: int) -> Ref:
        """Returns the listed node nearest before an identifier, strictly, or else the successor."""
        gap = self.gap(identifier) or 1 << self.bits
        index = bisect_left(self._distances, gap)
        best = self._fingers[index - 1] if index else self.successors[0]
        if index and self._distances[index - 1] >= self.gap(self.successors[-1].identifier):
            return best
        best_gap = self._distances[index - 1] if index else 0
        for ref in self.successors:
            ref_gap = self.gap(ref.identifier)
            if best_gap < ref_gap < gap:
                best, best_gap = ref, ref_gap
        return best

    def forget(self, address: Address, before: float = math.inf) -> bool:
        """Removes a node everywhere, in its lives before an incarnation. Returns whether it was listed."""

        def is_meant(ref: Ref) -> bool:
            return ref.address == address != self.own.address and ref.incarnation < before

        gone = [
            ref for ref in (*self._fingers, *self.successors, self.predecessor) if ref is not None and is_meant(ref)
        ]
        if gone:
            self._remember(gone[-1])
            self.set_fingers([ref for ref in self._fingers if not is_meant(ref)])
            self.set_successors([ref for ref in self.successors if not is_meant(ref)])
            if self.successors == [self.own] and self._fingers:
                self.successors = [self._fingers[0]]
            if self.predecessor is not None and is_meant(self.predecessor):
                self.predecessor = None
        if self.predecessor is None and self.successor == self.own:
            # Nobody else is known: alone, until somebody turns up.
            self.predecessor = self.own
        return bool(gone)

    def _remember(self, ref: Ref) -> None:
        self.forgotten.pop(ref.address, None)
        self.forgotten[ref.address] = ref
        while len(self.forgotten) > 16:
            del self.forgotten[next(iter(self.forgotten))]

    def is_between(self, identifier: int, ref: Ref) -> bool:
        """Returns whether an identifier lies strictly between the node and `ref`."""
        return between(identifier, self.own.identifier, ref.identifier, self.bits)

    def size(self) -> int:
        """Returns the number of references held."""
        return len(self._fingers) + len(self.successors) + (self.predecessor is not None)
