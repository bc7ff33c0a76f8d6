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


def routes(desk: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        desk.route("/dead-letters", dead_letters),
        desk.route("/dead-letters/one", dead_letter),
        desk.route("/dead-letters/retry", retry, change=True),
        desk.route("/dead-letters/remove", remove, change=True),
        desk.route("/rejected", rejected),
        desk.route("/rejected/one", rejected_message),
        desk.route("/rejected/download", download),
        desk.route("/rejected/remove", remove_rejected, change=True),
    ]


# Dead letters ---------------------------------------------------------------------------------------------------------


async def dead_letters(visit: PageRequest) -> Response:
    """Shows deliveries that were given up, newest first."""
    key = visit.form.text("key") or None

    async def read(before: int | None, after: int | None, limit: int) -> list[DeadLetter]:
        return await visit.read(
            visit.store.dead_letters, visit.tenant_id, before_id=before, after_id=after, limit=limit, key=key
        )

    page = await turn(PAGE, *positions(visit.form), read)
    return visit.page("dead_letters.html", letters=page.items, page=page, key=key)


async def dead_letter(visit: PageRequest) -> Response:
    """Shows one of them, with its body."""
    letter = await _letter(visit)
    laid = await visit.read(lay_out, as_text(letter.body))
    return visit.page("dead_letter.html", letter=letter, laid=laid)


async def retry(visit: PageRequest) -> Response:
    """Redrives one, or all of a subscription."""
    count = 0
    for some in _some(await _chosen(visit)):
        count += len(await visit.context.broker.redrive(some))
    return visit.go(_back(visit), f"{pages.plural(count, 'delivery is', 'deliveries are')} tried again.")


async def remove(visit: PageRequest) -> Response:
    """Removes one for good, or all of a subscription."""
    count = 0
    for some in _some(await _chosen(visit)):
        count += await visit.context.broker.change(_remover(some))
    return visit.go(_back(visit), f"{pages.plural(count, 'dead letter is', 'dead letters are')} removed.")


def _remover(ids: Sequence[int]) -> Callable[[Transaction], int]:
    return lambda transaction: transaction.remove_dead_letters(ids)


def _back(visit: PageRequest) -> str:
    """Returns the list that the form was on."""
    return pages.link("/dead-letters", key=visit.form.text("key") or None)


def _some(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]


async def _chosen(visit: PageRequest) -> list[int]:
    """Returns the dead letter of the form's number; without a number, all of its key."""
    if visit.form.has("id"):
        return [(await _letter(visit)).id]
    key = visit.form.text("key")
    if not key:
        raise NotFound("choose a dead letter, or a subscription")
    return await visit.read(_all_of, visit, key)


def _all_of(visit: PageRequest, key: str) -> list[int]:
    """Returns all dead letters of a subscription, the oldest first, so that they are redriven in order. Blocks."""
    ids: list[int] = []
    before: int | None = None
    while some := visit.store.dead_letters(visit.tenant_id, before_id=before, limit=PAGE, key=key):
        ids += [letter.id for letter in some]
        before = ids[-1]
    return ids[::-1]


async def _letter(visit: PageRequest) -> DeadLetter:
    requested = visit.form.number("id", 0)
    result = await visit.read(visit.store.dead_letters, visit.tenant_id, before_id=requested + 1, limit=1)
    if not result or result[0].id != requested:
        raise NotFound("there is no such dead letter any more")
    return result[0]


# Rejected messages ----------------------------------------------------------------------------------------------------


async def rejected(visit: PageRequest) -> Response:
    """Shows rejected messages, newest first."""

    async def read(before: int | None, after: int | None, limit: int) -> list[RejectedRecord]:
        return await visit.read(visit.store.rejected, visit.tenant_id, before_id=before, after_id=after, limit=limit)

    page = await turn(PAGE, *positions(visit.form), read)
    return visit.page("rejected.html", messages=page.items, page=page)


async def rejected_message(visit: PageRequest) -> Response:
    """Shows one of them, with the place of the error marked."""
    result = await _rejected(visit)
    shown = await visit.read(excerpt, result.body, result.line, result.column)
    return visit.page("rejected_message.html", message=result, excerpt=shown)


async def download(visit: PageRequest) -> Response:
    """Sends the body of one, as it was published."""
    result = await _rejected(visit)
    return pages.download(result.body, f"rejected-{result.id}")


async def remove_rejected(visit: PageRequest) -> Response:
    """Removes one for good."""
    result = await _rejected(visit)
    await visit.context.broker.change(lambda transaction: transaction.remove_rejected([result.id]))
    return visit.go(pages.link("/rejected"), "The rejected message is removed.")


async def _rejected(visit: PageRequest) -> RejectedRecord:
    result = await visit.read(visit.store.rejected_message, visit.tenant_id, visit.form.number("id", 0))
    if result is None:
        raise NotFound("there is no such rejected message, or not any more")
    return result
