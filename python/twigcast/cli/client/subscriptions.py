"""The commands ``twigcast subscriptions``: list, change and move the subscriptions of a broker."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from twigcast.cli import common
from twigcast.cli.client import connection
from twigcast.cli.client.output import as_row, cell, print_rows, summary_of
from twigcast.cli.client.profiles import BrokerFlags
from twigcast.cli.client.subscribe import parse_start, show_import
from twigcast.errors import OutputError, SubscriptionFileError

KeysArgument = Annotated[list[str], typer.Argument(metavar="KEY...", help="The keys of subscriptions.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key of the subscription.")]


def list_subscriptions(
    subscriber: Annotated[
        str | None, typer.Option("--subscriber", metavar="NAME", help="Only those of this subscriber.")
    ] = None,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """List the subscriptions of a tenant, in the order of their keys."""
    with connection.connected(broker) as client:
        if as_json:
            for subscription in client.subscriptions(subscriber=subscriber):
                print(common.as_json(as_row(subscription)))
        else:
            print_rows([summary_of(one) for one in client.subscriptions(subscriber=subscriber)], json=False)
    return 0


def show(
    key: KeyArgument,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """Show a subscription, and how many deliveries wait for its subscriber."""
    with connection.connected(broker) as client:
        row = as_row(client.subscription(key))
    if as_json:
        print(common.as_json(row))
        return 0
    for name, value in row.items():
        if value not in (None, {}, []):
            print(f"{name.replace('_', ' '):>11}  {cell(value)}")
    return 0


def pause(
    keys: KeysArgument,
    *,
    broker: BrokerFlags,
) -> int:
    """Pause subscriptions: new messages do not count for them, and what is pending waits."""
    with connection.connected(broker) as client:
        for key in keys:
            print(f"{key}: {client.pause(key).state}")
    return 0


def resume(
    keys: KeysArgument,
    *,
    broker: BrokerFlags,
) -> int:
    """Resume subscriptions that are paused or suspended, with the next message."""
    with connection.connected(broker) as client:
        for key in keys:
            print(f"{key}: {client.resume(key).state}")
    return 0


def delete(
    keys: KeysArgument,
    *,
    broker: BrokerFlags,
) -> int:
    """Delete subscriptions, with what waits for them."""
    with connection.connected(broker) as client:
        for key in keys:
            client.unsubscribe(key)
            print(f"{key}: deleted")
    return 0


def seek(
    key: KeyArgument,
    start: Annotated[
        str, typer.Argument(metavar="START", help="now, or a stored message: a cursor, a time, or the id of one.")
    ],
    *,
    broker: BrokerFlags,
) -> int:
    """Let a subscription begin anew: stored messages from there on come again, and those before count as done."""
    with connection.connected(broker) as client:
        subscription = client.seek(key, parse_start(start))
    print(f"{key}: {subscription.state}{', replaying' if subscription.replaying else ''}")
    return 0


def export(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to; by default standard output.")
    ] = None,
    *,
    broker: BrokerFlags,
) -> int:
    """Export all subscriptions as JSON lines, which twigcast subscriptions import reads. Secrets are left out."""
    with connection.connected(broker) as client:
        lines = [common.as_json(row) + "\n" for row in client.export_subscriptions()]
    signed = sum('"secret_left_out": true' in line for line in lines)
    if signed:
        common.complain(f"warning: the secrets of {signed:,} webhooks are left out: an import needs them again")
    if output is None:
        sys.stdout.writelines(lines)
        return 0
    try:
        output.write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise OutputError(str(output), f"it cannot be written: {error.strerror}") from None
    return 0


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="JSON lines of an export; - for standard input.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace subscriptions of the same keys.")] = False,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """Import subscriptions as twigcast subscriptions export writes them. Refused lines do not stop the others."""
    try:
        lines = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise SubscriptionFileError(str(file), None, f"it cannot be read: {error.strerror}") from None
    with connection.connected(broker) as client:
        report = client.import_subscriptions(lines, replace=replace)
    return show_import(report, str(file), json=as_json)


app = typer.Typer(
    no_args_is_help=True, help="The subscriptions of a broker: list, pause, resume, delete, seek, export."
)
_COMMANDS: Final[dict[str, Callable[..., int]]] = {
    "list": list_subscriptions,
    "show": show,
    "pause": pause,
    "resume": resume,
    "delete": delete,
    "seek": seek,
    "export": export,
    "import": import_,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(common.guarded(_command))
