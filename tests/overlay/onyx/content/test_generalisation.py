"""Content generalisation: always implied, within its budget, and no wider than it must be."""

from __future__ import annotations

import os
import random
from functools import partial

import pytest
from lxml import etree

from tests.overlay.onyx.content.networks import Network, draw_query, mapped, random_graph
from tests.overlay.onyx.content.test_routing_queries import satisfied
from tests.overlay.onyx.content.test_routing_tables import change, check_messages, only, state
from tests.seeds import seed_or
from tests.strategies import Generator
from twigcast.overlay.onyx.content.generalise import Selectivity, boxes, generalise
from twigcast.overlay.onyx.content.implication_index import kept_without_implied
from twigcast.overlay.onyx.content.routing_query import routing_query
from twigcast.overlay.onyx.content.routing_table import BroadcastTrees, RoutingTable
from twigcast.overlay.onyx.content.widening import wider
from twigcast.overlay.onyx.messages import EVERYWHERE, Disjunct, RoutingDelta, RoutingQuery

SEED = seed_or(20261128)
ROUNDS = int(os.environ.get("TWIGCAST_TEST_ROUNDS", "12"))


def holds(disjunct: Disjunct, tree: etree._ElementTree) -> bool:
    return satisfied(frozenset({disjunct}), tree)


def test_each_way_to_widen_is_implied() -> None:
    result = 0
    for number in range(ROUNDS):
        seed = SEED + number
        generator = Generator(random.Random(seed))
        disjuncts = {d for _ in range(15) for d in mapped(generator.query())}
        pairs = [(narrow, wide) for narrow in disjuncts for wide in wider(narrow)]
        result += len(pairs)
        for _ in range(4):
            message = generator.message()
            tree = etree.ElementTree(etree.fromstring(message.encode()))
            truth = {d: holds(d, tree) for pair in pairs for d in pair}
            for narrow, wide in pairs:
                assert truth[wide] or not truth[narrow], f"seed {seed}: {narrow} => {wide}\n{message}"
    assert result > 50 * ROUNDS


@pytest.mark.parametrize("measured", [False, True])
def test_a_generalisation_keeps_its_budget_and_every_message(measured: bool) -> None:
    for number in range(ROUNDS):
        seed = SEED + number
        rng = random.Random(seed)
        generator = Generator(rng)
        query = frozenset(d for _ in range(rng.randint(1, 60)) for d in mapped(draw_query(generator, rng)))
        sample = [generator.message().encode() for _ in range(20)] if measured else []
        budget = rng.randint(1, 40)
        standing = generalise(query, budget, Selectivity(sample))
        assert standing.keys() == query
        wide = set(standing.values())
        assert boxes(wide) <= budget, f"seed {seed}"
        for _ in range(5):
            message = generator.message()
            tree = etree.ElementTree(etree.fromstring(message.encode()))
            for disjunct, stands in standing.items():
                assert holds(stands, tree) or not holds(disjunct, tree), f"seed {seed}: {disjunct}\n{stands}\n{message}"


def test_what_fits_is_left_alone() -> None:
    query = routing_query("/a[@x = 1]") | routing_query("/b[c][d]")
    assert generalise(query, 5) == {disjunct: disjunct for disjunct in query}


def test_comparisons_are_widened_until_they_cover_all() -> None:
    def widened(*queries: str) -> set[Disjunct]:
        return set(generalise([only(query) for query in queries], 2).values())

    assert widened("/a/b[@x = 1]", "/a/b[@x = 4]", "/a/b[@x < 3]") == {only("/a/b[@x <= 4]")}
    assert widened("/a/b[@x = 1]", "/a/b[@x = 4]", "/a/b[@x = 3]") == {only("/a/b[@x >= 1][@x <= 4]")}
    assert widened("/a/b[@x = 'u']", "/a/b[@x = 'v']") == {only("/a/b[@x = 'u' or @x = 'v']")}
    assert widened("/a/b[@x = 'u']", "/a/b[@x < 3]", "/a/b[@x > 2]") == {only("/a/b[@x]")}
    many = [f"/a/b[. = '{word}']" for word in "abcdefghijklm"]
    assert widened(*many) == {only("/a/b")}


