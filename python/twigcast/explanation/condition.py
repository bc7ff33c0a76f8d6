"""The XPath conditions that a For-Where-Return query sets.

Variables are replaced by the paths that they are bound to, and the ``where`` clause becomes a predicate of the path
of the innermost ``for``. Where it compares values of several variables, each counts as any of its bindings; so what
is said of such a query may be too favourable, which the explanation makes up for by asking the engine whether the
query matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from twigcast.query import (
    And,
    Arithmetic,
    Call,
    Compare,
    Context,
    Element,
    Enclosed,
    Expr,
    Filtered,
    For,
    ForWhereReturn,
    Item,
    Negate,
    Or,
    Path,
    Query,
    Root,
    Sequence,
    Step,
    Union,
    Variable,
)

_MESSAGE_VARIABLES = ("doc", "msg")


def conditions(query: Query) -> list[Expr]:
    """Expressions of which at least one must hold for the query to match; none where that cannot be said."""
    if isinstance(query, Or | And | Compare | Arithmetic | Negate | Union | Path | Call):
        return [query]
    return [condition for flwr in _outermost(query) if (condition := _condition(flwr)) is not None]


def _outermost(item: Item) -> Iterator[ForWhereReturn]:
    """The For-Where-Return expressions in an item that lie in no other."""
    match item:
        case ForWhereReturn():
            yield item
        case Sequence(items):
            for inner in items:
                yield from _outermost(inner)
        case Element():
            for part in item.content:
                if isinstance(part, Enclosed):
                    yield from _outermost(part.item)
                elif isinstance(part, Element):
                    yield from _outermost(part)


def _condition(flwr: ForWhereReturn) -> Expr | None:
    bound = {name: Path(Root()) for name in _MESSAGE_VARIABLES}
    inside = dict(bound)
    path = None
    for clause in flwr.clauses:
        if isinstance(clause, For):
            path = bound[clause.variable] = _as_path(_Substitution(bound).apply(clause.source))
            inside = {**bound, clause.variable: Path(Context())}
        else:
            bound[clause.variable] = _as_path(_Substitution(bound).apply(clause.value))
            inside[clause.variable] = _as_path(_Substitution(inside).apply(clause.value))
    if path is None or flwr.where is None:
        return path
    return with_predicate(path, _Substitution(inside).apply(flwr.where))


def _as_path(expression: Expr) -> Path:
    return expression if isinstance(expression, Path) else Path(Filtered(expression, ()))


def with_predicate(path: Path, predicate: Expr) -> Path:
    """A path with one more predicate at its end."""
    if not path.steps:
        return Path(Filtered(path, (predicate,)))
    last = path.steps[-1]
    return replace(path, steps=(*path.steps[:-1], replace(last, predicates=(*last.predicates, predicate))))


@dataclass(frozen=True, slots=True)
class _Substitution:
    """Replaces variables by the paths that they are bound to."""

    bound: Mapping[str, Path]

    def apply(self, expression: Expr) -> Expr:
        """The expression without variables."""
        match expression:
            case Or(operands) | And(operands) | Union(operands):
                return replace(expression, operands=self._all(operands))
            case Compare() | Arithmetic():
                return replace(expression, left=self.apply(expression.left), right=self.apply(expression.right))
            case Negate(operand):
                return Negate(self.apply(operand))
            case Call(_, arguments):
                return replace(expression, arguments=self._all(arguments))
            case Path():
                return self._path(expression)
        return expression

    def _all(self, expressions: Iterable[Expr]) -> tuple[Expr, ...]:
        return tuple(self.apply(expression) for expression in expressions)

    def _path(self, path: Path) -> Path:
        steps = tuple(self._step(step) for step in path.steps)
        match path.start:
            case Variable(name) if name in self.bound:
                value = self.bound[name]
                return replace(value, steps=value.steps + steps)
            case Filtered(primary, predicates):
                return Path(Filtered(self.apply(primary), self._all(predicates)), steps)
        return replace(path, steps=steps)

    def _step(self, step: Step) -> Step:
        return replace(step, predicates=self._all(step.predicates))
