"""Selection Postponed: value-based predicates after structure (Diao 2005, sections 5.1.2 and 5.1.3).

Predicates are stored with the query. When the query's path has been found, each *path match* (one element for every
location step) is tested; the first condition that fails ends the test of that match, the first match that passes ends
the work on that query for this message. Conditions on text are *blocking*: the selection is parked on the element and
resumed at its end tag.

With *predicate sorting*, the condition that is least likely to hold is tested first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from twigcast.lab.reference.algorithm import Counters
from twigcast.lab.reference.events import Element
from twigcast.lab.reference.language import AttributePredicate, LocationStep, PathQuery, PositionPredicate, Test
from twigcast.query import Operator

PathMatch: TypeAlias = tuple[Element, ...]
"""One element for every location step of a path."""

Selectivity: TypeAlias = Callable[[LocationStep, int], float]
"""Estimated probability that condition number n of a step holds (n: index in its predicates)."""


def path_matches_at(steps: Sequence[LocationStep], element: Element) -> Iterator[PathMatch]:
    """Yields the path matches that end at an element, by a search along its ancestors.

    What YFilter reads off its runtime stack and AFilter off its pointers; for the algorithms that keep neither.
    """
    if not steps:
        yield ()
        return
    *before, step = steps
    if not step.accepts(element):
        return
    for above in _above(before, step, element):
        for prefix in path_matches_at(before, above) if before else ((),):
            yield (*prefix, element)


def ends_at(steps: Sequence[LocationStep], element: Element) -> bool:
    """Returns whether there is a path match that ends at an element."""
    return walk_back(steps, element)[0]


def walk_back(steps: Sequence[LocationStep], element: Element) -> tuple[bool, int]:
    """Returns whether a path match ends at an element, and how many elements were examined for that.

    Goes back over the steps with the set of elements that each could have been matched by, so that paths with many
    ``//`` cost no more than their length times the depth.
    """
    *before, last = steps
    positions = [element] if last.accepts(element) else []
    looked_at = 1
    axis = last.axis
    for step in reversed(before):
        if not positions:
            return False, looked_at
        if axis == "/":
            above = [index.parent for index in positions]
            looked_at += len(above)
            positions = [index for index in above if index is not None and index.level and step.accepts(index)]
        else:
            # Any ancestor will do, and the deepest place, which comes first, has them all.
            lowest, positions = positions[0], []
            for position in lowest.ancestors():
                looked_at += 1
                if step.accepts(position):
                    positions.append(position)
                    if step.axis == "//":
                        break
        axis = step.axis
    return bool(positions) and (axis == "//" or any(index.level == 1 for index in positions)), looked_at


def _above(before: Sequence[LocationStep], step: LocationStep, element: Element) -> Iterable[Element]:
    """Where the step before may have been matched; the document node if there is none."""
    assert element.parent is not None
    if step.axis == "//":
        return element.ancestors() if before else (element.parent,)
    return (element.parent,) if (element.level > 1) == bool(before) else ()


class Condition(Protocol):
    """Something that a path match must pass."""

    @property
    def step_index(self) -> int:
        """The step whose element is tested."""

    def is_ready(self, match: PathMatch) -> bool:
        """Returns whether it can be decided yet."""

    def holds(self, match: PathMatch) -> bool:
        """Returns whether it holds for a path match."""


@dataclass(frozen=True, slots=True)
class StepCondition:
    """One condition of a path as written: which step it is on, and which of that step's predicates it is."""

    step_index: int
    step: LocationStep
    predicate_index: int

    def is_ready(self, match: PathMatch) -> bool:
        """Returns whether it can be decided yet."""
        return not match[self.step_index].is_open or not self.step.is_blocking(self.predicate_index)

    def holds(self, match: PathMatch) -> bool:
        """Returns whether it holds for a path match."""
        return self.step.holds(self.predicate_index, match[self.step_index])


def conditions_of(path: PathQuery, selectivity: Selectivity | None = None) -> tuple[StepCondition, ...]:
    """Returns the conditions of a path in testing order: as written, or most selective first."""
    conditions = [
        StepCondition(step_index, step, predicate_index)
        for step_index, step in enumerate(path.steps)
        for predicate_index in step.conditions
    ]
    if selectivity is None:
        return tuple(conditions)
    return tuple(sorted(conditions, key=lambda c: selectivity(c.step, c.predicate_index)))


@dataclass(slots=True)
class _Selection:
    """The test of one path match, perhaps parked."""

    query_id: str
    match: PathMatch
    pending: Sequence[Condition]


class SelectionPostponed:
    """The selections of one message: which queries have passed, and what is parked."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.matched: set[str] = set()
        self._parked: dict[int, list[_Selection]] = {}

    def select(self, query_id: str, match: PathMatch, conditions: Sequence[Condition]) -> None:
        """Tests one path match of a query that has not matched yet."""
        self._resume(_Selection(query_id, match, conditions))

    def end_element(self, element: Element) -> None:
        """Resumes what waits for the text of this element."""
        for selection in self._parked.pop(element.id, ()):
            if selection.query_id not in self.matched:
                self._resume(selection)

    def _resume(self, selection: _Selection) -> None:
        blocked: list[Condition] = []
        for condition in selection.pending:
            if not condition.is_ready(selection.match):
                blocked.append(condition)
                continue
            self._counters.predicate_evaluations += 1
            if not condition.holds(selection.match):
                return
        if blocked:
            selection.pending = blocked
            # The innermost element ends first.
            element = max((selection.match[condition.step_index] for condition in blocked), key=lambda e: e.level)
            self._parked.setdefault(element.id, []).append(selection)
        else:
            self.matched.add(selection.query_id)


@dataclass(frozen=True, slots=True)
class UniformSelectivity:
    """Estimates under independent uniform values (Diao 2005, section 5.1.3; the operators not printed there derived).

    A step on ``*`` takes the average over all elements; an attribute that is not in the statistics, ``unknown``.
    """

    occurrence: dict[tuple[str, str], float]
    """Probability that an element (first) carries an attribute (second)."""
    values: dict[tuple[str, str], int]
    """How many values 1..M the attribute takes; the key's second part is ``text()`` for an element's text."""
    unknown: float = 0.5

    def __call__(self, step: LocationStep, index: int) -> float:
        """Returns the probability that a condition holds at an element with the step's name."""
        predicate = step.predicates[index]
        if isinstance(predicate, PositionPredicate):
            return self._position(predicate.test)
        item = predicate.name if isinstance(predicate, AttributePredicate) else "text()"
        test: Test | None = getattr(predicate, "test", None)
        elements = [step.name] if step.name != "*" else sorted({e for e, a in self.occurrence if a == item})
        if not elements:
            return self.unknown
        return sum(self._one(element, item, test) for element in elements) / len(elements)

    def _one(self, element: str, item: str, test: Test | None) -> float:
        occurs = self.occurrence.get((element, item), self.unknown)
        return occurs if test is None else occurs * _uniform(test, self.values.get((element, item), 10))

    @staticmethod
    def _position(test: Test) -> float:
        constant = float(test.constant)
        return 1.0 if constant < 1 else 1 / constant


def _uniform(test: Test, largest: int) -> float:
    """Probability that a uniform integer in 1..largest passes."""
    if test.operator is Operator.EQUAL:
        return 1 / largest
    if test.operator is Operator.NOT_EQUAL:
        return (largest - 1) / largest
    return sum(test.holds(str(value)) for value in range(1, largest + 1)) / largest
