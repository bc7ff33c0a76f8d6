"""Tenants, tokens and sources."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping
from typing import Any, Final

from twigcast.broker.errors import Conflict, LimitReached, UnknownObject
from twigcast.broker.model import Scope, Source, Statistics, Tenant, Token
from twigcast.broker.store.database import Reads, Row, Writes

_OF_TOKENS: Final = (
    "id, tenant_id, name, scopes, digest, created, expires, used, previous_digest, previous_until, narrowed"
)
_SOURCE: Final = "id, tenant_id, name, kind, url, interval, dtd, paused, state, options"


def _token(row: Row) -> Token:
    number, tenant_id, name, scopes, digest, created, expires, used, previous, previous_until, narrowed = row
    about = {key: frozenset(names) for key, names in json.loads(narrowed or "{}").items()}
    before = None if previous is None else bytes(previous)
    known = frozenset(map(Scope, scopes.split()))
    return Token(number, tenant_id, name, known, bytes(digest), created, expires, used, before, previous_until, **about)


def _narrowed(**chosen: Collection[str] | None) -> str | None:
    """Returns what a token is narrowed to, as JSON."""
    results = {name: sorted(names) for name, names in chosen.items() if names is not None}
    return json.dumps(results) if results else None


def _source(row: Row) -> Source:
    number, tenant_id, name, kind, url, interval, dtd, paused, state, options = row
    polling = json.loads(options or "{}")
    return Source(number, tenant_id, name, kind, url, interval, dtd, bool(paused), json.loads(state), **polling)


def _source_options(source: Source) -> str | None:
    """Returns further settings as JSON, without those that are as usual."""
    usual = Source(0, source.tenant_id, source.name, source.kind)
    names = ("updates", "follow", "follow_hosts", "doctype", "validation", "profile", "lookups", "xsd")
    options = {name: getattr(source, name) for name in names if getattr(source, name)}
    chosen = {
        name: value if isinstance(value, str) else list(value)
        for name, value in options.items()
        if value != getattr(usual, name)
    }
    return json.dumps(chosen) if chosen else None


class AdministrationReads(Reads):
    """Reading methods for tenants, tokens, sources and counts."""

    def secret(self) -> bytes:
        """Returns 32 random bytes, made with the store and kept in it, that sign capability URLs."""
        (stored,) = self.one("SELECT secret FROM secrets WHERE name = 'urls'")
        # Any bytes, as the text of which they are the Latin-1 form.
        return (self.memory.sealer.open(bytes(stored).decode("latin-1")) or "").encode("latin-1")

    def tenants(self) -> list[Tenant]:
        """Returns all tenants."""
        return [
            Tenant(number, name, json.loads(limits))
            for number, name, limits in self.rows("SELECT id, name, limits FROM tenants WHERE erased = 0 ORDER BY id")
        ]

    def erased_tenants(self) -> list[int]:
        """Returns the tenants that are erased but still have something stored."""
        return [number for (number,) in self.rows("SELECT id FROM tenants WHERE erased = 1 ORDER BY id")]

    def token_by_digest(self, digest: bytes) -> Token | None:
        """Returns a token by the digest of its secret, or of the one before; the caller judges how long it is valid."""
        row = self.first(f"SELECT {_OF_TOKENS} FROM tokens WHERE digest = ? OR previous_digest = ?", (digest, digest))
        return None if row is None else _token(row)

    def tokens(self, tenant_id: int) -> list[Token]:
        """Returns the tokens of a tenant."""
        return [
            _token(row)
            for row in self.rows(f"SELECT {_OF_TOKENS} FROM tokens WHERE tenant_id = ? ORDER BY id", (tenant_id,))
        ]

    def access_version(self) -> int:
        """Returns a number that grows with each deletion of a token and each change of a tenant's limits."""
        return int(self.one("SELECT value FROM counters WHERE name = 'access'")[0])

    def source(self, tenant_id: int, name: str) -> Source | None:
        """Returns a source by its name."""
        row = self.first(f"SELECT {_SOURCE} FROM sources WHERE tenant_id = ? AND name = ?", (tenant_id, name))
        return None if row is None else _source(row)

    def sources(self, tenant_id: int | None = None) -> list[Source]:
        """Returns the sources of a tenant, or of all."""
        condition, params = ("", ()) if tenant_id is None else (" WHERE tenant_id = ?", (tenant_id,))
        rows = self.rows(f"SELECT {_SOURCE} FROM sources{condition} ORDER BY tenant_id, name", params)
        return [_source(row) for row in rows]

    def statistics(self, tenant_id: int | None = None) -> Statistics:
        """Returns the counts of a tenant, or of all."""
        of_tenant, params = ("", ()) if tenant_id is None else (" WHERE tenant_id = ?", (tenant_id,))
        counts = {
            table: int(self.one(f"SELECT COUNT(*) FROM {table}{of_tenant}", params)[0])
            for table in ("messages", "rejected", "subscriptions", "lanes", "dead_letters")
        }
        (pending,) = self.one(
            "SELECT COUNT(*) FROM lanes l CROSS JOIN deliveries d "
            f"{of_tenant or ' WHERE TRUE'} AND d.lane_id = l.id AND d.seq > l.acked AND d.acked = 0 "
            "AND d.subscription_id NOT IN (SELECT subscription_id FROM leftovers)",
            params,
        )
        (aside,) = self.one(
            f"SELECT COUNT(*) FROM lanes l CROSS JOIN set_aside w {of_tenant or ' WHERE TRUE'} AND w.lane_id = l.id",
            params,
        )
        size = self.database.size()
        if tenant_id is not None:
            (size,) = self.one(
                "SELECT COALESCE((SELECT SUM(size) FROM messages WHERE tenant_id = ?), 0) "
                "+ COALESCE((SELECT SUM(size) FROM rejected WHERE tenant_id = ?), 0)",
                (tenant_id, tenant_id),
            )
        return Statistics(**counts, pending=int(pending) + int(aside), bytes=int(size))


