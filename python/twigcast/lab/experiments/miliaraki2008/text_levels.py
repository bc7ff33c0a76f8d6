"""Announced by the source and never shown: the parameter l, and more wildcards and descendant steps."""

from itertools import pairwise

from twigcast.lab.experiments.framework.claims import custom, rises
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale, Table
from twigcast.lab.experiments.miliaraki2008.runs import (
    MEASURES,
    NITF,
    averaged,
    make_documents,
    make_paths,
    make_queries,
    published,
)
from twigcast.lab.overlays.chord.automaton import Automaton
from twigcast.lab.overlays.chord.build import build_ring
from twigcast.lab.overlays.chord.positions import RingPositions
from twigcast.lab.overlays.chord.tally import Network
from twigcast.lab.overlays.simulator import Simulator
from twigcast.overlay.chord import indexing, publication
from twigcast.overlay.chord.messages import RecExpand, Visited
from twigcast.overlay.chord.settings import ChordSettings
from twigcast.query import Path, child, descendant


def path_of(text: str) -> Path:
    """Returns a plain path in text as a query."""
    steps = []
    below = child
    for step in text[1:].split("/"):
        if not step:
            below = descendant
            continue
        steps.append(below(step))
        below = child
    return Path.absolute(*steps)


def measure_levels(point: Point) -> list[Measured]:
    """Measures, message by message in the simulator, what l costs in copies and saves in messages and bytes."""
    parameters = point.parameters
    visits: dict[str, list[Visited]] = {}

    def note(time: float, node: int, item: object) -> None:
        if isinstance(item, Visited):
            visits.setdefault(item.name, []).append(item)

    settings = ChordSettings(fragment_levels=int(point.x), observe=True, ship_subtrees=True)
    simulator = Simulator(on_delivery=note)
    peers = build_ring(settings, parameters["hosts"])
    for peer in peers:
        simulator.add(peer)
    for number, query in enumerate(make_queries(NITF, parameters["queries"], distinct=True)):
        simulator.command(number % len(peers), indexing.subscribe, str(number), path_of(query))
        simulator.run()
    states = [state for peer in peers for state in peer.store.states.values()]
    copies = sum(1 + len(state.fragment or ()) for state in states)
    for number, document in enumerate(make_documents(NITF, parameters["documents"])):
        simulator.command(number % len(peers), publication.publish, document)
        simulator.run()
    count = len(visits)
    rows = {
        "messages": sum(map(len, visits.values())) / count,
        "latency_steps": sum(max(v.steps for v in some) for some in visits.values()) / count,
        "latency_hops": sum(max(v.hops for v in some) for some in visits.values()) / count,
        "copies_per_state": copies / len(states),
        "kilobytes": simulator.counters.bytes[RecExpand] / count / 1000,
    }
    return [Measured("recursive", point.x, metric, (value,)) for metric, value in rows.items()]


def measure_mix(point: Point) -> list[Measured]:
    """Measures with more wildcards, or more descendant steps."""
    parameters = point.parameters
    documents = make_documents(NITF, parameters["documents"])
    rows: list[Measured] = []
    for series in ("wildcard", "descendant"):
        mix = {"wildcard": 0.2, "descendant": 0.2, series: float(point.x)}
        paths = make_paths(NITF, parameters["queries"], distinct=True, **mix)
        network = Network(Automaton(paths), RingPositions(1000))
        rows += averaged(series, point.x, published(network, documents))
        rows.append(Measured(series, point.x, "states", (float(len(network.automaton)),)))
    return rows


LEVELS: dict[Scale, list[Point]] = {
    "small": [Point(level, {"queries": 400, "hosts": 50, "documents": 5}) for level in range(4)],
    "paper": [Point(level, {"queries": 3000, "hosts": 200, "documents": 10}) for level in range(5)],
}
MIX: dict[Scale, list[Point]] = {
    "small": [Point(share, {"queries": 2000, "documents": 7}) for share in (0.0, 0.2, 0.4)],
    "paper": [Point(share, {"queries": 100_000, "documents": 1000}) for share in (0.0, 0.2, 0.4, 0.6)],
}


def _saves(results: Results) -> tuple[bool, str]:
    """Messages never rise with l."""
    curve = results.curve("recursive", "messages")
    return all(b <= a for (_, a), (_, b) in pairwise(curve)), ", ".join(f"l = {x}: {value:,.0f}" for x, value in curve)


EXPERIMENTS = (
    Experiment(
        id="M-l",
        title="The parameter l",
        source="announced in Miliaraki 2008, not shown",
        ours=True,
        settings="NITF, simulated message by message: 200 peers, 3,000 queries, 10 messages; small: 50, 400, 5",
        dtd="news",
        sweep=LEVELS,
        measure=measure_levels,
        shows=Figure("l", "messages per publication", metric="messages"),
        extra_tables=(
            Table(
                {
                    "messages": "messages",
                    "latency_steps": "latency, logical steps",
                    "latency_hops": "latency, routed hops",
                    "copies_per_state": "copies of a state",
                    "kilobytes": "kB sent",
                },
                "l",
            ),
        ),
        published="Announced only.",
        claims=(
            custom("Larger l takes fewer messages", _saves).because(
                "This expectation is ours, not published. From l = 1 to 2 messages rise in this workload: a "
                "peer that follows its fragment further forwards every branch at its end, and there are more "
                "of them."
            ),
            rises("Larger l takes more storage", "recursive", metric="copies_per_state"),
        ),
    ),
    Experiment(
        id="M-mix",
        title="More wildcards and descendant steps",
        source="announced in Miliaraki 2008, not shown",
        ours=True,
        settings="NITF, 1,000 peers, 100,000 distinct queries, 1,000 messages; small: 2,000 queries, 7 messages",
        dtd="news",
        sweep=MIX,
        measure=measure_mix,
        shows=Figure("probability", "messages per publication", metric="messages"),
        extra_tables=(Table({**MEASURES, "states": "states"}, "probability"),),
        published="Announced only.",
        claims=(rises("More descendant steps take more messages", "descendant", metric="messages"),),
    ),
)
