"""Beyond figures 10 and 14: cooperative trees of 100,000 nodes, a tree a task."""

from __future__ import annotations

import math
import resource
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from time import process_time
from typing import Any, NamedTuple

from twigcast.lab.experiments.codd.runs import SEED
from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale, Table
from twigcast.lab.experiments.framework.tasks import Here, Tasks
from twigcast.lab.overlays.codd.interest import InterestShape, PlannedInterests
from twigcast.lab.overlays.codd.measures import OverheadWindow, depths, interior, mean_overhead
from twigcast.lab.overlays.codd.scenario import INSTANT, CoddRun, start_run
from twigcast.lab.overlays.counters import top_share
from twigcast.lab.overlays.simulator import NetworkFaults
from twigcast.overlay.codd.engine import Item
from twigcast.overlay.codd.messages import Add
from twigcast.overlay.codd.node import CoddNode
from twigcast.overlay.codd.settings import CoddSettings

FAN_OUT = 6
AT_ONCE = NetworkFaults(1e-7, 1e-7)
"""Control messages take no time in terms of documents, however many there are."""
TREES: dict[str, tuple[bool, NetworkFaults]] = {
    "CoDD-NR": (False, AT_ONCE),
    "CoDD-R": (True, AT_ONCE),
    "CoDD-R, a hop takes 1/1000": (True, INSTANT),
}
"""Whether subtrees move, and how long a message takes, in times between two documents."""


class Tree(NamedTuple):
    """One tree: which, its nodes, the documents while they join, and those of the stream after."""

    name: str
    nodes: int
    joining: int
    documents: int


def measure_tree(tree: Tree) -> list[Measured]:
    """Measures one tree: nodes join while the first documents flow, then the stream goes on."""
    nodes, reorganise, faults = tree.nodes, *TREES[tree.name]
    started = process_time()
    model = PlannedInterests(InterestShape(nodes), SEED, tree.joining + tree.documents)
    run = start_run(model, replace(CoddSettings(), fan_out=FAN_OUT, reorganise=reorganise), faults, SEED)
    items = model.items(tree.joining + tree.documents)
    _grow(run, nodes, items, tree.joining)
    joins = run.simulator.counters.by_traffic()["control"]
    adds = run.simulator.counters.messages[Add]
    joined = depths(run)
    sample = OverheadWindow()
    sample.measure(run.nodes)
    before = run.simulator.counters.events
    run.stream(items)
    values = _measures(run, sample)
    seconds = process_time() - started
    values |= {
        "joined_depth": sum(joined.values()) / nodes,
        "join_asks": adds / nodes,
        "join_control": joins / nodes,
        "control": (run.simulator.counters.by_traffic()["control"] - joins) / tree.documents,
        "events": float(run.simulator.counters.events - before),
        "events_a_second": run.simulator.counters.events / seconds,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "seconds": seconds,
    }
    return [Measured(tree.name, float(nodes), metric, (value,)) for metric, value in values.items()]


def measure_spread(point: Point, tasks: Tasks) -> list[Measured]:
    """Measures every tree in a task of its own, the largest first, since they take longest."""
    p = point.parameters
    sizes = sorted(p["sizes"], reverse=True)
    trees = [Tree(name, nodes, p["joining"], p["documents"]) for nodes in sizes for name in TREES]
    rows = [row for rows in tasks.each(measure_tree, trees) for row in rows]
    return sorted(rows, key=lambda row: (list(TREES).index(row.series), float(row.x)))


def measure(point: Point) -> list[Measured]:
    """Measures the trees without Spark, one after the other."""
    return measure_spread(point, Here())


