"""The commands ``twigcast admin``, which operate on a store, most of them also while the broker works."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from twigcast.errors import MissingExtra, TwigcastError

if TYPE_CHECKING:
    from twigcast.broker.model import Tenant
    from twigcast.broker.store.store import Store

_FAILED: Final = 2

_NOTICED_SECONDS: Final = 1.0
"""Time in seconds after which a broker has noticed a change of tokens; it checks more often."""

app = typer.Typer(no_args_is_help=True, help="Look after the store of a broker.")
tokens = typer.Typer(no_args_is_help=True, help="API tokens: make, list, revoke.")
tenants = typer.Typer(no_args_is_help=True, help="Tenants, which see only their own: make, list.")
app.add_typer(tokens, name="token")
app.add_typer(tenants, name="tenant")

StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="FOLDER|URL", help="As for twigcast serve; by default TWIGCAST_STORE, or twigcast-data."
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="The settings of the broker: names the store.")
]
TenantOption = Annotated[str, typer.Option("--tenant", "-t", help="Name of the tenant.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(parent: typer.Typer) -> None:
    """Add ``admin`` to the command line."""
    parent.add_typer(app, name="admin")


@app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy is written.")],
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Copy the store as it is at one moment, while the broker works.

    A PostgreSQL store is copied by pg_dump, which has to be installed.
    """
    with _open(store, config) as opened:
        opened.backup(file)


@app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A copy made by twigcast admin backup.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the store if there is one.")] = False,
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Make a store from a backup; the broker must not run.

    A PostgreSQL store is restored by pg_restore, which has to be installed.
    """
    with _reporting_errors():
        from twigcast.broker.store.store import restore_store

        restore_store(_address(store, config), file, overwrite=overwrite)


@app.command("vacuum")
def vacuum(store: StoreOption = None, config: ConfigOption = None) -> None:
    """Return unused space to the system."""
    with _open(store, config) as opened:
        opened.vacuum()


@app.command("clock")
def clock(
    confirm: Annotated[
        bool, typer.Option("--confirm", help="The clock of this machine is right, though it has jumped.")
    ] = False,
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Show the time that retention went by last; confirm the clock after it has jumped.

    After a jump no message expires by age until the clock is right again or confirmed. A broker that runs on the store
    notices within ten seconds.
    """
    with _open(store, config) as opened:
        if confirm:
            with opened.transaction() as transaction:
                transaction.confirm_clock(time.time())
        at = opened.clock_mark()
        print(
            "retention went by no time yet" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
        )


@app.command("key")
def key() -> None:
    """Print a new key for the secrets of a store: for TWIGCAST_SECRETS_KEY, or for the file secrets_key_file.

    The broker seals the secrets of webhooks with it at its next start. To change it, put the new one before the old
    one, start the broker, and remove the old one. Without it the secrets are lost.
    """
    with _reporting_errors():
        from twigcast.broker.store.sealing import new_key

        print(new_key())


