"""Implication between linear paths and between disjuncts: sound, and complete enough for routing queries.

A path *p* implies *q* if every message with a match of *p* has one of *q*. It is shown by a mapping of the steps of *q*
to steps of *p* that preserves order and edges, names and conditions. Some implications have no such mapping (`/*//a`
and `//*/a` imply each other). A missed one costs space in a table, but never a message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from twigcast.overlay.documents import number_of
from twigcast.overlay.onyx.content.linear import LinearStep, Steps, steps_of
from twigcast.overlay.onyx.messages import Disjunct, LinearPath
from twigcast.overlay.paths import ORDER
from twigcast.query import (
    NODE,
    And,
    Axis,
    Compare,
    ContextNode,
    Expr,
    FunctionCall,
    Literal,
    NameTest,
    Number,
    Operator,
    Or,
    Path,
    Step,
)

_ITSELF = Path(ContextNode(), (Step(Axis.SELF, NODE),))


# Disjuncts and paths.


def disjunct_implies(narrow: Disjunct, wide: Disjunct) -> bool:
    """Returns whether every message that satisfies `narrow` is known to satisfy `wide`."""
    return narrow.scope == wide.scope and conjunction_implies(narrow.paths, wide.paths)


def conjunction_implies(narrow: frozenset[LinearPath], wide: frozenset[LinearPath]) -> bool:
    """Returns whether each path of `wide` is implied by some path of `narrow`."""
    return all(path in narrow or any(path_implies(other, path) for other in narrow) for path in wide)


@lru_cache(maxsize=1 << 16)
def path_implies(narrow: LinearPath, wide: LinearPath) -> bool:
    """Returns whether every message that satisfies `narrow` is known to satisfy `wide`."""
    return narrow == wide or steps_imply(steps_of(narrow), steps_of(wide))


def steps_imply(narrow: Steps, wide: Steps) -> bool:
    """Returns the same as `path_implies`, for the steps of paths."""
    if len(wide) > len(narrow):
        return False
    # Possible images of the previous step; -1 is the document node.
    ends = {-1}
    for step in wide:
        ends = {position for position in _reached(narrow, step, ends) if _step_implies(narrow[position], step)}
        if not ends:
            return False
    return True


def _reached(narrow: Steps, step: LinearStep, ends: set[int]) -> Iterable[int]:
    if step.descendant:
        return range(min(ends) + 1, len(narrow))
    return [end + 1 for end in ends if end + 1 < len(narrow) and not narrow[end + 1].descendant]


def _step_implies(narrow: LinearStep, wide: LinearStep) -> bool:
    return test_implies(narrow.test, wide.test) and all(
        any(condition_implies(existing, condition) for existing in narrow.conditions) for condition in wide.conditions
    )


def test_implies(narrow: NameTest, wide: NameTest) -> bool:
    """Returns whether every name that passes `narrow` passes `wide`."""
    return wide.local in ("*", narrow.local) and wide.namespace in (None, narrow.namespace)


# Conditions on one element.


def condition_implies(narrow: Expr, wide: Expr) -> bool:
    """Returns whether every element that satisfies the local condition `narrow` is known to satisfy `wide`."""
    if narrow == wide:
        return True
    if isinstance(narrow, Or):
        return all(condition_implies(operand, wide) for operand in narrow.operands)
    if isinstance(wide, And):
        return all(condition_implies(narrow, operand) for operand in wide.operands)
    if isinstance(wide, Or):
        return any(condition_implies(narrow, operand) for operand in wide.operands)
    if isinstance(narrow, And):
        return any(condition_implies(operand, wide) for operand in narrow.operands)
    if isinstance(narrow, Compare):
        return _comparison_implies(narrow, wide)
    if isinstance(narrow, FunctionCall):
        return _call_implies(narrow, wide)
    return False


def _comparison_implies(narrow: Compare, wide: Expr) -> bool:
    """Returns whether `subject op constant`, which holds for *some* node of the subject, implies a condition."""
    if not isinstance(narrow.left, Path) or not isinstance(narrow.right, Literal | Number):
        return False
    if wide == narrow.left:
        return narrow.left != _ITSELF
    if isinstance(wide, Compare) and wide.left == narrow.left:
        return _bounds_imply(narrow.operator, narrow.right, wide.operator, wide.right)
    return _value_passes(narrow, wide)


def _value_passes(narrow: Compare, wide: Expr) -> bool:
    """Returns whether `subject = 'text'` implies a function call, where the subject is at most one node."""
    if narrow.operator is not Operator.EQUAL or not isinstance(narrow.right, Literal) or not _is_single(narrow.left):
        return False
    match wide:
        case FunctionCall("starts-with", (subject, Literal(part))) if subject == narrow.left:
            return narrow.right.value.startswith(part)
        case FunctionCall("contains", (subject, Literal(part))) if subject == narrow.left:
            return part in narrow.right.value
    return False


def _call_implies(narrow: FunctionCall, wide: Expr) -> bool:
    match narrow:
        case FunctionCall("starts-with" | "contains", (subject, Literal(part))) if _is_single(subject):
            pass
        case _:
            return False
    if wide == subject:
        return bool(part) and subject != _ITSELF
    match wide:
        case FunctionCall("contains", (other, Literal(piece))) if other == subject:
            return piece in part
        case FunctionCall("starts-with", (other, Literal(piece))) if other == subject:
            return narrow.function == "starts-with" and part.startswith(piece)
    return False


def _is_single(subject: Expr) -> bool:
    """Returns whether a path selects at most one node: the element itself, or an attribute with a full name."""
    if subject == _ITSELF:
        return True
    match subject:
        case Path(ContextNode(), (Step(Axis.ATTRIBUTE, NameTest(local, namespace), ()),)):
            return local != "*" and namespace is not None
    return False


def _bounds_imply(narrow: Operator, value: Expr, wide: Operator, bound: Expr) -> bool:
    """Returns whether `x narrow value` implies `x wide bound`, for every value `x` of a node."""
    if not isinstance(value, Literal | Number) or not isinstance(bound, Literal | Number):
        return False
    if isinstance(bound, Literal) and wide in (Operator.EQUAL, Operator.NOT_EQUAL):
        return _text_implies(narrow, value, wide, bound.value)
    if narrow in (Operator.EQUAL, Operator.NOT_EQUAL) and isinstance(value, Literal):
        if narrow is Operator.NOT_EQUAL:
            return False
        return ORDER[wide](number_of(value.value), number_in(bound))
    return _numbers_imply(narrow, number_in(value), wide, number_in(bound))


def _text_implies(narrow: Operator, value: Literal | Number, wide: Operator, bound: str) -> bool:
    """Returns whether `x narrow value` implies a comparison of `x` with a text."""
    if isinstance(value, Literal) and narrow is Operator.EQUAL:
        return (value.value == bound) == (wide is Operator.EQUAL)
    if wide is not Operator.NOT_EQUAL or (isinstance(value, Literal) and narrow is Operator.NOT_EQUAL):
        return False
    # The number of the node is in a range, so its text differs from every text outside that range.
    if narrow is Operator.NOT_EQUAL:
        return False
    return not ORDER[narrow](number_of(bound), number_in(value))


def _numbers_imply(narrow: Operator, value: float, wide: Operator, bound: float) -> bool:
    """Returns whether `x narrow value` implies `x wide bound` for numbers. NaN satisfies only `!=`."""
    if math.isnan(value) or math.isnan(bound):
        # `x != NaN` always holds; no other comparison does.
        return wide is Operator.NOT_EQUAL and math.isnan(bound)
    if narrow is Operator.EQUAL:
        return ORDER[wide](value, bound)
    if wide is Operator.NOT_EQUAL:
        return (narrow is Operator.NOT_EQUAL and value == bound) or (
            narrow is not Operator.NOT_EQUAL and not ORDER[narrow](bound, value)
        )
    below = (Operator.LESS, Operator.LESS_OR_EQUAL)
    above = (Operator.GREATER, Operator.GREATER_OR_EQUAL)
    if narrow in below and wide in below:
        return value < bound or (value == bound and (narrow is Operator.LESS or wide is Operator.LESS_OR_EQUAL))
    if narrow in above and wide in above:
        return value > bound or (value == bound and (narrow is Operator.GREATER or wide is Operator.GREATER_OR_EQUAL))
    return False


def number_in(constant: Literal | Number) -> float:
    """Returns the number of a constant."""
    return number_of(constant.value) if isinstance(constant, Literal) else constant.value


# Sets of paths.


def without_implied(paths: Iterable[LinearPath]) -> frozenset[LinearPath]:
    """Returns a conjunction without the paths that others of it imply."""
    kept: list[LinearPath] = []
    # Of two paths that imply each other, the first in this order is kept.
    for path in sorted(set(paths), key=lambda path: (-len(path.text), path)):
        if not any(path_implies(other, path) for other in kept):
            kept = [other for other in kept if not path_implies(path, other)]
            kept.append(path)
    return frozenset(kept)