def _grow(run: CoddRun, nodes: int, items: Iterator[Item], documents: int) -> None:
    """All nodes join, one after the other; the documents are spread over that time."""
    every = max(1, nodes // documents)
    for address in range(1, nodes + 1):
        run.add(address, address - 1)
        run.simulator.run(until=run.simulator.now + 1)
        if address % every == 0:
            for item in islice(items, 1):
                run.publish(item)
            run.simulator.run(until=run.simulator.now + 1)


def _measures(run: CoddRun, sample: OverheadWindow) -> dict[str, float]:
    nodes = run.nodes
    results = depths(run)
    system, mean = sample.measure(nodes)
    sent = [_forwarded(node) for node in [run.root, *nodes]]
    moves = [move for _, move in run.moves]
    return {
        "depth": sum(results.values()) / len(results),
        "depth_most": float(max(results.values())),
        "log": math.log(len(nodes), FAN_OUT),
        "overhead": 100 * mean,
        "overhead_whole": 100 * mean_overhead(interior(run)),
        "system": 100 * system,
        "interior": 100 * len(interior(run)) / len(nodes),
        "received": sum(node.received_count for node in nodes) / run.root.newest,
        "top_share": 100 * top_share(sent, 0.01),
        "searches": float(len(moves)),
        "moves": float(sum(move.moved for move in moves)),
        "visited": sum(move.visited for move in moves) / max(1, len(moves)),
        "waiting": float(len(run.root.queue)),
    }


def _forwarded(node: CoddNode) -> float:
    return float(sum(child.count for child in node.children.values()))


def points(**parameters: Any) -> list[Point]:
    """Returns one point, whose tasks are trees."""
    return [Point("all", parameters)]


SWEEP: dict[Scale, list[Point]] = {
    "small": points(sizes=(250, 1000), joining=50, documents=300),
    "paper": points(sizes=(1000, 10_000, 100_000), joining=250, documents=1000),
}


def _logarithmic(results: Results) -> tuple[bool, str]:
    """Depth grows ≤ 1.5 times as much as log n, in every tree."""
    texts, held = [], True
    for tree in TREES:
        depth, log = (results.curve(tree, metric) for metric in ("depth", "log"))
        ends = max(x for x, _ in depth), min(x for x, _ in depth)
        grown = results.value(tree, ends[0], "depth") / results.value(tree, ends[1], "depth")
        limit = results.value(tree, ends[0], "log") / results.value(tree, ends[1], "log")
        held = held and grown <= 1.5 * limit and bool(log)
        texts.append(f"{tree} x{grown:.2f}")
    return held, ", ".join(texts) + f", log n x{limit:.2f}"


def _lower(results: Results) -> tuple[bool, str]:
    """Mean overhead with reorganisation < without, at every size."""
    pairs = [
        (x, results.value("CoDD-R", x, "overhead"), results.value("CoDD-NR", x, "overhead"))
        for x in sorted(results.xs("CoDD-R", "overhead"), key=float)
    ]
    return all(r < nr for _, r, nr in pairs), ", ".join(f"{x:,.0f}: {r:.1f}/{nr:.1f} %" for x, r, nr in pairs)


EXPERIMENTS = (
    Experiment(
        id="C-F14+",
        title="Beyond: trees of 100,000 nodes",
        source="ours, after CoDD, figures 10 and 14",
        ours=True,
        settings="abstract model: 20 classes, selectivity 0.2, a shuffle every 200 documents, fan-out 6, "
        "reorganisation after 200; informed joins under 250 documents, then 1,000 more; 1,000 to 100,000 nodes; a tree "
        "a task. Small: 250 and 1,000 nodes, 50 and 300 documents",
        sweep=SWEEP,
        measure=measure,
        spread=measure_spread,
        shows=Figure("nodes", "mean depth", metric="depth"),
        extra_tables=(
            Table(
                {
                    "depth": "depth, mean",
                    "depth_most": "depth, most",
                    "overhead": "overhead, mean of interior nodes (%)",
                    "system": "overhead of the system (%)",
                    "received": "data messages a document",
                    "top_share": "share of the forwarding done by 1 % of the nodes (%)",
                    "interior": "interior nodes (%)",
                    "join_asks": "nodes asked a join",
                    "join_control": "control messages a join",
                    "control": "control messages a document",
                    "searches": "searches",
                    "moves": "moves",
                    "visited": "nodes asked a search",
                    "waiting": "requests waiting at the end",
                },
                "nodes",
            ),
            Table(
                {
                    "events": "events of the stream",
                    "events_a_second": "events a second of processor time",
                    "gigabytes": "most memory of the process so far (GB)",
                    "seconds": "processor seconds",
                },
                "nodes",
            ),
        ),
        published="Not published: the source goes up to some thousand nodes.",
        claims=(
            custom("Depth grows like log n (up to half as much again)", _logarithmic),
            custom("Reorganisation lowers the mean overhead at every size", _lower),
        ),
    ),
)
