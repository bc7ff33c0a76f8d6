"""The algebra of For-Where-Return queries, and their text.

A query is an *item*: something that evaluates to a sequence of nodes and values. The papers' form, ``for $v in path
where conditions return constructor`` (Diao 2005, section 2.2.2), is a :class:`ForWhereReturn` with one :class:`For`
clause whose result is an :class:`ElementConstructor`; a constant element around it is an :class:`ElementConstructor`
that encloses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from twigcast.query.xpath import Expr, Filtered, Path, ValueMap, operands_of


@dataclass(frozen=True, slots=True)
class Sequence:
    """``(a, b, ...)``: the items one after the other; ``()`` if there is none."""

    items: tuple[Item, ...]

    def __str__(self) -> str:
        return f"({', '.join(str(item) for item in self.items)})"


@dataclass(frozen=True, slots=True)
class For:
    """``for $variable in source``: the variable is each node in turn."""

    variable: str
    source: Expr
    position: str | None = None
    """The variable of ``at``, which holds the number of the node."""

    def __str__(self) -> str:
        position = "" if self.position is None else f" at ${self.position}"
        return f"for ${self.variable}{position} in {_delimited(self.source)}"


@dataclass(frozen=True, slots=True)
class Let:
    """``let $variable := value``."""

    variable: str
    value: Expr

    def __str__(self) -> str:
        return f"let ${self.variable} := {_delimited(self.value)}"


Clause: TypeAlias = For | Let


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A key of ``order by``."""

    key: Expr
    descending: bool = False
    empty_greatest: bool = False
    """Whether an empty node-set is ordered last instead of first."""

    def __str__(self) -> str:
        direction = " descending" if self.descending else ""
        return f"{_delimited(self.key)}{direction}{' empty greatest' if self.empty_greatest else ''}"


@dataclass(frozen=True, slots=True)
class Grouping:
    """``group by $key := value ...``, and the clauses after it."""

    keys: tuple[Let, ...]
    values: tuple[Let, ...] = ()
    where: Expr | None = None

    def __str__(self) -> str:
        keys = ", ".join(str(key).removeprefix("let ") for key in self.keys)
        parts = [f"group by {keys}", *map(str, self.values)]
        return " ".join(parts if self.where is None else [*parts, f"where {_delimited(self.where)}"])


@dataclass(frozen=True, slots=True)
class ForWhereReturn:
    """``for ... let ... where condition order by ... return result``."""

    clauses: tuple[Clause, ...]
    result: Item
    where: Expr | None = None
    order: tuple[OrderKey, ...] = ()
    grouping: Grouping | None = None

    def __str__(self) -> str:
        parts = [str(clause) for clause in self.clauses]
        if self.where is not None:
            parts.append(f"where {_delimited(self.where)}")
        if self.grouping is not None:
            parts.append(str(self.grouping))
        if self.order:
            parts.append(f"order by {', '.join(str(key) for key in self.order)}")
        return " ".join([*parts, f"return {self.result}"])


@dataclass(frozen=True, slots=True)
class IfExpression:
    """``if (condition) then a else b``."""

    condition: Expr
    then: Item
    otherwise: Item

    def __str__(self) -> str:
        return f"if ({self.condition}) then {_delimited(self.then)} else {self.otherwise}"


@dataclass(frozen=True, slots=True)
class ConstantText:
    """Constant text inside a constructor, unescaped."""

    value: str

    def __str__(self) -> str:
        if self.value.isspace():
            # As it is, it would only set the query out.
            return "".join(f"&#{ord(character)};" for character in self.value)
        return _escaped(self.value).replace(">", "&gt;")


@dataclass(frozen=True, slots=True)
class Enclosed:
    """``{ item }`` inside a constructor: copies of its nodes, or its values."""

    item: Item

    def __str__(self) -> str:
        return f"{{ {self.item} }}"


@dataclass(frozen=True, slots=True)
class AttributeConstructor:
    """An attribute of a constructor."""

    name: str
    """As written, prefix included."""
    value: tuple[ConstantText | Enclosed, ...]

    def __str__(self) -> str:
        value = "".join(_quoted(part.value) if isinstance(part, ConstantText) else str(part) for part in self.value)
        return f'{self.name}="{value}"'


@dataclass(frozen=True, slots=True)
class ElementConstructor:
    """``<name attribute="value">content</name>``."""

    name: str
    """As written, prefix included."""
    content: tuple[Content, ...] = ()
    attributes: tuple[AttributeConstructor, ...] = ()
    declarations: tuple[tuple[str, str], ...] = ()
    """Namespaces declared in the start tag: prefix (empty: default) and URI."""

    def __str__(self) -> str:
        declared = [
            f'xmlns:{prefix}="{_quoted(uri)}"' if prefix else f'xmlns="{_quoted(uri)}"'
            for prefix, uri in self.declarations
        ]
        tag = " ".join([self.name, *declared, *map(str, self.attributes)])
        return f"<{tag}>{''.join(str(part) for part in self.content)}</{self.name}>"


