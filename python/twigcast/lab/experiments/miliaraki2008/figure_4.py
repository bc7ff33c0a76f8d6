"""Figure 4: the size of the automaton by DTD."""

from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale
from twigcast.lab.experiments.miliaraki2008.runs import make_paths
from twigcast.lab.overlays.chord.automaton import Automaton
from twigcast.lab.workload import DTD_NAMES


def measure(point: Point) -> list[Measured]:
    """States after half of the queries, and after all."""
    half, whole = point.parameters["steps"]
    paths = make_paths((str(point.x),), whole, distinct=False)
    rows = []
    for series, number in (("half", half), ("all", whole)):
        rows.append(Measured(series, point.x, "states", (float(len(Automaton(paths, number))),)))
        rows.append(Measured(series, point.x, "queries", (float(min(number, len(paths))),)))
    return rows


def _diminishing(results: Results) -> tuple[bool, str]:
    """States for all queries < 1.8 times (ours) those for half of them, for every DTD."""
    growth = {x: results.value("all", x, "states") / results.value("half", x, "states") for x in results.xs("all")}
    return all(g < 1.8 for g in growth.values()), ", ".join(f"{x} +{100 * (g - 1):.0f} %" for x, g in growth.items())


def _auction(results: Results) -> tuple[bool | None, str]:
    """States of the auction DTD at 1,000,000 queries within a quarter (ours) of 592,199."""
    if results.value("all", "auction", "queries") != 1_000_000:
        return None, "only at 1,000,000 queries"
    states = results.value("all", "auction", "states")
    return 0.75 <= states / PUBLISHED_AUCTION <= 1.25, f"{states:,.0f} states"


PUBLISHED_AUCTION = 592_199

SWEEP: dict[Scale, list[Point]] = {
    "small": [Point(name, {"steps": (10_000, 20_000)}) for name in DTD_NAMES],
    "paper": [Point(name, {"steps": (500_000, 1_000_000)}) for name in DTD_NAMES],
}

EXPERIMENTS = (
    Experiment(
        id="M-F4",
        title="States of the automaton by DTD",
        source="Miliaraki 2008, figure 4",
        settings="500,000 and 1,000,000 random queries of depth 10 per DTD; small: 10,000 and 20,000",
        sweep=SWEEP,
        measure=measure,
        shows=Figure("DTD", "states", metric="states", kind="bars"),
        published="auction 592,199 states at 1,000,000 queries; small growth from 500,000 on for the smaller DTDs.",
        claims=(
            custom("Twice the queries need clearly less than twice the states (less than 80 % more)", _diminishing),
            custom(
                "The auction DTD needs about 592,199 states at 1,000,000 queries (within a quarter)", _auction
            ).because(
                "Random walks over our auction DTD, which has the counts of XMark's, not its content models, meet "
                "the same paths more often. NITF and the aggregated set come near the published sizes (figure "
                "5c)."
            ),
        ),
        notes="Random queries, since the published sizes cannot be those of 1,000,000 different paths: these end in as "
        "many different states. See figure 5c.",
    ),
)
