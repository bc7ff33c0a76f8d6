"""The depth lemma of CoDD's analysis: D_n / log n tends to 1 / H in random split trees."""

import math
import random

from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale

MODELS = {
    "uniform, f = 6": (1 / 6,) * 6,
    "skewed, f = 6": (0.5, 0.2, 0.1, 0.1, 0.05, 0.05),
    "uniform, f = 2": (0.5, 0.5),
}


def measure(point: Point) -> list[Measured]:
    """Measures the insertion depth of the n-th node, averaged over trees and over the last tenth of the nodes."""
    rows: list[Measured] = []
    generator = random.Random(point.parameters["nodes"])  # noqa: S311 - reproducible, not secret
    nodes = point.parameters["nodes"]
    for name, chances in MODELS.items():
        children: list[list[int]] = [[]]
        delayed: list[int] = []
        for number in range(1, nodes):
            at, depth = 0, 1
            while len(children[at]) == len(chances):
                (chosen,) = generator.choices(range(len(chances)), chances)
                at = children[at][chosen]
                depth += 1
            children[at].append(len(children))
            children.append([])
            if number >= 0.9 * nodes:
                delayed.append(depth)
        entropy = -sum(p * math.log(p) for p in chances)
        mean = sum(delayed) / len(delayed)
        rows.append(Measured(name, nodes, "ratio", (mean / math.log(nodes),)))
        rows.append(Measured(f"1/H, {name}", nodes, "ratio", (1 / entropy,)))
    return rows


def _near(results: Results) -> tuple[bool, str]:
    """Depth / log n of the last nodes within a quarter (ours) of 1 / H."""
    texts, held = [], True
    for name in MODELS:
        last = results.xs(name, "ratio")[-1]
        seen, limit = results.value(name, last, "ratio"), results.value(f"1/H, {name}", last, "ratio")
        held = held and abs(seen - limit) < 0.25 * limit
        texts.append(f"{name}: {seen:.2f} against {limit:.2f}")
    return held, "; ".join(texts)


SWEEP: dict[Scale, list[Point]] = {
    "small": [Point(n, {"nodes": n}) for n in (100, 1000, 10_000)],
    "paper": [Point(n, {"nodes": n}) for n in (100, 1000, 10_000, 100_000)],
}

EXPERIMENTS = (
    Experiment(
        id="C-L1",
        title="The depth lemma",
        source="CoDD, section 3.1.2",
        settings="random split trees: a full node sends the next arrival to child i with probability p_i",
        sweep=SWEEP,
        measure=measure,
        shows=Figure("number of nodes", "depth / log n", metric="ratio"),
        published="D_n / log n tends to 1 / H in probability; convergence is slow.",
        claims=(custom("Depth / log n is near 1 / H", _near),),
    ),
)
