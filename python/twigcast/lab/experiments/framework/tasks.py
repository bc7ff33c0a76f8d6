"""Runners for the parts of one measurement: in this process, or as tasks on Spark.

Most points are one task each. A point that is too large for one machine is *spread*: it is made in parts, these are
regrouped by key, and each group is finished by a task, so that no task holds the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import process_time
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_I = TypeVar("_I")
_V = TypeVar("_V")
_R = TypeVar("_R")

Make = Callable[[_I], Iterable[tuple[int, _V]]]
"""Makes values of an input, each with the number of the group it belongs to."""
Finish = Callable[[int, Sequence[_V]], _R]
"""Finishes one group: its number, and its values in any order."""


class Tasks(Protocol):
    """Runs the parts of a measurement. Functions are those of modules, or partial ones of these."""

    @property
    def processor_seconds(self) -> float:
        """Processor time of the parts run elsewhere so far."""
        ...

    def each(self, function: Callable[[_I], _R], inputs: Sequence[_I]) -> list[_R]:
        """Applies a function to every input, in order."""
        ...

    def regroup(self, make: Make[_I, _V], inputs: Sequence[_I], groups: int, finish: Finish[_V, _R]) -> list[_R]:
        """Makes values of every input, gathers them by group, and finishes every group that has any, in order."""
        ...


class Here:
    """All parts one after the other in this process."""

    processor_seconds = 0.0

    def each(self, function: Callable[[_I], _R], inputs: Sequence[_I]) -> list[_R]:
        """Implements `Tasks`."""
        return [function(one) for one in inputs]

    def regroup(self, make: Make[_I, _V], inputs: Sequence[_I], groups: int, finish: Finish[_V, _R]) -> list[_R]:
        """Implements `Tasks`."""
        gathered: dict[int, list[_V]] = {}
        for one in inputs:
            for group, value in make(one):
                gathered.setdefault(group, []).append(value)
        return [finish(group, gathered.pop(group)) for group in sorted(gathered)]


class OnSpark:
    """Every input and every group is a task of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._seconds = self._context.accumulator(0.0)

    @property
    def processor_seconds(self) -> float:
        """Processor time of all tasks so far."""
        return float(self._seconds.value)

    def each(self, function: Callable[[_I], _R], inputs: Sequence[_I]) -> list[_R]:
        """Implements `Tasks`."""
        seconds = self._seconds

        def timed(one: tuple[int, _I]) -> tuple[int, _R]:
            started = process_time()
            result = function(one[1])
            seconds.add(process_time() - started)
            return one[0], result

        done = self._context.parallelize(list(enumerate(inputs)), len(inputs)).map(timed).collect()
        return [result for _, result in sorted(done, key=lambda pair: pair[0])]

    def regroup(self, make: Make[_I, _V], inputs: Sequence[_I], groups: int, finish: Finish[_V, _R]) -> list[_R]:
        """Implements `Tasks`."""
        seconds = self._seconds

        def timed(one: _I) -> list[tuple[int, _V]]:
            started = process_time()
            values = list(make(one))
            seconds.add(process_time() - started)
            return values

        def finished(group: tuple[int, Iterable[_V]]) -> tuple[int, _R]:
            started = process_time()
            result = finish(group[0], list(group[1]))
            seconds.add(process_time() - started)
            return group[0], result

        gathered = self._context.parallelize(inputs, len(inputs)).flatMap(timed).groupByKey(groups, int)
        return [result for _, result in sorted(gathered.map(finished).collect(), key=lambda pair: pair[0])]
