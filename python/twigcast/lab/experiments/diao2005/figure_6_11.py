"""Figure 6.11: the three plans against the number of queries, Bib."""

from twigcast.lab.experiments.diao2005.rewriting import BIB, BIB_SETTINGS, PLANS, measuring_plans
from twigcast.lab.experiments.framework.claims import grows_less, linear
from twigcast.lab.experiments.framework.model import Experiment, Figure
from twigcast.lab.experiments.framework.workloads import sweep

EXPERIMENTS = (
    Experiment(
        id="D-F6.11",
        title="Plans against the number of queries, Bib",
        source="Diao 2005, figure 6.11",
        settings=BIB_SETTINGS + "one predicate path, two return paths, DS = 0.2, 100 values, Opt(q+dtd); "
        "5,000 to 40,000 queries",
        sweep=sweep(
            {**BIB, "max_value": 100}, "queries", small=(500, 1_000, 2_000), paper=(5_000, 10_000, 20_000, 40_000)
        ),
        measure=measuring_plans(),
        shows=Figure("number of queries"),
        published="Linear in the number of queries; -F is steepest.",
        claims=(
            linear("All are linear", PLANS),
            grows_less("-F is steeper than -FW", "PathSharing-FW", "PathSharing-F"),
            grows_less("-F is steeper than -FWR", "PathSharing-FWR", "PathSharing-F"),
        ),
    ),
)
