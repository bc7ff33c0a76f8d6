"""Queries as linear parts with predicates, for the distributed automaton.

A query of the subset is an absolute path of child and descendant steps whose predicates test attributes, text, the
string value, the position, or nested paths of the same kind. It is split into *linear parts*: part 0 is the main path,
and each nested path is a part that begins with the steps up to its anchor (the extended nested path of Diao 2005,
section 5.2). A part is a sequence of labels, one for each edge of its automaton: a name, `*`, or `$` for the edge into
the self-looping state of a `//` step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

from twigcast.overlay.documents import Digest, Element, Value, hash_of, label_of, number_of
from twigcast.overlay.errors import UndistributableQuery
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
    Operator,
    Or,
    Path,
    Root,
    Step,
)

#: The label of the edge into a self-looping state (the papers' epsilon).
EPSILON = "$"
#: The label of an edge for any name.
WILDCARD = "*"

#: `left op right` is the same as `right FLIPPED[op] left`.
FLIPPED = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.NOT_EQUAL: Operator.NOT_EQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.GREATER: Operator.LESS,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
#: The comparison of numbers, by operator.
ORDER: dict[str, Callable[[float, float], bool]] = {
    Operator.EQUAL: eq,
    Operator.NOT_EQUAL: ne,
    Operator.LESS: lt,
    Operator.LESS_OR_EQUAL: le,
    Operator.GREATER: gt,
    Operator.GREATER_OR_EQUAL: ge,
}


class Condition(NamedTuple):
    """A condition on one element."""

    #: `attribute`, `text`, `string`, `position`, `sibling-position`, `namespace`, `local`, `not`, `or`, `and`.
    what: str
    name: str = ""  #: Label of the attribute; namespace or local name.
    operator: str = ""  #: Comparison; empty for a test of existence.
    constant: str | float = ""  #: The constant of the comparison.
    inner: tuple[Condition, ...] = ()  #: The tests combined by `not`, `or`, `and`.


class Predicate(NamedTuple):
    """A condition on the element matched by one step (from 0) of a linear part."""

    step: int
    test: Condition


class LinearPart(NamedTuple):
    """A linear part of a query."""

    labels: tuple[str, ...]  #: The edges of its automaton, in order.
    predicates: tuple[Predicate, ...]  #: Conditions on the elements of a path match.
    parent: int = -1  #: Number of the part above it; -1 for the main path.
    anchor: int = -1  #: The step, of this part and of its parent, below which it begins.

    @property
    def states(self) -> int:
        """The number of states of its automaton, with the start state."""
        return len(self.labels) + 1


def key_of(labels: Iterable[str]) -> str:
    """Returns the key of the state that a sequence of labels reaches."""
    return "/".join(("start", *labels))


def linear_parts(query: Path) -> tuple[LinearPart, ...]:
    """Returns the linear parts of a query, the main path first and parents before children.

    Raises:
        UndistributableQuery: The query is outside the subset.
    """
    if not isinstance(query.start, Root) or not query.steps:
        raise UndistributableQuery(str(query), "only absolute location paths can be distributed")
    return _PathSplitter(query).parts()


class _PathSplitter:
    """The linear parts of one query, as far as they are made."""

    def __init__(self, query: Path) -> None:
        self.text = str(query)
        self._parts: list[LinearPart] = []
        self._add_part(query.steps, (), (), -1, -1)

    def parts(self) -> tuple[LinearPart, ...]:
        return tuple(self._parts)

    def _refuse(self, reason: str) -> UndistributableQuery:
        return UndistributableQuery(self.text, reason)

    def _add_part(
        self,
        steps: tuple[Step, ...],
        labels: tuple[str, ...],
        conditions: tuple[Predicate, ...],
        parent: int,
        anchor: int,
        final: Condition | None = None,
    ) -> None:
        """Adds the part whose labels begin with `labels` (up to step `anchor`) and continue with `steps`."""
        number = len(self._parts)
        self._parts.append(LinearPart((), ()))
        predicates = list(conditions)
        hanging: list[tuple[tuple[str, ...], int, Path, Condition | None]] = []
        offset = anchor
        for index, step in enumerate(steps):
            if step.axis is Axis.ATTRIBUTE or step.test == TEXT:
                final = self._last_test(step, is_last=index + 1 == len(steps), final=final)
                break
            if step == Step(Axis.SELF, NODE):
                continue
            offset += 1
            labels += self._labels(step, offset, predicates)
            for position, expression in enumerate(step.predicates):
                self._predicate(expression, offset, labels, predicates, hanging, first=position == 0, step=step)
        if not labels:
            raise self._refuse("the document node alone cannot be distributed")
        if final is not None:
            predicates.append(Predicate(offset, final))
        self._parts[number] = LinearPart(labels, tuple(predicates), parent, anchor)
        for prefix, step_number, path, test in hanging:
            above = tuple(p for p in predicates if p.step <= step_number)
            self._add_part(path.steps, prefix, above, number, step_number, test)

    def _labels(self, step: Step, position: int, predicates: list[Predicate]) -> tuple[str, ...]:
        if step.axis not in (Axis.CHILD, Axis.DESCENDANT_CHILD, Axis.DESCENDANT) or not isinstance(step.test, NameTest):
            raise self._refuse(f"the step {step} cannot be distributed; write child and // steps with name tests")
        if step.axis is Axis.DESCENDANT and any(map(_counts, step.predicates)):
            raise self._refuse("a position on the descendant axis cannot be distributed; write // instead")
        prefix = (EPSILON,) if step.axis is not Axis.CHILD else ()
        test = step.test
        if test.local != "*" and test.namespace is not None:
            return (*prefix, label_of(test.namespace, test.local))
        if test.local != "*":
            predicates.append(Predicate(position, Condition("local", test.local)))
        elif test.namespace is not None:
            predicates.append(Predicate(position, Condition("namespace", test.namespace)))
        return (*prefix, WILDCARD)

    def _last_test(self, step: Step, *, is_last: bool, final: Condition | None) -> Condition:
        if not is_last or step.predicates or step.axis not in (Axis.ATTRIBUTE, Axis.CHILD):
            raise self._refuse(f"{step} can only be the plain last step of a path")
        if step.test == TEXT:
            return final._replace(what="text") if final else Condition("text")
        if not isinstance(step.test, NameTest) or step.test.namespace is None or step.test.local == "*":
            raise self._refuse("an attribute must be named in full")
        name = label_of(step.test.namespace, step.test.local)
        return final._replace(what="attribute", name=name) if final else Condition("attribute", name)

    def _predicate(
        self,
        expression: Expr,
        position: int,
        labels: tuple[str, ...],
        predicates: list[Predicate],
        hanging: list[tuple[tuple[str, ...], int, Path, Condition | None]],
        *,
        first: bool,
        step: Step,
    ) -> None:
        if isinstance(expression, And):
            for operand in expression.operands:
                self._predicate(operand, position, labels, predicates, hanging, first=first, step=step)
            return
        local = self._local(expression, step, first=first)
        if local is not None:
            predicates.append(Predicate(position, local))
            return
        path, test = self._nested(expression)
        hanging.append((labels, position, path, test))

    def _local(self, expression: Expr, step: Step, *, first: bool) -> Condition | None:
        """Returns an expression as a condition on one element, or `None` if it concerns others."""
        if isinstance(expression, Number):
            return self._position(Operator.EQUAL, expression.value, step, first=first)
        if isinstance(expression, Or | And):
            inner = [self._local(operand, step, first=first) for operand in expression.operands]
            existing = tuple(test for test in inner if test is not None)
            if len(existing) < len(inner):
                raise self._refuse("a nested path inside 'or' cannot be distributed")
            return Condition("or" if isinstance(expression, Or) else "and", inner=existing)
        if isinstance(expression, FunctionCall):
            return self._call(expression, step, first=first)
        if isinstance(expression, Compare):
            return self._comparison(expression, step, first=first)
        if isinstance(expression, Path):
            return self._operand(expression)
        raise self._refuse(f"the predicate [{expression}] cannot be distributed")

    def _call(self, call: FunctionCall, step: Step, *, first: bool) -> Condition:
        if call.function == "not" and len(call.arguments) == 1:
            inner = self._local(call.arguments[0], step, first=first)
            if inner is not None:
                return Condition("not", inner=(inner,))
        raise self._refuse(f"{call} cannot be distributed")

    def _comparison(self, comparison: Compare, step: Step, *, first: bool) -> Condition | None:
        left, operator, constant = self._sides(comparison)
        if left == FunctionCall("position"):
            if not isinstance(constant, float):
                raise self._refuse("a position can only be compared with a number")
            return self._position(operator, constant, step, first=first)
        if not isinstance(left, Path):
            raise self._refuse(f"the predicate [{comparison}] cannot be distributed")
        operand = self._operand(left)
        return None if operand is None else operand._replace(operator=str(operator), constant=constant)

    def _sides(self, comparison: Compare) -> tuple[Expr, Operator, str | float]:
        left, operator, right = comparison.left, comparison.operator, comparison.right
        if isinstance(left, Literal | Number):
            left, operator, right = right, FLIPPED[operator], left
        if isinstance(right, Literal):
            return left, operator, right.value
        if isinstance(right, Number):
            return left, operator, float(right.value)
        raise self._refuse(f"[{comparison}] compares two paths; only constants can be distributed")

    def _position(self, operator: Operator, value: float, step: Step, *, first: bool) -> Condition:
        if not first:
            raise self._refuse("a position after another predicate cannot be distributed")
        test = step.test
        if isinstance(test, NameTest) and (test.local == "*") != (test.namespace is None):
            raise self._refuse("a position on a step with a partial name test cannot be distributed")
        what = "sibling-position" if isinstance(test, NameTest) and test.local == "*" else "position"
        return Condition(what, operator=str(operator), constant=float(value))

    def _operand(self, path: Path) -> Condition | None:
        """Returns what a path selects of the element itself, or `None` for a path to other elements."""
        if not isinstance(path.start, ContextNode):
            raise self._refuse(f"the path {path} inside a predicate does not start at the context node")
        steps = tuple(step for step in path.steps if step != Step(Axis.SELF, NODE))
        if not steps:
            return Condition("string")
        if len(steps) == 1 and (steps[0].axis is Axis.ATTRIBUTE or steps[0] == Step(Axis.CHILD, TEXT)):
            return self._last_test(steps[0], is_last=True, final=None)
        return None

    def _nested(self, expression: Expr) -> tuple[Path, Condition | None]:
        if isinstance(expression, Path):
            return expression, None
        assert isinstance(expression, Compare)
        left, operator, constant = self._sides(expression)
        assert isinstance(left, Path)
        return left, Condition("string", operator=str(operator), constant=constant)


def _counts(expression: Expr) -> bool:
    if isinstance(expression, Number) or expression == FunctionCall("position"):
        return True
    if isinstance(expression, Compare):
        return (_counts(expression.left) and not isinstance(expression.left, Number)) or _counts(expression.right)
    return isinstance(expression, And | Or) and any(map(_counts, expression.operands))


def _compares(value: Value, operator: str, constant: str | float) -> bool:
    """Returns `value op constant` by XPath 1.0, section 3.4. Order comparisons are numeric."""
    if isinstance(constant, str) and operator in ("=", "!="):
        same = value.hash == hash_of(constant) if isinstance(value, Digest) else value == constant
        return same == (operator == "=")
    number = value.number if isinstance(value, Digest) else number_of(value)
    return ORDER[operator](number, number_of(constant) if isinstance(constant, str) else constant)


def holds(test: Condition, element: Element) -> bool:
    """Returns whether an element satisfies a condition."""
    what = test.what
    if what == "not":
        return not holds(test.inner[0], element)
    if what in ("or", "and"):
        results = (holds(inner, element) for inner in test.inner)
        return any(results) if what == "or" else all(results)
    if what in ("position", "sibling-position"):
        rank = element.rank_named if what == "position" else element.rank
        return ORDER[test.operator](float(rank), float(test.constant))
    if what == "local":
        return element.label.rpartition("}")[2] == test.name
    if what == "namespace":
        return element.label.startswith(label_of(test.name, "") if test.name else "") and (
            bool(test.name) or not element.label.startswith("{")
        )
    values = _values(test, element)
    if not test.operator:
        return bool(values) or what == "string"
    return any(_compares(value, test.operator, test.constant) for value in values)


def _values(test: Condition, element: Element) -> tuple[Value, ...]:
    if test.what == "attribute":
        return tuple(value for name, value in element.attributes if name == test.name)
    return element.texts if test.what == "text" else (element.string,)
