"""Figures with axes like the originals: on the left as published, on the right the same on a logarithmic scale."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twigcast.experiments.matchers import ENGINE
from twigcast.experiments.model import Experiment, Figure, Results, X

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#3b6fb6", "#d9822b", "#4a9a5b", "#a34fa0", "#8a6d3b", "#5f7f8f", "#c2566e", "#7a7f2a")
ENGINE_COLOUR = "#111827"
MARKERS = "osD^vP*X"
SHADES = (1.0, 0.45)


def svg(experiment: Experiment, results: Results) -> str:
    """The figure of an experiment as SVG text.

    Raises:
        ValueError: the experiment shows a table.
    """
    if not isinstance(experiment.shows, Figure):
        raise ValueError(f"{experiment.id} shows a table")
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # its keys are literals
        drawing = _lines if experiment.shows.kind == "lines" else _bars
        figure = drawing(plt, experiment.shows, results)
        out = io.StringIO()
        figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]


_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "twigcast",
    "font.family": "sans-serif",
    "font.sans-serif": ["Inter", "Helvetica Neue", "Arial", "DejaVu Sans", "sans-serif"],
    "font.size": 9.5,
    "axes.edgecolor": "#9ca3af",
    "axes.labelcolor": "#374151",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.7,
    "xtick.color": "#4b5563",
    "ytick.color": "#4b5563",
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def _colours(series: Sequence[str]) -> dict[str, tuple[str, str, str]]:
    """Colour, marker and line style per series. Series of one contender in several settings share a colour."""
    contenders = list(dict.fromkeys(_contender(name) for name in series if _contender(name) != ENGINE))
    styles = ("-", "--", "-.", ":")
    seen: dict[str, int] = {}
    found = {}
    for name in series:
        contender = _contender(name)
        place = seen.get(contender, 0)
        seen[contender] = place + 1
        number = contenders.index(contender) if contender != ENGINE else 0
        colour = ENGINE_COLOUR if contender == ENGINE else PALETTE[number % len(PALETTE)]
        found[name] = (colour, MARKERS[(number if contender != ENGINE else 6) % len(MARKERS)], styles[place % 4])
    return found


def _contender(series: str) -> str:
    """``YFilter`` of ``YFilter, NP = 2``; ``BFilter, as published`` stays whole."""
    head, _, rest = series.partition(", ")
    if rest.startswith("as published"):
        return f"{head}, as published"
    return head


def _lines(plt: Any, shows: Figure, results: Results) -> Any:
    series = results.series(shows.metric)
    looks = _colours(series)
    crowded = len(series) > 6
    figure, (linear, logarithmic) = plt.subplots(1, 2, figsize=(10.4, 3.5), gridspec_kw={"wspace": 0.22})
    for axes in (linear, logarithmic):
        for name in series:
            colour, marker, style = looks[name]
            xs = [_place(x, number) for number, x in enumerate(results.xs(name, shows.metric))]
            ys = [y for _, y in results.curve(name, shows.metric)]
            spreads = [results.samples(name, x, shows.metric) for x in results.xs(name, shows.metric)]
            width = 2.2 if _contender(name) == ENGINE else 1.6
            axes.plot(xs, ys, style, color=colour, marker=marker, markersize=4, linewidth=width, label=name)
            if not crowded and all(len(samples) > 1 for samples in spreads):
                axes.fill_between(xs, list(map(min, spreads)), list(map(max, spreads)), color=colour, alpha=0.13, lw=0)
        axes.set_xlabel(shows.x_label)
    linear.set_ylabel(shows.y_label)
    linear.set_ylim(bottom=0)
    if any(y > 0 for name in series for _, y in results.curve(name, shows.metric)):
        _logarithmic(logarithmic, [y for name in series for _, y in results.curve(name, shows.metric) if y > 0])
    logarithmic.set_title("logarithmic", fontsize=9, color="#6b7280", loc="right")
    linear.set_title("as in the original", fontsize=9, color="#6b7280", loc="right")
    _number_axes((linear, logarithmic), results, series[0], shows.metric)
    _legend(figure, linear, len(series))
    return figure


def _logarithmic(axes: Axes, values: Sequence[float]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    narrow = max(values) < 30 * min(values)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
    axes.yaxis.set_major_formatter(lambda value, _place: f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _legend(figure: Any, axes: Axes, count: int) -> None:
    handles, labels = axes.get_legend_handles_labels()
    columns = 3 if count in (5, 6) else min(count, 4)
    figure.legend(handles, labels, loc="upper center", ncol=columns, bbox_to_anchor=(0.5, -0.02), fontsize=8.5)


def _place(x: X, number: int) -> float:
    return number if isinstance(x, str) else x


def _number_axes(axes: Sequence[Axes], results: Results, series: str, metric: str) -> None:
    xs = results.xs(series, metric)
    for one in axes:
        if any(isinstance(x, str) for x in xs):
            one.set_xticks(range(len(xs)), [str(x) for x in xs])
        elif max(float(x) for x in xs) >= 1000:
            one.xaxis.set_major_formatter(lambda value, _place: f"{value / 1000:g}K" if value else "0")
        elif len(xs) <= 8:
            one.set_xticks([float(x) for x in xs])


def _bars(plt: Any, shows: Figure, results: Results) -> Any:
    """Bars side by side per x, perhaps stacked from several metrics; series that lack one of them are left out."""
    stack = shows.stack or (shows.metric,)
    series = [name for name in results.series(stack[0]) if name in results.series(stack[-1])]
    looks = _colours(series)
    xs = results.xs(series[0], stack[0])
    figure, axes = plt.subplots(figsize=(max(6.0, 1.1 * len(xs) * len(series)), 3.6))
    width = 0.8 / len(series)
    hatches = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oo")
    for place, name in enumerate(series):
        left = [number - 0.4 + width * (place + 0.5) for number in range(len(xs))]
        bottom = [0.0] * len(xs)
        for level, metric in enumerate(stack):
            heights = [_or_zero(results, name, x, metric) for x in xs]
            axes.bar(
                left,
                heights,
                width * 0.92,
                bottom=bottom,
                color=looks[name][0],
                alpha=1 - 0.5 * level / max(1, len(stack) - 1),
                hatch=hatches[level % len(hatches)],
                edgecolor="white",
                linewidth=0.4,
                label=f"{name}: {label_of(metric)}" if len(stack) > 1 else name,
            )
            bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
    axes.set_xticks(range(len(xs)), [x if isinstance(x, str) else f"{x:,g}" for x in xs])
    axes.set_xlabel(shows.x_label)
    axes.set_ylabel(shows.y_label)
    axes.grid(axis="x", visible=False)
    _legend(figure, axes, len(series) * len(stack))
    return figure


def _or_zero(results: Results, series: str, x: X, metric: str) -> float:
    return results.value(series, x, metric) if results.samples(series, x, metric) else 0.0


LABELS = {
    "mqpt_ms": "MQPT (ms)",
    "total_ms": "with parsing (ms)",
    "parsing_ms": "parsing (ms)",
    "indexing_ms": "indexing (ms)",
    "navigation_ms": "navigation (ms)",
    "collection_ms": "collection (ms)",
    "matched": "queries matched",
    "lost_matches": "matches lost",
    "false_matches": "false matches",
    "runtime_space": "space",
}


def label_of(metric: str) -> str:
    """The metric's name for people."""
    return LABELS.get(metric, metric.removeprefix("ms: ").replace("_", " "))
