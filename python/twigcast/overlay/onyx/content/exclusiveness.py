"""Query partitioning by exclusiveness patterns, PEP (Diao 2005, section 7.5).

A message should match as few partitions as possible. Queries that require different values of the same attribute or
text exclude each other, such as `/a/b[@id = 1]` and `/a/b[@id = 2]`, if a message has few such elements. An
*exclusiveness pattern* is a path with the attribute or text that is compared by `=`, without the constant.

1. *Pattern selection*: patterns are chosen greedily, each time the one that occurs in most queries not yet covered,
   until every query with a pattern has a chosen one. Then chosen patterns are replaced by others that occur at most
   once in a message, if coverage is not lost.
2. *Partition creation*: the sorted constants of each chosen pattern are split into K buckets. A query goes to the
bucket
   of its constant, of a random one of its chosen patterns. Partition *i* is bucket *i* of all patterns.

If each of M patterns occurs at most once, a message matches at most M of the K partitions. Queries without an equality
go to one more partition, *don't care*, which counts as always matched.

Partitioning is used by the experiment of figure 7.7 (`twigcast.lab.experiments.diao2005.figure_7_07`) and by Spark
jobs whose population is sharded (`twigcast.spark.sharding`). The choice of a broker for profiles
(`twigcast.overlay.onyx.registry.catalogue`) may use it later.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate
from random import Random
from typing import NamedTuple, TypeAlias
from xml.etree import ElementTree as ET

from twigcast.limits import Limits
from twigcast.overlay.core import Address
from twigcast.overlay.documents import number_of
from twigcast.overlay.errors import ImpossibleSetting
from twigcast.overlay.onyx.content.linear import path_of, steps_of
from twigcast.overlay.onyx.messages import LinearPath, RoutingQuery
from twigcast.query import Compare, Literal, Number, Operator, Path
from twigcast.registration import Subscription
from twigcast.subscriptions import SubscriptionSet

#: A constant with which a pattern is compared.
Constant: TypeAlias = str | float


class ExclusivenessPattern(NamedTuple):
    """A path without conditions, and the subject of a comparison at its last element, such as `@id` or `.`."""

    path: LinearPath
    subject: str


#: The patterns of one query with their constants.
Selections: TypeAlias = frozenset[tuple[ExclusivenessPattern, Constant]]


def selections_of(query: RoutingQuery) -> Selections:
    """Returns the patterns and constants without which no message matches a query: those of all its alternatives."""
    results = [_of_conjunction(disjunct.paths) for disjunct in query]
    return frozenset.intersection(*results) if results else frozenset()


def _of_conjunction(paths: Iterable[LinearPath]) -> Selections:
    return frozenset(
        (
            ExclusivenessPattern(
                path_of(tuple(step._replace(conditions=()) for step in steps[: index + 1])), str(left)
            ),
            value,
        )
        for steps in map(steps_of, paths)
        for index, step in enumerate(steps)
        for condition in step.conditions
        for left, value in _equality(condition)
    )


def _equality(condition: object) -> list[tuple[Path, Constant]]:
    match condition:
        case Compare(Operator.EQUAL, Path() as left, Literal(value) | Number(value)):
            return [(left, value)]
    return []


# Pattern selection.


def coverage(queries: Iterable[Selections]) -> dict[ExclusivenessPattern, list[int]]:
    """Returns, by pattern, the numbers of the queries that have it."""
    results: dict[ExclusivenessPattern, list[int]] = {}
    for number, selections in enumerate(queries):
        for pattern in {pattern for pattern, _ in selections}:
            results.setdefault(pattern, []).append(number)
    return results


def select_patterns(
    queries: Sequence[Selections], occurs_once: Callable[[ExclusivenessPattern], bool]
) -> list[ExclusivenessPattern]:
    """Returns patterns that together cover all queries with any pattern.

    Args:
        queries: The selections of each query.
        occurs_once: Returns whether a pattern occurs at most once in any message, by the schema or by experience.
    """
    involved = coverage(queries)
    chosen = _greedy_cover(involved, len(queries))
    return _swapped(chosen, involved, occurs_once, len(queries))


def _greedy_cover(involved: Mapping[ExclusivenessPattern, Sequence[int]], count: int) -> list[ExclusivenessPattern]:
    covered = bytearray(count)
    # Coverage only shrinks, so an entry on top with its current value is the largest.
    heap = [(-len(numbers), pattern) for pattern, numbers in involved.items()]
    heapq.heapify(heap)
    chosen: list[ExclusivenessPattern] = []
    while heap:
        claimed, pattern = heapq.heappop(heap)
        additional = sum(not covered[number] for number in involved[pattern])
        if not additional:
            continue
        if additional < -claimed:
            heapq.heappush(heap, (-additional, pattern))
            continue
        chosen.append(pattern)
        for number in involved[pattern]:
            covered[number] = 1
    return chosen


def _swapped(
    chosen: list[ExclusivenessPattern],
    involved: Mapping[ExclusivenessPattern, Sequence[int]],
    occurs_once: Callable[[ExclusivenessPattern], bool],
    count: int,
) -> list[ExclusivenessPattern]:
    """Replaces chosen patterns that may occur more than once by others that do not, if coverage is not lost."""
    covers = [0] * count
    for pattern in chosen:
        for number in involved[pattern]:
            covers[number] += 1
    spare = [pattern for pattern in involved if pattern not in set(chosen) and occurs_once(pattern)]
    spare.sort(key=lambda pattern: (-len(involved[pattern]), pattern))
    swapped = list(chosen)
    for index, pattern in enumerate(chosen):
        if occurs_once(pattern):
            continue
        alone = {number for number in involved[pattern] if covers[number] == 1}
        other = next((other for other in spare if alone.issubset(involved[other])), None)
        if other is None:
            continue
        swapped[index] = other
        spare.remove(other)
        for number in involved[pattern]:
            covers[number] -= 1
        for number in involved[other]:
            covers[number] += 1
    return swapped


# Partition creation.


class _Buckets:
    """The constants of one pattern, split into ranges with about the same number of queries."""

    def __init__(self, constants: Counter[Constant], count: int) -> None:
        self._count = count
        self._constants = frozenset(constants)
        texts = sorted(constant for constant in constants if isinstance(constant, str))
        numbers = sorted(constant for constant in constants if not isinstance(constant, str))
        self._texts, self._numbers = texts, numbers
        total = sum(constants.values())
        ordered: list[Constant] = [*texts, *numbers]
        starts = [0, *accumulate(constants[constant] for constant in ordered)]
        self._bucket = [min(count - 1, start * count // max(1, total)) for start in starts[:-1]]

    def bucket(self, constant: Constant) -> int:
        """Returns the bucket of any constant, that of the largest one of the pattern that is not larger."""
        if isinstance(constant, str):
            position = bisect_right(self._texts, constant) - 1
        else:
            position = bisect_right(self._numbers, constant) - 1 + len(self._texts)
        return self._bucket[max(0, position)] if self._bucket else 0

    def holding(self, text: str) -> set[int]:
        """Returns the buckets with queries that a value of a message satisfies."""
        number = number_of(text)
        return {self.bucket(value) for value in (text, number) if value in self._constants}


class Partitioning:
    """A partitioning of queries into partitions 0 to K - 1, and K for don't care."""

    def __init__(
        self, queries: Sequence[Selections], patterns: Sequence[ExclusivenessPattern], count: int, seed: int = 1
    ) -> None:
        """Assigns the queries to partitions.

        Raises:
            ImpossibleSetting: `count` is below 1.
        """
        if count < 1:
            raise ImpossibleSetting("partitions", count, "at least 1")
        self.patterns = tuple(patterns)  #: The chosen patterns.
        self.count = count  #: K.
        self._random = Random(f"partitions {seed}")  # noqa: S311 - reproducible, not secret
        constants: dict[ExclusivenessPattern, Counter[Constant]] = {pattern: Counter() for pattern in patterns}
        for selections in queries:
            for pattern, constant in selections:
                if pattern in constants:
                    constants[pattern][constant] += 1
        self._buckets = {pattern: _Buckets(counted, count) for pattern, counted in constants.items()}
        self.partition_of = [self.assign(selections) for selections in queries]  #: The partition of each query.

    @property
    def dont_care(self) -> int:
        """The partition of the queries without a chosen pattern."""
        return self.count

    def assign(self, selections: Selections) -> int:
        """Returns the partition for a query."""
        return self.assignment_of(selections)[2]

    def assignment_of(self, selections: Selections) -> tuple[ExclusivenessPattern | None, Constant, int]:
        """Returns the pattern and constant by which a query gets its partition, and that; no pattern for don't care."""
        usable = sorted((pattern, str(value), value) for pattern, value in selections if pattern in self._buckets)
        if not usable:
            return None, "", self.dont_care
        pattern, _, constant = self._random.choice(usable)
        return pattern, constant, self._buckets[pattern].bucket(constant)

    def matched(self, values: Mapping[ExclusivenessPattern, Collection[str]]) -> set[int]:
        """Returns the partitions that a message with these values may match, with don't care unless it is empty."""
        result = {self.dont_care} if self.dont_care in self.partition_of else set()
        for pattern, buckets in self._buckets.items():
            for value in values.get(pattern, ()):
                result |= buckets.holding(value)
        return result


