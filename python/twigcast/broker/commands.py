"""The command ``twigcast serve``."""

from __future__ import annotations

import gc
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from twigcast.errors import MissingExtra, TwigcastError

_CANNOT_START = 2


class _LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class _LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def register(parent: typer.Typer) -> None:
    """Add ``serve`` to the command line."""
    parent.command(name="serve")(serve)


def serve(
    store: Annotated[
        str | None, typer.Option("--store", metavar="FOLDER|URL", help="A folder for SQLite, or postgresql://...")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="Address to listen on; by default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option("--port", "-p", help="Port to listen on; by default 8080.")] = None,
    config: Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="Settings, as TOML.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any setting of the file. May be repeated.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="Where the first start writes the admin token.")
    ] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="Wait while another broker works on the store, and take over from it.")
    ] = False,
    join: Annotated[
        list[str] | None,
        typer.Option("--join", metavar="URL", help="A broker to form an overlay with. May be repeated."),
    ] = None,
    overlay_listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address on which to listen for other brokers.")
    ] = None,
    overlay_forms: Annotated[
        list[str] | None,
        typer.Option(metavar="FORM", help="Form of messages to other brokers, NAME=FORM to one; may be repeated."),
    ] = None,
    overlay_identity: Annotated[str | None, typer.Option(metavar="NAME", help="Name in the overlay, for good.")] = None,
    overlay_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate for other brokers; with --overlay-key.")
    ] = None,
    overlay_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")] = None,
    overlay_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The authority of the certificates of all brokers.")
    ] = None,
    overlay_registry: Annotated[
        str | None, typer.Option(metavar="NAMES", help="The brokers that hold the registry, separated by commas.")
    ] = None,
    log_format: Annotated[_LogFormat | None, typer.Option(help="Format of the log on standard error.")] = None,
    log_level: Annotated[_LogLevel | None, typer.Option(help="Least level that is logged.")] = None,
) -> None:
    """Run a broker: a durable service over HTTP, with a console.

    Without any setting it listens on 127.0.0.1:8080 and keeps everything in the folder twigcast-data. The first start
    prints an admin token. SIGTERM and Ctrl-C stop it gracefully.

    Exit status: 0 stopped, 2 it cannot start.
    """
    flags = {
        "store": store,
        "host": host,
        "port": port,
        "standby": "true" if standby else None,
        "join": ",".join(join) if join else None,
        "overlay_listen": overlay_listen,
        "overlay_forms": ",".join(overlay_forms) if overlay_forms else None,
        "overlay_identity": overlay_identity,
        "overlay_cert": _text(overlay_cert),
        "overlay_key": _text(overlay_key),
        "overlay_ca": _text(overlay_ca),
        "overlay_registry": overlay_registry,
        "log_format": log_format and log_format.value,
        "log_level": log_level and log_level.value,
    }
    supplied: dict[str, str | int] = {name: value for name, value in flags.items() if value is not None}
    for text in setting or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r} is not of the form NAME=VALUE", param_hint="--set")
        supplied[name] = value
    try:
        _run(supplied, config, token_file)
    except TwigcastError as error:
        print(f"twigcast: {error}", file=sys.stderr)
        raise typer.Exit(_CANNOT_START) from None


def _run(flags: dict[str, str | int], config: Path | None, token_file: Path | None) -> None:
    # The dependencies of a broker are optional, and take longer to import than the rest of the command line. Nothing of
    # them becomes garbage, so that searching for it, then or later in the start, is a fifth of the time for nothing.
    gc.disable()
    try:
        from twigcast.broker.config import load, refuse_unknown_variables
        from twigcast.broker.serving import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "twigcast":
            raise
        raise MissingExtra(error.name or "fastapi", "broker") from None
    finally:
        gc.freeze()
        gc.enable()
    refuse_unknown_variables()
    run(load(flags, config), token_file)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
