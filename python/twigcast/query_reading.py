"""Query text to the algebra of :mod:`twigcast.query`, by way of the compiled parser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from twigcast import _core
from twigcast.query import (
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
    Root,
    Step,
    Union,
    Variable,
)


def read_expression(query: str, namespaces: Mapping[str, str], dialect: str = "xpath") -> Expr:
    """An XPath query as the algebra; names are printed with the given prefixes.

    Raises:
        QueryError: The query is refused.
        ValueError: It is a For-Where-Return query: see :func:`read_tree`.
    """
    return Reader(namespaces).expression(read_tree(query, namespaces, dialect))


def read_tree(query: str, namespaces: Mapping[str, str], dialect: str = "xpath") -> dict[str, Any]:
    """A query as plain objects; each has a ``kind``.

    Raises:
        QueryError: The query is refused.
    """
    tree = json.loads(_core.parse_tree(query, namespaces, dialect))
    assert isinstance(tree, dict)
    return tree


class Reader:
    """Plain objects to the algebra.

    Args:
        namespaces: Prefix to namespace, for names to be printed with prefixes.
    """

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self._prefixes = {uri: prefix for prefix, uri in namespaces.items()}

    def expression(self, tree: dict[str, Any]) -> Expr:
        """An expression."""
        match tree["kind"]:
            case "or":
                return Or(self._expressions(tree["operands"]))
            case "and":
                return And(self._expressions(tree["operands"]))
            case "union":
                return Union(self._expressions(tree["operands"]))
            case "compare":
                return Compare(Operator(tree["operator"]), self.expression(tree["left"]), self.expression(tree["right"]))
            case "arithmetic":
                left, right = self.expression(tree["left"]), self.expression(tree["right"])
                return Arithmetic(Operator(tree["operator"]), left, right)
            case "negate":
                return Negate(self.expression(tree["operand"]))
            case "path":
                return self._path(tree)
            case _:
                return self._simple(tree)

    def _simple(self, tree: dict[str, Any]) -> Expr:
        match tree["kind"]:
            case "number":
                return Number(float(tree["value"]))
            case "literal":
                return Literal(tree["value"])
            case "call":
                return Call(tree["function"], self._expressions(tree["arguments"]))
            case kind:
                raise ValueError(f"{kind} is no XPath expression")

    def _expressions(self, trees: list[dict[str, Any]]) -> tuple[Expr, ...]:
        return tuple(self.expression(tree) for tree in trees)

    def _path(self, tree: dict[str, Any]) -> Path:
        start = self._start(tree["start"])
        return Path(start, tuple(self._step(step) for step in tree["steps"]))

    def _start(self, tree: dict[str, Any]) -> Root | Context | Variable | Filtered:
        match tree["kind"]:
            case "root":
                return Root()
            case "context":
                return Context()
            case "variable":
                return Variable(tree["name"])
            case _:
                return Filtered(self.expression(tree["primary"]), self._expressions(tree["predicates"]))

    def _step(self, tree: dict[str, Any]) -> Step:
        return Step(Axis(tree["axis"]), self._test(tree["test"]), self._expressions(tree["predicates"]))

    def _test(self, tree: dict[str, Any]) -> NodeTest:
        if tree["kind"] != "name":
            return KindTest(tree["kind"], tree.get("target"))
        namespace = tree["namespace"]
        return NameTest(tree["local"], namespace, self._prefixes.get(namespace, ""))
