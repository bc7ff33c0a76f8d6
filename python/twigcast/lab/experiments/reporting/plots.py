"""Figures with axes like the originals: as published, and beside it the same on a logarithmic scale.

Each panel is a drawing of its own, so that a page can put them beside each other or, on a phone, one below the other.
The legend is HTML, for the same reason.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from twigcast.lab.experiments.framework.matchers import ENGINE
from twigcast.lab.experiments.framework.model import Experiment, Figure, Results, X

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = ("#3b6fb6", "#d9822b", "#4a9a5b", "#a34fa0", "#8a6d3b", "#5f7f8f", "#c2566e", "#7a7f2a")
ENGINE_COLOUR = "#111827"
MARKERS = "osD^vP*X"
DASHES = {"-": "", "--": "7 3", "-.": "7 2 2 2", ":": "2 3"}
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "oo")
PANEL = (5.0, 3.4)
"""Size of a panel in inches; a page scales it to its own."""


def panels(experiment: Experiment, results: Results) -> list[str]:
    """Returns the drawings of an experiment's figure as SVG texts.

    Raises:
        ValueError: the experiment shows a table.
    """
    shows = _figure(experiment)
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]  # its keys are literals
        if shows.kind != "lines":
            return [_svg(plt, _bars(plt, shows, results))]
        return [_svg(plt, _lines(plt, shows, results, logarithmic)) for logarithmic in (False, True)]


def legend(experiment: Experiment, results: Results) -> str:
    """Returns the colours and marks of the drawings as HTML; empty if there is one series only.

    Raises:
        ValueError: the experiment shows a table.
    """
    shows = _figure(experiment)
    series = _drawn(shows, results)
    samples = _colours(series)
    if shows.kind == "lines":
        keys = [(_line_key(*samples[name]), name) for name in series]
    else:
        stack = shows.stack or (shows.metric,)
        keys = [
            (_bar_key(samples[name][0], level, len(stack)), f"{name}: {label_of(metric)}" if len(stack) > 1 else name)
            for name in series
            for level, metric in enumerate(stack)
        ]
    if len(keys) < 2:
        return ""
    kind = "legend many" if len(keys) > 6 else "legend"
    return f'<div class="{kind}">{"".join(f"<span>{key}{escape(text)}</span>" for key, text in keys)}</div>'


def _figure(experiment: Experiment) -> Figure:
    if not isinstance(experiment.shows, Figure):
        raise ValueError(f"{experiment.id} shows a table")
    return experiment.shows


def _svg(plt: Any, figure: Any) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)
    text = out.getvalue()
    return text[text.index("<svg") :]


_SHAPES = {
    "o": '<circle cx="15" cy="6" r="3"/>',
    "s": '<rect x="12" y="3" width="6" height="6"/>',
    "D": '<path d="M15 2l4 4-4 4-4-4z"/>',
    "^": '<path d="M15 2l4 7h-8z"/>',
    "v": '<path d="M15 10l4-7h-8z"/>',
    "P": '<path d="M14 2h2v3h3v2h-3v3h-2v-3h-3v-2h3z"/>',
    "*": '<path d="M15 1l1.3 3.4 3.7.2-2.9 2.3 1 3.6-3.1-2-3.1 2 1-3.6L10 4.6l3.7-.2z"/>',
    "X": '<path d="M12 2l3 3 3-3 1 1-3 3 3 3-1 1-3-3-3 3-1-1 3-3-3-3z"/>',
}


def _line_key(colour: str, marker: str, style: str) -> str:
    line = f'<path d="M1 6h40" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{DASHES[style]}"/>'
    key = f'<svg width="42" height="12" fill="{colour}" aria-hidden="true">{line}'
    return f'{key}<g transform="translate(6)">{_SHAPES[marker]}</g></svg>'


def _bar_key(colour: str, level: int, levels: int) -> str:
    alpha = _alpha(level, levels)
    lines = '<path d="M0 12L12 0M8 12L20 0M16 12L22 6" stroke="#fff"/>' if level else ""
    return (
        f'<svg width="22" height="12" aria-hidden="true"><rect width="22" height="12" fill="{colour}" '
        f'fill-opacity="{alpha:.2f}"/>{lines}</svg>'
    )


def _alpha(level: int, levels: int) -> float:
    return 1 - 0.5 * level / max(1, levels - 1)


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
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


def _colours(series: Sequence[str]) -> dict[str, tuple[str, str, str]]:
    """Colour, marker and line style per series. Series of one contender in several settings share a colour."""
    contenders = list(dict.fromkeys(_contender(name) for name in series if _contender(name) != ENGINE))
    styles = ("-", "--", "-.", ":")
    seen: dict[str, int] = {}
    results = {}
    for name in series:
        contender = _contender(name)
        position = seen.get(contender, 0)
        seen[contender] = position + 1
        number = contenders.index(contender) if contender != ENGINE else 0
        colour = ENGINE_COLOUR if contender == ENGINE else PALETTE[number % len(PALETTE)]
        results[name] = (colour, MARKERS[(number if contender != ENGINE else 6) % len(MARKERS)], styles[position % 4])
    return results


def _contender(series: str) -> str:
    """``YFilter`` of ``YFilter, NP = 2``; ``BFilter, as published`` stays whole."""
    head, _, rest = series.partition(", ")
    if rest.startswith("as published"):
        return f"{head}, as published"
    return head


def _drawn(shows: Figure, results: Results) -> list[str]:
    """The series that have what the figure shows; of a stack, its bottom and its top."""
    if shows.kind == "lines":
        return results.series(shows.metric)
    stack = shows.stack or (shows.metric,)
    return [name for name in results.series(stack[0]) if name in results.series(stack[-1])]


def _lines(plt: Any, shows: Figure, results: Results, logarithmic: bool) -> Any:
    series = _drawn(shows, results)
    looks = _colours(series)
    figure, axes = plt.subplots(figsize=PANEL)
    for name in series:
        colour, marker, style = looks[name]
        xs = [_x_position(x, number) for number, x in enumerate(results.xs(name, shows.metric))]
        ys = [y for _, y in results.curve(name, shows.metric)]
        spreads = [results.samples(name, x, shows.metric) for x in results.xs(name, shows.metric)]
        width = 2.2 if _contender(name) == ENGINE else 1.6
        axes.plot(xs, ys, style, color=colour, marker=marker, markersize=4, linewidth=width)
        if len(series) <= 6 and all(len(samples) > 1 for samples in spreads):
            axes.fill_between(xs, list(map(min, spreads)), list(map(max, spreads)), color=colour, alpha=0.13, lw=0)
    axes.set_xlabel(shows.x_label)
    axes.set_ylabel(shows.y_label)
    positive = [y for name in series for _, y in results.curve(name, shows.metric) if y > 0]
    if not logarithmic:
        axes.set_ylim(bottom=0)
        _thousands(axes)
    elif positive:
        _logarithmic(axes, positive)
    axes.set_title("logarithmic" if logarithmic else "as in the original", fontsize=9, color="#6b7280", loc="right")
    _number_axis(axes, results, series[0], shows.metric)
    return figure


def _thousands(axes: Axes) -> None:
    """Large numbers with separators, on a linear axis."""
    if axes.get_ylim()[1] >= 10_000:
        axes.yaxis.set_major_formatter(lambda value, _position: f"{value:,.0f}")


def _logarithmic(axes: Axes, values: Sequence[float]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    narrow = max(values) < 30 * min(values)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,)))
    axes.yaxis.set_major_formatter(lambda value, _position: f"{value:,g}" if value >= 1 else f"{value:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def _x_position(x: X, number: int) -> float:
    return number if isinstance(x, str) else x


def _number_axis(axes: Axes, results: Results, series: str, metric: str) -> None:
    xs = results.xs(series, metric)
    if any(isinstance(x, str) for x in xs):
        axes.set_xticks(range(len(xs)), [str(x) for x in xs])
    elif max(float(x) for x in xs) >= 1000:
        axes.xaxis.set_major_formatter(lambda value, _position: f"{value / 1000:g}K" if value else "0")
    elif len(xs) <= 8:
        axes.set_xticks([float(x) for x in xs])


def _bars(plt: Any, shows: Figure, results: Results) -> Any:
    """Bars side by side per x, perhaps stacked from several metrics, with their heights where there is room."""
    stack = shows.stack or (shows.metric,)
    series = _drawn(shows, results)
    samples = _colours(series)
    xs = results.xs(series[0], stack[0])
    figure, axes = plt.subplots(figsize=(min(9.6, max(PANEL[0], 0.8 * len(xs) * len(series))), PANEL[1]))
    width = 0.8 / len(series)
    for position, name in enumerate(series):
        left = [number - 0.4 + width * (position + 0.5) for number in range(len(xs))]
        bottom = [0.0] * len(xs)
        for level, metric in enumerate(stack):
            heights = [_or_zero(results, name, x, metric) for x in xs]
            axes.bar(
                left,
                heights,
                width * 0.92,
                bottom=bottom,
                color=samples[name][0],
                alpha=_alpha(level, len(stack)),
                hatch=HATCHES[level % len(HATCHES)],
                edgecolor="white",
                linewidth=0.4,
            )
            bottom = [b + h for b, h in zip(bottom, heights, strict=True)]
        if len(xs) * len(series) <= 16:
            for x, height in zip(left, bottom, strict=True):
                text = f"{height:.3g}" if height < 1000 else f"{height:,.0f}"
                axes.annotate(text, (x, height), (0, 2), textcoords="offset points", ha="center", fontsize=7.5)
    axes.set_xticks(range(len(xs)), [x if isinstance(x, str) else f"{x:,g}" for x in xs])
    axes.set_xlabel(shows.x_label)
    axes.set_ylabel(shows.y_label)
    _thousands(axes)
    axes.grid(axis="x", visible=False)
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
    """Returns the metric's name for people."""
    return LABELS.get(metric, metric.removeprefix("ms: ").replace("_", " "))
