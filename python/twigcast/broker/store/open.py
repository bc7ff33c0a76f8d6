"""Opening a store by its address."""

from __future__ import annotations

from pathlib import Path

from twigcast.broker.errors import Invalid
from twigcast.broker.store.sqlite import SqliteDatabase
from twigcast.broker.store.store import SqlStore

_SQLITE = "sqlite://"


def open_store(address: str | Path, *, exclusive: bool = True) -> SqlStore:
    """Open a store; it is made or migrated where needed.

    Args:
        address: A folder, also written ``sqlite:///folder``, for SQLite.
        exclusive: As a broker does, of which there can be one. An operator's command opens the store beside it.

    Raises:
        StoreInUse: Another broker works on it.
        StoreDamaged: It is damaged, no store of Twigcast, or of a newer version.
        StoreUnavailable: It cannot be opened.
        Invalid: The address is of another kind.
    """
    text = str(address)
    if text.startswith(_SQLITE):
        text = text.removeprefix(_SQLITE)
        if not text.startswith("/"):
            raise Invalid(f"{address} is no address of a folder; one looks like sqlite:///var/lib/twigcast")
    elif "://" in text:
        raise Invalid(f"{text.split('://')[0]} is no kind of store; there is a folder, for SQLite")
    return SqlStore(SqliteDatabase(Path(text), exclusive=exclusive), exclusive=exclusive)
