"""``/overlay``: the brokers of the overlay, and the routes of messages through it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fastapi import APIRouter

from twigcast.broker.api.context import ApiContext, Operator, Shared, Subscriber
from twigcast.broker.api.models.overlay import OverlayOut, RouteOut
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.errors import NotFound

if TYPE_CHECKING:
    from twigcast.broker.overlay.service import Overlay

router = APIRouter(tags=["overlay"], responses=problem_responses(401, 403, 404))


@router.get("/overlay")
async def overlay(principal: Operator, shared: Shared) -> OverlayOut:
    """Shows the overlay as this broker sees it: its links, all brokers, recent faults."""
    return OverlayOut.of(await overlay_of(shared).report())


@router.get("/overlay/messages/{seq}", responses=problem_responses(422))
async def route(seq: int, principal: Subscriber, shared: Shared) -> RouteOut:
    """Shows how a message came to this broker, and to which neighbours it goes from here, and why."""
    result = overlay_of(shared)
    stored = await asyncio.to_thread(shared.broker.store.message, principal.tenant_id, seq)
    if stored is None:
        raise NotFound(f"there is no message {seq}, or not any more")
    return RouteOut.of(await result.route_of(stored))


def overlay_of(shared: ApiContext) -> Overlay:
    """Returns the overlay that the broker is part of.

    Raises:
        NotFound: It is part of none.
    """
    if shared.overlay is None:
        raise NotFound("this broker is part of no overlay; it was started without --join and --overlay-listen")
    return shared.overlay
