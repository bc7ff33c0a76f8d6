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

from twigcast.broker.api.models import SourceIn
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


def routes(desk: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        desk.route("/sources", listing),
        desk.route("/sources/add", add, change=True, scope=Scope.ADMIN),
        desk.route("/sources/pause", pause, change=True, scope=Scope.ADMIN),
        desk.route("/sources/resume", resume, change=True, scope=Scope.ADMIN),
        desk.route("/sources/delete", delete, change=True, scope=Scope.ADMIN),
    ]


async def listing(visit: PageRequest) -> Response:
    """Shows all sources of the tenant."""
    return await _page(visit, FormFields({}))


async def _page(visit: PageRequest, form: FormFields, error: TwigcastError | None = None) -> Response:
    results = await visit.read(visit.store.sources, visit.tenant_id)
    latest = await visit.read(visit.store.message_summaries, visit.tenant_id, limit=LOOKED_AT)
    rates = lately(latest, time.time())
    existing = {source.name for source in results}
    return visit.page(
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


async def add(visit: PageRequest) -> Response:
    """Registers a source that is polled."""
    form = visit.form
    name = form.line("name")
    try:
        if not name or len(name) > 512:
            raise Invalid("a name of up to 512 characters is needed")
        if await visit.read(visit.store.source, visit.tenant_id, name) is not None:
            raise Conflict(f"there is a source {name!r} already")
        body = _body(form)
        await put_source(name, body, visit.principal, visit.context, Response())
    except TwigcastError as error:
        return await _page(visit, form, error)
    return visit.go(pages.link("/sources"), f"{name} is registered; it is polled within the next seconds.")


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


async def _find(visit: PageRequest) -> Source:
    name = visit.form.text("name")
    result = await visit.read(visit.store.source, visit.tenant_id, name)
    if result is None:
        raise NotFound(f"there is no source {name[:100]!r}")
    return result


async def pause(visit: PageRequest) -> Response:
    """Stops polling a source."""
    result = await _set_paused(visit, paused=True)
    return visit.go(pages.link("/sources"), f"{result.name} is paused.")


async def resume(visit: PageRequest) -> Response:
    """Resumes polling a source."""
    result = await _set_paused(visit, paused=False)
    return visit.go(pages.link("/sources"), f"{result.name} is polled again.")


async def _set_paused(visit: PageRequest, *, paused: bool) -> Source:
    result = replace(await _find(visit), paused=paused)
    return await visit.context.broker.change(
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


async def delete(visit: PageRequest) -> Response:
    """Deletes a source."""
    result = await _find(visit)
    await visit.context.broker.change(lambda transaction: transaction.delete_source(result.id))
    return visit.go(pages.link("/sources"), f"{result.name} is deleted; its messages stay.")
