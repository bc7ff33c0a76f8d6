"""The algebra of XPath 1.0 expressions, and their text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import TypeAlias


class Axis(StrEnum):
    """The axes of XPath 1.0 (section 2.2), and ``//``."""

    CHILD = "child"
    DESCENDANT_CHILD = "descendant-child"
    """``//name``: the children with that name of the context node and of its descendants."""
    DESCENDANT = "descendant"
    DESCENDANT_OR_SELF = "descendant-or-self"
    SELF = "self"
    ATTRIBUTE = "attribute"
    PARENT = "parent"
    ANCESTOR = "ancestor"
    ANCESTOR_OR_SELF = "ancestor-or-self"
    FOLLOWING = "following"
    FOLLOWING_SIBLING = "following-sibling"
    PRECEDING = "preceding"
    PRECEDING_SIBLING = "preceding-sibling"
    NAMESPACE = "namespace"


class Operator(StrEnum):
    """Comparison and arithmetic operators, by their spelling."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "div"
    MODULO = "mod"


COMPARISONS = frozenset(
    {
        Operator.EQUAL,
        Operator.NOT_EQUAL,
        Operator.LESS,
        Operator.LESS_OR_EQUAL,
        Operator.GREATER,
        Operator.GREATER_OR_EQUAL,
    }
)
"""The operators of :class:`Compare`; the other ones belong to :class:`Arithmetic`."""


@dataclass(frozen=True, slots=True)
class NameTest:
    """A test of the node's name: ``*``, ``name``, ``prefix:name``, ``prefix:*`` or ``*:name``."""

    local: str = "*"
    """The local name; ``*`` for any."""
    namespace: str | None = ""
    """The namespace URI; empty for no namespace, ``None`` for any."""
    prefix: str = field(default="", compare=False)
    """The prefix of the name in the text of the query."""

    def accepts(self, namespace: str, local: str) -> bool:
        """Returns whether an expanded name passes the test."""
        return self.local in ("*", local) and self.namespace in (None, namespace)

    def __str__(self) -> str:
        if self.namespace is None:
            return "*" if self.local == "*" else f"*:{self.local}"
        return f"{self.prefix}:{self.local}" if self.prefix else self.local


ANY = NameTest("*", None)
"""The test ``*``."""


@dataclass(frozen=True, slots=True)
class KindTest:
    """``node()``, ``text()``, ``comment()`` or ``processing-instruction('target')``."""

    kind: str
    target: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}({'' if self.target is None else _quoted(self.target)})"


NODE = KindTest("node")
TEXT = KindTest("text")

NodeTest: TypeAlias = NameTest | KindTest


@dataclass(frozen=True, slots=True)
class Step:
    """One location step: axis, node test, and predicates.

    The predicates apply in order: positions count the nodes that the earlier ones selected.
    """

    axis: Axis
    test: NodeTest
    predicates: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        """Returns the step without the slash before it."""
        return _bare_step(self) + "".join(f"[{_predicate(predicate)}]" for predicate in self.predicates)


@dataclass(frozen=True, slots=True)
class Root:
    """The start of an absolute path: the document node."""


@dataclass(frozen=True, slots=True)
class ContextNode:
    """The start of a relative path: the context node."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The start of a path at a variable of a For-Where-Return query: ``$name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Filtered:
    """The start of a filter expression: ``(primary)[predicate]...``. Its positions count in document order."""

    primary: Expr
    predicates: tuple[Expr, ...] = ()


PathStart: TypeAlias = Root | ContextNode | Variable | Filtered


@dataclass(frozen=True, slots=True)
class Path:
    """A location path: its start and its steps, outermost first."""

    start: PathStart
    steps: tuple[Step, ...] = ()

    @staticmethod
    def absolute(*steps: Step) -> Path:
        """Returns ``/step/step...``."""
        return Path(Root(), steps)

    @staticmethod
    def relative(*steps: Step) -> Path:
        """Returns ``step/step...``, from the context node."""
        return Path(ContextNode(), steps)

    @staticmethod
    def of(variable: str, *steps: Step) -> Path:
        """Returns ``$variable/step/step...``."""
        return Path(Variable(variable), steps)

    def __str__(self) -> str:
        return _path(self)


@dataclass(frozen=True, slots=True)
class Literal:
    """A string."""

    value: str

    def __str__(self) -> str:
        return _quoted(self.value)


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: float

    def __str__(self) -> str:
        return _number(self.value)


@dataclass(frozen=True, slots=True)
class Or:
    """``a or b or ...``: two or more."""

    operands: tuple[Expr, ...]

    def __str__(self) -> str:
        return " or ".join(operand_text(operand, 1) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class And:
    """``a and b and ...``: two or more."""

    operands: tuple[Expr, ...]

    def __str__(self) -> str:
        return " and ".join(operand_text(operand, 2) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right``, with the rules of XPath 1.0 (section 3.4)."""

    operator: Operator
    left: Expr
    right: Expr

    def __str__(self) -> str:
        return f"{operand_text(self.left, 3)} {self.operator} {operand_text(self.right, 3)}"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right`` over numbers."""

    operator: Operator
    left: Expr
    right: Expr

    def __str__(self) -> str:
        return f"{operand_text(self.left, 4)} {self.operator} {operand_text(self.right, 4)}"


@dataclass(frozen=True, slots=True)
class Negate:
    """``-operand``."""

    operand: Expr

    def __str__(self) -> str:
        return f"-{operand_text(self.operand, 5)}"


@dataclass(frozen=True, slots=True)
class Union:
    """``a | b | ...``: two or more node-sets."""

    operands: tuple[Expr, ...]

    def __str__(self) -> str:
        return " | ".join(operand_text(operand, 6) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a core function, by its XPath name (``not``, ``position``, ``starts-with``, ...)."""

    function: str
    arguments: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join(str(argument) for argument in self.arguments)})"


