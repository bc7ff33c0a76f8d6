"""Path queries: the query language of the filtering papers (Diao 2005, section 2.2.1; Miliaraki 2008, section 2.1).

A path query is an absolute location path. A *location step* is an axis (child ``/`` or descendant ``//``), a name
test or ``*``, and predicates, which together form a conjunction:

=====================  ==========================================================
value-based predicate  ``[@n]``, ``[@n op v]``, ``[text() op v]``, ``[. op v]``
position predicate     ``[k]``, ``[position() op k]``
nested path            ``[p]``, p relative; ``[p op v]`` tests the last step of p
=====================  ==========================================================

:func:`path_query` turns the algebra of :mod:`twigcast.query` into this form. What it cannot express raises
:class:`OutsideFragment`.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import twigcast.query as algebra
from twigcast.errors import UnsupportedQuery
from twigcast.lab.reference.events import Element


class OutsideFragment(UnsupportedQuery):
    """A query that an algorithm does not handle.

    Args:
        construct: What it does not handle, for a person to read.
        query: The query's text.
    """

    def __init__(self, construct: str, query: str) -> None:
        super().__init__(query, 1, f"{construct} is not supported")
        self.args = (construct, query)
        self.construct = construct

    def __str__(self) -> str:
        return f"{self.reason}: {self.text}"


@dataclass(frozen=True, slots=True)
class Test:
    """``op constant``, by the comparison rules of XPath 1.0 (section 3.4)."""

    operator: algebra.Operator
    constant: str | float

    def holds(self, value: str) -> bool:
        """Returns whether a string from the message passes."""
        if isinstance(self.constant, str) and self.operator in _EQUALITIES:
            return (value == self.constant) == (self.operator is algebra.Operator.EQUAL)
        constant = number(self.constant) if isinstance(self.constant, str) else self.constant
        return _COMPARE[self.operator](number(value), constant)

    def __str__(self) -> str:
        constant = algebra.Literal(self.constant) if isinstance(self.constant, str) else algebra.Number(self.constant)
        return f" {self.operator} {constant}"


_EQUALITIES = (algebra.Operator.EQUAL, algebra.Operator.NOT_EQUAL)
_COMPARE: dict[algebra.Operator, Callable[[float, float], bool]] = {
    algebra.Operator.EQUAL: operator.eq,
    algebra.Operator.NOT_EQUAL: operator.ne,
    algebra.Operator.LESS: operator.lt,
    algebra.Operator.LESS_OR_EQUAL: operator.le,
    algebra.Operator.GREATER: operator.gt,
    algebra.Operator.GREATER_OR_EQUAL: operator.ge,
}
_NUMBER = re.compile(r"[ \t\r\n]*(-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))[ \t\r\n]*")


def number(text: str) -> float:
    """Converts a string by XPath 1.0 (section 4.4): NaN unless it is digits, with an optional point and minus."""
    result = _NUMBER.fullmatch(text)
    return float(result.group(1)) if result else float("nan")


@dataclass(frozen=True, slots=True)
class AttributePredicate:
    """``[@name]`` or ``[@name op v]``; ``*`` for any attribute."""

    name: str
    test: Test | None = None

    def holds(self, element: Element) -> bool:
        """Decides the predicate at the start tag."""
        if self.name != "*":
            value = element.attributes.get(self.name)
            return value is not None and (self.test is None or self.test.holds(value))
        return any(self.test is None or self.test.holds(value) for value in element.attributes.values())

    def __str__(self) -> str:
        return f"[@{self.name}{self.test or ''}]"


@dataclass(frozen=True, slots=True)
class TextPredicate:
    """``[text()]`` or ``[text() op v]``: some text node directly inside passes."""

    test: Test | None = None

    def holds(self, element: Element) -> bool:
        """Decides the predicate at the end tag."""
        return any(self.test is None or self.test.holds(text) for text in element.texts)

    def __str__(self) -> str:
        return f"[text(){self.test or ''}]"


@dataclass(frozen=True, slots=True)
class StringValuePredicate:
    """``[. op v]``: the string value passes."""

    test: Test

    def holds(self, element: Element) -> bool:
        """Decides the predicate at the end tag."""
        return self.test.holds(element.string_value)

    def __str__(self) -> str:
        return f"[.{self.test}]"


@dataclass(frozen=True, slots=True)
class PositionPredicate:
    """``[position() op k]``: place among the siblings that pass the step's name test and the predicates before."""

    test: Test
    among_same_name: bool = False
    """Count the siblings with the element's own name instead; not XPath (see :mod:`.yfilter_release`)."""

    def __str__(self) -> str:
        return f"[position(){self.test}]"


@dataclass(frozen=True, slots=True)
class NestedPath:
    """``[p]``: p selects something from here."""

    path: PathQuery

    def __str__(self) -> str:
        text = str(self.path)
        return f"[.{text}]" if text.startswith("//") else f"[{text.removeprefix('/')}]"


ValuePredicate: TypeAlias = AttributePredicate | TextPredicate | StringValuePredicate
Predicate: TypeAlias = ValuePredicate | PositionPredicate | NestedPath


