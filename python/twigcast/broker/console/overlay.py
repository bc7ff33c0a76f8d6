"""The page of the overlay: its brokers, links, traffic and faults."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api.models import OverlayOut, RouteOut
from twigcast.broker.api.overlay import overlay_of
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.model import Scope, StoredMessage

if TYPE_CHECKING:
    from twigcast.broker.overlay.service import Overlay
    from twigcast.overlay.onyx.messages import SourceEntry

_SOURCES_MAX: Final = 500
"""Sources of the catalogue that are listed."""

DRAWN_MAX: Final = 40
"""Brokers that are drawn; more are only listed in a table."""

_WIDTH, _HEIGHT, _MARGIN = 640.0, 320.0, 60.0


@dataclass(frozen=True, slots=True)
class DiagramNode:
    """A broker in the drawing."""

    name: str
    x: float
    y: float
    here: bool


@dataclass(frozen=True, slots=True)
class DiagramEdge:
    """A link in the drawing."""

    a: DiagramNode
    b: DiagramNode
    cost: int
    ours: bool


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source in the catalogue."""

    tenant: str
    name: str
    source: SourceEntry
    root: str


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of this page."""
    return [admission.route("/overlay", overview, scope=Scope.ADMIN)]


async def overview(request: PageRequest) -> Response:
    """Shows the overlay as this broker sees it."""
    request.principal.require_operator()
    overlay = overlay_of(request.context)
    result = OverlayOut.of(await overlay.report())
    dots, lines = drawing(result)
    return request.page(
        "overlay.html",
        overlay=result,
        dots=dots,
        lines=lines,
        width=_WIDTH,
        height=_HEIGHT,
        troubles=result.troubles[::-1],
        sources=_sources(overlay),
    )


def _sources(overlay: Overlay) -> list[SourceRow]:
    registering = overlay.registering
    rows = []
    for tenant, name, source in registering.catalogue.all()[:_SOURCES_MAX]:
        root = registering.broker(source.root)
        rows.append(SourceRow(tenant, name, source, str(source.root) if root is None else root.name))
    return rows


async def route_of(request: PageRequest, message: StoredMessage) -> RouteOut | None:
    """Returns the route of a message through the overlay; ``None`` without an overlay."""
    if request.context.overlay is None:
        return None
    try:
        return RouteOut.of(await request.context.overlay.route_of(message))
    except StoreUnavailable:
        # The page reports a missing message by itself.
        return None


def drawing(overlay: OverlayOut) -> tuple[list[DiagramNode], list[DiagramEdge]]:
    """Returns brokers on an ellipse, this one on its left, and the links between them."""
    if len(overlay.brokers) > DRAWN_MAX:
        return [], []
    brokers = sorted(overlay.brokers, key=lambda broker: (broker.identity != overlay.identity, broker.name))
    dots: dict[str, DiagramNode] = {}
    for position, broker in enumerate(brokers):
        angle = math.pi + 2 * math.pi * position / len(brokers)
        x = _WIDTH / 2 + (_WIDTH / 2 - _MARGIN) * math.cos(angle)
        y = _HEIGHT / 2 + (_HEIGHT / 2 - _MARGIN) * math.sin(angle)
        dots[broker.name] = DiagramNode(broker.name, round(x, 1), round(y, 1), broker.identity == overlay.identity)
    lines: dict[frozenset[str], DiagramEdge] = {}
    for broker in brokers:
        for neighbour in broker.neighbours:
            pair = frozenset((broker.name, neighbour.name))
            if neighbour.name in dots and len(pair) == 2 and pair not in lines:
                ours = overlay.name in pair
                lines[pair] = DiagramEdge(dots[broker.name], dots[neighbour.name], neighbour.cost, ours)
    return list(dots.values()), list(lines.values())