class AdministrationWrites(Writes):
    """Changing methods for tenants, tokens and sources."""

    def add_tenant(self, name: str, limits: Mapping[str, int]) -> Tenant:
        """Adds a tenant. Raises Conflict if the name is taken."""
        if self.first("SELECT 1 FROM tenants WHERE name = ?", (name,)):
            raise Conflict(f"there is a tenant {name!r} already")
        tenant = Tenant(self.counters.take("tenant"), name, dict(limits))
        self.session.execute(
            "INSERT INTO tenants (id, name, limits) VALUES (?, ?, ?)", (tenant.id, name, json.dumps(tenant.limits))
        )
        return tenant

    def set_tenant_limits(self, tenant_id: int, limits: Mapping[str, int]) -> None:
        """Sets a tenant's own limits."""
        if not self.session.execute(
            "UPDATE tenants SET limits = ? WHERE id = ?", (json.dumps(dict(limits)), tenant_id)
        ):
            raise UnknownObject("there is no such tenant")
        self.counters.take("access")

    def begin_erasure(self, tenant_id: int) -> list[int]:
        """Marks a tenant as erased and removes its tokens, whose ids it returns. Its name can be used again."""
        tokens = [number for (number,) in self.session.rows("SELECT id FROM tokens WHERE tenant_id = ?", (tenant_id,))]
        name = f"erased {tenant_id} {secrets.token_hex(8)}"
        if not self.session.execute(
            "UPDATE tenants SET erased = 1, name = ?, limits = '{}' WHERE id = ? AND erased = 0", (name, tenant_id)
        ):
            raise UnknownObject("there is no such tenant")
        self.session.execute("DELETE FROM tokens WHERE tenant_id = ?", (tenant_id,))
        self.counters.take("access")
        return tokens

    def _require_tenant(self, tenant_id: int) -> None:
        # A request may have been admitted before its tenant was erased.
        if self.first("SELECT 1 FROM tenants WHERE id = ? AND erased = 0", (tenant_id,)) is None:
            raise UnknownObject("there is no such tenant")

    def add_token(
        self,
        tenant_id: int,
        name: str,
        scopes: frozenset[Scope],
        digest: bytes,
        *,
        at: float,
        tokens_max: int | None = None,
        expires: float | None = None,
        sources: frozenset[str] | None = None,
        subscribers: frozenset[str] | None = None,
        certificates: frozenset[str] | None = None,
    ) -> Token:
        """Stores the digest of a new token. Raises LimitReached if the tenant has ``tokens_max`` already."""
        self._require_tenant(tenant_id)
        self._refuse_over("tokens", tenant_id, tokens_max)
        number = self.counters.take("token")
        self.session.execute(
            "INSERT INTO tokens (id, tenant_id, name, scopes, digest, created, expires, narrowed) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(number, tenant_id, name, " ".join(sorted(scopes)), digest, at, expires),
                _narrowed(sources=sources, subscribers=subscribers, certificates=certificates),
            ),
        )
        return Token(
            *(number, tenant_id, name, scopes, digest, at, expires),
            sources=sources,
            subscribers=subscribers,
            certificates=certificates,
        )

    def rotate_token(self, token_id: int, digest: bytes, *, previous_until: float) -> Token:
        """Gives a token a new secret. The secret before it stays valid for a while, and earlier ones become invalid."""
        if not self.session.execute(
            "UPDATE tokens SET previous_digest = digest, previous_until = ?, digest = ? WHERE id = ?",
            (previous_until, digest, token_id),
        ):
            raise UnknownObject("there is no such token")
        self.counters.take("access")
        (row,) = self.session.rows(f"SELECT {_OF_TOKENS} FROM tokens WHERE id = ?", (token_id,))
        return _token(row)

    def set_tokens_used(self, uses: Mapping[int, float]) -> None:
        """Stores when tokens were used last; those that were deleted meanwhile are left out."""
        for number, at in uses.items():
            self.session.execute("UPDATE tokens SET used = ? WHERE id = ?", (at, number))

    def delete_token(self, token_id: int) -> None:
        """Removes a token."""
        if not self.session.execute("DELETE FROM tokens WHERE id = ?", (token_id,)):
            raise UnknownObject("there is no such token")
        self.counters.take("access")

    def put_source(self, source: Source, *, sources_max: int | None = None) -> Source:
        """Registers a source, or changes that of its name; returns it as stored. Raises LimitReached over the limit."""
        s, name = source, (source.tenant_id, source.name)
        settings = (s.kind, s.url, s.interval, s.dtd, int(s.paused))
        options = _source_options(s)
        changed = self.session.execute(
            "UPDATE sources SET kind = ?, url = ?, interval = ?, dtd = ?, paused = ?, options = ? "
            "WHERE tenant_id = ? AND name = ?",
            (*settings, options, *name),
        )
        if not changed:
            self._require_tenant(s.tenant_id)
            self._refuse_over("sources", s.tenant_id, sources_max)
            self.session.execute(
                f"INSERT INTO sources ({_SOURCE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, '{{}}', ?)",
                (self.counters.take("source"), *name, *settings, options),
            )
        (row,) = self.session.rows(f"SELECT {_SOURCE} FROM sources WHERE tenant_id = ? AND name = ?", name)
        return _source(row)

    def _refuse_over(self, table: str, tenant_id: int, most: int | None) -> None:
        # The count is part of the transaction that adds a row: of two concurrent requests the second sees the row of
        # the first.
        if most is None:
            return
        ((count,),) = self.session.rows(f"SELECT COUNT(*) FROM {table} WHERE tenant_id = ?", (tenant_id,))
        if count >= most:
            raise LimitReached.of(table, f"{table}_max", most)

    def set_source_state(self, source_id: int, state: Mapping[str, Any]) -> None:
        """Stores the state of polling."""
        if not self.session.execute("UPDATE sources SET state = ? WHERE id = ?", (json.dumps(dict(state)), source_id)):
            raise UnknownObject("there is no such source")

    def delete_source(self, source_id: int) -> None:
        """Removes a source; its messages stay."""
        if not self.session.execute("DELETE FROM sources WHERE id = ?", (source_id,)):
            raise UnknownObject("there is no such source")
