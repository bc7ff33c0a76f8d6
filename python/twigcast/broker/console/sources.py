"""Pages of sources, the origins of messages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pydantic import ValidationError
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api.models.administration import SourceIn
from twigcast.broker.api.sources import put_source
from twigcast.broker.console import pages
from twigcast.broker.console.forms import FormFields, invalid
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.errors import Conflict, Invalid, NotFound
from twigcast.broker.model import Scope, Source
from twigcast.broker.store.records import MessageSummary
from twigcast.errors import TwigcastError

LOOKED_AT: Final = 1_000
"""Messages from which the rates of sources are computed."""

LATELY_SECONDS: Final = 3_600.0
"""Age up to which messages count for the rates."""

KINDS: Final = {"rss": "RSS feed", "atom": "Atom feed", "http-folder": "Folder of files over HTTP"}
"""The kinds of source that are polled."""


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        admission.route("/sources", listing),
        admission.route("/sources/add", add, change=True, scope=Scope.ADMIN),
        admission.route("/sources/pause", pause, change=True, scope=Scope.ADMIN),
        admission.route("/sources/resume", resume, change=True, scope=Scope.ADMIN),
        admission.route("/sources/delete", delete, change=True, scope=Scope.ADMIN),
    ]


async def listing(request: PageRequest) -> Response:
    """Shows all sources of the tenant."""
    return await _page(request, FormFields({}))


async def _page(request: PageRequest, form: FormFields, error: TwigcastError | None = None) -> Response:
    results = await request.read(request.store.sources, request.tenant_id)
    latest = await request.read(request.store.message_summaries, request.tenant_id, limit=LOOKED_AT)
    rates = lately(latest, time.time())
    existing = {source.name for source in results}
    return request.page(
        "sources.html",
        200 if error is None else 422,
        sources=results,
        rates=rates,
        others=sorted(rates.keys() - existing),
        kinds=KINDS,
        form=form,
        error=error,
    )


def lately(latest: Sequence[MessageSummary], now: float) -> dict[str, float]:
    """Returns the messages a minute of each source that published in the last hour.

    Args:
        latest: Up to ``LOOKED_AT`` messages, the newest first.
        now: Seconds since the epoch.
    """
    counted = [message for message in latest if now - message.received <= LATELY_SECONDS]
    # If the last hour has more messages than these, they cover a shorter time.
    span = LATELY_SECONDS
    if len(counted) >= LOOKED_AT:
        span = max(now - min(message.received for message in counted), 1.0)
    counts = Counter(message.source for message in counted)
    return {source: count * 60 / span for source, count in counts.items()}


async def add(request: PageRequest) -> Response:
    """Registers a source that is polled."""
    form = request.form
    name = form.line("name")
    try:
        if not name or len(name) > 512:
            raise Invalid("a name of up to 512 characters is needed")
        if await request.read(request.store.source, request.tenant_id, name) is not None:
            raise Conflict(f"there is a source {name!r} already")
        body = _body(form)
        await put_source(name, body, request.principal, request.context, Response())
    except TwigcastError as error:
        return await _page(request, form, error)
    return request.go(pages.link("/sources"), f"{name} is registered; it is polled within the next seconds.")


def _body(form: FormFields) -> SourceIn:
    try:
        return SourceIn.model_validate(
            {
                "kind": form.line("kind"),
                "url": form.line("url") or None,
                "interval": form.number("interval", 300),
                "dtd": form.text("dtd").strip() or None,
            }
        )
    except ValidationError as error:
        raise invalid(error) from None


async def _find(request: PageRequest) -> Source:
    name = request.form.text("name")
    result = await request.read(request.store.source, request.tenant_id, name)
    if result is None:
        raise NotFound(f"there is no source {name[:100]!r}")
    return result


async def pause(request: PageRequest) -> Response:
    """Stops polling a source."""
    result = await _set_paused(request, paused=True)
    return request.go(pages.link("/sources"), f"{result.name} is paused.")


async def resume(request: PageRequest) -> Response:
    """Resumes polling a source."""
    result = await _set_paused(request, paused=False)
    return request.go(pages.link("/sources"), f"{result.name} is polled again.")


async def _set_paused(request: PageRequest, *, paused: bool) -> Source:
    result = replace(await _find(request), paused=paused)
    return await request.context.broker.change(
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


async def delete(request: PageRequest) -> Response:
    """Deletes a source."""
    result = await _find(request)
    await request.context.broker.change(lambda transaction: transaction.delete_source(result.id))
    return request.go(pages.link("/sources"), f"{result.name} is deleted; its messages stay.")
