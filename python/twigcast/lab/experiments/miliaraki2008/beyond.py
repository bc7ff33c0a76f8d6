"""Beyond figures 5 and 6: ten million different queries on 100,000 peers, spread over tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from random import Random
from typing import Any

import numpy as np

from twigcast.lab.experiments.framework.claims import custom, sublinear
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale, Table
from twigcast.lab.experiments.framework.tasks import Here, Tasks
from twigcast.lab.experiments.miliaraki2008.runs import MEASURES, NITF, PUBLISHERS, SEED, averaged, make_documents
from twigcast.lab.overlays.chord.automaton import Codes, EncodedPaths, labels_of
from twigcast.lab.overlays.chord.parts import Cut, PartTally, part_paths, total, trunk_rows
from twigcast.lab.overlays.chord.positions import RingPositions
from twigcast.lab.overlays.counters import gini, shares
from twigcast.lab.workload import bundled_dtd
from twigcast.lab.workload.walks import Walker
from twigcast.schema import ElementGraph

DEPTH = 10
SERIES = "NITF distinct"

_PeerPaths = tuple[int, Codes]
"""Paths that one maker made: its number, and their rows."""


def _encoded(paths: Sequence[Sequence[str]] = ()) -> EncodedPaths:
    """Paths with codes that are the same in every task."""
    return EncodedPaths(paths, ElementGraph(bundled_dtd(NITF[0])).names)


def make_part(draws: int, cut: int, groups: int, maker: int) -> Iterator[tuple[int, _PeerPaths]]:
    """Draws random path queries, drops those drawn before, and parts them by their first labels."""
    generator = Random(f"queries {SEED} {maker}")  # noqa: S311 - reproducible, not secret
    walker = Walker(ElementGraph(bundled_dtd(NITF[0])), generator, wildcard=0.2, descendant=0.2)
    existing = {walker.path(DEPTH) for _ in range(draws)}
    rows = _encoded([labels_of(path) for path in existing]).rows
    rows = np.pad(rows, ((0, 0), (0, 2 * DEPTH - rows.shape[1])))
    for group, positions in part_paths(rows, cut, groups):
        yield group, (maker, rows[positions])


def distinct_rows(created: Sequence[_PeerPaths]) -> tuple[Codes, Codes]:
    """Returns the different rows of several makers, and the least maker of each. Rows are as wide as they must be."""
    ordered = sorted(created, key=_maker)
    makers = np.concatenate([np.full(len(rows), maker, np.uint16) for maker, rows in ordered])
    rows = np.concatenate([rows for _, rows in ordered])
    # The first of equal ones is that of the least maker.
    whole = np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))
    _, firsts = np.unique(rows.view(whole).ravel(), return_index=True)
    return rows[firsts], makers[firsts]


def _maker(created: _PeerPaths) -> int:
    return created[0]


@lru_cache(maxsize=1)
def _cut(cut: int, hosts: int, documents: int) -> Cut:
    """The ring and the messages; tasks of one process share them."""
    publishers = [number % PUBLISHERS * 7919 % hosts for number in range(documents)]
    return Cut(cut, RingPositions(hosts), make_documents(NITF, documents), publishers)


Setting = tuple[int, int, int]
"""Labels above the cut, hosts, messages."""


def tally_part(
    setting: Setting, steps: Sequence[int], group: int, created: Sequence[_PeerPaths]
) -> list[tuple[PartTally, Codes]]:
    """Tallies a part for every step (the paths of so many makers). Returns also the beginnings of its paths."""
    rows, makers = distinct_rows(created)
    results = []
    for step in steps:
        chosen = rows[makers < step]
        tally = _cut(*setting).part(_encoded().with_rows(chosen))
        results.append((tally, trunk_rows(chosen, setting[0])))
    return results


def tally_trunk(setting: Setting, beginnings: Sequence[Codes]) -> PartTally:
    """Tallies the trunk."""
    return _cut(*setting).trunk(_encoded().with_rows(np.concatenate(beginnings)))


def measure_spread(point: Point, tasks: Tasks) -> list[Measured]:
    """Draws queries in tasks, regroups them by key range, tallies each range in a task, and adds up."""
    p = point.parameters
    setting: Setting = (p["cut"], p["hosts"], p["documents"])
    steps = p["steps"]
    parts = tasks.regroup(
        partial(make_part, p["draws"], p["cut"], p["groups"]),
        list(range(p["makers"])),
        p["groups"],
        partial(tally_part, setting, steps),
    )
    beginnings = [[part[number][1] for part in parts] for number in range(len(steps))]
    rows: list[Measured] = []
    for number, trunk in enumerate(tasks.each(partial(tally_trunk, setting), beginnings)):
        rows += _rows(total([trunk, *(part[number][0] for part in parts)]), p["hosts"])
    return rows


def _rows(whole: PartTally, hosts: int) -> list[Measured]:
    x = float(whole.queries)
    load, stored = shares(whole.load.tolist()), whole.stored.astype(float)
    values = {
        "states": float(whole.states),
        "indexing_messages": whole.walked / whole.queries,
        "states_mean": float(stored.mean()),
        "states_most": float(stored.max()),
        "times_mean": load[0] * hosts,
        "top_twentieth": 100 * sum(load[: hosts // 20]),
        "idle": 100 * float(np.mean(whole.load == 0)),
        "gini": gini(whole.load.tolist()),
        "hops_per_message": sum(t.hops for t in whole.messages) / sum(t.messages for t in whole.messages),
    }
    return [
        *averaged(SERIES, x, whole.messages),
        *(Measured(SERIES, x, metric, (value,)) for metric, value in values.items()),
    ]


def measure(point: Point) -> list[Measured]:
    """Measures without Spark, a part after the other."""
    return measure_spread(point, Here())


def points(**parameters: Any) -> list[Point]:
    """Returns one point, whose tasks are parts of it."""
    return [Point("all", parameters)]


SWEEP: dict[Scale, list[Point]] = {
    "small": points(makers=4, draws=40_000, steps=(1, 2, 4), groups=3, cut=3, hosts=1000, documents=7),
    "paper": points(makers=16, draws=21_500_000, steps=(1, 4, 16), groups=16, cut=4, hosts=100_000, documents=1000),
}


def _ends(results: Results, metric: str) -> tuple[float, float]:
    curve = results.curve(SERIES, metric)
    return curve[0][1], curve[-1][1]


def _deep(results: Results) -> tuple[bool, str]:
    """Logical steps at the last point ≤ 1.1 times those at the first."""
    first, last = _ends(results, "latency_steps")
    return last <= 1.1 * first, f"from {first:.2f} to {last:.2f} logical steps"


EXPERIMENTS = (
    Experiment(
        id="M-F5+",
        title="Beyond: ten million queries on 100,000 peers",
        source="ours, after Miliaraki 2008, figures 5 and 6",
        ours=True,
        settings="NITF, 100,000 peers, 1,000 messages of 36 kB; random paths of depth 10, W = DS = 0.2, all different, "
        "drawn 21.5, 86 and 344 million times. Spread over tasks: drawn in 16 parts, regrouped by the beginnings of "
        "the queries into 16 ranges of keys, each tallied by itself. Small: 1,000 peers, 160,000 draws, 7 messages",
        sweep=SWEEP,
        measure=measure,
        spread=measure_spread,
        shows=Figure("number of different queries", "messages per publication", metric="messages"),
        extra_tables=(
            Table(
                {
                    **MEASURES,
                    "hops_per_message": "hops a message",
                    "states": "states",
                    "indexing_messages": "indexing messages a query",
                    "states_mean": "states a peer, mean",
                    "states_most": "states a peer, most",
                    "times_mean": "heaviest peer, in means",
                    "top_twentieth": "load of the heaviest 5 % (%)",
                    "idle": "peers without any load (%)",
                    "gini": "Gini coefficient of the load",
                },
                "queries",
            ),
        ),
        published="Not published.",
        claims=(
            custom("The depth of a publication, in logical steps, stays (within a tenth)", _deep),
            sublinear("Messages grow by less than queries do", SERIES, metric="messages"),
        ),
    ),
)