@dataclass(frozen=True, slots=True)
class CommentConstructor:
    """``<!--text-->``."""

    text: str

    def __str__(self) -> str:
        return f"<!--{self.text}-->"


@dataclass(frozen=True, slots=True)
class ProcessingInstructionConstructor:
    """``<?target data?>``."""

    target: str
    data: str

    def __str__(self) -> str:
        return f"<?{self.target} {self.data}?>"


@dataclass(frozen=True, slots=True)
class ComputedElement:
    """``element { name } { content }``."""

    name: Expr
    content: tuple[Content, ...] = ()
    declarations: tuple[tuple[str, str], ...] = ()
    """Namespaces declared in the start tag: prefix (empty: default) and URI."""

    def __str__(self) -> str:
        content = ", ".join(str(part.item) for part in self.content if isinstance(part, Enclosed))
        return f"element {{ {self.name} }} {{ {content} }}"


@dataclass(frozen=True, slots=True)
class ComputedAttribute:
    """``attribute name { value }`` or ``attribute { name } { value }``."""

    name: str | Expr
    """As written, prefix included; or the expression that gives it."""
    value: Item | None = None

    def __str__(self) -> str:
        name = self.name if isinstance(self.name, str) else f"{{ {self.name} }}"
        return f"attribute {name} {{ {'' if self.value is None else self.value} }}"


@dataclass(frozen=True, slots=True)
class TextConstructor:
    """``text { item }``."""

    item: Item

    def __str__(self) -> str:
        return f"text {{ {self.item} }}"


Constructor: TypeAlias = (
    ElementConstructor
    | ComputedElement
    | ComputedAttribute
    | TextConstructor
    | CommentConstructor
    | ProcessingInstructionConstructor
)
Content: TypeAlias = ConstantText | Enclosed | Constructor
Item: TypeAlias = Sequence | ForWhereReturn | IfExpression | Constructor | Expr
"""Something that evaluates to a sequence of nodes and values. An expression: copies of its nodes, or its value."""

Query: TypeAlias = Item
"""A query of a subscription: an XPath expression, or a For-Where-Return query."""


def expressions(query: Query) -> Iterator[Expr]:
    """Yields every XPath expression in a query: the outer ones first, then operands, predicates and arguments."""
    if isinstance(query, Expr):
        yield query
        parts: Iterable[Item] = _parts_of_expression(query)
    else:
        parts = _parts_of_item(query)
    for part in parts:
        yield from expressions(part)


def _parts_of_item(item: Sequence | ForWhereReturn | IfExpression | Constructor) -> Iterator[Item]:
    match item:
        case Sequence(items):
            yield from items
        case ForWhereReturn():
            yield from _parts_of_loop(item)
        case IfExpression(condition, then, otherwise):
            yield from (condition, then, otherwise)
        case ElementConstructor():
            yield from _enclosed((*(part for attribute in item.attributes for part in attribute.value), *item.content))
        case ComputedElement(name, content):
            yield from (name, *_enclosed(content))
        case ComputedAttribute(name, value):
            yield from (part for part in (name, value) if not isinstance(part, str | None))
        case TextConstructor(inner):
            yield inner


def _parts_of_loop(item: ForWhereReturn) -> Iterator[Item]:
    yield from (clause.source if isinstance(clause, For) else clause.value for clause in item.clauses)
    yield from () if item.where is None else (item.where,)
    if item.grouping is not None:
        yield from (let.value for let in (*item.grouping.keys, *item.grouping.values))
        yield from () if item.grouping.where is None else (item.grouping.where,)
    yield from (key.key for key in item.order)
    yield item.result


def _enclosed(parts: Iterable[Content]) -> Iterator[Item]:
    """Yields what constructors are made of, without constant text."""
    for part in parts:
        if isinstance(part, Enclosed):
            yield part.item
        elif not isinstance(part, ConstantText):
            yield part


def _parts_of_expression(expression: Expr) -> tuple[Expr, ...]:
    if isinstance(expression, ValueMap):
        return expression.nodes, expression.value
    if not isinstance(expression, Path):
        return operands_of(expression)
    start = expression.start
    begin = (start.primary, *start.predicates) if isinstance(start, Filtered) else ()
    return begin + tuple(predicate for step in expression.steps for predicate in step.predicates)


def _delimited(item: Item) -> str:
    """Returns the text of an item before a keyword, which a slash at its end would turn into the name of a step."""
    text = str(item)
    return f"({text})" if text.endswith("/") else text


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("{", "{{").replace("}", "}}")


def _quoted(value: str) -> str:
    """Returns text inside a quoted attribute value, with white space escaped, as parsers would normalise it."""
    escaped = _escaped(value).replace('"', "&quot;")
    return "".join(f"&#{ord(character)};" if character in "\t\n\r" else character for character in escaped)
