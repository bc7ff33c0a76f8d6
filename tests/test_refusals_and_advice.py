"""Queries as people write them from SQL, JSONPath, XPath 3.1, XQuery: what the refusal advises, and that it works."""

from __future__ import annotations

import re
import warnings

import pytest

from twigcast import SubscriptionSet, check
from twigcast.errors import QueryError

NAMESPACES = {"p": "urn:p", "xsi": "http://www.w3.org/2001/XMLSchema-instance"}

ADVICE = [
    # XPath 2.0 and later
    ("//a[matches(., '(a)\\1')]", "refers back", "//a[matches(., '(a)a')]"),
    ("//a[matches(., '\\bflood\\b')]", "(^|\\W)", "//a[matches(., '(^|\\W)flood(\\W|$)')]"),
    ("//a[matches(., '\\Aflood\\z')]", "^ for the start", "//a[matches(., '^flood$')]"),
    ("//a[matches(., '\\u00e9')]", "the character itself", "//a[matches(., 'é')]"),
    ("//a[matches(., '(?i)flood')]", "matches(a, 'x', 'i')", "//a[matches(., 'flood', 'i')]"),
    ("//a[matches(., '(?!x)flood')]", "not(matches(a, 'y'))", "//a[matches(., 'flood') and not(matches(., 'x'))]"),
    ("//a[matches(., '(?<!x)flood')]", "not(matches(a, 'y'))", None),
    ("//a[matches(., '(?<n>flood)')]", "write `(` alone", "//a[matches(., '(flood)')]"),
    ("//a[matches(., '(?P<n>flood)')]", "write `(` alone", "//a[matches(., '(flood)')]"),
    ("//a[matches(., '[[:alpha:]]+')]", "\\p{L} for letters", "//a[matches(., '[\\p{L}]+')]"),
    ("//a[matches(., 'x++')]", "leave it out", "//a[matches(., 'x+')]"),
    ("//a[matches(., '\\Qa.b\\E')]", "the flag q", "//a[matches(., 'a.b', 'q')]"),
    ("//a[contains-token(b, 'x')]", "tokenize(a) = 'word'", "//a[tokenize(b) = 'x']"),
    ("//a[subsequence(b, 1, 2) = 'x']", "(a)[position() = 1 to 3]", "//a[(b)[position() = 1 to 2] = 'x']"),
    ("//a[reverse(b)[1] = 'x']", "(a)[last()]", "//a[(b)[last()] = 'x']"),
    ("//a[head(b) = 'x']", "(a)[1]", "//a[(b)[1] = 'x']"),
    ("//a[tail(b) = 'x']", "(a)[position() > 1]", "//a[(b)[position() > 1] = 'x']"),
    ("//a[one-or-more(b)]", "exists(a)", "//a[exists(b)]"),
    ("//a[exactly-one(b)]", "count(a) = 1", "//a[count(b) = 1]"),
    ("//a[round(b, 2) = 3]", "round(a * 100) div 100", "//a[round(b * 100) div 100 = 3]"),
    ("//a[round-half-to-even(b, 2) = 3]", "round(a * 100) div 100", "//a[round(b * 100) div 100 = 3]"),
    ("//a[b => lower-case() = 'x']", "lower-case(a) for a => lower-case()", "//a[lower-case(b) = 'x']"),
    ("//a[string(b) => contains('x')]", "into the parentheses", "//a[contains(string(b), 'x')]"),
    ("//a[b cast as xs:integer > 3]", "the type as a function", "//a[xs:integer(b) > 3]"),
    ("//a[b castable as xs:date]", "[xs:date(a)]", "//a[xs:date(b)]"),
    ("//a[xs:int(b) > 3]", "xs:integer(a)", "//a[xs:integer(b) > 3]"),
    ("//a[xs:float(b) > 3]", "xs:double(a)", "//a[xs:double(b) > 3]"),
    ("//a[xs:boolean(b)]", "('true', '1')", "//a[b = ('true', '1')]"),
    ("//a[data(b) = 'x']", "string(a)", "//a[string(b) = 'x']"),
    ("//a[compare(b, c) = 0]", "a = b", "//a[b = c]"),
    ("//a[generate-id(b) = generate-id(c)]", "a is b", "//a[b is c]"),
    ("//a[dateTime(@d, @t) > xs:dateTime('2026-01-01T00:00:00Z')]", "xs:dateTime(concat(a, 'T', b))", None),
    ("//a[xs:dateTime(concat(@d, 'T', @t)) > '2026-01-01']", "xs:dateTime('", None),
    ("//a[xs:date(@d) > '2026-01-01']", "xs:date('", "//a[xs:date(@d) > xs:date('2026-01-01')]"),
    ("//a[xs:date(@d) + 30 > xs:date('2026-01-01')]", "xs:dayTimeDuration('P30D')", None),
    (
        "//a[format-date(xs:date(@d), '[Y]') = '2026']",
        "year-from-date(xs:date(a))",
        "//a[year-from-date(xs:date(@d)) = 2026]",
    ),
    ("//a[current-date() > xs:date(@d)]", "no function reads the clock", None),
    ("//a[node-name(.) = xs:QName('p:a')]", "self::p:name", "//*[self::p:a]"),
    ("//Q{urn:p}a", "declare a prefix", "//p:a"),
    ("//a[b idiv c > 2]", "floor(a div b)", "//a[floor(b div c) > 2]"),
    ("//a[if (b) then c else d]", "compare in each branch", "//a[if (b) then c = 1 else d = 1]"),
    ("if (//a) then //b else //c", "conditions in both branches", "if (//a) then exists(//b) else exists(//c)"),
    ("//a[b = 'x' to 'z']", "two integers", "//a[b >= 1 and b <= 3]"),
    ("//a, //b", "//a | //b", "//a | //b"),
    ("//a[for $x in b return $x]", "a[. = b]", "//a[b[. = 'x']]"),
    ("//a[any $x in b satisfies $x > 1]", "some $x in a satisfies", "//a[some $x in b satisfies $x > 1]"),
    ("//a[some $x in b satisfies contains($x/c, d)]", "must begin each path at $x", "//a[b[contains(c, 'd')]]"),
    ("//a[every $x in b satisfies $x/c = d]", "must begin each path at $x", None),
    ("//a[starts-with(b, ('x', 'y'))]", "some $x in", "//a[some $x in ('x', 'y') satisfies starts-with(b, $x)]"),
    ("//a[(b, c)[1] = 'x']", "if (exists(a))", "//a[if (exists(b)) then b = 'x' else c = 'x']"),
    ("//a[string-join((b, c), '-') = 'x']", "a | b", "//a[string-join(b | c, '-') = 'x']"),
    ("//a[count((b, *)) > 1]", "count(a | b)", "//a[count(b | *) > 1]"),
    ("//a[max(b ! xs:date(.)) > xs:date('2026-01-01')]", "holds if one does", "//a[b > xs:date('2026-01-01')]"),
    ("//a[max(b) > xs:date('2026-01-01')]", "holds if one does", "//a[b > xs:date('2026-01-01')]"),
    ("//a[b < 2.17.1]", "twig:version('2.17.1')", "//a[b < twig:version('2.17.1')]"),
    ("//a[twig:version(b) < '2']", "a value of twig:version", "//a[twig:version(b) < twig:version('2')]"),
    ("//a[date(b) > date('2026-01-01')]", "xs:date(a)", "//a[xs:date(b) > xs:date('2026-01-01')]"),
    ("//a[timezone-from-dateTime(@t) = 'x']", 'dialect="xquery"', None),
    ("//a[adjust-dateTime-to-timezone(@t) = 'x']", 'dialect="xquery"', None),
    ("//a[year-from-dateTime(xs:date(b)) = 2026]", "does not take an xs:date; it takes one as in xs:dateTime(", None),
    ("//a[xs:date(b) * 2 = 1]", "between an xs:date and a number", None),
    ("some x in //a satisfies x = 1", "some $x", "some $x in //a satisfies $x = 1"),
    ("//a[not @b]", "not(...)", "//a[not(@b)]"),
    # SQL
    ("//a[b > DATE '2026-01-01']", "xs:date('", "//a[b > xs:date('2026-01-01')]"),
    ("select //a where b = 'x'", "write a predicate", "//a[b = 'x']"),
    ("SELECT * FROM alert WHERE event = 'x'", "no SQL", "//alert[event = 'Flood']"),
    ("//a where b = 'x'", "//a[b = 'x']", "//a[b = 'x']"),
    ("//a[b in ('x', 'y')]", "a = ('x', 'y')", "//a[b = ('x', 'y')]"),
    ("//a[@d between 1 and 2]", "a >= 1 and a <= 2", "//a[@d >= 1 and @d <= 2]"),
    ("//a[b like '%x%']", "contains(a, 'part')", "//a[contains(b, 'x')]"),
    ("//a[b is not null]", "exists(a)", "//a[exists(b)]"),
    ("//a[b <> 'x']", "`!=`", "//a[b != 'x']"),
    ("//a[b] order by c", "order by $x/b", "for $x in //a order by $x/b return $x"),
    ("//a[b] limit 10", "each message that matches", None),
    ("//a[isnull(b)]", "empty(a)", "//a[empty(b)]"),
    ("//a[length(b) > 3]", "string-length(a)", "//a[string-length(b) > 3]"),
    ("//a[trim(b) = 'x']", "normalize-space(a)", "//a[normalize-space(b) = 'x']"),
    ("//a[substr(b, 1, 3) = 'x']", "substring(a, 1, 3)", "//a[substring(b, 1, 3) = 'x']"),
    ("//a[year(@d) = 2026]", "year-from-date(xs:date(a))", "//a[year-from-date(xs:date(@d)) = 2026]"),
    ("//a[regexp_like(b, 'x')]", "matches(a, 'pattern')", "//a[matches(b, 'x')]"),
    # JSONPath and programming languages
    ("$.alert.event", "/alert/event", "/alert/event"),
    ("$..book[?(@.price < 10)]", "JSONPath", "//book[price < 10]"),
    ("//a[?(@.b > 1)]", "a[b > 1]", "//a[b > 1]"),
    ("//a[b == 'x']", "`=`", "//a[b = 'x']"),
    ("//a[b = 'x' && c]", "`and`", "//a[b = 'x' and c]"),
    ("//a[!b]", "not(...)", "//a[not(b)]"),
    ("//a[b =~ 'x']", "matches(a, 'pattern')", "//a[matches(b, 'x')]"),
    ("//a[b ~ 'x']", "matches(a, 'pattern')", "//a[matches(b, 'x')]"),
    ("//a[b matches 'x']", "matches(a, 'pattern')", "//a[matches(b, 'x')]"),
    ("//a[containsIgnoreCase(b, 'x')]", "contains(lower-case(a), 'part')", "//a[contains(lower-case(b), 'x')]"),
    ("//a[b = 'it's']", "'it''s'", "//a[b = 'it''s']"),
    ("//a[@id = 1..5]", "1 to 5", "//a[@id = 1 to 5]"),
    ("//a[b ** 2 > 4]", "a * a", "//a[b * b > 4]"),
    ("//a[@x-@y > 3]", "spaces around a minus", "//a[@x - @y > 3]"),
    # XQuery
    (
        "for $a in //a group by $a/b return count($a)",
        "group by $key :=",
        "for $a in //a group by $k := $a/b return <n>{ count($a) }</n>",
    ),
    ("for $a in //a return {$a}", "<x>{ ... }</x>", "for $a in //a return <x>{ $a }</x>"),
    ("xquery version '3.1'; //a", "leave it out", "//a"),
    ("declare variable $x := 3; //a[b > $x]", "let $x :=", "let $x := 3 return //a/b > $x"),
    ("for $a in //a return try { $a/b } catch * { 'x' }", 'dialect="xquery"', None),
    ("try { //a } catch * { 1 }", "leave `try` out", "//a"),
    (
        "switch (//a) case 'x' return //b default return //c",
        "if (a = 'x')",
        "if (//a = 'x') then exists(//b) else exists(//c)",
    ),
    ("//a[b = ['x', 'y']]", "('x', 'y')", "//a[b = ('x', 'y')]"),
]
"""A query that is refused, what the refusal says, and the query that it advises."""

