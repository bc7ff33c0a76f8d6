"""Figures 15, 16, 19 and 20: XML data, overhead by data set, frequency of reorganisation, and top-c."""

from twigcast.lab.experiments.codd.runs import XML_SETS, curve, xml_run, xml_workload
from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Figure, Measured, Point, Results, Scale, Table
from twigcast.overlay.documents import Document


def measure_data(point: Point) -> list[Measured]:
    """Measures the documents and the queries of a data set."""
    engine, queries, items = xml_workload(XML_SETS[str(point.x)], **point.parameters)
    documents = [item.content for item in items if isinstance(item.content, Document)]
    levels = [element.depth for document in documents for element in document.elements]
    matched = sum(bool(engine.satisfied(item) & engine.mask([query])) for item in items for query in queries)
    values = {
        "max_depth": sum(max(e.depth for e in d.elements) for d in documents) / len(documents),
        "mean_depth": sum(levels) / len(levels),
        "elements": len(levels) / len(documents),
        "selectivity": matched / len(items) / len(queries),
    }
    return [Measured("bundled DTD", point.x, metric, (value,)) for metric, value in values.items()]


def measure_sets(point: Point) -> list[Measured]:
    """Measures overhead with and without reorganisation at several fan-outs."""
    size = {"nodes": point.parameters["nodes"], "documents": point.parameters["documents"]}
    rows: list[Measured] = []
    for fan_out in point.parameters["fan_outs"]:
        for series, reorganise in (("CoDD-NR", False), ("CoDD-R", True)):
            outcome = xml_run(XML_SETS[str(point.x)], **size, fan_out=fan_out, reorganise=reorganise)
            rows.append(Measured(f"{series}, fan-out {fan_out}", point.x, "overhead", (100 * outcome.mean,)))
            rows.append(Measured(f"{series}, fan-out {fan_out}", point.x, "late", (100 * outcome.final_overhead,)))
    return rows


def measure_frequency(point: Point) -> list[Measured]:
    """Measures overhead in time with a request at most every r documents."""
    return _course(f"r = {point.x}", point, reorganise_after=int(point.x))


def measure_top(point: Point) -> list[Measured]:
    """Measures overhead in time when only the worst c of a batch of requests are served."""
    top = 0 if point.x == "unlimited" else int(point.x)
    name = "unlimited" if not top else f"top {top}"
    return _course(name, point, top=top, batch=50 if top else 1)


def _course(series: str, point: Point, **settings: int) -> list[Measured]:
    size = {"nodes": point.parameters["nodes"], "documents": point.parameters["documents"]}
    outcome = xml_run("news", **size, **settings)
    rows = curve(series, [(x, 100 * mean) for x, _, mean in outcome.windows], "overhead")
    rows.append(Measured(series, "mean", "mean", (100 * outcome.mean,)))
    rows.append(Measured(series, "mean", "moves", (float(outcome.accepted),)))
    return rows


def _below_ten(results: Results) -> tuple[bool, str]:
    """Mean overhead with reorganisation at fan-out 4 < 10 % on every data set."""
    values = {
        f"{x}, {s}": results.value(s, x, "overhead")
        for s in results.series("overhead")
        for x in results.xs(s, "overhead")
        if s.startswith("CoDD-R")
    }
    low = {name: value for name, value in values.items() if name.endswith("fan-out 4")}
    return all(v < 10 for v in low.values()), ", ".join(f"{name} {v:.1f} %" for name, v in values.items())


def _reorganisation_helps(results: Results) -> tuple[bool, str]:
    """Mean overhead with reorganisation < without, for every data set and fan-out."""
    pairs = [
        (x, results.value(s, x, "overhead"), results.value(s.replace("CoDD-R", "CoDD-NR"), x, "overhead"))
        for s in results.series("overhead")
        if s.startswith("CoDD-R")
        for x in results.xs(s, "overhead")
    ]
    return all(r < nr for _, r, nr in pairs), ", ".join(f"{x} {r:.1f}/{nr:.1f} %" for x, r, nr in pairs) + " (R/NR)"


