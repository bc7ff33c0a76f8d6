"""Authentication and permissions: bearer tokens, tickets for streams, and limits of rates and counts."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Container, Iterable
from dataclasses import dataclass
from typing import Final

from twigcast.broker.config import Settings, TenantLimits
from twigcast.broker.errors import Forbidden, Stopping, StoreUnavailable, TooMany, Unauthorized
from twigcast.broker.model import Scope, Tenant, Token
from twigcast.broker.store.store import Store, Transaction
from twigcast.broker.tokens import digest

_log = logging.getLogger("twigcast.api")

_REMEMBERED_MAX: Final = 10_000
_REMEMBERED_SECONDS: Final = 30.0
"""Time that a token is remembered. A deleted one is forgotten at once: see :meth:`Authenticator.watch`."""

WATCHED_SECONDS: Final = 0.25
"""Time after which changes by an operator's command are noticed."""

USES_SECONDS: Final = 30.0
"""Time between two records of when tokens were used last. A token in use is looked up as often."""

TICKET_SECONDS: Final = 60.0
_TICKETS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True)
class Principal:
    """The sender of a request."""

    tenant: Tenant
    token: Token
    limits: TenantLimits
    is_operator: bool
    """Whether its tenant is the first one, whose administrators administer the whole broker."""

    @property
    def tenant_id(self) -> int:
        """The id of its tenant."""
        return self.tenant.id

    def require_certificate(self, certificate: str | None) -> None:
        """Raises Unauthorized if its token is bound to other certificates than the one that the client has shown."""
        if self.token.certificates is not None and certificate not in self.token.certificates:
            raise Unauthorized("the token is bound to a client certificate, and the request came without it")

    def require(self, scope: Scope) -> None:
        """Raises Forbidden unless it has a scope, for all sources and subscribers; an administrator has all."""
        self.require_some(scope)
        narrowed = {Scope.PUBLISH: self.token.sources, Scope.SUBSCRIBE: self.token.subscribers}.get(scope)
        if narrowed is not None:
            what = "publish as some sources" if scope is Scope.PUBLISH else "receive the deliveries of some subscribers"
            raise Forbidden(f"the token may only {what}")

    def require_some(self, scope: Scope) -> None:
        """Raises Forbidden unless it has a scope, if only for some sources or subscribers."""
        if scope not in self.token.scopes and Scope.ADMIN not in self.token.scopes:
            raise Forbidden(f"the token does not have the scope {scope.value!r}")

    def require_whole(self) -> None:
        """Raises Forbidden if its token is narrowed to sources or subscribers."""
        if self.token.sources is not None or self.token.subscribers is not None:
            raise Forbidden("the token is narrowed to some sources or subscribers")

    def require_sources(self, sources: Iterable[str]) -> None:
        """Raises Forbidden unless it may publish as each of these sources."""
        self.require_some(Scope.PUBLISH)
        permitted = self.token.sources
        if permitted is not None and (other := next((name for name in sources if name not in permitted), None)):
            raise Forbidden(f"the token may not publish as the source {other!r}")

    def require_subscriber(self, subscriber: str) -> None:
        """Raises Forbidden unless it may receive the deliveries of a subscriber."""
        self.require_some(Scope.SUBSCRIBE)
        permitted = self.token.subscribers
        if permitted is not None and subscriber not in permitted:
            raise Forbidden(f"the token may not receive the deliveries of {subscriber!r}")

    def require_operator(self) -> None:
        """Raises Forbidden unless it administers the whole broker."""
        self.require(Scope.ADMIN)
        if not self.is_operator:
            raise Forbidden("only administrators of the first tenant may do this")


class _AllBut:
    """A container of all numbers but a few."""

    def __init__(self, others: Container[int]) -> None:
        self._others = others

    def __contains__(self, number: object) -> bool:
        return number not in self._others


