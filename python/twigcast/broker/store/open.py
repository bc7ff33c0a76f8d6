"""Opening a store by its address."""

from __future__ import annotations

from pathlib import Path

from twigcast.broker.errors import Invalid
from twigcast.broker.store.database import Database
from twigcast.broker.store.sqlite import SqliteDatabase
from twigcast.broker.store.store import SqlStore
from twigcast.errors import MissingExtra

_SQLITE = "sqlite://"


def open_store(address: str | Path, *, exclusive: bool = True) -> SqlStore:
    """Open a store; it is made or migrated where needed.

    Args:
        address: A folder, also written ``sqlite:///folder``, for SQLite; ``postgresql://...`` as libpq takes it.
        exclusive: As a broker does, of which there can be one. An operator's command opens the store beside it.

    Raises:
        StoreInUse: Another broker works on it.
        StoreDamaged: It is damaged, no store of Twigcast, or of a newer version.
        StoreUnavailable: It cannot be opened.
        Invalid: The address is of another kind.
    """
    text = str(address)
    if text.startswith(("postgresql://", "postgres://")):
        return SqlStore(_postgresql(text, exclusive=exclusive), exclusive=exclusive)
    if text.startswith(_SQLITE):
        text = text.removeprefix(_SQLITE)
        if not text.startswith("/"):
            raise Invalid(f"{address} is no address of a folder; one looks like sqlite:///var/lib/twigcast")
    elif "://" in text:
        raise Invalid(f"{text.split('://')[0]} is no kind of store; there is a folder, or postgresql://")
    return SqlStore(SqliteDatabase(Path(text), exclusive=exclusive), exclusive=exclusive)


def _postgresql(address: str, *, exclusive: bool) -> Database:
    try:
        from twigcast.broker.store.postgresql import PostgresqlDatabase
    except ImportError as error:
        raise MissingExtra(error.name or "psycopg", "broker") from error
    return PostgresqlDatabase(address, exclusive=exclusive)
