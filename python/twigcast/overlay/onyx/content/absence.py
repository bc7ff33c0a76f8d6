"""The value of an expression on a message in which none of its paths selects a node.

If that value is false, the expression implies that one of its paths selects a node.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

from twigcast.overlay.documents import number_of
from twigcast.overlay.paths import ORDER
from twigcast.query import (
    And,
    Compare,
    ContextNode,
    Expr,
    Filtered,
    FunctionCall,
    Literal,
    Number,
    Operator,
    Or,
    Path,
    Root,
    Union,
)

_NODE_FUNCTIONS = frozenset({"id"})
_BOOLEAN_FUNCTIONS = frozenset({"boolean", "not", "true", "false", "lang", "contains", "starts-with"})
_EMPTY_STRINGS = frozenset({"string", "normalize-space", "local-name", "name", "namespace-uri"})
_PARTS = frozenset({"substring-before", "substring-after", "substring", "translate"})


class _NoNodes:
    """A node-set without nodes."""


NO_NODES: Final = _NoNodes()
_Value: TypeAlias = bool | float | str | _NoNodes


def is_nodes(expression: Expr) -> bool:
    """Returns whether the value of an expression is a node-set."""
    match expression:
        case Path(Filtered(primary, ()), ()):
            return is_nodes(primary)
        case Path() | Union():
            return True
        case FunctionCall(function):
            return function in _NODE_FUNCTIONS
    return False


def is_boolean(expression: Expr) -> bool:
    """Returns whether the value of an expression is a boolean."""
    match expression:
        case And() | Or() | Compare():
            return True
        case FunctionCall(function):
            return function in _BOOLEAN_FUNCTIONS
        case Path(Filtered(primary, ()), ()):
            return is_boolean(primary)
    return False


def truth_without_nodes(expression: Expr) -> bool | None:
    """Returns the truth of an expression none of whose paths selects a node, or `None` if it is not known."""
    value = _value(expression)
    return None if value is None else _truth(value)


def _truth(value: _Value) -> bool:
    if isinstance(value, _NoNodes):
        return False
    return bool(value) and not (isinstance(value, float) and math.isnan(value))


def _value(expression: Expr) -> _Value | None:
    match expression:
        case Literal(value) | Number(value):
            return value
        case Path(Filtered(primary), _):
            return NO_NODES if isinstance(_value(primary), _NoNodes) else None
        case Path(Root() | ContextNode(), steps):
            # `.` and `/` always select a node.
            return NO_NODES if any(str(step) != "." for step in steps) else None
        case Union(operands):
            return NO_NODES if all(isinstance(_value(operand), _NoNodes) for operand in operands) else None
        case And(operands):
            return _combined([truth_without_nodes(operand) for operand in operands], decisive=False)
        case Or(operands):
            return _combined([truth_without_nodes(operand) for operand in operands], decisive=True)
        case Compare(operator, left, right):
            return _compared(operator, _value(left), _value(right))
        case FunctionCall(function, arguments):
            return _called(function, arguments)
    return None


def _combined(truths: list[bool | None], *, decisive: bool) -> bool | None:
    if decisive in truths:
        return decisive
    return None if None in truths else not decisive


def _compared(operator: Operator, left: _Value | None, right: _Value | None) -> bool | None:
    if left is None or right is None:
        return None
    if isinstance(left, _NoNodes) or isinstance(right, _NoNodes):
        # A node-set is compared with a boolean by whether it has nodes.
        return None if isinstance(left, bool) or isinstance(right, bool) else False
    if isinstance(left, bool) or isinstance(right, bool):
        return None
    if isinstance(left, str) and isinstance(right, str) and operator in (Operator.EQUAL, Operator.NOT_EQUAL):
        return (left == right) == (operator is Operator.EQUAL)
    return ORDER[operator](_number(left), _number(right))


def _number(value: float | str) -> float:
    return number_of(value) if isinstance(value, str) else value


def _called(function: str, arguments: tuple[Expr, ...]) -> _Value | None:
    values = [_value(argument) for argument in arguments]
    if function in ("true", "false"):
        return function == "true"
    if not values or None in values:
        return None
    existing = [value for value in values if value is not None]
    if function in ("not", "boolean"):
        return _truth(existing[0]) == (function == "boolean")
    if function in ("count", "sum"):
        return 0.0 if isinstance(existing[0], _NoNodes) else None
    texts = ["" if isinstance(value, _NoNodes) else value for value in existing]
    first = texts[0]
    if not isinstance(first, str):
        return None
    return _of_text(function, first, texts[1:])


def _of_text(function: str, first: str, others: list[bool | float | str]) -> _Value | None:
    if function in ("contains", "starts-with"):
        part = others[0]
        if not isinstance(part, str):
            return None
        return part in first if function == "contains" else first.startswith(part)
    if function == "number":
        return number_of(first)
    if function == "string-length":
        return float(len(first))
    if function == "string":
        return first
    is_empty = not first and (function in _EMPTY_STRINGS or function in _PARTS)
    return "" if is_empty else None
