"""Figure 4.13: path matching against the probability of ``//``."""

from twigcast.lab.experiments.diao2005.filtering import measuring
from twigcast.lab.experiments.framework.claims import custom, ordered, within
from twigcast.lab.experiments.framework.matchers import HYBRID, XFILTER, YFILTER
from twigcast.lab.experiments.framework.model import MQPT, Experiment, Figure, Point, Results, Scale
from twigcast.lab.experiments.framework.workloads import DOCUMENTS, grid

DESCENDANTS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def _points(queries: int, scale: Scale) -> list[Point]:
    common = {"dtd": "news", "depth": 10, "queries": queries, "documents": DOCUMENTS[scale]}
    return [Point(p.x, {**p.parameters, "loosen": (0.0, p.x)}) for p in grid(common, "descendant", DESCENDANTS, scale)]


def _peak_inside(results: Results) -> tuple[bool, str]:
    curve = results.curve("YFilter", "states")
    peak_x, peak = max(curve, key=lambda point: point[1])
    return 0 < float(peak_x) < 1, f"peak at DS = {peak_x}: {peak / curve[0][1]:.2g} times the states of DS = 0"


def _bell(results: Results) -> tuple[bool, str]:
    curve = results.curve("XFilter (List Balance)", MQPT)
    peak_x, peak = max(curve, key=lambda point: point[1])
    return 0 < float(peak_x) < 1, f"peak at DS = {peak_x}: {peak / curve[0][1]:.3g} times DS = 0"


EXPERIMENTS = (
    Experiment(
        id="D-F4.13",
        title="Path matching against the probability of //",
        source="Diao 2005, figure 4.13",
        settings="NITF, 10,000 distinct queries, D = 10, W = 0; DS from 0 to 1",
        dtd="news",
        sweep={"small": _points(2_000, "small"), "paper": _points(10_000, "paper")},
        measure=measuring(YFILTER, HYBRID, XFILTER),
        shows=Figure("probability of // at a step (DS)"),
        published="YFilter's size peaks at DS = 0.6 with 2.8 times that of DS = 0, its time at 3.2 times. XFilter is "
        "bell-shaped with a heavy penalty. Hybrid approaches XFilter, and is slightly worse at DS = 1.",
        claims=(
            custom("YFilter's size has its peak in between", _peak_inside),
            custom("XFilter is bell-shaped", _bell).because(
                "Our XFilter checks the steps before a pivot by walking up the open elements. Below / that ends "
                "at the first wrong name, below // only at the root: the cost per candidate rises with DS to the "
                "end, while the number of candidates hardly changes. The source does not say how prefixes were "
                "checked."
            ),
            ordered("YFilter is fastest at DS = 0.6", ("YFilter", "XFilter (List Balance)"), at=0.6),
            within(
                "At DS = 1 Hybrid has become XFilter (within half)", "XFilter (List Balance)", "Hybrid", share=0.5
            ).because(
                "In transitions Hybrid is worse than XFilter at DS = 1, as published, and by more (four times): "
                "XFilter has List Balance, Hybrid starts with the first substring. In time a check of Hybrid is a "
                "comparison, one of XFilter a walk up the open elements."
            ),
        ),
        notes="A base set without * and // is made first; each / then becomes // with probability DS.",
    ),
)
