"""The page of consumers: how far each subscriber is behind, and what to do about it."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api import consumers as api
from twigcast.broker.api.deliveries import queue_of
from twigcast.broker.console import pages
from twigcast.broker.console.forms import turn
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.model import QueueState

PAGE: Final = 50
"""Subscribers on one page."""

BEHIND_MAX: Final = 10
"""Subscribers that are shown as those furthest behind."""

SKIPPED_MAX: Final = 10_000


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of this page."""
    return [
        admission.route("/consumers", listing),
        admission.route("/consumers/purge", purge, change=True),
        admission.route("/consumers/skip", skip, change=True),
        admission.route("/consumers/seek", seek, change=True),
        admission.route("/consumers/redrive", redrive, change=True),
    ]


async def listing(request: PageRequest) -> Response:
    """Shows the subscribers that are furthest behind, and all in order of their names, or one."""
    form = request.form
    if name := form.fields.get("subscriber"):
        queue = await queue_of(request.context, request.principal, name)
        shown = await api.describe(request.context, [queue])
        return request.page("consumers.html", behind=[], shown=shown, page=None, subscriber=name)

    async def read(after: str | None, before: str | None, limit: int) -> list[QueueState]:
        return await request.read(request.store.subscribers, request.tenant_id, after=after, before=before, limit=limit)

    page = await turn(PAGE, form.fields.get("after"), form.fields.get("before"), read)
    behind = await api.furthest_behind(request.context, request.principal, BEHIND_MAX) if page.is_first else []
    shown = await api.describe(request.context, page.items)
    return request.page("consumers.html", behind=behind, shown=shown, page=page, subscriber=None)


async def purge(request: PageRequest) -> Response:
    """Counts all that is pending as done."""
    count = await request.context.broker.purge(await _queue(request))
    return _done(request, f"{pages.plural(count, 'delivery counts', 'deliveries count')} as done.")


async def skip(request: PageRequest) -> Response:
    """Takes the oldest deliveries out of the way."""
    queue, keeps = await _queue(request), not request.form.has("drop")
    wanted = request.form.number("count", 1, least=1, most=SKIPPED_MAX)
    count = await request.context.broker.skip(queue, wanted, as_dead_letters=keeps)
    what = pages.plural(count, "delivery is", "deliveries are")
    return _done(request, f"{what} skipped{', and with the dead letters' if keeps and count else ''}.")


async def seek(request: PageRequest) -> Response:
    """Lets its subscription begin anew, with a stored message or with the next one."""
    subscription = await api.only_subscription(request.context, await _queue(request))
    number = request.form.number("seq", 0, least=1) if request.form.has("seq") else None
    await request.context.broker.seek(subscription, number)
    start = "the next message" if number is None else f"message {number:,}"
    return _done(request, f"{subscription.key} begins anew with {start}.")


async def redrive(request: PageRequest) -> Response:
    """Redrives all its dead letters."""
    count = await api.redrive(request.context, await _queue(request))
    return _done(request, f"{pages.plural(count, 'delivery is', 'deliveries are')} tried again.")


async def _queue(request: PageRequest) -> QueueState:
    return await queue_of(request.context, request.principal, request.form.text("subscriber"))


def _done(request: PageRequest, notice: str) -> Response:
    return request.go(pages.link("/consumers", subscriber=request.form.text("subscriber")), notice)
