"""Figure 4.3: simple queries, against their number."""

from twigcast.lab.experiments.dai2009.runs import CAUTION, FEW_VALUES, SETTINGS, losses, measure, points
from twigcast.lab.experiments.framework.claims import everywhere
from twigcast.lab.experiments.framework.model import Experiment, Figure

EXPERIMENTS = (
    Experiment(
        id="B-F4.3",
        title="Simple queries against their number",
        source="Dai 2009, figure 4.3",
        settings=SETTINGS + "W = 0.2, DS = 0, 6 predicates, no nested paths, depth 6; 500 to 2,000 queries; "
        "values 1 and 2; small: 10 messages, too",
        dtd="news",
        sweep=points(
            {"wildcard": 0.2, "descendant": 0.0, "predicates": 6, "depth": 6, **FEW_VALUES},
            "queries",
            (500, 1_000, 1_500, 2_000),
            small=(250, 500, 1_000),
            small_messages=10,
        ),
        measure=measure,
        shows=Figure("number of queries", "filtering cost (ms)"),
        published="BFilter is slower than YFilter for simple queries, whatever the parameters.",
        claims=(
            everywhere("BFilter is slower for simple queries", "YFilter", "BFilter").because(
                "With a hundred queries the two lie within the spread of their rounds: most of the time goes into what "
                "both do for each event."
            ),
            losses(),
        ),
        notes=CAUTION,
    ),
)