class Authenticator:
    """An authenticator that recognises tokens and tickets."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._remembered: dict[bytes, tuple[Principal, float]] = {}
        self._tickets: dict[str, tuple[Principal, str, float]] = {}
        self._version = 0
        self._uses: dict[int, float] = {}
        """When tokens were looked up last, since that was stored."""
        self._expiring: dict[int, float] = {}
        """When tokens that were used expire."""

    async def watch(self, deleted: Callable[[Container[int]], None]) -> None:
        """Notices tokens that other processes delete, until cancelled: ``deleted`` gets the ids of those that exist."""
        self._version = await asyncio.to_thread(self._store.access_version)
        while True:
            await asyncio.sleep(WATCHED_SECONDS)
            self._end_expired(deleted)
            try:
                version = await asyncio.to_thread(self._store.access_version)
                if version == self._version:
                    continue
                left = await asyncio.to_thread(self._token_ids)
            except StoreUnavailable as error:
                # Nothing can have been deleted from a store that does not answer; remembered tokens expire by
                # themselves.
                _log.debug("tokens cannot be watched: %s", error)
                continue
            self._version = version
            self.forget()
            self._tickets = {name: entry for name, entry in self._tickets.items() if entry[0].token.id in left}
            deleted(left)

    def _end_expired(self, deleted: Callable[[Container[int]], None]) -> None:
        """Ends what was begun with tokens that have expired since."""
        now = time.time()
        over = {number for number, end in self._expiring.items() if end <= now}
        if over:
            self._expiring = {number: end for number, end in self._expiring.items() if number not in over}
            self._tickets = {name: entry for name, entry in self._tickets.items() if entry[0].token.id not in over}
            deleted(_AllBut(over))

    async def record_uses(self, change: Callable[[Callable[[Transaction], None]], Awaitable[None]]) -> None:
        """Stores now and then when tokens were used last, until cancelled."""
        while True:
            await asyncio.sleep(USES_SECONDS)
            uses, self._uses = self._uses, {}
            if not uses:
                continue
            try:
                await change(lambda transaction, uses=uses: transaction.set_tokens_used(uses))  # type: ignore[misc]
            except (StoreUnavailable, Stopping) as error:
                _log.debug("the last uses of tokens cannot be stored: %s", error)
                self._uses = uses | self._uses

    def _token_ids(self) -> set[int]:
        return {token.id for tenant in self._store.tenants() for token in self._store.tokens(tenant.id)}

    async def admit(self, authorization: str | None, certificate: str | None) -> Principal:
        """Returns the sender with this ``Authorization`` header; raises Unauthorized without a known token.

        ``certificate``: the fingerprint of what the client has shown to a proxy, which some tokens need.
        """
        if not authorization:
            raise Unauthorized("a token is needed: Authorization: Bearer tc_...")
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() != "bearer" or not secret:
            raise Unauthorized("the Authorization header must be: Bearer tc_...")
        return await self.admit_token(secret.strip(), certificate)

    async def admit_token(self, secret: str, certificate: str | None) -> Principal:
        """Returns the owner of this token; raises Unauthorized if it is unknown."""
        return await self.admit_digest(digest(secret), certificate)

    async def admit_digest(self, mark: bytes, certificate: str | None) -> Principal:
        """Returns the owner of the token with this digest; raises Unauthorized if it is unknown or was deleted."""
        result = await self._owner(mark)
        result.require_certificate(certificate)
        return result

    async def _owner(self, mark: bytes) -> Principal:
        existing = self._remembered.get(mark)
        if existing and existing[1] > time.monotonic():
            return existing[0]
        result = await asyncio.to_thread(self._look_up, mark)
        if result is None:
            raise Unauthorized("the token is unknown")
        now, end = time.time(), result.token.valid_until(mark)
        if end is not None and end <= now:
            raise Unauthorized("the token has expired, or was replaced by another one")
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        seconds = _REMEMBERED_SECONDS if end is None else min(_REMEMBERED_SECONDS, end - now)
        self._remembered[mark] = (result, time.monotonic() + seconds)
        self._uses[result.token.id] = now
        if result.token.expires is not None:
            self._expiring[result.token.id] = result.token.expires
        return result

    def _look_up(self, mark: bytes) -> Principal | None:
        token = self._store.token_by_digest(mark)
        if token is None:
            return None
        tenants = {tenant.id: tenant for tenant in self._store.tenants()}
        tenant = tenants.get(token.tenant_id)
        if tenant is None:
            return None
        return Principal(tenant, token, self._settings.limits_of(tenant), tenant.id == min(tenants))

    def forget(self) -> None:
        """Forgets all tokens and tenants, so that they are read again."""
        self._remembered.clear()

    def forget_token(self, token_id: int) -> None:
        """Rejects a deleted token from now on, with its tickets."""
        self._remembered.clear()
        self._tickets = {name: entry for name, entry in self._tickets.items() if entry[0].token.id != token_id}

    def ticket(self, principal: Principal, subscriber: str) -> str:
        """Returns a ticket to open streams of one subscriber, for clients that cannot send headers."""
        now = time.monotonic()
        if len(self._tickets) >= _TICKETS_MAX:
            self._tickets = {name: entry for name, entry in self._tickets.items() if entry[2] > now}
            if len(self._tickets) >= _TICKETS_MAX:
                raise TooMany("too many tickets are open", TICKET_SECONDS)
        name = secrets.token_urlsafe(24)
        self._tickets[name] = (principal, subscriber, now + TICKET_SECONDS)
        return name

    def admit_ticket(self, ticket: str, subscriber: str, certificate: str | None) -> Principal:
        """Returns the owner of this ticket; raises Unauthorized if it is unknown, expired, or another subscriber's."""
        entry = self._tickets.get(ticket)
        if entry is None or entry[2] <= time.monotonic() or entry[1] != subscriber:
            raise Unauthorized("the ticket is unknown or has expired; request a new one")
        entry[0].require_certificate(certificate)
        return entry[0]


class Rates:
    """The token buckets of tenants with a limited rate; a bucket holds the messages of one second."""

    def __init__(self) -> None:
        self._buckets: dict[int, tuple[float, float]] = {}

    def take(self, principal: Principal, count: int = 1) -> None:
        """Counts messages that a tenant publishes; if they are over its rate, raises TooMany and counts none."""
        rate = principal.limits.publish_rate_max
        if not rate:
            return
        now = time.monotonic()
        left, at = self._buckets.get(principal.tenant_id, (float(rate), now))
        left = min(float(rate), left + (now - at) * rate)
        # A batch larger than the bucket may pass when the bucket is full, and is paid for afterwards.
        needed = min(count, rate)
        if left < needed:
            raise TooMany(
                f"the limit is publish_rate_max = {rate:,} messages a second for this tenant", (needed - left) / rate
            )
        self._buckets[principal.tenant_id] = (left - count, now)
