"""Early projection: a link drops what nobody behind it needs (Diao 2005, section 7.3.3).

A *part* says what a query takes of a message: the *base*, a path of child steps from the root element to the bound
elements; the condition on those; and the names of the children that are looked at. It exists where the three conditions
of the thesis can hold: the query has one `for` clause that others may share, whose `where` clause can be widened, and
it looks at nothing outside the bound elements: no absolute path, no step backwards or sidewards, nothing inherited from
ancestors. A query without a part needs the whole message.

A part can be executed: it is a For-Where-Return query itself, whose result keeps the elements around the bound ones, so
that the queries behind the link still apply. For every query *q* whose part is covered by a part with the query *T*:
q(T(m)) = q(m).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import NamedTuple, TypeAlias

from twigcast.overlay.onyx.linear import is_numeric, own_paths, sort_key
from twigcast.overlay.onyx.rewriting import AtVariable, WithPrefixes, WithVariables
from twigcast.query import (
    And,
    Axis,
    Call,
    Context,
    Element,
    Enclosed,
    Expr,
    For,
    ForWhereReturn,
    Item,
    NameTest,
    Or,
    Path,
    Query,
    Root,
    Variable,
    expressions,
    parse,
)

#: Alternatives of a condition; of more, what they have in common is taken.
_ALTERNATIVES_MAX = 16
#: Names of children that are told apart; where more are needed, all are kept.
_CHILDREN_MAX = 32

_BOUND = "n"
_FORWARD = frozenset(
    {Axis.CHILD, Axis.DESCENDANT, Axis.DESCENDANT_CHILD, Axis.DESCENDANT_OR_SELF, Axis.SELF, Axis.ATTRIBUTE}
)
#: Functions that look at more than the nodes they are given.
_LOOKING_ELSEWHERE = frozenset({"lang", "id"})
#: Functions that look at the context node where they are given none.
_IMPLICIT = frozenset({"string", "name", "local-name", "namespace-uri", "normalize-space", "number", "string-length"})

#: A condition: the `or` of conjunctions of conditions on `$n`.
Where: TypeAlias = frozenset[frozenset[Expr]]

#: Every bound element is needed.
ALWAYS: Where = frozenset({frozenset()})


class Part(NamedTuple):
    """What a query takes of a message.

    Attributes:
        base: Names from the root element to the bound elements; two at least.
        where: Condition on the bound elements, which are `$n` in it.
        children: Names of their children that are looked at; `None`: all, and their texts.
    """

    base: tuple[NameTest, ...]
    where: Where = ALWAYS
    children: frozenset[NameTest] | None = None


class QueryText(NamedTuple):
    """A For-Where-Return query, ready to be registered."""

    text: str
    namespaces: tuple[tuple[str, str], ...]


# From a query to its part.


def part_of(text: str, namespaces: Mapping[str, str], dialect: str = "xpath") -> Part | None:
    """The part of a message that a query takes; `None`: the whole, or it cannot be said.

    Raises:
        QueryError: The query is refused.
    """
    if dialect == "xquery":
        return None
    body = _body(parse(text, namespaces, dialect))
    if body is None or not isinstance(body.clauses[0], For):
        return None
    first = body.clauses[0]
    base = _base(first.source)
    if base is None or not _is_contained(body):
        return None
    assert isinstance(first.source, Path)
    conditions = [] if body.where is None else [_renamed(body.where, first.variable)]
    conditions += _from_predicates(first.source.steps[-1].predicates)
    return Part(base, _where(conditions), _children(body, first.variable, first.source.steps[-1].predicates))


def _body(query: Query) -> ForWhereReturn | None:
    """The only `for` expression of a query: the query itself, or inside constant elements."""
    if isinstance(query, ForWhereReturn):
        return query
    if not isinstance(query, Element) or any(isinstance(p, Enclosed) for a in query.attributes for p in a.value):
        return None
    inner = [part for part in query.content if isinstance(part, Enclosed | Element)]
    if len(inner) != 1:
        return None
    (only,) = inner
    item: Item = only.item if isinstance(only, Enclosed) else only
    return _body(item)


def _base(source: Expr) -> tuple[NameTest, ...] | None:
    """The names of a path of child steps from the message, whose last step alone may have predicates."""
    if not isinstance(source, Path) or not isinstance(source.start, Root) or len(source.steps) < 2:
        return None
    names: list[NameTest] = []
    for index, step in enumerate(source.steps):
        is_last = index == len(source.steps) - 1
        if step.axis is not Axis.CHILD or not isinstance(step.test, NameTest) or (step.predicates and not is_last):
            return None
        if step.test.local == "*" or step.test.namespace is None:
            return None
        names.append(step.test)
    # Positions count other bound elements, which a projection leaves out.
    return None if any(map(_counts, source.steps[-1].predicates)) else tuple(names)


def _counts(predicate: Expr) -> bool:
    return is_numeric(predicate) or any(call.function in ("position", "last") for call in _own_calls(predicate))


def _own_calls(expression: Expr) -> Iterator[Call]:
    """The calls of an expression outside the predicates of its paths."""
    if isinstance(expression, Call):
        yield expression
    operands = getattr(expression, "operands", None) or getattr(expression, "arguments", None)
    if operands is None:
        operands = [getattr(expression, name) for name in ("left", "right", "operand") if hasattr(expression, name)]
    for operand in operands:
        yield from _own_calls(operand)


def _is_contained(body: ForWhereReturn) -> bool:
    """Whether nothing but the first `for` clause looks outside the elements that it binds."""
    first = body.clauses[0]
    assert isinstance(first, For)
    assert isinstance(first.source, Path)
    parts: list[Query] = [*first.source.steps[-1].predicates, ForWhereReturn(body.clauses[1:], body.result, body.where)]
    parts += [key.key for key in body.order]
    return all(_looks_down(expression) for part in parts for expression in expressions(part))


def _looks_down(expression: Expr) -> bool:
    if isinstance(expression, Call):
        return expression.function not in _LOOKING_ELSEWHERE
    if not isinstance(expression, Path):
        return True
    return not isinstance(expression.start, Root) and all(step.axis in _FORWARD for step in expression.steps)


def _where(conditions: Iterable[Expr]) -> Where:
    return reduce(_both, map(_alternatives, conditions), ALWAYS)


def _alternatives(condition: Expr) -> Where:
    match condition:
        case And(operands):
            return reduce(_both, map(_alternatives, operands), ALWAYS)
        case Or(operands):
            return either(map(_alternatives, operands))
    return frozenset({frozenset({condition})}) if _is_about_bound(condition) else ALWAYS


def _is_about_bound(condition: Expr) -> bool:
    """Whether `$n` is the only variable, and there is no other context."""
    for expression in expressions(condition):
        if isinstance(expression, Path) and isinstance(expression.start, Variable) and expression.start.name != _BOUND:
            return False
    return all(isinstance(path.start, Variable) for path in own_paths(condition))


def _both(one: Where, other: Where) -> Where:
    return _shortened(frozenset(left | right for left in one for right in other))


def either(parts: Iterable[Where]) -> Where:
    """The `or` of conditions."""
    return _shortened(frozenset().union(*parts))


def _shortened(where: Where) -> Where:
    kept = frozenset(one for one in where if not any(other < one for other in where))
    return kept if len(kept) <= _ALTERNATIVES_MAX else frozenset({frozenset.intersection(*kept)})


def _renamed(condition: Expr, variable: str) -> Expr:
    """The condition with `$n` in place of the bound variable, and no other `$n`."""
    return WithVariables({variable: _BOUND}).expression(condition)


def _from_predicates(predicates: Iterable[Expr]) -> list[Expr]:
    """Predicates of the bound step as conditions on `$n`; those that cannot be told are left out."""
    usable = (test for test in predicates if not any(_is_implicit(call) for call in _own_calls(test)))
    return [AtVariable(_BOUND).expression(test) for test in usable]


def _is_implicit(call: Call) -> bool:
    return call.function in _IMPLICIT and not call.arguments


def _children(body: ForWhereReturn, variable: str, predicates: Iterable[Expr]) -> frozenset[NameTest] | None:
    """The names of the children of bound elements that are looked at; `None`: any."""
    found: set[NameTest] = set()
    rest: list[Query] = [ForWhereReturn(body.clauses[1:], body.result, body.where), *(key.key for key in body.order)]
    for part in rest:
        for expression in expressions(part):
            if isinstance(expression, Path) and expression.start == Variable(variable):
                test = _first_child(expression)
                if test is None:
                    return None
                found.add(test)
    for predicate in predicates:
        if any(_is_implicit(call) for call in _own_calls(predicate)):
            return None
        for path in own_paths(predicate):
            test = _first_child(path)
            if test is None or not isinstance(path.start, Context):
                return None
            found.add(test)
    found.discard(_NO_CHILD)
    return frozenset(found) if len(found) <= _CHILDREN_MAX else None


#: In place of a name: a path to an attribute, which is kept anyway.
_NO_CHILD = NameTest("", "")


def _first_child(path: Path) -> NameTest | None:
    """The name that the first step of a path gives; `None` if it gives none, or counts."""
    if not path.steps:
        return None
    first = path.steps[0]
    if first.axis is Axis.ATTRIBUTE:
        return _NO_CHILD
    if first.axis is not Axis.CHILD or not isinstance(first.test, NameTest):
        return None
    return None if first.test.local == "*" or first.test.namespace is None else first.test


# Several parts, and parts as queries.


def common_part(parts: Iterable[Part | None]) -> Part | None:
    """The part that covers all of these; `None`: only the whole message does."""
    known: list[Part] = []
    for part in parts:
        if part is None or (known and part.base != known[0].base):
            return None
        known.append(part)
    if not known:
        return None
    looked_at = [part.children for part in known if part.children is not None]
    children = frozenset().union(*looked_at) if len(looked_at) == len(known) else None
    if children is not None and len(children) > _CHILDREN_MAX:
        children = None
    return Part(known[0].base, either(part.where for part in known), children)


def covers(wide: Part | None, narrow: Part | None) -> bool:
    """Whether what `narrow` takes is in what `wide` takes."""
    if wide is None or narrow is None:
        return wide is None
    enough = wide.children is None or (narrow.children is not None and narrow.children <= wide.children)
    implied = all(any(other <= one for other in wide.where) for one in narrow.where)
    return wide.base == narrow.base and enough and implied


def query_of(part: Part) -> QueryText:
    """The For-Where-Return query that takes a part and keeps the elements around the bound ones."""
    prefixes: dict[str, str] = {}
    named = WithPrefixes(lambda uri: prefixes.setdefault(uri, f"p{len(prefixes) + 1}"))
    names = [str(named.name(test)) for test in part.base]
    declared = dict(prefixes)
    returned = f"${_BOUND}" if part.children is None else _rebuilt(names[-1], part.children, named)
    where = _text_of(part.where, named)
    text = f"{{ for ${_BOUND} in /{'/'.join(names)}{where} return {returned} }}"
    for name in reversed(names[1:-1]):
        text = f"<{name}>{text}</{name}>"
    outer = Element(names[0], declarations=tuple((prefix, uri) for uri, prefix in declared.items()))
    start = str(outer).removesuffix(f"</{names[0]}>")
    return QueryText(f"{start}{text}</{names[0]}>", tuple((prefix, uri) for uri, prefix in prefixes.items()))


def _rebuilt(name: str, children: frozenset[NameTest], named: WithPrefixes) -> str:
    """A bound element with some of its children."""
    tests = [f"self::{named.name(test)}" for test in sorted(children, key=lambda test: (test.namespace, test.local))]
    content = f"{{ ${_BOUND}/*[{' or '.join(tests)}] }}" if tests else ""
    return f"<{name}>{{ ${_BOUND}/@* }}{content}</{name}>"


def _text_of(where: Where, named: WithPrefixes) -> str:
    if where == ALWAYS:
        return ""
    alternatives = []
    for one in sorted(where, key=lambda one: sorted(map(sort_key, one))):
        conjuncts = [f"({named.expression(condition)})" for condition in sorted(one, key=sort_key)]
        alternatives.append(" and ".join(conjuncts))
    return f" where {' or '.join(alternatives) or 'false()'}"
