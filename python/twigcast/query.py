"""Queries as data: the algebra of XPath 1.0 and of For-Where-Return, in Python.

The compiled core parses and matches; this module is for programs that *look at* queries or *make* them: the published
algorithms (:mod:`twigcast.reference`), the generators (:mod:`twigcast.workload`), planning (:mod:`twigcast.transform`).
Every class is a frozen dataclass, so queries compare and hash by structure, and ``str()`` gives query text again::

    >>> from twigcast.query import Path, child, descendant, attribute, equal
    >>> str(Path.absolute(child("nitf"), descendant("p", equal(attribute("lang"), "en"), child("em"))))
    '/nitf//p[@lang = "en"][em]'

Steps follow XPath with one convenience: ``//name``, which XPath defines as ``/descendant-or-self::node()/child::name``,
is one step whose axis is :attr:`Axis.DESCENDANT_CHILD`, as in all the papers. Positions in it count among siblings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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
"""The operators that :class:`Compare` may hold; the others belong to :class:`Arithmetic`."""


@dataclass(frozen=True, slots=True)
class NameTest:
    """A test of the node's name: ``*``, ``name``, ``prefix:name``, ``prefix:*`` or ``*:name``."""

    local: str = "*"
    """The local name; ``*`` for any."""
    namespace: str | None = ""
    """The namespace URI; empty for no namespace, ``None`` for any."""
    prefix: str = field(default="", compare=False)
    """What to write in front of the name when the query is printed."""

    def accepts(self, namespace: str, local: str) -> bool:
        """Whether an expanded name passes."""
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

    The predicates are a conjunction, in order: positions count what the earlier ones left.
    """

    axis: Axis
    test: NodeTest
    predicates: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        """The step without the slash before it."""
        return _bare_step(self) + "".join(f"[{_predicate(predicate)}]" for predicate in self.predicates)


@dataclass(frozen=True, slots=True)
class Root:
    """Where an absolute path starts: the document node."""


@dataclass(frozen=True, slots=True)
class Context:
    """Where a relative path starts: the context node."""


@dataclass(frozen=True, slots=True)
class Variable:
    """Where a path of a For-Where-Return query may start: ``$name``."""

    name: str


@dataclass(frozen=True, slots=True)
class Filtered:
    """Where a filter expression starts: ``(primary)[predicate]...``; its positions count in document order."""

    primary: Expr
    predicates: tuple[Expr, ...] = ()


PathStart: TypeAlias = Root | Context | Variable | Filtered


@dataclass(frozen=True, slots=True)
class Path:
    """A location path: where it starts, and its steps, outermost first."""

    start: PathStart
    steps: tuple[Step, ...] = ()

    @staticmethod
    def absolute(*steps: Step) -> Path:
        """``/step/step...``"""
        return Path(Root(), steps)

    @staticmethod
    def relative(*steps: Step) -> Path:
        """``step/step...``, from the context node."""
        return Path(Context(), steps)

    @staticmethod
    def of(variable: str, *steps: Step) -> Path:
        """``$variable/step/step...``"""
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
        return " or ".join(_operand(operand, 1) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class And:
    """``a and b and ...``: two or more."""

    operands: tuple[Expr, ...]

    def __str__(self) -> str:
        return " and ".join(_operand(operand, 2) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class Compare:
    """``left op right``, with the rules of XPath 1.0 (section 3.4)."""

    operator: Operator
    left: Expr
    right: Expr

    def __str__(self) -> str:
        return f"{_operand(self.left, 3)} {self.operator} {_operand(self.right, 3)}"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right`` over numbers."""

    operator: Operator
    left: Expr
    right: Expr

    def __str__(self) -> str:
        return f"{_operand(self.left, 4)} {self.operator} {_operand(self.right, 4)}"


@dataclass(frozen=True, slots=True)
class Negate:
    """``-operand``."""

    operand: Expr

    def __str__(self) -> str:
        return f"-{_operand(self.operand, 5)}"


@dataclass(frozen=True, slots=True)
class Union:
    """``a | b | ...``: two or more node-sets."""

    operands: tuple[Expr, ...]

    def __str__(self) -> str:
        return " | ".join(_operand(operand, 6) for operand in self.operands)


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a core function, by its XPath name (``not``, ``position``, ``starts-with``, ...)."""

    function: str
    arguments: tuple[Expr, ...] = ()

    def __str__(self) -> str:
        return f"{self.function}({', '.join(str(argument) for argument in self.arguments)})"


Expr: TypeAlias = Or | And | Compare | Arithmetic | Negate | Union | Path | Literal | Number | Call
"""An XPath 1.0 expression (W3C Recommendation of 16 November 1999, section 3)."""


@dataclass(frozen=True, slots=True)
class Text:
    """Constant text inside a constructor, unescaped."""

    value: str

    def __str__(self) -> str:
        escaped = self.value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return escaped.replace("{", "{{").replace("}", "}}")


@dataclass(frozen=True, slots=True)
class Enclosed:
    """``{ expression }`` inside a constructor: copies of the selected nodes, in document order."""

    expression: Expr

    def __str__(self) -> str:
        return f"{{ {self.expression} }}"


@dataclass(frozen=True, slots=True)
class Element:
    """A constant element of a constructor: ``<name attribute="value">content</name>``."""

    name: str
    content: tuple[Content, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        attributes = "".join(f" {name}={_attribute_value(value)}" for name, value in self.attributes)
        inner = "".join(f"{{ {part} }}" if isinstance(part, ForWhereReturn) else str(part) for part in self.content)
        return f"<{self.name}{attributes}>{inner}</{self.name}>"


@dataclass(frozen=True, slots=True)
class ForWhereReturn:
    """``for $variable in binding where condition return content`` (Diao 2005, section 2.2.2).

    Predicates of the where clause are conjuncts of ``where``; the return paths are the enclosed expressions in
    ``content``. A constant element around the whole is an :class:`Element` that holds the query.
    """

    variable: str
    binding: Path
    where: tuple[Expr, ...] = ()
    content: tuple[Content, ...] = ()

    def __str__(self) -> str:
        where = f" where {' and '.join(_operand(condition, 2) for condition in self.where)}" if self.where else ""
        return f"for ${self.variable} in {self.binding}{where} return {''.join(str(part) for part in self.content)}"


Content: TypeAlias = Element | Text | Enclosed | ForWhereReturn

Query: TypeAlias = Expr | ForWhereReturn | Element
"""What a subscriber may leave: an XPath expression, or a For-Where-Return query, perhaps inside a constant element."""


# Making queries in programs.


def child(name: str, *predicates: Expr) -> Step:
    """``/name[...]``; ``*`` for any."""
    return Step(Axis.CHILD, _name_test(name), predicates)


def descendant(name: str, *predicates: Expr) -> Step:
    """``//name[...]``; ``*`` for any."""
    return Step(Axis.DESCENDANT_CHILD, _name_test(name), predicates)


