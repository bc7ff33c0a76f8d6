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

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple, TypeAlias

from twigcast.overlay.onyx.content.linear import is_numeric, own_paths, sort_key
from twigcast.overlay.onyx.content.substitution import AtVariable, WithPrefixes, WithVariables
from twigcast.query import (
    ANY,
    NODE,
    And,
    Axis,
    ContextNode,
    ElementConstructor,
    Enclosed,
    Expr,
    For,
    ForWhereReturn,
    FunctionCall,
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
from twigcast.query.functions import FUNCTIONS

#: Alternatives of a condition; of more, what they have in common is taken.
_ALTERNATIVES_MAX = 16
#: Names of children that are told apart; where more are needed, all are kept.
_CHILDREN_MAX = 32

_BOUND = "n"
_FORWARD = frozenset(
    {Axis.CHILD, Axis.DESCENDANT, Axis.DESCENDANT_CHILD, Axis.DESCENDANT_OR_SELF, Axis.SELF, Axis.ATTRIBUTE}
)

#: A condition: the `or` of conjunctions of conditions on `$n`.
Where: TypeAlias = frozenset[frozenset[Expr]]

#: Every bound element is needed.
ALWAYS: Where = frozenset({frozenset()})


class Projection(NamedTuple):
    """What a query takes of a message.

    Attributes:
        base: Names from the root element to the bound elements; two at least.
        where: Condition on the bound elements, which are `$n` in it.
        children: Names of their children that are looked at; `None`: all, and their texts...
        dropped: ... but for these, which nobody looks at; only where `children` is `None`.
    """

    base: tuple[NameTest, ...]
    where: Where = ALWAYS
    children: frozenset[NameTest] | None = None
    dropped: frozenset[NameTest] = frozenset()


class QueryText(NamedTuple):
    """A For-Where-Return query, ready to be registered."""

    text: str
    namespaces: tuple[tuple[str, str], ...]


# From a query to its part.


def part_of(text: str, namespaces: Mapping[str, str], dialect: str = "xpath") -> Projection | None:
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
    children, dropped = _children(body, first.variable, first.source.steps[-1].predicates)
    return Projection(base, _where(conditions), children, dropped)


def _body(query: Query) -> ForWhereReturn | None:
    """The only `for` expression of a query: the query itself, or inside constant elements."""
    if isinstance(query, ForWhereReturn):
        return query
    if not isinstance(query, ElementConstructor) or any(
        isinstance(p, Enclosed) for a in query.attributes for p in a.value
    ):
        return None
    inner = [part for part in query.content if isinstance(part, Enclosed | ElementConstructor)]
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
    return is_numeric(predicate) or any(FUNCTIONS[call.function].is_positional for call in _own_calls(predicate))


def _own_calls(expression: Expr) -> Iterator[FunctionCall]:
    """The calls of an expression outside the predicates of its paths."""
    if isinstance(expression, FunctionCall):
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
    if isinstance(expression, FunctionCall):
        return not FUNCTIONS[expression.function].looks_elsewhere
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


def _is_implicit(call: FunctionCall) -> bool:
    return FUNCTIONS[call.function].has_implicit_context and not call.arguments


#: Names that are looked at (`None`: any), and of any those that are not.
_Looked: TypeAlias = tuple[frozenset[NameTest] | None, frozenset[NameTest]]

_ANY: _Looked = (None, frozenset())


def _children(body: ForWhereReturn, variable: str, predicates: Iterable[Expr]) -> _Looked:
    """The names of the children of bound elements that are looked at; or which are not."""
    results = _in_predicates(predicates)
    if results is None:
        return _ANY
    dropped: frozenset[NameTest] | None = None
    rest: list[Query] = [ForWhereReturn(body.clauses[1:], body.result, body.where), *(key.key for key in body.order)]
    paths = Counter(
        expression
        for part in rest
        for expression in expressions(part)
        if isinstance(expression, Path) and expression.start == Variable(variable)
    )
    copied = Counter(_copied(body.result))
    for path, count in paths.items():
        test, without = _first_child(path), _all_but(path)
        if test is not None:
            results.add(test)
        elif without is not None and (_is_star(path) or copied[path] == count):
            dropped = without if dropped is None else dropped & without
        else:
            return _ANY
    results.discard(_NO_CHILD)
    if dropped is not None:
        return None, frozenset(sorted(dropped - results, key=_order)[:_CHILDREN_MAX])
    return (frozenset(results) if len(results) <= _CHILDREN_MAX else None), frozenset()


def _in_predicates(predicates: Iterable[Expr]) -> set[NameTest] | None:
    """The names that predicates of the bound elements look at; `None`: any."""
    results: set[NameTest] = set()
    for predicate in predicates:
        if any(_is_implicit(call) for call in _own_calls(predicate)):
            return None
        for path in own_paths(predicate):
            test = _first_child(path)
            if test is None or not isinstance(path.start, ContextNode):
                return None
            results.add(test)
    return results


def _order(test: NameTest) -> tuple[str, str]:
    return test.namespace or "", test.local


def _copied(result: Item) -> Iterator[Expr]:
    """Paths whose nodes go into the result as they are, one after the other.

    Where an element between two texts is left out, these become one text: what is copied is the same then, but not what
    counts them or takes them one by one.
    """
    if isinstance(result, Path):
        yield result
    elif isinstance(result, ElementConstructor):
        for part in result.content:
            if isinstance(part, ElementConstructor):
                yield from _copied(part)
            elif isinstance(part, Enclosed):
                yield from _copied(part.item)


def _is_star(path: Path) -> bool:
    """Whether the first step of a path is to elements: texts are not looked at."""
    return isinstance(path.steps[0].test, NameTest)


def _all_but(path: Path) -> frozenset[NameTest] | None:
    """The names that the first step leaves out: `$n/node()[not(self::a or self::b)]`; `None`: it is another step."""
    if not path.steps:
        return None
    first = path.steps[0]
    is_any = first.test == NODE or first.test == ANY
    if first.axis is not Axis.CHILD or not is_any or len(first.predicates) != 1:
        return None
    if len(path.steps) > 1 and first.test == NODE:
        return None
    match first.predicates[0]:
        case FunctionCall("not", (condition,)):
            tests = [_self_test(one) for one in (condition.operands if isinstance(condition, Or) else (condition,))]
            existing = frozenset(test for test in tests if test is not None)
            return existing if len(existing) == len(set(tests)) else None
    return None


def _self_test(condition: Expr) -> NameTest | None:
    """The name of `self::name`."""
    if not isinstance(condition, Path) or not isinstance(condition.start, ContextNode) or len(condition.steps) != 1:
        return None
    (step,) = condition.steps
    if step.axis is not Axis.SELF or step.predicates or not isinstance(step.test, NameTest):
        return None
    return None if step.test.local == "*" or step.test.namespace is None else step.test


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


def common_part(parts: Iterable[Projection | None]) -> Projection | None:
    """The part that covers all of these; `None`: only the whole message does."""
    existing: list[Projection] = []
    for part in parts:
        if part is None or (existing and part.base != existing[0].base):
            return None
        existing.append(part)
    if not existing:
        return None
    children, dropped = _common_children(existing)
    return Projection(existing[0].base, either(part.where for part in existing), children, dropped)


def _common_children(parts: Sequence[Projection]) -> _Looked:
    looked_at: frozenset[NameTest] = frozenset().union(*(part.children or () for part in parts))
    if all(part.children is not None for part in parts) and len(looked_at) <= _CHILDREN_MAX:
        return looked_at, frozenset()
    open_parts = [part.dropped for part in parts if part.children is None]
    return None, (frozenset.intersection(*open_parts) - looked_at if open_parts else frozenset())


def covers(wide: Projection | None, narrow: Projection | None) -> bool:
    """Whether what `narrow` takes is in what `wide` takes."""
    if wide is None or narrow is None:
        return wide is None
    if narrow.children is None:
        enough = wide.children is None and wide.dropped <= narrow.dropped
    else:
        enough = narrow.children <= wide.children if wide.children is not None else not wide.dropped & narrow.children
    implied = all(any(other <= one for other in wide.where) for one in narrow.where)
    return wide.base == narrow.base and enough and implied


def query_of(part: Projection) -> QueryText:
    """The For-Where-Return query that takes a part and keeps the elements around the bound ones."""
    prefixes: dict[str, str] = {}
    named = WithPrefixes(lambda uri: prefixes.setdefault(uri, f"p{len(prefixes) + 1}"))
    names = [str(named.name(test)) for test in part.base]
    declared = dict(prefixes)
    returned = _rebuilt(names[-1], part, named)
    where = _text_of(part.where, named)
    text = f"{{ for ${_BOUND} in /{'/'.join(names)}{where} return {returned} }}"
    for name in reversed(names[1:-1]):
        text = f"<{name}>{text}</{name}>"
    outer = ElementConstructor(names[0], declarations=tuple((prefix, uri) for uri, prefix in declared.items()))
    start = str(outer).removesuffix(f"</{names[0]}>")
    return QueryText(f"{start}{text}</{names[0]}>", tuple((prefix, uri) for uri, prefix in prefixes.items()))


def _rebuilt(name: str, part: Projection, named: WithPrefixes) -> str:
    """A bound element with some of its children."""
    if part.children is None and not part.dropped:
        return f"${_BOUND}"
    tests = [f"self::{named.name(test)}" for test in sorted(part.children or part.dropped, key=_order)]
    if part.children is None:
        content = f"{{ ${_BOUND}/node()[not({' or '.join(tests)})] }}"
    else:
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
