"""Pages of subscriptions: the list, one of them, making, editing, pausing and deleting them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import ValidationError
from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api import subscriptions as api
from twigcast.broker.api.models import ReplacementIn, SubscriptionIn
from twigcast.broker.console import commands, pages
from twigcast.broker.console.forms import FormFields, invalid, namespaces_as_text, namespaces_of
from twigcast.broker.console.paging import turn
from twigcast.broker.console.query_trial import QueryInput, check_query
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.delivery.channel import ChannelSettings, shown_settings
from twigcast.broker.delivery.channels import SETTINGS
from twigcast.broker.errors import Invalid, NotFound
from twigcast.broker.model import PULL, DeliverySettings, StoredSubscription, SubscriptionState
from twigcast.broker.options import refused_dialect
from twigcast.broker.store.store import Store
from twigcast.errors import TwigcastError
from twigcast.registration import DIALECTS, Dialect

PAGE: Final = 50
"""Subscriptions on one page."""

SEARCH_CHARACTERS_MAX: Final = 200

SHOWN: Final = 10
"""Deliveries and errors on the page of a subscription."""

LOOKED_UP_SECONDS: Final = 0.5
"""Time for the further columns of a page of subscriptions; long queues take time to count."""


@dataclass(frozen=True, slots=True)
class SubscriptionListRow:
    """A row of the list."""

    subscription: StoredSubscription
    pending: int | None
    """``None`` if there was no time to count."""
    last_received: float | None
    """Time when the message of its last delivery was received."""
    last_error: str | None


def routes(desk: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        desk.route("/subscriptions", listing),
        desk.route("/subscriptions/one", one),
        desk.route("/subscriptions/new", new),
        desk.route("/subscriptions/new", create, change=True),
        desk.route("/subscriptions/edit", edit),
        desk.route("/subscriptions/edit", save, change=True),
        desk.route("/subscriptions/pause", pause, change=True),
        desk.route("/subscriptions/resume", resume, change=True),
        desk.route("/subscriptions/delete", delete, change=True),
    ]


# The list -------------------------------------------------------------------------------------------------------------


async def listing(visit: PageRequest) -> Response:
    """Shows subscriptions in order of their keys."""
    form = visit.form
    text, state = form.line("search")[:SEARCH_CHARACTERS_MAX], _state(form.line("state"))

    async def read(after: str | None, before: str | None, limit: int) -> list[StoredSubscription]:
        return await visit.read(
            visit.store.subscriptions,
            visit.tenant_id,
            after_key=after,
            before_key=before,
            limit=limit,
            containing=text or None,
            state=state,
        )

    page = await turn(PAGE, form.fields.get("after"), form.fields.get("before"), read)
    listed = await visit.read(_listed, visit.store, page.items)
    return visit.page(
        "subscriptions.html",
        listed=listed,
        total=await visit.read(visit.store.subscription_count, visit.tenant_id),
        search=text,
        state=state.value if state else "",
        page=page,
    )


def _state(name: str) -> SubscriptionState | None:
    try:
        return SubscriptionState(name) if name else None
    except ValueError:
        raise Invalid(f"there is no state {name[:40]!r}") from None


def _listed(store: Store, results: list[StoredSubscription]) -> list[SubscriptionListRow]:
    """Returns the rows of a page. Blocks."""
    until = time.monotonic() + LOOKED_UP_SECONDS
    waiting = set(store.queues_with_pending({subscription.queue_id for subscription in results}))
    counts: dict[int, int] = {}
    rows = []
    for subscription in results:
        queue_id = subscription.queue_id
        if queue_id not in counts and queue_id not in waiting:
            counts[queue_id] = 0
        if time.monotonic() > until:
            rows.append(SubscriptionListRow(subscription, counts.get(queue_id), None, None))
            continue
        if queue_id not in counts:
            counts[queue_id] = store.pending_count(queue_id)
        last = store.recent_deliveries(subscription.id, 1)
        errors = store.errors(subscription.id, 1)
        received = last[0].message.received if last else None
        rows.append(SubscriptionListRow(subscription, counts[queue_id], received, errors[0].reason if errors else None))
    return rows


# One subscription -----------------------------------------------------------------------------------------------------


async def one(visit: PageRequest) -> Response:
    """Shows a subscription with its last deliveries and errors."""
    result = await find(visit)
    store = visit.store
    letters = await visit.read(store.dead_letters, visit.tenant_id, limit=SHOWN, key=result.key)
    return visit.page(
        "subscription.html",
        subscription=result,
        checked=await visit.read(check_query, asked_of(result), visit.context.settings.engine_limits),
        namespaces=namespaces_as_text(result.namespaces),
        pending=await visit.read(store.pending_count, result.queue_id),
        deliveries=await visit.read(store.recent_deliveries, result.id, SHOWN),
        errors=await visit.read(store.errors, result.id, SHOWN),
        dead_letters=letters,
        command=commands.pull(visit.request, result.subscriber) if not result.delivery.is_pushed else None,
    )


async def find(visit: PageRequest) -> StoredSubscription:
    """Returns the requested subscription.

    Raises:
        NotFound: There is none.
    """
    key = visit.form.text("key")
    result = await visit.read(visit.store.subscription, visit.tenant_id, key)
    if result is None:
        raise NotFound(f"there is no subscription with the key {key[:100]!r}")
    return result


def asked_of(subscription: StoredSubscription) -> QueryInput:
    """Returns the query of a subscription."""
    return QueryInput(subscription.query, subscription.namespaces, subscription.dialect)


# Making and editing ---------------------------------------------------------------------------------------------------


async def new(visit: PageRequest) -> Response:
    """Shows the form of a new subscription, with the values in the address."""
    return await _form_page(visit, "new", visit.form)


async def create(visit: PageRequest) -> Response:
    """Adds a subscription."""
    try:
        body = _new_body(visit.form)
        added = await api.add(visit.context, visit.principal, body.key, body)
    except TwigcastError as error:
        return await _form_page(visit, "new", visit.form, error)
    return visit.go(
        pages.link("/subscriptions/one", key=added.key),
        f"Subscribed as {added.key}. It counts from the next message on.",
    )


async def edit(visit: PageRequest) -> Response:
    """Shows the form of an existing subscription."""
    result = await find(visit)
    form = FormFields(
        {
            "key": result.key,
            "query": result.query,
            "namespaces": namespaces_as_text(result.namespaces),
            "dialect": result.dialect,
            **{name: str(value) for name, value in shown_settings(result.delivery).items() if value is not None},
        }
    )
    return await _form_page(visit, "edit", form)


async def save(visit: PageRequest) -> Response:
    """Replaces query and delivery of a subscription."""
    existing = await find(visit)
    try:
        body = _body(visit.form)
        await visit.context.broker.replace(
            existing,
            query=body.query,
            namespaces=body.namespaces,
            dialect=body.dialect,
            delivery=await _changed_delivery(visit, existing, body.delivery),
        )
    except TwigcastError as error:
        return await _form_page(visit, "edit", visit.form, error)
    return visit.go(pages.link("/subscriptions/one", key=existing.key), "Saved. It counts from the next message on.")


async def _changed_delivery(
    visit: PageRequest, existing: StoredSubscription, requested: ChannelSettings
) -> DeliverySettings:
    """Returns the new settings. An empty secret keeps the old one, and a kind without settings of its own stays."""
    if existing.delivery.kind not in SETTINGS:
        return existing.delivery
    settings = await requested.checked(visit.context.urls)
    if settings.secret is None and settings.kind == existing.delivery.kind and not visit.form.has("no_secret"):
        return replace(settings, secret=existing.delivery.secret)
    return settings


def _new_body(form: FormFields) -> SubscriptionIn:
    """Returns the form of a new subscription as the API accepts it.

    Raises:
        Invalid: A field is missing or wrong.
    """
    try:
        return SubscriptionIn.model_validate({**_fields(form), "key": form.line("key")})
    except ValidationError as error:
        raise invalid(error) from None


def _body(form: FormFields) -> ReplacementIn:
    """Returns the form of an existing subscription as the API accepts it.

    Raises:
        Invalid: A field is missing or wrong.
    """
    try:
        return ReplacementIn.model_validate(_fields(form))
    except ValidationError as error:
        raise invalid(error) from None


def _fields(form: FormFields) -> dict[str, Any]:
    kind = form.line("kind") if form.line("kind") in SETTINGS else PULL
    names = SETTINGS[kind].model_fields.keys() - {"kind"}
    delivery = {"kind": kind, **{name: form.line(name) or None for name in names}}
    return {
        "query": form.text("query"),
        "namespaces": namespaces_of(form.text("namespaces")),
        "dialect": dialect_of(form),
        "subscriber": form.line("subscriber") or None,
        "delivery": delivery,
        "from": {"seq": form.number("from", 1)} if form.line("from") else None,
    }


def dialect_of(form: FormFields) -> Dialect:
    """Returns the dialect of a form.

    Raises:
        Invalid: There is no such dialect.
    """
    name = form.line("dialect") or "xpath"
    if (reason := refused_dialect(name[:40])) is not None:
        raise Invalid(reason)
    return DIALECTS[name]


async def _form_page(
    visit: PageRequest, purpose: str, form: FormFields, error: TwigcastError | None = None
) -> Response:
    query = form.text("query")
    checked = None
    if query.strip() and error is None:
        try:
            asked = QueryInput(query, namespaces_of(form.text("namespaces")), dialect_of(form))
        except Invalid as wrong:
            error = wrong
        else:
            checked = await visit.read(check_query, asked, visit.context.settings.engine_limits)
    return visit.page(
        "subscription_form.html",
        200 if error is None else 422,
        purpose=purpose,
        form=form,
        kind=form.line("kind") or PULL,
        error=error,
        checked=checked,
    )


# Changing the state ---------------------------------------------------------------------------------------------------


async def pause(visit: PageRequest) -> Response:
    """Sets a subscription to paused."""
    result = await find(visit)
    await visit.context.broker.set_state(result, SubscriptionState.PAUSED)
    return visit.go(pages.link("/subscriptions/one", key=result.key), "Paused. New messages do not count for it.")


async def resume(visit: PageRequest) -> Response:
    """Resumes a subscription."""
    result = await find(visit)
    await visit.context.broker.set_state(result, SubscriptionState.ACTIVE)
    return visit.go(pages.link("/subscriptions/one", key=result.key), "It goes on with the next message.")


async def delete(visit: PageRequest) -> Response:
    """Deletes a subscription."""
    result = await find(visit)
    await visit.context.broker.unsubscribe(result)
    return visit.go(pages.link("/subscriptions"), f"{result.key} is deleted, with what it had pending.")
