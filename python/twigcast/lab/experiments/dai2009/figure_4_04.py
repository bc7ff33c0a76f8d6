"""Figure 4.4: queries with two nested paths, against their number."""

from twigcast.lab.experiments.dai2009.runs import CAUTION, PER_QUERY, SETTINGS, losses, measure, points
from twigcast.lab.experiments.framework.claims import custom, everywhere
from twigcast.lab.experiments.framework.model import Experiment, Figure, Results


def _crossing(results: Results) -> tuple[bool, str]:
    behind = [x for x in results.xs("BFilter") if results.value("BFilter", x) > results.value("YFilter", x)]
    faster = [x for x in results.xs("BFilter") if x not in behind]
    return bool(faster) and bool(behind), f"BFilter is faster at {faster or 'none'}, slower at {behind or 'none'}"


EXPERIMENTS = (
    Experiment(
        id="B-F4.4",
        title="Complex queries against their number",
        source="Dai 2009, figure 4.4",
        settings=SETTINGS + "W = 0.2, DS = 0, 6 predicates, 2 nested paths, depth 6; 500 to 2,000 queries",
        dtd="news",
        sweep=points(
            {"wildcard": 0.2, "descendant": 0.0, "predicates": 6, "nested": 2, "depth": 6},
            "queries",
            (500, 1_000, 1_500, 2_000),
            small=(100, 250, 500),
        ),
        measure=measure,
        shows=Figure("number of queries", "filtering cost (ms)"),
        published="BFilter is faster up to 1,000 queries, slower above: it wraps YFilter, and pays for that per query.",
        claims=(
            custom("The curves cross near 1,000 queries", _crossing).because(PER_QUERY),
            everywhere(
                "A BFilter that wraps nothing has no crossing: it is faster throughout", "BFilter", "YFilter"
            ).because(PER_QUERY),
            losses(),
        ),
        notes=CAUTION,
    ),
)
