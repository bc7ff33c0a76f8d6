"""Figure 4.9: against the number of predicates."""

from twigcast.lab.experiments.dai2009.runs import CAUTION, NEAR, SETTINGS, losses, measure_sets, points, wins
from twigcast.lab.experiments.framework.claims import custom, spread
from twigcast.lab.experiments.framework.model import Experiment, Figure, Results

SETS = {
    f"NP = {nested}, W = DS = {p}": {"nested": nested, "wildcard": p, "descendant": p}
    for nested, p in ((0, 0.0), (1, 0.1), (2, 0.2), (4, 0.4))
}


def _flat(results: Results) -> tuple[bool, str]:
    """The source says "little effect" without a number: half as much again is ours."""
    spreads = {f"{n}, {s}": spread(results, f"{n}, {s}") for s in SETS for n in ("YFilter", "BFilter")}
    seen = "; ".join(f"{name}: {value:.2g} times" for name, value in spreads.items())
    return max(spreads.values()) <= 1.5, f"highest over lowest. {seen}"


EXPERIMENTS = (
    Experiment(
        id="B-F4.9",
        title="Filtering cost against the number of predicates",
        source="Dai 2009, figure 4.9",
        settings=SETTINGS + "100 queries, depth 6; four sets of nested paths, W and DS; 0 to 10 predicates",
        dtd="news",
        sweep=points({"depth": 6}, "predicates", (0, 2, 5, 10)),
        measure=measure_sets(SETS),
        shows=Figure("predicates per query", "filtering cost (ms)"),
        published="The number of predicates has little effect on both; BFilter is faster unless there are no nested "
        "paths.",
        claims=(
            custom("Little effect on both (within half)", _flat).because(
                "Without nested paths, wildcards and // most of what is left of a millisecond is predicates; the "
                "factor is one of small numbers. In the other sets both are flat."
            ),
            wins("BFilter is faster in the sets with nested paths", list(SETS)[1:]).because(NEAR),
            wins("YFilter is faster without nested paths", list(SETS)[:1], dear="BFilter", cheap="YFilter"),
            losses(),
        ),
        notes=CAUTION,
    ),
)
