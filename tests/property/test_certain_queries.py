"""Queries that registration says never match, or always do, really never or always do: by the engine, and by libxml2.

``TWIGCAST_TEST_SEED`` and ``TWIGCAST_TEST_ROUNDS`` choose a longer or another run.
"""

from __future__ import annotations

import os
import random
import warnings

import pytest
from lxml import etree

from tests.seeds import seed_or
from tests.strategies import NAMESPACES, Generator
from twigcast.errors import QueryWarning
from twigcast.query_check import check
from twigcast.subscriptions import SubscriptionSet

ROUNDS = int(os.environ.get("TWIGCAST_TEST_ROUNDS", "150"))
SEED = seed_or(20261129)
QUERIES_PER_ROUND = 60
MESSAGES_PER_ROUND = 6

NEVER = "no message can match this query"
ALWAYS = "every message matches this query"

SUBJECTS = (
    "@x",
    "@y",
    "@id",
    ".",
    "string(a)",
    "count(a)",
    "count(@*)",
    "string-length()",
    "a",
    "@*",
    "../@x",
    "position()",
)
CONSTANTS = ("1", "2", "'1'", "'x'", "'b'", "''", "1.5", "-1", "0", "0 div 0", "'01'", "true()")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
PATHS = (
    "/*",
    "//*",
    "//a",
    "/a",
    "//@x",
    "//text()",
    "/node()",
    "/*/*",
    "//b/parent::node()",
    "/comment()",
    "//a/@y",
    "/descendant::*",
)
CONTINUED = ("", "", "/self::*", "/..", "/text()", "/@x", "/ancestor-or-self::*", "/self::node()", "//node()")


def demanding(chance: random.Random) -> str:
    """A path with comparisons of few things with few constants, which often exclude or imply each other."""

    def comparison() -> str:
        kind = chance.randrange(6)
        subject = chance.choice(SUBJECTS)
        if kind == 0:
            return (
                subject if subject not in ("position()", "count(a)", "count(@*)", "string-length()") else "last() = 1"
            )
        if kind == 1:
            return f"not({comparison()})"
        sides = [subject, chance.choice(CONSTANTS)]
        chance.shuffle(sides)
        return f"{sides[0]} {chance.choice(OPERATORS)} {sides[1]}"

    def condition() -> str:
        joined = chance.choice((" and ", " or "))
        return joined.join(comparison() for _ in range(chance.choice((1, 1, 1, 2, 3))))

    predicates = "".join(f"[{condition()}]" for _ in range(chance.choice((0, 1, 2, 2, 3))))
    path = chance.choice(PATHS) + predicates + chance.choice(CONTINUED)
    form = chance.randrange(8)
    if form == 0:
        return f"not({path})"
    if form == 1:
        return f"count({path}) {chance.choice(OPERATORS)} {chance.choice(('0', '1', '-1', '1.5'))}"
    if form == 2:
        return f"{path} {chance.choice(('or', 'and'))} not({path})"
    return path


def told_of(query: str) -> str | None:
    """What registration says of a query's truth."""
    reported = {NEVER, ALWAYS}.intersection(check(query, namespaces=NAMESPACES).warnings)
    assert len(reported) <= 1
    return reported.pop() if reported else None


def test_what_is_told_is_so() -> None:
    counts = dict.fromkeys((NEVER, ALWAYS, None), 0)
    for number in range(ROUNDS):
        seed = SEED + number
        chance = random.Random(seed)
        generator = Generator(chance)
        created = [generator.query() if chance.random() < 0.4 else demanding(chance) for _ in range(QUERIES_PER_ROUND)]
        reported = {query: told_of(query) for query in created}
        for about in reported.values():
            counts[about] += 1
        certain = [query for query, about in reported.items() if about is not None]
        subscriptions = SubscriptionSet(((query, query) for query in certain), namespaces=NAMESPACES)
        for _ in range(MESSAGES_PER_ROUND):
            message = generator.message()
            matched = set(subscriptions.match(message).keys)
            tree = etree.ElementTree(etree.fromstring(message.encode()))
            for query in certain:
                expected = reported[query] == ALWAYS
                about = f"{reported[query]}: {query}\n{message}\nTWIGCAST_TEST_SEED={seed} TWIGCAST_TEST_ROUNDS=1"
                assert (query in matched) == expected, about
                assert tree.xpath(f"boolean({query})", namespaces=NAMESPACES) == expected, f"libxml2: {about}"
    assert min(counts.values()) > ROUNDS, counts  # else there was little to test


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("/*", ALWAYS),
        ("//*", ALWAYS),
        ("true()", ALWAYS),
        ("1 = 1", ALWAYS),
        ("not(false())", ALWAYS),
        ("/node()", ALWAYS),
        ("//a[1 = 2]", NEVER),
        ("//a[false()]", NEVER),
        ("/a/text()/b", NEVER),
        ("//a[@x = 'b'][@x = 'c']", NEVER),
        ("for $a in //a[1 = 2] return <r>{ $a }</r>", NEVER),
        ("for $a in //a where $a/text()/b return <r>{ $a }</r>", NEVER),
        ("for $a in /* return <r>{ $a }</r>", ALWAYS),
        ("for $a in //a return <r>{ $a }</r>", None),
        ("//a[b = 'x'][b = 'y']", None),
    ],
)
def test_registration_warns_each_time(query: str, expected: str | None) -> None:
    assert told_of(query) == expected
    subscriptions = SubscriptionSet()
    for key in ("first", "second"):  # of the same query
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            subscriptions.add(key, query)
        assert [str(warning.message) for warning in caught] == ([] if expected is None else [f"{key}: {expected}"])
        assert all(warning.category is QueryWarning for warning in caught)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        subscriptions.replace("first", query)
    assert len(caught) == (0 if expected is None else 1)
