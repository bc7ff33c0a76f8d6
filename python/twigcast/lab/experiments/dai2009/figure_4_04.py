"""Figure 4.4: queries with two nested paths, against their number."""

from collections.abc import Sequence

from twigcast.lab.experiments.dai2009.runs import CAUTION, FEW_VALUES, PER_QUERY, SETTINGS, losses, measure, points
from twigcast.lab.experiments.framework.claims import custom, everywhere
from twigcast.lab.experiments.framework.model import MQPT, Experiment, Figure, Results

CROSSING = 1_000


def _faster(results: Results, xs: Sequence[float | str]) -> tuple[bool, str]:
    won = [x for x in xs if results.value("BFilter", x) < results.value("YFilter", x)]
    return len(won) == len(xs), f"BFilter is faster at {', '.join(f'{x:,}' for x in won) or 'none'} of " + ", ".join(
        f"{x:,}" for x in xs
    )


def _faster_below(results: Results) -> tuple[bool, str]:
    """Time of BFilter < YFilter at every point up to 1,000 queries."""
    return _faster(results, [x for x in results.xs("BFilter", MQPT) if float(x) <= CROSSING])


def _slower_above(results: Results) -> tuple[bool, str]:
    """Time of BFilter > YFilter at every point above 1,000 queries."""
    above = [x for x in results.xs("BFilter", MQPT) if float(x) > CROSSING]
    if not above:
        return False, f"no point above {CROSSING:,}"
    lost = [x for x in above if results.value("BFilter", x) > results.value("YFilter", x)]
    return lost == above, f"BFilter is slower at {len(lost)} of {len(above)} points above {CROSSING:,}"


EXPERIMENTS = (
    Experiment(
        id="B-F4.4",
        title="Complex queries against their number",
        source="Dai 2009, figure 4.4",
        settings=SETTINGS + "W = 0.2, DS = 0, 6 predicates, 2 nested paths, depth 6; 500 to 2,000 queries; "
        "values 1 and 2; small: 10 messages, too",
        dtd="news",
        sweep=points(
            {"wildcard": 0.2, "descendant": 0.0, "predicates": 6, "nested": 2, "depth": 6, **FEW_VALUES},
            "queries",
            (500, 1_000, 1_500, 2_000),
            small=(250, 500, 1_000),
            small_messages=10,
        ),
        measure=measure,
        shows=Figure("number of queries", "filtering cost (ms)"),
        published="BFilter is faster up to 1,000 queries, slower above: it wraps YFilter, and pays for that per query.",
        claims=(
            custom("BFilter is faster up to 1,000 queries", _faster_below).because(PER_QUERY),
            custom("It is slower above", _slower_above).at_position(1_500),
            everywhere("A BFilter that wraps nothing has no crossing: it is faster throughout", "BFilter", "YFilter")
            .because(PER_QUERY)
            .conjectured(),
            losses(),
        ),
        notes=CAUTION,
    ),
)
