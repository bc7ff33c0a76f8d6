"""Short functions that build queries in programs."""

from __future__ import annotations

from twigcast.query.xpath import (
    ANY,
    NODE,
    TEXT,
    Axis,
    Compare,
    Expr,
    FunctionCall,
    Literal,
    NameTest,
    Number,
    Operator,
    Path,
    Step,
)


def child(name: str, *predicates: Expr) -> Step:
    """Builds ``/name[...]``; ``*`` is any name."""
    return Step(Axis.CHILD, _name_test(name), predicates)


def descendant(name: str, *predicates: Expr) -> Step:
    """Builds ``//name[...]``; ``*`` is any name."""
    return Step(Axis.DESCENDANT_CHILD, _name_test(name), predicates)


def attribute(name: str) -> Path:
    """Builds ``@name``, of the context node."""
    return Path.relative(Step(Axis.ATTRIBUTE, _name_test(name)))


def text() -> Path:
    """Builds ``text()``, of the context node."""
    return Path.relative(Step(Axis.CHILD, TEXT))


def itself() -> Path:
    """Builds ``.``, the context node."""
    return Path.relative(Step(Axis.SELF, NODE))


def nested(*steps: Step) -> Path:
    """Builds a nested path: ``[step/step...]`` if it is used as a predicate."""
    return Path.relative(*steps)


def compare(left: Expr, operator: Operator | str, right: Expr | str | float) -> Compare:
    """Builds ``left op right``; a plain string or number on the right becomes a constant."""
    return Compare(Operator(operator), left, _constant(right))


def equal(left: Expr, right: Expr | str | float) -> Compare:
    """Builds ``left = right``."""
    return compare(left, Operator.EQUAL, right)


def position(operator: Operator | str, value: float) -> Compare:
    """Builds ``position() op value``."""
    return compare(FunctionCall("position"), operator, value)


def _name_test(name: str) -> NameTest:
    return ANY if name == "*" else NameTest(name)


def _constant(value: Expr | str | float) -> Expr:
    if isinstance(value, str):
        return Literal(value)
    return Number(float(value)) if isinstance(value, int | float) else value
