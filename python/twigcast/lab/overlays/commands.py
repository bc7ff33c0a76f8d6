"""``twigcast overlay simulate``, with one command for each protocol."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from twigcast.errors import MissingExtra, TwigcastError
from twigcast.lab.overlays.options import PROTOCOLS, SimulatedProtocol, SimulationOptions

if TYPE_CHECKING:
    from twigcast.lab.overlays.simulations import Report

app = typer.Typer(no_args_is_help=True, help="Networks of peers: run a node of one, or simulate one.")
simulations = typer.Typer(no_args_is_help=True, help="Simulate a network, print its measures, draw it.")
app.add_typer(simulations, name="simulate")

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Folder for the drawings (SVG) and the measures.")]


def _add_command(name: str, protocol: SimulatedProtocol) -> None:
    """Add a command whose options are the fields of a dataclass, and a folder for its results."""

    def command(output: Path | None, **values: Any) -> None:
        options = protocol.options(**values)
        _show(lambda: _run(name, options), output, options.journal)

    hints = {**get_type_hints(protocol.options, include_extras=True), "output": Output}
    defaults = {**{field.name: field.default for field in fields(protocol.options)}, "output": None}
    command.__doc__ = protocol.summary
    command.__annotations__ = hints
    parameters = [Parameter(n, Parameter.KEYWORD_ONLY, default=defaults[n], annotation=hints[n]) for n in defaults]
    vars(command)["__signature__"] = Signature(parameters)
    simulations.command(name)(command)


def _run(name: str, options: SimulationOptions) -> Report:
    report: Report = import_module(f"twigcast.lab.overlays.{name}.simulate").simulate(options)
    return report


for _name, _protocol in PROTOCOLS.items():
    _add_command(_name, _protocol)


def _show(run: Callable[[], Report], output: Path | None, journal: bool) -> None:
    try:
        if journal and output is None:
            raise typer.BadParameter("--journal needs --output")
        if output is not None:
            output.mkdir(parents=True, exist_ok=True)
        report = run()
        print(report.text())
        if output is not None:
            _write(report, output)
    except ModuleNotFoundError as error:
        raise _fail(MissingExtra(error.name or "pyroaring", "lab")) from error
    except (TwigcastError, OSError) as error:
        raise _fail(error) from error


def _write(report: Report, folder: Path) -> None:
    for name, drawing in report.drawings.items():
        (folder / name).write_text(drawing, encoding="utf-8")
    (folder / "measures.json").write_text(json.dumps(report.measures, indent=2) + "\n", encoding="utf-8")
    if report.journal is not None:
        with (folder / "journal.jsonl").open("w", encoding="utf-8") as file:
            report.journal.write(file)


def _fail(error: Exception) -> typer.Exit:
    print(f"twigcast: {error}", file=sys.stderr)
    return typer.Exit(2)
