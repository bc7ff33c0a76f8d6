"""Map, Collect and Aggregate: a message that matches a query satisfies its routing query, whatever the query is."""

from __future__ import annotations

import os
import random
import re
from itertools import permutations

import pytest
from lxml import etree

from tests import flwr_generator
from tests.seeds import seed_or
from tests.strategies import NAMESPACES, Generator
from twigcast import SubscriptionSet
from twigcast.overlay.onyx.content.decompose import Budget
from twigcast.overlay.onyx.content.implication import conjunction_implies, path_implies
from twigcast.overlay.onyx.content.linear import path_of, steps_of
from twigcast.overlay.onyx.content.routing_query import (
    NOTHING,
    aggregate,
    collect,
    everything,
    is_generalised,
    routing_query,
)
from twigcast.overlay.onyx.messages import Disjunct, LinearPath, RoutingQuery

SEED = seed_or(20261128)
ROUNDS = int(os.environ.get("TWIGCAST_TEST_ROUNDS", "60"))


def satisfied(query: RoutingQuery, tree: etree._ElementTree) -> bool:
    """By libxml2."""
    return any(all(holds(path, tree) for path in disjunct.paths) for disjunct in query)


def holds(path: LinearPath, tree: etree._ElementTree) -> bool:
    # XPath 1.0 has no `*:name`.
    text = re.sub(r"\*:(\w+)", r"*[local-name() = '\1']", path.text)
    return bool(tree.xpath(f"boolean({text})", namespaces=dict(path.namespaces) or None))


def texts(query: RoutingQuery) -> set[frozenset[str]]:
    return {frozenset(path.text for path in disjunct.paths) for disjunct in query}


@pytest.mark.slow
@pytest.mark.parametrize("budget", [Budget(), Budget(alternatives_max=2, paths_max=1, depth_max=6)])
def test_no_message_is_lost(budget: Budget) -> None:
    kept = dropped = 0
    for number in range(ROUNDS):
        seed = SEED + number
        generator = Generator(random.Random(seed))
        queries = [generator.query() for _ in range(40)]
        mapped = [routing_query(query, NAMESPACES, budget=budget) for query in queries]
        for _ in range(6):
            message = generator.message()
            tree = etree.ElementTree(etree.fromstring(message.encode()))
            for query, routing in zip(queries, mapped, strict=True):
                requested = satisfied(routing, tree)
                if tree.xpath(f"boolean({query})", namespaces=NAMESPACES):
                    assert requested, f"seed {seed}: {query}\n{texts(routing)}\n{message}"
                kept, dropped = kept + requested, dropped + (not requested)
    # Routing queries that are always true would lose nothing either.
    assert dropped > kept / 4, f"{kept} kept, {dropped} dropped"


def test_no_message_for_a_rewriting_query_is_lost() -> None:
    for number in range(ROUNDS):
        seed = SEED + number
        generator = random.Random(seed)
        maker = flwr_generator.QueryMaker(generator)
        queries = [maker.query().text for _ in range(8)]
        subscriptions = SubscriptionSet(namespaces=flwr_generator.NAMESPACES)
        subscriptions.add_many([(str(index), query) for index, query in enumerate(queries)])
        mapped = [routing_query(query, flwr_generator.NAMESPACES) for query in queries]
        for _ in range(6):
            message = flwr_generator.message(generator)
            tree = etree.ElementTree(etree.fromstring(message.encode()))
            for key in subscriptions.match(message.encode()).keys:
                routing = mapped[int(key)]
                assert satisfied(routing, tree), f"seed {seed}: {queries[int(key)]}\n{texts(routing)}\n{message}"


