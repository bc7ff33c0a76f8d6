"""Query text to the algebra and back."""

import pytest

from twigcast.errors import QuerySyntaxError
from twigcast.query import For, ForWhereReturn, parse

FLWR = [
    'for $n in /nitf where $n/head/@x = 1 return <s a="{ $n/@q } z">{ $n/body }t<b/><!--c--><?p d?></s>',
    """<all>{ for $a in //x, $b in $a/y let $c := $b/z where $c > 1 and not($b)
       order by $c descending, $b/@k empty greatest return ($b, <z>{$c}</z>) }</all>""",
    "for $a in //x return if ($a/@b) then $a/c else <none/>",
    "for $a in //x return <p:a xmlns:p='urn:p' p:b='1'>{for $b in $a/y return $b}</p:a>",
    "for $a in //x return (<!--one-->, <?two it?>, ())",
]


@pytest.mark.parametrize("text", FLWR)
def test_for_where_return_queries_survive_printing_and_reading(text: str) -> None:
    query = parse(text)
    assert parse(str(query)) == query


def test_the_parts_of_a_for_where_return_query() -> None:
    query = parse("for $a in //x let $b := $a/y where $b = 1 order by $b return $a")
    assert isinstance(query, ForWhereReturn)
    assert [type(clause).__name__ for clause in query.clauses] == ["For", "Let"]
    first = query.clauses[0]
    assert isinstance(first, For)
    assert str(first.source) == "//x"
    assert str(query.where) == "$b = 1"
    assert [str(key) for key in query.order] == ["$b"]


def test_refused_queries_are_refused() -> None:
    with pytest.raises(QuerySyntaxError):
        parse("for $a in //x return")


def test_the_prefix_xml_needs_no_declaration() -> None:
    query = parse("//p[@xml:lang = 'en']")
    assert str(query) == '//p[@xml:lang = "en"]'
    assert parse(str(query)) == query
