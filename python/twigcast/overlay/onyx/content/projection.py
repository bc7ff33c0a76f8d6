"""Early projection: a link drops what is not used behind it (Diao 2005, section 7.3.3).

A *part* describes what a query uses of a message: the *base*, a path of child steps from the root element to the bound
elements; the condition on those; and the names of the children that are used. It exists if the three conditions of the
thesis can hold: the query has one `for` clause that others can share, its `where` clause can be widened, and it uses
nothing outside the bound elements: no absolute path, no step to ancestors or siblings, nothing inherited from
ancestors. A query without a part needs the whole message.

A part can be executed. It is a For-Where-Return query whose result keeps the elements around the bound ones, so that
queries behind the link still apply. For every query *q* whose part is covered by a part with the query *T*: q(T(m)) =
q(m).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Final, NamedTuple, TypeAlias

import orjson

from twigcast.errors import TwigcastError
from twigcast.limits import Limits
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
    SetOperation,
    ValueMap,
    Variable,
    expressions,
    parse,
)
from twigcast.query.functions import FUNCTIONS
from twigcast.query.xpath import operands_of
from twigcast.subscriptions import SubscriptionSet

#: Alternatives of a condition; more are replaced by what they have in common.
_ALTERNATIVES_MAX = 16
#: Names of children in a part; if more are used, all children are kept.
_CHILDREN_MAX = 32

_BOUND = "n"
_FORWARD = frozenset(
    {Axis.CHILD, Axis.DESCENDANT, Axis.DESCENDANT_CHILD, Axis.DESCENDANT_OR_SELF, Axis.SELF, Axis.ATTRIBUTE}
)

#: A condition: the `or` of conjunctions of conditions on `$n`.
Where: TypeAlias = frozenset[frozenset[Expr]]

#: The condition that every bound element is used.
ALWAYS: Where = frozenset({frozenset()})


class Projection(NamedTuple):
    """The part of a message that a query uses."""

    base: tuple[NameTest, ...]  #: Names from the root element to the bound elements; two at least.
    where: Where = ALWAYS  #: Condition on the bound elements, which are `$n` in it.
    #: Names of their children that are used; `None`: all children and texts, without `dropped`.
    children: frozenset[NameTest] | None = None
    #: Names of children that are not used; empty unless `children` is `None`.
    dropped: frozenset[NameTest] = frozenset()


class QueryText(NamedTuple):
    """The text of a For-Where-Return query, with its namespaces."""

    text: str
    namespaces: tuple[tuple[str, str], ...]


# From a query to its part.


def part_of(text: str, namespaces: Mapping[str, str], dialect: str = "xpath") -> Projection | None:
    """Returns the part of a message that a query uses; `None`: the whole, or it is not known.

    Raises:
        QueryError: The query is refused.
    """
    if dialect == "xquery":
        return None
    query = parse(text, namespaces, dialect)
    if any(isinstance(expression, SetOperation | ValueMap) for expression in expressions(query)):
        return None
    body = _body(query)
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
    """Returns the only `for` expression of a query: the query itself, or one inside constant elements."""
    if isinstance(query, ForWhereReturn):
        # Positions and groups are of all elements that are bound.
        counts = any(isinstance(clause, For) and clause.position is not None for clause in query.clauses)
        return None if counts or query.grouping is not None else query
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
    """Returns the names of a path of child steps from the message. Only its last step may have predicates."""
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
    # Positions count other bound elements, which a projection may leave out.
    return None if any(map(_counts, source.steps[-1].predicates)) else tuple(names)


def _counts(predicate: Expr) -> bool:
    return is_numeric(predicate) or any(FUNCTIONS[call.function].is_positional for call in _own_calls(predicate))


def _own_calls(expression: Expr) -> Iterator[FunctionCall]:
    """Yields the calls of an expression outside the predicates of its paths."""
    if isinstance(expression, FunctionCall):
        yield expression
    for operand in operands_of(expression):
        yield from _own_calls(operand)


def _is_contained(body: ForWhereReturn) -> bool:
    """Returns whether only the first `for` clause uses nodes outside the elements that it binds."""
    first = body.clauses[0]
    assert isinstance(first, For)
    assert isinstance(first.source, Path)
    parts: list[Query] = [*first.source.steps[-1].predicates, ForWhereReturn(body.clauses[1:], body.result, body.where)]
    parts += [key.key for key in body.order]
    return all(_is_downward(expression) for part in parts for expression in expressions(part))


def _is_downward(expression: Expr) -> bool:
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
    """Returns whether a condition depends on `$n` alone."""
    for expression in expressions(condition):
        if isinstance(expression, Path) and isinstance(expression.start, Variable) and expression.start.name != _BOUND:
            return False
    return all(isinstance(path.start, Variable) for path in own_paths(condition))


def _both(one: Where, other: Where) -> Where:
    return _shortened(frozenset(left | right for left in one for right in other))


def either(parts: Iterable[Where]) -> Where:
    """Returns the `or` of conditions."""
    return _shortened(frozenset().union(*parts))


def _shortened(where: Where) -> Where:
    kept = frozenset(one for one in where if not any(other < one for other in where))
    return kept if len(kept) <= _ALTERNATIVES_MAX else frozenset({frozenset.intersection(*kept)})


def _renamed(condition: Expr, variable: str) -> Expr:
    """Returns a condition with `$n` in place of the bound variable, and no other `$n`."""
    return WithVariables({variable: _BOUND}).expression(condition)


def _from_predicates(predicates: Iterable[Expr]) -> list[Expr]:
    """Returns predicates of the bound step as conditions on `$n`, without those that cannot be expressed."""
    usable = (test for test in predicates if not any(_is_implicit(call) for call in _own_calls(test)))
    return [AtVariable(_BOUND).expression(test) for test in usable]


def _is_implicit(call: FunctionCall) -> bool:
    return FUNCTIONS[call.function].has_implicit_context and not call.arguments


#: Names of children that are used (`None`: all), and names that are not used of all.
_UsedNames: TypeAlias = tuple[frozenset[NameTest] | None, frozenset[NameTest]]

_ANY: _UsedNames = (None, frozenset())


def _children(body: ForWhereReturn, variable: str, predicates: Iterable[Expr]) -> _UsedNames:
    """Returns the names of the children of bound elements that are used, or that are not used."""
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
    """Returns the names that predicates of the bound elements use; `None`: any."""
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
    """Yields paths whose nodes are copied into the result, one after the other.

    If an element between two texts is left out, these become one text. A copy of them is the same as before, but not an
    expression that counts them or processes each.
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
    """Returns whether the first step of a path selects elements, and no texts."""
    return isinstance(path.steps[0].test, NameTest)


