"""Explanations: the verdict is the engine's, the first part that fails is named, and hints fit the message."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twigcast import SubscriptionSet
from twigcast.errors import MalformedMessage, QuerySyntaxError
from twigcast.explanation import Explanation, Finding, explain

ALERT = """<alert xmlns="urn:c"><info><event>Fire</event><severity>Severe</severity></info>
<info lang="en"><event>Storm</event><note><![CDATA[a<b]]> &amp; <i k=">">c</i></note></info></alert>"""
NAMESPACES = {"c": "urn:c"}


def explained(query: str, message: str = ALERT) -> Explanation:
    return explain(query, message, namespaces=NAMESPACES)


def failing(finding: Finding) -> list[Finding]:
    """The innermost parts that fail."""
    inner = [found for part in finding.parts for found in failing(part)]
    return inner or ([] if finding.holds else [finding])


@pytest.mark.parametrize(
    ("query", "where", "hint"),
    [
        ("//c:info[c:event='Flood']", '//c:info[c:event = "Flood"]', "c:event is 'Fire', 'Storm'"),
        ("/alert/info", "/alert", "an element alert in the namespace 'urn:c': bind a prefix to it or write *:alert"),
        ("/c:alert/c:inf", "/c:alert/c:inf", "there is no element c:inf in the message; there is info"),
        ("/c:alert/c:INFO", "/c:alert/c:INFO", "there is info"),
        ("/c:alert/c:severity", "/c:alert/c:severity", "there is an element c:severity elsewhere in the message"),
        ("/c:alert/c:severity", "/c:alert/c:severity", "the elements there: info"),
        ("//c:info/@lan", "//c:info/@lan", "the attributes there: lang"),
        ("//c:info/@c:lang", "//c:info/@c:lang", "an attribute lang in no namespace: write it without a prefix"),
        ("//c:info[c:event='Storm' and @lang='de']", '//c:info[c:event = "Storm" and @lang = "de"]', "@lang is 'en'"),
        ("//c:event[contains(., 'Qua')]", '//c:event[contains(., "Qua")]', ". is 'Fire', 'Storm'"),
        ("//c:note[. = 'a']", '//c:note[. = "a"]', ". is 'a<b & c'"),
        ("//c:info[3]", "//c:info[3]", "position() = 3 holds of none of them"),
        ("(//c:info)[3]/c:event", "(//c:info)[3]", ""),
        ("count(//c:info) > 5", "count(//c:info) > 5", "//c:info is 'FireSevere'"),
        ("//c:event/c:x/c:y", "//c:event/c:x", "the elements there: none"),
        ("/c:alert[c:info[@lang]/c:severity]", "/c:alert/c:info[@lang]/c:severity", "elsewhere"),
        ("//c:info | //c:area", "//c:area", "there is no element"),
        ("for $i in //c:info where $i/c:event = 'Flood' return $i", '//c:info[c:event = "Flood"]', "'Fire', 'Storm'"),
        ("<r>{for $a in /c:alert, $i in $a/c:inf return $i}</r>", "/c:alert/c:inf", "there is info"),
        ("for $d in /c:alert let $e := $d//c:event where $e = 'X' return $e", '/c:alert[.//c:event = "X"]', "'Fire'"),
    ],
)
def test_the_first_part_that_fails_and_what_is_there(query: str, where: str, hint: str) -> None:
    found = explained(query)
    parts = {part.text: part for part in failing(found.finding)}
    assert where in parts, str(found)
    assert hint in "\n".join(parts[where].notes) or not parts[where].notes, str(found)
    if hint and not parts[where].notes:
        assert hint in "there is no element", "a part without a name that is like it has no hint"


def test_all_parts_of_what_matches() -> None:
    found = explained("//c:info[c:event='Fire']/c:severity")
    assert found
    assert [(part.text, part.nodes) for part in found.finding.parts] == [
        ("//c:info", 2),
        ('//c:info[c:event = "Fire"]', 1),
        ('//c:info[c:event = "Fire"]/c:severity', 1),
    ]


def test_operands_are_explained_one_by_one() -> None:
    found = explained("//c:x or not(//c:info)")
    assert not found
    assert [(part.text, part.holds) for part in found.finding.parts] == [("//c:x", False), ("not(//c:info)", False)]
    assert found.finding.parts[1].parts[0].nodes == 2


def test_as_text_and_as_values() -> None:
    found = explained("//c:info[c:event='Flood']")
    assert str(found).splitlines() == [
        "does not match: //c:info[c:event='Flood']",
        '  - //c:info[c:event = "Flood"]  (0 nodes)',
        "    + //c:info  (2 nodes)",
        '    - //c:info[c:event = "Flood"]  (0 nodes)',
        "        c:event is 'Fire', 'Storm'",
    ]
    values = found.as_dict()
    assert values["matches"] is False
    assert values["finding"]["parts"][1]["notes"] == ["c:event is 'Fire', 'Storm'"]


def test_long_values_and_many_values_are_cut() -> None:
    message = "<r>" + "".join(f"<v>{n}{'x' * 500}</v>" for n in range(20)) + "</r>"
    (note,) = failing(explained("//v[. = 'y']", message).finding)[0].notes
    assert note.endswith("and 15 more")
    assert len(note) < 500


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
    found = explain(query, message)
    assert found.matches == matches
    assert found.finding.holds == matches
    assert bool(failing(found.finding)) or matches or "not(" in query