PUBLISHED_DATA = {
    "NITF": {"max_depth": 9.07, "mean_depth": 5.83, "elements": 107.28, "selectivity": 0.28},
    "PSD": {"max_depth": 6.77, "mean_depth": 4.37, "elements": 238.82, "selectivity": 0.15},
    "CIML": {"max_depth": 4.44, "mean_depth": 3.32, "elements": 22.22, "selectivity": 0.31},
}


def _near_published(results: Results) -> tuple[bool, str]:
    """Every published number within a half (ours)."""
    ratios = {
        f"{name} {metric}": results.value("bundled DTD", name, metric) / value
        for name, values in PUBLISHED_DATA.items()
        for metric, value in values.items()
    }
    held = all(0.5 <= ratio <= 1.5 for ratio in ratios.values())
    return held, ", ".join(f"{what} {ratio:.2f}" for what, ratio in ratios.items()) + " times the published"


def _alike(results: Results) -> tuple[bool, str]:
    """Overheads for r ≤ 200 within a factor of 1.5 (ours), and those for rarer moves above all of them."""
    means = {s: results.value(s, "mean", "mean") for s in results.series("mean")}
    frequent = [v for s, v in means.items() if int(s.split()[-1]) <= 200]
    rare = [v for s, v in means.items() if int(s.split()[-1]) > 200]
    held = max(frequent) <= 1.5 * min(frequent) and min(rare, default=100.0) >= max(frequent)
    return held, ", ".join(f"{s}: {v:.1f} %" for s, v in means.items())


def _top_is_enough(results: Results) -> tuple[bool | None, str]:
    """The source says as good, without a number: a quarter is ours. Where moves change nothing, nothing can differ."""
    means = {s: results.value(s, "mean", "mean") for s in results.series("mean")}
    moves = {s: results.value(s, "mean", "moves") for s in results.series("moves")}
    seen = ", ".join(f"{s}: {v:.1f} %, {moves[s]:.0f} moves" for s, v in means.items())
    tops = [s for s in ("top 10", "top 20") if s in means]
    if not any(moves[s] < moves["unlimited"] for s in tops):
        return None, f"{seen}: no request was put off"
    return all(means[s] <= 1.25 * means["unlimited"] for s in tops), seen


OVERALL = (5, 10)
"""Percent of overhead in trees of thousands of nodes: what the source sums up with."""
THOUSANDS = 1_000


def _overall(results: Results) -> tuple[bool, str]:
    """Judged where the overhead is settled, in the last third of the stream."""
    settled = {
        f"{x}, {s}": results.value(s, x, "late")
        for s in results.series("late")
        if s.startswith("CoDD-R")
        for x in results.xs(s, "late")
    }
    seen = ", ".join(f"{name} {value:.1f} %" for name, value in settled.items())
    return all(value <= OVERALL[1] for value in settled.values()), f"last third of the stream: {seen}"


SMALL = {"nodes": 100, "documents": 400}
PAPER = {"nodes": 1000, "documents": 10_000}
SETS: dict[Scale, list[Point]] = {
    "small": [Point(name, {**SMALL, "fan_outs": (4, 8)}) for name in XML_SETS],
    "paper": [Point(name, {**PAPER, "fan_outs": (4, 6, 10)}) for name in XML_SETS],
}
DATA: dict[Scale, list[Point]] = {
    "small": [Point(name, SMALL) for name in XML_SETS],
    "paper": [Point(name, {"nodes": 1000, "documents": 500}) for name in XML_SETS],
}
FREQUENCY: dict[Scale, list[Point]] = {
    "small": [Point(r, SMALL) for r in (20, 50, 200)],
    "paper": [Point(r, PAPER) for r in (20, 50, 100, 200, 500, 1000)],
}
TOP: dict[Scale, list[Point]] = {
    "small": [Point(c, SMALL) for c in (2, 10, "unlimited")],
    "paper": [Point(c, PAPER) for c in (5, 10, 20, "unlimited")],
}
ONE = "NITF, 1,000 nodes, 10,000 documents, fan-out 6; small: 100 nodes, 400 documents"

