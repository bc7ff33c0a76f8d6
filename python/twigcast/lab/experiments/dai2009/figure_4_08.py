"""Figure 4.8: against the probability of ``*``."""

from twigcast.lab.experiments.dai2009.runs import CAUTION, NEAR, SETTINGS, both_rise, losses, measure_sets, points, wins
from twigcast.lab.experiments.framework.claims import not_exponential
from twigcast.lab.experiments.framework.model import Experiment, Figure

SETS = {
    f"NP = {nested}, DS = {descendant}, P = {predicates}": {
        "nested": nested,
        "descendant": descendant,
        "predicates": predicates,
    }
    for nested, descendant, predicates in ((0, 0.0, 0), (1, 0.1, 2), (2, 0.2, 5), (4, 0.4, 10))
}

EXPERIMENTS = (
    Experiment(
        id="B-F4.8",
        title="Filtering cost against the probability of *",
        source="Dai 2009, figure 4.8",
        settings=SETTINGS + "100 queries, depth 6; four sets of nested paths, DS and predicates; W = 0 to 0.4",
        dtd="news",
        sweep=points({"depth": 6}, "wildcard", (0.0, 0.1, 0.2, 0.3, 0.4)),
        measure=measure_sets(SETS),
        shows=Figure("probability of * at a step", "filtering cost (ms)"),
        published="Both rise, not exponentially; BFilter is faster unless there are no nested paths.",
        claims=(
            both_rise("Both rise", SETS),
            not_exponential(
                "They do not rise exponentially", [f"{name}, {s}" for name in ("YFilter", "BFilter") for s in SETS]
            ),
            wins("BFilter is faster in the sets with nested paths", list(SETS)[1:]).because(NEAR),
            wins("YFilter is faster without nested paths", list(SETS)[:1], dear="BFilter", cheap="YFilter"),
            losses(),
        ),
        notes=CAUTION,
    ),
)
