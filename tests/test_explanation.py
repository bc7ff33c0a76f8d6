"""Explanations: the verdict is the engine's, the first part that fails is named, and hints fit the message."""

import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twigcast import Limits, SubscriptionSet
from twigcast.errors import MalformedMessage, QueryError, QuerySyntaxError, UndecidedSubscription, UnknownKey
from twigcast.explanation import Explanation, NodeLocation, explain

ALERT = """<alert xmlns="urn:c"><info><event>Fire</event><severity>Severe</severity></info>
<info lang="en"><event>Storm</event><note><![CDATA[a<b]]> &amp; <i k=">">c</i></note></info></alert>"""
NAMESPACES = {"c": "urn:c"}


def explained(query: str, message: str = ALERT) -> Explanation:
    return explain(query, message, namespaces=NAMESPACES)


@pytest.mark.parametrize(
    ("query", "where", "hint"),
    [
        ("//c:info[c:event='Flood']", "//c:info[c:event = 'Flood']", 'c:event is "Fire", "Storm"'),
        ("//c:info[c:event='storm']", "c:event = 'storm'", '"Storm" differs from "storm" in letter case only'),
        ("/alert/info", "/alert", '`alert` is there in namespace "urn:c"'),
        ("/alert/info", "/alert", "bind a prefix to that, or write *:alert: /alert (line 1, column 1)"),
        ("/c:alert/c:inf", "/c:inf", "`info` is spelled similarly: /alert/info[1] (line 1, column 22)"),
        ("/c:alert/c:INFO", "/c:INFO", "`info` differs in letter case only"),
        ("/c:alert/c:severity", "/c:severity", "elsewhere in the message: /alert/info[1]/severity (line 1, column 47)"),
        ("/c:alert/c:severity", "/c:severity", "there is `info`"),
        ("//c:info/@lan", "/@lan", "`lang` is spelled similarly"),
        ("//c:info/@c:lang", "/@c:lang", "write it without a prefix, or write *:lang"),
        ("//c:info/c:lang", "/c:lang", "an attribute there, not an element: write @lang"),
        ("//c:info[c:event='Storm' and @lang='de']", "@lang = 'de'", "all holds here but [@lang = 'de']"),
        ("//c:event[contains(., 'Qua')]", "contains(., 'Qua')", '. is "Fire", "Storm"'),
        ("//c:event[contains(., 'STO')]", "contains(., 'STO')", "in other letter case"),
        ("//c:note[. = 'a']", ". = 'a'", '"a<b & c" contains "a"'),
        ("//c:note[text() = 'a<b & c']", "text() = 'a<b & c'", "the whole value of `note`"),
        ("//c:info[3]", "position() = 3", "this is number 1 of 2"),
        ("(//c:info)[3]/c:event", "(//c:info)[3]", ""),
        ("count(//c:info) > 5", "count(//c:info) > 5  (count(//c:info) is 2)", ""),
        ("//c:severity[. > 2]", ". > 2", '"Severe" is not a number'),
        ("//c:info[c:area != 'x']", "c:area != 'x'  (c:area selects nothing)", "!= is false without one"),
        ("/c:alert[c:info[@lang]/c:severity]", "/c:severity", "elsewhere"),
        ("//c:info[c:area/c:circle > 5]", "c:area", "there is `event`, `severity`"),
        ("//c:inof | //c:area", "//c:inof", "`info` is spelled similarly"),
        ("for $i in //c:info where $i/c:event = 'fire' return $i", "c:event = 'fire'", "letter case"),
        ("<r>{for $a in /c:alert, $i in $a/c:inf return $i}</r>", "c:inf", "`info` is spelled similarly"),
        ("for $d in /c:alert let $e := $d//c:event where $e = 'X' return $e", "c:event", '"Fire", "Storm"'),
    ],
)
def test_the_first_part_that_fails_and_what_is_there(query: str, where: str, hint: str) -> None:
    result = explained(query)
    assert not result
    text = str(result)
    assert f"- {where}" in text or f"- .//{where}" in text or where == "c:event", text
    assert hint in text, text


LOOKED_UP = "(a look-up of values; more only where one that it needs occurs)"


def test_what_matches_shows_its_steps_the_predicates_that_held_and_its_nodes() -> None:
    result = explained("//c:info[c:event='Fire']/c:severity")
    assert result
    assert str(result).splitlines() == [
        "matches: //c:info[c:event='Fire']/c:severity",
        "  + //c:info[c:event = 'Fire']  (1 of 2 nodes)",
        "    at /alert/info[1] (line 1, column 22)",
        "      + c:event = 'Fire'  (c:event is \"Fire\")",
        "  + /c:severity  (1 node)",
        "  1 node:",
        '    /alert/info[1]/severity (line 1, column 47)  "Severe"',
        f"  runs as keyed {LOOKED_UP}, looked up by //c:info/c:event[. = 'Fire']",
    ]
    assert result.node_count == 1
    assert result.nodes == [NodeLocation("/alert/info[1]/severity", "element", 1, 47, "Severe")]
    assert result.hints == []


