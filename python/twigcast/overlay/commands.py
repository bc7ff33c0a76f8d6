"""``twigcast overlay simulate chord | codd | onyx``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twigcast.errors import MissingExtra, TwigcastError

if TYPE_CHECKING:
    from twigcast.overlay.simulate import Report

app = typer.Typer(no_args_is_help=True, help="Networks of peers: run them in the simulator.")
simulations = typer.Typer(no_args_is_help=True, help="Simulate a network, print its measures, draw it.")
app.add_typer(simulations, name="simulate")

Nodes = Annotated[int, typer.Option("--nodes", "-n", help="How many nodes.")]
Crashes = Annotated[int, typer.Option(help="Nodes that crash on the way.")]
Loss = Annotated[float, typer.Option(help="Probability that the network loses a message.")]
Seed = Annotated[int, typer.Option(help="The same seed gives the same run, message for message.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the drawings (SVG) and the measures.")]
Keep = Annotated[bool, typer.Option("--journal", help="Write every message to journal.jsonl in the output folder.")]


def register(parent: typer.Typer) -> None:
    """Add ``overlay`` to the command line."""
    parent.add_typer(app, name="overlay")


@simulations.command("chord")
def chord_command(
    nodes: Nodes = 100,
    queries: Annotated[int, typer.Option(help="Subscriptions.")] = 200,
    publications: Annotated[int, typer.Option(help="Messages.")] = 20,
    virtual_nodes: Annotated[int, typer.Option(help="Places of each peer on the ring.")] = 1,
    levels: Annotated[int, typer.Option(help="Symbols a peer consumes by itself (the paper's l).")] = 0,
    replicas: Annotated[int, typer.Option(help="Peers that hold each state; at least 3 with crashes or loss.")] = 1,
    shedding: Annotated[bool, typer.Option("--shedding", help="Replicate hot states.")] = False,
    crashes: Crashes = 0,
    loss: Loss = 0.0,
    seed: Seed = 0,
    output: Output = None,
    journal: Keep = False,
) -> None:
    """The filtering automaton on a Chord ring."""

    def run() -> Report:
        from twigcast.overlay.simulate import simulate_chord

        return simulate_chord(
            nodes,
            queries=queries,
            publications=publications,
            crashes=crashes,
            virtual_nodes=virtual_nodes,
            levels=levels,
            replicas=replicas,
            shedding=shedding,
            loss=loss,
            seed=seed,
            keep_journal=journal,
        )

    _show(run, output, journal)


@simulations.command("codd")
def codd_command(
    nodes: Nodes = 100,
    documents: Annotated[int, typer.Option(help="Length of the stream.")] = 500,
    fan_out: Annotated[int, typer.Option(help="Most children of a node.")] = 6,
    reorganise: Annotated[bool, typer.Option(help="Move subtrees to better places.")] = True,
    reorganise_after: Annotated[int, typer.Option(help="Documents between two requests of a node.")] = 200,
    crashes: Crashes = 0,
    loss: Loss = 0.0,
    seed: Seed = 0,
    output: Output = None,
    journal: Keep = False,
) -> None:
    """Cooperative dissemination trees."""

    def run() -> Report:
        from twigcast.overlay.simulate import simulate_codd

        return simulate_codd(
            nodes,
            documents=documents,
            fan_out=fan_out,
            crashes=crashes,
            reorganise=reorganise,
            reorganise_after=reorganise_after,
            loss=loss,
            seed=seed,
            keep_journal=journal,
        )

    _show(run, output, journal)


@simulations.command("onyx")
def onyx_command(
    nodes: Nodes = 30,
    queries: Annotated[int, typer.Option(help="Subscriptions.")] = 1_000,
    publications: Annotated[int, typer.Option(help="Messages.")] = 200,
    sources: Annotated[int, typer.Option(help="Brokers at which they are published.")] = 5,
    locality: Annotated[float, typer.Option(help="Share of the wishes that are about what is near.")] = 0.5,
    churn: Annotated[float, typer.Option(help="Share of the subscriptions that are replaced on the way.")] = 0.0,
    crashes: Crashes = 0,
    cuts: Annotated[int, typer.Option(help="Links that are cut for a while.")] = 0,
    shared_tree: Annotated[bool, typer.Option("--shared-tree", help="One tree for all sources.")] = False,
    loss: Loss = 0.0,
    seed: Seed = 0,
    output: Output = None,
    journal: Keep = False,
) -> None:
    """Brokers that route by content."""

    def run() -> Report:
        from twigcast.overlay.simulate import simulate_onyx

        return simulate_onyx(
            nodes,
            queries=queries,
            publications=publications,
            sources=sources,
            locality=locality,
            churn=churn,
            crashes=crashes,
            cuts=cuts,
            shared_tree=shared_tree,
            loss=loss,
            seed=seed,
            keep_journal=journal,
        )

    _show(run, output, journal)


def _show(run: Callable[[], Report], output: Path | None, journal: bool) -> None:
    try:
        if journal and output is None:
            raise typer.BadParameter("--journal needs --output")
        report = run()
        print(report.text())
        if output is not None:
            _write(report, output)
    except ModuleNotFoundError as error:
        raise _fail(MissingExtra(error.name or "pyroaring", "overlay")) from error
    except (TwigcastError, OSError) as error:
        raise _fail(error) from error


def _write(report: Report, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in report.drawings.items():
        (folder / name).write_text(drawing, encoding="utf-8")
    (folder / "measures.json").write_text(json.dumps(report.measures, indent=2) + "\n", encoding="utf-8")
    if report.journal is not None:
        with (folder / "journal.jsonl").open("w", encoding="utf-8") as file:
            report.journal.write(file)


def _fail(error: Exception) -> typer.Exit:
    print(f"twigcast: {error}", file=sys.stderr)
    return typer.Exit(2)
