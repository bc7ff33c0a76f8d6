"""Figure 4.5: against the number of nested paths, for two depths of queries."""

from twigcast.lab.experiments.dai2009.runs import CAUTION, SETTINGS, losses, measure, points
from twigcast.lab.experiments.framework.claims import custom, rises
from twigcast.lab.experiments.framework.model import Experiment, Figure, Results

BASE = {"wildcard": 0.0, "descendant": 0.0, "predicates": 2}


def _plateau(results: Results) -> tuple[bool, str]:
    """The source draws flat curves and gives no number: a quarter, the spread of repetitions here, is ours."""
    curves = {name: [results.value(name, x) for x in (3, 4, 5)] for name in ("YFilter", "BFilter")}
    seen = "; ".join(f"{name} {', '.join(f'{value:.3g}' for value in values)}" for name, values in curves.items())
    return all(max(values) <= 1.25 * min(values) for values in curves.values()), f"ms at 3, 4, 5: {seen}"


EXPERIMENTS = (
    Experiment(
        id="B-F4.5a",
        title="Nested paths, queries of depth 6",
        source="Dai 2009, figure 4.5 (a)",
        settings=SETTINGS + "100 queries, W = DS = 0, 2 predicates, depth 6; 0 to 5 nested paths",
        dtd="news",
        sweep=points({**BASE, "depth": 6}, "nested", range(6)),
        measure=measure,
        shows=Figure("nested paths per query", "filtering cost (ms)"),
        published="YFilter's cost rises with the number of nested paths.",
        claims=(rises("YFilter's cost rises with nested paths", "YFilter"), losses()),
        notes=CAUTION,
    ),
    Experiment(
        id="B-F4.5b",
        title="Nested paths, queries of depth 3",
        source="Dai 2009, figure 4.5 (b)",
        settings=SETTINGS + "60 queries (published: 100; of depth 3 our DTD has no more different ones), W = DS = 0, "
        "2 predicates, depth 3; 0 to 5 nested paths",
        dtd="news",
        sweep=points({**BASE, "depth": 3, "queries": 60}, "nested", range(6)),
        measure=measure,
        shows=Figure("nested paths per query", "filtering cost (ms)"),
        published="Both are flat after three nested paths: the generator puts at most one on a level.",
        claims=(
            custom("Both are flat from three nested paths on (within a quarter)", _plateau),
            losses(),
        ),
        notes=CAUTION,
    ),
)
