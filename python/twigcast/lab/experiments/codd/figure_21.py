"""Figures 21 to 24: thresholds, and the least gain that is worth a move."""

from twigcast.lab.experiments.codd.runs import interests, percentiles
from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale

THRESHOLDS = (0.0, 0.2, 0.4)
DELTAS = (0.0, 0.1, 0.2)


def measure_thresholds(point: Point) -> list[Measured]:
    """Moves at one selectivity under several thresholds."""
    size = {"nodes": point.parameters["nodes"], "documents": point.parameters["documents"]}
    rows: list[Measured] = []
    for threshold in THRESHOLDS:
        outcome = interests(**size, shape={"selectivity": float(point.x)}, threshold=threshold)
        name = f"threshold {threshold:.0%}"
        rows.append(Measured(name, point.x, "moves", (float(outcome.accepted),)))
        rows.append(Measured(name, point.x, "requests", (float(len(outcome.moves)),)))
        rows.append(Measured(name, point.x, "overhead", (100 * outcome.mean,)))
    return rows


def measure_deltas(point: Point) -> list[Measured]:
    """Measures moves and overhead under several least gains."""
    size = {"nodes": point.parameters["nodes"], "documents": point.parameters["documents"]}
    rows: list[Measured] = []
    for delta in DELTAS:
        outcome = interests(**size, delta=delta)
        ratios = [ratio for _, ratio in outcome.ratios]
        name = f"{delta:.0%}"
        rows.append(Measured("CoDD-R", name, "moves", (float(outcome.accepted),)))
        rows.append(Measured("CoDD-R", name, "ratio", (sum(ratios) / max(1, len(ratios)),)))
        rows.append(Measured("CoDD-R", name, "overhead", (100 * outcome.mean,)))
        rows += percentiles(f"delta {name}", [100 * share for share in outcome.overheads], "node_overhead")
    return rows


def _fewer_moves(results: Results) -> tuple[bool | None, str]:
    """Share of moves that a threshold of 40 % saves: above 0 everywhere, and larger at the highest selectivity."""
    texts, saved, moved = [], [], []
    for x in results.xs("threshold 0%", "moves"):
        moves = [results.value(f"threshold {t:.0%}", x, "moves") for t in THRESHOLDS]
        saved.append(1 - moves[-1] / moves[0] if moves[0] else 0.0)
        moved.append(moves)
        texts.append(f"selectivity {x}: " + ", ".join(f"{m:.0f}" for m in moves))
    seen = "; ".join(texts)
    if any(len(set(moves)) == 1 for moves in moved):
        return None, f"{seen}: somewhere no threshold holds back a move"
    return min(saved) > 0 and saved[-1] > saved[0], seen


def _monotone(results: Results) -> tuple[bool, str]:
    """Moves with a least gain of 20 % ≤ 0.8 times those without; a fifth is ours."""
    moves = [value for _, value in results.curve("CoDD-R", "moves")]
    return moves[2] <= 0.8 * moves[0], ", ".join(f"{x}: {v:.0f}" for x, v in results.curve("CoDD-R", "moves"))


def _ratio_alike(results: Results) -> tuple[bool, str]:
    """Mean ratio with a least gain of 20 % ≤ 1.1 times that without; a tenth is ours."""
    values = results.curve("CoDD-R", "ratio")
    return values[-1][1] <= values[0][1] * 1.1, ", ".join(f"{x}: {v:.2f}" for x, v in values)


def _overhead_alike(results: Results) -> tuple[bool, str]:
    """Mean overhead with a least gain of 20 % ≤ 1.1 times that without; a tenth is ours."""
    values = results.curve("CoDD-R", "overhead")
    return values[2][1] <= values[0][1] * 1.1, ", ".join(f"{x}: {v:.1f} %" for x, v in values)


THRESHOLD_SWEEP: dict[Scale, list[Point]] = {
    "small": [Point(s, {"nodes": 100, "documents": 800}) for s in (0.1, 0.3)],
    "paper": [Point(s, {"nodes": 400, "documents": 10_000}) for s in (0.1, 0.2, 0.3, 0.5)],
}
DELTA_SWEEP: dict[Scale, list[Point]] = {
    "small": [Point("delta", {"nodes": 150, "documents": 3000})],
    "paper": [Point("delta", {"nodes": 400, "documents": 10_000})],
}
DELTA_SETTINGS = "abstract model, 400 nodes, 10,000 documents; small: 150 nodes, 3,000 documents"

EXPERIMENTS = (
    Experiment(
        id="C-F21",
        title="Moves against threshold and selectivity",
        source="CoDD, figure 21",
        settings="abstract model, 400 nodes, 10,000 documents; small: 100 nodes, 800 documents",
        sweep=THRESHOLD_SWEEP,
        measure=measure_thresholds,
        shows=Figure("selectivity", "moves", metric="moves"),
        published="Fewer moves with higher thresholds, the more so at high selectivity.",
        claims=(custom("The highest threshold means the fewest moves, the more so at high selectivity", _fewer_moves),),
    ),
    Experiment(
        id="C-F22",
        title="Moves against the least gain",
        source="CoDD, figure 22",
        settings=DELTA_SETTINGS,
        sweep=DELTA_SWEEP,
        measure=measure_deltas,
        shows=Figure("delta", "moves", metric="moves", kind="bars"),
        published="Clearly fewer moves with a delta of 10 or 20 %.",
        claims=(custom("A delta of 20 % saves a fifth of the moves or more", _monotone),),
    ),
    Experiment(
        id="C-F23",
        title="Worth of moves against the least gain",
        source="CoDD, figure 23",
        settings=DELTA_SETTINGS,
        sweep=DELTA_SWEEP,
        measure=measure_deltas,
        shows=Figure("delta", "overhead after / before", metric="ratio", kind="bars"),
        published="Not much worse.",
        claims=(custom("Moves are worth as much with a least gain", _ratio_alike),),
    ),
    Experiment(
        id="C-F24",
        title="Overhead against the least gain",
        source="CoDD, figure 24",
        settings=DELTA_SETTINGS,
        sweep=DELTA_SWEEP,
        measure=measure_deltas,
        shows=Figure("delta", "mean overhead (%)", metric="overhead", kind="bars"),
        published="Not much worse.",
        claims=(custom("Overhead with a delta of 20 % is within a tenth of that without", _overhead_alike),),
    ),
)
