"""Text of chapters 3 and 4: BFilter's space against YFilter's."""

from twigcast.lab.experiments.dai2009.runs import CAUTION, SETTINGS, measure, points
from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results

SPACE = "runtime_space"


def measure_space(point: Point) -> list[Measured]:
    """Measures active states and partial results held at one time, by the counters."""
    rows = measure(point)
    held = {(m.series, m.metric): m.samples[0] for m in rows}
    for series in ("YFilter", "BFilter"):
        space = held[series, "active_states_peak"] + held[series, "candidates_peak"]
        rows.append(Measured(series, point.x, SPACE, (space,)))
    return rows


def _between(results: Results) -> tuple[bool, str]:
    ratios = [
        results.value("BFilter", x, SPACE) / results.value("YFilter", x, SPACE) for x in results.xs("BFilter", SPACE)
    ]
    seen = ", ".join(f"{ratio:.2g}" for ratio in ratios)
    return all(0.95 <= ratio <= 2.05 for ratio in ratios), f"ratios: {seen}; mean {sum(ratios) / len(ratios):.2g}"


EXPERIMENTS = (
    Experiment(
        id="B-text-space",
        title="Space at run time",
        source="Dai 2009, sections 3.2.4 and 4.4",
        settings=SETTINGS + "100 queries, W = DS = 0.2, 2 predicates, depth 6; 0 to 5 nested paths",
        dtd="news",
        sweep=points({"predicates": 2, "depth": 6}, "nested", range(6)),
        measure=measure_space,
        shows=Figure("nested paths per query", "active states and candidates, at most", metric=SPACE),
        published="BFilter needs between one and two times the space of YFilter's active states, about 1.5 times.",
        claims=(
            custom("Between one and two times YFilter's space", _between).because(
                "For simple queries the corrected BFilter keeps a candidate for every element that could begin a "
                "match, where YFilter has few active states; with nested paths it needs less than YFilter, which "
                "keeps all path matches to the end of the message."
            ),
        ),
        notes="Space is the largest number of active states of an element plus the largest number of partial results "
        "held at one time. " + CAUTION,
    ),
)
