"""Table 9: the operators of PathSharing-FWR at three levels of optimisation, Bib."""

from twigcast.experiments.claims import custom
from twigcast.experiments.model import Check, Experiment, Measured, Point, Results, Table
from twigcast.experiments.rewriting import (
    BIB,
    BIB_SETTINGS,
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
        id="D-T9",
        title="Operators of the plans, Bib",
        source="Diao 2005, table 9",
        settings=BIB_SETTINGS + "5,000 queries, one predicate path, two return paths, DS = 0.2",
        sweep=sweep({**BIB, "queries": 5_000}, "level", small=LEVELS, paper=LEVELS),
        measure=measure,
        shows=Table(OPERATOR_COUNTS, "optimisation"),
        published="Semijoins (hash/merge) 5000/0, 1966/3034, 0/5000; outer joins the same; DupElims 15000, 429, 0.",
        claims=(
            custom("With the DTD no hash operator is left", _share("semijoins, hash", "Opt(q+dtd)", 0, 0)),
            custom("With the DTD no DupElim is left", _share("DupElims", "Opt(q+dtd)", 0, 0)),
            custom("With Opt(q) few DupElims are left (3 %)", _share("DupElims", "Opt(q)", 0, 0.1)),
            custom("With Opt(q) part of the semijoins hash (39 %)", _share("semijoins, hash", "Opt(q)", 0.15, 0.6)),
        ),
    ),
)
