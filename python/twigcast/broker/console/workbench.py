"""The query workbench: a query is checked as it is typed, and tried on the last messages, perhaps with a window."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.console import pages
from twigcast.broker.console.forms import FormFields, params_as_text
from twigcast.broker.console.highlighting import MessageLayout, lay_out
from twigcast.broker.console.query_trial import (
    MessageReport,
    QueryCheckView,
    QueryInput,
    QueryTrial,
    QueryTrialRun,
    TrialRun,
    account,
    check_query,
)
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.console.subscriptions import find, query_input_in, query_input_of
from twigcast.broker.console.window_trial import WindowTrial, WindowTrialRun
from twigcast.broker.errors import Invalid
from twigcast.broker.hub.window_explanations import with_window
from twigcast.broker.model import StoredMessage, StoredSubscription
from twigcast.errors import TwigcastError, WindowError
from twigcast.explanation import Explanation
from twigcast.registration import Subscription
from twigcast.windows.declarations import Window, window_of_text, window_text
from twigcast.windows.results import query_params, without_change_params

COUNTS: Final = (20, 50, 200, 1000)
"""The numbers of last messages to choose from."""


@dataclass(frozen=True, slots=True)
class WorkbenchMessage:
    """A message below the query."""

    message: StoredMessage
    account: MessageReport
    laid: MessageLayout
    result: MessageLayout | None


@dataclass(frozen=True, slots=True)
class WorkbenchView:
    """The content of the workbench."""

    checked: QueryCheckView | None = None
    mistake: str | None = None
    """What is wrong with the namespaces, the parameters or the window."""
    trial: QueryTrial | None = None
    windows: WindowTrial | None = None
    """What its subscriber would have been told, if a window is tried."""
    shown: WorkbenchMessage | None = None
    trouble: str | None = None
    """Why a message is not shown."""


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of this page."""
    return [admission.route("/workbench", workbench), admission.route("/workbench/results", results, change=True)]


async def workbench(request: PageRequest) -> Response:
    """Shows the page. The address holds the query, so that it can be linked to."""
    form = request.form
    if form.has("key"):
        subscription = await find(request)
        result = query_input_of(subscription)
        namespaces = "\n".join(f"{prefix} = {uri}".lstrip() for prefix, uri in result.namespaces.items())
        existing = {
            "query": result.query,
            "namespaces": namespaces,
            "dialect": result.dialect,
            "params": params_as_text(without_change_params(result.params, subscription.window)),
            "when": "" if subscription.window is None else window_text(subscription.window),
        }
        form = FormFields({**form.fields, **existing})
    bench = await _bench(request, form)
    return request.page(
        "workbench.html", form=form, counts=COUNTS, count=_count(form), bench=bench, link_to=_linker(form)
    )


async def results(request: PageRequest) -> Response:
    """Sends the parts of the page that depend on the query, as the query is typed."""
    bench = await _bench(request, request.form)
    return pages.html(
        request.fragment("workbench_results.html", bench=bench, link_to=_linker(request.form), form=request.form)
    )


def _count(form: FormFields) -> int:
    return form.number("count", COUNTS[0], least=1, most=COUNTS[-1])


def _linker(form: FormFields) -> object:
    """Returns a function that makes addresses of this page with another message."""

    def link_to(seq: int) -> str:
        return pages.link(
            "/workbench",
            query=form.text("query"),
            namespaces=form.text("namespaces") or None,
            params=form.text("params") or None,
            when=form.text("when") or None,
            dialect=form.line("dialect") or None,
            count=form.line("count") or None,
            message=seq,
        )

    return link_to


async def _bench(request: PageRequest, form: FormFields) -> WorkbenchView:
    query = form.text("query")
    if not query.strip():
        return WorkbenchView()
    try:
        query_input, window = _asked(form)
    except (Invalid, WindowError) as error:
        return WorkbenchView(mistake=str(error))
    limits = request.context.settings.engine_limits
    checked = await request.ask(check_query, query_input, limits)
    if checked.report is None:
        return WorkbenchView(checked)
    messages = await request.read(request.store.messages, request.tenant_id, limit=_count(form), newest_first=True)
    windows = None
    if window is None:
        trial = await _try_on(request, await request.ask(QueryTrialRun, query_input, messages, limits))
    else:
        try:
            run = await request.ask(WindowTrialRun, query_input, window, messages[::-1], limits)
        except WindowError as error:
            return WorkbenchView(checked, mistake=str(error))
        trial = await _try_on(request, run)
        windows = await request.ask(run.windows)
    requested = await _requested_message(request, form, trial)
    if requested is None:
        return WorkbenchView(checked, trial=trial, windows=windows)
    try:
        shown = await request.ask(_show, query_input, requested, request)
    except TwigcastError as error:
        return WorkbenchView(checked, trial=trial, windows=windows, trouble=str(error))
    return WorkbenchView(checked, trial=trial, windows=windows, shown=shown)


def _asked(form: FormFields) -> tuple[QueryInput, Window | None]:
    """Returns the query of a form, and when its subscriber is told; raises Invalid or WindowError."""
    query_input = query_input_in(form)
    if not form.text("when").strip():
        return query_input, None
    window = window_of_text(form.text("when"))
    if query_input.dialect == "xquery":
        raise WindowError("when", "it is for queries that the engine evaluates, not for those in XQuery")
    asked = Subscription("q", query_input.query, query_input.namespaces, query_input.dialect, params=query_input.params)
    return replace(query_input, params=query_params(window, asked)), window


async def _try_on(request: PageRequest, work: TrialRun) -> QueryTrial:
    """Tries something on messages, some at a time: tenants have their turns in between."""
    while not work.is_over:
        await request.ask(work.step)
    return work.result


async def _requested_message(request: PageRequest, form: FormFields, trial: QueryTrial) -> StoredMessage | None:
    """Returns the message that is shown: the requested one, or the newest that matches, or else the newest."""
    seq = form.number("message", 0)
    if seq:
        result = await request.read(request.store.message, request.tenant_id, seq)
        if result is not None:
            return result
    matching = [one.message for one in trial.tried if one.answer == "yes"]
    return next(iter([*matching, *(one.message for one in trial.tried)]), None)


def _show(
    query_input: QueryInput,
    message: StoredMessage,
    request: PageRequest,
    subscription: StoredSubscription | None = None,
) -> WorkbenchMessage:
    limits = request.context.settings.engine_limits

    def completed(explanation: Explanation) -> Explanation:
        if subscription is None:
            return explanation
        return with_window(explanation, subscription, message, request.store, limits)

    reported = account(query_input, message, limits, completed)
    result = None if reported.result is None else lay_out(reported.result.decode("utf-8", "replace"))
    return WorkbenchMessage(message, reported, lay_out(reported.text, reported.nodes), result)


async def account_of(
    request: PageRequest, subscription: StoredSubscription, message: StoredMessage
) -> WorkbenchMessage:
    """Returns the result of a subscription on one message, with what its window knows of that."""
    return await request.ask(_show, query_input_of(subscription), message, request, subscription)
