"""Decides which queries no document of a schema matches, from the query and the schema alone.

A path is followed through the element graph: which elements, attributes and text nodes can it select in *some* valid
document? Where that is none, a condition that needs one cannot hold (Benedikt, Fan and Geerts 2008 prove how hard the
exact question is; this is the part of it that is decided step by step). What is found is certain; much is not found:
whether two conditions can hold in one and the same document is not asked.

A DTD knows nothing of namespaces, so names are compared by their local parts.
"""

from __future__ import annotations

import difflib
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from twigcast.query import (
    And,
    Axis,
    Compare,
    ContextNode,
    ElementConstructor,
    Expr,
    Filtered,
    For,
    ForWhereReturn,
    FunctionCall,
    KindTest,
    Literal,
    NameTest,
    Number,
    Operator,
    Or,
    Path,
    Query,
    Root,
    SetOperation,
    Step,
    Union,
    ValueMap,
    Variable,
)
from twigcast.query.functions import result_type
from twigcast.query.reading import XML_NAMESPACE
from twigcast.schema.model import AttributeDeclaration, Schema

_NAMES_SHOWN_MAX: Final = 6
"""The most names that a reason lists."""

_WORK_MAX: Final = 100_000
"""The most nodes of the schema that are looked at for one query."""

_OWNERS_SHOWN_MAX: Final = 3
"""The most elements that a reason speaks of one by one."""

_NEAR: Final = 0.75
"""The likeness (0 to 1) from which on one name may be meant by another."""

Reason: TypeAlias = str
"""Why a condition never holds, in words."""


class _TooMuchWork(Exception):
    """Ends an analysis that would take too long."""


class _NodeKind(NamedTuple):
    """The nodes of one kind at one place of the schema."""

    kind: str
    """``document``, ``element``, ``attribute``, ``text`` or ``other`` (comments, processing instructions)."""

    element: str = ""
    """The name of the element, or of the one that it belongs to; empty for one outside the root."""

    attribute: str = ""
    """The name of the attribute."""


_DOCUMENT: Final = _NodeKind("document")
_Nodes: TypeAlias = frozenset[_NodeKind]


class _Selected(NamedTuple):
    """What a path can select, or why it selects nothing."""

    nodes: _Nodes
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class _Scope:
    """The context node of an expression, and what the variables around it can hold."""

    node: _NodeKind
    variables: Mapping[str, _Selected] = field(default_factory=dict)

    def at(self, node: _NodeKind) -> _Scope:
        return _Scope(node, self.variables)


