"""``/overlay``: the brokers of the overlay, the routes of messages, and the registry, through any of its brokers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Query, Response

from twigcast.broker.api.context import NAME_LENGTH_MAX, ApiContext, Operator, PathName, Publisher, Shared, Subscriber
from twigcast.broker.api.messages import find_message
from twigcast.broker.api.models import (
    CatalogueOut,
    ChoiceOut,
    ChosenOut,
    MovedOut,
    OverlayOut,
    ProfileIn,
    RegisteredOut,
    RegistrationIn,
    RouteOut,
    SourceEntryOut,
)
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.errors import UnknownObject
from twigcast.overlay.onyx.registry.description import Description

if TYPE_CHECKING:
    from twigcast.broker.overlay.registration_service import RegistrationService
    from twigcast.broker.overlay.service import Overlay
    from twigcast.overlay.onyx.messages import RoutingQuery, SourceEntry

router = APIRouter(tags=["overlay"], responses=problem_responses(401, 403, 404))

SourceKey = Annotated[
    str | None,
    Header(
        alias="Twigcast-Source-Key",
        max_length=NAME_LENGTH_MAX,
        description="The key of a registered source, from the response to its registration.",
    ),
]
"""Parameter type: the key that proves that the sender is a registered source."""


@router.get("/overlay")
async def overlay(principal: Operator, shared: Shared) -> OverlayOut:
    """Shows the overlay as this broker sees it: its links, all brokers, recent faults."""
    return OverlayOut.of(await overlay_of(shared).report())


@router.get("/overlay/messages/{seq}", responses=problem_responses(422))
async def route(seq: int, principal: Subscriber, shared: Shared) -> RouteOut:
    """Shows how a message came to this broker, and to which neighbours it goes from here, and why."""
    result = overlay_of(shared)
    return RouteOut.of(await result.route_of(await find_message(shared, principal.tenant_id, seq)))


def overlay_of(shared: ApiContext) -> Overlay:
    """Returns the overlay that the broker is part of; raises UnknownObject if it is part of none."""
    if shared.overlay is None:
        raise UnknownObject("this broker is part of no overlay; it was started without --join and --overlay-listen")
    return shared.overlay


@router.get("/overlay/sources")
async def sources(
    principal: Subscriber,
    shared: Shared,
    dtd: Annotated[bool, Query(description="Whether to include the schemas.")] = False,
) -> CatalogueOut:
    """Shows the catalogue: all registered sources, and at which broker each publishes."""
    registering = _registering(shared)
    results = registering.catalogue.sources(principal.tenant.name)
    return CatalogueOut(sources=[_entry(registering, name, one, dtd=dtd) for name, one in results.items()])


@router.get("/overlay/sources/{name}")
async def source(name: PathName, principal: Subscriber, shared: Shared) -> SourceEntryOut:
    """Shows a registered source, with its schema."""
    registering = _registering(shared)
    result = registering.catalogue.source(principal.tenant.name, name)
    if result is None:
        raise UnknownObject(f"there is no registered source {name!r}")
    return _entry(registering, name, result, dtd=True)


@router.put("/overlay/sources/{name}", responses=problem_responses(422, 503))
async def register_source(
    name: PathName, body: RegistrationIn, principal: Publisher, shared: Shared, key: SourceKey = None
) -> RegisteredOut:
    """Registers a source, or changes a registered one.

    The response names the broker at which it is to publish, and its key. From then on, messages under its name are
    accepted there alone, and with this key alone. A source that is registered keeps its broker; its key is needed to
    change it. A key in the first registration becomes the source's.
    """
    key, choice = await _registering(shared).register_source(
        principal.tenant.name, name, key, location=body.location, schema=body.dtd, rate=body.rate, size=body.size
    )
    chosen = ChoiceOut.of(choice)
    return RegisteredOut(broker=chosen.broker, backup=chosen.backup, key=key)


@router.delete("/overlay/sources/{name}", status_code=204, responses=problem_responses(422, 503))
async def remove_source(name: PathName, principal: Publisher, shared: Shared, key: SourceKey = None) -> Response:
    """Removes a source from the catalogue; its name is free then."""
    await _registering(shared).remove_source(principal.tenant.name, name, key)
    return Response(status_code=204)


@router.post("/overlay/choice", responses=problem_responses(422, 503))
async def choose(body: ProfileIn, principal: Subscriber, shared: Shared) -> ChoiceOut:
    """Chooses the broker at which a subscriber should subscribe: near it, and with similar subscriptions."""
    requested = await _routing_query(body, principal.tenant.name)
    return ChoiceOut.of(await _registering(shared).choose(body.location, requested))


@router.put("/overlay/profiles/{name}", responses=problem_responses(422, 503))
async def register_profile(name: PathName, body: ProfileIn, principal: Subscriber, shared: Shared) -> ChoiceOut:
    """Chooses a broker and stores the profile: the broker counts as its host when others are chosen."""
    requested = await _routing_query(body, principal.tenant.name)
    registering = _registering(shared)
    return ChoiceOut.of(await registering.register_profile(principal.tenant.name, name, body.location, requested))


@router.delete("/overlay/profiles/{name}", status_code=204, responses=problem_responses(422, 503))
async def remove_profile(name: PathName, principal: Subscriber, shared: Shared) -> Response:
    """Removes a profile."""
    await _registering(shared).remove_profile(principal.tenant.name, name)
    return Response(status_code=204)


@router.delete("/overlay/brokers/{name}", responses=problem_responses(409, 422, 503))
async def remove_broker(name: PathName, principal: Operator, shared: Shared) -> MovedOut:
    """Declares a broker that cannot be reached gone for good: its sources and profiles get other brokers."""
    moved = await _registering(shared).remove_broker(name)
    return MovedOut(sources=len(moved.sources), profiles=len(moved.profiles))


def _entry(registering: RegistrationService, name: str, source: SourceEntry, *, dtd: bool) -> SourceEntryOut:
    root = ChosenOut.of(registering.broker(source.root) or Description(str(source.root)))
    return SourceEntryOut(
        name=name,
        root=root.name,
        url=root.url,
        version=source.version,
        rate=source.rate,
        size=source.size,
        dtd=(source.schema or None) if dtd else None,
    )


async def _routing_query(body: ProfileIn, scope: str) -> RoutingQuery:
    # A broker without an overlay starts sooner without it.
    from twigcast.overlay.onyx.content.routing_query import routing_query

    return await asyncio.to_thread(routing_query, body.query, body.namespaces, "xpath", scope)


def _registering(shared: ApiContext) -> RegistrationService:
    return overlay_of(shared).registering