@dataclass(frozen=True, slots=True)
class SetOperation:
    """``left intersect right`` or ``left except right`` (XPath 3.1)."""

    operator: str
    left: Expr
    right: Expr

    def __str__(self) -> str:
        return f"{operand_text(self.left, 7)} {self.operator} {operand_text(self.right, 7)}"


@dataclass(frozen=True, slots=True)
class ValueMap:
    """``nodes ! value`` (XPath 3.1): what ``value`` is at each of ``nodes``."""

    nodes: Expr
    value: Expr

    def __str__(self) -> str:
        return f"{operand_text(self.nodes, 8)} ! {operand_text(self.value, 8)}"


Expr: TypeAlias = (
    Or | And | Compare | Arithmetic | Negate | Union | SetOperation | ValueMap | Path | Literal | Number | FunctionCall
)
"""An expression of XPath 1.0 (W3C Recommendation of 16 November 1999, section 3), or of what XPath 3.1 adds here."""


def operands_of(expression: Expr) -> tuple[Expr, ...]:
    """Returns the operands and arguments of an expression; none for a path, whose predicates have another context.

    The value of a :class:`ValueMap` has a context of its own too.
    """
    match expression:
        case Or(operands) | And(operands) | Union(operands):
            return operands
        case Compare(_, left, right) | Arithmetic(_, left, right) | SetOperation(_, left, right):
            return left, right
        case Negate(operand) | ValueMap(operand, _):
            return (operand,)
        case FunctionCall(_, arguments):
            return arguments
    return ()


def with_operands(expression: Expr, changed: Callable[[Expr], Expr]) -> Expr:
    """Returns an expression with each of its operands and arguments changed."""
    match expression:
        case Or(operands) | And(operands) | Union(operands):
            return type(expression)(tuple(map(changed, operands)))
        case Compare(operator, left, right) | Arithmetic(operator, left, right):
            return type(expression)(operator, changed(left), changed(right))
        case SetOperation(name, left, right):
            return SetOperation(name, changed(left), changed(right))
        case ValueMap(nodes, value):
            return ValueMap(changed(nodes), value)
        case Negate(operand):
            return Negate(changed(operand))
        case FunctionCall(function, arguments):
            return FunctionCall(function, tuple(map(changed, arguments)))
    return expression


# Printing.

_ABBREVIATED = {Axis.CHILD: "", Axis.DESCENDANT_CHILD: "", Axis.ATTRIBUTE: "@"}


def _bare_step(step: Step) -> str:
    if step.test == NODE and not step.predicates and step.axis in (Axis.SELF, Axis.PARENT):
        return "." if step.axis is Axis.SELF else ".."
    return _ABBREVIATED.get(step.axis, f"{step.axis}::") + str(step.test)


def _path(path: Path) -> str:
    match path.start:
        case Root():
            text, separator = "", "/"
            if not path.steps:
                return "/"
        case ContextNode():
            text, separator = "", ""
            if not path.steps:
                return "."
        case Variable(name):
            text, separator = f"${name}", "/"
        case Filtered(primary, predicates):
            bare = isinstance(primary, FunctionCall | Literal)
            text = (str(primary) if bare else f"({primary})") + "".join(f"[{_predicate(p)}]" for p in predicates)
            separator = "/"
    for index, step in enumerate(path.steps):
        if _is_double_slash(step) and index + 1 < len(path.steps) and not separator.endswith("//"):
            separator = "//" if separator else ".//"
            continue
        if step.axis is Axis.DESCENDANT_CHILD:
            # Directly after `//`, it would be written with three slashes.
            text += separator + "descendant-or-self::node()" if separator.endswith("//") else ""
            separator = "//" if text or separator else ".//"
        text += separator + str(step)
        separator = "/"
    return text


def _is_double_slash(step: Step) -> bool:
    return step == Step(Axis.DESCENDANT_OR_SELF, NODE)


def _predicate(expression: Expr) -> str:
    """Returns the text between brackets: `[2]` for `[position() = 2]`."""
    match expression:
        case Compare(Operator.EQUAL, FunctionCall("position"), Number(value)) if math.isfinite(value) and value >= 0:
            return _number(value)
    return str(expression)


_PRECEDENCE = {Or: 1, And: 2, Compare: 3, Arithmetic: 4, Negate: 5, Union: 6, SetOperation: 7, ValueMap: 8}


def operand_text(expression: Expr, outer: int) -> str:
    """Returns an operand of an operator with precedence `outer`, in parentheses if they might be needed."""
    inner = _PRECEDENCE.get(type(expression), 9)
    # `/ * 2` would be read as the path `/*`.
    bare_root = expression == Path(Root())
    return f"({expression})" if inner <= outer or bare_root else str(expression)


def _number(value: float) -> str:
    if math.isnan(value):
        return "(0 div 0)"
    if math.isinf(value):
        return "(1 div 0)" if value > 0 else "(-1 div 0)"
    # XPath has no exponents.
    return format(Decimal(repr(value)), "f").removesuffix(".0")


def _quoted(value: str) -> str:
    if '"' not in value:
        return f'"{value}"'
    if "'" not in value:
        return f"'{value}'"
    # XPath 1.0 literals have no escapes.
    pieces = ["'\"'" if piece == '"' else f'"{piece}"' for piece in _split_quotes(value)]
    return f"concat({', '.join(pieces)})"


def _split_quotes(value: str) -> list[str]:
    head, *rest = value.split('"')
    pieces = [head]
    for piece in rest:
        pieces += ['"', piece]
    return [piece for piece in pieces if piece]
