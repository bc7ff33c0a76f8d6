"""The query algebra: what `str()` prints is the same query to an XPath processor."""

import pytest
from lxml import etree

from twigcast.query import (
    NODE,
    And,
    Arithmetic,
    Axis,
    Call,
    Element,
    Enclosed,
    Expr,
    Filtered,
    ForWhereReturn,
    KindTest,
    Literal,
    NameTest,
    Negate,
    Number,
    Operator,
    Or,
    Path,
    Root,
    Step,
    Text,
    Union,
    attribute,
    child,
    compare,
    descendant,
    equal,
    expressions,
    itself,
    nested,
    position,
    text,
)

SLASHES = Step(Axis.DESCENDANT_OR_SELF, NODE)
ONE, TWO, THREE = Number(1), Number(2), Number(3)

PRINTED: list[tuple[Expr, str]] = [
    (Path.absolute(child("a"), descendant("b"), child("*")), "/a//b/*"),
    (Path.absolute(descendant("a")), "//a"),
    (Path.absolute(), "/"),
    (nested(descendant("a"), child("b")), ".//a/b"),
    (nested(), "."),
    (itself(), "."),
    (Path.absolute(SLASHES, Step(Axis.ATTRIBUTE, NameTest("x"))), "//@x"),
    (nested(SLASHES, SLASHES, child("x")), ".//descendant-or-self::node()/x"),
    (Path.absolute(SLASHES, descendant("x")), "//descendant-or-self::node()//x"),
    (Path.absolute(child("a"), SLASHES), "/a/descendant-or-self::node()"),
    (Path.absolute(child("a", nested(child("b")), position("=", 2), position(">", 1))), "/a[b][2][position() > 1]"),
    (Path.absolute(child("a", And((position("=", 2), attribute("x"))))), "/a[position() = 2 and @x]"),
    (Path.absolute(Step(Axis.CHILD, NameTest("a", "urn:x", "p"))), "/p:a"),
    (Path.absolute(Step(Axis.CHILD, NameTest("*", "urn:x", "p"))), "/p:*"),
    (Path.absolute(Step(Axis.CHILD, NameTest("a", None))), "/*:a"),
    (Path.absolute(child("a"), Step(Axis.PARENT, NODE)), "/a/.."),
    (Path.absolute(child("a"), Step(Axis.SELF, NODE, (attribute("x"),))), "/a/self::node()[@x]"),
    (Path.absolute(child("a"), Step(Axis.CHILD, KindTest("processing-instruction", "t"))),
     '/a/processing-instruction("t")'),
    (Path(Filtered(Path.absolute(descendant("a")), (TWO,)), (descendant("b"),)), "(//a)[2]//b"),
    (Path.of("v", child("a")), "$v/a"),
    (Path.of("v"), "$v"),
    (Or((And((ONE, TWO)), Or((ONE, TWO)))), "1 and 2 or (1 or 2)"),
    (And((Or((ONE, TWO)), THREE)), "(1 or 2) and 3"),
    (Arithmetic(Operator.SUBTRACT, ONE, Arithmetic(Operator.SUBTRACT, TWO, THREE)), "1 - (2 - 3)"),
    (Arithmetic(Operator.MULTIPLY, Path(Root()), TWO), "(/) * 2"),
    (Negate(Arithmetic(Operator.ADD, ONE, TWO)), "-(1 + 2)"),
    (Call("count", (Union((Path.absolute(child("a")), Path.absolute(child("b")))),)), "count(/a | /b)"),
    (equal(Literal('say "it\'s"'), "x"), "concat(\"say \", '\"', \"it's\", '\"') = \"x\""),
    (Number(1e-7), "0.0000001"),
    (Number(1e22), "10000000000000000000000"),
    (Number(2.50), "2.5"),
    (equal(text(), "a"), 'text() = "a"'),
    (compare(attribute("n"), "<", 3), "@n < 3"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "expected"), PRINTED, ids=[text for _, text in PRINTED])
def test_prints_the_abbreviated_form(expression: Expr, expected: str) -> None:
    assert str(expression) == expected


@pytest.mark.parametrize("printed", [text for _, text in PRINTED if "$" not in text and "*:" not in text])
def test_what_is_printed_is_xpath(printed: str) -> None:
    etree.XPath(printed, namespaces={"p": "urn:x"})


def test_a_number_that_is_not_finite_has_a_spelling() -> None:
    root = etree.fromstring("<a/>")
    assert root.xpath(f"string({Number(float('inf'))})") == "Infinity"
    assert root.xpath(f"string({Number(float('-inf'))})") == "-Infinity"
    assert root.xpath(f"string({Number(float('nan'))})") == "NaN"


def test_literals_with_both_quotes_keep_their_value() -> None:
    value = "'\"\"' \" '"
    assert etree.fromstring("<a/>").xpath(f"string({Literal(value)})") == value


def test_prefixes_are_spelling_not_meaning() -> None:
    assert NameTest("a", "urn:x", "p") == NameTest("a", "urn:x", "q")
    assert NameTest("a", "urn:x") != NameTest("a")


def test_for_where_return_prints() -> None:
    query = ForWhereReturn(
        "s",
        Path.absolute(descendant("section", compare(attribute("id"), "<=", 2))),
        (equal(Path.of("s", child("title")), "Rail"), Or((Path.of("s"), Path.of("s", child("x"))))),
        (Element("hit", (Text("a{<"), Enclosed(Path.of("s", descendant("figure")))), (("n", 'x"{'),)),),
    )
    assert str(Element("all", (query,))) == (
        '<all>{ for $s in //section[@id <= 2] where $s/title = "Rail" and ($s or $s/x) '
        'return <hit n="x&quot;{{">a{{&lt;{ $s//figure }</hit> }</all>'
    )
    assert Path.of("s", descendant("figure")) in set(expressions(Element("all", (query,))))


def test_expressions_reach_every_corner() -> None:
    leaf = attribute("deep")
    inside = Path(Filtered(Path.absolute(child("a", Negate(leaf)))), ())
    comparison = equal(Arithmetic(Operator.ADD, Union((inside, inside)), ONE), 2)
    assert leaf in set(expressions(Call("not", (Or((comparison, ONE)),))))
