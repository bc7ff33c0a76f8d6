"""Rules that make a linear path or a conjunction wider, so that the original implies the result (rules 1 to 6).

1. Drop a condition. 2. Widen comparisons with constants until they cover several (:func:`hull`). 3. Replace a name by
`*`. 4. Replace `/` by `//`, also to leave out steps in between. 5. Cut a trailing step. 6. Drop a path of the
conjunction.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from twigcast.overlay.documents import number_of
from twigcast.overlay.onyx.content.implication import number_in, without_implied
from twigcast.overlay.onyx.content.linear import LinearStep, Steps, path_of, sort_key, step_of, steps_of
from twigcast.overlay.onyx.messages import Disjunct, LinearPath
from twigcast.query import ANY, NODE, Axis, Compare, ContextNode, Expr, Literal, Number, Operator, Or, Path, Step

#: Most texts that a widened comparison lists.
LISTED_MAX = 8
#: Paths of a conjunction up to which single ones are dropped; of more, all but one are.
_DROPPED_MAX = 6

_ITSELF = Path(ContextNode(), (Step(Axis.SELF, NODE),))


def wider(disjunct: Disjunct) -> Iterator[Disjunct]:
    """Yields conjunctions that a conjunction implies, each wider by one rule. The last one is always true."""
    paths = disjunct.paths
    bare = without_implied(path_of(_without_conditions(steps_of(path))) for path in paths)
    if bare != paths:
        yield disjunct._replace(paths=bare)
    if len(paths) > 1:
        yield from (disjunct._replace(paths=frozenset({path})) for path in paths)
        if 2 < len(paths) <= _DROPPED_MAX:
            yield from (disjunct._replace(paths=paths - {path}) for path in paths)
    for path in paths:
        if len(paths) == 1:
            yield from (disjunct._replace(paths=frozenset({other})) for other in wider_paths(path))
    if paths:
        yield disjunct._replace(paths=frozenset())


def wider_paths(path: LinearPath) -> Iterator[LinearPath]:
    """Yields linear paths that a path implies, each wider by one rule."""
    steps = steps_of(path)
    last = len(steps) - 1
    for index, step in enumerate(steps):
        for condition in step.conditions:
            rest = tuple(other for other in step.conditions if other != condition)
            yield path_of(_with(steps, index, step._replace(conditions=rest)))
        if step.test != ANY:
            yield path_of(_with(steps, index, step._replace(test=ANY)))
        if not step.descendant:
            yield path_of(_with(steps, index, step._replace(descendant=True)))
        if index < last:
            # Without the step.
            yield path_of((*steps[:index], steps[index + 1]._replace(descendant=True), *steps[index + 2 :]))
    if last:
        yield path_of(steps[:last])
        yield path_of((steps[last]._replace(descendant=True),))


def _with(steps: Steps, index: int, step: LinearStep) -> Steps:
    return (*steps[:index], step, *steps[index + 1 :])


def _without_conditions(steps: Steps) -> Steps:
    return tuple(step._replace(conditions=()) for step in steps)


# Comparisons with constants (rule 2).


class OneOf(NamedTuple):
    """A set of texts, one of which is the value."""

    texts: frozenset[str]


class Interval(NamedTuple):
    """An interval of numbers. Its bounds belong to it unless they are open."""

    low: float = -math.inf
    low_open: bool = False
    high: float = math.inf
    high_open: bool = False


#: The values that comparisons of one subject with constants allow.
Allowed: TypeAlias = OneOf | Interval


def allowed_by(condition: Expr) -> tuple[Expr, Allowed] | None:
    """Returns the subject of a condition and the allowed values, if it compares one subject with constants only."""
    if isinstance(condition, Or):
        results = [allowed_by(operand) for operand in condition.operands]
        listed = [each for each in results if each is not None and isinstance(each[1], OneOf)]
        if len(listed) < len(results) or len({sort_key(subject) for subject, _ in listed}) != 1:
            return None
        texts = frozenset().union(*(each.texts for _, each in listed if isinstance(each, OneOf)))
        return listed[0][0], OneOf(texts)
    if not isinstance(condition, Compare) or not isinstance(condition.right, Literal | Number):
        return None
    if condition.operator is Operator.EQUAL and isinstance(condition.right, Literal):
        return condition.left, OneOf(frozenset({condition.right.value}))
    interval = _interval(condition.operator, number_in(condition.right))
    return None if interval is None else (condition.left, interval)


def _interval(operator: Operator, bound: float) -> Interval | None:
    if math.isnan(bound):
        return None
    match operator:
        case Operator.EQUAL:
            return Interval(bound, False, bound, False)
        case Operator.LESS | Operator.LESS_OR_EQUAL:
            return Interval(high=bound, high_open=operator is Operator.LESS)
        case Operator.GREATER | Operator.GREATER_OR_EQUAL:
            return Interval(low=bound, low_open=operator is Operator.GREATER)
    return None


def hull(allowed: Iterable[Allowed]) -> Allowed | None:
    """Returns the smallest set of values that covers all and has a short text; `None`: all values."""
    all_of_them = list(allowed)
    texts = [each.texts for each in all_of_them if isinstance(each, OneOf)]
    if len(texts) == len(all_of_them):
        listed = frozenset().union(*texts)
        if len(listed) <= LISTED_MAX:
            return OneOf(listed)
    intervals: list[Interval] = []
    for each in all_of_them:
        if isinstance(each, Interval):
            intervals.append(each)
            continue
        numbers = [number_of(text) for text in each.texts]
        if any(map(math.isnan, numbers)):
            return None
        intervals.append(Interval(min(numbers), False, max(numbers), False))
    low, low_open = min((each.low, each.low_open) for each in intervals)
    high, high_closed = max((each.high, not each.high_open) for each in intervals)
    covering = Interval(low, low_open, high, not high_closed)
    return None if covering.low == -math.inf and covering.high == math.inf else covering


def conditions_of(subject: Expr, allowed: Allowed | None) -> list[Expr]:
    """Returns conditions for the allowed values of a subject. If all are allowed, the subject has to exist."""
    if allowed is None:
        return [] if subject == _ITSELF else [subject]
    if isinstance(allowed, OneOf):
        each = tuple(Compare(Operator.EQUAL, subject, Literal(text)) for text in sorted(allowed.texts))
        return [each[0] if len(each) == 1 else Or(each)]
    if allowed.low == allowed.high:
        return [Compare(Operator.EQUAL, subject, Number(allowed.low))]
    results: list[Expr] = []
    if allowed.low != -math.inf:
        operator = Operator.GREATER if allowed.low_open else Operator.GREATER_OR_EQUAL
        results.append(Compare(operator, subject, Number(allowed.low)))
    if allowed.high != math.inf:
        operator = Operator.LESS if allowed.high_open else Operator.LESS_OR_EQUAL
        results.append(Compare(operator, subject, Number(allowed.high)))
    return results


class _OpenStep(NamedTuple):
    """A step with its constants taken out."""

    bare: LinearStep  #: The step with its other conditions.
    subjects: tuple[Expr, ...]  #: What is compared with constants.
    allowed: tuple[Allowed, ...]  #: The allowed values of each subject.


def _open(step: LinearStep) -> _OpenStep:
    kept: list[Expr] = []
    bounds: dict[str, tuple[Expr, Allowed]] = {}
    for condition in step.conditions:
        result = allowed_by(condition)
        if result is None:
            kept.append(condition)
            continue
        subject, allowed = result
        key = sort_key(subject)
        before = bounds.get(key)
        # If two cannot be combined, one of them is kept, which is wider.
        together = allowed if before is None else _both(before[1], allowed)
        bounds[key] = (subject, together)
    ordered = [bounds[key] for key in sorted(bounds)]
    bare = step_of(step.descendant, step.test, kept)
    return _OpenStep(bare, tuple(subject for subject, _ in ordered), tuple(allowed for _, allowed in ordered))


def _both(one: Allowed, other: Allowed) -> Allowed:
    if isinstance(one, OneOf) or isinstance(other, OneOf):
        return one if isinstance(one, OneOf) else other
    together = one
    if one.low == -math.inf and other.high == math.inf:
        together = one._replace(low=other.low, low_open=other.low_open)
    elif one.high == math.inf and other.low == -math.inf:
        together = one._replace(high=other.high, high_open=other.high_open)
    # Of several nodes, one may satisfy the lower bound and another the upper one: that is no equality.
    return together if together.low != together.high else one


def without_constants(path: LinearPath) -> str:
    """Returns a text that is equal for paths that differ only in the constants of their comparisons."""
    return "|".join(
        str((step.descendant, step.test, [*map(sort_key, step.conditions), None, *map(sort_key, subjects)]))
        for step, subjects, _ in map(_open, steps_of(path))
    )


def covering(paths: Sequence[LinearPath]) -> LinearPath:
    """Returns the path that all paths imply, which differ only in the constants of their comparisons (rule 2)."""
    steps: list[LinearStep] = []
    for parallel in zip(*(map(_open, steps_of(path)) for path in paths), strict=True):
        first = parallel[0]
        conditions = list(first.bare.conditions)
        for index, subject in enumerate(first.subjects):
            conditions += conditions_of(subject, hull(each.allowed[index] for each in parallel))
        steps.append(step_of(first.bare.descendant, first.bare.test, conditions))
    return path_of(tuple(steps))
