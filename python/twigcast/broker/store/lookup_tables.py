"""Tables from which messages are enriched."""

from __future__ import annotations

import json
from typing import Final

from twigcast.broker.errors import Conflict, Invalid, LimitReached, UnknownObject
from twigcast.broker.lookup_tables import LookupSettings, TableContent, TableSummary
from twigcast.broker.model import Source
from twigcast.broker.store.administration import AdministrationWrites
from twigcast.broker.store.database import Reads, Row

_SUMMARY: Final = "name, version, updated, key_column, columns, row_count, size"


def _summary(row: Row) -> TableSummary:
    name, version, updated, key, columns, rows, size = row
    return TableSummary(name, int(version), updated, key, tuple(json.loads(columns)), int(rows), int(size))


class LookupTableReads(Reads):
    """Reading methods for look-up tables."""

    def lookup_tables(self, tenant_id: int) -> list[TableSummary]:
        """Returns the tables of a tenant, by name."""
        rows = self.rows(f"SELECT {_SUMMARY} FROM lookup_tables WHERE tenant_id = ? ORDER BY name", (tenant_id,))
        return [_summary(row) for row in rows]

    def lookup_table(self, tenant_id: int, name: str) -> TableSummary | None:
        """Returns a table by its name."""
        row = self.first(f"SELECT {_SUMMARY} FROM lookup_tables WHERE tenant_id = ? AND name = ?", (tenant_id, name))
        return None if row is None else _summary(row)

    def lookup_content(self, tenant_id: int, name: str) -> tuple[int, bytes] | None:
        """Returns the version of a table, and its content as it is stored."""
        row = self.first(
            "SELECT version, content FROM lookup_tables WHERE tenant_id = ? AND name = ?", (tenant_id, name)
        )
        return None if row is None else (int(row[0]), bytes(row[1]))


class LookupTableWrites(AdministrationWrites):
    """Changing methods for look-up tables, and for the sources that use them."""

    def put_source(self, source: Source, *, sources_max: int | None = None) -> Source:
        """Registers a source, or changes that of its name; returns it as stored.

        Raises:
            LimitReached: The tenant has as many as it may.
            Invalid: A table that it uses is not there, or lacks a column.
        """
        for settings in map(LookupSettings.of, source.lookups):
            row = self.first(
                "SELECT columns FROM lookup_tables WHERE tenant_id = ? AND name = ?", (source.tenant_id, settings.table)
            )
            if row is None:
                raise Invalid(f"lookups: there is no table {settings.table[:100]!r}")
            settings.elements(json.loads(row[0]))
        return super().put_source(source, sources_max=sources_max)

    def put_lookup_table(
        self, tenant_id: int, name: str, table: TableContent, written: bytes, *, at: float, tables_max: int
    ) -> TableSummary:
        """Stores a table, or another content of one; returns what is known of it.

        Raises:
            LimitReached: The tenant has as many as it may.
            Conflict: A source uses a column that it does not have any more.
        """
        self._require_tenant(tenant_id)
        for source, settings in self._users(tenant_id, name):
            try:
                settings.elements(table.columns)
            except Invalid as error:
                raise Conflict(f"the source {source[:100]!r} uses this table: {error}") from None
        version = self.counters.take("lookup_table")
        columns = json.dumps(table.columns)
        values = (version, at, table.key, columns, len(table.rows), len(written), written)
        changed = self.session.execute(
            "UPDATE lookup_tables SET version = ?, updated = ?, key_column = ?, columns = ?, row_count = ?, size = ?, "
            "content = ? WHERE tenant_id = ? AND name = ?",
            (*values, tenant_id, name),
        )
        if not changed:
            ((count,),) = self.session.rows("SELECT COUNT(*) FROM lookup_tables WHERE tenant_id = ?", (tenant_id,))
            if count >= tables_max:
                raise LimitReached.of("look-up tables", "tables_max", tables_max)
            self.session.execute(
                "INSERT INTO lookup_tables (version, updated, key_column, columns, row_count, size, content, "
                "tenant_id, name) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, tenant_id, name),
            )
        return TableSummary(name, version, at, table.key, table.columns, len(table.rows), len(written))

    def delete_lookup_table(self, tenant_id: int, name: str) -> None:
        """Removes a table. Raises Conflict if a source uses it."""
        for source, _ in self._users(tenant_id, name):
            raise Conflict(f"the source {source[:100]!r} uses this table")
        if not self.session.execute("DELETE FROM lookup_tables WHERE tenant_id = ? AND name = ?", (tenant_id, name)):
            raise UnknownObject(f"there is no table {name[:100]!r}")

    def _users(self, tenant_id: int, name: str) -> list[tuple[str, LookupSettings]]:
        """Returns the sources that use a table, each with how it does."""
        rows = self.session.rows("SELECT name, options FROM sources WHERE tenant_id = ? ORDER BY name", (tenant_id,))
        used = (
            (source, LookupSettings.of(lookup))
            for source, options in rows
            for lookup in json.loads(options or "{}").get("lookups", ())
        )
        return [(source, settings) for source, settings in used if settings.table == name]
