"""The first page: the current activity, and alerts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import orjson
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.console import pages
from twigcast.broker.console.commands import first_message
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.model import Source, SubscriptionState
from twigcast.broker.store.records import Statistics
from twigcast.broker.store.store import Store

LATEST: Final = 8
"""Messages that are shown."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that needs attention."""

    text: str
    address: str
    action: str


def routes(desk: PageAdmission) -> list[Route]:
    """Returns the routes of this page."""
    return [desk.route("/", overview), desk.route("/live", live)]


async def overview(visit: PageRequest) -> Response:
    """Shows the current activity."""
    statistics = await visit.read(visit.store.statistics, visit.tenant_id)
    latest = await visit.read(visit.store.message_summaries, visit.tenant_id, limit=LATEST)
    warnings = await visit.read(_warnings, visit.store, visit.tenant_id, statistics)
    samples = visit.console.activity.samples(_scope(visit))
    return visit.page(
        "overview.html",
        statistics=statistics,
        messages=latest,
        warnings=warnings,
        samples=orjson.dumps([sample.as_dict() for sample in samples]).decode(),
        for_all=_scope(visit) is None,
        command=first_message(visit.request) if not latest else None,
        newest=latest[0].seq if latest else 0,
    )


async def live(visit: PageRequest) -> Response:
    """Sends what is new since the page was loaded: samples for the charts, rows of messages, totals."""
    samples = visit.console.activity.samples(_scope(visit), visit.form.number("sample", 0))
    after = visit.form.number("message", 0)
    # From the end: of many new messages the oldest need not be shown.
    latest = await visit.read(visit.store.message_summaries, visit.tenant_id, after=after, limit=LATEST)
    answer: dict[str, Any] = {"samples": [sample.as_dict() for sample in samples]}
    if latest:
        answer |= {"newest": latest[0].seq, "rows": visit.fragment("message_rows.html", messages=latest, new=True)}
    if visit.form.has("totals"):
        statistics = await visit.read(visit.store.statistics, visit.tenant_id)
        answer["totals"] = {name: pages.number(getattr(statistics, name)) for name in Statistics.__slots__}
        answer["totals"]["bytes"] = pages.size(statistics.bytes)
    return Response(orjson.dumps(answer), headers=pages.HEADERS, media_type="application/json")


def _scope(visit: PageRequest) -> int | None:
    """Returns whose activity is shown: that of all tenants only to an administrator of the broker, at home."""
    return None if visit.is_operator and not visit.is_away else visit.tenant_id


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