@pytest.mark.slow
def test_implications_hold_on_messages() -> None:
    result = 0
    for number in range(ROUNDS):
        seed = SEED + number
        generator = Generator(random.Random(seed))
        mapped = [routing_query(generator.query(), NAMESPACES) for _ in range(30)]
        paths = sorted({path for query in mapped for disjunct in query for path in disjunct.paths})
        pairs = [(one, other) for one, other in permutations(paths, 2) if path_implies(one, other)]
        result += len(pairs)
        for _ in range(6):
            message = generator.message()
            tree = etree.ElementTree(etree.fromstring(message.encode()))
            truth = {path: holds(path, tree) for path in paths}
            for narrow, wide in pairs:
                assert truth[wide] or not truth[narrow], f"seed {seed}: {narrow.text} => {wide.text}\n{message}"
    assert result > 10 * ROUNDS


WORDS = ("x", "@k", "text()", ".", "starts-with(@k, 'x')", "contains(., 'x')", "contains(@k, '1')", "not(@k = 2)")


def test_implications_of_values_hold_on_messages() -> None:
    comparisons = [
        f"{subject} {operator} {constant}"
        for subject in ("@k", ".", "text()")
        for operator in ("=", "!=", "<", "<=", ">", ">=")
        for constant in ("1", "2", "'2'", "'x'", "'xy'", "'02'")
    ]
    conditions = [word for word in WORDS if word != "x"] + comparisons
    values = ("", "0", "1", "1.5", "2", "02", "3", "x", "xy", "yx", "-1")
    paths = [only_path(f"/a[{condition}]") for condition in conditions]
    messages = [f"<a k='{value}'>{value}</a>" for value in values] + ["<a/>", "<a>1<b/>2</a>", "<a>x<b/>2</a>"]
    trees = [etree.ElementTree(etree.fromstring(message)) for message in messages]
    truth = {path: [holds(path, tree) for tree in trees] for path in paths}
    implied = 0
    for narrow, wide in permutations(paths, 2):
        if path_implies(narrow, wide):
            implied += 1
            for message, before, after in zip(messages, truth[narrow], truth[wide], strict=True):
                assert after or not before, f"{narrow.text} => {wide.text}: {message}"
    assert implied > 500


def only_path(query: str) -> LinearPath:
    ((path,),) = (disjunct.paths for disjunct in routing_query(query))
    return path


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("/a/b/c", "/a/b"),
        ("/a/b/c", "//c"),
        ("/a/b/c", "/*//c"),
        ("/a//b[@x = 1]", "//b"),
        ("/a[@x = 1]", "/a[@x]"),
        ("/a[@x = 1]", "/a[@x < 3 or @y]"),
        ("/a[@x < 2]", "/a[@x <= 2]"),
        ("/a[@x = 'storm']", "/a[starts-with(@x, 'st')]"),
        ("/a[starts-with(@x, 'storm')]", "/a[contains(@x, 'tor')]"),
        ("/a[@x = 1 or @x = 2]", "/a[@x < 3]"),
        ("/a[@x = 1][@y]/b", "/a[@y]"),
    ],
)
def test_what_is_seen_to_be_implied(narrow: str, wide: str) -> None:
    assert path_implies(only_path(narrow), only_path(wide))
    assert not path_implies(only_path(wide), only_path(narrow))


def test_decomposition_keeps_conditions_and_drops_where_parts_meet() -> None:
    query = routing_query('/feed/item[cat="x"][loc="y"]')
    assert texts(query) == {frozenset({'/feed/item/cat[. = "x"]', '/feed/item/loc[. = "y"]'})}
    apart = "<feed><item><cat>x</cat><loc>z</loc></item><item><cat>w</cat><loc>y</loc></item></feed>"
    assert satisfied(query, etree.ElementTree(etree.fromstring(apart)))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("/a[b or c]/d", [["/a/d", "/a/b"], ["/a/d", "/a/c"]]),
        ("/a[not(not(b))]", [["/a/b"]]),
        ("/a[not(b) and c]", [["/a/c"]]),
        ("/a[not(@x = 1 or c)]", [["/a[not(@x = 1)]"]]),
        ("//b/ancestor::a[@x]", [["//b", "//a[@x]"]]),
        ("/a/b[2][@x]/@y", [["/a/b[@x][@y]"]]),
        ("count(//a) > 3", [["//a"]]),
        ("contains(/a/b, 'x')", [['/a/b[contains(., "x")]']]),
        ("/a[b = c]", [["/a/b", "/a/c"]]),
        ("//a | /b", [["//a"], ["/b"]]),
        ("/a[/c]", [["/a", "/c"]]),
        (
            "for $n in //n where $n/h/@x = 'v' and $n/b return <r>{ $n/h }</r>",
            [['//n/h[@x = "v"]', "//n/b"]],
        ),
        ("position() = 1", [[]]),
        ("false()", []),
    ],
)
def test_the_routing_query_of(query: str, expected: list[list[str]]) -> None:
    assert texts(routing_query(query)) == set(map(frozenset, expected))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/a[@x = 1][@y]", "/a[@y][1 = @x]"),
        ("/a[@x and (@y or @z)]", "/a[@z or @y][@x]"),
        ("//a/@x", "//a[@x]"),
        ("/a[b][b/c]", "/a/b/c"),
        ("/descendant::a/self::node()", "//a"),
    ],
)
def test_equal_paths_have_one_text(one: str, other: str) -> None:
    assert routing_query(one) == routing_query(other)


