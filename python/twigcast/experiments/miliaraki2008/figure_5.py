"""Figure 5: traffic, latency and size against the number of queries, four query sets."""

from twigcast.experiments.chord_runs import AGGREGATED, MEASURES, NITF, measure_growth
from twigcast.experiments.claims import custom, grows_less, linear, ratio
from twigcast.experiments.model import Experiment, Figure, Point, Results, Scale, Table

SETS = (
    ("NITF distinct", NITF, True),
    ("NITF random", NITF, False),
    ("aggregated distinct", AGGREGATED, True),
    ("aggregated random", AGGREGATED, False),
)
NAMES = tuple(name for name, _, _ in SETS)


def points(steps: tuple[int, ...], documents: int) -> list[Point]:
    """A point for every query set."""
    return [
        Point(
            name,
            {
                "series": name,
                "dtds": dtds,
                "distinct": distinct,
                "steps": steps,
                "documents": documents,
                "hosts": 1000,
            },
        )
        for name, dtds, distinct in SETS
    ]


SWEEP: dict[Scale, list[Point]] = {
    "small": points((5_000, 10_000, 15_000, 20_000), 21),
    "paper": points((200_000, 400_000, 600_000, 800_000, 1_000_000), 14),
}
SETTINGS = (
    "1,000 peers, up to 1,000,000 queries of depth 10, W = DS = 0.2, recursive, l = 0; aggregated: seven DTDs "
    "(published: ten). Averages over 14 messages (published: 1,000); small: up to 20,000 queries, 21 messages"
)


def _flat(results: Results) -> tuple[bool, str]:
    growth = {}
    for name in NAMES:
        curve = [value for _, value in results.curve(name, "latency_hops")]
        growth[name] = curve[-1] / curve[0]
    return all(g < 1.35 for g in growth.values()), ", ".join(f"{n} x{g:.2f}" for n, g in growth.items())


EXPERIMENTS = (
    Experiment(
        id="M-F5a",
        title="Traffic against the number of queries",
        source="Miliaraki 2008, figure 5a",
        settings=SETTINGS,
        sweep=SWEEP,
        measure=measure_growth,
        shows=Figure("number of queries", "messages per publication", metric="messages"),
        extra_tables=(Table({**MEASURES, "states": "states", "indexing_messages": "indexing messages a query"}),),
        published="Linear in the number of queries; NITF about twice the aggregated set.",
        claims=(
            linear("Traffic is linear in the number of queries", NAMES, metric="messages", fit=0.9),
            ratio("NITF takes about twice the messages", NAMES[0], NAMES[2], metric="messages", at_least=1.5),
        ),
    ),
    Experiment(
        id="M-F5b",
        title="Latency against the number of queries",
        source="Miliaraki 2008, figure 5b",
        settings=SETTINGS,
        sweep=SWEEP,
        measure=measure_growth,
        shows=Figure("number of queries", "latency (hops)", metric="latency_hops"),
        published="Nearly flat.",
        claims=(custom("From first to last step latency grows by less than a third", _flat),),
    ),
    Experiment(
        id="M-F5c",
        title="Size of the automaton against the number of queries",
        source="Miliaraki 2008, figure 5c",
        settings=SETTINGS,
        sweep=SWEEP,
        measure=measure_growth,
        shows=Figure("number of queries", "states", metric="states"),
        published="About 225,000 states for NITF and 125,000 for the aggregated set at the end.",
        claims=(
            ratio("NITF needs more states", NAMES[0], NAMES[2], metric="states", at_least=1.0),
            grows_less("Random queries need fewer states than distinct ones", NAMES[1], NAMES[0], metric="states"),
        ),
    ),
)
