"""Figure 5.9: nested paths with and without a value-based predicate."""

from twigcast.lab.experiments.diao2005.filtering import measure_filters
from twigcast.lab.experiments.framework.claims import within
from twigcast.lab.experiments.framework.matchers import YFILTER
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point
from twigcast.lab.experiments.framework.workloads import build, sweep


def measure(point: Point) -> list[Measured]:
    """Measures one number of queries with a nested path, without and with one predicate."""
    rows = []
    for predicates in (0, 1):
        measured = measure_filters(point.x, (YFILTER,), *build({**point.parameters, "predicates": predicates}))
        rows += [Measured(f"{m.series}, P = {predicates}", m.x, m.metric, m.samples) for m in measured]
    return rows


EXPERIMENTS = (
    Experiment(
        id="D-F5.9",
        title="Nested paths with predicates",
        source="Diao 2005, figure 5.9",
        settings="NITF, D = 6, W = DS = 0.2, one nested path per query; with none and one predicate",
        dtd="news",
        sweep=sweep(
            {"dtd": "news", "depth": 6, "nested": 1},
            "queries",
            small=(1_000, 3_000, 6_000),
            paper=(1_000, 25_000, 50_000, 100_000, 150_000, 200_000),
        ),
        measure=measure,
        shows=Figure("number of queries"),
        published="Predicates add a modest amount; the curves lie close together.",
        claims=(
            within("A predicate adds a modest amount (less than half)", "YFilter, P = 1", "YFilter, P = 0", share=0.5),
        ),
    ),
)
