"""Table 12: time per operator without sharing, Book."""

from twigcast.lab.experiments.diao2005.rewriting import BOOK, BOOK_SETTINGS, build, contenders, graph_of, measure_plans
from twigcast.lab.experiments.framework.claims import custom, linear
from twigcast.lab.experiments.framework.model import MQPT, Experiment, Measured, Point, Results, Table
from twigcast.lab.experiments.framework.workloads import sweep
from twigcast.lab.transform import Optimization, Pushed

SERIES = "PathSharing-FWR"
COLUMNS = {
    "ms: Selection": "Selection",
    "ms: DupElim": "DupElim",
    "ms: Semijoin": "Semijoin",
    "ms: OuterJoin-Select": "OuterJoin-Select",
    "ms: Executor": "executor",
    MQPT: "total",
}


def measure(point: Point) -> list[Measured]:
    """Measures one number of queries."""
    return measure_plans(
        point.x,
        contenders(Optimization.QUERY_AND_DTD, graph_of(point.parameters), (Pushed.FOR_WHERE_RETURN,)),
        *build(point.parameters),
    )


def _joins_dominate(results: Results) -> tuple[bool, str]:
    """Time of Semijoin and OuterJoin > that of Selection and DupElim, at the last point."""
    x = results.xs(SERIES)[-1]
    names = ("Selection", "DupElim", "Semijoin", "OuterJoin-Select")
    values = {name: results.value(SERIES, x, f"ms: {name}") for name in names}
    joins = values["Semijoin"] + values["OuterJoin-Select"]
    share = joins / results.value(SERIES, x)
    return joins > values["Selection"] + values["DupElim"], f"joins take {100 * share:.0f} % of the time at {x:,}"


EXPERIMENTS = (
    Experiment(
        id="D-T12",
        title="Time per operator without sharing, Book",
        source="Diao 2005, table 12",
        settings=BOOK_SETTINGS + "one predicate path, two return paths, DS = 0.2, Opt(q+dtd); times in ms",
        sweep=sweep(BOOK, "queries", small=(500, 1_000, 2_000, 4_000), paper=(10_000, 20_000, 30_000, 40_000, 50_000)),
        measure=measure,
        shows=Table(COLUMNS, "queries"),
        published="For 10,000 to 50,000 queries: Selection 93 to 498, DupElim 30 to 183, Semijoin 137 to 847, "
        "OuterJoin 163 to 1,025, executor 73 to 384 ms; total 516, 1,111, 1,715, 2,344, 2,985.",
        claims=(
            linear("Everything is linear in the number of queries", (SERIES,)),
            custom("Joins dominate", _joins_dominate).because(
                "Selections read and convert a value for every tuple, in Python; what is left to join after "
                "them are few tuples."
            ),
        ),
    ),
)
