"""For-Where-Return queries in the form that the plans take (Diao 2005, sections 2.2.2 and 6.2).

``for $v in binding where predicate-path op constant and ... return constructor``: the binding path is absolute and may
have value-based predicates at any step; predicate and return paths are relative to $v. *Navigation paths*, axes and
name tests only, are what the shared matcher sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import twigcast.query as algebra
from twigcast.lab.reference.language import (
    AttributePredicate,
    LocationStep,
    NestedPath,
    OutsideFragment,
    PathQuery,
    StringValuePredicate,
    TextPredicate,
    ValuePredicate,
    path_query,
)

NavigationPath: TypeAlias = tuple[LocationStep, ...]
"""Steps without predicates; absolute or relative. Relative ones may be empty: the bound node itself."""


@dataclass(frozen=True, slots=True)
class StepCondition:
    """A value-based predicate of the binding path: on the element that matches this step (from 0)."""

    step: int
    predicate: ValuePredicate


@dataclass(frozen=True, slots=True)
class WherePath:
    """A conjunct of the where clause: some node on this path, relative to the bound one, satisfies the predicate.

    Without a predicate the path only has to exist.
    """

    path: NavigationPath
    predicate: ValuePredicate | None


@dataclass(frozen=True, slots=True)
class TransformQuery:
    """A For-Where-Return query.

    ``template`` is the return clause: constant text, and numbers of return paths in between. ``wrapper`` is a pair of
    tags around the whole result, or two empty strings.
    """

    binding: NavigationPath
    conditions: tuple[StepCondition, ...]
    where: tuple[WherePath, ...]
    returns: tuple[NavigationPath, ...]
    template: tuple[str | int, ...]
    wrapper: tuple[str, str] = ("", "")


def transform_query(query: algebra.Query) -> TransformQuery:
    """Turns the algebra of :mod:`twigcast.query` into this form.

    Raises:
        UnsupportedQuery: the query is outside the subset of the source; the error names the construct.
    """
    if isinstance(query, algebra.ElementConstructor):
        return _wrapped(query)
    if not isinstance(query, algebra.ForWhereReturn):
        raise OutsideFragment("a query without a for clause", str(query))
    return _Translation(query).translate()


def _wrapped(element: algebra.ElementConstructor) -> TransformQuery:
    match element.content:
        case (algebra.Enclosed(algebra.ForWhereReturn() as inner),):
            result = _Translation(inner).translate()
        case _:
            raise OutsideFragment("anything but one query inside the outer element", str(element))
    return replace(result, wrapper=(_start_tag(element, str(element)), f"</{element.name}>"))


def _start_tag(element: algebra.ElementConstructor, query: str) -> str:
    if any(not isinstance(part, algebra.ConstantText) for a in element.attributes for part in a.value):
        raise OutsideFragment("an attribute with an enclosed expression", query)
    # Text in attributes is escaped as XML already; only the doubled braces are the query language's.
    empty = str(replace(element, content=())).removesuffix(f"</{element.name}>")
    return _single_braces(empty)


def _single_braces(text: str) -> str:
    return text.replace("{{", "{").replace("}}", "}")


class _Translation:
    """One query on its way from the algebra."""

    def __init__(self, query: algebra.ForWhereReturn) -> None:
        self._query = query
        self._returns: list[NavigationPath] = []
        self._variable = ""

    def translate(self) -> TransformQuery:
        match self._query.clauses:
            case (algebra.For(variable, source),) if not self._query.order:
                self._variable = variable
            case _:
                raise self._refuse("more than one for clause, let or order by")
        binding = path_query(source)
        conjuncts = self._query.where.operands if isinstance(self._query.where, algebra.And) else (self._query.where,)
        template = tuple(self._template(self._query.result))
        return TransformQuery(
            binding.bare.steps,
            tuple(self._conditions(binding)),
            tuple(self._where(conjunct) for conjunct in conjuncts if conjunct is not None),
            tuple(self._returns),
            template,
        )

    def _refuse(self, construct: str) -> OutsideFragment:
        return OutsideFragment(construct, str(self._query))

    def _conditions(self, binding: PathQuery) -> Iterator[StepCondition]:
        for number, step in enumerate(binding.steps):
            for predicate in step.predicates:
                if not isinstance(predicate, AttributePredicate | TextPredicate | StringValuePredicate):
                    raise self._refuse(f"the predicate {predicate} in the binding path")
                yield StepCondition(number, predicate)

    def _where(self, conjunct: algebra.Expr) -> WherePath:
        path = conjunct.left if isinstance(conjunct, algebra.Compare) else conjunct
        if not isinstance(path, algebra.Path):
            raise self._refuse("a condition that is not a path, or a path compared with a constant,")
        self._check_variable(path)
        # As the predicate of a step that stands for the bound node, the language module knows how to read it.
        relative: algebra.Expr = algebra.Path.relative(*path.steps)
        if isinstance(conjunct, algebra.Compare):
            relative = algebra.Compare(conjunct.operator, relative, conjunct.right)
        stand_in = path_query(algebra.Path.absolute(algebra.child("bound", relative))).steps[0]
        match stand_in.predicates:
            case (AttributePredicate() | TextPredicate() | StringValuePredicate() as predicate,):
                return WherePath((), predicate)
            case (NestedPath(nested),):
                return self._nested_where(nested)
            case _:
                raise self._refuse(f"the condition {conjunct}")

    def _nested_where(self, nested: PathQuery) -> WherePath:
        *before, last = nested.steps
        if any(step.predicates for step in before):
            raise self._refuse("a predicate inside a predicate path")
        match last.predicates:
            case ():
                return WherePath(nested.steps, None)
            case (AttributePredicate() | TextPredicate() | StringValuePredicate() as predicate,):
                return WherePath(nested.bare.steps, predicate)
            case _:
                raise self._refuse("a predicate inside a predicate path")

    def _check_variable(self, path: algebra.Path) -> None:
        if path.start != algebra.Variable(self._variable):
            raise self._refuse(f"the path {path}, which does not start at ${self._variable},")

    def _template(self, item: algebra.Item | algebra.ConstantText | algebra.Enclosed) -> Iterator[str | int]:
        match item:
            case algebra.ConstantText():
                yield _single_braces(str(item))
            case algebra.ElementConstructor(name, content):
                start = _start_tag(item, str(self._query))
                if not content:
                    yield f"{start.removesuffix('>')}/>"
                    return
                yield start
                for part in content:
                    yield from self._template(part)
                yield f"</{name}>"
            case algebra.Enclosed(inner):
                yield from self._template(inner)
            case algebra.Path():
                yield self._return_path(item)
            case algebra.Sequence(items):
                for inner_item in items:
                    yield from self._template(inner_item)
            case _:
                raise self._refuse(f"{item} in the return clause")

    def _return_path(self, expression: algebra.Path) -> int:
        self._check_variable(expression)
        steps: NavigationPath = ()
        if expression.steps:
            path = path_query(algebra.Path.absolute(*expression.steps))
            if path != path.bare:
                raise self._refuse(f"the return path {expression} with predicates, or of attributes or text,")
            steps = path.steps
        self._returns.append(steps)
        return len(self._returns) - 1
