"""Figure 4.7: path matching against the number of queries, duplicates included."""

from twigcast.lab.experiments.diao2005.filtering import DEARER_TRANSITIONS, measuring
from twigcast.lab.experiments.framework.claims import ordered, rises
from twigcast.lab.experiments.framework.matchers import HYBRID, XFILTER, YFILTER
from twigcast.lab.experiments.framework.model import Experiment, Figure
from twigcast.lab.experiments.framework.workloads import sweep

EXPERIMENTS = (
    Experiment(
        id="D-F4.7",
        title="Path matching, random queries with duplicates",
        source="Diao 2005, figure 4.7",
        settings="NITF, D = 6, W = DS = 0.2; 1,000 to 500,000 random path queries, 200 messages",
        dtd="news",
        sweep=sweep(
            {"dtd": "news", "depth": 6, "distinct": False},
            "queries",
            small=(1_000, 5_000, 10_000, 20_000),
            paper=(1_000, 100_000, 200_000, 300_000, 400_000, 500_000),
        ),
        measure=measuring(YFILTER, HYBRID, XFILTER),
        shows=Figure("number of queries"),
        published="The order of figure 4.6 with smaller differences; YFilter rises, since result collection drives it.",
        claims=(
            ordered("YFilter is fastest, Hybrid in between", ("YFilter", "Hybrid", "XFilter (List Balance)"))
            .because(DEARER_TRANSITIONS)
            .at_position(500_000),
            rises("YFilter rises with the number of queries", "YFilter"),
        ),
    ),
)
