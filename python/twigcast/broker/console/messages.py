"""Pages of messages: the latest, and one of them with its matches."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.console import pages
from twigcast.broker.console.commands import first_message
from twigcast.broker.console.highlighting import lay_out
from twigcast.broker.console.overlay import route_of
from twigcast.broker.console.paging import positions, turn
from twigcast.broker.console.query_trial import as_text
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.console.subscriptions import asked_of, find
from twigcast.broker.console.workbench import account_of
from twigcast.broker.errors import NotFound
from twigcast.broker.model import StoredMessage
from twigcast.broker.store.records import MessageSummary
from twigcast.errors import TwigcastError

PAGE: Final = 50
"""Messages on one page."""

MATCHES_SHOWN: Final = 200
"""Subscriptions that are listed with a message."""


def routes(desk: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        desk.route("/messages", listing),
        desk.route("/messages/one", one),
        desk.route("/messages/find", search),
        desk.route("/messages/download", download),
    ]


async def listing(visit: PageRequest) -> Response:
    """Shows messages, newest first."""
    source = visit.form.line("source") or None

    async def read(before: int | None, after: int | None, limit: int) -> list[MessageSummary]:
        return await visit.read(
            visit.store.message_summaries,
            visit.tenant_id,
            after=after or 0,
            up_to=None if before is None else before - 1,
            limit=limit,
            oldest_first=after is not None,
            source=source,
        )

    page = await turn(PAGE, *positions(visit.form), read)
    is_live = page.is_first and source is None
    return visit.page(
        "messages.html",
        messages=page.items,
        source=source,
        page=page,
        newest=page.items[0].seq if page.items and is_live else None,
        command=first_message(visit.request),
    )


async def search(visit: PageRequest) -> Response:
    """Finds a message by its id or its number."""
    requested = visit.form.line("id")
    result = await visit.read(visit.store.message_by_id, visit.tenant_id, requested)
    if result is None and requested.isascii() and requested.isdigit() and len(requested) < 19:
        result = await visit.read(visit.store.message, visit.tenant_id, int(requested))
    if result is None:
        raise NotFound(f"there is no message with the id or number {requested[:100]!r}, or not any more")
    return visit.go(pages.link("/messages/one", seq=result.seq))


async def one(visit: PageRequest) -> Response:
    """Shows a message, the subscriptions that got it, and why one did or did not."""
    message = await find_message(visit)
    asked_key = visit.form.text("key")
    shown, subscription, trouble = None, None, None
    if asked_key:
        try:
            subscription = await find(visit)
            shown = await account_of(visit, asked_of(subscription), message)
        except TwigcastError as error:
            trouble = str(error)
    laid = shown.laid if shown else await visit.read(lay_out, as_text(message.xml))
    keys = await visit.read(visit.store.keys_of_message, visit.tenant_id, message.seq, MATCHES_SHOWN)
    return visit.page(
        "message.html",
        message=message,
        laid=laid,
        shown=shown,
        subscription=subscription,
        key=asked_key,
        trouble=trouble,
        keys=keys,
        way=await route_of(visit, message),
    )


async def find_message(visit: PageRequest) -> StoredMessage:
    """Returns the requested message.

    Raises:
        NotFound: There is none.
    """
    seq = visit.form.number("seq", 0)
    result = await visit.read(visit.store.message, visit.tenant_id, seq)
    if result is None:
        raise NotFound(f"there is no message {seq}, or not any more")
    return result


async def download(visit: PageRequest) -> Response:
    """Sends a message as it is stored."""
    message = await find_message(visit)
    return pages.download(message.xml, f"message-{message.seq}.xml")
