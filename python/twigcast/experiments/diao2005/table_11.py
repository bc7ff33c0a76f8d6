"""Table 11: the operators of PathSharing-FWR at three levels of optimisation, Book."""

from twigcast.experiments.claims import custom
from twigcast.experiments.model import Check, Experiment, Measured, Point, Results, Table
from twigcast.experiments.rewriting import (
    BOOK,
    BOOK_SETTINGS,
    LEVELS,
    OPERATOR_COUNTS,
    build,
    graph_of,
    path_sharing,
    transform_query_of,
)
from twigcast.experiments.workloads import sweep
from twigcast.transform import Optimization, Pushed

FWR = "PathSharing-FWR"


def measure(point: Point) -> list[Measured]:
    """Plan the queries and count the operators; nothing is run."""
    level = Optimization(point.parameters["level"])
    plans = path_sharing(Pushed.FOR_WHERE_RETURN, level, graph_of(point.parameters))
    queries, _ = build({**point.parameters, "documents": 0})
    for number, query in enumerate(queries):
        plans.add(str(number), transform_query_of(query))
    counts = plans.operator_counts()
    return [Measured(FWR, point.x, kind, (float(count),)) for kind, count in counts.items()]


def _share(kind: str, level: str, low: float, high: float) -> Check:
    def check(results: Results) -> tuple[bool, str]:
        count, all_of_them = results.value(FWR, level, kind), results.value(FWR, "no opt", kind)
        share = count / all_of_them
        return low <= share <= high, f"{count:,.0f} of {all_of_them:,.0f} {kind}, {100 * share:.0f} %"

    return check


EXPERIMENTS = (
    Experiment(
        id="D-T11",
        title="Operators of the plans, Book",
        source="Diao 2005, table 11",
        settings=BOOK_SETTINGS + "10,000 queries, one predicate path, two return paths, DS = 0.2",
        sweep=sweep({**BOOK, "queries": 10_000}, "level", small=LEVELS, paper=LEVELS),
        measure=measure,
        shows=Table(OPERATOR_COUNTS, "optimisation"),
        published="Semijoins (hash/merge) 10,000/0, 5,963/4,037, 3,968/6,032; outer joins the same; "
        "DupElims 30,000, 2,833, 1,500.",
        claims=(
            custom("Part of the hash operators must stay (40 %)", _share("semijoins, hash", "Opt(q+dtd)", 0.1, 0.7)),
            custom("Some DupElims stay (5 %)", _share("DupElims", "Opt(q+dtd)", 0.005, 0.2)),
            custom(
                "With Opt(q) more than half of the semijoins hash (60 %)", _share("semijoins, hash", "Opt(q)", 0.4, 0.8)
            ),
        ),
    ),
)