@dataclass(frozen=True, slots=True)
class LocationStep:
    """One step of a path query."""

    axis: str
    """``/`` or ``//``."""
    name: str
    """Element name in Clark notation, or ``*``."""
    predicates: tuple[Predicate, ...] = ()
    nested_paths: tuple[PathQuery, ...] = field(init=False, repr=False, compare=False)
    """The nested paths anchored here, in order."""
    conditions: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Indexes in ``predicates`` of everything else: what is decided at this element alone."""

    def __post_init__(self) -> None:
        nested = tuple(predicate.path for predicate in self.predicates if isinstance(predicate, NestedPath))
        conditions = tuple(i for i, predicate in enumerate(self.predicates) if not isinstance(predicate, NestedPath))
        object.__setattr__(self, "nested_paths", nested)
        object.__setattr__(self, "conditions", conditions)

    @property
    def bare(self) -> LocationStep:
        """Axis and name only: what structure matching sees."""
        return replace(self, predicates=())

    def accepts(self, element: Element) -> bool:
        """Returns whether the name test passes."""
        return self.name in ("*", element.name)

    def is_blocking(self, index: int) -> bool:
        """Returns whether condition ``index`` can only be decided at the element's end tag."""
        if isinstance(self.predicates[index], PositionPredicate):
            return any(self.is_blocking(before) for before in range(index))
        return isinstance(self.predicates[index], TextPredicate | StringValuePredicate)

    def holds(self, index: int, element: Element) -> bool:
        """Returns whether condition ``index`` holds at an element that passes the name test and the earlier ones."""
        predicate = self.predicates[index]
        if isinstance(predicate, PositionPredicate):
            position = _rank(element) if predicate.among_same_name else self._position(index, element)
            return predicate.test.holds(str(position))
        assert not isinstance(predicate, NestedPath)
        return predicate.holds(element)

    def conditions_hold(self, element: Element) -> bool:
        """Returns whether all conditions hold. If one is blocking, this is called at the end tag."""
        return all(self.holds(index, element) for index in self.conditions)

    def _position(self, index: int, element: Element) -> int:
        assert element.parent is not None
        position = 0
        for sibling in element.parent.children:
            if sibling is element:
                return position + 1
            if self.accepts(sibling) and all(self.holds(before, sibling) for before in range(index)):
                position += 1
        raise AssertionError("an element is a child of its parent")

    def __str__(self) -> str:
        return self.axis + self.name + "".join(map(str, self.predicates))


def _rank(element: Element) -> int:
    """Place among the siblings of the same name."""
    assert element.parent is not None
    siblings = [sibling for sibling in element.parent.children if sibling.name == element.name]
    return siblings.index(element) + 1


@dataclass(frozen=True, slots=True)
class PathQuery:
    """An absolute location path; as a nested path, one that starts at the anchor."""

    steps: tuple[LocationStep, ...]
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Paths are keys of large tables.
        object.__setattr__(self, "_hash", hash(self.steps))

    def __hash__(self) -> int:
        return self._hash

    @property
    def bare(self) -> PathQuery:
        """The path without any predicate."""
        return PathQuery(tuple(step.bare for step in self.steps))

    @property
    def is_simple(self) -> bool:
        """No nested paths (Dai 2009, section 3.1: a simple query)."""
        return not any(step.nested_paths for step in self.steps)

    @property
    def has_conditions(self) -> bool:
        """True if some step has a value-based or position predicate."""
        return any(step.conditions for step in self.steps)

    def predicates(self) -> Iterator[Predicate]:
        """Yields all predicates, those inside nested paths too."""
        for step in self.steps:
            for predicate in step.predicates:
                yield predicate
                if isinstance(predicate, NestedPath):
                    yield from predicate.path.predicates()

    def __str__(self) -> str:
        return "".join(map(str, self.steps))


def path_query(query: algebra.Query) -> PathQuery:
    """Returns a query in the papers' form.

    Raises:
        UnsupportedQuery: It uses something that the papers' language does not have.
    """
    if not isinstance(query, algebra.Path) or not isinstance(query.start, algebra.Root):
        raise OutsideFragment("anything but an absolute location path", str(query))
    return _Translation(str(query)).path(_with_an_element(query.steps), None)


def _with_an_element(steps: tuple[algebra.Step, ...]) -> tuple[algebra.Step, ...]:
    """``//@n`` and ``//text()``, from the document node, as ``//*/@n`` and ``//*/text()``: some element has it."""
    any_element = algebra.descendant("*")
    match steps:
        case (algebra.Step(algebra.Axis.DESCENDANT_OR_SELF, algebra.NODE, ()), last):
            return (any_element, last)
        case (algebra.Step(algebra.Axis.DESCENDANT_CHILD, algebra.TEXT, predicates),):
            return (any_element, algebra.Step(algebra.Axis.CHILD, algebra.TEXT, predicates))
    return steps


