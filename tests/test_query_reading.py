"""Query text to the algebra and back."""

import pytest

from twigcast.errors import QuerySyntaxError
from twigcast.query import For, ForWhereReturn, parse


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
