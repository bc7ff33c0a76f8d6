"""Figure 6.9: the three plans against the number of return paths, Bib."""

from twigcast.lab.experiments.diao2005.rewriting import BIB, BIB_SETTINGS, measuring_plans
from twigcast.lab.experiments.framework.claims import grows_less, linear
from twigcast.lab.experiments.framework.model import Experiment, Figure
from twigcast.lab.experiments.framework.workloads import sweep

EXPERIMENTS = (
    Experiment(
        id="D-F6.9",
        title="Plans against return paths, Bib",
        source="Diao 2005, figure 6.9",
        settings=BIB_SETTINGS + "5,000 queries, one predicate path, DS = 0.2, Opt(q+dtd); one to four return paths",
        sweep=sweep(
            {**BIB, "queries": 5_000},
            "return_paths",
            small=(1, 2, 3, 4),
            paper=(1, 2, 3, 4),
            small_parameters={"queries": 500},
        ),
        measure=measuring_plans(),
        shows=Figure("return paths per query (RP)"),
        published="-F and -FW grow linearly with RP, -FWR is nearly flat.",
        claims=(
            linear("-F and -FW are linear", ("PathSharing-F", "PathSharing-FW"), fit=0.9),
            grows_less("-FWR rises less than -F", "PathSharing-FWR", "PathSharing-F"),
            grows_less("-FWR rises less than -FW", "PathSharing-FWR", "PathSharing-FW"),
        ),
    ),
)
