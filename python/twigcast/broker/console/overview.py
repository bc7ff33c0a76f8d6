"""The first page: the current activity, and alerts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import orjson
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.console import pages
from twigcast.broker.console.pages import first_message
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.model import ClockState, Source, Statistics, SubscriptionState
from twigcast.broker.store.store import Store

LATEST: Final = 8
"""Messages that are shown."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that needs attention."""

    text: str
    address: str
    action: str
    is_change: bool = False
    """Whether the address is posted to, by a button."""


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of this page."""
    return [admission.route("/", overview), admission.route("/live", live)]


async def overview(request: PageRequest) -> Response:
    """Shows the current activity."""
    statistics = await request.read(request.store.statistics, request.tenant_id)
    latest = await request.read(request.store.message_summaries, request.tenant_id, limit=LATEST)
    warnings = await request.read(_warnings, request.store, request.tenant_id, statistics)
    if _scope(request) is None and not (clock := request.context.broker.clock()).is_confirmed:
        warnings.insert(0, _of_clock(clock))
    samples = request.console.activity.samples(_scope(request))
    return request.page(
        "overview.html",
        statistics=statistics,
        messages=latest,
        warnings=warnings,
        samples=orjson.dumps([sample.as_dict() for sample in samples]).decode(),
        for_all=_scope(request) is None,
        command=first_message(request.http) if not latest else None,
        newest=latest[0].seq if latest else 0,
    )


async def live(request: PageRequest) -> Response:
    """Sends what is new since the page was loaded: samples for the charts, rows of messages, totals."""
    samples = request.console.activity.samples(_scope(request), request.form.number("sample", 0))
    after = request.form.number("message", 0)
    # From the end: of many new messages the oldest need not be shown.
    latest = await request.read(request.store.message_summaries, request.tenant_id, after=after, limit=LATEST)
    answer: dict[str, Any] = {"samples": [sample.as_dict() for sample in samples]}
    if latest:
        answer |= {"newest": latest[0].seq, "rows": request.fragment("message_rows.html", messages=latest, new=True)}
    if request.form.has("totals"):
        statistics = await request.read(request.store.statistics, request.tenant_id)
        answer["totals"] = {name: pages.number(getattr(statistics, name)) for name in Statistics.__slots__}
        answer["totals"]["bytes"] = pages.size(statistics.bytes)
    return Response(orjson.dumps(answer), headers=pages.HEADERS, media_type="application/json")


def _scope(request: PageRequest) -> int | None:
    """Returns whose activity is shown: that of all tenants only to an administrator of the broker, at home."""
    return None if request.is_operator and not request.is_away else request.tenant_id


def _warnings(store: Store, tenant_id: int, statistics: Statistics) -> list[Alert]:
    """Returns the alerts. Blocks."""
    results: list[Alert] = []
    suspended = store.subscription_count(tenant_id, SubscriptionState.SUSPENDED)
    if suspended:
        text = f"{pages.plural(suspended, 'subscription is', 'subscriptions are')} suspended"
        results.append(Alert(text, pages.link("/subscriptions", state="suspended"), "Show"))
    if statistics.dead_letters:
        text = pages.plural(statistics.dead_letters, "dead letter waits", "dead letters wait") + " for a decision"
        results.append(Alert(text, pages.link("/dead-letters"), "Show"))
    for source in filter(_is_failing, store.sources(tenant_id)):
        text = f"The source {source.name} fails: {source.state.get('last_error')}"
        results.append(Alert(text, pages.link("/sources"), "Show"))
    return results


def _of_clock(clock: ClockState) -> Alert:
    step = timedelta(seconds=round(abs(clock.now - clock.expected)))
    direction = "ahead of" if clock.now > clock.expected else "behind"
    text = (
        f"The clock of the broker is {step} {direction} what was expected. No message expires by age until it is right"
    )
    return Alert(text, "/clock/confirm", "It is right", is_change=True)


def _is_failing(source: Source) -> bool:
    return not source.paused and bool(source.state.get("failures"))
