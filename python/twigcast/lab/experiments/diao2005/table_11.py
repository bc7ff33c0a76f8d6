"""Table 11: the operators of PathSharing-FWR at three levels of optimisation, Book."""

from twigcast.lab.experiments.diao2005.operators import measure_operators, share_of
from twigcast.lab.experiments.diao2005.rewriting import BOOK, BOOK_SETTINGS, LEVELS, OPERATOR_COUNTS
from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Table
from twigcast.lab.experiments.framework.workloads import sweep

EXPERIMENTS = (
    Experiment(
        id="D-T11",
        title="Operators of the plans, Book",
        source="Diao 2005, table 11",
        settings=BOOK_SETTINGS + "10,000 queries, one predicate path, two return paths, DS = 0.2",
        sweep=sweep({**BOOK, "queries": 10_000}, "level", small=LEVELS, paper=LEVELS),
        measure=measure_operators,
        shows=Table(OPERATOR_COUNTS, "optimisation"),
        published="Semijoins (hash/merge) 10,000/0, 5,963/4,037, 3,968/6,032; outer joins the same; "
        "DupElims 30,000, 2,833, 1,500.",
        claims=(
            custom(
                "Part of the hash operators must stay (40 %)", share_of("semijoins, hash", "Opt(q+dtd)", 0.35, 0.45)
            ),
            custom("Some DupElims stay (5 %)", share_of("DupElims", "Opt(q+dtd)", 0.04, 0.06)),
            custom(
                "With Opt(q) more than half of the semijoins hash (60 %)",
                share_of("semijoins, hash", "Opt(q)", 0.55, 0.65),
            ),
        ),
    ),
)
