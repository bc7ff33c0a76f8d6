"""Figure 7: storage and filtering load of the peers, with virtual nodes and load shedding."""

from collections.abc import Callable, Sequence

from twigcast.lab.experiments.framework.claims import custom, near
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale
from twigcast.lab.experiments.miliaraki2008.runs import AGGREGATED, NITF, make_documents, make_paths, published
from twigcast.lab.overlays.chord.automaton import Automaton
from twigcast.lab.overlays.chord.positions import RingPositions
from twigcast.lab.overlays.chord.tally import Network
from twigcast.lab.overlays.counters import gini, shares

RANKS = (0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


def _curve(series: str, loads: Sequence[float]) -> list[Measured]:
    ranked = shares(loads)
    rows = [
        Measured(series, 100 * rank, "share", (100 * sum(ranked[: max(1, round(rank * len(ranked)))]),))
        for rank in RANKS
    ]
    rows.append(Measured(series, 100.0, "largest_share", (100 * ranked[0],)))
    rows.append(Measured(series, 100.0, "times_mean", (ranked[0] * len(ranked),)))
    rows.append(Measured(series, 100.0, "gini", (gini(loads),)))
    return rows


def measure_storage(point: Point) -> list[Measured]:
    """Measures the transitions and states stored by the peers, ranked, without and with virtual nodes."""
    automaton = Automaton(make_paths(NITF, point.parameters["queries"], distinct=True))
    rows: list[Measured] = []
    for virtual_nodes in (1, 3, 10):
        transitions, states = Network(automaton, RingPositions(point.parameters["hosts"], virtual_nodes)).storage()
        name = "one place a peer" if virtual_nodes == 1 else f"{virtual_nodes} virtual nodes"
        rows += _curve(name, transitions)
        top = sorted(states, reverse=True)[: len(states) // 5]
        rows.append(Measured(name, 20.0, "states_top_fifth", (float(sum(top)),)))
    return rows


def measure_filtering(point: Point) -> list[Measured]:
    """Measures the filtering messages of the peers, ranked: unbalanced, with virtual nodes, with shedding, both."""
    parameters = point.parameters
    documents = make_documents(parameters["dtds"], parameters["documents"])
    automaton = Automaton(make_paths(parameters["dtds"], parameters["queries"], distinct=True))
    rows: list[Measured] = []
    for name, virtual_nodes, share in (
        ("no balancing", 1, 0.0),
        ("virtual nodes", 3, 0.0),
        ("shedding", 1, 0.1),
        ("virtual nodes and shedding", 3, 0.1),
        ("10 virtual nodes and shedding", 10, 0.1),
    ):
        ring = Network(automaton, RingPositions(parameters["hosts"], virtual_nodes))
        published(ring, documents)
        if share:
            copied = ring.shed(share=share, replicas=10, window=len(documents))
            rows.append(Measured(name, 100.0, "states_copied", (float(copied),)))
            ring.load[:] = 0
            published(ring, documents)
        rows += _curve(name, ring.load.tolist())
    return rows


def _fullest_fifth(series: str) -> Callable[[Results], float]:
    return lambda results: results.value(series, 20.0, "share")


def _before(results: Results) -> tuple[bool, str]:
    """Without balancing the top 5 % of the peers take ≥ 15 %, the last 20 % ≤ 2 % (both ours)."""
    top, rest = results.value("no balancing", 5.0, "share"), 100 - results.value("no balancing", 80.0, "share")
    return top >= 15 and rest <= 2, f"the top 5 % take {top:.0f} %, the last 20 % {rest:.1f} %"


PEERS = 1_000
MOST = 0.3
"""Percent of the load at the heaviest of 1,000 peers, as published."""


def _after(results: Results) -> tuple[bool, str]:
    """Load of the heaviest peer ≤ 3 times the mean with 3 virtual nodes and shedding."""
    largest = {s: results.value(s, 100.0, "times_mean") for s in results.series("times_mean")}
    seen = ", ".join(f"{s} {v:.1f} ({results.value(s, 100.0, 'largest_share'):.2f} %)" for s, v in largest.items())
    return largest["virtual nodes and shedding"] <= PEERS * MOST / 100, f"heaviest peer in means of all: {seen}"


def _filtering(part: str, name: str, dtds: tuple[str, ...]) -> Experiment:
    small = {"dtds": dtds, "documents": 14, "queries": 10_000, "hosts": 200}
    paper = {"dtds": dtds, "documents": 1000, "queries": 1_000_000, "hosts": 1000}
    sweep: dict[Scale, list[Point]] = {"small": [Point(name, small)], "paper": [Point(name, paper)]}
    return Experiment(
        id=f"M-F7{part}",
        title=f"Filtering load, {name}",
        source=f"Miliaraki 2008, figure 7{part}",
        settings="1,000 peers, 1,000,000 distinct queries, 1,000 messages; 3 virtual nodes; states with more than 10 % "
        "of a peer's messages copied to 10 holders. Small: 200 peers, 10,000 queries, 14 messages",
        sweep=sweep,
        measure=measure_filtering,
        shows=Figure("percent of peers, heaviest first", "share of the load (%)", metric="share"),
        published="Before: the top 50 of 1,000 peers take almost 20 %, the last 200 almost nothing. After: no peer "
        "above 0.3 %.",
        notes="A peer with a long arc of the ring owns more states and is chosen more often as a holder of copies, "
        "too: shedding takes care of hot states, only virtual nodes even out the arcs.",
        claims=(
            custom("Before, the top 5 % take 15 % or more and the last fifth almost nothing", _before).because(
                "The top 5 % of the peers take what they take in the source (almost 20 %). The last fifth has a "
                "ninth of its even share instead of next to nothing: a million different queries have more states "
                "than the source's, so that every peer owns some that are visited. Their share rises with the "
                "states of a peer: 0.1 % at 12 each (M-seeds, small), 0.7 % at about 120 (small), 2 % at 2,000; the "
                "source has 225."
            ),
            custom(
                "After, no peer takes more than 0.3 % of the load (of 1,000 peers: three times the mean)", _after
            ).because(
                "States are hot at nearly every peer, so copies go wherever hashing sends them, and most to the "
                "peers with the longest arcs of the ring, which own most states already. Three places a peer do "
                "not even out the arcs; ten do."
            ),
        ),
    )


STORAGE: dict[Scale, list[Point]] = {
    "small": [Point("storage", {"queries": 20_000, "hosts": 1000})],
    "paper": [Point("storage", {"queries": 1_000_000, "hosts": 1000})],
}

EXPERIMENTS = (
    Experiment(
        id="M-F7a",
        title="Storage load",
        source="Miliaraki 2008, figure 7a",
        settings="NITF, 1,000 peers, 1,000,000 distinct queries; load = transitions stored; 1, 3 and 10 virtual nodes. "
        "Small: 20,000 queries",
        dtd="news",
        sweep=STORAGE,
        measure=measure_storage,
        shows=Figure("percent of peers, fullest first", "share of the load (%)", metric="share"),
        published="The fullest 200 of 1,000 peers hold 53 % of the states before, 38 % with 3 virtual nodes.",
        claims=(
            near(
                "The fullest 200 of 1,000 peers hold 53 % of the states", _fullest_fifth("one place a peer"), 53
            ).at_size("queries", 1_000_000),
            near("With 3 virtual nodes they hold 38 %", _fullest_fifth("3 virtual nodes"), 38).at_size(
                "queries", 1_000_000
            ),
        ),
    ),
    _filtering("b", "NITF", NITF),
    _filtering("c", "aggregated", AGGREGATED),
)
