"""The influence of seed and workload on two verdicts: the factor of figure 3a, and the last fifth of figure 7."""

from __future__ import annotations

from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale, Table
from twigcast.lab.experiments.miliaraki2008.runs import NITF, make_documents, make_paths, published
from twigcast.lab.overlays.chord.automaton import Automaton
from twigcast.lab.overlays.chord.positions import RingPositions
from twigcast.lab.overlays.chord.tally import Network
from twigcast.lab.overlays.counters import shares

PUBLISHED_STATES = 225_000


def measure(point: Point) -> list[Measured]:
    """Measures queries and messages of one seed: all different, and as they come."""
    p = point.parameters
    documents = make_documents(NITF, p["documents"], p["seed"])
    rows: list[Measured] = []
    for series, distinct in (("distinct", True), ("random", False)):
        paths = make_paths(NITF, p[series], distinct=distinct, seed=p["seed"])
        network = Network(Automaton(paths), RingPositions(p["hosts"]))
        messages = sum(tally.messages for tally in published(network, documents))
        ranked = shares(network.load.tolist())
        asked = sum(tally.messages for tally in published(network, documents, iteratively=True))
        values = {
            "factor": asked / messages,
            "top": 100 * sum(ranked[: p["hosts"] // 20]),
            "last": 100 * sum(ranked[-(p["hosts"] // 5) :]),
            "states": float(len(network.automaton)),
            "kilobytes": sum(document.size_bytes for document in documents) / len(documents) / 1000,
        }
        rows += [Measured(series, point.x, metric, (value,)) for metric, value in values.items()]
    return rows


def points(seeds: int, **parameters: int) -> list[Point]:
    """Returns a point per seed."""
    return [Point(seed, {**parameters, "seed": seed}) for seed in range(1, seeds + 1)]


SWEEP: dict[Scale, list[Point]] = {
    "small": points(3, distinct=5_000, random=20_000, documents=7, hosts=1000),
    "paper": points(5, distinct=250_000, random=1_000_000, documents=200, hosts=1000),
}


def _seen(results: Results, metric: str) -> dict[str, list[float]]:
    return {series: [value for _, value in results.curve(series, metric)] for series in results.series(metric)}


def _text(values: list[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def _factor(results: Results) -> tuple[bool, str]:
    """Highest less lowest factor over the seeds ≤ 0.1."""
    seen = _seen(results, "factor")
    held = all(max(values) - min(values) <= 0.1 for values in seen.values())
    return held, ", ".join(f"{series} {_text(values)}" for series, values in seen.items())


def _last(results: Results) -> tuple[bool | None, str]:
    """Load of the last fifth of the peers ≤ 2 %, at about 225,000 states."""
    seen, states = _seen(results, "last")["random"], _seen(results, "states")["random"]
    if not all(0.75 <= size / PUBLISHED_STATES <= 1.25 for size in states):
        return None, f"only at about {PUBLISHED_STATES:,} states, here {max(states):,.0f}"
    return max(seen) <= 2, f"{_text(seen)} % at {min(states):,.0f} to {max(states):,.0f} states"


EXPERIMENTS = (
    Experiment(
        id="M-seeds",
        title="Seed or workload",
        source="ours, after Miliaraki 2008, figures 3a and 7b",
        ours=True,
        settings="NITF, 1,000 peers, 250,000 distinct queries and 1,000,000 random ones, 200 messages, five seeds of "
        "both; small: 5,000 and 20,000 queries, 7 messages, three seeds",
        dtd="news",
        sweep=SWEEP,
        measure=measure,
        shows=Figure("seed", "iterative messages / recursive messages", metric="factor"),
        extra_tables=(
            Table(
                {
                    "factor": "iterative / recursive messages",
                    "top": "load of the heaviest 5 % (%)",
                    "last": "load of the last 20 % (%)",
                    "states": "states",
                    "kilobytes": "kB a message",
                },
                "seed",
            ),
        ),
        published="Figure 3a: about twice. Figure 7b: the last 200 of 1,000 peers take almost nothing, with some "
        "225,000 states.",
        claims=(
            custom("The factor of figure 3a does not hang on the seed (it differs by up to 0.1)", _factor),
            custom("With as many states as published the last fifth of the peers takes at most 2 %", _last),
        ),
    ),
)