def test_prefixes_do_not_count_and_namespaces_do() -> None:
    one = routing_query("//x:a[@y:b = 1]", {"x": "urn:1", "y": "urn:2"})
    other = routing_query("//u:a[@v:b = 1]", {"u": "urn:1", "v": "urn:2", "w": "urn:3"})
    assert one == other
    assert one != routing_query("//u:a[@v:b = 1]", {"u": "urn:2", "v": "urn:1"})
    assert one == {Disjunct("", frozenset({LinearPath("//n1:a[@n2:b = 1]", (("n1", "urn:1"), ("n2", "urn:2")))}))}
    assert texts(routing_query("//a[@xml:lang = 'en']")) == {frozenset({'//a[@xml:lang = "en"]'})}


def test_a_path_survives_its_text() -> None:
    generator = Generator(random.Random(SEED))
    for _ in range(300):
        for disjunct in routing_query(generator.query(), NAMESPACES):
            for path in disjunct.paths:
                assert path_of(steps_of(path)) == path


@pytest.mark.parametrize("text", ["/a[2]", "/a/b/..", "/a[b]", "1"])
def test_what_is_no_linear_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a linear path"):
        steps_of(LinearPath(text))


def test_an_explosion_is_generalised() -> None:
    clauses = "".join(f"[b{n} or c{n}]" for n in range(40))
    query = routing_query(f"/a{clauses}/d")
    assert is_generalised(f"/a{clauses}/d")
    assert not is_generalised("/a[b1 or c1][b2 or c2]/d")
    assert len(query) <= Budget().alternatives_max
    assert all(LinearPath("/a/d") in disjunct.paths for disjunct in query)
    wide = routing_query(" or ".join(f"/a/b{n}" for n in range(300)))
    assert wide == everything()
    deep = "[c" * 90 + "]" * 90
    assert routing_query(f"/a{deep}")
    assert routing_query("/a" * 900)
    assert is_generalised("/a" * 900)
    assert is_generalised("/a" + "".join(f"[b{n}/c]" for n in range(40)))


def test_collect_and_aggregate() -> None:
    """The worked example: brokers E and F below D; what E and F share is there once."""
    e = routing_query('/feed[meta/area="N"][.//topic="storm"]') | routing_query('/feed[meta/area="N"][.//topic="ice"]')
    f = routing_query('/feed[meta/area="N"]/series[@name="tide"]')
    table = collect({"E": e, "F": f})
    assert {frozenset(d.paths) for d in table} == {frozenset(d.paths) for d in e | f}
    assert all(targets == frozenset({"E" if disjunct in e else "F"}) for disjunct, targets in table.items())
    assert aggregate(table) == e | f
    area = routing_query('/feed/meta/area[. = "N"]')
    assert aggregate(table, [area]) == area
    assert aggregate(table, [routing_query("/x", scope="other")]) == e | f | routing_query("/x", scope="other")
    assert aggregate([], []) == NOTHING
    assert conjunction_implies(frozenset({LinearPath("/x")}), frozenset())
