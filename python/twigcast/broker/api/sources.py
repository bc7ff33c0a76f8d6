"""``/sources``: the origins of messages."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from twigcast.broker.api.access import Principal
from twigcast.broker.api.context import Admin, Anyone, ApiContext, PathName, Shared
from twigcast.broker.api.models import PollOut, PollsOut, SourceIn, SourceOut, SourcesOut
from twigcast.broker.api.openapi import NOT_MODIFIED, problem_responses
from twigcast.broker.api.preconditions import Conditions, answer_if_changed, tag_of_source
from twigcast.broker.errors import Invalid, UnknownObject
from twigcast.broker.hub.lookups import check_expressions
from twigcast.broker.lookup_tables import LookupSettings
from twigcast.broker.model import Source
from twigcast.errors import LifecycleProfileError, MissingExtra
from twigcast.lifecycle.builtin import BUILTIN
from twigcast.lifecycle.facts import ProfileReader
from twigcast.lifecycle.profiles import profile_text, read_profile

router = APIRouter(prefix="/sources", tags=["sources"], responses=problem_responses(401, 403))


@router.get("")
async def list_sources(principal: Anyone, shared: Shared) -> SourcesOut:
    """Returns the registered sources. Publishers need none: a message may name any source."""
    results = await asyncio.to_thread(shared.broker.store.sources, principal.tenant_id)
    return SourcesOut(sources=[SourceOut.of(source) for source in results])


@router.get("/{name}", response_model=SourceOut, responses=problem_responses(400, 404, 412) | NOT_MODIFIED)
async def get_source(
    name: PathName, principal: Anyone, shared: Shared, conditions: Conditions, response: Response
) -> Any:
    """Returns a source."""
    source = await find(shared, principal, name)
    return answer_if_changed(conditions, tag_of_source(source), response, lambda: SourceOut.of(source))


@router.get("/{name}/polls", responses=problem_responses(404))
async def list_polls(name: PathName, principal: Anyone, shared: Shared) -> PollsOut:
    """Returns the reports of the last polls of a source, newest first."""
    source = await find(shared, principal, name)
    return PollsOut(polls=[PollOut.model_validate(report) for report in source.state.get("reports") or ()])


@router.put("/{name}", responses=problem_responses(400, 409, 412, 422, 503, 507) | {201: {"model": SourceOut}})
async def put_source(
    name: PathName, body: SourceIn, principal: Admin, shared: Shared, conditions: Conditions, response: Response
) -> SourceOut:
    """Registers a source, or changes one.

    With a kind other than `push` the broker polls it and publishes what is new.
    """
    if shared.overlay is not None and body.kind != "push":
        # Polled messages are published here, under this name, without a key.
        peer = f"token {principal.token.name}"
        shared.overlay.registering.catalogue.check(principal.tenant.name, {name}, None, peer)
    url = None if body.url is None else await shared.urls.check(body.url)
    if body.dtd is not None:
        await asyncio.to_thread(_check_dtd, body.dtd, needed=body.validation != "off")
    if body.xsd is not None:
        await asyncio.to_thread(_check_xsd, body.xsd, needed=body.validation != "off")
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
        doctype=body.doctype,
        validation=body.validation,
        profile=None if body.profile is None else await asyncio.to_thread(_profile, body.profile, name),
        lookups=[one.model_dump() for one in body.lookups],
        xsd=body.xsd,
    )
    if source.lookups:
        await asyncio.to_thread(_check_lookups, source)
    most = principal.limits.sources_max
    async with shared.locks.of(principal.tenant_id, "source", name):
        existing = await asyncio.to_thread(shared.broker.store.source, principal.tenant_id, name)
        conditions.check(None if existing is None else tag_of_source(existing))
        stored = await shared.broker.change(lambda transaction: transaction.put_source(source, sources_max=most))
    await shared.broker.sources_changed()
    shared.sources_changed()
    response.status_code = 201 if existing is None else 200
    response.headers["ETag"] = tag_of_source(stored)
    return SourceOut.of(stored)


def _profile(profile: str | dict[str, Any], source: str) -> str:
    """Returns a profile as sources hold it; raises Invalid if it cannot be used. Blocks."""
    try:
        if isinstance(profile, str) and profile not in BUILTIN:
            known = ", ".join(BUILTIN)
            raise Invalid(f"profile: there is no profile {profile[:100]!r}; there are {known}, and objects")
        read = read_profile({"name": source, **profile} if isinstance(profile, dict) else profile)
        ProfileReader(read)  # which reads its expressions
        return profile_text(read)
    except LifecycleProfileError as error:
        raise Invalid(f"profile: {error.part}: {error.reason}") from None


def _check_lookups(source: Source) -> None:
    """Raises Invalid unless the expressions of look-ups can be used. Tables are checked when it is stored. Blocks."""
    for position, one in enumerate(source.lookups):
        try:
            check_expressions(LookupSettings.of(one))
        except Invalid as error:
            raise Invalid(f"lookups[{position}]: {error}") from None


def _check_dtd(text: str, *, needed: bool) -> None:
    """Raises Invalid unless a text is a DTD without external entities, as far as this can be seen here. Blocks."""
    from twigcast.schema.dtd import DtdValidator, SchemaError, read_dtd  # most brokers have no DTDs

    try:
        if needed:
            DtdValidator(text.encode())
        else:
            read_dtd(text.encode())
    except MissingExtra as error:
        if needed:
            raise Invalid(f"validation: {error}") from None
        # An unchanged DTD was checked before.
        return
    except SchemaError as error:
        raise Invalid(f"dtd: {error}") from None


def _check_xsd(text: str, *, needed: bool) -> None:
    """Raises Invalid unless a text is a schema that can be used. Blocks."""
    from twigcast.schema.dtd import SchemaError  # most brokers have no schemas
    from twigcast.schema.xsd import XsdValidator

    try:
        XsdValidator(text.encode()).close()
    except MissingExtra as error:
        if needed:
            raise Invalid(f"validation: {error}") from None
    except SchemaError as error:
        raise Invalid(f"xsd: {error}") from None


@router.post("/{name}/pause", responses=problem_responses(404, 503, 507))
async def pause_source(name: PathName, principal: Admin, shared: Shared) -> SourceOut:
    """Stops polling a source until it is resumed."""
    return SourceOut.of(await set_paused(shared, await find(shared, principal, name), paused=True))


@router.post("/{name}/resume", responses=problem_responses(404, 503, 507))
async def resume_source(name: PathName, principal: Admin, shared: Shared) -> SourceOut:
    """Resumes polling a source."""
    return SourceOut.of(await set_paused(shared, await find(shared, principal, name), paused=False))


@router.delete("/{name}", status_code=204, responses=problem_responses(400, 404, 412, 503, 507))
async def delete_source(name: PathName, principal: Admin, shared: Shared, conditions: Conditions) -> None:
    """Deletes a source. Its messages stay."""
    async with shared.locks.of(principal.tenant_id, "source", name):
        source = await find(shared, principal, name)
        conditions.check(tag_of_source(source))
        await delete(shared, source)


async def delete(shared: ApiContext, source: Source) -> None:
    """Deletes a source."""
    await shared.broker.change(lambda transaction: transaction.delete_source(source.id))
    await shared.broker.sources_changed()
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
