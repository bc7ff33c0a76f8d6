"""``/sources``: the origins of messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fastapi import APIRouter
from starlette.responses import Response

from twigcast.broker.api.access import Principal
from twigcast.broker.api.context import Admin, Anyone, ApiContext, PathName, Shared
from twigcast.broker.api.models.administration import SourceIn, SourceOut, SourcesOut
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.errors import Invalid, NotFound
from twigcast.broker.model import Source
from twigcast.errors import MissingExtra
from twigcast.schema.dtd import SchemaError, read_dtd

router = APIRouter(prefix="/sources", tags=["sources"], responses=problem_responses(401, 403))


@router.get("")
async def list_sources(principal: Anyone, shared: Shared) -> SourcesOut:
    """Returns the registered sources. Publishers need none: a message may name any source."""
    results = await asyncio.to_thread(shared.broker.store.sources, principal.tenant_id)
    return SourcesOut(sources=[SourceOut.of(source) for source in results])


@router.get("/{name}", responses=problem_responses(404))
async def get_source(name: PathName, principal: Anyone, shared: Shared) -> SourceOut:
    """Returns a source."""
    return SourceOut.of(await _find(shared, principal, name))


@router.put("/{name}", responses=problem_responses(409, 422, 503, 507) | {201: {"model": SourceOut}})
async def put_source(name: PathName, body: SourceIn, principal: Admin, shared: Shared, response: Response) -> SourceOut:
    """Registers a source, or changes one.

    With a kind other than `push` the broker polls it and publishes what is new.
    """
    if shared.overlay is not None and body.kind != "push":
        # Polled messages are published here, under this name, without a key.
        peer = f"token {principal.token.name}"
        shared.overlay.registering.catalogue.check(principal.tenant.name, {name}, None, peer)
    url = None if body.url is None else await shared.urls.check(body.url)
    if body.dtd is not None:
        await asyncio.to_thread(_check_dtd, body.dtd)
    existing = await asyncio.to_thread(shared.broker.store.sources, principal.tenant_id)
    is_new = all(source.name != name for source in existing)
    stored = await shared.broker.change(
        lambda transaction: transaction.put_source(
            principal.tenant_id,
            name,
            kind=body.kind,
            url=url,
            interval=body.interval,
            dtd=body.dtd,
            paused=body.paused,
            sources_max=principal.limits.sources_max,
        )
    )
    shared.sources_changed()
    response.status_code = 201 if is_new else 200
    return SourceOut.of(stored)


def _check_dtd(text: str) -> None:
    """Checks that a text is a DTD, as far as this can be seen here. Blocks.

    Raises:
        Invalid: It is none, or refers to external entities.
    """
    try:
        read_dtd(text.encode())
    except MissingExtra:
        # An unchanged DTD was checked before.
        return
    except SchemaError as error:
        raise Invalid(f"dtd: {error}") from None


@router.post("/{name}/pause", responses=problem_responses(404, 503, 507))
async def pause_source(name: PathName, principal: Admin, shared: Shared) -> SourceOut:
    """Stops polling a source until it is resumed."""
    return await _set_paused(shared, principal, name, paused=True)


@router.post("/{name}/resume", responses=problem_responses(404, 503, 507))
async def resume_source(name: PathName, principal: Admin, shared: Shared) -> SourceOut:
    """Resumes polling a source."""
    return await _set_paused(shared, principal, name, paused=False)


@router.delete("/{name}", status_code=204, responses=problem_responses(404, 503, 507))
async def delete_source(name: PathName, principal: Admin, shared: Shared) -> None:
    """Deletes a source. Its messages stay."""
    result = await _find(shared, principal, name)
    await shared.broker.change(lambda transaction: transaction.delete_source(result.id))
    shared.sources_changed()


async def _find(shared: ApiContext, principal: Principal, name: str) -> Source:
    result = await asyncio.to_thread(shared.broker.store.source, principal.tenant_id, name)
    if result is None:
        raise NotFound(f"there is no source {name!r}")
    return result


async def _set_paused(shared: ApiContext, principal: Principal, name: str, *, paused: bool) -> SourceOut:
    result = replace(await _find(shared, principal, name), paused=paused)
    stored = await shared.broker.change(
        lambda transaction: transaction.put_source(
            result.tenant_id,
            result.name,
            kind=result.kind,
            url=result.url,
            interval=result.interval,
            dtd=result.dtd,
            paused=result.paused,
        )
    )
    shared.sources_changed()
    return SourceOut.of(stored)
