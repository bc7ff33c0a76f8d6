"""From the compiled parser's JSON to the algebra."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from twigcast.query.flwr import Query
from twigcast.query.xpath import (
    ANY,
    NODE,
    And,
    Arithmetic,
    Axis,
    Call,
    Compare,
    Context,
    Expr,
    Filtered,
    KindTest,
    Literal,
    NameTest,
    Negate,
    NodeTest,
    Number,
    Operator,
    Or,
    Path,
    PathStart,
    Root,
    Step,
    Union,
    Variable,
)

Json: TypeAlias = dict[str, Any]

_SELF = Step(Axis.SELF, NODE)
_SLASHES = Step(Axis.DESCENDANT_OR_SELF, NODE)


def parse(text: str, namespaces: Mapping[str, str] | None = None, dialect: str = "xpath") -> Query:
    """A query's text as algebra.

    Args:
        text: An XPath 1.0 expression or a For-Where-Return query.
        namespaces: Prefix to URI; the empty prefix is the default for element names.
        dialect: ``xpath``, or ``legacy`` for the papers' spellings.

    Raises:
        QueryError: The query is refused; the error says where and why.
    """
    from twigcast import _core  # the algebra itself needs no compiled code

    declared = dict(namespaces or {})
    return read(_core.parse_tree(text, declared, dialect), declared)


def read(tree: str, namespaces: Mapping[str, str]) -> Query:
    """The algebra of what ``twigcast._core.parse_tree`` answers."""
    return _Reader(namespaces).expression(json.loads(tree))


class _Reader:
    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self._default = namespaces.get("")
        self._prefixes = {uri: prefix for prefix, uri in sorted(namespaces.items(), reverse=True) if prefix}
        self._readers: dict[str, Callable[[Json], Expr]] = {
            "or": lambda node: Or(self._expressions(node["operands"])),
            "and": lambda node: And(self._expressions(node["operands"])),
            "union": lambda node: Union(self._expressions(node["operands"])),
            "compare": lambda node: Compare(Operator(node["operator"]), *self._sides(node)),
            "arithmetic": lambda node: Arithmetic(Operator(node["operator"]), *self._sides(node)),
            "negate": lambda node: Negate(self.expression(node["operand"])),
            "number": lambda node: Number(float(node["value"])),
            "literal": lambda node: Literal(node["value"]),
            "call": lambda node: Call(node["function"], self._expressions(node["arguments"])),
            "path": self._path,
        }

    def expression(self, node: Json) -> Expr:
        return self._readers[node["kind"]](node)

    def _expressions(self, nodes: list[Json]) -> tuple[Expr, ...]:
        return tuple(self.expression(node) for node in nodes)

    def _sides(self, node: Json) -> tuple[Expr, Expr]:
        return self.expression(node["left"]), self.expression(node["right"])

    def _path(self, node: Json) -> Path:
        return Path(self._start(node["start"]), _abbreviated([self._step(step) for step in node["steps"]]))

    def _start(self, node: Json) -> PathStart:
        match node["kind"]:
            case "root":
                return Root()
            case "context":
                return Context()
            case "variable":
                return Variable(node["name"])
        return Filtered(self.expression(node["primary"]), self._expressions(node["predicates"]))

    def _step(self, node: Json) -> Step:
        axis = Axis(node["axis"])
        return Step(axis, self._test(node["test"], axis), self._expressions(node["predicates"]))

    def _test(self, node: Json, axis: Axis) -> NodeTest:
        if node["kind"] != "name":
            return KindTest(node["kind"], node.get("target"))
        local, namespace = node["local"], node["namespace"]
        if namespace is None:
            return ANY if local == "*" else NameTest(local, None)
        return NameTest(local, namespace, self._prefix(namespace, axis, local))

    def _prefix(self, namespace: str, axis: Axis, local: str) -> str:
        """How to write a namespace: without a prefix where the default applies, which is to names of elements."""
        if not namespace or (namespace == self._default and local != "*" and axis is not Axis.ATTRIBUTE):
            return ""
        return self._prefixes[namespace]


def _abbreviated(steps: list[Step]) -> tuple[Step, ...]:
    """Without superfluous ``.`` steps, and with ``//name`` as one step."""
    kept = [step for step in steps if step != _SELF] or steps[:1]
    joined: list[Step] = []
    for step in kept:
        if joined and joined[-1] == _SLASHES and step.axis is Axis.CHILD:
            joined[-1] = Step(Axis.DESCENDANT_CHILD, step.test, step.predicates)
        else:
            joined.append(step)
    return tuple(joined)
