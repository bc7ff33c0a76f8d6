"""The algebra of a query from the JSON of the compiled parser."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from twigcast._core import parse_tree
from twigcast.query.flwr import (
    AttributeConstructor,
    Clause,
    CommentConstructor,
    ComputedAttribute,
    ComputedElement,
    ConstantText,
    Constructor,
    Content,
    ElementConstructor,
    Enclosed,
    For,
    ForWhereReturn,
    Grouping,
    IfExpression,
    Item,
    Let,
    OrderKey,
    ProcessingInstructionConstructor,
    Query,
    Sequence,
    TextConstructor,
)
from twigcast.query.xpath import (
    ANY,
    NODE,
    And,
    Arithmetic,
    Axis,
    Compare,
    ContextNode,
    Expr,
    Filtered,
    FunctionCall,
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
    SetOperation,
    Step,
    Union,
    ValueMap,
    Variable,
)

Json: TypeAlias = dict[str, Any]

XML_NAMESPACE = "http://www.w3.org/XML/1998/namespace"
"""The namespace of the prefix ``xml``, which needs no declaration."""

_CONSTRUCTORS = (
    "element",
    "computed-element",
    "computed-attribute",
    "text-constructor",
    "comment-constructor",
    "processing-instruction-constructor",
)
_SELF = Step(Axis.SELF, NODE)
_SLASHES = Step(Axis.DESCENDANT_OR_SELF, NODE)


def parse(
    text: str,
    namespaces: Mapping[str, str] | None = None,
    dialect: str = "xpath",
    params: Mapping[str, Any] | None = None,
) -> Query:
    """Parses the text of a query.

    Args:
        text: An XPath 1.0 expression or a For-Where-Return query.
        namespaces: Prefix to URI; the empty prefix is the default for element names.
        dialect: ``xpath``, or ``legacy`` for the spellings of the papers.
        params: Values of parameters, by name; they stand in the query in place of its ``$name``.

    Raises:
        QueryError: The query is refused; the error says where and why.
    """
    declared = dict(namespaces or {})
    return read(parse_tree(text, declared, dialect, params), declared)


def read(tree: str, namespaces: Mapping[str, str]) -> Query:
    """Reads the result of ``twigcast._core.parse_tree``."""
    return _ItemReader(namespaces).item(json.loads(tree))


class _ItemReader:
    """A reader of For-Where-Return queries, with the namespaces in scope."""

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self._namespaces = namespaces
        self._expression = _ExpressionReader(namespaces).expression
        self._readers: dict[str, Callable[[Json], Item]] = {
            "flwr-query": lambda node: self.item(node["body"]),
            "sequence": lambda node: Sequence(tuple(map(self.item, node["items"]))),
            "flwr": self._for_where_return,
            "if": lambda node: IfExpression(
                self._expression(node["condition"]), self.item(node["then"]), self.item(node["else"])
            ),
        }

    def item(self, node: Json) -> Item:
        kind = node["kind"]
        if kind in self._readers:
            return self._readers[kind](node)
        return self._constructor(node) if kind in _CONSTRUCTORS else self._expression(node)

    def _for_where_return(self, node: Json) -> ForWhereReturn:
        return ForWhereReturn(
            tuple(map(self._clause, node["clauses"])),
            self.item(node["return"]),
            None if node["where"] is None else self._expression(node["where"]),
            tuple(
                OrderKey(self._expression(key["key"]), key["descending"], key["empty_greatest"])
                for key in node["order"]
            ),
            self._grouping(node["grouping"]),
        )

    def _grouping(self, node: Json | None) -> Grouping | None:
        if node is None:
            return None
        keys, values = (
            tuple(Let(one["name"], self._expression(one["value"])) for one in node[part]) for part in ("keys", "values")
        )
        return Grouping(keys, values, None if node["where"] is None else self._expression(node["where"]))

    def _clause(self, node: Json) -> Clause:
        if node["kind"] == "for":
            return For(node["name"], self._expression(node["source"]), node["position"])
        return Let(node["name"], self._expression(node["value"]))

    def _constructor(self, node: Json) -> Constructor:
        match node["kind"]:
            case "comment-constructor":
                return CommentConstructor(node["value"])
            case "processing-instruction-constructor":
                return ProcessingInstructionConstructor(node["target"], node["data"])
            case "text-constructor":
                return TextConstructor(self.item(node["item"]))
            case "computed-attribute":
                name = node["qname"] if node["name"] is None else self._expression(node["name"])
                return ComputedAttribute(name, None if node["value"] is None else self.item(node["value"]))
        declarations = tuple((declared["prefix"], declared["uri"]) for declared in node["declarations"])
        inside = _ItemReader({**self._namespaces, **dict(declarations)}) if declarations else self
        if node["kind"] == "computed-element":
            content = tuple(map(inside._content, node["content"]))
            return ComputedElement(self._expression(node["name"]), content, declarations)
        return ElementConstructor(
            node["qname"],
            tuple(map(inside._content, node["content"])),
            tuple(
                AttributeConstructor(attribute["qname"], tuple(map(inside._part, attribute["value"])))
                for attribute in node["attributes"]
            ),
            declarations,
        )

    def _content(self, node: Json) -> Content:
        return self._constructor(node) if node["kind"] in _CONSTRUCTORS else self._part(node)

    def _part(self, node: Json) -> ConstantText | Enclosed:
        return ConstantText(node["value"]) if node["kind"] == "text" else Enclosed(self.item(node["item"]))


class _ExpressionReader:
    """A reader of XPath expressions."""

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        self._default = namespaces.get("")
        self._prefixes = {XML_NAMESPACE: "xml"} | {
            uri: prefix for prefix, uri in sorted(namespaces.items(), reverse=True) if prefix
        }
        self._readers: dict[str, Callable[[Json], Expr]] = {
            "or": lambda node: Or(self._expressions(node["operands"])),
            "and": lambda node: And(self._expressions(node["operands"])),
            "union": lambda node: Union(self._expressions(node["operands"])),
            "compare": lambda node: Compare(Operator(node["operator"]), *self._sides(node)),
            "arithmetic": lambda node: Arithmetic(Operator(node["operator"]), *self._sides(node)),
            "negate": lambda node: Negate(self.expression(node["operand"])),
            "number": lambda node: Number(float(node["value"])),
            "literal": lambda node: Literal(node["value"]),
            "intersect": lambda node: SetOperation("intersect", *self._sides(node)),
            "except": lambda node: SetOperation("except", *self._sides(node)),
            "map": lambda node: ValueMap(self.expression(node["nodes"]), self.expression(node["value"])),
            "call": lambda node: FunctionCall(node["function"], self._expressions(node["arguments"])),
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
                return ContextNode()
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
        """Returns the prefix of a namespace: none if it is the default, which applies to names of elements."""
        if not namespace or (namespace == self._default and local != "*" and axis is not Axis.ATTRIBUTE):
            return ""
        return self._prefixes[namespace]


def _abbreviated(steps: list[Step]) -> tuple[Step, ...]:
    """Returns the steps without superfluous ``.``, and with ``//name`` as one step."""
    kept = [step for step in steps if step != _SELF] or steps[:1]
    joined: list[Step] = []
    for step in kept:
        if joined and joined[-1] == _SLASHES and step.axis is Axis.CHILD:
            joined[-1] = Step(Axis.DESCENDANT_CHILD, step.test, step.predicates)
        else:
            joined.append(step)
    return tuple(joined)