def test_above_and_below_do_not_become_an_equality() -> None:
    """Two texts of one element, one above and one below, satisfy both comparisons and no equality."""
    disjunct = only("/a[text() >= 5][text() <= 5]")
    other = only("/a[text() = 5]")
    tree = etree.ElementTree(etree.fromstring("<a>9<b/>1</a>"))
    assert holds(disjunct, tree)
    assert not holds(other, tree)
    assert all(
        holds(wide, tree) for wide in generalise([disjunct, only("/a[text() >= 5][text() <= 5][b]")], 2).values()
    )


def test_the_common_conjuncts() -> None:
    """The worked example: (A and S) or (A and I) or (A and T) shrinks to A."""
    query: RoutingQuery = frozenset(
        map(
            only,
            (
                '/feed[meta/area="N"][.//topic="storm"]',
                '/feed[meta/area="N"][.//topic="ice"]',
                '/feed[meta/area="N"]/series[@name="tide"]',
            ),
        )
    )
    assert set(generalise(query, 2).values()) == set(routing_query('/feed/meta/area[. = "N"]'))


def test_absorption() -> None:
    kept = kept_without_implied([only("/a/b[@x = 1]"), only("//b"), only("/c")])
    assert set(kept.values()) == {only("//b"), only("/c")}


def test_the_measured_choice_loses_least() -> None:
    """Most messages hold `/usual`, with other values: what is wanted of `/rare` is put together instead."""
    queries = [only(f"/r/{name}[@v = 'w{n}']") for name in ("usual", "q/rare") for n in range(10)]
    sample = [b"<r><usual v='z'/></r>"] * 9 + [b"<r><q><rare v='z'/></q></r>"]
    standing = generalise(queries, 30, Selectivity(sample))
    assert boxes(standing.values()) <= 30
    assert all(standing[query] == query for query in queries[:10])
    assert any(standing[query] != query for query in queries[10:])


@pytest.mark.parametrize("boxes_max", [1, 6, 20])
def test_networks_with_a_budget_lose_nothing(boxes_max: int) -> None:
    for number in range(ROUNDS // 2):
        seed = SEED + number
        rng = random.Random(seed)
        generator = Generator(rng)
        make = partial(RoutingTable, boxes_max=boxes_max, generalise=generalise)
        network = Network(random_graph(rng, rng.randint(2, 7), 3), make)
        for step in range(5):
            for _ in range(rng.randint(1, 20)):
                change(network, generator, rng)
            network.settle()
            for node, table in network.tables.items():
                for neighbour in network.graph[node]:
                    assert boxes(table.announced(neighbour)) <= boxes_max
            check_messages(network, generator, rng, f"seed {seed}, step {step}", exactly=False)
        for node, own in network.queries.items():
            for key in list(own):
                network.unsubscribe(node, key)
        network.settle()
        assert all(not announced and not remote for announced, remote in state(network).values()), f"seed {seed}"


def test_what_was_made_wide_for_others_is_tightened_when_they_are_gone() -> None:
    table = RoutingTable(boxes_max=12, generalise=generalise)
    table.set_trees(BroadcastTrees({1: 1}, {}))
    for number in range(20):
        table.subscribe(number, routing_query(f"/r/n{number % 4}[@v = 'v{number}']"))
    first = table.delta(1)
    assert first is not None
    assert boxes(table.announced(1)) <= 12
    for number in range(1, 20):
        assert table.unsubscribe(number)
        table.delta(1)
    assert table.announced(1) == {only("/r/n0[@v = 'v0']"): EVERYWHERE}


def test_the_local_query_for_recovery_is_kept_small() -> None:
    table = RoutingTable(generalise=generalise)
    for number in range(50):
        table.subscribe(number, routing_query(f"/r/n{number}[@v = 'v{number}']"))
    assert len(table.local()) == 50
    small = table.local(boxes_max=10)
    assert boxes(small) <= 10
    other = RoutingTable()
    assert other.apply(1, RoutingDelta(0, tuple((d, EVERYWHERE) for d in small), ()))
    assert other.route(b"<r><n7 v='v7'/></r>", "", 0, [1]) == {1}
