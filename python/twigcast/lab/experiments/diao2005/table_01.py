"""Table 1: characteristics of the DTDs."""

from twigcast.lab.experiments.framework.claims import custom
from twigcast.lab.experiments.framework.model import Experiment, Measured, Point, Results, Table
from twigcast.lab.experiments.framework.workloads import schema_of
from twigcast.lab.workload import DTD_NAMES
from twigcast.schema import statistics

COUNTS = {
    "elements": "element names",
    "attributes": "attributes",
    "recursive_elements": "recursive elements",
    "nesting": "maximum level (0: unlimited)",
}


def measure(point: Point) -> list[Measured]:
    """Counts the parts of one DTD."""
    counted = statistics(schema_of(point.parameters["dtd"]))
    values = {name: float(getattr(counted, name) or 0) for name in COUNTS}
    return [Measured(str(point.x), "", name, (value,)) for name, value in values.items()]


def _sizes(results: Results) -> tuple[bool, str]:
    """Names and attributes within three, or a fiftieth, of the published (ours)."""
    published = {"news": (123, 510), "auction": (77, 16), "papers": (36, 14)}
    seen = {n: tuple(int(results.value(n, "", m)) for m in ("elements", "attributes")) for n in published}
    near = all(abs(a - b) <= max(3, b // 50) for n in published for a, b in zip(seen[n], published[n], strict=True))
    return near, ", ".join(f"{name} {elements}/{attributes}" for name, (elements, attributes) in seen.items())


EXPERIMENTS = (
    Experiment(
        id="D-T1",
        title="Characteristics of the DTDs",
        source="Diao 2005, table 1",
        settings="Our DTDs stand for the published ones: news for NITF, auction for XMark, papers for DBLP",
        sweep={scale: [Point(name, {"dtd": name}) for name in DTD_NAMES] for scale in ("small", "paper")},
        measure=measure,
        shows=Table(COUNTS),
        published="NITF 123 element names, 510 attributes, unlimited nesting; Auction 77, 16, unlimited; "
        "DBLP 36, 14, unlimited.",
        claims=(custom("Our DTDs have the published sizes", _sizes),),
    ),
)
