"""The store over either database.

A store has one writer and many readers. All changes go through a :class:`Transaction`, which
:meth:`Store.transaction` opens for one thread at a time (the hub's, which commits many submissions at once). It is
durable when the ``with`` block has ended without an error, and leaves nothing behind otherwise. Reading methods of
:class:`Store` can be called from any thread at any time, see only what is committed, and block: run them in a thread,
not in an event loop.

All methods raise :class:`~twigcast.broker.errors.StoreUnavailable` if the store does not answer and
:class:`~twigcast.broker.errors.StoreFull` if it has no space; both leave it usable for the next attempt. A transaction
whose commit failed half-way on a lost connection is reported as failed. Messages are idempotent by their id, so that
sending them again is right in both cases.

A queue has pending: all its deliveries with ``seq`` above the queue's ``acked`` mark that are not acknowledged one
by one. Streams move the mark, which changes one row for any number of deliveries. Pulls acknowledge single deliveries,
and the mark follows. While the subscription of a queue is replaying, what came after the past is stored but not
pending, and the mark stays before what replay is still to add.

A new store has one tenant, ``default``, with the id 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from twigcast.broker.errors import Invalid
from twigcast.broker.store import sqlite
from twigcast.broker.store.administration import AdministrationReads
from twigcast.broker.store.database import Database, Memory
from twigcast.broker.store.lag import LagReads
from twigcast.broker.store.leases import LeaseReads, LeaseWrites
from twigcast.broker.store.lifecycles import LifecycleReads, LifecycleWrites
from twigcast.broker.store.lookup_tables import LookupTableReads, LookupTableWrites
from twigcast.broker.store.messages import MessageReads, MessageWrites
from twigcast.broker.store.overlay import OverlayReads, OverlayWrites
from twigcast.broker.store.queues import QueueReads, QueueWrites
from twigcast.broker.store.sealing import Sealer
from twigcast.broker.store.subscriptions import SubscriptionReads, SubscriptionWrites
from twigcast.broker.store.urgency import UrgencyReads, UrgencyWrites
from twigcast.broker.store.windows import WindowReads, WindowWrites
from twigcast.broker.urgency import OverduePolicy, Urgency
from twigcast.errors import MissingExtra

if TYPE_CHECKING:
    from twigcast.broker.store.tenure import TenureWatch


class Transaction(
    MessageWrites,
    QueueWrites,
    LeaseWrites,
    SubscriptionWrites,
    LookupTableWrites,
    OverlayWrites,
    LifecycleWrites,
    WindowWrites,
    UrgencyWrites,
):
    """A set of changes that become durable together."""

    def expire(
        self, *, before: float | None, bytes_max: int | None, limit: int, at: float, up_to: int | None = None
    ) -> int:
        """Removes old messages, and what deleted subscriptions left behind."""
        self.save_marks()
        self.remove_leftovers(10 * limit)
        return super().expire(before=before, bytes_max=bytes_max, limit=limit, at=at, up_to=up_to)

    def expire_settled(
        self,
        *,
        before: float | None,
        bytes_max: int | None,
        limit: int,
        at: float,
        up_to: int | None = None,
        after: int = 0,
    ) -> tuple[int, int | None]:
        """Removes old messages that nobody waits for, and what deleted subscriptions left behind."""
        self.save_marks()
        self.remove_leftovers(10 * limit)
        return super().expire_settled(before=before, bytes_max=bytes_max, limit=limit, at=at, up_to=up_to, after=after)

    def erase_some(self, tenant_id: int, limit: int, *, at: float) -> bool:
        """Removes some of what an erased tenant has stored, and at last the tenant; returns whether there may be more.

        Its subscriptions have been deleted.
        """
        self.save_marks()
        self.remove_leftovers(10 * limit)
        if self.erase_messages(tenant_id, limit, at=at):
            return True
        for table in ("dead_letters", "lanes", "sources", "tokens", "chains", "chain_names", "lookup_tables"):
            self.session.execute(f"DELETE FROM {table} WHERE tenant_id = ?", (tenant_id,))
        if self.first("SELECT 1 FROM leftovers"):
            return True
        self.session.execute("DELETE FROM tenants WHERE id = ? AND erased = 1", (tenant_id,))
        return False


class Store(
    MessageReads,
    QueueReads,
    LeaseReads,
    LagReads,
    SubscriptionReads,
    AdministrationReads,
    LookupTableReads,
    OverlayReads,
    LifecycleReads,
    WindowReads,
    UrgencyReads,
):
    """A durable store. Made by :func:`open_store`, which also migrates and locks it.

    When a broker opens it (``exclusive``), the dead letters that its last run was redriving are shown again.
    """

    def __init__(self, database: Database, *, exclusive: bool, sealer: Sealer | None = None) -> None:
        self.database = database
        self.url = database.url
        """The address, without a password."""
        self.memory = Memory(sealer=sealer or Sealer())
        if exclusive:
            with database.writing() as session:
                session.execute("UPDATE dead_letters SET revived = 0 WHERE revived = 1")
                sealed = Transaction(session, self.memory).seal_secrets()
            if sealed:
                # What stood there before is to be nowhere in the files.
                database.vacuum()
        self.memory.queues_set_aside.update(queue for (queue,) in self.rows("SELECT DISTINCT lane_id FROM set_aside"))
        self.memory.shared_queues.update(
            queue for (queue,) in self.rows("SELECT id FROM lanes WHERE sharing IS NOT NULL")
        )
        self.memory.urgent_queues.update(queue for (queue,) in self.rows("SELECT id FROM lanes WHERE by_urgency = 1"))
        for number, queue_id, text in self.rows(
            "SELECT id, lane_id, urgency FROM subscriptions WHERE urgency IS NOT NULL"
        ):
            self.memory.urgent_subscriptions.add(number)
            if Urgency.of_text(text).overdue is OverduePolicy.DROP:
                self.memory.dropping_queues.add(queue_id)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Opens the one transaction that can be open; a second thread waits."""
        with self.database.writing() as session:
            transaction = Transaction(session, self.memory)
            yield transaction
            transaction.save_marks()
            transaction.counters.save()

    def close(self) -> None:
        """Releases everything, the lock included."""
        self.database.close()

    def unused(self) -> int:
        """Returns how many bytes :meth:`vacuum` would return."""
        return self.database.unused()

    def shrink(self) -> None:
        """Returns unused space to the system, a little at a time."""
        self.database.shrink()

    def vacuum(self) -> None:
        """Returns unused space to the system."""
        self.database.vacuum()

    def backup(self, path: Path) -> None:
        """Writes a consistent copy while the broker works. Raises OutputError if it cannot."""
        self.database.backup(path)


