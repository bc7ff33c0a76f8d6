"""The command line: ``twigcast COMMAND``.

- ``match``, ``deliver``, ``check``, ``explain``, ``pipeline``, ``backtest``: a module for each command; ``client``: the
  commands that talk to a broker; ``lazy``: commands of other packages, imported when they are run
- ``common``: options, input and error reports of several commands; ``option_groups``: options that belong together;
  ``lifecycles``, ``windows``: the options of life cycles and of windows; ``colours``: colours on terminals

Exit status: 0 done, 2 bad usage or query, or something that cannot be read or written, 3 some messages rejected, 4
nothing matched (``match``) or was waiting (``pull``); 1 only if Twigcast itself fails, 130 after Ctrl-C and 141 if the
reader of the output is gone, as usual.
"""

import inspect
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from twigcast._core import VERSION
from twigcast.cli.backtest import backtest
from twigcast.cli.check import check
from twigcast.cli.common import guarded, open_closed_streams, run_safely
from twigcast.cli.deliver import deliver
from twigcast.cli.explain import explain
from twigcast.cli.lazy import LazyCommand, LazyGroup
from twigcast.cli.match import match
from twigcast.cli.pipeline import pipeline


def _register_generate(parent: typer.Typer) -> None:
    from twigcast.lab.workload.commands import register

    register(parent)


def _register_experiment(parent: typer.Typer) -> None:
    from twigcast.lab.experiments.commands import register

    register(parent)


def _register_overlay(parent: typer.Typer) -> None:
    from twigcast.lab.overlays.commands import app as overlays
    from twigcast.peers.commands import peers

    overlays.add_typer(peers, name="peer")
    parent.add_typer(overlays, name="overlay")


def _register_admin(parent: typer.Typer) -> None:
    from twigcast.broker.admin import register

    register(parent)


def _register_serve(parent: typer.Typer) -> None:
    from twigcast.broker.commands import register

    register(parent)


def _help(command: Callable[..., int]) -> str:
    """Returns the docstring of a command, with the marks that keep its examples from being wrapped."""
    return inspect.cleandoc(command.__doc__ or "").replace("\\b\n", "\b\n")


def _register_publish(parent: typer.Typer) -> None:
    from twigcast.cli.client.publish import publish

    parent.command(help=_help(publish))(guarded(publish))


def _register_subscribe(parent: typer.Typer) -> None:
    from twigcast.cli.client.subscribe import subscribe

    parent.command(help=_help(subscribe))(guarded(subscribe))


def _register_pull(parent: typer.Typer) -> None:
    from twigcast.cli.client.deliveries import pull

    parent.command(help=_help(pull))(guarded(pull))


def _register_tail(parent: typer.Typer) -> None:
    from twigcast.cli.client.deliveries import tail

    parent.command(help=_help(tail))(guarded(tail))


def _register_subscriptions(parent: typer.Typer) -> None:
    from twigcast.cli.client.subscriptions import app as subscriptions

    parent.add_typer(subscriptions, name="subscriptions")


def _register_consumers(parent: typer.Typer) -> None:
    from twigcast.cli.client.consumers import app as consumers

    parent.add_typer(consumers, name="consumers")


def _register_tables(parent: typer.Typer) -> None:
    from twigcast.cli.client.tables import app as tables

    parent.add_typer(tables, name="tables")


def _register_tenants(parent: typer.Typer) -> None:
    from twigcast.cli.client.tenants import app as tenants

    parent.add_typer(tenants, name="tenants")


LazyGroup.lazy = {
    "publish": LazyCommand(
        _register_publish, "Publish messages to a broker, which has stored each when its line is printed."
    ),
    "subscribe": LazyCommand(
        _register_subscribe, "Subscribe to messages of a broker: to one query, or to all of a file."
    ),
    "pull": LazyCommand(_register_pull, "Pull what waits for a subscriber, and acknowledge it when it is printed."),
    "tail": LazyCommand(_register_tail, "Print what a subscriber gets, as it comes, until Ctrl-C."),
    "subscriptions": LazyCommand(
        _register_subscriptions, "The subscriptions of a broker: list, pause, resume, delete, seek, export."
    ),
    "consumers": LazyCommand(_register_consumers, "The subscribers of a broker: who is behind; purge, skip, redrive."),
    "tables": LazyCommand(_register_tables, "The look-up tables of a broker: list, put, rows, delete."),
    "tenants": LazyCommand(_register_tenants, "The tenants of a broker and their tokens, for its operator."),
    "generate": LazyCommand(_register_generate, "Make documents, queries and populations from a DTD."),
    "experiment": LazyCommand(_register_experiment, "Measure the published figures and tables again."),
    "overlay": LazyCommand(_register_overlay, "Networks of peers: run a node of one, or simulate one."),
    "admin": LazyCommand(_register_admin, "Look after the store of a broker."),
    "serve": LazyCommand(_register_serve, "Run a broker: a durable service over HTTP, with a console."),
}

_COMPLETION_COLUMNS = 10_000
"""More than the help of any option has."""

app = typer.Typer(
    name="twigcast",
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


for _command in (match, deliver, check, explain, pipeline, backtest):
    app.command(help=_help(_command))(guarded(_command))


def _show_version(requested: bool) -> None:
    if requested:
        print(f"twigcast {VERSION}")
        raise typer.Exit


@app.callback()
def _twigcast(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Deliver XML messages to those who subscribe to them."""


def main() -> None:
    """Run the console script. Its output is UTF-8 in every locale."""
    open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    if "_TWIGCAST_COMPLETE" in os.environ:
        # The help of an option is broken into lines of the terminal's width, and fish offers each line of the answer.
        os.environ["COLUMNS"] = str(_COMPLETION_COLUMNS)
    sys.exit(run_safely(lambda: app(prog_name="twigcast")))