def attribute(name: str) -> Path:
    """``@name``, of the context node."""
    return Path.relative(Step(Axis.ATTRIBUTE, _name_test(name)))


def text() -> Path:
    """``text()``, of the context node."""
    return Path.relative(Step(Axis.CHILD, TEXT))


def itself() -> Path:
    """``.``"""
    return Path.relative(Step(Axis.SELF, NODE))


def nested(*steps: Step) -> Path:
    """A nested path: ``[step/step...]`` when it stands as a predicate."""
    return Path.relative(*steps)


def compare(left: Expr, operator: Operator | str, right: Expr | str | float) -> Compare:
    """``left op right``; a plain string or number on the right becomes a constant."""
    return Compare(Operator(operator), left, _constant(right))


def equal(left: Expr, right: Expr | str | float) -> Compare:
    """``left = right``"""
    return compare(left, Operator.EQUAL, right)


def position(operator: Operator | str, value: float) -> Compare:
    """``position() op value``"""
    return compare(Call("position"), operator, value)


def expressions(query: Query) -> Iterator[Expr]:
    """Every XPath expression in a query, outermost first: itself, operands, predicates, arguments, return paths."""
    match query:
        case ForWhereReturn():
            yield from expressions(query.binding)
            for part in (*query.where, *query.content):
                yield from _expressions_in_content(part)
        case Element():
            for part in query.content:
                yield from _expressions_in_content(part)
        case _:
            yield query
            for inner in _inner(query):
                yield from expressions(inner)


def _expressions_in_content(part: Content | Expr) -> Iterator[Expr]:
    match part:
        case Text():
            return
        case Enclosed(expression):
            yield from expressions(expression)
        case _:
            yield from expressions(part)


def _inner(expression: Expr) -> tuple[Expr, ...]:
    match expression:
        case Or(operands) | And(operands) | Union(operands):
            return operands
        case Compare(_, left, right) | Arithmetic(_, left, right):
            return (left, right)
        case Negate(operand):
            return (operand,)
        case Call(_, arguments):
            return arguments
        case Path(start, steps):
            begin = (start.primary, *start.predicates) if isinstance(start, Filtered) else ()
            return begin + tuple(predicate for step in steps for predicate in step.predicates)
        case Literal() | Number():
            return ()


def _name_test(name: str) -> NameTest:
    return ANY if name == "*" else NameTest(name)


def _constant(value: Expr | str | float) -> Expr:
    if isinstance(value, str):
        return Literal(value)
    return Number(float(value)) if isinstance(value, int | float) else value


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
        case Context():
            text, separator = "", ""
            if not path.steps:
                return "."
        case Variable(name):
            text, separator = f"${name}", "/"
        case Filtered(primary, predicates):
            bare = isinstance(primary, Call | Literal)
            text = (str(primary) if bare else f"({primary})") + "".join(f"[{_predicate(p)}]" for p in predicates)
            separator = "/"
    for index, step in enumerate(path.steps):
        if _is_double_slash(step) and index + 1 < len(path.steps) and not separator.endswith("//"):
            separator = "//" if separator else ".//"
            continue
        if step.axis is Axis.DESCENDANT_CHILD:
            # A `//` directly before would make three slashes.
            text += separator + "descendant-or-self::node()" if separator.endswith("//") else ""
            separator = "//" if text or separator else ".//"
        text += separator + str(step)
        separator = "/"
    return text


def _is_double_slash(step: Step) -> bool:
    return step == Step(Axis.DESCENDANT_OR_SELF, NODE)


def _predicate(expression: Expr) -> str:
    """Text between brackets: `[2]` for `[position() = 2]`."""
    match expression:
        case Compare(Operator.EQUAL, Call("position"), Number(value)) if math.isfinite(value) and value >= 0:
            return _number(value)
    return str(expression)


_PRECEDENCE = {Or: 1, And: 2, Compare: 3, Arithmetic: 4, Negate: 5, Union: 6}


def _operand(expression: Expr, outer: int) -> str:
    """An operand of an operator with precedence `outer`, in parentheses where they could be needed."""
    inner = _PRECEDENCE.get(type(expression), 7)
    # `/ * 2` would read as the path `/*`.
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


def _attribute_value(value: str) -> str:
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return '"' + escaped.replace("{", "{{").replace("}", "}}") + '"'
