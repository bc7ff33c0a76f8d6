"""An empty result is no match in the dialect ``xquery``, whoever evaluates the query: the engine or Saxon."""

from __future__ import annotations

import pickle
import random

import pytest

from twigcast import SubscriptionSet, check

pytest.importorskip("saxonche", reason="Saxon (the package saxonche) is not installed")

MESSAGES = [
    b"<r/>",
    b"<r><a/></r>",
    b"<r><a><b>1</b></a></r>",
    b"<r><a k='1'/><a><b/></a></r>",
    b"<r><a k='2'><b>2</b><c>x</c></a><a k='1'><c/></a></r>",
    b"<r><c>y</c><a k='1'><b>3</b><b>1</b></a><a k='3'/></r>",
]

NATIVE = [
    "for $a in //a return $a",
    "for $a in //a return $a/b",
    "for $a in //a return $a/b/text()",
    "for $a in //a return ($a/b, $a/c)",
    "for $a in //a return ()",
    "for $a in //a where $a/@k return $a/b",
    "for $a in //a where $a/@k or $a/c return ($a/c, $a/b)",
    "for $a in //a return <x>{ $a/b }</x>",
    "for $a in //a return text { $a/c }",
    "for $a in //a return if ($a/@k = '1') then $a/b else $a/c",
    "for $a in //a return if ($a/@k = '1') then $a/b else ()",
    "for $a in //a return if ($a/@k = '1') then () else <x/>",
    "for $a in //a return string($a/c)",
    "for $a in //a return count($a/b)",
    "for $a in //a return 'text'",
    "for $a in //a order by $a/@k return $a/c",
    "for $a in //a, $b in $a/b return $b/text()",
    "for $a in //a let $c := $a/c where count($a/b) < 2 return $c",
    "for $a in //a group by $k := $a/@k return $a/b",
    "for $a in //a group by $k := $a/@k where $k = '1' return $a/c",
    "(for $a in //a return $a/b, for $c in /r/c return $c)",
    "for $a at $n in //a where $n = 2 return $a/b",
    "for $w in distinct-values(//@k) return <k>{ $w }</k>",
    # A single value that is bound is there, whatever it is.
    "for $w in distinct-values(//b) order by $w return $w",
    "for $w in distinct-values(//@k) where $w return <k/>",
    "for $w in tokenize(string((//c)[1]), 'x') where not($w) return <k/>",
    "for $a in //a let $t := tokenize($a/@k, ' ') where $t return <x/>",
    "for $n in //a ! number(@k) return if ($n) then <y/> else <n/>",
    "for $n in //a ! (@k * 2) return <n>{ $n }</n>",
]
"""Queries that the engine reads by itself."""

FOR_SAXON = [
    "for $a in //a return $a/@k = '1'",
    "for $a in //a return $a/@k * 2",
    "for $a in //a return for $b in $a/b return <x/>",
    "<r>{ for $a in //a return $a/b }</r>",
    "(for $a in //a return $a/b, <end/>)",
    "for $a in //a return xs:date($a/@k[. = 'x'])",
]
"""Queries of which the engine does not say whether their result is empty."""

CONDITIONS = [
    "/r/a[b = 1]",
    "count(//a) > 1",
    "//a/b = 3",
    "string((//c)[1])",
    "not(//c)",
    "//a[matches(c, 'x')]",
    "number((//b)[1])",
    "every $a in //a satisfies $a/b",
]


def both(query: str) -> tuple[SubscriptionSet, SubscriptionSet]:
    """A query as the dialect has it, and as Saxon evaluates it."""
    own, saxon = SubscriptionSet([("q", query)], dialect="xquery"), SubscriptionSet(dialect="xquery")
    saxon._session.engine.add("q", query, {}, "xquery", True)
    assert saxon.describe("q").route == "xquery"
    return own, saxon


@pytest.mark.parametrize("query", NATIVE + FOR_SAXON + CONDITIONS)
def test_a_query_matches_the_same_messages_whoever_evaluates_it(query: str) -> None:
    own, saxon = both(query)
    assert (own.describe("q").route == "xquery") == (query in FOR_SAXON)
    for message in MESSAGES:
        match, expected = own.match(message), saxon.match(message)
        assert not match.undecided, message
        assert match.keys == expected.keys, message
        deliveries = [delivery.key for delivery in own.deliver(message)]
        assert deliveries == match.keys, message
        assert bool(own.explain(message, "q").matches) == bool(expected), message


@pytest.mark.parametrize("query", ["for $a in //a return $a/b", "for $a in //a return ($a/c, $a/b)"])
def test_an_empty_result_is_delivered_to_nobody(query: str) -> None:
    subscriptions = SubscriptionSet([("q", query)], dialect="xquery")
    nothing, something = b"<r><a/><a k='1'/></r>", b"<r><a/><a><b>1</b></a></r>"
    assert list(subscriptions.deliver(nothing)) == []
    [delivery] = subscriptions.deliver(something)
    assert delivery.payload == b"<b>1</b>"
    # In XPath and For-Where-Return of this language, what passes `where` is a match.
    assert SubscriptionSet([("q", query)]).match(nothing).keys == ["q"]


def test_sets_keep_the_meaning_when_they_travel() -> None:
    subscriptions = SubscriptionSet([("q", "for $a in //a return $a/b")], dialect="xquery")
    copy = pickle.loads(pickle.dumps(subscriptions))
    again = SubscriptionSet([copy["q"]])
    for each in (subscriptions, copy, again):
        assert each["q"].dialect == "xquery"
        assert each.match(b"<r><a/></r>").keys == []
        assert each.match(b"<r><a><b/></a></r>").keys == ["q"]
    assert check("for $a in //a return $a/b", dialect="xquery").route != "xquery"


def _returned(chance: random.Random, depth: int = 0) -> str:
    kinds = ["$a", "$a/b", "$a/c/text()", "$a/none", "<x>{ $a/b }</x>", "()", "string($a/c)", "$a/b[. = '1']"]
    if depth < 2 and chance.random() < 0.5:
        one, other = _returned(chance, depth + 1), _returned(chance, depth + 1)
        return chance.choice([f"({one}, {other})", f"if ($a/@k = '{chance.randrange(3)}') then {one} else {other}"])
    return chance.choice(kinds)


@pytest.mark.parametrize("seed", range(40))
def test_generated_results_are_empty_for_both_or_neither(seed: int) -> None:
    chance = random.Random(seed)
    where = chance.choice(["", "where $a/@k ", "where $a/c or $a/b = 1 "])
    order = chance.choice(["", "order by $a/@k "])
    query = f"for $a in //a {where}{order}return {_returned(chance)}"
    own, saxon = both(query)
    assert own.describe("q").route != "xquery", query
    for message in MESSAGES:
        assert own.match(message).keys == saxon.match(message).keys, (query, message)
