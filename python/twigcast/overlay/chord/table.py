"""The routing state of one ring node: predecessor, successor list, distinct fingers, and the range it answers for.

Finger i is the successor of `self + 2^i`; of the `bits` fingers only about log2(n) differ, so only the distinct ones
are kept, in order of distance. The table therefore has O(log n) entries whatever the number of bits and of queries.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from twigcast.overlay.chord.identifiers import Ref, between, distance
from twigcast.overlay.core import Address


class FingerTable:
    """Routing state of one ring node.

    Attributes:
        own: The node itself.
        predecessor: Node before it; `None` while unknown, itself when alone.
        successors: Nearest first, never empty: a node alone is its own successor.
        forgotten: Nodes found unreachable, the latest last; asked again now and then, which joins parted rings.
        verified_span: The node has all the states with keys in the last `verified_span` places up to itself.
    """

    __slots__ = (
        "_distances",
        "_fingers",
        "bits",
        "forgotten",
        "own",
        "predecessor",
        "successors",
        "successors_max",
        "verified_span",
    )

    def __init__(self, own: Ref, bits: int, successors_max: int) -> None:
        self.own = own
        self.bits = bits
        self.successors_max = successors_max
        self.predecessor: Ref | None = own
        self.successors: list[Ref] = [own]
        self.forgotten: dict[Address, Ref] = {}
        self.verified_span = 1 << bits
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
        """Returns whether the identifier belongs to the node, as far as it can tell by its predecessor."""
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
        seen: set[Address] = set()
        kept: list[Ref] = []
        for ref in sorted(refs, key=lambda ref: self.gap(ref.identifier)):
            if ref.address != self.own.address and ref.address not in seen:
                seen.add(ref.address)
                kept.append(ref)
        self.successors = kept[: self.successors_max] or [self.own]

    def add_successor(self, ref: Ref) -> None:
        """Adds a node that may be among the successors."""
        self.set_successors([*self.successors, ref])

    def set_finger(self, start: int, ref: Ref) -> None:
        """Sets `ref` as the first node at or after `start`. Nodes listed in between do not exist."""
        first = bisect_left(self._distances, self.gap(start))
        last = bisect_left(self._distances, self.gap(ref.identifier) or 1 << self.bits)
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

    def forget(self, address: Address) -> bool:
        """Removes an unreachable node everywhere. Returns whether it was listed."""
        existing = False
        for index, ref in enumerate(self._fingers):
            if ref.address == address:
                del self._fingers[index]
                del self._distances[index]
                self._remember(ref)
                existing = True
                break
        for ref in self.successors:
            if ref.address == address and address != self.own.address:
                self._remember(ref)
                existing = True
                self.set_successors([other for other in self.successors if other.address != address])
                if self.successors == [self.own] and self._fingers:
                    self.successors = [self._fingers[0]]
                break
        if self.predecessor is not None and self.predecessor.address == address != self.own.address:
            self._remember(self.predecessor)
            self.predecessor = None
            existing = True
        if self.predecessor is None and self.successor == self.own:
            # Nobody else is known: alone, until somebody turns up.
            self.predecessor = self.own
        return existing

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
