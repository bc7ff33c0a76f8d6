"""YFilter as released (version 1.0 of the software, 2004): what its query language leaves out, and its positions.

Observed on the release, for comparing with measurements made with it. The release

- counts, for ``[k]``, the place of an element among the siblings *with its own name*, also on a ``*`` step, and
  whatever predicates stand before: ``/r/*[3]`` does not match ``<r><a/><b/><c/></r>``;
- refuses a position together with another predicate on one step, other comparisons of attributes than equality, and
  nested paths within nested paths.

Not exact where positions are used.
"""

from __future__ import annotations

from dataclasses import replace

from twigcast.lab.reference.language import (
    AttributePredicate,
    LocationStep,
    NestedPath,
    OutsideFragment,
    PathQuery,
    PositionPredicate,
    Predicate,
)
from twigcast.lab.reference.yfilter import YFilter
from twigcast.query import Operator


class YFilterRelease(YFilter):
    """YFilter with the query language of its release."""

    title = "YFilter 1.0"
    source = "the software released with Diao 2005"

    def _insert(self, query_id: str, query: PathQuery) -> None:
        super()._insert(query_id, _as_released(query, str(query)))


def _as_released(path: PathQuery, text: str) -> PathQuery:
    return PathQuery(tuple(_step(step, text) for step in path.steps))


def _step(step: LocationStep, text: str) -> LocationStep:
    if len(step.predicates) > 1 and any(isinstance(predicate, PositionPredicate) for predicate in step.predicates):
        raise OutsideFragment("YFilter 1.0: a position together with another predicate", text)
    return replace(step, predicates=tuple(_predicate(predicate, text) for predicate in step.predicates))


def _predicate(predicate: Predicate, text: str) -> Predicate:
    match predicate:
        case PositionPredicate(test):
            return PositionPredicate(test, among_same_name=True)
        case AttributePredicate(_, test) if test is not None and test.operator is not Operator.EQUAL:
            raise OutsideFragment("YFilter 1.0: an attribute compared by anything but =", text)
        case NestedPath(path):
            if not path.is_simple:
                raise OutsideFragment("YFilter 1.0: a nested path within a nested path", text)
            return NestedPath(_as_released(path, text))
    return predicate
