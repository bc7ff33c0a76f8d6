"""The command line: ``twigcast COMMAND``, with one module per command; ``common`` holds what they share.

Exit status: 0 done, 1 nothing matched (``match`` only), 2 bad usage or query, 3 some messages rejected; 130 after
Ctrl-C and 141 if the reader of the output is gone, as usual.
"""

import inspect
import io
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Annotated

import typer

from twigcast.broker import admin as admin_commands
from twigcast.broker import commands as broker_commands
from twigcast.cli.check import check
from twigcast.cli.common import guarded
from twigcast.cli.deliver import deliver
from twigcast.cli.explain import explain
from twigcast.cli.match import match
from twigcast.cli.pipeline import pipeline
from twigcast.lab.experiments import commands as experiments_commands
from twigcast.lab.overlays import commands as overlay_commands
from twigcast.lab.workload import commands as workload_commands

app = typer.Typer(
    name="twigcast",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _help(command: Callable[..., int]) -> str:
    """Returns the docstring of a command, with the marks that keep its examples from being wrapped."""
    return inspect.cleandoc(command.__doc__ or "").replace("\\b\n", "\b\n")


for _command in (match, deliver, check, explain, pipeline):
    app.command(help=_help(_command))(guarded(_command))
workload_commands.register(app)
experiments_commands.register(app)
overlay_commands.register(app)
admin_commands.register(app)
broker_commands.register(app)


def _show_version(requested: bool) -> None:
    if requested:
        print(f"twigcast {metadata.version('twigcast')}")
        raise typer.Exit


@app.callback()
def _twigcast(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Deliver XML messages to those who asked for them."""


def main() -> None:
    """Run the console script. Its output is UTF-8 in every locale."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    app(prog_name="twigcast")
