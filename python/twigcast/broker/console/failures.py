"""Pages of dead letters and rejected messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.console import pages
from twigcast.broker.console.highlighting import lay_out
from twigcast.broker.console.paging import positions, turn
from twigcast.broker.console.query_trial import as_text
from twigcast.broker.console.rejected import excerpt
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.errors import NotFound
from twigcast.broker.model import DeadLetter, RejectedRecord
from twigcast.broker.store.store import Transaction

PAGE: Final = 25
"""Entries on one page."""

AT_ONCE: Final = 1_000
"""Dead letters that are redriven or removed in one commit."""


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        admission.route("/dead-letters", dead_letters),
        admission.route("/dead-letters/one", dead_letter),
        admission.route("/dead-letters/retry", retry, change=True),
        admission.route("/dead-letters/remove", remove, change=True),
        admission.route("/rejected", rejected),
        admission.route("/rejected/one", rejected_message),
        admission.route("/rejected/download", download),
        admission.route("/rejected/remove", remove_rejected, change=True),
    ]


# Dead letters ---------------------------------------------------------------------------------------------------------


async def dead_letters(request: PageRequest) -> Response:
    """Shows deliveries that were given up, newest first."""
    key = request.form.text("key") or None

    async def read(before: int | None, after: int | None, limit: int) -> list[DeadLetter]:
        return await request.read(
            request.store.dead_letters,
            request.tenant_id,
            before_id=before,
            after_id=after,
            limit=limit,
            key=key,
        )

    page = await turn(PAGE, *positions(request.form), read)
    return request.page("dead_letters.html", letters=page.items, page=page, key=key)


async def dead_letter(request: PageRequest) -> Response:
    """Shows one of them, with its body."""
    letter = await _letter(request)
    laid = await request.read(lay_out, as_text(letter.body))
    return request.page("dead_letter.html", letter=letter, laid=laid)


async def retry(request: PageRequest) -> Response:
    """Redrives one, or all of a subscription."""
    count = 0
    for some in _some(await _chosen(request)):
        count += len(await request.context.broker.redrive(some))
    return request.go(_back(request), f"{pages.plural(count, 'delivery is', 'deliveries are')} tried again.")


async def remove(request: PageRequest) -> Response:
    """Removes one for good, or all of a subscription."""
    count = 0
    for some in _some(await _chosen(request)):
        count += await request.context.broker.change(_remover(some))
    return request.go(_back(request), f"{pages.plural(count, 'dead letter is', 'dead letters are')} removed.")


def _remover(ids: Sequence[int]) -> Callable[[Transaction], int]:
    return lambda transaction: transaction.remove_dead_letters(ids)


def _back(request: PageRequest) -> str:
    """Returns the list that the form was on."""
    return pages.link("/dead-letters", key=request.form.text("key") or None)


def _some(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]


async def _chosen(request: PageRequest) -> list[int]:
    """Returns the dead letter of the form's number; without a number, all of its key."""
    if request.form.has("id"):
        return [(await _letter(request)).id]
    key = request.form.text("key")
    if not key:
        raise NotFound("choose a dead letter, or a subscription")
    return await request.read(_all_of, request, key)


def _all_of(request: PageRequest, key: str) -> list[int]:
    """Returns all dead letters of a subscription, the oldest first, so that they are redriven in order. Blocks."""
    ids: list[int] = []
    before: int | None = None
    while some := request.store.dead_letters(request.tenant_id, before_id=before, limit=PAGE, key=key):
        ids += [letter.id for letter in some]
        before = ids[-1]
    return ids[::-1]


async def _letter(request: PageRequest) -> DeadLetter:
    requested = request.form.number("id", 0)
    result = await request.read(request.store.dead_letters, request.tenant_id, before_id=requested + 1, limit=1)
    if not result or result[0].id != requested:
        raise NotFound("there is no such dead letter any more")
    return result[0]


# Rejected messages ----------------------------------------------------------------------------------------------------


async def rejected(request: PageRequest) -> Response:
    """Shows rejected messages, newest first."""

    async def read(before: int | None, after: int | None, limit: int) -> list[RejectedRecord]:
        return await request.read(
            request.store.rejected, request.tenant_id, before_id=before, after_id=after, limit=limit
        )

    page = await turn(PAGE, *positions(request.form), read)
    return request.page("rejected.html", messages=page.items, page=page)


async def rejected_message(request: PageRequest) -> Response:
    """Shows one of them, with the place of the error marked."""
    result = await _rejected(request)
    shown = await request.read(excerpt, result.body, result.line, result.column)
    return request.page("rejected_message.html", message=result, excerpt=shown)


async def download(request: PageRequest) -> Response:
    """Sends the body of one, as it was published."""
    result = await _rejected(request)
    return pages.download(result.body, f"rejected-{result.id}")


async def remove_rejected(request: PageRequest) -> Response:
    """Removes one for good."""
    result = await _rejected(request)
    await request.context.broker.change(lambda transaction: transaction.remove_rejected([result.id]))
    return request.go(pages.link("/rejected"), "The rejected message is removed.")


async def _rejected(request: PageRequest) -> RejectedRecord:
    result = await request.read(request.store.rejected_message, request.tenant_id, request.form.number("id", 0))
    if result is None:
        raise NotFound("there is no such rejected message, or not any more")
    return result