class Satisfiability:
    """Tells which queries match no document that is valid by a schema; several threads may use it."""

    def __init__(self, schema: Schema) -> None:
        """Makes an analysis of one schema. Any declared element may be the root of a document."""
        self._schema = schema
        self._local: dict[str, list[str]] = {}
        for name in schema.elements:
            self._local.setdefault(_local(name), []).append(name)
        self._all = frozenset(_NodeKind("element", name) for name in schema.elements)
        # Every declared element may be the root, so each is reached.
        self._parents: dict[str, list[str]] = {name: [] for name in schema.elements}
        for name in schema.elements:
            for child in schema.children(name):
                self._parents[child].append(name)
        self._known_children: dict[_NodeKind, _Nodes] = {}
        self._work = 0
        self._using = threading.Lock()

    def why_never(self, query: Query) -> Reason | None:
        """Returns why a query matches no valid document; ``None`` if it may match one.

        Of a query that is too much work for a large schema (over about a tenth of a second), nothing is said.
        """
        with self._using:
            self._work = 0
            try:
                return self._never_returns(query, _Scope(_DOCUMENT))
            except _TooMuchWork:
                return None

    # Axes

    def _reached(self, axis: Axis, nodes: _Nodes) -> _Nodes:
        match axis:
            case Axis.SELF:
                return nodes
            case Axis.CHILD:
                return self._each(nodes, self._children)
            case Axis.DESCENDANT | Axis.DESCENDANT_CHILD:
                return self._closure(self._each(nodes, self._children), self._children)
            case Axis.DESCENDANT_OR_SELF:
                return self._closure(nodes, self._children)
            case Axis.PARENT:
                return self._each(nodes, self._parents_of)
            case Axis.ANCESTOR:
                return self._closure(self._each(nodes, self._parents_of), self._parents_of)
            case Axis.ANCESTOR_OR_SELF:
                return self._closure(nodes, self._parents_of)
            case Axis.ATTRIBUTE:
                return self._each(nodes, self._attributes)
            case Axis.FOLLOWING_SIBLING | Axis.PRECEDING_SIBLING:
                return self._each(nodes, self._siblings)
        # Before and after a node there can be anything.
        return self._closure(self._children(_DOCUMENT), self._children)

    def _each(self, nodes: _Nodes, onward: Callable[[_NodeKind], _Nodes]) -> _Nodes:
        reached: set[_NodeKind] = set()
        for node in nodes:
            further = onward(node)
            self._count(len(further))
            reached |= further
        return frozenset(reached)

    def _closure(self, begin: _Nodes, onward: Callable[[_NodeKind], _Nodes]) -> _Nodes:
        reached = set(begin)
        pending = list(reached)
        while pending:
            further = onward(pending.pop())
            self._count(len(further))
            pending += further - reached
            reached |= further
        return frozenset(reached)

    def _count(self, nodes: int) -> None:
        self._work += nodes + 1
        if self._work > _WORK_MAX:
            raise _TooMuchWork

    def _children(self, node: _NodeKind) -> _Nodes:
        known = self._known_children.get(node)
        if known is None:
            known = self._known_children[node] = self._children_by_schema(node)
        return known

    def _children_by_schema(self, node: _NodeKind) -> _Nodes:
        if node.kind == "document":
            return self._all | {_NodeKind("other")}
        if node.kind != "element":
            return frozenset()
        content = self._schema.elements[node.element].content
        if content.kind == "empty":
            return frozenset()
        # White space between elements is a text node, too.
        inside = {_NodeKind("text", node.element), _NodeKind("other", node.element)}
        return frozenset(_NodeKind("element", child) for child in self._schema.children(node.element)) | inside

    def _parents_of(self, node: _NodeKind) -> _Nodes:
        if node.kind == "document":
            return frozenset()
        if node.kind != "element":
            return frozenset({_NodeKind("element", node.element) if node.element else _DOCUMENT})
        return frozenset(_NodeKind("element", name) for name in self._parents[node.element]) | {_DOCUMENT}

    def _siblings(self, node: _NodeKind) -> _Nodes:
        if node.kind == "attribute":
            return frozenset()
        # Beside the root there are no elements.
        beside = {_NodeKind("other")} if _DOCUMENT in self._parents_of(node) else set()
        above = (parent for parent in self._parents_of(node) if parent != _DOCUMENT)
        return frozenset(child for parent in above for child in self._children(parent)) | beside

    def _attributes(self, node: _NodeKind) -> _Nodes:
        if node.kind != "element":
            return frozenset()
        return frozenset(
            _NodeKind("attribute", node.element, declared.name)
            for declared in self._schema.elements[node.element].attributes
            if declared.name != "xmlns" and not declared.name.startswith("xmlns:")
        )

    # Paths

    def _select(self, expression: Expr, scope: _Scope) -> _Selected | None:
        """Returns what an expression can select; ``None`` if it returns no nodes, or nothing is known of them."""
        match expression:
            case Path(start, steps):
                begin = self._start(start, scope)
                return None if begin is None else self._follow(begin, steps, scope)
            case Union(operands):
                parts = [self._select(operand, scope) for operand in operands]
                known = [part for part in parts if part is not None]
                if len(known) < len(parts):
                    return None
                return _merged(known)
            case SetOperation(name, left, right):
                first, second = self._select(left, scope), self._select(right, scope)
                if name != "intersect" or first is None or not first.nodes:
                    return first
                return second if second is not None and not second.nodes else first
        return None

    def _start(self, start: Root | ContextNode | Variable | Filtered, scope: _Scope) -> _Selected | None:
        match start:
            case Root():
                return _Selected(frozenset({_DOCUMENT}))
            case ContextNode():
                return _Selected(frozenset({scope.node}))
            case Variable(name):
                # The message and the parameters are bound by nothing here.
                return _Selected(frozenset({_DOCUMENT})) if name == "doc" else scope.variables.get(name)
            case Filtered(primary, predicates):
                selected = self._select(primary, scope)
                return None if selected is None else self._filtered(selected, predicates, scope)

    def _follow(self, selected: _Selected, steps: tuple[Step, ...], scope: _Scope) -> _Selected | None:
        for step in steps:
            if step.axis is Axis.NAMESPACE:
                return None
            before = selected.nodes
            reached = self._reached(step.axis, before)
            passing = frozenset(node for node in reached if self._passes(node, step))
            if step.axis is Axis.ATTRIBUTE and _is_of_xml(step.test):
                # A record that was cut out of a document may have got one that its DTD does not declare.
                owners = (node.element for node in before if node.kind == "element")
                passing |= {_NodeKind("attribute", owner, f"xml:{_local_of(step.test)}") for owner in owners}
            if before and not passing:
                return _Selected(frozenset(), self._why_no_step(before, reached, step))
            position = _position_of_child(step)
            if position is not None:
                above = self._closure(before, self._children) if step.axis is Axis.DESCENDANT_CHILD else before
                passing = self._as_often(above, passing, position)
            selected = self._filtered(_Selected(passing, selected.reason), step.predicates, scope, str(step.test))
            if not selected.nodes:
                return selected
        return selected

    def _passes(self, node: _NodeKind, step: Step) -> bool:
        test = step.test
        if isinstance(test, KindTest):
            # Comments and processing instructions are not told apart.
            return test.kind == "node" or node.kind == ("text" if test.kind == "text" else "other")
        if step.axis is Axis.ATTRIBUTE:
            return test.local in ("*", _local(node.attribute)) and _may_be_in(test.namespace, node.attribute)
        return node.kind == "element" and test.local in ("*", _local(node.element))

    def _as_often(self, parents: _Nodes, children: _Nodes, position: float) -> _Nodes:
        """Returns the children that an element can have so many of."""
        if len({_local(child.element) for child in children}) < len(children):
            return children
        return frozenset(
            child for child in children if any(self._most(parent, child.element) >= position for parent in parents)
        )

    def _most(self, parent: _NodeKind, child: str) -> float:
        """Returns the greatest number of children of one name."""
        if parent.kind == "document":
            return 1
        if parent.kind != "element":
            return 0
        most = self._schema.elements[parent.element].content.most(child)
        return math.inf if most is None else most

    def _filtered(self, selected: _Selected, predicates: tuple[Expr, ...], scope: _Scope, what: str = "") -> _Selected:
        nodes, reason = selected
        if not nodes and reason is None:
            return _Selected(nodes, f"nothing there has so many children {what}")
        for predicate in predicates:
            kept = set()
            for node in sorted(nodes):
                self._count(1)
                why = self._never(predicate, scope.at(node))
                if why is None:
                    kept.add(node)
                else:
                    reason = reason or why
            nodes = frozenset(kept)
        return _Selected(nodes, None if nodes else reason)

    # Conditions

    def _never(self, expression: Expr, scope: _Scope) -> Reason | None:
        """Returns why a condition never holds at the context node; ``None`` if it may hold."""
        match expression:
            case And(operands):
                return next((why for one in operands if (why := self._never(one, scope)) is not None), None)
            case Or(operands):
                reasons = [self._never(one, scope) for one in operands]
                return reasons[0] if all(why is not None for why in reasons) else None
            case Compare():
                return self._never_compares(expression, scope)
            case FunctionCall("boolean" | "exists", (argument,)):
                return self._never(argument, scope)
            case FunctionCall("contains" | "starts-with" | "ends-with", (text, Literal(value))) if value:
                found = self._value_without_nodes(text, scope)
                return found[1] if found is not None and found[0] == "" else None
            case ValueMap(nodes, _):
                return self._nothing(nodes, scope)
        return self._nothing(expression, scope)

    def _nothing(self, expression: Expr, scope: _Scope) -> Reason | None:
        selected = self._select(expression, scope)
        return selected.reason if selected is not None and not selected.nodes else None

    def _never_compares(self, comparison: Compare, scope: _Scope) -> Reason | None:
        left, right = comparison.left, comparison.right
        for side, other in ((left, right), (right, left)):
            # Of a node-set, a comparison with a boolean asks whether there is a node.
            if result_type(other) != "boolean" and (why := self._nothing(side, scope)) is not None:
                return why
        first, second = self._constant(left, scope), self._constant(right, scope)
        if first is not None and second is not None and (first[1] or second[1]):
            return None if _compares(comparison.operator, first[0], second[0]) else first[1] or second[1]
        if comparison.operator is not Operator.EQUAL:
            return None
        return self._no_such_value(left, right, scope) or self._no_such_value(right, left, scope)

    def _no_such_value(self, path: Expr, constant: Expr, scope: _Scope) -> Reason | None:
        """Returns why attributes with enumerated values never have a constant as one."""
        selected = self._select(path, scope)
        if selected is None or not selected.nodes or not isinstance(constant, Literal | Number):
            return None
        allowed: list[str] = []
        for node in sorted(selected.nodes):
            declared = self._attribute(node)
            values = () if declared is None else _values(declared)
            if declared is None or not values or any(_is_value(value, constant) for value in values):
                return None
            allowed += values
        node = min(selected.nodes)
        wanted = constant.value if isinstance(constant, Literal) else str(constant)
        return f"{node.attribute} of {node.element} is never {wanted!r}, but {_listed(allowed, wanted)}"

    def _attribute(self, node: _NodeKind) -> AttributeDeclaration | None:
        if node.kind != "attribute":
            return None
        declared = self._schema.elements[node.element].attributes
        return next((one for one in declared if one.name == node.attribute), None)

    def _constant(self, expression: Expr, scope: _Scope) -> tuple[str | float, Reason | None] | None:
        if isinstance(expression, Literal | Number):
            return expression.value, None
        return self._value_without_nodes(expression, scope)

    def _value_without_nodes(self, expression: Expr, scope: _Scope) -> tuple[str | float, Reason] | None:
        """Returns what a function returns of a path that selects nothing, and why it does not; otherwise ``None``."""
        why = self._nothing(expression, scope)
        if why is not None:
            return "", why
        if not isinstance(expression, FunctionCall) or not expression.arguments:
            return None
        found = self._value_without_nodes(expression.arguments[0], scope)
        if found is None:
            return None
        match expression.function:
            case "string" | "normalize-space" | "lower-case" | "upper-case" | "translate" | "substring":
                return "", found[1]
            case "count" | "string-length" if found[0] == "":
                return 0.0, found[1]
            case "number":
                return math.nan, found[1]
        return None

    # Queries

    def _never_returns(self, query: Query, scope: _Scope) -> Reason | None:
        """Returns why a query never returns anything; ``None`` if it may."""
        match query:
            case ForWhereReturn():
                return self._never_binds(query, scope)
            case ElementConstructor(_, content) if len(content) == 1:
                # A constant element around a loop is sent for each message, with or without anything in it.
                return None
        if isinstance(query, Expr) and result_type(query) in ("boolean", "node-set"):
            return self._never(query, scope)
        return None

    def _never_binds(self, query: ForWhereReturn, scope: _Scope) -> Reason | None:
        variables = dict(scope.variables)
        for clause in query.clauses:
            inner = _Scope(scope.node, variables)
            selected = self._select(clause.source if isinstance(clause, For) else clause.value, inner)
            if isinstance(clause, For):
                if selected is not None and not selected.nodes:
                    return selected.reason
                if clause.position is not None:
                    variables.pop(clause.position, None)
            if selected is None:
                variables.pop(clause.variable, None)
            else:
                variables[clause.variable] = selected
        inner = _Scope(scope.node, variables)
        return None if query.where is None else self._never(query.where, inner)

    # Words

    def _why_no_step(self, before: _Nodes, reached: _Nodes, step: Step) -> Reason:
        owners = sorted({node.element for node in before if node.kind == "element"})
        owner = _listed(owners) if 0 < len(owners) <= _OWNERS_SHOWN_MAX else "nothing there"
        has = "has" if owner == "nothing there" else "has no"
        if isinstance(step.test, KindTest) or step.test.local == "*":
            return f"{owner} {has} {step.axis}::{step.test}"
        name = step.test.local
        if step.axis is Axis.ATTRIBUTE:
            known = sorted({node.attribute for node in reached if node.kind == "attribute"})
            having = f"; there are {_listed(known, name, 'and')}" if known else "; it has no attributes"
            return f"{owner} {has} attribute {name}{having}"
        if name not in self._local:
            near = difflib.get_close_matches(name, self._local, 1, _NEAR)
            return f"there is no element {name}" + (f"; did you mean {near[0]}?" if near else "")
        known = sorted({_local(node.element) for node in reached if node.kind == "element"})
        may = f"; it may have {_listed(known, name)}" if known else "; it has no elements there"
        homes = sorted(set(self._parents[self._local[name][0]]))
        where = f" ({name} is a child of {_listed(homes)})" if homes else ""
        axis = "descendant" if step.axis is Axis.DESCENDANT_CHILD else step.axis
        return f"{owner} {has} {axis} {name}{where}{may}"


