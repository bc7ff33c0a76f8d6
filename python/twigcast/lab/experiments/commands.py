"""``twigcast experiment list | run | report``."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from twigcast.errors import MissingExtra, TwigcastError
from twigcast.lab.experiments.framework.model import SCALES, Experiment, Scale

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoSuchPointError(TwigcastError, LookupError):
    """An experiment has no point at a place on the x axis."""

    code = "no-such-point"


app = typer.Typer(no_args_is_help=True, help="Measure the published figures and tables again.")

Results = Annotated[Path, typer.Option("--results", help="Folder of the stored results.")]
DEFAULT_RESULTS = Path("experiment-results")


def register(parent: typer.Typer) -> None:
    """Add ``experiment`` to the command line."""
    parent.add_typer(app, name="experiment")


@app.command("list")
def list_command() -> None:
    """Name every figure and table of the sources, and what each shows."""
    registry = _registry()
    rows = [(e.id, "measured", e.title, e.source) for e in registry.experiments()]
    rows += [(i.id, "shown in", f"{i.title}: {i.where}", i.source) for i in registry.illustrations()]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, kind, title, source in rows:
        print(f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {title}  ({source})")


@app.command("run")
def run_command(
    ids: Annotated[
        list[str], typer.Argument(help="Which: ids (D-F4.6, ...), prefixes with *, chord, codd, onyx, or all.")
    ],
    scale: Annotated[str, typer.Option(help="'small': minutes on two cores; 'paper': the published sizes.")] = "small",
    results: Results = DEFAULT_RESULTS,
    master: Annotated[str, typer.Option(help="Spark master; each point is a task.")] = "local[*]",
    here: Annotated[bool, typer.Option("--here", help="Run in this process, without Spark.")] = False,
    nitf: Annotated[Path | None, typer.Option(help="Folder with the real NITF DTD and documents.")] = None,
    messages: Annotated[
        int | None, typer.Option(min=1, help="Messages per point, instead of those of the scale: shorter means.")
    ] = None,
    at: Annotated[
        list[str] | None, typer.Option(help="Only the points at this place on the x axis; may be given again.")
    ] = None,
) -> None:
    """Run experiments and store their raw results as Parquet.

    The results replace those of an earlier run of the same experiment and scale,
    even if only some of its points or messages are requested.

    If the real NITF data is found, some experiments run on it too, under the same id with @nitf.
    """
    if scale not in SCALES:
        raise typer.BadParameter(f"scale is one of {', '.join(SCALES)}")
    chosen: Scale = "paper" if scale == "paper" else "small"
    _registry()
    from twigcast.lab.experiments.framework import runner

    try:
        selected = _with_variants(_select(ids), nitf)
        if messages is not None:
            selected = [experiment.with_messages(messages) for experiment in selected]
        if at:
            selected = [experiment.at(at) for experiment in selected]
            for experiment in selected:
                if not experiment.sweep[chosen]:
                    raise NoSuchPointError(f"{experiment.id} has no point at {', '.join(at)} at {scale} scale")
        results.mkdir(parents=True, exist_ok=True)
        spark = None if here else _spark(master, results / "spark.log")
        try:
            options = f"--messages {messages} " if messages is not None else ""
            options += "".join(f"--at {position} " for position in at or ())
            runner.run(selected, chosen, results, spark=spark, options=options)
        finally:
            if spark is not None:
                spark.stop()
    except (TwigcastError, OSError) as error:
        raise _fail(error) from error
    for experiment in selected:
        _print_verdicts(experiment, results / f"{experiment.id}.{chosen}.parquet")


@app.command("report")
def report_command(
    results: Results = DEFAULT_RESULTS,
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path("experiment-report.html"),
) -> None:
    """Write one self-contained HTML page with all figures, tables and verdicts."""
    registry = _registry()
    from twigcast.lab.experiments.framework import store
    from twigcast.lab.experiments.reporting.report import write_report

    try:
        runs = store.load_all(results)
        stored = {run.experiment for run in runs if "@" in run.experiment}
        shown = [
            shown
            for experiment in registry.experiments()
            for shown in (experiment, registry.experiment_by_id(f"{experiment.id}@nitf"))
            if shown is experiment or shown.id in stored
        ]
        write_report(output, shown, runs, registry.illustrations())
    except OSError as error:
        raise _fail(error) from error
    print(f"{output}: {len(runs)} runs")


def _registry() -> ModuleType:
    """All experiments; importing them needs the packages of the extra."""
    try:
        from twigcast.lab.experiments.framework import registry

        registry.experiments()
    except ModuleNotFoundError as error:
        raise _fail(MissingExtra(error.name or "lxml", "lab")) from error
    return registry


def _select(ids: list[str]) -> list[Experiment]:
    registry = _registry()
    selected: dict[str, Experiment] = {}
    for name in ids:
        name = f"{registry.GROUPS[name]}*" if name in registry.GROUPS else name
        prefix = "" if name == "all" else name.removesuffix("*").lower()
        if name == "all" or name.endswith("*"):
            results = [e for e in registry.experiments() if e.id.lower().startswith(prefix)]
            if not results:
                raise registry.UnknownExperimentError(f"no experiment starts with {prefix!r}")
        else:
            results = [registry.experiment_by_id(name)]
        selected.update((e.id, e) for e in results)
    return list(selected.values())


def _with_variants(selected: list[Experiment], nitf: Path | None) -> list[Experiment]:
    from twigcast.lab.experiments.framework.variants import ON_NITF, find_nitf, on_nitf

    folder = find_nitf(nitf)
    if folder is None:
        if nitf is not None:
            raise FileNotFoundError(f"{nitf} does not hold the NITF DTD")
        return [experiment for experiment in selected if "@" not in experiment.id]
    results: dict[str, Experiment] = {}
    for experiment in selected:
        base = _registry().experiment_by_id(experiment.id.partition("@")[0])
        if "@" not in experiment.id:
            results[experiment.id] = experiment
        if base.id in ON_NITF:
            variant = on_nitf(base, folder)
            results[variant.id] = variant
    return list(results.values())


def _spark(master: str, log: Path) -> SparkSession:
    try:
        from twigcast.spark.session import open_session
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name or "pyspark", "lab") from error
    return open_session(master, log=log)


def _print_verdicts(experiment: Experiment, path: Path) -> None:
    from twigcast.lab.experiments.framework import store

    print(f"\n{experiment.id}  {experiment.title}")
    run = store.load(path)
    for verdict in experiment.judge(run.results, run.scale):
        mark = "  (a conjecture of ours)" if verdict.ours else ""
        print(f"  {verdict.held:<11}  {verdict.claim}{mark}\n               {verdict.seen}")
        if verdict.why:
            print(f"               Why: {verdict.why}")


def _fail(error: Exception) -> typer.Exit:
    print(f"twigcast: {error}", file=sys.stderr)
    return typer.Exit(2)
