"""Sources: where messages come from."""

from __future__ import annotations

from dataclasses import replace

from pydantic import ValidationError
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api.models import SourceIn
from twigcast.broker.api.sources import put_source
from twigcast.broker.console import pages
from twigcast.broker.console.forms import Form, invalid
from twigcast.broker.console.visits import Desk, Visit
from twigcast.broker.errors import Conflict, Invalid, NotFound
from twigcast.broker.model import Scope, Source
from twigcast.errors import TwigcastError

KINDS = {"rss": "RSS feed", "atom": "Atom feed", "http-folder": "Folder of files over HTTP"}
"""The kinds that are polled."""


def routes(desk: Desk) -> list[Route]:
    """The routes of these pages."""
    return [
        desk.route("/sources", listing),
        desk.route("/sources/add", add, change=True, scope=Scope.ADMIN),
        desk.route("/sources/pause", pause, change=True, scope=Scope.ADMIN),
        desk.route("/sources/resume", resume, change=True, scope=Scope.ADMIN),
        desk.route("/sources/delete", delete, change=True, scope=Scope.ADMIN),
    ]


async def listing(visit: Visit) -> Response:
    """All sources of the tenant."""
    return await _page(visit, Form({}))


async def _page(visit: Visit, form: Form, error: TwigcastError | None = None) -> Response:
    found = await visit.read(visit.store.sources, visit.tenant_id)
    status = 200 if error is None else 422
    return visit.page("sources.html", status, sources=found, kinds=KINDS, form=form, error=error)


async def add(visit: Visit) -> Response:
    """Register a source that is polled."""
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


def _body(form: Form) -> SourceIn:
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


async def _find(visit: Visit) -> Source:
    name = visit.form.text("name")
    found = await visit.read(visit.store.source, visit.tenant_id, name)
    if found is None:
        raise NotFound(f"there is no source {name[:100]!r}")
    return found


async def pause(visit: Visit) -> Response:
    """Poll a source no more."""
    found = await _set_paused(visit, paused=True)
    return visit.go(pages.link("/sources"), f"{found.name} is paused.")


async def resume(visit: Visit) -> Response:
    """Poll a source again."""
    found = await _set_paused(visit, paused=False)
    return visit.go(pages.link("/sources"), f"{found.name} is polled again.")


async def _set_paused(visit: Visit, *, paused: bool) -> Source:
    found = replace(await _find(visit), paused=paused)
    return await visit.context.broker.change(
        lambda transaction: transaction.put_source(
            found.tenant_id,
            found.name,
            kind=found.kind,
            url=found.url,
            interval=found.interval,
            dtd=found.dtd,
            paused=found.paused,
        )
    )


async def delete(visit: Visit) -> Response:
    """Forget a source."""
    found = await _find(visit)
    await visit.context.broker.change(lambda transaction: transaction.delete_source(found.id))
    return visit.go(pages.link("/sources"), f"{found.name} is deleted; its messages stay.")
