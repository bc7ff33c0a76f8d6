"""Table 9: the operators of PathSharing-FWR at three levels of optimisation, Bib."""

from twigcast.lab.experiments.diao2005.operators import measure_operators, share_of
from twigcast.lab.experiments.diao2005.rewriting import BIB, BIB_SETTINGS, LEVELS, OPERATOR_COUNTS
from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Table
from twigcast.lab.experiments.framework.workloads import sweep

EXPERIMENTS = (
    Experiment(
        id="D-T9",
        title="Operators of the plans, Bib",
        source="Diao 2005, table 9",
        settings=BIB_SETTINGS + "5,000 queries, one predicate path, two return paths, DS = 0.2",
        sweep=sweep({**BIB, "queries": 5_000}, "level", small=LEVELS, paper=LEVELS),
        measure=measure_operators,
        shows=Table(OPERATOR_COUNTS, "optimisation"),
        published="Semijoins (hash/merge) 5000/0, 1966/3034, 0/5000; outer joins the same; DupElims 15000, 429, 0.",
        claims=(
            custom("With the DTD no hash operator is left", share_of("semijoins, hash", "Opt(q+dtd)", 0, 0)),
            custom("With the DTD no DupElim is left", share_of("DupElims", "Opt(q+dtd)", 0, 0)),
            custom("With Opt(q) few DupElims are left (3 %)", share_of("DupElims", "Opt(q)", 0.02, 0.04)),
            custom("With Opt(q) part of the semijoins hash (39 %)", share_of("semijoins, hash", "Opt(q)", 0.35, 0.45)),
        ),
    ),
)
