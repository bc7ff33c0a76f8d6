"""Figure 5: traffic, latency and size against the number of queries, four query sets."""

from twigcast.lab.experiments.framework.claims import custom, grows_less, linear, ratio
from twigcast.lab.experiments.framework.model import Experiment, Figure, Point, Results, Scale, Table
from twigcast.lab.experiments.miliaraki2008.runs import AGGREGATED, MEASURES, NITF, measure_growth

SETS = (
    ("NITF distinct", NITF, True),
    ("NITF random", NITF, False),
    ("aggregated distinct", AGGREGATED, True),
    ("aggregated random", AGGREGATED, False),
)
NAMES = tuple(name for name, _, _ in SETS)


def points(steps: tuple[int, ...], documents: int) -> list[Point]:
    """Returns a point for every query set."""
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
    "small": points((5_000, 10_000, 15_000, 20_000), 14),
    "paper": points((200_000, 400_000, 600_000, 800_000, 1_000_000), 1000),
}
SETTINGS = (
    "1,000 peers, up to 1,000,000 queries of depth 10, W = DS = 0.2, recursive, l = 0; aggregated: seven DTDs "
    "(published: ten). Averages over 1,000 messages of 36 kB for NITF and 4.3 kB for the aggregated set (published: "
    "36.5 and 4.8); small: up to 20,000 queries, 14 messages"
)


def _twice(results: Results) -> tuple[bool, str]:
    """Messages of NITF 1.5 to 3 (ours) times those of the aggregated set, at the last point."""
    last = results.xs(NAMES[0], "messages")[-1]
    times = results.value(NAMES[0], last, "messages") / results.value(NAMES[2], last, "messages")
    longer = results.value(NAMES[0], last, "kilobytes") / results.value(NAMES[2], last, "kilobytes")
    seen = f"{times:.1f} times: {longer:.1f} times the kB a message, {times / longer:.1f} times the messages a kB"
    return 1.5 <= times <= 3, f"at {last:,}: {seen}"


PUBLISHED_SIZES = {"NITF random": 225_000, "aggregated random": 125_000}


def _sizes(results: Results) -> tuple[bool | None, str]:
    """States at 1,000,000 random queries within a quarter (ours) of the published."""
    if results.xs(NAMES[1], "states")[-1] != 1_000_000:
        return None, "only at 1,000,000 queries"
    seen = {name: results.value(name, 1_000_000, "states") for name in PUBLISHED_SIZES}
    held = all(abs(states / PUBLISHED_SIZES[name] - 1) <= 0.25 for name, states in seen.items())
    return held, ", ".join(f"{name} {states:,.0f}" for name, states in seen.items())


def _flat(results: Results) -> tuple[bool, str]:
    """Latency in hops at the last point < 1.35 times (ours) that at the first, in every set."""
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
        extra_tables=(
            Table(
                {
                    **MEASURES,
                    "kilobytes": "kB a message",
                    "states": "states",
                    "indexing_messages": "indexing messages a query",
                }
            ),
        ),
        published="Linear in the number of queries; NITF about twice the aggregated set.",
        notes="Messages grow with the elements of a document, and faster, since deeper elements are reached in more "
        "ways. NITF documents of 36 kB have so many more of them than the aggregated ones of 4 kB that the factor is "
        "far above two; with documents of equal size it is a little below one. The published sizes and the published "
        "factor do not go together.",
        claims=(
            linear("Traffic is linear in the number of queries", NAMES, metric="messages", fit=0.9).because(
                "A curve of distinct queries bends where a DTD has no more frequent paths to offer: later queries "
                "are longer and rarer, and fewer messages reach them. The small DTDs of the aggregated set run "
                "out of different queries altogether."
            ),
            custom("NITF takes about twice the messages (1.5 to 3 times)", _twice).because(
                "It is the documents. With 20,000 queries and 14 documents, where the factor is 15.0, the aggregated "
                "queries get 4.4 times as many messages from the documents of NITF as from their own; the queries of "
                "NITF get 3.4 times as many as the aggregated ones from the documents of NITF, and as many (0.98) from "
                "the aggregated documents. Documents of NITF have four times the elements, and of the aggregated "
                "queries a seventh is about them. The published factor would need documents of like size, the "
                "published sizes (36.5 and 4.8 kB) are not."
            ),
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
        notes="1,000,000 different paths end in 1,000,000 different states of a machine that shares prefixes, so the "
        "published sizes cannot be those of distinct queries; random ones come near them.",
        claims=(
            ratio("NITF needs more states", NAMES[0], NAMES[2], metric="states", at_least=1.0),
            custom("At 1,000,000 random queries about 225,000 and 125,000 states (within a quarter)", _sizes),
            grows_less("Random queries need fewer states than distinct ones", NAMES[1], NAMES[0], metric="states"),
        ),
    ),
)
