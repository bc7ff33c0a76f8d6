"""The query algebra: what `str()` prints is the same query to an XPath processor."""

import gzip
import json
import pathlib

import pytest
from lxml import etree

from twigcast.errors import QueryError
from twigcast.query import (
    NODE,
    And,
    Arithmetic,
    AttributeConstructor,
    Axis,
    CommentConstructor,
    ConstantText,
    ElementConstructor,
    Enclosed,
    Expr,
    Filtered,
    For,
    ForWhereReturn,
    FunctionCall,
    IfExpression,
    KindTest,
    Let,
    Literal,
    NameTest,
    Negate,
    Number,
    Operator,
    Or,
    OrderKey,
    Path,
    ProcessingInstructionConstructor,
    Root,
    Sequence,
    Step,
    Union,
    attribute,
    child,
    compare,
    descendant,
    equal,
    expressions,
    itself,
    nested,
    parse,
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
    (FunctionCall("count", (Union((Path.absolute(child("a")), Path.absolute(child("b")))),)), "count(/a | /b)"),
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
    figures = Path.of("s", descendant("figure"))
    hit = ElementConstructor(
        "hit",
        (ConstantText("a{<"), Enclosed(figures)),
        (AttributeConstructor("n", (ConstantText('x"{'), Enclosed(Path.of("s")))),),
    )
    sections = Path.absolute(descendant("section", compare(attribute("id"), "<=", 2)))
    where = And((equal(Path.of("s", child("title")), "Rail"), Or((Path.of("s"), Path.of("s", child("x"))))))
    query = ElementConstructor("all", (Enclosed(ForWhereReturn((For("s", sections),), hit, where)),))
    assert str(query) == (
        '<all>{ for $s in //section[@id <= 2] where $s/title = "Rail" and ($s or $s/x) '
        'return <hit n="x&quot;{{{ $s }">a{{&lt;{ $s//figure }</hit> }</all>'
    )
    assert {figures, sections, attribute("id"), where} <= set(expressions(query))


def test_every_part_of_for_where_return_prints() -> None:
    one, two = Path.absolute(descendant("a")), Path.of("v", child("b"))
    ordered = ForWhereReturn(
        (Let("v", one), For("w", two)), IfExpression(two, Sequence(()), one), None, (OrderKey(two, True, True),)
    )
    assert str(Sequence((ordered, CommentConstructor("c"), ProcessingInstructionConstructor("t", "d")))) == (
        "(let $v := //a for $w in $v/b order by $v/b descending empty greatest "
        "return if ($v/b) then () else //a, <!--c-->, <?t d?>)"
    )
    tag = ElementConstructor(
        "p:a",
        (ConstantText(" "), ConstantText("x ")),
        (AttributeConstructor("b", (ConstantText("\n"),)),),
        (("p", "urn:x"), ("", "u&")),
    )
    assert str(tag) == '<p:a xmlns:p="urn:x" xmlns="u&amp;" b="&#10;">&#32;x </p:a>'
    assert list(expressions(ordered)).count(two) == 3


def test_expressions_reach_every_corner() -> None:
    leaf = attribute("deep")
    inside = Path(Filtered(Path.absolute(child("a", Negate(leaf)))), ())
    comparison = equal(Arithmetic(Operator.ADD, Union((inside, inside)), ONE), 2)
    assert leaf in set(expressions(FunctionCall("not", (Or((comparison, ONE)),))))


NAMESPACES = {"": "urn:d", "d": "urn:d", "p": "urn:p"}

TEXTS = [
    '/a//b[2][@x = "1"]/@y',
    "//text()",
    "/",
    "//a[.//b]/..",
    "//a[not(b or c) and position() > 1]",
    "count(//a) > 2",
    "(//a)[1]/b | //c",
    "//p:a[@p:x]/d:*",
    "//*:a/@*:b",
    "//a[b = -1.5]",
    "string(//a) = concat('\"', \"'\")",
    "//a[1 + 1]",
    "//processing-instruction('x')",
    "/a/descendant::b[2]",
    "//a/ancestor-or-self::*[@x]",
    "//a[. = 'x' or ./b]",
    "/a/./b",
    "//@d:x",
    "//a[//b]",
    "id('x')/b",
    "//a//descendant-or-self::node()",
    "- //a < 1 div 3",
    "//a[last()]",
    "(/)/a",
]


@pytest.mark.parametrize("query", TEXTS)
def test_text_to_algebra_to_text(query: str) -> None:
    """What is printed reads back as the same algebra, and means the same to libxml2."""
    algebra = parse(query, NAMESPACES)
    printed = str(algebra)
    assert parse(printed, NAMESPACES) == algebra
    if "*:" not in query and "d:" not in query:
        document = etree.fromstring(b'<a><b x="1">t<a><b y="">1</b><c/></a></b><c x="2"><a/></c><?x y?></a>')
        plain = {"p": "urn:p"}
        assert repr(document.xpath(str(parse(query, plain)), namespaces=plain)) == repr(
            document.xpath(query, namespaces=plain)
        )


def test_parse_folds_double_slashes_exactly() -> None:
    assert parse("//a[2]/.//b") == Path.absolute(descendant("a", position("=", 2)), descendant("b"))
    assert parse("//a[.//b/@x > 1]") == Path.absolute(
        descendant("a", compare(nested(descendant("b"), *attribute("x").steps), ">", 1))
    )
    assert parse("/descendant::a[2]") != parse("//a[2]")


def test_a_refused_query_says_where() -> None:
    with pytest.raises(QueryError) as caught:
        parse("/a[")
    assert caught.value.column == 4


def test_for_where_return_in_the_papers_form() -> None:
    binding, conditions = Path.absolute(descendant("item")), equal(Path.of("i", child("head")), "Port")
    expected = ForWhereReturn(
        (For("i", binding),), ElementConstructor("e", (Enclosed(Path.of("i", child("pic"))),)), conditions
    )
    assert parse("for $i in //item where $i/head = 'Port' return <e>{ $i/pic }</e>") == expected


def test_generated_for_where_return_reads_back(shared_data: pathlib.Path) -> None:
    with gzip.open(shared_data / "flwr_cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases[::5]:
        algebra = parse(case["query"])
        assert parse(str(algebra)) == algebra, case["query"]


def test_generated_expressions_read_back(shared_data: pathlib.Path) -> None:
    with gzip.open(shared_data / "xpath_cases.jsonl.gz", "rt", encoding="utf-8") as lines:
        cases = [json.loads(line) for line in lines]
    for case in cases[::5]:
        algebra = parse(case["query"], case["namespaces"])
        assert parse(str(algebra), case["namespaces"]) == algebra, case["query"]
        if "union" not in case["features"]:
            result = (
                etree.fromstring(case["doc"].encode())
                .getroottree()
                .xpath(f"boolean({algebra})", namespaces=case["namespaces"] or None)
            )
            assert result == case["boolean"], (case["query"], str(algebra))
