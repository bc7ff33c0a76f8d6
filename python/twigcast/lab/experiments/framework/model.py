"""An experiment: a sweep declared as data, a measurement of one point, a figure or table, and claims.

An experiment reproduces one figure or table of a publication. Its points are plain data; each is measured by one task,
on Spark or here; all that is measured is a list of samples per (series, x, metric), and everything else, the figure,
the verdicts and the report, is made from the stored samples.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from twigcast.lab.experiments.framework.tasks import Tasks

Scale = Literal["small", "paper"]
"""``small``: minutes on two cores. ``paper``: the published sizes."""

SCALES: tuple[Scale, ...] = ("small", "paper")

MQPT = "mqpt_ms"
"""Multi-query processing time per message in ms: filtering without parsing (Diao 2005, section 4.4.2)."""
TOTAL = "total_ms"
"""Time per message in ms, parsing included."""

X = float | str


@dataclass(frozen=True, slots=True)
class Point:
    """One setting of a sweep: its place on the x axis, and all parameters of the measurement, as plain data."""

    x: X
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Measured:
    """Samples of one metric of one series at one x. Counters, which do not vary, have one sample."""

    series: str
    x: X
    metric: str
    samples: tuple[float, ...]


class Results:
    """All that was measured in one run of an experiment."""

    def __init__(self, measured: Sequence[Measured]) -> None:
        """Keeps the samples, in the order of measurement."""
        self.measured = list(measured)
        self._by_key = {(m.series, m.x, m.metric): m for m in self.measured}

    def samples(self, series: str, x: X, metric: str) -> tuple[float, ...]:
        """Returns the samples; none if it was not measured."""
        result = self._by_key.get((series, x, metric))
        return result.samples if result else ()

    def value(self, series: str, x: X, metric: str = MQPT) -> float:
        """Returns the median of the samples.

        Raises:
            KeyError: it was not measured.
        """
        return median(self._by_key[series, x, metric].samples)

    def xs(self, series: str | None = None, metric: str | None = None) -> list[X]:
        """Returns the x values measured, in order."""
        return list(
            dict.fromkeys(m.x for m in self.measured if series in (None, m.series) and metric in (None, m.metric))
        )

    def series(self, metric: str | None = None) -> list[str]:
        """Returns the series that have this metric, in order of measurement."""
        return list(dict.fromkeys(m.series for m in self.measured if metric in (None, m.metric)))

    def metrics(self) -> list[str]:
        """Returns all metrics, in order of measurement."""
        return list(dict.fromkeys(m.metric for m in self.measured))

    def curve(self, series: str, metric: str = MQPT) -> list[tuple[X, float]]:
        """Returns (x, median) for each x of one series."""
        return [(x, self.value(series, x, metric)) for x in self.xs(series, metric)]


Held = Literal["held", "not held", "not reached", "not checked"]
"""``not reached``: the statement is about a place on the x axis beyond the last that was measured, and does not hold
before it; ``not checked``: what it is about was not measured."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on a published claim: whether it came out, and what was seen."""

    claim: str
    held: Held
    seen: str
    why: str = ""
    """Why it did not come out, as far as we know."""


Check = Callable[[Results], tuple[bool | None, str]]
"""Looks at the results; returns whether the claim held (``None``: cannot be told from them), and the numbers seen."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A published statement and how to check it."""

    text: str
    check: Check
    otherwise: str = ""
    """Why it does not come out, where it does not."""
    position: float | None = None
    """Where on the x axis the publication saw it, if the statement is about that place."""

    def at_position(self, position: float) -> Claim:
        """Returns the claim as one about a position on the x axis: before it, it cannot fail to hold."""
        return replace(self, position=position)

    def because(self, reason: str) -> Claim:
        """Returns the claim with the reason why it does not come out."""
        return replace(self, otherwise=reason)

    def judge(self, results: Results) -> Verdict:
        """Checks the claim. If what it is about was not measured, the verdict is that it was not checked."""
        try:
            held, seen = self.check(results)
        except KeyError as missing:
            return Verdict(self.text, "not checked", f"not measured: {missing}")
        if held is False:
            xs = [x for x in results.xs() if not isinstance(x, str)]
            if self.position is not None and xs and max(xs) < self.position:
                seen = f"{seen}; published for {self.position:,.0f}"
                return Verdict(self.text, "not reached", seen, self.otherwise)
            return Verdict(self.text, "not held", seen, self.otherwise)
        return Verdict(self.text, "not checked" if held is None else "held", seen)


@dataclass(frozen=True, slots=True)
class Figure:
    """The drawing of an experiment: axes as in the original."""

    x_label: str
    y_label: str = "MQPT (ms)"
    metric: str = MQPT
    kind: Literal["lines", "stacked", "bars"] = "lines"
    stack: tuple[str, ...] = ()
    """For ``stacked``: the metrics to stack, bottom first."""


@dataclass(frozen=True, slots=True)
class Table:
    """The layout of an experiment: a row per (series, x), a column per metric; titles by metric."""

    columns: Mapping[str, str]
    x_label: str = ""


def _is_at(x: X, position: str) -> bool:
    """Whether a place on the x axis is the one written so: 1 and 1.0 are the same."""
    if isinstance(x, str):
        return x == position
    try:
        return float(position) == x
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Experiment:
    """A figure or table of a publication, to be measured again."""

    id: str
    title: str
    source: str
    settings: str
    """The parameters in words; those of ``small`` are smaller than published, the report shows both."""
    sweep: Mapping[Scale, Sequence[Point]]
    measure: Callable[[Point], list[Measured]]
    shows: Figure | Table
    claims: tuple[Claim, ...]
    published: str
    """The published numbers, for the eye: absolute times are those of the hardware of their day."""
    notes: str = ""
    dtd: str = ""
    """Name of the bundled DTD that stands for a real one (see ``variants``)."""
    extra_tables: tuple[Table, ...] = field(default=())
    spread: Callable[[Point, Tasks], list[Measured]] | None = None
    """For points too large for one task: measures one of them in parts."""

    def with_messages(self, count: int) -> Experiment:
        """Returns the experiment with so many messages at each point that takes any, to take less time."""

        def limited(point: Point) -> Point:
            taken = {"documents": count} if point.parameters.get("documents") else {}
            return Point(point.x, {**point.parameters, **taken})

        sweep: dict[Scale, list[Point]] = {scale: list(map(limited, points)) for scale, points in self.sweep.items()}
        return replace(self, sweep=sweep)

    def at(self, positions: Collection[str]) -> Experiment:
        """Returns the experiment with the points at these positions on the x axis alone."""

        def chosen(points: Sequence[Point]) -> list[Point]:
            return [point for point in points if any(_is_at(point.x, position) for position in positions)]

        return replace(self, sweep={scale: chosen(points) for scale, points in self.sweep.items()})

    def judge(self, results: Results) -> list[Verdict]:
        """Returns a verdict on every claim."""
        return [claim.judge(results) for claim in self.claims]


@dataclass(frozen=True, slots=True)
class Illustration:
    """A figure or table without measurements: a drawing or a worked example, and where Twigcast has it."""

    id: str
    title: str
    source: str
    where: str
