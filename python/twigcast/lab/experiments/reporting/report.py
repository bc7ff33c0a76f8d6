"""One self-contained HTML page: every figure and table, the verdicts on the claims, the numbers behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median

from twigcast.lab.experiments.framework.model import (
    Experiment,
    Figure,
    Held,
    Illustration,
    Results,
    Scale,
    Table,
    Verdict,
    X,
)
from twigcast.lab.experiments.framework.store import StoredRun
from twigcast.lab.experiments.reporting import plots
from twigcast.lab.experiments.reporting.headline import Headline, headline
from twigcast.lab.experiments.reporting.report_style import STYLE

BADGES: Mapping[Held, str] = {
    "held": "the statement came out here",
    "not held": "it did not; the card says why",
    "not reached": "it is about a place further right than this run goes",
    "not checked": "what it is about was not measured, or there was nothing that could fail",
}
"""The verdicts, and what they mean."""

HEAD = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Twigcast: published figures, measured again</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>
<header><h1>Published figures, measured again</h1>
<p class="lead">The filtering and transformation experiments of Diao (2005) and Dai (2009), run on the published
algorithms as readable Python, with Twigcast's compiled engine on the same workload; the automaton distributed over a
Chord ring of Miliaraki et al. (2008) and the cooperative trees of CoDD, run on one deterministic simulator. Absolute
times of 2001 to 2009 are context: what is judged is the order of the curves, ratios, slopes and crossings.</p>
"""

FOOT = """</main><footer>Each point is one Spark task. Result sets of all filtering and rewriting series were compared
with libxml2 and with each other before anything was timed. Times are medians; the range is that of all repetitions.
Overlays are measured in hops, messages and bytes of the simulator, which are the same on every machine.</footer></body>
</html>
"""


def write_report(
    path: Path, experiments: Sequence[Experiment], runs: Iterable[StoredRun], illustrations: Sequence[Illustration]
) -> None:
    """Writes the page.

    Args:
        path: the file.
        experiments: all that there are; those without a run are listed as such.
        runs: what has been measured.
        illustrations: figures and tables without measurements.
    """
    by_id: dict[str, list[StoredRun]] = {}
    for run in runs:
        by_id.setdefault(run.experiment, []).append(run)
    page = "".join(_page(experiments, by_id, illustrations))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def _page(
    experiments: Sequence[Experiment], runs: Mapping[str, Sequence[StoredRun]], illustrations: Sequence[Illustration]
) -> Iterable[str]:
    judged = {
        (run.experiment, run.scale): experiment.judge(run.results, run.scale)
        for experiment in experiments
        for run in runs.get(experiment.id, ())
    }
    yield HEAD
    yield _tally(headline(judged))
    yield _machine([run for some in runs.values() for run in some])
    yield "</header><main>"
    yield from _overview(experiments, runs, judged)
    for experiment in experiments:
        for run in runs.get(experiment.id, ()):
            yield from _card(experiment, run, judged[run.experiment, run.scale])
    yield from _illustrations(illustrations)
    yield FOOT


def _tally(counted: Headline) -> str:
    counts = {held: counted.published.get(held, 0) for held in BADGES}
    tiles = (
        f'<div class="tile {_slug(held)}"><b>{count}</b><span>{held}</span><small>{BADGES[held]}</small></div>'
        for held, count in counts.items()
    )
    said = f"{counted.total} published statements, each counted once: at the published size where it was run there."
    if counted.ours:
        said += f" {counted.ours} conjectures of ours, marked so, are not among them."
    return f'<div class="tiles">{"".join(tiles)}</div><p>{said}</p>'


def _slug(text: str) -> str:
    return text.replace(" ", "-")


def _machine(runs: Sequence[StoredRun]) -> str:
    if not runs:
        return "<p>Nothing has been run yet: <code>twigcast experiment run all</code></p>"
    return f'<p class="machine">{_run_text(max(runs, key=lambda run: str(run.about["time"])))}</p>'


