"""``/tokens``, ``/tenants`` and ``/me``: tokens and permissions.

An administrator administers its tenant; one of the first tenant the whole broker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query

from twigcast.broker.api.access import Principal
from twigcast.broker.api.context import Admin, Anyone, ApiContext, Bearer, Operator, PathName, QueryName, Shared
from twigcast.broker.api.models import (
    ClockOut,
    ErasedOut,
    LimitsIn,
    NewTokenOut,
    RotationIn,
    StatisticsOut,
    TenantIn,
    TenantOut,
    TenantsOut,
    TokenIn,
    TokenOut,
    TokensOut,
    WhoOut,
)
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.errors import Conflict, UnknownObject
from twigcast.broker.model import Scope, Tenant, Token
from twigcast.broker.tokens import digest, new_secret

USUAL_ROTATION: Final = RotationIn()
_ERASED_SECONDS: Final = 20.0
"""Time that a response waits for the end of an erasure."""

router = APIRouter(tags=["administration"], responses=problem_responses(401, 403))


@router.get("/me")
async def who(principal: Bearer) -> WhoOut:
    """Describes the token of the request, and what it permits."""
    return WhoOut(tenant=principal.tenant.name, token=TokenOut.of(principal.token), operator=principal.is_operator)


@router.get("/statistics")
async def statistics(principal: Anyone, shared: Shared) -> StatisticsOut:
    """Counts what the tenant has stored."""
    return StatisticsOut.of(await asyncio.to_thread(shared.broker.store.statistics, principal.tenant_id))


@router.post("/tokens", status_code=201, responses=problem_responses(404, 409, 422, 503, 507))
async def create_token(body: TokenIn, principal: Admin, shared: Shared) -> NewTokenOut:
    """Makes a token. It is shown here and never again."""
    tenant = await _tenant(shared, principal, body.tenant)
    most = shared.settings.limits_of(tenant).tokens_max
    secret = new_secret()
    mark, scopes, at = digest(secret), frozenset(body.scopes), time.time()
    token = await shared.broker.change(
        lambda transaction: transaction.add_token(
            tenant.id,
            body.name,
            scopes,
            mark,
            at=at,
            tokens_max=most,
            expires=None if body.expires is None else body.expires.timestamp(),
            sources=_names(body.sources),
            subscribers=_names(body.subscribers),
            certificates=_names(body.certificates),
        )
    )
    return NewTokenOut(**TokenOut.of(token).model_dump(), token=secret)


def _names(names: Sequence[str] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


@router.post("/tokens/{token}/rotate", responses=problem_responses(404, 409, 422, 503, 507))
async def rotate_token(token: int, principal: Admin, shared: Shared, body: RotationIn = USUAL_ROTATION) -> NewTokenOut:
    """Gives a token a new secret, which is shown here and never again. The old one is accepted for a while.

    With `keep_seconds` 0 the old one opens nothing from now on, and streams that were opened with it end.
    """
    existing, _ = await _find_token(shared, principal, token)
    if existing.expires is not None and existing.expires <= time.time():
        raise Conflict("the token has expired, and another secret would open nothing either: make another token")
    secret = new_secret()
    mark, until = digest(secret), time.time() + body.keep_seconds
    rotated = await shared.broker.change(
        lambda transaction: transaction.rotate_token(existing.id, mark, previous_until=until)
    )
    shared.authenticator.forget_token(token)
    if not body.keep_seconds:
        shared.streams.end_of(token)
    return NewTokenOut(**TokenOut.of(rotated).model_dump(), token=secret)


async def _find_token(shared: ApiContext, principal: Principal, number: int) -> tuple[Token, list[Token]]:
    """Returns a token, with all of its tenant; those of other tenants only to operators."""
    store = shared.broker.store
    tenants = await asyncio.to_thread(store.tenants) if principal.is_operator else [principal.tenant]
    for tenant in tenants:
        tokens = {existing.id: existing for existing in await asyncio.to_thread(store.tokens, tenant.id)}
        if number in tokens:
            return tokens[number], list(tokens.values())
    raise UnknownObject(f"there is no token with the number {number}")


@router.get("/tokens", responses=problem_responses(404))
async def list_tokens(
    principal: Admin,
    shared: Shared,
    tenant: Annotated[QueryName | None, Query(description="The tenant, for operators; by default your own.")] = None,
) -> TokensOut:
    """Returns the tokens of a tenant, without their secrets."""
    result = await _tenant(shared, principal, tenant)
    tokens = await asyncio.to_thread(shared.broker.store.tokens, result.id)
    return TokensOut(tokens=[TokenOut.of(token) for token in tokens])


@router.delete("/tokens/{token}", status_code=204, responses=problem_responses(404, 409, 503, 507))
async def delete_token(token: int, principal: Admin, shared: Shared) -> None:
    """Deletes a token: it opens nothing from now on, and what it has opened ends."""
    existing, others = await _find_token(shared, principal, token)
    if principal.is_operator and existing.tenant_id == principal.tenant_id:
        _refuse_the_last(others, token)
    await shared.broker.change(lambda transaction: transaction.delete_token(token))
    shared.authenticator.forget_token(token)
    shared.streams.end_of(token)


def _refuse_the_last(tokens: Sequence[Token], token: int) -> None:
    """Keeps operators from locking themselves out."""
    others = [existing for existing in tokens if existing.id != token and existing.expires is None]
    if not any(Scope.ADMIN in existing.scopes for existing in others):
        raise Conflict("this is the last admin token of the first tenant that does not expire; make another one first")


@router.get("/tenants")
async def list_tenants(principal: Operator, shared: Shared) -> TenantsOut:
    """Returns all tenants."""
    return TenantsOut(tenants=[TenantOut.of(tenant) for tenant in await asyncio.to_thread(shared.broker.store.tenants)])


@router.post("/tenants", status_code=201, responses=problem_responses(409, 422, 503, 507))
async def create_tenant(body: TenantIn, principal: Operator, shared: Shared) -> TenantOut:
    """Makes a tenant. A token for it is made with `POST /tokens`."""
    tenant = await shared.broker.change(lambda transaction: transaction.add_tenant(body.name, body.limits))
    await shared.broker.tenants_changed()
    return TenantOut.of(tenant)


@router.patch("/tenants/{name}", responses=problem_responses(404, 422, 503, 507))
async def set_limits(name: PathName, body: LimitsIn, principal: Operator, shared: Shared) -> TenantOut:
    """Sets a tenant's own limits; those that are left out are the broker's again."""
    tenant = await _tenant(shared, principal, name)
    await shared.broker.change(lambda transaction: transaction.set_tenant_limits(tenant.id, body.limits))
    await shared.broker.tenants_changed()
    shared.authenticator.forget()
    return TenantOut(name=tenant.name, limits=body.limits)


@router.delete("/tenants/{name}", responses=problem_responses(404, 409, 503, 507))
async def erase_tenant(name: PathName, principal: Operator, shared: Shared) -> ErasedOut:
    """Erases a tenant with all that it has stored: nothing of it can be had back.

    Its tokens open nothing from now on, and its streams end. Removing much takes a while; then the response comes with
    `is_done` false, and the broker goes on, also after a restart.
    """
    tenant = await _tenant(shared, principal, name)
    if tenant.id == principal.tenant_id:
        raise Conflict("this is the first tenant, whose tokens administer the broker; it cannot be erased")
    tokens, erasing = await shared.broker.erase_tenant(tenant)
    for token in tokens:
        shared.authenticator.forget_token(token)
        shared.streams.end_of(token)
    shared.sources_changed()
    await asyncio.wait([erasing], timeout=_ERASED_SECONDS)
    return ErasedOut(name=tenant.name, is_done=erasing.done())


@router.get("/clock")
async def clock(principal: Operator, shared: Shared) -> ClockOut:
    """Returns what the clock of the broker says, and whether messages expire by it."""
    return ClockOut.of_state(shared.broker.clock())


@router.post("/clock/confirm", responses=problem_responses(503, 507))
async def confirm_clock(principal: Operator, shared: Shared) -> ClockOut:
    """Confirms the clock of the broker after it has jumped: from now on messages expire by it.

    Messages with a later time, which were stored while the clock was wrong, get the present one.
    """
    return ClockOut.of_state(await shared.broker.confirm_clock())


async def _tenant(shared: ApiContext, principal: Principal, name: str | None) -> Tenant:
    """Returns the named tenant; one other than its own only to operators."""
    if name is None or name == principal.tenant.name:
        return principal.tenant
    if principal.is_operator:
        for tenant in await asyncio.to_thread(shared.broker.store.tenants):
            if tenant.name == name:
                return tenant
    raise UnknownObject(f"there is no tenant {name!r}")
