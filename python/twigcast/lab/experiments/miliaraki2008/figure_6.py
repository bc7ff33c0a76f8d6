"""Figure 6: latency against the number of peers; and beyond it."""

import math

from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale, Table
from twigcast.lab.experiments.miliaraki2008.runs import (
    AGGREGATED,
    MEASURES,
    NITF,
    averaged,
    make_documents,
    make_paths,
    published,
)
from twigcast.lab.overlays.chord.automaton import Automaton
from twigcast.lab.overlays.chord.positions import RingPositions
from twigcast.lab.overlays.chord.tally import Network

SETS = (("NITF distinct", NITF), ("aggregated distinct", AGGREGATED))


def measure(point: Point) -> list[Measured]:
    """Measures one automaton on rings of growing size."""
    parameters = point.parameters
    documents = make_documents(parameters["dtds"], parameters["documents"])
    automaton = Automaton(make_paths(parameters["dtds"], parameters["queries"], distinct=True))
    rows: list[Measured] = []
    for hosts in parameters["peers"]:
        tallies = published(Network(automaton, RingPositions(hosts)), documents)
        rows += averaged(str(point.x), hosts, tallies)
        per_message = sum(t.hops for t in tallies) / sum(t.messages for t in tallies)
        rows.append(Measured(str(point.x), hosts, "hops_per_message", (per_message,)))
        rows.append(Measured(str(point.x), hosts, "half_log", (0.5 * math.log2(hosts),)))
    return rows


def points(peers: tuple[int, ...], queries: int, documents: int) -> list[Point]:
    """Returns a point for every query set."""
    common = {"peers": peers, "queries": queries, "documents": documents}
    return [Point(name, {**common, "dtds": dtds}) for name, dtds in SETS]


SWEEP: dict[Scale, list[Point]] = {
    "small": points((250, 500, 1000), 10_000, 14),
    "paper": points((1000, 2000, 3000, 4000, 5000), 1_000_000, 1000),
}
BEYOND: dict[Scale, list[Point]] = {
    "small": points((1000, 10_000), 5_000, 7),
    "paper": points((1000, 10_000, 100_000), 1_000_000, 1000),
}


def _flat_steps(results: Results) -> tuple[bool, str]:
    """Latency in logical steps is the same for every number of peers."""
    spans = {s: [v for _, v in results.curve(s, "latency_steps")] for s in results.series("latency_steps")}
    return all(max(v) == min(v) for v in spans.values()), ", ".join(f"{s} {v[0]:.2f}" for s, v in spans.items())


def _half_log(results: Results) -> tuple[bool, str]:
    """Routed hops a message ≤ half of log2(peers), at every point."""
    pairs = [
        (x, results.value(s, x, "hops_per_message"), results.value(s, x, "half_log"))
        for s in results.series("hops_per_message")
        for x in results.xs(s, "hops_per_message")
    ]
    return all(hops <= expected for _, hops, expected in pairs), ", ".join(
        f"{x:,} peers: {hops:.2f} against {expected:.2f}" for x, hops, expected in pairs
    )


TABLE = Table({**MEASURES, "hops_per_message": "hops a message", "half_log": "half of log2(peers)"}, "peers")
CLAIMS = (
    custom("Latency in logical steps does not depend on the number of peers", _flat_steps),
    custom("A message takes at most half of log2(peers) hops on average (a self-loop takes none)", _half_log),
)

EXPERIMENTS = (
    Experiment(
        id="M-F6",
        title="Latency against the number of peers",
        source="Miliaraki 2008, figure 6",
        settings="1,000 to 5,000 peers, 1,000,000 distinct queries, 1,000 messages; small: 250 to 1,000, 10,000 "
        "queries, 14 messages",
        sweep=SWEEP,
        measure=measure,
        shows=Figure("number of peers", "latency (hops)", metric="latency_hops"),
        extra_tables=(TABLE,),
        published="Flat.",
        claims=CLAIMS,
        notes="In routed hops latency grows by half a hop for every doubling of the network and every step, which is "
        "hard to see between 1,000 and 5,000 peers; with cached addresses a step is one hop.",
    ),
    Experiment(
        id="M-F6+",
        title="Beyond: latency up to 100,000 peers",
        source="ours, after Miliaraki 2008, figure 6",
        ours=True,
        settings="1,000 to 100,000 peers, 1,000,000 distinct queries, 1,000 messages; small: 1,000 and 10,000 peers, 7",
        sweep=BEYOND,
        measure=measure,
        shows=Figure("number of peers", "latency (hops)", metric="latency_hops"),
        extra_tables=(TABLE,),
        published="Not published.",
        claims=CLAIMS,
    ),
)
