"""The abstract data model of the experiments (CoDD, section 5): interest classes that split and merge.

Every node belongs to some of k classes; every document is mapped to all members of a fixed number of classes. Every
`cf` documents some classes are split at random and as many random pairs merged, so that interests that went together
part (drift). A query is the number of its node, or of a group of nodes with one mind in very large networks.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyroaring import BitMap

from twigcast.overlay.codd.engine import Item, Query
from twigcast.overlay.errors import ImpossibleSetting


@dataclass(frozen=True, slots=True)
class InterestShape:
    """Parameters of the abstract data model.

    Attributes:
        interests: Number of different interests (nodes, or groups of nodes with one mind).
        classes: k, the number of interest classes.
        selectivity: s, the share of interests that a document satisfies.
        change_every: cf, the documents between two shuffles; 0 for no drift.
        changes: c, the classes split at a shuffle; k / 5 by default.
    """

    interests: int = 400
    classes: int = 20
    selectivity: float = 0.2
    change_every: int = 200
    changes: int = -1

    def __post_init__(self) -> None:
        if self.interests < 1:
            raise ImpossibleSetting("interests", self.interests, "at least 1")
        if self.classes < 2:
            raise ImpossibleSetting("classes", self.classes, "at least 2")
        if not 0 < self.selectivity <= 1:
            raise ImpossibleSetting("selectivity", self.selectivity, "above 0 and at most 1")


class InterestModel:
    """Makes the stream, and is the engine that evaluates it."""

    def __init__(self, shape: InterestShape, seed: int = 0) -> None:
        self.shape = shape
        self._random = random.Random(f"interests {seed}")  # noqa: S311 - reproducible, not secret
        self.members: list[set[int]] = [set() for _ in range(shape.classes)]
        for interest in range(shape.interests):
            self.members[self._random.randrange(shape.classes)].add(interest)
        self._renumber()

    def _renumber(self) -> None:
        """The classes have new members."""
        self._masks = [_mask_of(members) for members in self.members]

    # The stream.

    def items(self, number: int) -> Iterator[Item]:
        """Yields the stream of documents, with drift."""
        for index, satisfied in self._stream(number):
            yield Item(index, satisfied)

    def _stream(self, number: int) -> Iterator[tuple[int, int]]:
        hit = max(1, round(self.shape.selectivity * self.shape.classes))
        for index in range(1, number + 1):
            if self.shape.change_every and index > 1 and (index - 1) % self.shape.change_every == 0:
                self.shuffle()
            satisfied = 0
            for chosen in self._random.sample(range(self.shape.classes), hit):
                satisfied |= self._masks[chosen]
            yield index, satisfied

    def shuffle(self) -> None:
        """Splits some classes in random halves and merges random pairs, back to k classes."""
        changes = self.shape.changes if self.shape.changes >= 0 else max(1, self.shape.classes // 5)
        chosen = self._random.sample(range(self.shape.classes), min(changes, self.shape.classes))
        for position in chosen:
            members = sorted(self.members[position])
            self._random.shuffle(members)
            half = len(members) // 2
            self.members[position] = set(members[:half])
            self.members.append(set(members[half:]))
        while len(self.members) > self.shape.classes:
            one, other = sorted(self._random.sample(range(len(self.members)), 2))
            self.members[one] |= self.members.pop(other)
        self._renumber()

    # The engine.

    def mask(self, queries: Iterable[Query]) -> int:
        """Returns queries as bits. They are numbers of interests; `EVERYTHING` is all of them."""
        mask = 0
        for query in queries:
            assert isinstance(query, int)
            mask |= 1 << query if query >= 0 else (1 << self.shape.interests) - 1
        return mask

    def satisfied(self, item: Item) -> int:
        """Returns the interests that the document itself names."""
        return int(item.content)

    def similarity(self, one: Query, other: Query) -> float:
        """Returns 1 for members of the same class at present, 0 otherwise."""
        if EVERYTHING in (one, other):
            return 1.0
        return float(any(one in members and other in members for members in self.members))

    def summarise(self, queries: frozenset[Query], limit: int) -> frozenset[Query]:
        """Replaces too many interests by interest in everything."""
        return queries if len(queries) <= limit else frozenset({EVERYTHING})

    def new_summary(self, window: int) -> RecentItems:
        """Returns a memory of the recent documents themselves."""
        return RecentItems(self, window)

    def query_bytes(self, query: Query) -> int:
        """Returns the size of a number."""
        return 4


class PlannedInterests(InterestModel):
    """The same stream, planned in advance, for very large networks.

    A bit does not stand for an interest but for a class in the time between two shuffles; an interest is the bits of
    the classes that it is going to be in. So the bits of a query do not grow with the number of interests, but with
    the length of the stream.

    Args:
        shape: Parameters of the model.
        seed: The same seed gives the same stream as `InterestModel` does.
        documents: Length of the stream.
    """

    def __init__(self, shape: InterestShape, seed: int, documents: int) -> None:
        self._times = 0
        self._bits = [0] * shape.interests
        self._now = 0
        super().__init__(shape, seed)
        self._planned = [(index, self._times, satisfied) for index, satisfied in self._stream(documents)]

    def _renumber(self) -> None:
        first = self._times * self.shape.classes
        self._times += 1
        self._masks = [1 << (first + position) for position in range(len(self.members))]
        for mask, members in zip(self._masks, self.members, strict=True):
            for member in members:
                self._bits[member] |= mask

    def items(self, number: int) -> Iterator[Item]:
        """Returns the first documents of the stream, so many of them."""
        for index, now, satisfied in self._planned[:number]:
            self._now = now
            yield Item(index, satisfied)

    def mask(self, queries: Iterable[Query]) -> int:
        """Returns the bits of all classes that the interests are going to be in."""
        mask = 0
        for query in queries:
            assert isinstance(query, int)
            mask |= self._bits[query] if query >= 0 else (1 << (self._times * self.shape.classes)) - 1
        return mask

    def similarity(self, one: Query, other: Query) -> float:
        """Returns 1 for members of the same class at present, 0 otherwise."""
        shared = self.mask([one]) & self.mask([other])
        first = max(0, self._now - 1) * self.shape.classes
        return float(bool(shared >> first & ((1 << self.shape.classes) - 1)))


#: The query that every document satisfies; the producer's own.
EVERYTHING = -1


class RecentItems:
    """Statistics by keeping the last documents and evaluating on them: exact within the window."""

    __slots__ = ("_engine", "_items", "_next", "_window")

    def __init__(self, engine: InterestModel, window: int) -> None:
        self._engine = engine
        self._window = window
        self._items: list[Item] = []
        self._next = 0

    def add(self, item: Item) -> None:
        """Keeps a document in place of the oldest."""
        if len(self._items) < self._window:
            self._items.append(item)
            return
        self._items[self._next] = item
        self._next = (self._next + 1) % self._window

    def documents(self, queries: Iterable[Query]) -> BitMap:
        """Evaluates queries on the documents that are kept."""
        mask = self._engine.mask(queries)
        return BitMap(item.number for item in self._items if self._engine.satisfied(item) & mask)


def _mask_of(members: set[int]) -> int:
    mask = 0
    for member in members:
        mask |= 1 << member
    return mask