class PartitionRoutes:
    """The partitions of constants, in a few bytes for each: by digest, so that a constant may stand for another one."""

    def __init__(self, dont_care: int) -> None:
        """Begins without constants; `dont_care` is the partition of the queries without a pattern."""
        self.dont_care = dont_care
        self._places: dict[ExclusivenessPattern, tuple[array[int], array[int]]] = {}
        self._has_dont_care = False

    def add(self, pattern: ExclusivenessPattern | None, constant: Constant, partition: int) -> None:
        """Adds the constant of a query that is in a partition; without a pattern, it is in don't care."""
        if pattern is None:
            self._has_dont_care = True
            return
        digests, partitions = self._places.setdefault(pattern, (array("Q"), array("I")))
        digests.append(_digest(constant))
        partitions.append(partition)

    def finish(self) -> None:
        """Sorts the constants; :meth:`matched` may be called from now on."""
        for pattern, (digests, partitions) in self._places.items():
            pairs = sorted(set(zip(digests, partitions, strict=True)))
            self._places[pattern] = array("Q", (one for one, _ in pairs)), array("I", (one for _, one in pairs))

    @property
    def patterns(self) -> tuple[ExclusivenessPattern, ...]:
        """The patterns that lead to partitions."""
        return tuple(self._places)

    def matched(self, values: Mapping[ExclusivenessPattern, Collection[str]]) -> set[int]:
        """Returns the partitions that a message with these values may match, with don't care unless it is empty."""
        result = {self.dont_care} if self._has_dont_care else set()
        for pattern, texts in values.items():
            digests, partitions = self._places[pattern]
            for value in texts:
                for constant in (value, number_of(value)):
                    digest = _digest(constant)
                    position = bisect_left(digests, digest)
                    while position < len(digests) and digests[position] == digest:
                        result.add(partitions[position])
                        position += 1
        return result


