"""An experiment: a sweep declared as data, a measurement of one point, a figure or table, and claims.

An experiment reproduces one figure or table of a publication. Its points are plain data; each is measured by one task,
on Spark or here; the measurement is a list of samples per (series, x, metric), and the figure, the verdicts and the
report are made from the stored samples.
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
"""``not reached``: the statement is about a place on the x axis, or a size, beyond what was measured, and does not hold
before it; ``not checked``: what it is about was not measured, or nothing could fail (no match to lose)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict on a published claim: whether it held, and the numbers seen."""

    claim: str
    held: Held
    seen: str
    why: str = ""
    """Why it did not come out, as far as we know."""
    ours: bool = False
    """The statement is a conjecture of ours, not a published one: it is shown and not counted."""


Check = Callable[[Results], tuple[bool | None, str]]
"""Looks at the results; returns whether the claim held (``None``: they do not show it), and the numbers seen."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A published statement and how to check it."""

    text: str
    check: Check
    otherwise: str = ""
    """Why it does not hold, if it does not."""
    position: float | None = None
    """Where on the x axis the publication saw it, if the statement is about that place."""
    size: tuple[str, float] | None = None
    """A parameter that is not on the x axis, and its published value, if the statement is about that size."""
    ours: bool = False
    """A conjecture of ours, not a published statement."""
    rule: str = ""
    """How it is checked, in words, with the metric; the reader of a custom check finds the function there."""

    def at_position(self, position: float) -> Claim:
        """Returns the claim as one about a position on the x axis: before it, it cannot fail to hold."""
        return replace(self, position=position)

    def at_size(self, parameter: str, published: float) -> Claim:
        """Returns the claim as one about a size that is not on the x axis: below it, it cannot fail to hold."""
        return replace(self, size=(parameter, published))

    def conjectured(self) -> Claim:
        """Returns the claim as a conjecture of ours, which no publication states."""
        return replace(self, ours=True)

    def because(self, reason: str) -> Claim:
        """Returns the claim with the reason why it does not hold."""
        return replace(self, otherwise=reason)

    def judge(self, results: Results, parameters: Mapping[str, Any] | None = None) -> Verdict:
        """Returns the verdict; ``not checked`` if what the claim is about was not measured, or is nothing at all.

        Args:
            results: What was measured.
            parameters: Those of the run that do not vary over the x axis.
        """
        try:
            held, seen = self.check(results)
        except KeyError as missing:
            beyond = self._not_reached(results, parameters or {})
            seen = f"not measured: {missing}" + (f"; {beyond}" if beyond else "")
            return Verdict(self.text, "not reached" if beyond else "not checked", seen, ours=self.ours)
        if held is not False:
            return Verdict(self.text, "not checked" if held is None else "held", seen, ours=self.ours)
        missed = self._not_reached(results, parameters or {})
        if missed:
            return Verdict(self.text, "not reached", f"{seen}; {missed}", self.otherwise, self.ours)
        return Verdict(self.text, "not held", seen, self.otherwise, self.ours)

    def _not_reached(self, results: Results, parameters: Mapping[str, Any]) -> str:
        """What the run lacks to the place that the statement is about; empty if it is there."""
        xs = [x for x in results.xs() if not isinstance(x, str)]
        if self.position is not None and xs and max(xs) < self.position:
            return f"published for {self.position:,.0f}"
        if self.size is not None:
            name, published = self.size
            if parameters.get(name, published) < published:
                return f"published for {published:,.0f} {name}, here {parameters[name]:,.0f}"
        return ""


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
    """The published numbers, for comparison: absolute times are those of the hardware of their day."""
    notes: str = ""
    dtd: str = ""
    """Name of the bundled DTD that replaces a real one (see ``variants``)."""
    extra_tables: tuple[Table, ...] = field(default=())
    ours: bool = False
    """No publication has this experiment, so that all its claims are conjectures of ours."""
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

    def judge(self, results: Results, scale: Scale = "paper") -> list[Verdict]:
        """Returns a verdict on every claim, for a run at one scale."""
        points = self.sweep[scale]
        claims = [claim.conjectured() for claim in self.claims] if self.ours else self.claims
        return [claim.judge(results, points[0].parameters if points else {}) for claim in claims]


@dataclass(frozen=True, slots=True)
class Illustration:
    """A figure or table without measurements: a drawing or a worked example, and where Twigcast has it."""

    id: str
    title: str
    source: str
    where: str
