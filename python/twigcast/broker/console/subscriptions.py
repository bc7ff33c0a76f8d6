"""Pages of subscriptions: the list, one of them, making, editing, pausing and deleting them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from twigcast.broker.api import subscriptions as api
from twigcast.broker.api.models import ReplacementIn, SubscriptionIn
from twigcast.broker.console import pages
from twigcast.broker.console.forms import (
    FormFields,
    namespaces_as_text,
    namespaces_of,
    params_as_text,
    params_of,
    turn,
    validated,
)
from twigcast.broker.console.query_trial import QueryInput, check_query
from twigcast.broker.console.requests import PageAdmission, PageRequest
from twigcast.broker.delivery.channel import ChannelSettings, shown_settings
from twigcast.broker.delivery.channels import DELIVERY_KINDS, SETTINGS
from twigcast.broker.errors import Invalid
from twigcast.broker.model import PULL, DeliverySettings, OverflowPolicy, StoredSubscription, SubscriptionState
from twigcast.broker.options import refused_dialect
from twigcast.broker.store.store import Store
from twigcast.broker.urgency import Urgency
from twigcast.errors import TwigcastError
from twigcast.registration import DIALECTS, Dialect
from twigcast.windows.declarations import window_of_text, window_text
from twigcast.windows.status import status_text

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


def routes(admission: PageAdmission) -> list[Route]:
    """Returns the routes of these pages."""
    return [
        admission.route("/subscriptions", listing),
        admission.route("/subscriptions/one", one),
        admission.route("/subscriptions/new", new),
        admission.route("/subscriptions/new", create, change=True),
        admission.route("/subscriptions/edit", edit),
        admission.route("/subscriptions/edit", save, change=True),
        admission.route("/subscriptions/pause", pause, change=True),
        admission.route("/subscriptions/resume", resume, change=True),
        admission.route("/subscriptions/seek", seek, change=True),
        admission.route("/subscriptions/delete", delete, change=True),
    ]


# The list -------------------------------------------------------------------------------------------------------------


async def listing(request: PageRequest) -> Response:
    """Shows subscriptions in order of their keys."""
    form = request.form
    text, state = form.line("search")[:SEARCH_CHARACTERS_MAX], _state(form.line("state"))

    async def read(after: str | None, before: str | None, limit: int) -> list[StoredSubscription]:
        return await request.read(
            request.store.subscriptions,
            request.tenant_id,
            after_key=after,
            before_key=before,
            limit=limit,
            containing=text or None,
            state=state,
        )

    page = await turn(PAGE, form.fields.get("after"), form.fields.get("before"), read)
    listed = await request.read(_listed, request.store, page.items)
    return request.page(
        "subscriptions.html",
        listed=listed,
        total=await request.read(request.store.subscription_count, request.tenant_id),
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


async def one(request: PageRequest) -> Response:
    """Shows a subscription with its last deliveries and errors."""
    result = await find(request)
    store = request.store
    window = result.window
    states = [] if window is None else await request.read(store.window_states, result.id, limit=SHOWN)
    letters = await request.read(store.dead_letters, request.tenant_id, limit=SHOWN, key=result.key)
    return request.page(
        "subscription.html",
        subscription=result,
        checked=await request.ask(check_query, query_input_of(result), request.context.settings.engine_limits),
        namespaces=namespaces_as_text(result.namespaces),
        params=params_as_text(result.params),
        pending=await request.read(store.pending_count, result.queue_id),
        deliveries=await request.read(store.recent_deliveries, result.id, SHOWN),
        errors=await request.read(store.errors, result.id, SHOWN),
        dead_letters=letters,
        when=None if window is None else window_text(window),
        urgency=_urgency_fields(result.urgency),
        window_states=[
            (state.window_key, status_text(window, state.state), state.state.due)
            for state in states
            if window is not None
        ],
        command=pages.pull(request.http, result.subscriber) if not result.delivery.is_pushed else None,
    )


async def find(request: PageRequest) -> StoredSubscription:
    """Returns the requested subscription; raises UnknownObject if there is none."""
    return await api.find(request.context, request.principal, request.form.text("key"))


def query_input_of(subscription: StoredSubscription) -> QueryInput:
    """Returns the query of a subscription."""
    return QueryInput(subscription.query, subscription.namespaces, subscription.dialect, subscription.query_params)


def query_input_in(form: FormFields) -> QueryInput:
    """Returns the query of a form; raises Invalid if its namespaces, its parameters or its dialect cannot be used."""
    namespaces, params = namespaces_of(form.text("namespaces")), params_of(form.text("params"))
    return QueryInput(form.text("query"), namespaces, dialect_of(form), params)


# Making and editing ---------------------------------------------------------------------------------------------------


async def new(request: PageRequest) -> Response:
    """Shows the form of a new subscription, with the values in the address."""
    return await _form_page(request, "new", request.form)


async def create(request: PageRequest) -> Response:
    """Adds a subscription."""
    try:
        body = validated(SubscriptionIn, {**_fields(request.form), "key": request.form.line("key")})
        added = await api.add(request.context, request.principal, body.key, body)
    except TwigcastError as error:
        return await _form_page(request, "new", request.form, error)
    return request.go(
        pages.link("/subscriptions/one", key=added.key),
        f"Subscribed as {added.key}. It counts from the next message on.",
    )


async def edit(request: PageRequest) -> Response:
    """Shows the form of an existing subscription."""
    result = await find(request)
    form = FormFields(
        {
            "key": result.key,
            "query": result.query,
            "namespaces": namespaces_as_text(result.namespaces),
            "params": params_as_text(result.params),
            "dialect": result.dialect,
            "overflow": result.overflow,
            "when": "" if result.window is None else window_text(result.window),
            **_urgency_fields(result.urgency),
            **{name: str(value) for name, value in shown_settings(result.delivery).items() if value is not None},
        }
    )
    return await _form_page(request, "edit", form)


async def save(request: PageRequest) -> Response:
    """Replaces query and delivery of a subscription."""
    existing = await find(request)
    try:
        body = validated(ReplacementIn, _fields(request.form))
        await request.context.broker.replace(
            existing,
            query=body.query,
            namespaces=body.namespaces,
            dialect=body.dialect,
            params=body.params,
            delivery=await _changed_delivery(request, existing, body.delivery),
            overflow=body.overflow,
            follow=existing.follow,
            window=api.window_of(body.when),
            urgency=api.urgency_of(body.urgency),
        )
    except TwigcastError as error:
        return await _form_page(request, "edit", request.form, error)
    return request.go(pages.link("/subscriptions/one", key=existing.key), "Saved. It counts from the next message on.")


async def _changed_delivery(
    request: PageRequest, existing: StoredSubscription, requested: ChannelSettings
) -> DeliverySettings:
    """Returns the new settings. An empty secret keeps the old one, and a kind without settings of its own stays."""
    if existing.delivery.kind not in SETTINGS:
        return existing.delivery
    settings = await requested.checked(request.context.urls)
    if settings.secret is None and settings.kind == existing.delivery.kind and not request.form.has("no_secret"):
        settings = replace(settings, secret=existing.delivery.secret)
        if settings.previous_secret is None:
            settings = replace(settings, previous_secret=existing.delivery.previous_secret)
    return settings


def _fields(form: FormFields) -> dict[str, Any]:
    kind = form.line("kind") if form.line("kind") in SETTINGS else PULL
    names = SETTINGS[kind].model_fields.keys() - {"kind", "secret_left_out"}
    # An empty field is one that is left out.
    delivery = {"kind": kind, **{name: form.line(name) for name in names if form.line(name)}}
    return {
        "query": form.text("query"),
        "namespaces": namespaces_of(form.text("namespaces")),
        "params": params_of(form.text("params")),
        "dialect": dialect_of(form),
        "subscriber": form.line("subscriber") or None,
        "delivery": validated(SETTINGS[kind], delivery),
        "overflow": form.line("overflow") or OverflowPolicy.SUSPEND,
        "when": None if not form.text("when").strip() else window_of_text(form.text("when")).as_mapping(),
        "urgency": _urgency_in(form),
        "from": {"seq": form.number("from", 1)} if form.line("from") else None,
    }


_URGENCY: Final = ("priority", "deadline", "overdue")


def _urgency_fields(urgency: Urgency | None) -> dict[str, str]:
    """Returns the urgency of a subscription as fields of the form."""
    words = {} if urgency is None else urgency.as_mapping()
    return {name: str(words[name]) for name in _URGENCY if name in words}


def _urgency_in(form: FormFields) -> dict[str, Any] | None:
    """Returns the urgency that a form asks for; `None` if it says nothing of it."""
    found: dict[str, Any] = {name: form.line(name) for name in _URGENCY if form.line(name)}
    if "priority" in found:
        found["priority"] = form.number("priority", 0)
    return found or None


def dialect_of(form: FormFields) -> Dialect:
    """Returns the dialect of a form; raises Invalid if there is no such dialect."""
    name = form.line("dialect") or "xpath"
    if (reason := refused_dialect(name[:40])) is not None:
        raise Invalid(reason)
    return DIALECTS[name]


async def _form_page(
    request: PageRequest, purpose: str, form: FormFields, error: TwigcastError | None = None
) -> Response:
    query = form.text("query")
    checked = None
    if query.strip() and error is None:
        try:
            query_input = query_input_in(form)
        except Invalid as wrong:
            error = wrong
        else:
            checked = await request.ask(check_query, query_input, request.context.settings.engine_limits)
    return request.page(
        "subscription_form.html",
        200 if error is None else 422,
        purpose=purpose,
        form=form,
        kind=form.line("kind") if form.line("kind") in DELIVERY_KINDS else PULL,
        error=error,
        checked=checked,
    )


# Changing the state ---------------------------------------------------------------------------------------------------


async def pause(request: PageRequest) -> Response:
    """Sets a subscription to paused."""
    result = await find(request)
    await request.context.broker.set_state(result, SubscriptionState.PAUSED)
    return request.go(pages.link("/subscriptions/one", key=result.key), "Paused. New messages do not count for it.")


async def resume(request: PageRequest) -> Response:
    """Resumes a subscription."""
    result = await find(request)
    await request.context.broker.set_state(result, SubscriptionState.ACTIVE)
    return request.go(pages.link("/subscriptions/one", key=result.key), "Resumed. It counts from the next message on.")


async def seek(request: PageRequest) -> Response:
    """Lets a subscription begin anew, with a stored message or with the next one."""
    result = await find(request)
    first = request.form.number("seq", 1) if request.form.line("seq") else None
    await request.context.broker.seek(result, first)
    notice = "It begins anew with the next message." if first is None else f"It begins anew with message {first:,}."
    return request.go(pages.link("/subscriptions/one", key=result.key), notice)


async def delete(request: PageRequest) -> Response:
    """Deletes a subscription."""
    result = await find(request)
    await request.context.broker.unsubscribe(result)
    return request.go(pages.link("/subscriptions"), f"{result.key} is deleted, with its pending deliveries.")
