"""Figure 13: overhead against fan-out, beside the broker tree."""

from twigcast.lab.experiments.codd.runs import interests
from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale


def measure(point: Point) -> list[Measured]:
    """Measures both systems at one fan-out."""
    size = {"nodes": point.parameters["nodes"], "documents": point.parameters["documents"]}
    outcome = interests(**size, fan_out=int(point.x), siena=True)
    still = interests(**size, fan_out=int(point.x), reorganise=False)
    siena = 100 * sum(outcome.siena) / len(outcome.siena)
    return [
        Measured("CoDD-R", point.x, "overhead", (100 * outcome.mean,)),
        Measured("CoDD-NR", point.x, "overhead", (100 * still.mean,)),
        Measured("Siena emulation", point.x, "overhead", (siena,)),
    ]


def _opposite(results: Results) -> tuple[bool, str]:
    """Overhead of CoDD at the largest fan-out < at the smallest; of the broker tree ≥ 0.95 times it (ours)."""
    ours, theirs = (results.curve(s, "overhead") for s in ("CoDD-R", "Siena emulation"))
    improves, stays = ours[-1][1] < ours[0][1], theirs[-1][1] >= 0.95 * theirs[0][1]
    return improves and stays, f"CoDD-R {ours[0][1]:.0f} to {ours[-1][1]:.0f} %, Siena {theirs[0][1]:.0f} to " + (
        f"{theirs[-1][1]:.0f} %"
    )


SWEEP: dict[Scale, list[Point]] = {
    "small": [Point(f, {"nodes": 120, "documents": 800}) for f in (3, 6, 10)],
    "paper": [Point(f, {"nodes": 400, "documents": 10_000}) for f in (3, 4, 6, 8, 10)],
}

EXPERIMENTS = (
    Experiment(
        id="C-F13",
        title="Overhead against fan-out",
        source="CoDD, figure 13",
        settings="abstract model, 400 nodes, 10,000 documents; small: 120 nodes, 800 documents",
        sweep=SWEEP,
        measure=measure,
        shows=Figure("fan-out", "mean overhead (%)", metric="overhead"),
        published="CoDD improves with fan-out, the broker tree stays bad or worsens.",
        claims=(custom("CoDD improves with fan-out, the broker tree does not", _opposite),),
    ),
)