def test_operands_are_explained_one_by_one() -> None:
    result = explained("//c:x or not(//c:info)")
    assert not result
    assert [(part["text"], part["holds"]) for part in result.details["verdict"]["operands"]] == [
        ("//c:x", False),
        ("not(//c:info)", False),
    ]
    assert "+ //c:info  (2 nodes)" in str(result)
    assert result.node_count is None


def test_as_text_and_as_values() -> None:
    result = explained("//c:info[c:event='flood']", "<alert xmlns='urn:c'><info><event>Flood</event></info></alert>")
    assert str(result).splitlines() == [
        "does not match: //c:info[c:event='flood']",
        "  - //c:info[c:event = 'flood']  (0 of 1 node)",
        "    nearest: /alert/info (line 1, column 22)",
        "      - c:event = 'flood'  (c:event is \"Flood\")",
        '        "Flood" differs from "flood" in letter case only: /alert/info/event (line 1, column 28)',
        f"  runs as keyed {LOOKED_UP}, looked up by //c:info/c:event[. = 'flood']",
    ]
    values = result.as_dict()
    assert values["query"] == "//c:info[c:event='flood']"
    assert values["matches"] is False
    assert values["verdict"]["steps"][0]["predicates"] == [{"text": "c:event = 'flood'", "remaining": 0}]
    (hint,) = result.hints
    assert (hint.kind, hint.location and hint.location.path) == ("case", "/alert/info/event")


def test_long_values_and_many_values_are_cut() -> None:
    message = "<r>" + "".join(f"<v>{n}{'x' * 500}</v>" for n in range(200)) + "</r>"
    assert len(str(explained("//v[. = 'y']", message))) < 2_000
    assert len(str(explained("//v", message))) < 1_000


def test_line_ends_in_values_do_not_break_lines() -> None:
    assert '"a\\nb"' in str(explained("/r[v = 'c']", "<r><v>a\nb</v></r>"))


def test_a_binding_that_fails_by_a_condition_between_variables() -> None:
    query = "for $a in /r/a, $b in /r/b where $a = $b return $b"
    result = explained(query, "<r><a>1</a><b>2</b></r>")
    assert not result
    assert "relate variables to each other" in str(result)
    assert explained(query, "<r><a>1</a><b>1</b></r>")


def test_a_subscription_is_explained_by_its_key() -> None:
    subscriptions = SubscriptionSet([("floods", "//c:event[. = 'Fire']")], namespaces=NAMESPACES)
    assert subscriptions.explain(ALERT, "floods").node_count == 1
    with pytest.raises(UnknownKey):
        subscriptions.explain(ALERT, "fires")


def test_a_query_without_a_cover_is_told_so() -> None:
    result = explained("//c:info[not(c:event)]")
    assert result.details["running"]["cover"] is None
    assert result.details["running"]["route"] == "twig"
    result = explained("//c:info[c:event != c:severity]")
    running = result.details["running"]
    assert (running["route"], running["cover"]) == ("candidate", None)
    assert "[@kind = 'x']" in running["warnings"][0]
    assert "runs as candidate" in str(result)
    assert "warning: no value leads to this query" in str(result)


def test_the_cover_is_that_of_the_set() -> None:
    population = {f"q{n}": f"//a[@k = 'common'][b = '{n}']" for n in range(200)}
    subscriptions = SubscriptionSet({**population, "q": "//a[@k = 'common'][b = 'x']"})
    alone = explain("//a[@k = 'common'][b = 'x']", "<a/>").details["running"]
    among = subscriptions.explain("<a/>", "q").details["running"]
    assert among["cover"] == subscriptions.describe("q").cover
    assert "b[. = 'x']" in among["cover"]
    assert alone["cover"].startswith("looked up by //a")


def test_what_costs_too_much_is_undecided() -> None:
    message = f"<r>{'<a><b/></a>' * 500}</r>"
    query = "//a[count(following::*[position() mod @x = count(preceding::*)]) mod 7 = 3]"
    with pytest.raises(UndecidedSubscription):
        explain(query, message, limits=Limits(query_visits_max=10_000))


@pytest.mark.parametrize("encoding", ["utf-16", "iso-8859-1"])
def test_messages_in_other_encodings(encoding: str) -> None:
    message = f"<?xml version='1.0' encoding='{encoding}'?><!DOCTYPE r [<!ENTITY e 'é'>]><r>&e;</r>".encode(encoding)
    assert explain("/r[. = 'é']", message)
    assert not explain("/r[. = 'e']", message)