_SQLITE = "sqlite://"


def open_store(
    address: str | Path, *, exclusive: bool = True, create: bool = True, keys: Sequence[str] = (), where: str = ""
) -> Store:
    """Opens a store, and makes or migrates it if needed.

    Args:
        address: A folder, also written ``sqlite:///folder``, for SQLite; ``postgresql://...`` as libpq takes it.
        exclusive: Whether a broker opens it, of which there can be one, and not an operator's command beside it.
        create: Whether to make a store that does not exist; otherwise UnknownObject is raised.
        where: Where clients reach the broker, for standbys on a PostgreSQL database.
        keys: Keys of its secrets, as :func:`~twigcast.broker.store.sealing.new_key` makes them; the first one seals.

    Raises SecretsSealed without the right key, StoreInUse, StoreDamaged (also for no store of Twigcast, or one of a
    newer version), StoreUnavailable if it cannot be opened, and Invalid for an address of another kind.
    """
    sealer = Sealer(keys)
    folder = _folder(str(address))
    database: Database
    if folder is not None:
        database = sqlite.SqliteDatabase(folder, exclusive=exclusive, create=create)
    else:
        database = _postgresql().PostgresqlDatabase(str(address), exclusive=exclusive, create=create, where=where)
    try:
        return Store(database, exclusive=exclusive, sealer=sealer)
    except BaseException:
        database.close()
        raise


def watch_tenure(address: str) -> TenureWatch:
    """Returns what a standby sees of the active broker on a store.

    Raises Invalid for a folder: a store on SQLite is that of one machine.
    """
    if _folder(address) is not None:
        raise Invalid("a standby needs a store that both brokers reach: --store postgresql://...")
    watch: TenureWatch = _postgresql().watch_tenure(address)
    return watch


def restore_store(address: str | Path, backup: Path, *, overwrite: bool = False) -> None:
    """Makes a store from a backup that :meth:`Store.backup` wrote for one of the same kind.

    Raises Conflict if there is a store already and ``overwrite`` is false, UnknownObject without such a file,
    StoreInUse, and StoreDamaged or StoreUnavailable for the backup; an existing store is unchanged then.
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
