"""Limits on reorganisation, seeds of a join, and the broker tree that CoDD is compared with."""

from __future__ import annotations

import random

import pytest

from twigcast.lab.overlays.codd.interest import InterestModel, InterestShape, PlannedInterests
from twigcast.lab.overlays.codd.measures import check_tree, depths
from twigcast.lab.overlays.codd.scenario import ROOT, CoddRun, start_run
from twigcast.lab.overlays.codd.siena import SienaTree
from twigcast.overlay.codd import reorganise
from twigcast.overlay.codd.messages import Add, Grant, Reorganize, SearchDone
from twigcast.overlay.codd.node import CoddNode
from twigcast.overlay.codd.settings import CoddSettings
from twigcast.overlay.errors import ImpossibleSetting


def grown(nodes: int, documents: int, **settings: object) -> CoddRun:
    model = PlannedInterests(InterestShape(nodes, classes=8, change_every=60), 3, documents)
    run = start_run(model, CoddSettings(**settings))  # type: ignore[arg-type]
    items = model.items(documents)
    for address in range(1, nodes + 1):
        run.add(address, address - 1)
        run.simulator.run(until=run.simulator.now + 1)
        if address % 4 == 0:
            run.publish(next(items))
    run.stream(items)
    return run


def producer(**settings: int) -> CoddNode:
    root = start_run(InterestModel(InterestShape(9)), CoddSettings(**settings)).root  # type: ignore[arg-type]
    assert root.drain().sends == []
    return root


def granted(root: CoddNode) -> list[int]:
    return [to for to, message in root.drain().sends if isinstance(message, Grant)]


def test_without_top_requests_are_served_in_order_one_at_a_time() -> None:
    root = producer()
    for sender, overhead in ((1, 0.2), (2, 0.9), (3, 0.5), (2, 0.8)):
        reorganise.on_reorganize(root, sender, Reorganize(sender + 10, overhead))
    assert granted(root) == [1]
    for _ in range(3):
        reorganise.on_search_done(root, root.serving, SearchDone(False))
    # The second request of node 2 takes the place of its first.
    assert granted(root) == [3, 2]


def test_top_c_serves_the_worst_of_a_batch_and_no_others() -> None:
    root = producer(top=2, batch=10)
    for sender, overhead in ((1, 0.2), (2, 0.9), (3, 0.5), (4, 0.7)):
        reorganise.on_reorganize(root, sender, Reorganize(sender + 10, overhead))
    assert granted(root) == []
    reorganise.serve_batch(root)
    assert granted(root) == [2]
    for _ in range(2):
        reorganise.on_search_done(root, root.serving, SearchDone(False))
    assert granted(root) == [4]
    assert not root.queue


def test_fewer_are_served_with_a_smaller_c_and_less_often_with_a_longer_timeout() -> None:
    searches = {
        name: len(grown(60, 600, fan_out=3, **settings).moves)
        for name, settings in {
            "all": {"reorganise_after": 20},
            "top 1": {"reorganise_after": 20, "top": 1, "batch": 20},
            "rarely": {"reorganise_after": 100},
        }.items()
    }
    assert 0 < searches["top 1"] < searches["all"]
    assert 0 < searches["rarely"] < searches["all"]


@pytest.mark.parametrize("factor", [0.5, 2.0, 100.0])
def test_a_larger_prune_factor_asks_fewer_nodes(factor: float) -> None:
    run = grown(80, 500, fan_out=3, reorganise_after=30, prune_factor=factor)
    wide = grown(80, 500, fan_out=3, reorganise_after=30, prune_factor=0.01)
    asked, most = (sum(move.visited for _, move in some.moves) / len(some.moves) for some in (run, wide))
    assert asked < most
    assert check_tree(run) == []


def test_the_best_offer_of_several_seeds_is_taken() -> None:
    model = InterestModel(InterestShape(40, classes=2, change_every=0), 1)
    run = start_run(model, CoddSettings(fan_out=2, reorganise=False, cold_start=1000))
    one, other = (sorted(members) for members in model.members)
    for address, query in enumerate([one[0], other[0], one[1], other[1]], 1):
        run.add(address, query)
        run.simulator.run()
    for address, query, parent in ((5, other[2], 2), (6, one[2], 1)):
        before = run.simulator.counters.messages[Add]
        run.add(address, query, seeds=(1, 2))
        run.simulator.run()
        node = run.simulator.node(address)
        assert isinstance(node, CoddNode)
        assert node.parent == parent
        # At most depth times the number of seeds.
        assert run.simulator.counters.messages[Add] - before <= max(depths(run).values()) * 2
    assert check_tree(run) == []


def test_the_broker_tree_counts_what_servers_do_not_want() -> None:
    model = InterestModel(InterestShape(50, classes=5, selectivity=0.4), 2)
    tree = SienaTree(model, range(50), 4, seed=7)
    items = list(model.items(300))
    for item in items:
        tree.publish(item)
    servers = len(tree.own)
    assert servers == 10
    # Its own way: who is where is drawn again, and every server's subtree is gathered node by node.
    generator = random.Random("servers 7")
    queries = list(range(50))
    generator.shuffle(queries)
    asked = [{query} for query in queries[:servers]]
    for query in queries[servers:]:
        asked[generator.randrange(servers)].add(query)
    for server in range(servers):
        below, waiting = set(), [server]
        while waiting:
            position = waiting.pop()
            below |= asked[position]
            waiting.extend(child for child in range(4 * position + 1, 4 * position + 5) if child < servers)
        received = [item for item in items if any(model.satisfied(item) >> query & 1 for query in below)]
        spurious = [item for item in received if not model.satisfied(item) >> queries[server] & 1]
        assert (tree.received[server], tree.spurious[server]) == (len(received), len(spurious))


def test_impossible_broker_trees_are_refused() -> None:
    with pytest.raises(ImpossibleSetting, match="fan_out = 0"):
        SienaTree(InterestModel(InterestShape(3)), range(3), 0)
    run = start_run(InterestModel(InterestShape(3)), CoddSettings())
    assert run.simulator.node(ROOT) is run.root
