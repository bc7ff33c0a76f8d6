"""Linear paths as steps and as canonical text.

A linear path is a sequence of child and descendant steps with name tests. A step may have conditions on the element
alone: on its attributes, text, string-value and name. Two linear paths that differ only in prefixes, in the order of
conditions, or in the side of a constant have the same `LinearPath`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from twigcast.overlay.onyx.content.substitution import WithPrefixes
from twigcast.overlay.onyx.messages import LinearPath
from twigcast.overlay.paths import FLIPPED
from twigcast.query import (
    NODE,
    TEXT,
    And,
    Axis,
    Compare,
    ContextNode,
    Expr,
    FunctionCall,
    Literal,
    NameTest,
    Number,
    Or,
    Path,
    Root,
    SetOperation,
    Step,
    ValueMap,
    parse,
)
from twigcast.query.functions import FUNCTIONS, result_type
from twigcast.query.reading import XML_NAMESPACE
from twigcast.query.xpath import operands_of


class LinearStep(NamedTuple):
    """One step of a linear path."""

    descendant: bool  #: Whether `//` precedes it, not `/`.
    test: NameTest  #: Its name test.
    conditions: tuple[Expr, ...] = ()  #: Conditions on the element, each once, in canonical order.


Steps: TypeAlias = tuple[LinearStep, ...]


# Conditions.


def is_local(expression: Expr) -> bool:
    """Returns whether an expression depends only on the attributes, text, string-value and name of the context."""
    match expression:
        case Path(start, steps):
            own_steps = [step for step in steps if step != Step(Axis.SELF, NODE)]
            return isinstance(start, ContextNode) and _is_local_path(own_steps)
        case FunctionCall(function):
            facts = FUNCTIONS[function]
            if facts.is_positional or facts.result_type == "node-set":
                return False
        case SetOperation() | ValueMap():
            # Their nodes, and what is made of these, are not the context's own.
            return False
    return all(map(is_local, operands_of(expression)))


def _is_local_path(steps: list[Step]) -> bool:
    if not steps:
        return True
    *above, last = steps
    own = last.axis is Axis.ATTRIBUTE or (last.axis is Axis.CHILD and last.test == TEXT)
    own = own or (last.axis is Axis.SELF and isinstance(last.test, NameTest))
    # In the predicates the context is the attribute or text, which has only a value.
    return own and not above and all(is_value_test(predicate) for predicate in last.predicates)


def is_value_test(expression: Expr) -> bool:
    """Returns whether a predicate on an attribute or text compares its value, and not a position."""
    if is_numeric(expression):
        return False
    paths = list(own_paths(expression))
    return is_local(expression) and all(all(step == Step(Axis.SELF, NODE) for step in path.steps) for path in paths)


def own_paths(expression: Expr) -> Iterator[Path]:
    """Yields the outermost paths of an expression."""
    if isinstance(expression, Path):
        yield expression
    for operand in operands_of(expression):
        yield from own_paths(operand)


def is_numeric(expression: Expr) -> bool:
    """Returns whether the value of an expression may be a number, which as a predicate is a position."""
    return result_type(expression) in ("number", None)


def canonical(condition: Expr) -> Expr:
    """Returns a local condition in canonical form: constants on the right, operands of `and` and `or` in order."""
    match condition:
        case Or(operands):
            return _joined(Or, operands)
        case And(operands):
            return _joined(And, operands)
        case FunctionCall(function, arguments) if function in ("not", "boolean"):
            return FunctionCall(function, tuple(map(canonical, arguments)))
        case Compare(operator, left, right) if _is_constant(left) and not _is_constant(right):
            return Compare(FLIPPED[operator], _canonical_path(right), left)
        case Compare(operator, left, right):
            return Compare(operator, _canonical_path(left), right)
    return _unwrapped(_canonical_path(condition))


def _joined(kind: type[Or] | type[And], operands: tuple[Expr, ...]) -> Expr:
    flat: dict[str, Expr] = {}
    for operand in map(canonical, operands):
        parts = operand.operands if isinstance(operand, kind) else (operand,)
        flat.update((sort_key(part), part) for part in parts)
    ordered = tuple(flat[key] for key in sorted(flat))
    return ordered[0] if len(ordered) == 1 else kind(ordered)


def _is_constant(expression: Expr) -> bool:
    return isinstance(expression, Literal | Number)


def _canonical_path(expression: Expr) -> Expr:
    """Returns a path without superfluous `.` steps."""
    if not isinstance(expression, Path) or not isinstance(expression.start, ContextNode):
        return expression
    itself = Step(Axis.SELF, NODE)
    kept = tuple(step for step in expression.steps if step != itself)
    return Path(ContextNode(), kept or (itself,))


def _unwrapped(expression: Expr) -> Expr:
    """Returns `@a[. = 'v']` as `@a = 'v'`, and the same for `text()`."""
    match expression:
        case Path(ContextNode(), (Step(axis, test, (Compare(operator, Path(ContextNode(), (only,)), right),)),)):
            if axis is not Axis.SELF and only == Step(Axis.SELF, NODE) and _is_constant(right):
                return Compare(operator, Path(ContextNode(), (Step(axis, test),)), right)
    return expression


def sort_key(expression: Expr) -> str:
    """Returns a text of an expression that does not depend on prefixes."""
    return str(WithPrefixes(lambda namespace: f"{{{namespace}}}").expression(expression))


def step_of(descendant: bool, test: NameTest, conditions: Iterable[Expr]) -> LinearStep:
    """Returns a step with its conditions in canonical form and order."""
    by_key = {sort_key(condition): condition for condition in map(canonical, conditions)}
    return LinearStep(descendant, test, tuple(by_key[key] for key in sorted(by_key)))


# Text.


@lru_cache(maxsize=1 << 16)
def path_of(steps: Steps) -> LinearPath:
    """Returns the canonical text of a linear path, with canonical prefixes."""
    prefixes: dict[str, str] = {}

    def prefix_of(namespace: str) -> str:
        if namespace == XML_NAMESPACE:
            return "xml"
        return prefixes.setdefault(namespace, f"n{len(prefixes) + 1}")

    renamed = WithPrefixes(prefix_of)
    text = ""
    for step in steps:
        text += ("//" if step.descendant else "/") + str(renamed.test(step.test))
        text += "".join(f"[{renamed.expression(condition)}]" for condition in step.conditions)
    return LinearPath(text, tuple((prefix, uri) for uri, prefix in prefixes.items()))


@lru_cache(maxsize=1 << 16)
def steps_of(path: LinearPath) -> Steps:
    """Returns the steps of a linear path.

    Raises:
        QueryError: The text is no query.
        ValueError: It is no linear path.
    """
    query = parse(path.text, dict(path.namespaces))
    if not isinstance(query, Path) or not isinstance(query.start, Root) or not query.steps:
        raise ValueError(f"{path.text} is not a linear path")
    return tuple(_linear_step(step, path) for step in query.steps)


def _linear_step(step: Step, path: LinearPath) -> LinearStep:
    forward = step.axis in (Axis.CHILD, Axis.DESCENDANT_CHILD, Axis.DESCENDANT)
    own = all(is_local(condition) and not is_numeric(condition) for condition in step.predicates)
    if not forward or not isinstance(step.test, NameTest) or not own:
        raise ValueError(f"{path.text} is not a linear path: {step}")
    return step_of(step.axis is not Axis.CHILD, step.test, step.predicates)
