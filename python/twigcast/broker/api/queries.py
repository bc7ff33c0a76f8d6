"""``/check`` and ``/explain``: questions about queries."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from fastapi import APIRouter

from twigcast.broker.api.access import Principal
from twigcast.broker.api.context import ApiContext, Shared, Subscriber
from twigcast.broker.api.models import CheckOut, ExplainIn, ExplanationOut, ExplanationsOut, QueryIn
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.api.subscriptions import find
from twigcast.broker.errors import UnknownObject
from twigcast.broker.hub.source_schemas import SourceSchemas
from twigcast.broker.hub.window_explanations import with_window
from twigcast.broker.model import StoredMessage, StoredSubscription
from twigcast.broker.store.store import Store
from twigcast.broker.stored_positions import explain_stored
from twigcast.errors import QueryError, QueryLimitExceeded, caret
from twigcast.explanation import explain as explain_query
from twigcast.limits import Limits
from twigcast.query_check import QueryReport
from twigcast.query_check import check as check_query
from twigcast.reading.text import as_bytes
from twigcast.registration import Dialect, Params

router = APIRouter(tags=["queries"], responses=problem_responses(401, 403))

_EXPLAINED_MAX: Final = 1_000
"""Number of subscriptions of one subscriber that one response explains."""

_EXPLAINING_SECONDS: Final = 2.0
"""Time after which a response explains no further subscription."""

_STEP_SECONDS: Final = 0.01
"""Time after which other tenants have their turn."""


@router.post("/check", responses=problem_responses(422))
async def check(body: QueryIn, principal: Subscriber, shared: Shared) -> CheckOut:
    """Checks whether a text is a query, how it would run, and what looks wrong with it."""
    limit = shared.settings.query_bytes_max
    if len(body.query.encode()) > limit:
        return _refused(QueryLimitExceeded("query_bytes_max", limit, "the query is too long", body.query))
    try:
        work = partial(_report, shared.broker.source_schemas, principal.tenant_id, body)
        report = await shared.broker.questions.run(principal.tenant_id, work)
    except QueryError as error:
        return _refused(error)
    return CheckOut(
        valid=True,
        normal_form=report.normal_form,
        route=report.route,
        reason=report.reason,
        cover=report.cover,
        cost=report.cost,
        warnings=list(report.warnings),
    )


def _report(schemas: SourceSchemas, tenant_id: int, body: QueryIn) -> QueryReport:
    """Returns the report on a query, with what the DTDs of the tenant's sources say of it. Blocks."""
    report = check_query(body.query, namespaces=body.namespaces, dialect=body.dialect, params=body.params)
    by_schema = schemas.warning(tenant_id, body.query, body.namespaces, body.dialect, body.params)
    return report if by_schema is None else replace(report, warnings=(*report.warnings, by_schema))


def _refused(error: QueryError) -> CheckOut:
    return CheckOut(
        valid=False,
        code=error.code,
        reason=error.reason,
        column=error.column,
        expected=list(error.expected),
        caret=caret(error.text, error.column),
    )


@router.post("/explain", responses=problem_responses(404, 413, 422))
async def explain(body: ExplainIn, principal: Subscriber, shared: Shared) -> ExplanationsOut:
    """Explains why queries match a message or not: the first step that fails, and what the message has there.

    The queries: one in the request, that of a subscription, or all those of a subscriber. The message: one in the
    request, or a stored one. Of a subscriber with many subscriptions, or with ones that take long, `next` leads to the
    next page.
    """
    message = await _message(shared, principal, body)
    asked, following = await _queries(shared, principal, body)
    limits = shared.settings.engine_limits
    results: list[ExplanationOut] = []
    until = time.monotonic() + _EXPLAINING_SECONDS
    while len(results) < len(asked):
        if results and time.monotonic() > until:
            following = results[-1].key
            break
        # A step at a time: tenants ask by turns.
        results += await shared.broker.questions.run(
            principal.tenant_id, partial(_explain_some, asked[len(results) :], message, limits, shared.broker.store)
        )
    return ExplanationsOut(explanations=results, next=following)


def _explain_some(
    asked: Sequence[_Asked], message: bytes | StoredMessage, limits: Limits, store: Store
) -> list[ExplanationOut]:
    """Returns the first explanations: one, and as many more as can be made in a moment. Blocks."""
    until = time.monotonic() + _STEP_SECONDS
    results: list[ExplanationOut] = []
    for subscription, query in asked:
        results.append(_explain(subscription, query, message, limits, store))
        if time.monotonic() > until:
            break
    return results


_Query = tuple[str, dict[str, str], Dialect, Params]
_Asked = tuple[StoredSubscription | None, _Query]
"""A query with its subscription, if it has one."""


def _explain(
    subscription: StoredSubscription | None,
    query: _Query,
    message: bytes | StoredMessage,
    limits: Limits,
    store: Store,
) -> ExplanationOut:
    text, namespaces, dialect, params = query
    if isinstance(message, StoredMessage):
        result = explain_stored(text, message, namespaces=namespaces, dialect=dialect, limits=limits, params=params)
    else:
        result = explain_query(text, message, namespaces=namespaces, dialect=dialect, limits=limits, params=params)
    key = None
    if subscription is not None:
        key, result = subscription.key, with_window(result, subscription, message, store, limits)
    return ExplanationOut(key=key, query=text, matches=result.matches, text=str(result), details=dict(result.details))


async def _message(shared: ApiContext, principal: Principal, body: ExplainIn) -> bytes | StoredMessage:
    if body.xml is not None:
        return as_bytes(body.xml)
    store = shared.broker.store
    if body.seq is not None:
        message = await asyncio.to_thread(store.message, principal.tenant_id, body.seq)
    else:
        message = await asyncio.to_thread(store.message_by_id, principal.tenant_id, body.message or "")
    if message is None:
        raise UnknownObject("there is no such message")
    return message


async def _queries(shared: ApiContext, principal: Principal, body: ExplainIn) -> tuple[list[_Asked], str | None]:
    """Returns the queries to explain, by key, and the beginning of the next page."""
    if body.query is not None:
        return [(None, (body.query, body.namespaces, body.dialect, body.params))], None
    if body.key is not None:
        subscriptions = [await find(shared, principal, body.key)]
    else:
        subscriptions = await asyncio.to_thread(
            shared.broker.store.subscriptions,
            principal.tenant_id,
            after_key=body.after,
            limit=_EXPLAINED_MAX + 1,
            subscriber=body.subscriber,
        )
        if not subscriptions and body.after is None:
            raise UnknownObject(f"there is no subscriber {body.subscriber!r}")
    page = subscriptions[:_EXPLAINED_MAX]
    following = page[-1].key if len(subscriptions) > len(page) else None
    asked: list[_Asked] = [(s, (s.query, dict(s.namespaces), s.dialect, s.query_params)) for s in page]
    return asked, following