FOR_SAXON = [
    "//a[math:sqrt(b) > 2]",
    "//a[string-to-codepoints(b) = 65]",
    "//a[normalize-unicode(b) = 'x']",
    "//a[sort(b)[1] = 'x']",
    "//a[encode-for-uri(b) = 'x']",
    "//a[deep-equal(b, c)]",
    "//a[format-number(b, '0.00') = '1.00']",
    "//a[array:size([1]) = 1]",
    "//a[matches(., b)]",
    "for $a in //a count $c return <x>{ $c }</x>",
    "for tumbling window $w in //a start at $s when true() return <w/>",
    "for $a in //a return switch ($a/b) case 'x' return 1 default return 2",
    "switch (string(//a[1])) case 'x' return 1 default return 2",
    "typeswitch (//a[1]) case element() return 1 default return 2",
    "try { //a } catch * { 1 }",
]
"""Queries whose refusal says that the dialect `xquery` has what they ask for."""


def _refusal(query: str) -> str:
    with pytest.raises(QueryError) as refused:
        SubscriptionSet(namespaces=NAMESPACES).add("q", query)
    return str(refused.value).splitlines()[0]


@pytest.mark.parametrize(("query", "advice", "advised"), ADVICE)
def test_the_advice_is_a_query(query: str, advice: str, advised: str | None) -> None:
    assert advice in _refusal(query)
    if advised is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert check(advised, namespaces=NAMESPACES).route


@pytest.mark.parametrize("query", FOR_SAXON)
def test_what_only_saxon_has_names_its_dialect(query: str) -> None:
    pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")
    assert re.search(r'use dialect="xquery"', _refusal(query))
    assert check(query, namespaces=NAMESPACES, dialect="xquery").route == "xquery"


@pytest.mark.parametrize("query", ["//a[b = true]", "//a[@b = null]", "//a[b is null]", "//a[b = TRUE]"])
def test_a_name_that_is_no_constant_is_told(query: str) -> None:
    assert any("child element of that name" in text for text in check(query).warnings)


def test_functions_have_the_prefix_of_xpath() -> None:
    subscriptions = SubscriptionSet([("q", "//a[fn:matches(., '^f') and not(fn:empty(b)) and fn:string(b) = 'x']")])
    assert subscriptions.match("<a>f<b>x</b></a>").keys == ["q"]
    assert subscriptions.match("<a>g<b>x</b></a>").keys == []
