"""Queries as data: the algebra of XPath 1.0 and of For-Where-Return, in Python.

The compiled core parses and matches; this module is for programs that *inspect* or *build* queries: the published
algorithms (:mod:`twigcast.lab.reference`), planning (:mod:`twigcast.lab.transform`), the overlays. Every class is a
frozen dataclass, so queries compare and hash by structure. :func:`parse` returns them from text, and ``str()`` returns
their text::

    >>> from twigcast.query import Path, child, descendant, attribute, equal
    >>> str(Path.absolute(child("nitf"), descendant("p", equal(attribute("lang"), "en"), child("em"))))
    '/nitf//p[@lang = "en"][em]'

Steps follow XPath with one convenience: ``//name``, which XPath defines as ``/descendant-or-self::node()/child::name``,
is one step whose axis is :attr:`Axis.DESCENDANT_CHILD`, as in all the papers. Its positions count among siblings.

Modules: ``xpath`` (XPath 1.0), ``flwr`` (For-Where-Return), ``making`` (functions that build queries), ``reading``
(queries from text).
"""

from twigcast.query.flwr import (
    AttributeConstructor,
    Clause,
    CommentConstructor,
    ConstantText,
    Constructor,
    Content,
    ElementConstructor,
    Enclosed,
    For,
    ForWhereReturn,
    IfExpression,
    Item,
    Let,
    OrderKey,
    ProcessingInstructionConstructor,
    Query,
    Sequence,
    expressions,
)
from twigcast.query.making import (
    attribute,
    child,
    compare,
    descendant,
    equal,
    itself,
    nested,
    position,
    text,
)
from twigcast.query.reading import parse
from twigcast.query.xpath import (
    ANY,
    COMPARISONS,
    NODE,
    TEXT,
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
    Step,
    Union,
    Variable,
)

__all__ = [
    "ANY",
    "COMPARISONS",
    "NODE",
    "TEXT",
    "And",
    "Arithmetic",
    "AttributeConstructor",
    "Axis",
    "Clause",
    "CommentConstructor",
    "Compare",
    "ConstantText",
    "Constructor",
    "Content",
    "ContextNode",
    "ElementConstructor",
    "Enclosed",
    "Expr",
    "Filtered",
    "For",
    "ForWhereReturn",
    "FunctionCall",
    "IfExpression",
    "Item",
    "KindTest",
    "Let",
    "Literal",
    "NameTest",
    "Negate",
    "NodeTest",
    "Number",
    "Operator",
    "Or",
    "OrderKey",
    "Path",
    "PathStart",
    "ProcessingInstructionConstructor",
    "Query",
    "Root",
    "Sequence",
    "Step",
    "Union",
    "Variable",
    "attribute",
    "child",
    "compare",
    "descendant",
    "equal",
    "expressions",
    "itself",
    "nested",
    "parse",
    "position",
    "text",
]
