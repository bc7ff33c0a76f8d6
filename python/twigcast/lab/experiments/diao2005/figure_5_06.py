"""Figure 5.6: Selection Postponed with and without sorting the predicates by selectivity."""

from twigcast.lab.experiments.diao2005.filtering import measure_filters
from twigcast.lab.experiments.framework.claims import custom, everywhere
from twigcast.lab.experiments.framework.matchers import POSTPONED, sorting_yfilter
from twigcast.lab.experiments.framework.model import MQPT, Experiment, Figure, Measured, Point, Results
from twigcast.lab.experiments.framework.workloads import SEED, build, preset_of, schema_of, sweep

SORTED, UNSORTED = "with sorting", "Selection Postponed"
EVALUATIONS = "predicate_evaluations"


def measure(point: Point) -> list[Measured]:
    """Measures the same queries with both orders. The statistics are those that the messages are made with."""
    domains = preset_of(point.parameters).domains(schema_of(point.parameters["dtd"]), SEED)
    contenders = (POSTPONED, sorting_yfilter(SORTED, domains))
    return measure_filters(point.x, contenders, *build(point.parameters))


def _helps_more(results: Results) -> tuple[bool, str]:
    """Compares the times that sorting saves: the gap between the two curves at P = 2 and at the last P."""

    def saved(x: float | str) -> float:
        return results.value(UNSORTED, x, MQPT) - results.value(SORTED, x, MQPT)

    few, many = (x for x in (2, results.xs(SORTED)[-1]))
    return saved(many) > saved(few), f"saved {saved(few):.3g} ms at P = {few}, {saved(many):.3g} ms at P = {many}"


EXPERIMENTS = (
    Experiment(
        id="D-F5.6",
        title="Sorting predicates by selectivity",
        source="Diao 2005, figure 5.6",
        settings="NITF, 50,000 distinct queries, D = 6, W = DS = 0.2; 0 to 20 predicates per query",
        dtd="news",
        sweep=sweep(
            {"dtd": "news", "depth": 6, "queries": 50_000},
            "predicates",
            small=(1, 2, 5, 10, 20),
            paper=(0, 1, 2, 5, 10, 15, 20),
            small_parameters={"queries": 2_000},
        ),
        measure=measure,
        shows=Figure("predicates per query (P)"),
        published="Sorting helps, and more so with many predicates.",
        claims=(
            everywhere(
                "Sorting never costs evaluations", SORTED, UNSORTED, metric=EVALUATIONS, tolerance=0.01
            ).conjectured(),
            everywhere("Sorting never costs time", SORTED, UNSORTED, tolerance=0.05),
            custom("It saves more with many predicates", _helps_more).because(
                "With equality tests on up to 20 values the first predicate fails nine times in ten whatever the "
                "order, so that few of the further ones are ever reached: there is little to save at any P."
            ),
        ),
    ),
)
