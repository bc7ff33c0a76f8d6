"""For-Where-Return queries in the form that the plans take (Diao 2005, sections 2.2.2 and 6.2).

``for $v in binding where predicate-path op constant and ... return constructor``: the binding path is absolute and may
have value-based predicates at any step; predicate and return paths are relative to $v. *Navigation paths*, axes and
name tests only, are what the shared matcher sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from twigcast import query as algebra
from twigcast.reference.language import (
    AttributePredicate,
    LocationStep,
    PathQuery,
    StringValuePredicate,
    TextPredicate,
    UnsupportedQuery,
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
    """Turn the algebra of :mod:`twigcast.query` into this form.

    Raises:
        UnsupportedQuery: the query is outside the subset of the source; the error names the construct.
    """
    if isinstance(query, algebra.Element):
        return _wrapped(query)
    if not isinstance(query, algebra.ForWhereReturn):
        raise UnsupportedQuery("a query without a for clause", str(query))
    return _Translation(query).translate()


def _wrapped(element: algebra.Element) -> TransformQuery:
    inner = [part for part in element.content if isinstance(part, algebra.ForWhereReturn)]
    if len(inner) != 1:
        raise UnsupportedQuery("anything but one query inside the outer element", str(element))
    before, _, after = _tags(element, "\0").partition("\0")
    found = _Translation(inner[0]).translate()
    return TransformQuery(found.binding, found.conditions, found.where, found.returns, found.template, (before, after))


def _tags(element: algebra.Element, placeholder: str) -> str:
    shallow = tuple(
        algebra.Text(placeholder) if isinstance(part, algebra.ForWhereReturn) else part for part in element.content
    )
    if any(not isinstance(part, algebra.Text) for part in shallow):
        raise UnsupportedQuery("more than text beside the query in the outer element", str(element))
    return str(algebra.Element(element.name, shallow, element.attributes)).replace("{{", "{").replace("}}", "}")


class _Translation:
    """One query on its way from the algebra."""

    def __init__(self, query: algebra.ForWhereReturn) -> None:
        self._query = query
        self._returns: list[NavigationPath] = []

    def translate(self) -> TransformQuery:
        binding = path_query(self._query.binding)
        template = tuple(part for item in self._query.content for part in self._template(item))
        return TransformQuery(
            binding.bare.steps,
            tuple(self._conditions(binding)),
            tuple(self._where(conjunct) for conjunct in self._query.where),
            tuple(self._returns),
            template,
        )

    def _refuse(self, construct: str) -> UnsupportedQuery:
        return UnsupportedQuery(construct, str(self._query))

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
        if len(stand_in.predicates) != 1:
            raise self._refuse(f"the condition {conjunct}")
        (found,) = stand_in.predicates
        if isinstance(found, AttributePredicate | TextPredicate | StringValuePredicate):
            return WherePath((), found)
        nested = getattr(found, "path", None)
        if not isinstance(nested, PathQuery):
            raise self._refuse(f"the condition {conjunct}")
        *before, last = nested.steps
        if any(step.predicates for step in before) or len(last.predicates) > 1:
            raise self._refuse("a predicate inside a predicate path")
        predicate = last.predicates[0] if last.predicates else None
        if not isinstance(predicate, AttributePredicate | TextPredicate | StringValuePredicate | None):
            raise self._refuse(f"the condition {conjunct}")
        return WherePath(nested.bare.steps, predicate)

    def _check_variable(self, path: algebra.Path) -> None:
        if path.start != algebra.Variable(self._query.variable):
            raise self._refuse(f"the path {path}, which does not start at ${self._query.variable},")

    def _template(self, item: algebra.Content) -> Iterator[str | int]:
        match item:
            case algebra.Text():
                yield str(item).replace("{{", "{").replace("}}", "}")
            case algebra.Element(name, content, attributes):
                empty = str(algebra.Element(name, (), attributes))
                start = empty.removesuffix(f"</{name}>").replace("{{", "{").replace("}}", "}")
                yield start
                for part in content:
                    yield from self._template(part)
                yield f"</{name}>"
            case algebra.Enclosed(expression):
                yield self._return_path(expression)
            case _:
                raise self._refuse("a query inside the return clause")

    def _return_path(self, expression: algebra.Expr) -> int:
        if not isinstance(expression, algebra.Path):
            raise self._refuse(f"{{ {expression} }} in the return clause")
        self._check_variable(expression)
        if expression.steps:
            path = path_query(algebra.Path.absolute(*expression.steps))
            if path != path.bare:
                raise self._refuse(f"the return path {expression} with predicates, or of attributes or text,")
            self._returns.append(path.steps)
        else:
            self._returns.append(())
        return len(self._returns) - 1
