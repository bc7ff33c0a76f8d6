"""The commands ``twigcast tenants``: for the operator of a broker, over its interface."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

import typer

from twigcast.cli import common
from twigcast.cli.client import connection
from twigcast.cli.client.output import as_row, print_rows
from twigcast.cli.client.profiles import BrokerFlags

TenantOption = Annotated[
    str | None, typer.Option("--tenant", "-t", metavar="NAME", help="The tenant; by default that of your own token.")
]


class ScopeName(StrEnum):
    """A permission of a token, as an option."""

    PUBLISH = "publish"
    SUBSCRIBE = "subscribe"
    ADMIN = "admin"


def list_tenants(
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """List the tenants and their limits."""
    with connection.connected(broker) as client:
        print_rows([as_row(tenant) for tenant in client.tenants()], json=as_json)
    return 0


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")],
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=NUMBER", help="A limit that differs from the broker's. May be repeated."),
    ] = None,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """Add a tenant; tokens for it are made with twigcast tenants tokens add --tenant."""
    limits: dict[str, int] = {}
    for text in limit or []:
        member, _, number = text.partition("=")
        if not number.isascii() or not number.isdigit():
            raise typer.BadParameter(f"{text!r} is not NAME=NUMBER", param_hint="--limit")
        limits[member] = int(number)
    with connection.connected(broker) as client:
        tenant = client.create_tenant(name, limits)
    print(common.as_json(as_row(tenant)) if as_json else f"{tenant.name}: added")
    return 0


def erase(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")],
    is_confirmed: Annotated[
        bool, typer.Option("--yes", help="Erase it. Without this the command only says what it would erase.")
    ] = False,
    *,
    broker: BrokerFlags,
) -> int:
    """Erase a tenant with all that it has stored: messages, subscriptions, queues, dead letters, tokens.

    Nothing of it can be had back, but from a backup. Other brokers of an overlay keep what they have.
    """
    with connection.connected(broker) as client:
        if not is_confirmed:
            raise typer.BadParameter(f"{name!r} is erased for good; say so", param_hint="--yes")
        is_done = client.erase_tenant(name)
    print(
        f"{name}: erased" if is_done else f"{name}: nobody can use it any more; the broker is removing what it stored"
    )
    return 0


def clock(
    is_confirmed: Annotated[
        bool, typer.Option("--confirm", help="The clock is right: messages expire by it, though it has jumped.")
    ] = False,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """Show the clock of the broker, and whether messages expire by it; after a jump, confirm it."""
    with connection.connected(broker) as client:
        state = client.confirm_clock() if is_confirmed else client.clock()
    print_rows([as_row(state)], json=as_json)
    return 0


def list_tokens(
    tenant: TenantOption = None,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """List the tokens of a tenant, without their secrets."""
    with connection.connected(broker) as client:
        print_rows([as_row(token) for token in client.tokens(tenant=tenant)], json=as_json)
    return 0


def add_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its purpose.")],
    scope: Annotated[list[ScopeName], typer.Option("--scope", "-s", help="What it permits. May be repeated.")],
    tenant: TenantOption = None,
    days: Annotated[
        float | None,
        typer.Option("--days", min=0.001, max=36_500, help="After so many days it opens nothing any more."),
    ] = None,
    source: Annotated[
        list[str] | None, typer.Option("--source", metavar="NAME", help="Publish only as this source. May be repeated.")
    ] = None,
    subscriber: Annotated[
        list[str] | None,
        typer.Option("--subscriber", metavar="NAME", help="Receive only what this subscriber gets. May be repeated."),
    ] = None,
    certificate: Annotated[
        list[str] | None,
        typer.Option(
            "--certificate",
            metavar="FINGERPRINT",
            help="Open nothing without this client certificate, named by its SHA-256. May be repeated.",
        ),
    ] = None,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """Add a token and print it. It is shown only once, since only its digest is stored."""
    expires = None if days is None else datetime.now(UTC) + timedelta(days=days)
    with connection.connected(broker) as client:
        token = client.create_token(
            name,
            [one.value for one in scope],
            tenant=tenant,
            expires=expires,
            sources=source or None,
            subscribers=subscriber or None,
            certificates=certificate or None,
        )
    print(common.as_json(as_row(token)) if as_json else token.token)
    return 0


def rotate_token(
    token: Annotated[int, typer.Argument(metavar="ID", help="As twigcast tenants tokens list shows it.")],
    keep: Annotated[
        float, typer.Option("--keep", metavar="SECONDS", min=0, help="How long the old secret is still accepted.")
    ] = 3_600.0,
    as_json: connection.JsonOption = False,
    *,
    broker: BrokerFlags,
) -> int:
    """Give a token a new secret and print it. With --keep 0 the old one opens nothing from now on."""
    with connection.connected(broker) as client:
        rotated = client.rotate_token(token, keep_seconds=keep)
    print(common.as_json(as_row(rotated)) if as_json else rotated.token)
    return 0


def delete_token(
    token: Annotated[int, typer.Argument(metavar="ID", help="As twigcast tenants tokens list shows it.")],
    *,
    broker: BrokerFlags,
) -> int:
    """Delete a token: it opens nothing from now on."""
    with connection.connected(broker) as client:
        client.delete_token(token)
    print(f"{token}: deleted")
    return 0


app = typer.Typer(no_args_is_help=True, help="The tenants of a broker and their tokens, for its operator.")
tokens = typer.Typer(no_args_is_help=True, help="API tokens: list, add, rotate, delete.")
app.add_typer(tokens, name="tokens")
app.command("list")(common.guarded(list_tenants))
app.command("add")(common.guarded(add))
app.command("erase")(common.guarded(erase))
app.command("clock")(common.guarded(clock))
tokens.command("list")(common.guarded(list_tokens))
tokens.command("add")(common.guarded(add_token))
tokens.command("rotate")(common.guarded(rotate_token))
tokens.command("delete")(common.guarded(delete_token))
