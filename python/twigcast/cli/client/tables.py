"""The commands ``twigcast tables``: look-up tables of a broker, from which messages are enriched."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from twigcast.cli import common
from twigcast.cli.client import connection
from twigcast.cli.client.output import as_row, print_rows
from twigcast.cli.client.profiles import BrokerFlags
from twigcast.errors import SourceError

_LINES_SUFFIXES: Final = (".jsonl", ".ndjson")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]


def list_tables(
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """List the tables: their columns, how many rows they have, and when they were stored."""
    with connection.connected(broker) as client:
        print_rows([as_row(table) for table in client.tables()], json=as_json)
    return 0


def put(
    name: NameArgument,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV with a line of names, or JSON lines (.jsonl, .ndjson).")
    ],
    key: Annotated[
        str | None, typer.Option("--key", metavar="COLUMN", help="By which rows are found; by default the first.")
    ] = None,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """Store a table, or another content of one. Messages are enriched from it from now on."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise SourceError(str(file), f"it cannot be read: {error.strerror}") from None
    is_lines = file.suffix.lower() in _LINES_SUFFIXES
    with connection.connected(broker) as client:
        table = client.put_table(name, content, key=key, json_lines=is_lines)
    shown = f"{table.name}: {table.rows:,} rows by {table.key}, version {table.version}"
    print(common.as_json(as_row(table)) if as_json else shown)
    return 0


def rows(
    name: NameArgument,
    *,
    broker: BrokerFlags,
) -> int:
    """Print the rows of a table as JSON lines."""
    with connection.connected(broker) as client:
        found = client.table_rows(name)
    for row in found:
        print(common.as_json(row))
    return 0


def delete(
    name: NameArgument,
    *,
    broker: BrokerFlags,
) -> int:
    """Delete a table that no source uses."""
    with connection.connected(broker) as client:
        client.delete_table(name)
    print(f"{name}: deleted")
    return 0


app = typer.Typer(no_args_is_help=True, help="The look-up tables of a broker: list, put, rows, delete.")
app.command("list")(common.guarded(list_tables))
app.command("put")(common.guarded(put))
app.command("rows")(common.guarded(rows))
app.command("delete")(common.guarded(delete))