def test_what_is_no_query_or_no_message_is_refused() -> None:
    with pytest.raises(QuerySyntaxError):
        explained("//a[")
    with pytest.raises(MalformedMessage):
        explained("//a", "<a>")


steps = st.sampled_from(
    ["a", "b", "*", "@x", "text()", "..", "a[1]", "b[@x]", "a[b or @x = 1]", "*[not(a)]", "b[. = 'u']"]
)
paths = st.builds(
    lambda slashes, parts: "".join(slash + part for slash, part in zip(slashes, parts, strict=False)),
    st.lists(st.sampled_from(["/", "//"]), min_size=4, max_size=4),
    st.lists(steps, min_size=1, max_size=4),
)
queries = st.one_of(
    paths,
    st.builds("{} or {}".format, paths, paths),
    st.builds("not({}) and {}".format, paths, paths),
    st.builds("{} | {}".format, paths, paths),
    st.builds("for $v in {} where $v/b return $v/a".format, paths),
)


@given(queries)
def test_the_verdict_is_the_engines(query: str) -> None:
    message = "<a x='1'><b x='2'>u<a/></b><a><b>v</b>w</a></a>"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        matches = bool(SubscriptionSet([("q", query)]).match(message))
    result = explain(query, message)
    assert result.matches == matches
    assert result.details["verdict"]["holds"] or not matches
    assert str(result).startswith("matches" if matches else "does not match")


def test_a_query_that_rewrites_shows_bindings_and_result() -> None:
    xml = b"<d><i n='1'><h>Port</h></i><i n='2'><h>Rail</h></i></d>"
    passing = explain("for $i in //i where $i/h = 'Rail' and $i/@n > 1 return <r>{ $i/h }</r>", xml)
    assert passing.details["result"] == "<r><h>Rail</h></r>"
    assert [position.path for position in passing.nodes] == ["/d/i[2]"]
    assert "the result, 18 bytes:\n    <r><h>Rail</h></r>" in str(passing)
    failing = explain("for $i in //i where $i/h = 'Rail' and $i/@n = 7 return <r>{ $i/h }</r>", xml)
    assert not failing
    assert failing.details["result"] is None
    assert "- @n = 7" in str(failing)
    broken = explain("for $i in //i return <r>{ $i/h }{ $i/@n }</r>", xml)
    assert broken.details["result"] is None
    assert "there is no result: the attribute n was selected after content" in str(broken)
    assert explain("//i", xml).details["result"] is None


@pytest.mark.parametrize(
    ("query", "column", "reason"),
    [
        ("for $i in //a return <r>{ $j/b }</r>", 27, "the variable $j is not declared"),
        ("for $i in //a return <r>{ $i/b }", 33, "the element <r> at column 22 is not closed"),
        ("for $i in //a return <r>{ $i/b }</s>", 33, "</s> cannot close <r>"),
        ("for $i in //a return <r><q:x/></r>", 26, "the prefix `q` has no namespace"),
        ("for $i in //q:a return $i", 13, "the prefix `q` has no namespace"),
        ("for $i in //a return <r xmlns:p='urn:x' xmlns:p='urn:y'/>", 50, "declared twice"),
        ("for $i in //a return <r xmlns:p='u' xmlns:z='u' p:a='1' z:a='2'/>", 57, "stands twice"),
    ],
)
def test_what_is_wrong_with_a_constructor_is_told_with_its_column(query: str, column: int, reason: str) -> None:
    with pytest.raises(QueryError) as caught:
        SubscriptionSet().add("q", query)
    assert caught.value.column == column
    assert reason in caught.value.reason


def test_the_nearest_queries_are_those_that_single_explanations_say_are() -> None:
    print("seed", 61)
    randomness = random.Random(61)
    names = ("a", "b", "c", "d")

    def path(depth: int) -> str:
        steps = [randomness.choice(["/", "//"]) + randomness.choice(names) for _ in range(depth)]
        condition = randomness.choice(["", "[b]", "[. = 'x']", "[@k > 3 and c]", "[not(a)]", "[b or @z = '1']"])
        return "".join(steps) + condition

    queries = {f"k{number}": path(randomness.randrange(1, 4)) for number in range(450)}
    subscriptions = SubscriptionSet({**queries, "made": "for $a in /a/d return <x>{ $a/b }</x>"})
    message = b"<a k='5'><b>x<c/></b><b k='2'><d/></b><c><a>y</a></c></a>"
    matching = set(subscriptions.match(message).keys)
    single = {key: subscriptions.explain(message, key).nearness for key in subscriptions if key not in matching}
    misses = subscriptions.nearest(message, 40)
    assert misses.count == len(single)
    expected = sorted(single, key=lambda key: single[key], reverse=True)[:40]
    assert list(misses.explanations) == expected
    assert [one.nearness for one in misses.explanations.values()] == [single[key] for key in expected]
    assert not misses.undecided