class _Translation:
    """One query on its way from the algebra to path-query form."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _refuse(self, construct: str) -> OutsideFragment:
        return OutsideFragment(construct, self._text)

    def path(self, steps: tuple[algebra.Step, ...], test: Test | None) -> PathQuery:
        """Location steps; ``test`` compares what the last of them selects."""
        translated: list[LocationStep] = []
        steps = tuple(step for step in steps if step != algebra.Step(algebra.Axis.SELF, algebra.NODE))
        for index, step in enumerate(steps):
            last = index == len(steps) - 1
            if last and (value := self._value(step, test)) is not None:
                return self._tested(translated, value)
            translated.append(self._step(step))
        if not translated:
            raise self._refuse("a path without steps")
        return PathQuery(tuple(translated)) if test is None else self._tested(translated, StringValuePredicate(test))

    def _tested(self, steps: list[LocationStep], predicate: ValuePredicate) -> PathQuery:
        if not steps:
            raise self._refuse("an attribute or text of the document node")
        last = steps[-1]
        return PathQuery((*steps[:-1], replace(last, predicates=(*last.predicates, predicate))))

    def _value(self, step: algebra.Step, test: Test | None) -> ValuePredicate | None:
        """The condition of a last step `@n` or `text()` on the element before it."""
        if step.predicates:
            return None
        if step.axis is algebra.Axis.ATTRIBUTE and isinstance(step.test, algebra.NameTest):
            return AttributePredicate(self._name(step.test), test)
        if step.axis is algebra.Axis.CHILD and step.test == algebra.TEXT:
            return TextPredicate(test)
        return None

    def _step(self, step: algebra.Step) -> LocationStep:
        if not isinstance(step.test, algebra.NameTest):
            raise self._refuse(f"{step.test} as a step")
        predicates = tuple(p for expression in step.predicates for p in self._predicates(expression))
        for before, after in itertools.pairwise(predicates):
            if isinstance(before, NestedPath) and isinstance(after, PositionPredicate):
                raise self._refuse("a position after a nested path")
        positions = any(isinstance(predicate, PositionPredicate) for predicate in predicates)
        match step.axis:
            case algebra.Axis.CHILD:
                axis = "/"
            case algebra.Axis.DESCENDANT_CHILD:
                axis = "//"
            case algebra.Axis.DESCENDANT if not positions:
                axis = "//"
            case _:
                raise self._refuse(f"the {step.axis} axis" + (" with a position" if positions else ""))
        return LocationStep(axis, self._name(step.test), predicates)

    def _name(self, test: algebra.NameTest) -> str:
        if test == algebra.ANY:
            return "*"
        if test.local == "*" or test.namespace is None:
            raise self._refuse(f"the name test {test}")
        return f"{{{test.namespace}}}{test.local}" if test.namespace else test.local

    def _predicates(self, expression: algebra.Expr) -> list[Predicate]:
        match expression:
            case algebra.And(operands):
                parts = [part for operand in operands for part in self._predicates(operand)]
                if sum(isinstance(part, PositionPredicate) for part in parts) > 1:
                    raise self._refuse("a conjunction of positions")
                # Inside one predicate, a position counts what the step selected, whatever stands before it.
                return sorted(parts, key=lambda part: not isinstance(part, PositionPredicate))
            case algebra.Compare(op, left, right):
                return [self._comparison(op, left, right)]
            case algebra.Path(algebra.ContextNode(), steps):
                return [self._relative(steps, None)]
        raise self._refuse(f"[{expression}]")

    def _comparison(self, op: algebra.Operator, left: algebra.Expr, right: algebra.Expr) -> Predicate:
        if _constant(left) is not None:
            return self._comparison(_MIRRORED.get(op, op), right, left) if _constant(right) is None else self._no(left)
        constant = _constant(right)
        if constant is None:
            return self._no(right)
        match left:
            case algebra.FunctionCall("position") if isinstance(constant, float):
                return PositionPredicate(Test(op, constant))
            case algebra.Path(algebra.ContextNode(), steps):
                return self._relative(steps, Test(op, constant))
        return self._no(left)

    def _no(self, expression: algebra.Expr) -> Predicate:
        raise self._refuse(f"comparing with {expression}")

    def _relative(self, steps: tuple[algebra.Step, ...], test: Test | None) -> Predicate:
        steps = tuple(step for step in steps if step != algebra.Step(algebra.Axis.SELF, algebra.NODE))
        if not steps:
            if test is None:
                raise self._refuse("[.]")
            return StringValuePredicate(test)
        if len(steps) == 1 and (value := self._value(steps[0], test)) is not None:
            return value
        if steps[0].axis is algebra.Axis.DESCENDANT_OR_SELF:
            raise self._refuse("the descendant-or-self axis")
        return NestedPath(self.path(steps, test))


_MIRRORED = {
    algebra.Operator.LESS: algebra.Operator.GREATER,
    algebra.Operator.GREATER: algebra.Operator.LESS,
    algebra.Operator.LESS_OR_EQUAL: algebra.Operator.GREATER_OR_EQUAL,
    algebra.Operator.GREATER_OR_EQUAL: algebra.Operator.LESS_OR_EQUAL,
}


def _constant(expression: algebra.Expr) -> str | float | None:
    match expression:
        case algebra.Literal(text):
            return text
        case algebra.Number(value):
            return value
        case algebra.Negate(algebra.Number(value)):
            return -value
    return None