def _all_but(path: Path) -> frozenset[NameTest] | None:
    """Returns the names in `$n/node()[not(self::a or self::b)]`, or `None` if the first step has another form."""
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
    """Returns the name of `self::name`."""
    if not isinstance(condition, Path) or not isinstance(condition.start, ContextNode) or len(condition.steps) != 1:
        return None
    (step,) = condition.steps
    if step.axis is not Axis.SELF or step.predicates or not isinstance(step.test, NameTest):
        return None
    return None if step.test.local == "*" or step.test.namespace is None else step.test


#: In place of a name, for a path to an attribute: attributes are always kept.
_NO_CHILD = NameTest("", "")


def _first_child(path: Path) -> NameTest | None:
    """Returns the name of the first step of a path, or `None` if it is not a step to children of one name."""
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
    """Returns the part that covers all parts; `None`: only the whole message does."""
    existing: list[Projection] = []
    for part in parts:
        if part is None or (existing and part.base != existing[0].base):
            return None
        existing.append(part)
    if not existing:
        return None
    children, dropped = _common_children(existing)
    return Projection(existing[0].base, either(part.where for part in existing), children, dropped)


def _common_children(parts: Sequence[Projection]) -> _UsedNames:
    used: frozenset[NameTest] = frozenset().union(*(part.children or () for part in parts))
    if all(part.children is not None for part in parts) and len(used) <= _CHILDREN_MAX:
        return used, frozenset()
    open_parts = [part.dropped for part in parts if part.children is None]
    return None, (frozenset.intersection(*open_parts) - used if open_parts else frozenset())


def covers(wide: Projection | None, narrow: Projection | None) -> bool:
    """Returns whether `wide` holds all that `narrow` uses."""
    if wide is None or narrow is None:
        return wide is None
    if narrow.children is None:
        enough = wide.children is None and wide.dropped <= narrow.dropped
    else:
        enough = narrow.children <= wide.children if wide.children is not None else not wide.dropped & narrow.children
    implied = all(any(other <= one for other in wide.where) for one in narrow.where)
    return wide.base == narrow.base and enough and implied


