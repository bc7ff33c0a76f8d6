"""Figure 6.12: PlanSharing against the number of unique plans, Book."""

from collections.abc import Callable
from functools import partial

from twigcast.lab.experiments.diao2005.rewriting import (
    BOOK,
    BOOK_SETTINGS,
    Plans,
    build,
    contenders,
    graph_of,
    measure_plans,
)
from twigcast.lab.experiments.framework.claims import ratio, sublinear
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point
from twigcast.lab.experiments.framework.workloads import sweep
from twigcast.lab.transform import Optimization, PlanSharing, Pushed

SHARED = "PlanSharing"
FWR = "PathSharing-FWR"


def measure(point: Point) -> list[Measured]:
    """Measures with and without sharing of the post-processing."""
    graph = graph_of(point.parameters)
    chosen: dict[str, Callable[[], Plans]] = {
        **contenders(Optimization.QUERY_AND_DTD, graph, (Pushed.FOR_WHERE_RETURN,)),
        SHARED: partial(PlanSharing, graph),
    }
    return measure_plans(point.x, chosen, *build(point.parameters))


EXPERIMENTS = (
    Experiment(
        id="D-F6.12",
        title="Shared post-processing, Book",
        source="Diao 2005, figure 6.12",
        settings=BOOK_SETTINGS + "one predicate path, two return paths, DS = 0.2; 10,000 to 100,000 unique plans",
        sweep=sweep(BOOK, "queries", small=(500, 1_000, 2_000, 4_000), paper=(10_000, 20_000, 50_000, 100_000)),
        measure=measure,
        shows=Figure("number of queries"),
        published="PlanSharing takes 472 ms at 100,000 unique plans, an order of magnitude less than unshared plans.",
        claims=(
            ratio("Unshared plans take ten times as long at the right end", FWR, SHARED, at_least=10)
            .because("The factor grows with the number of queries; the published one is that of 100,000 unique plans.")
            .at_position(100_000),
            sublinear("PlanSharing grows less than the number of queries", SHARED),
        ),
    ),
)
