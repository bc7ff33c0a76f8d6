"""``/sources``: the origins of messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fastapi import APIRouter
from starlette.responses import Response

from twigcast.broker.api.access import Principal
from twigcast.broker.api.context import Admin, Anyone, ApiContext, PathName, Shared
from twigcast.broker.api.models import PollOut, PollsOut, SourceIn, SourceOut, SourcesOut
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.errors import Invalid, UnknownObject
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
    return SourceOut.of(await find(shared, principal, name))


@router.get("/{name}/polls", responses=problem_responses(404))
async def list_polls(name: PathName, principal: Anyone, shared: Shared) -> PollsOut:
    """Returns the reports of the last polls of a source, newest first."""
    source = await find(shared, principal, name)
    return PollsOut(polls=[PollOut.model_validate(report) for report in source.state.get("reports") or ()])


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
    source = Source(
        0,
        principal.tenant_id,
        name,
        body.kind,
        url,
        body.interval,
        body.dtd,
        body.paused,
        updates=body.updates,
        follow=body.follow,
        follow_hosts=body.follow_hosts,
    )
    most = principal.limits.sources_max
    stored = await shared.broker.change(lambda transaction: transaction.put_source(source, sources_max=most))
    shared.sources_changed()
    response.status_code = 201 if is_new else 200
    return SourceOut.of(stored)


def _check_dtd(text: str) -> None:
    """Raises Invalid unless a text is a DTD without external entities, as far as this can be seen here. Blocks."""
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
    return SourceOut.of(await set_paused(shared, await find(shared, principal, name), paused=True))


@router.post("/{name}/resume", responses=problem_responses(404, 503, 507))
async def resume_source(name: PathName, principal: Admin, shared: Shared) -> SourceOut:
    """Resumes polling a source."""
    return SourceOut.of(await set_paused(shared, await find(shared, principal, name), paused=False))


@router.delete("/{name}", status_code=204, responses=problem_responses(404, 503, 507))
async def delete_source(name: PathName, principal: Admin, shared: Shared) -> None:
    """Deletes a source. Its messages stay."""
    await delete(shared, await find(shared, principal, name))


async def delete(shared: ApiContext, source: Source) -> None:
    """Deletes a source."""
    await shared.broker.change(lambda transaction: transaction.delete_source(source.id))
    shared.sources_changed()


async def find(shared: ApiContext, principal: Principal, name: str) -> Source:
    """Returns a source of the tenant; raises UnknownObject if there is none."""
    result = await asyncio.to_thread(shared.broker.store.source, principal.tenant_id, name)
    if result is None:
        raise UnknownObject(f"there is no source {name[:100]!r}")
    return result


async def set_paused(shared: ApiContext, source: Source, *, paused: bool) -> Source:
    """Stops or resumes polling a source; returns it as stored."""
    changed = replace(source, paused=paused)
    stored = await shared.broker.change(lambda transaction: transaction.put_source(changed))
    shared.sources_changed()
    return stored
