"""Figure 4.11: path matching against the depth of messages and queries."""

from itertools import pairwise

from twigcast.lab.experiments.diao2005.filtering import DEARER_TRANSITIONS, measuring
from twigcast.lab.experiments.framework.claims import custom, ordered, rises
from twigcast.lab.experiments.framework.matchers import HYBRID, XFILTER, YFILTER
from twigcast.lab.experiments.framework.model import MQPT, Experiment, Figure, Results
from twigcast.lab.experiments.framework.workloads import sweep


def _no_blow_up(results: Results) -> tuple[bool, str]:
    curve = [value for _, value in results.curve("YFilter", MQPT)]
    factors = [after / before for before, after in pairwise(curve)]
    return max(factors) < 3, "YFilter from depth to depth: " + ", ".join(f"{factor:.2g} times" for factor in factors)


EXPERIMENTS = (
    Experiment(
        id="D-F4.11",
        title="Path matching against depth",
        source="Diao 2005, figure 4.11",
        settings="NITF, 50,000 distinct queries, W = DS = 0.2; maximum depth of messages and queries from 6 to 10",
        dtd="news",
        sweep=sweep(
            {"dtd": "news", "queries": 50_000},
            "depth",
            small=(6, 7, 8, 9, 10),
            paper=(6, 7, 8, 9, 10),
            small_parameters={"queries": 4_000},
        ),
        measure=measuring(YFILTER, HYBRID, XFILTER),
        shows=Figure("maximum depth of messages and queries"),
        published="All grow. YFilter grows linearly: transitions 5.9 times from D = 6 to 10, length of messages 3.5 "
        "times.",
        claims=(
            rises("YFilter grows with depth", "YFilter"),
            rises("XFilter grows with depth", "XFilter (List Balance)"),
            custom("There is no exponential growth: each level adds less than it multiplies", _no_blow_up),
            ordered("YFilter is fastest at depth 10", ("YFilter", "Hybrid", "XFilter (List Balance)")).because(
                DEARER_TRANSITIONS
            ),
        ),
    ),
)
