"""Figure 5.5: Inline against Selection Postponed, against the number of predicates per query."""

from twigcast.lab.experiments.diao2005.filtering import measuring
from twigcast.lab.experiments.framework.claims import grows_less, ordered
from twigcast.lab.experiments.framework.matchers import INLINE, POSTPONED
from twigcast.lab.experiments.framework.model import Experiment, Figure
from twigcast.lab.experiments.framework.workloads import sweep

EXPERIMENTS = (
    Experiment(
        id="D-F5.5",
        title="Inline and Selection Postponed against predicates per query",
        source="Diao 2005, figure 5.5",
        settings="NITF, 50,000 distinct queries, D = 6, W = DS = 0.2; 0 to 20 predicates per query",
        dtd="news",
        sweep=sweep(
            {"dtd": "news", "depth": 6, "queries": 50_000},
            "predicates",
            small=(0, 1, 2, 5, 10, 20),
            paper=(0, 1, 2, 5, 10, 15, 20),
            small_parameters={"queries": 2_000},
        ),
        measure=measuring(POSTPONED, INLINE),
        shows=Figure("predicates per query (P)"),
        published="Inline rises steeply with the number of predicates, Selection Postponed mildly.",
        claims=(
            grows_less("Inline is steep, Selection Postponed mild", "Selection Postponed", "Inline"),
            ordered("Selection Postponed is faster at the right end", ("Selection Postponed", "Inline")),
        ),
    ),
)
