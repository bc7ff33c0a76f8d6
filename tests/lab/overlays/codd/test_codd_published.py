"""The examples and rules of CoDD, and what it leaves undefined."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.overlay.overlay_population import matches, message, random_messages, random_queries
from twigcast.lab.overlays.codd.interest import EVERYTHING, InterestModel, InterestShape, PlannedInterests
from twigcast.lab.overlays.codd.measures import check_tree, depths, interior, mean_overhead
from twigcast.lab.overlays.codd.scenario import ROBUST, ROOT, CoddRun, start_run
from twigcast.lab.overlays.journal import Fate, Journal
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.overlay.codd import leave
from twigcast.overlay.codd.engine import Item
from twigcast.overlay.codd.filters import AggregateFilter
from twigcast.overlay.codd.messages import Add, Received, StreamEnded, TreeFailure
from twigcast.overlay.codd.node import CoddNode
from twigcast.overlay.codd.settings import CoddSettings
from twigcast.overlay.codd.summary import DataSummary
from twigcast.overlay.codd.twig_engine import TwigEngine
from twigcast.overlay.codd.twigs import twig_of
from twigcast.overlay.errors import EmptyNetwork, ImpossibleSetting
from twigcast.query import Path, child, descendant, nested

DOCUMENTS = [
    b"<m><sea><tide/></sea></m>",
    b"<m><sea><wind/></sea></m>",
    b"<m><air><wind/></air></m>",
    b"<m><air/></m>",
    b"<m><sea><tide/><wind/></sea></m>",
    b"<m><sea><tide/></sea><sea><wind/></sea></m>",
]
ITEMS = [Item(number, message(f"sea{number}", xml), len(xml)) for number, xml in enumerate(DOCUMENTS, 1)]


def twig(*steps: Any) -> Any:
    return twig_of(Path.absolute(*steps))


def summary_of(items: list[Item], window: int = 1000) -> DataSummary:
    summary = DataSummary(window)
    for item in items:
        summary.add(item)
    return summary


def test_summary_bitmaps() -> None:
    root = summary_of(ITEMS).root
    expected = {
        ("m",): [1, 2, 3, 4, 5, 6],
        ("m", "sea"): [1, 2, 5, 6],
        ("m", "sea", "tide"): [1, 5, 6],
        ("m", "sea", "wind"): [2, 5, 6],
        ("m", "air"): [3, 4],
        ("m", "air", "wind"): [3],
    }
    for path, documents in expected.items():
        node = root.node(path)
        assert node is not None
        assert list(node.documents) == documents


def test_the_summary_answers_linear_paths_exactly_and_twigs_from_above() -> None:
    summary = summary_of(ITEMS)
    assert list(summary.documents([twig(descendant("wind"))])) == [2, 3, 5, 6]
    both = twig(child("m"), child("sea", nested(child("tide")), nested(child("wind"))))
    assert list(summary.documents([both])) == [5, 6]
    assert [item.number for item in ITEMS if TwigEngine().satisfied(item) == 0 and _is(both, item)] == [5]


def _is(query: Any, item: Item) -> bool:
    engine = TwigEngine()
    return bool(engine.mask([query]) & engine.satisfied(item))


@pytest.mark.parametrize("seed", range(6))
def test_the_summary_never_misses_a_document(seed: int) -> None:
    documents = random_messages(seed, 30, "sum")
    summary = summary_of([Item(number, document) for number, document in enumerate(documents, 1)])
    for query in random_queries(seed, 40):
        result = set(summary.documents([twig_of(query)]))
        assert result >= {number for number, document in enumerate(documents, 1) if matches(query, document)}


def test_the_summary_is_bounded_by_its_window() -> None:
    items = [Item(number, message(f"w{number}", b"<m><p%d/></m>" % number)) for number in range(1, 500)]
    summary = summary_of(items, window=40)
    assert summary.root.size() < 70
    assert set(summary.documents([twig(child("m"), child("*"))])) >= set(range(460, 500))


@pytest.fixture
def published_tree() -> CoddRun:
    """R wants everything; A, B, C, D, E (1 to 5) join in this order with the statistics of the six documents."""
    run = start_run(TwigEngine(), CoddSettings(fan_out=2, cold_start=1, reorganise=False), journal=Journal())
    queries = [
        twig(child("m"), child("sea")),
        twig(child("m"), child("air")),
        twig(child("m"), child("sea"), child("tide")),
        twig(descendant("wind")),
        twig(descendant("tide")),
    ]
    engine = run.engine
    assert isinstance(engine, TwigEngine)
    engine.mask(queries)
    for address, query in enumerate(queries, 1):
        run.add(address, query)
        run.simulator.run()
        # Each node knows the statistics of the six documents, as in the example.
        node = run.simulator.node(address)
        assert isinstance(node, CoddNode)
        for above in [run.root, *run.nodes]:
            _teach(above)
    return run


def _teach(node: CoddNode) -> None:
    node.summary = summary_of(ITEMS)
    for item in ITEMS:
        satisfied = node.engine.satisfied(item)
        node.received.add(item.number)
        if satisfied & node.own_mask:
            node.own.add(item.number)
        for entry in node.children.values():
            if satisfied & entry.mask:
                entry.forwarded.add(item.number)


def test_joining_as_published(published_tree: CoddRun) -> None:
    parents = {node.address: node.parent for node in published_tree.nodes}
    assert parents == {1: ROOT, 2: ROOT, 3: 1, 4: 1, 5: 3}
    adds = [
        (entry.item.joiner, entry.receiver)
        for entry in published_tree.simulator.journal.entries
        if entry.fate == Fate.RECEIVED and isinstance(entry.item, Add)
    ]
    assert adds == [(1, 0), (2, 0), (3, 0), (3, 1), (4, 0), (4, 1), (5, 0), (5, 1), (5, 3)]


def test_overhead_as_published(published_tree: CoddRun) -> None:
    for item in ITEMS:
        published_tree.publish(item._replace(number=item.number + 6))
        published_tree.simulator.run()
    overheads = {node.address: (node.spurious_count, node.received_count) for node in published_tree.nodes}
    assert overheads[1] == (1, 5)
    assert all(spurious == 0 for address, (spurious, _) in overheads.items() if address != 1)


def test_leaving_as_published(published_tree: CoddRun) -> None:
    published_tree.simulator.command(1, leave.leave)
    published_tree.simulator.run()
    published_tree.simulator.remove(1)
    assert {node.address: node.parent for node in published_tree.nodes} == {2: ROOT, 3: ROOT, 4: 3, 5: 3}
    assert check_tree(published_tree) == []
    for item in ITEMS:
        published_tree.publish(item._replace(number=item.number + 6))
        published_tree.simulator.run()
    heir = published_tree.simulator.node(3)
    assert isinstance(heir, CoddNode)
    assert (heir.spurious_count, heir.received_count) == (2, 5)


def grown(nodes: int, documents: int, seed: int = 0, **settings: Any) -> CoddRun:
    model = InterestModel(InterestShape(nodes + 1), seed)
    run = start_run(model, CoddSettings(**settings), seed=seed)
    items = model.items(documents)
    for address in range(1, nodes + 1):
        run.add(address, address)
        if address % 4 == 0:
            run.publish(next(items))
        run.simulator.run(until=run.simulator.now + 1)
    run.stream(items)
    return run


def test_planned_interests_are_the_same_stream() -> None:
    shape = InterestShape(60, classes=6, change_every=40)
    digests = []
    for model in (InterestModel(shape, 4), PlannedInterests(shape, 4, 500)):
        run = start_run(model, CoddSettings(fan_out=3, reorganise_after=20), seed=4, journal=Journal())
        items = model.items(500)
        for address in range(1, 61):
            run.add(address, address - 1)
            if address % 3 == 0:
                run.publish(next(items))
            run.simulator.run(until=run.simulator.now + 1)
        run.stream(items)
        digests.append(run.simulator.journal.digest())
        assert sum(move.moved for _, move in run.moves) > 5
    assert digests[0] == digests[1]
    planned = PlannedInterests(shape, 4, 100)
    assert all(planned.satisfied(item) & planned.mask([EVERYTHING]) for item in planned.items(100))
    assert {planned.similarity(1, other) for other in range(60)} == {0.0, 1.0}


def test_a_query_asked_for_and_withdrawn_at_once_is_not_announced() -> None:
    result = AggregateFilter(InterestModel(InterestShape(4)), 0)
    result.change([1], [])
    assert result.change([2], [2]) == (frozenset(), frozenset())
    assert result.announced == {1}


def test_reorganisation_halves_the_overhead() -> None:
    still = grown(120, 1500, reorganise=False)
    moving = grown(120, 1500, reorganise_after=50)
    assert mean_overhead(interior(moving)) < 0.7 * mean_overhead(interior(still))
    assert check_tree(moving) == []


def test_leaves_have_no_overhead_and_depth_is_logarithmic() -> None:
    run = grown(300, 200, fan_out=6)
    results = depths(run)
    assert len(results) == 300
    assert sum(results.values()) / 300 < 6
    assert all(node.overhead() == 0 for node in run.nodes if not node.children and node.received_count < 0.5)
    adds = run.simulator.counters.messages[Add]
    assert adds <= 300 * max(results.values())


def test_a_high_threshold_and_a_high_delta_mean_fewer_moves() -> None:
    choices: list[dict[str, Any]] = [{}, {"threshold": 0.5}, {"delta": 0.6}]
    counts = [
        sum(move.moved for _, move in grown(80, 800, reorganise_after=40, **settings).moves) for settings in choices
    ]
    assert counts[1] < counts[0]
    assert counts[2] < counts[0]


def test_a_denied_reorganisation_changes_nothing() -> None:
    run = grown(60, 600, reorganise_after=40, delta=1.0, cold_start=5)
    assert run.moves
    accepted = [move for _, move in run.moves if move.moved]
    assert all(move.cost_after == 0 for move in accepted)


# What the source leaves undefined.


@pytest.mark.parametrize(
    "make",
    [
        lambda: CoddSettings(fan_out=0),
        lambda: CoddSettings(delta=1.5),
        lambda: CoddSettings(window=0),
        lambda: CoddSettings(prune_factor=0),
        lambda: InterestShape(interests=0),
        lambda: InterestShape(classes=1),
        lambda: InterestShape(selectivity=0),
    ],
)
def test_impossible_settings_are_named(make: Any) -> None:
    with pytest.raises(ImpossibleSetting, match="must be"):
        make()


def deliveries(run: CoddRun, kind: type) -> list[tuple[int, Any]]:
    return [(e.receiver, e.item) for e in run.simulator.journal.delivered() if isinstance(e.item, kind)]


def small(nodes: int, faults: NetworkFaults | None = None, **settings: Any) -> CoddRun:
    model = InterestModel(InterestShape(nodes + 1, classes=2, selectivity=1.0, change_every=0))
    chosen = dataclasses.replace(ROBUST, **settings)
    run = start_run(model, chosen, faults or NetworkFaults(), journal=Journal())
    for address in range(1, nodes + 1):
        run.add(address, address)
        run.simulator.run(until=run.simulator.now + 30)
    return run


def test_nobody_but_the_producer() -> None:
    run = small(0)
    run.stream(Item(number, 1) for number in range(1, 20))
    assert check_tree(run) == []
    assert mean_overhead(run.nodes) == 0.0


def test_the_root_leaves() -> None:
    run = small(9, fan_out=2)
    run.stream(Item(number, (1 << 10) - 1) for number in range(1, 10))
    run.simulator.command(ROOT, leave.leave)
    run.simulator.run(until=run.simulator.now + 100)
    assert {node for node, _ in deliveries(run, StreamEnded)} == set(range(10))
    assert {ended.last for _, ended in deliveries(run, StreamEnded)} == {9}


@pytest.mark.parametrize("delay", range(60))
def test_the_root_leaves_while_others_look_for_parents(delay: int) -> None:
    """Who has no parent when the stream ends, or two, learns of it all the same, and once."""
    run = small(12, fan_out=2)
    run.stream(Item(number, (1 << 13) - 1) for number in range(1, 10))
    crashed, left = (node.address for node in interior(run)[:2])
    run.simulator.remove(crashed)
    run.simulator.command(left, leave.leave)
    run.simulator.run(until=run.simulator.now + delay)
    run.simulator.command(ROOT, leave.leave)
    run.simulator.run(until=run.simulator.now + 1_000)
    ended = [node for node, _ in deliveries(run, StreamEnded)]
    assert sorted({*ended, crashed, left}) == list(range(13))
    assert len(set(ended)) == len(ended)


def test_the_root_crashes() -> None:
    run = small(5, attempts_max=3)
    run.simulator.remove(ROOT)
    with pytest.raises(EmptyNetwork, match="producer"):
        _ = run.root
    run.simulator.run(until=run.simulator.now + 3000)
    assert {node for node, _ in deliveries(run, TreeFailure)} == set(range(1, 6))


def test_all_nodes_fail_at_once_and_others_join() -> None:
    run = small(8, fan_out=2)
    for address in range(1, 9):
        run.simulator.remove(address)
    run.simulator.run(until=run.simulator.now + 300)
    run.add(20, 1)
    run.simulator.run(until=run.simulator.now + 200)
    run.stream(Item(number, (1 << 9) - 1) for number in range(1, 6))
    assert check_tree(run) == []
    assert [item.number for node, item in deliveries(run, Received) if node == 20] == [1, 2, 3, 4, 5]


def test_a_node_whose_seed_is_dead_joins_through_another() -> None:
    run = small(3)
    run.add(9, 2, seeds=(77, 2))
    run.simulator.run(until=run.simulator.now + 300)
    assert run.simulator.node(9).active  # type: ignore[attr-defined]


def test_empty_statistics_fall_back_on_structure() -> None:
    run = start_run(TwigEngine(), CoddSettings(fan_out=2, reorganise=False))
    queries = [
        twig(child("m"), child("sea")),
        twig(child("m"), child("air")),
        twig(child("m"), child("air"), child("wind")),
        twig(child("m"), child("sea"), child("tide")),
    ]
    for address, query in enumerate(queries, 1):
        run.add(address, query)
        run.simulator.run()
    assert {node.address: node.parent for node in run.nodes} == {1: ROOT, 2: ROOT, 3: 2, 4: 1}


def test_everything_is_the_widest_interest() -> None:
    model = InterestModel(InterestShape(10))
    few = model.summarise(frozenset(range(8)), 3)
    assert few == {EVERYTHING}
    assert model.mask(few) == (1 << 10) - 1
    assert model.similarity(EVERYTHING, 3) == 1.0
