"""Substitution in expressions: of prefixes, variables, or the start of paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twigcast.query import (
    NODE,
    Axis,
    ContextNode,
    Expr,
    Filtered,
    KindTest,
    NameTest,
    Path,
    PathStart,
    Step,
    Variable,
)
from twigcast.query.xpath import with_operands


class _Rewriting:
    """A copy of an expression, made in the order of its text."""

    def test(self, test: NameTest | KindTest) -> NameTest | KindTest:
        """Returns the copy of a node test."""
        return test

    def start(self, start: PathStart) -> PathStart:
        """Returns the copy of the start of a path."""
        if isinstance(start, Filtered):
            return Filtered(self.expression(start.primary), tuple(map(self.predicate, start.predicates)))
        return start

    def predicate(self, expression: Expr) -> Expr:
        """Returns the copy of a predicate, whose context is another than that of the path."""
        return self.expression(expression)

    def expression(self, expression: Expr) -> Expr:
        """Returns the copy of an expression."""
        if isinstance(expression, Path):
            return Path(self.start(expression.start), tuple(map(self._step, expression.steps)))
        return with_operands(expression, self.expression)

    def _step(self, step: Step) -> Step:
        return Step(step.axis, self.test(step.test), tuple(map(self.predicate, step.predicates)))


class WithPrefixes(_Rewriting):
    """A copy with other prefixes, which are requested in the order of the text."""

    def __init__(self, prefix_of: Callable[[str], str]) -> None:
        self._prefix_of = prefix_of

    def test(self, test: NameTest | KindTest) -> NameTest | KindTest:
        """Returns a node test, with its prefix if it has a namespace."""
        if isinstance(test, KindTest) or not test.namespace:
            return test
        return self.name(test)

    def name(self, test: NameTest) -> NameTest:
        """Returns a name test with its prefix."""
        return NameTest(test.local, test.namespace, self._prefix_of(test.namespace)) if test.namespace else test


class WithVariables(_Rewriting):
    """A copy with other names of variables; those without a new name are marked as unknown."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def start(self, start: PathStart) -> PathStart:
        """Returns the start of a path, a variable by its new name."""
        if isinstance(start, Variable):
            # No query can use this name.
            return Variable(self._names.get(start.name, f"?{start.name}"))
        return super().start(start)


class AtVariable(_Rewriting):
    """A copy with a variable in place of the context node."""

    def __init__(self, variable: str) -> None:
        self._variable = variable

    def start(self, start: PathStart) -> PathStart:
        """Returns the start of a path, the variable for the context node."""
        return Variable(self._variable) if isinstance(start, ContextNode) else super().start(start)

    def predicate(self, expression: Expr) -> Expr:
        """Returns a predicate unchanged."""
        return expression

    def expression(self, expression: Expr) -> Expr:
        """Returns the copy of an expression, without the `.` steps that are superfluous after a variable."""
        rewritten = super().expression(expression)
        if isinstance(rewritten, Path) and isinstance(rewritten.start, Variable):
            itself = Step(Axis.SELF, NODE)
            return Path(rewritten.start, tuple(step for step in rewritten.steps if step != itself))
        return rewritten