def query_of(part: Projection) -> QueryText:
    """Returns the For-Where-Return query that reduces a message to a part, with the elements around the bound ones."""
    prefixes: dict[str, str] = {}
    renamed = WithPrefixes(lambda uri: prefixes.setdefault(uri, f"p{len(prefixes) + 1}"))
    names = [str(renamed.name(test)) for test in part.base]
    declared = dict(prefixes)
    returned = _rebuilt(names[-1], part, renamed)
    where = _text_of(part.where, renamed)
    text = f"{{ for ${_BOUND} in /{'/'.join(names)}{where} return {returned} }}"
    for name in reversed(names[1:-1]):
        text = f"<{name}>{text}</{name}>"
    outer = ElementConstructor(names[0], declarations=tuple((prefix, uri) for uri, prefix in declared.items()))
    start = str(outer).removesuffix(f"</{names[0]}>")
    return QueryText(f"{start}{text}</{names[0]}>", tuple((prefix, uri) for uri, prefix in prefixes.items()))


def _rebuilt(name: str, part: Projection, renamed: WithPrefixes) -> str:
    """Returns the constructor of a bound element with some of its children."""
    if part.children is None and not part.dropped:
        return f"${_BOUND}"
    tests = [f"self::{renamed.name(test)}" for test in sorted(part.children or part.dropped, key=_order)]
    if part.children is None:
        content = f"{{ ${_BOUND}/node()[not({' or '.join(tests)})] }}"
    else:
        content = f"{{ ${_BOUND}/*[{' or '.join(tests)}] }}" if tests else ""
    return f"<{name}>{{ ${_BOUND}/@* }}{content}</{name}>"


def _text_of(where: Where, renamed: WithPrefixes) -> str:
    if where == ALWAYS:
        return ""
    alternatives = []
    for one in sorted(where, key=lambda one: sorted(map(sort_key, one))):
        conjuncts = [f"({renamed.expression(condition)})" for condition in sorted(one, key=sort_key)]
        alternatives.append(" and ".join(conjuncts))
    return f" where {' or '.join(alternatives) or 'false()'}"


#: Greatest length of the text of a part; a longer one stands for the whole message.
PART_CHARACTERS_MAX: Final = 64 << 10


@lru_cache(4_096)
def write_part(part: Projection | None) -> str:
    """Returns a part as text. An empty text stands for the whole message, and for a part that cannot be expressed."""
    if part is None:
        return ""
    query = query_of(part._replace(children=None, dropped=frozenset()))
    names = [sorted((test.local, test.namespace) for test in some) for some in (part.children or (), part.dropped)]
    children = None if part.children is None else names[0]
    text = orjson.dumps([query.text, query.namespaces, children, names[1]]).decode()
    if len(text) > PART_CHARACTERS_MAX or not _is_same(part, text):
        return ""
    return text


@lru_cache(4_096)
def read_part(text: str) -> Projection | None:
    """Returns the part of a text, or `None` for the whole message and for texts of newer brokers."""
    if not text or len(text) > PART_CHARACTERS_MAX:
        return None
    try:
        query, namespaces, children, dropped = orjson.loads(text)
        part = part_of(query, dict(namespaces))
        tests = None if children is None else _names(children)
        without = _names(dropped)
    except (ValueError, TypeError, TwigcastError):
        return None
    return None if part is None else part._replace(children=tests, dropped=without)


def _names(pairs: list[list[str]]) -> frozenset[NameTest]:
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise TypeError("a name is no text")
    return frozenset(NameTest(local, namespace) for local, namespace in pairs)


def _is_same(part: Projection, text: str) -> bool:
    """Returns whether reading a text gives the part again."""
    return read_part(text) == part


class Transformation:
    """A sequence of compiled queries. Each transforms the result of the one before."""

    def __init__(self, queries: Iterable[QueryText], limits: Limits | None = None) -> None:
        """Compiles the queries.

        Raises:
            QueryError: A query is refused.
        """
        self._stages: list[SubscriptionSet] = []
        for query in queries:
            stage = SubscriptionSet(namespaces=dict(query.namespaces), limits=limits or Limits())
            stage.add_many([("only", query.text)]).raise_if_refused()
            self._stages.append(stage)

    def run(self, message: bytes) -> bytes | None:
        """Returns the transformed message, or `None` if a query does not match.

        Raises:
            RejectedMessage: The message is malformed or over a limit.
        """
        for stage in self._stages:
            deliveries = list(stage.deliver(message))
            if not deliveries:
                return None
            message = deliveries[0].payload
        return message
