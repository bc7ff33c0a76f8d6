"""All pages as one router, and the task of the activity."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api.context import ApiContext
from twigcast.broker.console import (
    administration,
    consumers,
    failures,
    interface,
    messages,
    overlay,
    overview,
    pages,
    sign_in,
    sources,
    subscriptions,
    tables,
    workbench,
)
from twigcast.broker.console.activity import CounterSnapshot, Latency, Tally
from twigcast.broker.console.requests import Console, PageAdmission, PageRequest
from twigcast.broker.errors import UnknownObject

_A_YEAR = 365 * 86_400


def console_router(pushed: Callable[[], int] = lambda: 0) -> APIRouter:
    """Returns the pages, to be included in the application; ``pushed`` counts the deliveries sent through channels."""
    admission = PageAdmission(Console())
    routes = [Route(f"{pages.BASE}/static/{{name}}", _static, include_in_schema=False)]
    subjects = (sign_in, overview, workbench, messages, subscriptions, consumers, sources, tables, overlay, failures)
    for subject in (*subjects, administration):
        routes += subject.routes(admission)
    routes += interface.routes()

    # Last, since they match every remaining path.
    routes += [Route(pages.BASE, _to_first_page, include_in_schema=False), admission.route("/{rest:path}", _missing)]

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        context: ApiContext = app.state.context
        context.signed_in = admission.signed_in
        task = asyncio.create_task(admission.console.activity.follow(lambda: _reading(context, pushed())))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    return APIRouter(routes=list(routes), lifespan=lifespan)


def _reading(context: ApiContext, pushed: int) -> CounterSnapshot:
    """Returns the counters as they are now."""
    metrics = context.broker.metrics
    histogram = metrics.hand_over_seconds
    return CounterSnapshot(
        Tally(metrics.accepted, metrics.rejected, metrics.deliveries, metrics.leased + metrics.streamed + pushed),
        {
            tenant_id: Tally(counts.accepted, counts.rejected, counts.deliveries, -1)
            for tenant_id, counts in dict(metrics.tenants).items()
        },
        Latency(histogram.bounds, tuple(histogram.counts)),
        metrics.queued_messages,
        len(context.streams),
        metrics.listeners_behind,
    )


async def _to_first_page(_: Request) -> Response:
    return pages.redirect("/")


async def _missing(request: PageRequest) -> Response:
    raise UnknownObject(f"there is no page {request.http.url.path[:100]!r}")


async def _static(request: Request) -> Response:
    """Sends a style sheet, a script or a picture. Its address changes with its content."""
    result = pages.static_file(request.path_params["name"])
    if result is None:
        return Response("there is no such file", 404, pages.HEADERS, "text/plain; charset=utf-8")
    content, kind, mark = result
    fresh = request.query_params.get("v") == mark
    caching = f"public, max-age={_A_YEAR}, immutable" if fresh else "no-cache"
    headers = {**pages.HEADERS, "Cache-Control": caching, "ETag": f'"{mark}"'}
    if request.headers.get("if-none-match") == f'"{mark}"':
        return Response(b"", 304, headers)
    return Response(content, 200, {**headers, "Content-Type": kind})