@app.command("stats")
def stats(
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", help="Count what this tenant has.")] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Count what is stored, and its bytes."""
    with _open(store, config) as opened:
        results = asdict(opened.statistics(None if tenant is None else _tenant(opened, tenant).id))
        if as_json:
            print(json.dumps({"store": opened.url, **results}))
            return
        print(opened.url)
        for name, value in results.items():
            print(f"{name.replace('_', ' '):>14} {value:>15,}")


@tokens.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Its purpose.")],
    scope: Annotated[list[str], typer.Option("--scope", "-s", help="publish, subscribe or admin. May be repeated.")],
    tenant: TenantOption = "default",
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Make a token and print it. It is shown only once, since only its digest is stored."""
    with _open(store, config) as opened:
        from twigcast.broker.model import Scope
        from twigcast.broker.tokens import create_token as create

        try:
            scopes = frozenset(map(Scope, scope))
        except ValueError:
            raise typer.BadParameter(f"a scope is one of {', '.join(Scope)}", param_hint="--scope") from None
        _, secret = create(opened, _tenant(opened, tenant).id, name, scopes)
        print(secret)


@tokens.command("list")
def list_tokens(as_json: JsonOption = False, store: StoreOption = None, config: ConfigOption = None) -> None:
    """List the tokens of all tenants, without their secrets."""
    with _open(store, config) as opened:
        rows = [
            {
                "id": token.id,
                "tenant": tenant.name,
                "scopes": ",".join(sorted(token.scopes)),
                "created": datetime.fromtimestamp(token.created, UTC).isoformat(timespec="seconds"),
                "name": token.name,
            }
            for tenant in opened.tenants()
            for token in opened.tokens(tenant.id)
        ]
        _print_rows(rows, as_json)


@tokens.command("revoke")
def revoke_token(
    token_id: Annotated[int, typer.Argument(metavar="ID", help="As twigcast admin token list shows it.")],
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Revoke a token. When this ends, a broker that runs on the store accepts it no longer."""
    with _open(store, config) as opened:
        with opened.transaction() as transaction:
            transaction.delete_token(token_id)
        time.sleep(_NOTICED_SECONDS)


@tenants.command("create")
def create_tenant(
    name: Annotated[str, typer.Argument(help="Its name.")],
    limit: Annotated[
        list[str] | None,
        typer.Option("--limit", metavar="NAME=NUMBER", help="A limit that differs from the broker's. May be repeated."),
    ] = None,
    store: StoreOption = None,
    config: ConfigOption = None,
) -> None:
    """Make a tenant; tokens for it are made with twigcast admin token create --tenant."""
    with _open(store, config) as opened, opened.transaction() as transaction:
        transaction.add_tenant(name, _limits(limit or []))


@tenants.command("list")
def list_tenants(as_json: JsonOption = False, store: StoreOption = None, config: ConfigOption = None) -> None:
    """List the tenants and their limits."""
    with _open(store, config) as opened:
        rows = [
            {
                "id": tenant.id,
                "name": tenant.name,
                "limits": " ".join(f"{name}={value}" for name, value in sorted(tenant.limits.items())),
            }
            for tenant in opened.tenants()
        ]
        _print_rows(rows, as_json)


def _limits(supplied: list[str]) -> Mapping[str, int]:
    from pydantic import ValidationError

    from twigcast.broker.config import TenantLimits

    limits = dict(text.partition("=")[::2] for text in supplied)
    try:
        return {name: getattr(TenantLimits(**limits), name) for name in limits}  # type: ignore[arg-type]
    except ValidationError as error:
        names = ", ".join(sorted(TenantLimits.model_fields))
        reason = "; ".join(f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors())
        raise typer.BadParameter(f"{reason}. There are {names}", param_hint="--limit") from None


def _tenant(store: Store, name: str) -> Tenant:
    from twigcast.broker.errors import UnknownObject

    for tenant in store.tenants():
        if tenant.name == name:
            return tenant
    raise UnknownObject(f"there is no tenant {name!r}")


def _print_rows(rows: list[dict[str, object]], as_json: bool) -> None:
    if as_json:
        for row in rows:
            print(json.dumps(row))
        return
    if not rows:
        return
    widths = {name: max(len(name), *(len(str(row[name])) for row in rows)) for name in rows[0]}
    print("  ".join(name.ljust(width) for name, width in widths.items()).rstrip())
    for row in rows:
        print("  ".join(str(row[name]).ljust(width) for name, width in widths.items()).rstrip())


def _address(store: str | None, config: Path | None) -> str:
    """The address of the store, found as the broker finds it."""
    from twigcast.broker.config import load, refuse_unknown_variables

    refuse_unknown_variables()
    return load({} if store is None else {"store": store}, config).store


@contextmanager
def _open(store: str | None, config: Path | None) -> Iterator[Store]:
    """Open an existing store for one command, beside the broker."""
    with _reporting_errors():
        from twigcast.broker.store.store import open_store

        opened = open_store(_address(store, config), exclusive=False, create=False)
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def _reporting_errors() -> Iterator[None]:
    """Print an error and end the command."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "twigcast":
            raise
        _fail(MissingExtra(error.name or "fastapi", "broker"))
    except TwigcastError as error:
        _fail(error)


def _fail(error: Exception) -> None:
    print(f"twigcast: {error}", file=sys.stderr)
    raise typer.Exit(_FAILED) from None