def _merged(parts: Iterable[_Selected]) -> _Selected:
    parts = list(parts)
    nodes = frozenset(node for part in parts for node in part.nodes)
    return _Selected(nodes, None if nodes else next((part.reason for part in parts if part.reason), None))


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _may_be_in(namespace: str | None, attribute: str) -> bool:
    """Returns whether a declared attribute can be in a namespace; without a prefix, an attribute is in none."""
    if namespace is None:
        return True
    prefix = attribute.rpartition(":")[0]
    return bool(prefix) == bool(namespace) and (prefix == "xml") == (namespace == XML_NAMESPACE)


def _local_of(test: NameTest | KindTest) -> str:
    return test.local if isinstance(test, NameTest) else ""


def _is_of_xml(test: NameTest | KindTest) -> bool:
    return isinstance(test, NameTest) and test.namespace in (XML_NAMESPACE, None)


def _position_of_child(step: Step) -> float | None:
    """Returns the position among the children of one name that a step asks for, if it asks for one."""
    named = isinstance(step.test, NameTest) and step.test.local != "*"
    if not named or step.axis not in (Axis.CHILD, Axis.DESCENDANT_CHILD) or not step.predicates:
        return None
    match step.predicates[0]:
        case Number(value) | Compare(Operator.EQUAL, FunctionCall("position"), Number(value)):
            return value
    return None


