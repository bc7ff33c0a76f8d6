"""Routing tables, alone and in networks: nothing lost, no more sent than asked for, tables that restore."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.overlay.onyx.content.networks import Network, draw_query, mapped, matching, random_graph
from tests.seeds import seed_or
from tests.strategies import Generator
from twigcast import _core
from twigcast.errors import MalformedMessage
from twigcast.overlay.onyx.content.routing_index import RoutingMatcher, matches
from twigcast.overlay.onyx.content.routing_query import everything, routing_query
from twigcast.overlay.onyx.content.routing_table import BroadcastTrees, RoutingTable
from twigcast.overlay.onyx.messages import EVERYWHERE, Disjunct, LinearPath, RoutingDelta

SEED = seed_or(20261128)
ROUNDS = int(os.environ.get("TWIGCAST_TEST_ROUNDS", "12"))


def change(network: Network, generator: Generator, rng: random.Random) -> None:
    node = rng.choice(list(network.graph))
    own = network.queries[node]
    if own and rng.random() < 0.4:
        network.unsubscribe(node, rng.choice(list(own)))
    else:
        # A small number of keys, so that subscriptions are replaced too.
        network.subscribe(node, rng.randrange(12), draw_query(generator, rng))


def check_messages(network: Network, generator: Generator, rng: random.Random, about: str, *, exactly: bool) -> None:
    for _ in range(6):
        message = generator.message()
        root = rng.choice(list(network.graph))
        wanting = matching(network.queries, message)
        reached = network.send(root, message.encode())
        reachable = {root, *network.parents[root]}
        assert wanting & reachable <= reached, f"{about}: lost for {wanting - reached}\n{message}"
        if exactly:
            asked = {node for node, table in network.tables.items() if matches(table.local(), message.encode())}
            assert reached == network.needed(root, asked & reachable), f"{about}\n{message}"


def test_nothing_is_lost_in_random_networks_and_only_routing_queries_send() -> None:
    for number in range(ROUNDS):
        seed = SEED + number
        rng = random.Random(seed)
        generator = Generator(rng)
        network = Network(random_graph(rng, rng.randint(2, 9), rng.randint(0, 5)))
        for step in range(5):
            for _ in range(rng.randint(1, 20)):
                change(network, generator, rng)
            if step == 3:
                cut_one(network, rng)
            network.settle()
            check_messages(network, generator, rng, f"seed {seed}, step {step}", exactly=True)


def cut_one(network: Network, rng: random.Random) -> None:
    node = rng.choice([node for node, others in network.graph.items() if others])
    network.cut(node, rng.choice(sorted(network.graph[node])))
    network.rewire()


def tighten(table: RoutingTable, neighbour: int) -> RoutingDelta | None:
    """Brings what a neighbour has been told to what it would be told if it were told everything now."""
    announcement = table._announcements.get(neighbour)
    if announcement is None:
        return None
    announcement._tighten()
    changes = announcement._changes()
    return table._numbered(neighbour, changes) if changes.interests or changes.unwanted else None


def test_deltas_lead_where_a_fresh_build_leads() -> None:
    for number in range(ROUNDS):
        seed = SEED + number
        rng = random.Random(seed)
        generator = Generator(rng)
        network = Network(random_graph(rng, 5, 3))
        for _ in range(60):
            change(network, generator, rng)
            if rng.random() < 0.2:
                network.settle()
        network.settle()
        network.settle(tighten)
        network.settle()
        network.settle(tighten)
        fresh = Network(network.graph)
        for node, own in network.queries.items():
            for key, query in own.items():
                fresh.subscribe(node, key, query)
        fresh.settle()
        fresh.settle(tighten)
        fresh.settle()
        fresh.settle(tighten)
        assert state(network) == state(fresh), f"seed {seed}"


def state(network: Network) -> dict[tuple[int, int], tuple[object, object]]:
    return {
        (node, neighbour): (table.announced(neighbour), table.remote(neighbour))
        for node, table in network.tables.items()
        for neighbour in network.graph[node]
    }


def test_adding_and_removing_restores_all_tables() -> None:
    for number in range(ROUNDS):
        seed = SEED + number
        rng = random.Random(seed)
        generator = Generator(rng)
        network = Network(random_graph(rng, 6, 3))
        for _ in range(20):
            change(network, generator, rng)
        network.settle()
        before = state(network)
        statistics = {node: table.statistics() for node, table in network.tables.items()}
        profiles = [(rng.choice(list(network.graph)), 100 + key, draw_query(generator, rng)) for key in range(10)]
        for node, key, query in profiles:
            network.subscribe(node, key, query)
            if rng.random() < 0.5:
                network.settle()
        rng.shuffle(profiles)
        for node, key, _ in profiles:
            network.unsubscribe(node, key)
            network.settle()
        assert state(network) == before, f"seed {seed}"
        for node, table in network.tables.items():
            now = table.statistics()
            for name in ("subscriptions", "local_disjuncts", "remote_disjuncts", "announced_disjuncts"):
                assert now[name] == statistics[node][name], f"seed {seed}, {name}"
            for name in ("engine_conjunctions", "engine_queries", "engine_label_sets"):
                assert now[name] == statistics[node][name], f"seed {seed}, {name}"


def only(query: str) -> Disjunct:
    (disjunct,) = routing_query(query)
    return disjunct


def chain(below: int = 1, above: int = 2) -> RoutingTable:
    """A broker 0 between one below and one above it; the roots are all three and 9, behind the one above."""
    table = RoutingTable()
    parent = {below: below, above: above, 9: above}
    children = {
        0: frozenset({below, above}),
        below: frozenset({above}),
        above: frozenset({below}),
        9: frozenset({below}),
    }
    table.set_trees(BroadcastTrees(parent, children))
    return table


def test_what_is_implied_is_not_sent_upwards() -> None:
    table = chain()
    first = table.delta(2)
    assert first == RoutingDelta(0, (), ())
    table.subscribe("wide", routing_query("//a[@x]"))
    assert table.delta(2) == RoutingDelta(1, ((only("//a[@x]"), EVERYWHERE),), ())
    table.subscribe("narrow", routing_query("/a[@x][@y = 1]"))
    assert table.apply(1, RoutingDelta(0, ((only("//a[@x]/b"), EVERYWHERE),), ()))
    assert table.delta(2) is None
    assert table.unsubscribe("wide")
    narrower = table.delta(2)
    assert narrower is not None
    assert dict(narrower.interests) == {only("/a[@x][@y = 1]"): EVERYWHERE, only("//a[@x]/b"): EVERYWHERE}
    assert narrower.unwanted == (only("//a[@x]"),)
    assert narrower.version == 2


def test_roots_follow_the_trees() -> None:
    table = chain()
    assert table.apply(1, RoutingDelta(0, ((only("/a"), frozenset({9, 1})), (only("/b"), frozenset({2}))), ()))
    # Of the roots behind 2, which are 2 and 9, the one below wants /a for 9 and /b for 2.
    assert table.interests_from(2) == {only("/a"): frozenset({9}), only("/b"): frozenset({2})}
    assert table.interests_from(1) == {}
    assert table.apply(1, RoutingDelta(1, ((only("/a"), frozenset({9, 1, 2})),), (only("/b"),)))
    assert table.interests_from(2) == {only("/a"): EVERYWHERE}
    assert table.route(b"<a/>", "", 9, [1]) == {1}
    assert table.route(b"<a/>", "", 7, [1]) == frozenset()
    assert table.route(b"<b/>", "", 2, [1]) == frozenset()


def test_a_missed_version_is_noticed() -> None:
    table = RoutingTable()
    assert not table.apply(1, RoutingDelta(1, ((only("/a"), EVERYWHERE),), ()))
    assert table.apply(1, RoutingDelta(0, ((only("/a"), EVERYWHERE),), ()))
    assert table.apply(1, RoutingDelta(1, ((only("/b"), EVERYWHERE),), ()))
    assert not table.apply(1, RoutingDelta(3, (), (only("/a"),)))
    assert table.remote(1) == {only("/a"): EVERYWHERE, only("/b"): EVERYWHERE}
    # Beginning again replaces all.
    assert table.apply(1, RoutingDelta(0, ((only("/c"), EVERYWHERE),), ()))
    assert table.remote(1) == {only("/c"): EVERYWHERE}
    table.forget(1)
    assert table.remote(1) == {}
    assert not table.apply(1, RoutingDelta(1, (), ()))
    assert table.route(b"<c/>", "", 0, [1]) == frozenset()


def test_scopes_are_kept_apart() -> None:
    table = RoutingTable()
    requested = [(disjunct, EVERYWHERE) for scope in ("x", "y") for disjunct in routing_query("/a", scope=scope)]
    assert table.apply(1, RoutingDelta(0, (requested[0],), ()))
    assert table.apply(2, RoutingDelta(0, (requested[1], *((d, EVERYWHERE) for d in everything("x"))), ()))
    assert table.route(b"<a/>", "x", 0, [1, 2]) == {1, 2}
    assert table.route(b"<b/>", "x", 0, [1, 2]) == {2}
    assert table.route(b"<a/>", "y", 0, [1, 2]) == {2}
    assert table.route(b"<a/>", "", 0, [1, 2]) == frozenset()
    assert table.holding(b"<a/>", "x", 0) == {1: [requested[0][0]], 2: list(everything("x"))}


def test_more_neighbours_than_one_pass_can_tell_apart() -> None:
    table = RoutingTable()
    for neighbour in range(150):
        assert table.apply(neighbour, RoutingDelta(0, ((only(f"/a[@x = {neighbour % 3}]"), EVERYWHERE),), ()))
    expected = {neighbour for neighbour in range(140) if neighbour % 3 == 1}
    assert table.route(b"<a x='1'/>", "", 0, range(140)) == expected


def test_a_path_that_the_engine_refuses_widens_its_conjunction() -> None:
    table = RoutingTable()
    paths = frozenset({LinearPath("/a"), LinearPath("/a[[")})
    assert table.apply(1, RoutingDelta(0, ((Disjunct("", paths), EVERYWHERE),), ()))
    assert table.statistics()["widened_paths"] == 1
    assert table.route(b"<a/>", "", 0, [1]) == {1}
    assert table.route(b"<b/>", "", 0, [1]) == frozenset()


def test_messages_in_other_encodings() -> None:
    table = RoutingTable()
    assert table.apply(1, RoutingDelta(0, ((only("/a[. = 'é']"), EVERYWHERE),), ()))
    message = "<?xml version='1.0' encoding='ISO-8859-1'?><a>é</a>"
    assert table.route(message.encode("latin-1"), "", 0, [1]) == {1}
    with pytest.raises(MalformedMessage):
        table.route(b"<a>", "", 0, [1])


def test_messages_as_element_streams() -> None:
    for number in range(ROUNDS):
        seed = SEED + number
        rng = random.Random(seed)
        generator = Generator(rng)
        table = RoutingTable()
        for neighbour in range(8):
            requested = {d for _ in range(3) for d in mapped(draw_query(generator, rng))}
            assert table.apply(neighbour, RoutingDelta(0, tuple((d, EVERYWHERE) for d in requested), ()))
        for _ in range(10):
            message = generator.message().encode()
            stream = _core.ParsedMessage.from_text(message).stream()
            expected = table.route(message, "", 0, range(8))
            assert table.route_stream(stream, None, "", 0, range(8)) == expected, f"seed {seed}\n{message!r}"


def test_a_routing_query_by_itself() -> None:
    query = mapped("/a[b][c]") | mapped("//d")
    matcher = RoutingMatcher(query)
    assert [matcher.matches(xml) for xml in (b"<a><b/><c/></a>", b"<a><b/></a>", b"<x><d/></x>")] == [True, False, True]
    assert matches(everything(), b"<x/>")
    assert not matches(frozenset(), b"<x/>")
    assert not matches(everything("other"), b"<x/>")


@pytest.mark.parametrize("count", [40, 60, 4_000, 6_000])
def test_a_question_is_made_at_once_however_many_subscriptions_there_are(count: int) -> None:
    """Once a broker with a thousand subscriptions stood still for half a minute before it asked for what it missed."""
    table = RoutingTable()
    for number in range(count):
        table.subscribe(number, frozenset({Disjunct("s", frozenset({LinearPath(f'/a/b[@n = "{number}"]')}))}))
    began = time.process_time()
    question = table.local()
    assert time.process_time() - began < 15.0
    assert len(question) == (count if count < 5_000 else 1)
    assert matches(question, b'<a><b n="7"/></a>', "s")
    table.subscribe("wide", frozenset({Disjunct("s", frozenset())}))
    assert table.local() == {Disjunct("s", frozenset())}


def test_what_stood_for_very_many_leaves_them_behind_when_it_goes() -> None:
    """A broker asks for everything after its start, until it knows what its subscriptions want: thousands of paths."""
    table = RoutingTable()
    trees = BroadcastTrees({1: 1, 3: 3}, {1: frozenset({3}), 2: frozenset({1, 3}), 3: frozenset({1})})
    table.set_trees(trees)
    wide = Disjunct("s", frozenset())
    many = [Disjunct("s", frozenset({LinearPath(f'/a/b[@n = "{number}"]')})) for number in range(3_000)]
    assert table.apply(3, RoutingDelta(0, ((wide, EVERYWHERE),), ()))
    assert table.delta(1) is not None
    assert table.apply(3, RoutingDelta(1, tuple((one, EVERYWHERE) for one in many), ()))
    table.delta(1)
    assert set(table.announced(1)) == {wide}
    assert table.apply(3, RoutingDelta(2, (), (wide,)))
    delta = table.delta(1)
    assert delta is not None
    assert set(table.announced(1)) == set(many)
    assert delta.unwanted == (wide,)
