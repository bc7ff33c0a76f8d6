"""Default namespaces of constructors, which also hold for the paths inside: who is warned, and the way out."""

from __future__ import annotations

import warnings

import pytest

from twigcast import SubscriptionSet

LOSES = "not by the default namespace of the query"
GAINS = "though outside of it they are in no namespace"

CASES: list[tuple[dict[str, str], str, str | None]] = [
    ({}, "for $a in /a return <l xmlns='urn:q'>{ $a/b }</l>", GAINS),
    ({}, "for $a in /a return <l xmlns='urn:q'><m>{ $a/b }</m></l>", GAINS),
    ({}, "for $a in /a return <l xmlns='urn:q'>{ for $b in $a/b return <m>{ $b }</m> }</l>", GAINS),
    ({}, "for $a in /a return <l xmlns='urn:q'>{ if ($a/b) then 'x' else () }</l>", GAINS),
    ({}, "for $a in /a return <l xmlns='urn:q' m='{ $a/b }'/>", GAINS),
    ({}, "<l xmlns='urn:q'>{ for $i in //b return $i }</l>", GAINS),
    ({"p": "urn:p"}, "for $a in /p:a return <l xmlns='urn:q'>{ $a/b }</l>", GAINS),
    ({"": ""}, "for $a in /a return <l xmlns='urn:q'>{ $a/b }</l>", GAINS),
    # Who names the namespace outside means it inside, too.
    ({"p": "urn:q"}, "for $a in /p:a return <l xmlns='urn:q'>{ $a/b }</l>", None),
    ({"": "urn:q"}, "for $a in /a return <l xmlns='urn:q'>{ $a/b }</l>", None),
    # Nothing inside is read by the default namespace.
    ({}, "for $a in /a let $b := $a/b return <l xmlns='urn:q'>{ $b }</l>", None),
    ({}, "for $a in /a return <l xmlns='urn:q'>{ $a/*:b, $a/@c, $a/text() }</l>", None),
    ({"p": "urn:p"}, "for $a in /a return <l xmlns='urn:q'>{ $a/p:b }</l>", None),
    ({}, "for $a in /a return <l xmlns:q='urn:q'>{ $a/b }</l>", None),
    ({}, "for $a in /a return <l xmlns=''>{ $a/b }</l>", None),
    ({}, "for $a in /a return <l xmlns='urn:q'><m xmlns=''>{ $a/b }</m></l>", None),
    ({"": "urn:d"}, "for $a in /a return <l xmlns=''>{ $a/b }</l>", LOSES),
    ({"": "urn:d"}, "for $a in /a return <l xmlns='urn:q'>{ $a/b }</l>", LOSES),
]


@pytest.mark.parametrize(("namespaces", "query", "warned"), CASES)
def test_who_is_warned(namespaces: dict[str, str], query: str, warned: str | None) -> None:
    subscriptions = SubscriptionSet(namespaces=namespaces)
    report = subscriptions.add_many({"k": query})
    assert [(one.key, warned in one.text) for one in report.warnings if warned] == ([("k", True)] if warned else [])
    assert not warned or subscriptions.describe("k").warnings == (report.warnings[0].text,)
    assert not [one for one in report.warnings if "constructor" in one.text and not warned]


@pytest.mark.parametrize(
    ("query", "result"),
    [
        ("for $a in /a return <l xmlns='urn:q'>{ $a/b }</l>", b'<l xmlns="urn:q"/>'),
        ("for $a in /a return <l xmlns='urn:q'>{ $a/*:b }</l>", b'<l xmlns="urn:q"><b xmlns=""/></l>'),
        ("for $a in /a let $b := $a/b return <l xmlns='urn:q'>{ $b }</l>", b'<l xmlns="urn:q"><b xmlns=""/></l>'),
    ],
)
def test_the_way_out_that_the_warning_names(query: str, result: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        subscriptions = SubscriptionSet({"k": query})
    assert [one.payload for one in subscriptions.deliver("<a><b/></a>")] == [result]