def _digest(constant: Constant) -> int:
    # Zero has two signs, which are equal.
    text = f"s{constant}" if isinstance(constant, str) else f"n{float(constant) + 0.0!r}"
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest())


class PatternReader:
    """A reader of the values of patterns in messages, on the compiled engine."""

    def __init__(self, patterns: Iterable[ExclusivenessPattern], limits: Limits | None = None) -> None:
        """Compiles the patterns.

        Raises:
            RefusedSubscriptions: A pattern is none that the engine reads.
        """
        self._patterns = tuple(patterns)
        self._queries = SubscriptionSet(limits=limits)
        queries = []
        for number, pattern in enumerate(self._patterns):
            subject = "$n" if pattern.subject == "." else f"$n/{pattern.subject}"
            query = f"for $n in {pattern.path.text} for $v in {subject} return <v>{{ string($v) }}</v>"
            queries.append(Subscription(str(number), query, dict(pattern.path.namespaces)))
        self._queries.add_many(queries).raise_if_refused()

    def values(self, message: bytes) -> dict[ExclusivenessPattern, list[str]]:
        """Returns the values of each pattern that occurs, in document order.

        Raises:
            RejectedMessage: The message is malformed or over a limit.
            UndecidedSubscription: The values of a pattern are over a limit.
        """
        results: dict[ExclusivenessPattern, list[str]] = {}
        deliveries = self._queries.deliver(message)
        for undecided in deliveries.undecided:
            raise undecided
        for delivery in deliveries:
            # What the engine wrote.
            read = ET.fromstring(b"<vs>" + delivery.payload + b"</vs>")  # noqa: S314
            results[self._patterns[int(delivery.key)]] = [value.text or "" for value in read]
        return results

    def occur_once(self, sample: Iterable[bytes]) -> frozenset[ExclusivenessPattern]:
        """Returns the patterns that occur at most once in each message of a sample."""
        often = {pattern for message in sample for pattern, values in self.values(message).items() if len(values) > 1}
        return frozenset(self._patterns) - often


