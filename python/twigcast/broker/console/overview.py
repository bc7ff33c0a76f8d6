"""The first page: the current activity, and alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.console import pages
from twigcast.broker.console.pages import first_message
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.model import Source, Statistics, SubscriptionState
from twigcast.broker.store.store import Store

LATEST: Final = 8
"""Messages that are shown."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that needs attention."""

    text: str
    address: str
    action: str


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of this page."""
    return [admission.route("/", overview), admission.route("/live", live)]


async def overview(request: PageRequest) -> Response:
    """Shows the current activity."""
    statistics = await request.read(request.store.statistics, request.tenant_id)
    latest = await request.read(request.store.message_summaries, request.tenant_id, limit=LATEST)
    warnings = await request.read(_warnings, request.store, request.tenant_id, statistics)
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
    results = []
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


def _is_failing(source: Source) -> bool:
    return not source.paused and bool(source.state.get("failures"))