EXPERIMENTS = (
    Experiment(
        id="C-F15",
        title="The XML data",
        source="CoDD, figure 15",
        settings="bundled DTDs for NITF, PSD and CIML; twig queries with p* = 0.2, branch 0.3, descendant 0.2",
        sweep=DATA,
        measure=measure_data,
        shows=Table(
            {
                "max_depth": "deepest element",
                "mean_depth": "mean depth",
                "elements": "elements a document",
                "selectivity": "selectivity",
            },
            "data",
        ),
        published="NITF 9.07, 5.83, 107.28, 0.28; PSD 6.77, 4.37, 238.82, 0.15; CIML 4.44, 3.32, 22.22, 0.31.",
        claims=(
            custom("Depths, lengths and selectivities near the published (within a half)", _near_published).because(
                "Only the selectivity on PSD is off. Every message of a protein database has nearly all of the "
                "DTD's paths, so that a query on structure alone selects nearly every message; 0.15 needs tests "
                "on values, of which the source says nothing."
            ),
        ),
    ),
    Experiment(
        id="C-F16",
        title="Overhead by data set",
        source="CoDD, figure 16",
        settings="1,000 nodes, 10,000 documents, reorganisation after 200; small: 100 nodes, 400 documents",
        sweep=SETS,
        measure=measure_sets,
        shows=Figure("data", "mean overhead (%)", metric="overhead", kind="bars"),
        published="Below 10 % with reorganisation at low fan-out.",
        claims=(
            custom("Below 10 % with reorganisation at fan-out 4", _below_ten).because(
                "At the published size NITF alone is above, by one point, with PSD and CIML below. Our queries have "
                "the published selectivity, but share less with each other than the source's seem to; at the small "
                "size there are too few nodes for each to find a similar one."
            ),
            custom("Thousands of nodes have 5 to 10 % of overhead", _overall)
            .because(
                "The source sums up with it, and does not say for which data and fan-outs; here it is asked of all "
                "that its figure has. Only NITF is above, where our queries share less with each other."
            )
            .at_size("nodes", THOUSANDS),
            custom(
                "Reorganisation lowers the overhead of every data set at every fan-out", _reorganisation_helps
            ).because(
                "Without drift the informed join does what can be done, so that there is little left for moves; "
                "at small scale each node makes two at most."
            ),
        ),
    ),
    Experiment(
        id="C-F19",
        title="How often to reorganise",
        source="CoDD, figure 19",
        settings=ONE,
        sweep=FREQUENCY,
        measure=measure_frequency,
        shows=Figure("documents", "overhead (%)", metric="overhead"),
        published="20 to 200 documents alike, 500 and 1,000 worse.",
        claims=(
            custom("20 to 200 are alike (within a half), rarer is worse", _alike).because(
                "The order is as published, and rarer is worse throughout; but 200 costs half as much again "
                "as 20 (the limit is a half), where the source saw no difference. Presumably because our join "
                "is informed from the first node on: what is left to gain comes with the first moves, the "
                "sooner the smaller r."
            ),
        ),
    ),
    Experiment(
        id="C-F20",
        title="Serving only the worst requests",
        source="CoDD, figure 20",
        settings=ONE,
        sweep=TOP,
        measure=measure_top,
        shows=Figure("documents", "overhead (%)", metric="overhead"),
        published="The worst 10 to 20 are as good as all.",
        claims=(custom("The worst 10 to 20 of a batch are nearly as good as all", _top_is_enough),),
    ),
)