def bound(patterns: int, occurrences: int, partitions: int) -> float:
    """Returns the largest share of partitions that a message can match, without don't care."""
    return min(1.0, patterns * occurrences / partitions)


def expected(patterns: int, occurrences: int, partitions: int) -> float:
    """Returns the share of partitions that a message matches if values are uniform and independent."""
    return 1 - (1 - 1 / partitions) ** (patterns * occurrences)


# Baselines, and the assignment of partitions to brokers.


def at_random(queries: int, count: int, seed: int = 1) -> list[int]:
    """Returns a random partition for each query."""
    random = Random(f"random partitions {seed}")  # noqa: S311 - reproducible, not secret
    return [random.randrange(count) for _ in range(queries)]


def clustered(structures: Sequence[str], count: int) -> list[int]:
    """Returns partitions of equal size of the queries in the order of their structures."""
    order = sorted(range(len(structures)), key=lambda number: structures[number])
    partition = [0] * len(structures)
    for position, number in enumerate(order):
        partition[number] = position * count // len(structures)
    return partition


def assign(nearest: Sequence[Counter[Address]], capacity: int) -> list[Address]:
    """Returns a broker for each partition, so that most queries are at their nearest broker.

    The choice is greedy: the pair of partition and broker with most queries comes first.

    Args:
        nearest: For each partition, the number of its queries by their nearest broker.
        capacity: Most queries of one broker. A partition that fits nowhere goes to the broker with most capacity left.

    Raises:
        ImpossibleSetting: There is no broker.
    """
    remaining = dict.fromkeys(sorted({broker for counted in nearest for broker in counted}), capacity)
    if nearest and not remaining:
        raise ImpossibleSetting("brokers", 0, "at least 1")
    pairs = [(-count, number, broker) for number, counted in enumerate(nearest) for broker, count in counted.items()]
    placed: dict[int, Address] = {}
    for _, number, broker in sorted(pairs):
        size = sum(nearest[number].values())
        if number not in placed and remaining[broker] >= size:
            placed[number] = broker
            remaining[broker] -= size
    for number, counted in enumerate(nearest):
        if number not in placed:
            broker = max(remaining, key=lambda broker: (remaining[broker], -broker))
            placed[number] = broker
            remaining[broker] -= sum(counted.values())
    return [placed[number] for number in range(len(nearest))]


def moved(nearest: Sequence[Counter[Address]], placed: Sequence[Address]) -> int:
    """Returns how many queries are not at their nearest broker."""
    return sum(sum(counted.values()) - counted[broker] for counted, broker in zip(nearest, placed, strict=True))
