"""The query workbench: a query is checked as it is typed, and tried on the last messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.console import pages
from twigcast.broker.console.forms import Form, namespaces_of
from twigcast.broker.console.highlighting import Laid, lay_out
from twigcast.broker.console.query_trial import Account, Asked, Checked, Trial, account, check_query, try_on
from twigcast.broker.console.requests import Desk, Visit
from twigcast.broker.console.subscriptions import asked_of, dialect_of, find
from twigcast.broker.errors import Invalid
from twigcast.broker.model import StoredMessage
from twigcast.errors import TwigcastError

COUNTS: Final = (20, 50, 200, 1000)
"""Of how many of the last messages there is a choice."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One message under the query."""

    message: StoredMessage
    account: Account
    laid: Laid
    result: Laid | None


@dataclass(frozen=True, slots=True)
class Bench:
    """All that the workbench shows."""

    checked: Checked | None = None
    mistake: str | None = None
    """What is wrong with the namespaces."""
    trial: Trial | None = None
    shown: Shown | None = None
    trouble: str | None = None
    """Why a message is not shown."""


def routes(desk: Desk) -> list[Route]:
    """The routes of this page."""
    return [
        desk.route("/workbench", workbench),
        desk.route("/workbench/results", results, change=True),
    ]


async def workbench(visit: Visit) -> Response:
    """The page. The address tells the query, so that it can be linked to."""
    form = visit.form
    if form.has("key"):
        found = asked_of(await find(visit))
        namespaces = "\n".join(f"{prefix} = {uri}".lstrip() for prefix, uri in found.namespaces.items())
        known = {"query": found.query, "namespaces": namespaces, "dialect": found.dialect}
        form = Form({**form.fields, **known})
    bench = await _bench(visit, form)
    return visit.page(
        "workbench.html", form=form, counts=COUNTS, count=_count(form), bench=bench, link_to=_linker(form)
    )


async def results(visit: Visit) -> Response:
    """The parts of the page that depend on the query, as the query is typed."""
    bench = await _bench(visit, visit.form)
    return pages.html(
        visit.fragment("workbench_results.html", bench=bench, link_to=_linker(visit.form), form=visit.form)
    )


def _count(form: Form) -> int:
    return form.number("count", COUNTS[0], least=1, most=COUNTS[-1])


def _linker(form: Form) -> object:
    """Addresses of this page with another message."""

    def link_to(seq: int) -> str:
        return pages.link(
            "/workbench",
            query=form.text("query"),
            namespaces=form.text("namespaces") or None,
            dialect=form.line("dialect") or None,
            count=form.line("count") or None,
            message=seq,
        )

    return link_to


async def _bench(visit: Visit, form: Form) -> Bench:
    query = form.text("query")
    if not query.strip():
        return Bench()
    try:
        asked = Asked(query, namespaces_of(form.text("namespaces")), dialect_of(form))
    except Invalid as error:
        return Bench(mistake=str(error))
    limits = visit.context.settings.engine_limits
    checked = await visit.read(check_query, asked, limits)
    if checked.report is None:
        return Bench(checked)
    # One at a time for each of a few: it must not take the machine from the messages.
    async with visit.context.explaining:
        messages = await visit.read(visit.store.messages, visit.tenant_id, limit=_count(form), newest_first=True)
        trial = await visit.read(try_on, asked, messages, limits)
        wanted = await _wanted(visit, form, trial)
        if wanted is None:
            return Bench(checked, trial=trial)
        try:
            shown = await visit.read(_show, asked, wanted, visit)
        except TwigcastError as error:
            return Bench(checked, trial=trial, trouble=str(error))
    return Bench(checked, trial=trial, shown=shown)


async def _wanted(visit: Visit, form: Form, trial: Trial) -> StoredMessage | None:
    """The message that is looked at: the one asked for; or the newest that matches, or else the newest."""
    seq = form.number("message", 0)
    if seq:
        found = await visit.read(visit.store.message, visit.tenant_id, seq)
        if found is not None:
            return found
    matching = [one.message for one in trial.tried if one.answer == "yes"]
    return next(iter([*matching, *(one.message for one in trial.tried)]), None)


def _show(asked: Asked, message: StoredMessage, visit: Visit) -> Shown:
    told = account(asked, message.xml, visit.context.settings.engine_limits)
    result = None if told.result is None else lay_out(told.result.decode("utf-8", "replace"))
    return Shown(message, told, lay_out(told.text, told.nodes), result)


async def account_of(visit: Visit, asked: Asked, message: StoredMessage) -> Shown:
    """What a query does with one message."""
    async with visit.context.explaining:
        return await visit.read(_show, asked, message, visit)