def _run_text(run: StoredRun) -> str:
    """Where and when a run was made."""
    about = run.about
    return (
        f"{escape(str(about['machine']))} &middot; Python {escape(str(about['python']))} &middot; "
        f"{escape(str(about['time'])[:10])} &middot; runner {escape(str(about['runner']))}"
    )


def _overview(
    experiments: Sequence[Experiment],
    runs: Mapping[str, Sequence[StoredRun]],
    judged: Mapping[tuple[str, Scale], Sequence[Verdict]],
) -> Iterable[str]:
    yield '<section class="card"><h2>Overview</h2><table class="overview"><thead><tr><th>id</th><th>what</th>'
    yield "<th>published claims</th></tr></thead><tbody>"
    for experiment in (experiment for experiment in experiments if runs.get(experiment.id)):
        stored = runs[experiment.id]
        dots = "".join(_dots(run, judged[run.experiment, run.scale]) for run in stored)
        link = f'<a href="#{_anchor(stored[0])}">{escape(experiment.id)}</a>'
        yield f"<tr><td>{link}</td><td>{escape(experiment.title)}</td><td>{dots}</td></tr>"
    yield "</tbody></table>"
    waiting = [experiment for experiment in experiments if not runs.get(experiment.id)]
    if waiting:
        rows = "".join(f"<li>{escape(e.id)}: {escape(e.title)}</li>" for e in waiting)
        yield f"<details><summary>{len(waiting)} not run</summary><ul>{rows}</ul></details>"
    yield "</section>"


def _dots(run: StoredRun, verdicts: Sequence[Verdict]) -> str:
    """A mark per statement, with a sign beside the colour for those who do not see it."""
    signs = {"held": "&#10003;", "not held": "&#10005;", "not reached": "&#8230;", "not checked": "?"}
    marks = "".join(
        f'<span class="dot {_slug(v.held)}" title="{escape(v.claim)}: {v.held}">{signs[v.held]}</span>'
        for v in verdicts
    )
    return f'<a class="run" href="#{_anchor(run)}"><small>{run.scale}</small>{marks}</a>'


def _anchor(run: StoredRun) -> str:
    return f"{run.experiment}-{run.scale}"


def _card(experiment: Experiment, run: StoredRun, verdicts: Sequence[Verdict]) -> Iterable[str]:
    yield f'<section class="card" id="{_anchor(run)}"><div class="head"><h2>{escape(experiment.title)}</h2>'
    yield f'<span class="id">{escape(experiment.id)}</span><span class="scale">{run.scale} scale</span></div>'
    yield f'<p class="source">{escape(experiment.source)} &middot; {escape(experiment.settings)}<br>'
    yield f"Here: {escape(_measured_settings(experiment, run))}</p>"
    if isinstance(experiment.shows, Figure):
        kind = "panel" if experiment.shows.kind == "lines" else "panel wide"
        drawings = "".join(f'<div class="{kind}">{panel}</div>' for panel in plots.panels(experiment, run.results))
        yield f'<div class="figure">{drawings}</div>{plots.legend(experiment, run.results)}'
    else:
        yield _table(experiment.shows, run.results)
    for table in experiment.extra_tables:
        yield _table(table, run.results, experiment.shows.x_label)
    yield '<ul class="verdicts">'
    for verdict in verdicts:
        yield f'<li><span class="badge {_slug(verdict.held)}">{verdict.held}</span>'
        ours = " <small>(a conjecture of ours)</small>" if verdict.ours else ""
        why = f"<p>Why: {escape(verdict.why)}</p>" if verdict.why else ""
        yield f"<div><b>{escape(verdict.claim)}</b>{ours}<br><small>{escape(verdict.seen)}</small>{why}</div></li>"
    yield f'</ul><p class="published"><b>Published.</b> {escape(experiment.published)}</p>'
    if experiment.notes:
        yield f'<p class="notes">{escape(experiment.notes)}</p>'
    yield f"<details><summary>All numbers ({run.about['points']} points, {run.about['seconds']} s)</summary>"
    yield f'<p class="machine"><code>{escape(str(run.about.get("command", "")))}</code> &middot; {_run_text(run)}</p>'
    yield from _all_numbers(run.results)
    yield "</details></section>"


