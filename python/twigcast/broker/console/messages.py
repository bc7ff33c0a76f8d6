"""Pages of messages: the latest, and one of them with its matches."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api import messages as api
from twigcast.broker.api.models import LifecycleOut
from twigcast.broker.console import pages
from twigcast.broker.console.forms import positions, turn
from twigcast.broker.console.highlighting import lay_out
from twigcast.broker.console.overlay import route_of
from twigcast.broker.console.pages import first_message
from twigcast.broker.console.query_trial import as_text
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.console.subscriptions import find
from twigcast.broker.console.workbench import account_of
from twigcast.broker.errors import UnknownObject
from twigcast.broker.model import MessageSummary, StoredMessage
from twigcast.errors import TwigcastError

PAGE: Final = 50
"""Messages on one page."""

RELATIONS_READ: Final = 10_000
"""Deliveries of a matter that are read to say what the message was to each subscription."""

MATCHES_SHOWN: Final = 200
"""Subscriptions that are listed with a message."""


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        admission.route("/messages", listing),
        admission.route("/messages/one", one),
        admission.route("/messages/find", search),
        admission.route("/messages/download", download),
    ]


async def listing(request: PageRequest) -> Response:
    """Shows messages, newest first."""
    source = request.form.line("source") or None

    async def read(before: int | None, after: int | None, limit: int) -> list[MessageSummary]:
        return await request.read(
            request.store.message_summaries,
            request.tenant_id,
            after=after or 0,
            up_to=None if before is None else before - 1,
            limit=limit,
            oldest_first=after is not None,
            source=source,
        )

    page = await turn(PAGE, *positions(request.form), read)
    is_live = page.is_first and source is None
    return request.page(
        "messages.html",
        messages=page.items,
        source=source,
        page=page,
        newest=page.items[0].seq if page.items and is_live else None,
        command=first_message(request.http),
    )


async def search(request: PageRequest) -> Response:
    """Finds a message by its id or its number."""
    requested = request.form.line("id")
    result = await request.read(request.store.message_by_id, request.tenant_id, requested)
    if result is None and requested.isascii() and requested.isdigit() and len(requested) < 19:
        result = await request.read(request.store.message, request.tenant_id, int(requested))
    if result is None:
        raise UnknownObject(f"there is no message with the id or number {requested[:100]!r}, or not any more")
    return request.go(pages.link("/messages/one", seq=result.seq))


async def one(request: PageRequest) -> Response:
    """Shows a message, the subscriptions that got it, and why one did or did not."""
    message = await find_message(request)
    asked_key = request.form.text("key")
    shown, subscription, trouble = None, None, None
    if asked_key:
        try:
            subscription = await find(request)
            shown = await account_of(request, subscription, message)
        except TwigcastError as error:
            trouble = str(error)
    laid = shown.laid if shown else await request.read(lay_out, as_text(message.xml))
    keys = await request.read(request.store.keys_of_message, request.tenant_id, message.seq, MATCHES_SHOWN)
    lifecycle = await _lifecycle(request, message)
    return request.page(
        "message.html",
        message=message,
        laid=laid,
        shown=shown,
        subscription=subscription,
        key=asked_key,
        trouble=trouble,
        keys=keys,
        way=await route_of(request, message),
        lifecycle=lifecycle,
        relations={d.key: d.relation for d in lifecycle.deliveries if d.seq == message.seq} if lifecycle else {},
    )


async def _lifecycle(request: PageRequest, message: StoredMessage) -> LifecycleOut | None:
    """Returns what is known of the matter of a message; ``None`` without a life cycle."""
    try:
        return await request.read(api.read_lifecycle, request.context, message, RELATIONS_READ)
    except UnknownObject:
        return None


async def find_message(request: PageRequest) -> StoredMessage:
    """Returns the requested message; raises UnknownObject if there is none."""
    return await api.find_message(request.context, request.tenant_id, request.form.number("seq", 0))


async def download(request: PageRequest) -> Response:
    """Sends a message as it is stored."""
    message = await find_message(request)
    return pages.download(message.xml, f"message-{message.seq}.xml")
