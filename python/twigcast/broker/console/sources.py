"""Pages of sources, the origins of messages."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api import sources as api
from twigcast.broker.api.models import SourceIn
from twigcast.broker.api.preconditions import NONE
from twigcast.broker.console import pages
from twigcast.broker.console.forms import FormFields, validated
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.errors import Conflict, Invalid
from twigcast.broker.model import MessageSummary, Scope, Source
from twigcast.errors import TwigcastError
from twigcast.lifecycle.builtin import BUILTIN

LOOKED_AT: Final = 1_000
"""Messages from which the rates of sources are computed."""

LATELY_SECONDS: Final = 3_600.0
"""Age up to which messages count for the rates."""

KINDS: Final = {"rss": "RSS feed", "atom": "Atom feed", "http-folder": "Folder of files over HTTP"}
"""The kinds of source that are polled."""

UPDATE_MODES: Final = {
    "ignore": "Published once",
    "updated": "Again with a later date",
    "content": "Again with other content",
}
"""What is done with entries that change under their id."""

DOCTYPES: Final = {
    "strip": "Subscribers get messages without it",
    "allow": "Subscribers get it",
    "refuse": "Messages that have one are rejected",
}
"""What is done with the DOCTYPE of a message."""

VALIDATIONS: Final = {
    "off": "Taken",
    "annotate": "Taken, and the publisher is told",
    "reject": "Rejected",
}
"""What is done with messages that the DTD or the schema does not allow."""


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        admission.route("/sources", listing),
        admission.route("/sources/one", one),
        admission.route("/sources/change", change, change=True, scope=Scope.ADMIN),
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
        update_modes=UPDATE_MODES,
        form=form,
        error=error,
    )


async def one(request: PageRequest) -> Response:
    """Shows a source with the reports of its last polls."""
    name = request.form.text("name")
    source = await api.find(request.context, request.principal, name)
    return _source_page(request, source, request.form)


def _source_page(
    request: PageRequest, source: Source, form: FormFields, error: TwigcastError | None = None
) -> Response:
    reports = source.state.get("reports") or []
    return request.page(
        "source.html",
        200 if error is None else 422,
        source=source,
        reports=reports,
        kinds=KINDS,
        update_modes=UPDATE_MODES,
        doctypes=DOCTYPES,
        validations=VALIDATIONS,
        profiles=list(BUILTIN),
        lookups=json.dumps([dict(one) for one in source.lookups], indent=2, ensure_ascii=False)
        if source.lookups
        else "",
        form=form,
        error=error,
    )


async def change(request: PageRequest) -> Response:
    """Changes how a source is polled, and what is done with its messages."""
    source = await _find(request)
    try:
        kept = {"kind": source.kind, "url": source.url, "dtd": source.dtd, "xsd": source.xsd, "paused": source.paused}
        kept["profile"] = _profile(request.form, source)
        kept["lookups"] = _lookups(request.form, source)
        kept |= {name: request.form.line(name) or getattr(source, name) for name in ("doctype", "validation")}
        body = validated(SourceIn, kept | _settings(request.form, source.interval))
        await api.put_source(source.name, body, request.principal, request.context, NONE, Response())
    except TwigcastError as error:
        return _source_page(request, source, request.form, error)
    notice = "Changed." if source.kind == "push" else "Changed; it is polled within the next seconds."
    return request.go(pages.link("/sources/one", name=source.name), notice)


def _profile(form: FormFields, source: Source) -> Any:
    """Returns the chosen profile; one that is not known by a name stays as it is."""
    chosen = form.line("profile")
    if chosen in BUILTIN or chosen == "none":
        return None if chosen == "none" else chosen
    if source.profile is None or source.profile in BUILTIN:
        return source.profile
    return json.loads(source.profile)


def _lookups(form: FormFields, source: Source) -> Any:
    """Returns the look-ups, which a form has as JSON; without a field they stay as they are."""
    text = form.text("lookups").strip()
    if not text:
        return [] if "lookups" in form.fields else [dict(one) for one in source.lookups]
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"look-ups: it is no JSON: {error}") from None


def lately(latest: Sequence[MessageSummary], now: float) -> dict[str, float]:
    """Returns the messages a minute of each source in the last hour, from the ``LOOKED_AT`` latest, newest first."""
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
    try:
        name = form.chosen_name()
        if await request.read(request.store.source, request.tenant_id, name) is not None:
            raise Conflict(f"there is a source {name!r} already")
        body = _body(form)
        await api.put_source(name, body, request.principal, request.context, NONE, Response())
    except TwigcastError as error:
        return await _page(request, form, error)
    return request.go(pages.link("/sources"), f"{name} is registered; it is polled within the next seconds.")


def _body(form: FormFields) -> SourceIn:
    fields = {
        "kind": form.line("kind"),
        "url": form.line("url") or None,
        "dtd": form.text("dtd").strip() or None,
    }
    return validated(SourceIn, fields | _settings(form, 300))


def _settings(form: FormFields, interval: float) -> dict[str, Any]:
    """Returns the settings of polling in a form."""
    return {
        "interval": form.number("interval", 0) or interval,
        "updates": form.line("updates") or "ignore",
        "follow": form.text("follow").replace(",", " ").split(),
        "follow_hosts": form.text("follow_hosts").replace(",", " ").split(),
    }


async def _find(request: PageRequest) -> Source:
    return await api.find(request.context, request.principal, request.form.text("name"))


async def pause(request: PageRequest) -> Response:
    """Stops polling a source."""
    result = await api.set_paused(request.context, await _find(request), paused=True)
    return request.go(pages.link("/sources"), f"{result.name} is paused.")


async def resume(request: PageRequest) -> Response:
    """Resumes polling a source."""
    result = await api.set_paused(request.context, await _find(request), paused=False)
    return request.go(pages.link("/sources"), f"{result.name} is polled again.")


async def delete(request: PageRequest) -> Response:
    """Deletes a source."""
    result = await _find(request)
    await api.delete(request.context, result)
    return request.go(pages.link("/sources"), f"{result.name} is deleted; its messages stay.")