def _values(declared: AttributeDeclaration) -> tuple[str, ...]:
    """Returns the values that an attribute can have, where the DTD lists them."""
    if declared.fixed and declared.default is not None:
        return (declared.default,)
    return declared.values


def _is_value(value: str, constant: Literal | Number) -> bool:
    if isinstance(constant, Number):
        return _number(value) == constant.value
    # White space in it is normalised by whoever reads the DTD, and by nobody else.
    return " ".join(value.split()) == " ".join(constant.value.split())


def _number(value: str | float) -> float:
    try:
        return float(value)
    except ValueError:
        return math.nan


def _compares(operator: Operator, left: str | float, right: str | float) -> bool:
    if operator in (Operator.EQUAL, Operator.NOT_EQUAL):
        if isinstance(left, float) or isinstance(right, float):
            left, right = _number(left), _number(right)
        return (left == right) == (operator is Operator.EQUAL)
    first, second = _number(left), _number(right)
    if operator in (Operator.LESS, Operator.GREATER):
        return first < second if operator is Operator.LESS else first > second
    return first <= second if operator is Operator.LESS_OR_EQUAL else first >= second


def _listed(names: Iterable[str], wanted: str = "", last: str = "or") -> str:
    """Returns names as prose: those that resemble `wanted` first, and not too many."""
    known = list(dict.fromkeys(names))
    near = difflib.get_close_matches(wanted, known, 2, _NEAR) if wanted else []
    shown = [*near, *(name for name in known if name not in near)][:_NAMES_SHOWN_MAX]
    rest = len(known) - len(shown)
    if rest:
        shown.append(f"{rest} more")
    return f" {last} ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