def _measured_settings(experiment: Experiment, run: StoredRun) -> str:
    """What was measured in this run, in words: the places on the x axis, and the sizes that differ with the scale."""
    xs = list(dict.fromkeys(x for series in run.results.series() for x in run.results.xs(series) if x != ""))
    shows = experiment.shows
    label = shows.x_label
    parts = [f"{label or 'points'} {', '.join(map(_number, xs))}"] if xs else [f"{run.about['points']} points"]
    parameters = experiment.sweep[run.scale][0].parameters
    varied = {point.parameters.get("queries") for point in experiment.sweep[run.scale]}
    if len(varied) == 1 and "queries" in parameters:
        parts.append(f"{parameters['queries']:,} queries")
    messages = run.about.get("messages") or parameters.get("documents")
    if messages:
        parts.append(f"{messages:,} messages")
    return "; ".join(parts)


def _table(table: Table, results: Results, otherwise: str = "") -> str:
    """``otherwise``: what x is called where the table does not say and has more than one of a series."""
    several = any(len(results.xs(series, metric)) > 1 for series in results.series() for metric in table.columns)
    x_label = table.x_label or (otherwise if several else "")
    head = "".join(f"<th>{escape(title)}</th>" for title in table.columns.values())
    rows = []
    for series in results.series():
        for x in results.xs(series):
            cells = [results.samples(series, x, metric) for metric in table.columns]
            if not any(cells):
                continue
            values = "".join(f"<td>{_median(results, series, x, m)}</td>" for m in table.columns)
            label = f"<td>{escape(series)}</td>" + (f"<td>{_number(x)}</td>" if x_label else "")
            rows.append(f"<tr>{label}{values}</tr>")
    x_head = f"<th>{escape(x_label)}</th>" if x_label else ""
    return (
        f'<div class="scroll"><table class="numbers"><thead><tr><th></th>{x_head}{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _median(results: Results, series: str, x: X, metric: str) -> str:
    return _number(results.value(series, x, metric)) if results.samples(series, x, metric) else ""


def _number(value: X) -> str:
    if isinstance(value, str):
        return escape(value)
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.2g}"


def _all_numbers(results: Results) -> Iterable[str]:
    for series in results.series():
        metrics = [m for m in results.metrics() if results.xs(series, m)]
        head = "".join(f"<th>{escape(plots.label_of(metric))}</th>" for metric in metrics)
        yield f'<div class="scroll"><table class="numbers"><thead><tr><th>{escape(series)}</th>{head}</tr></thead>'
        yield "<tbody>"
        for x in results.xs(series):
            cells = "".join(f"<td>{_cell(results.samples(series, x, m))}</td>" for m in metrics)
            yield f"<tr><td>{_number(x)}</td>{cells}</tr>"
        yield "</tbody></table></div>"


def _cell(samples: Sequence[float]) -> str:
    if not samples:
        return ""
    middle = median(samples)
    if len(samples) == 1:
        return _number(middle)
    return f"{_number(middle)}<small>{_number(min(samples))}&#8211;{_number(max(samples))}</small>"


def _illustrations(illustrations: Sequence[Illustration]) -> Iterable[str]:
    yield '<section class="card"><h2>Figures and tables without measurements</h2><table class="overview"><thead><tr>'
    yield "<th>id</th><th>what</th><th>source</th><th>in Twigcast</th></tr></thead><tbody>"
    for item in illustrations:
        yield f"<tr><td>{escape(item.id)}</td><td>{escape(item.title)}</td><td>{escape(item.source)}</td>"
        yield f"<td>{escape(item.where)}</td></tr>"
    yield "</tbody></table></section>"
