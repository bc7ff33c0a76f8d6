"""Opens a store by its address, and makes one from a backup."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from twigcast.broker.errors import Invalid
from twigcast.broker.store import sqlite
from twigcast.broker.store.database import Database
from twigcast.broker.store.store import Store
from twigcast.errors import MissingExtra

_SQLITE = "sqlite://"


def open_store(address: str | Path, *, exclusive: bool = True, create: bool = True) -> Store:
    """Opens a store, and makes or migrates it if needed.

    Args:
        address: A folder, also written ``sqlite:///folder``, for SQLite; ``postgresql://...`` as libpq takes it.
        exclusive: Whether a broker opens it, of which there can be one. An operator's command opens the store beside
            it.
        create: Whether to make a store that does not exist.

    Raises:
        StoreInUse: Another broker works on it.
        StoreDamaged: It is damaged, no store of Twigcast, or of a newer version.
        StoreUnavailable: It cannot be opened.
        NotFound: It does not exist and ``create`` is false.
        Invalid: The address is of another kind.
    """
    folder = _folder(str(address))
    database: Database
    if folder is not None:
        database = sqlite.SqliteDatabase(folder, exclusive=exclusive, create=create)
    else:
        database = _postgresql().PostgresqlDatabase(str(address), exclusive=exclusive, create=create)
    try:
        return Store(database, exclusive=exclusive)
    except BaseException:
        database.close()
        raise


def restore_store(address: str | Path, backup: Path, *, overwrite: bool = False) -> None:
    """Makes a store from a backup that :meth:`Store.backup` wrote for one of the same kind.

    Raises:
        Conflict: There is a store already, and ``overwrite`` is false.
        NotFound: There is no such file.
        StoreInUse: A broker works on it.
        StoreDamaged: The backup is damaged, or not written by Twigcast.
        StoreUnavailable: The backup could not be restored; an existing store is unchanged.
    """
    folder = _folder(str(address))
    if folder is not None:
        sqlite.restore(folder, backup, overwrite=overwrite)
    else:
        _postgresql().restore(str(address), backup, overwrite=overwrite)
    # Other brokers of an overlay have messages that the backup lacks, under numbers that it would assign again.
    store = open_store(address, exclusive=False, create=False)
    try:
        with store.transaction() as transaction:
            transaction.forget_overlay_identity()
    finally:
        store.close()


def _folder(address: str) -> Path | None:
    """Returns the folder that an address names; ``None`` for a PostgreSQL database."""
    kind, separator, rest = address.partition("://")
    if not separator:
        return Path(address)
    if kind in ("postgresql", "postgres"):
        return None
    if kind != "sqlite":
        raise Invalid(f"{kind} is no kind of store; there is a folder, for SQLite, or postgresql://")
    if not rest.startswith("/"):
        raise Invalid(f"{address} is no address of a folder; one looks like {_SQLITE}/var/lib/twigcast")
    return Path(rest)


def _postgresql() -> ModuleType:
    try:
        from twigcast.broker.store import postgresql
    except ImportError as error:
        raise MissingExtra(error.name or "psycopg", "broker") from error
    return postgresql
