"""``/subscriptions``: standing queries, and the destinations of their results."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace as replace_fields
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from twigcast.broker.api.access import Principal
from twigcast.broker.api.context import ApiContext, PathName, QueryName, Shared, Subscriber
from twigcast.broker.api.models import (
    EnvelopesOut,
    ErrorOut,
    ErrorsOut,
    ReplacementIn,
    SeekIn,
    Start,
    SubscriptionIn,
    SubscriptionOut,
    SubscriptionPatch,
    SubscriptionsOut,
    UrgencyIn,
    WindowOut,
    delivery_id,
)
from twigcast.broker.api.openapi import NOT_MODIFIED, problem_responses
from twigcast.broker.api.preconditions import (
    Conditions,
    Preconditions,
    answer_if_changed,
    link_to_next,
    tag_of_subscription,
)
from twigcast.broker.errors import Conflict, Invalid, UnknownDelivery, UnknownObject
from twigcast.broker.hub.source_schemas import SourceSchemas
from twigcast.broker.model import NewSubscription, StoredSubscription, SubscriptionState
from twigcast.broker.urgency import Urgency
from twigcast.query_check import check
from twigcast.windows.declarations import Window, read_window

router = APIRouter(prefix="/subscriptions", tags=["subscriptions"], responses=problem_responses(401, 403))


@router.post("", status_code=201, responses=problem_responses(404, 409, 422, 429, 503, 507))
async def subscribe(body: SubscriptionIn, principal: Subscriber, shared: Shared, response: Response) -> SubscriptionOut:
    """Adds a subscription. It counts from the next message on, or from where `from` says."""
    added = await add(shared, principal, body.key, body)
    response.headers["ETag"] = tag_of_subscription(added)
    response.headers["Location"] = f"/subscriptions/{quote(added.key, safe='')}"
    return SubscriptionOut.of(added, warnings=await _warnings(shared, added))


@router.get("")
async def list_subscriptions(
    request: Request,
    response: Response,
    principal: Subscriber,
    shared: Shared,
    after: Annotated[str | None, Query(max_length=512, description="The key after which the page begins.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    subscriber: QueryName | None = None,
    key: Annotated[QueryName | None, Query(description="Only the subscription of this key.")] = None,
) -> SubscriptionsOut:
    """Returns subscriptions in order of their keys."""
    store = shared.broker.store

    def find_all() -> SubscriptionsOut:
        if key is not None:
            one = store.subscription(principal.tenant_id, key)
            results = [one] if one and subscriber in (None, one.subscriber) else []
        else:
            results = store.subscriptions(principal.tenant_id, after_key=after, limit=limit + 1, subscriber=subscriber)
        page = results[:limit]
        return SubscriptionsOut(
            subscriptions=[SubscriptionOut.of(subscription) for subscription in page],
            next=page[-1].key if len(results) > limit else None,
        )

    found = await asyncio.to_thread(find_all)
    if found.next is not None:
        link_to_next(request, response, [("after", found.next)])
    return found


@router.get("/{key}", response_model=SubscriptionOut, responses=problem_responses(400, 404, 412) | NOT_MODIFIED)
async def get_subscription(
    key: PathName, principal: Subscriber, shared: Shared, conditions: Conditions, response: Response
) -> Any:
    """Returns a subscription, with the number of pending deliveries of its subscriber."""
    result = await find(shared, principal, key)
    pending = await asyncio.to_thread(shared.broker.store.pending_count, result.queue_id)
    tag = tag_of_subscription(result)
    return answer_if_changed(conditions, tag, response, lambda: SubscriptionOut.of(result, pending=pending))


@router.put(
    "/{key}",
    responses=problem_responses(400, 404, 409, 412, 422, 429, 503, 507) | {201: {"model": SubscriptionOut}},
)
async def put_subscription(
    key: PathName,
    body: ReplacementIn,
    principal: Subscriber,
    shared: Shared,
    conditions: Conditions,
    response: Response,
) -> SubscriptionOut:
    """Replaces query and delivery of a subscription, from the next message on, or adds it."""
    async with shared.locks.of(principal.tenant_id, "subscription", key):
        stored = await _put(key, body, principal, shared, conditions, response)
    response.headers["ETag"] = tag_of_subscription(stored)
    return SubscriptionOut.of(stored, warnings=await _warnings(shared, stored))


async def _put(
    key: str,
    body: ReplacementIn,
    principal: Principal,
    shared: ApiContext,
    conditions: Preconditions,
    response: Response,
) -> StoredSubscription:
    existing = await asyncio.to_thread(shared.broker.store.subscription, principal.tenant_id, key)
    conditions.check(None if existing is None else tag_of_subscription(existing))
    if existing is None:
        response.status_code = 201
        stored = await add(shared, principal, key, body)
    else:
        if body.from_ is not None:
            raise Conflict(
                "from: the subscription exists already; delete it first to have it begin with a stored message"
            )
        if body.subscriber not in (None, existing.subscriber):
            raise Conflict(f"subscriber: the subscription belongs to {existing.subscriber!r}; delete it first")
        stored = await replace(shared, existing, body)
    return stored


@router.patch("/{key}", responses=problem_responses(400, 404, 409, 412, 422, 503, 507))
async def patch_subscription(
    key: PathName,
    body: SubscriptionPatch,
    principal: Subscriber,
    shared: Shared,
    conditions: Conditions,
    response: Response,
) -> SubscriptionOut:
    """Changes the fields in the body. A secret that is left out stays as it is."""
    async with shared.locks.of(principal.tenant_id, "subscription", key):
        existing = await find(shared, principal, key)
        conditions.check(tag_of_subscription(existing))
        changed = await _patched(existing, body, shared)
    response.headers["ETag"] = tag_of_subscription(changed)
    is_other = bool(body.model_fields_set - {"state"})
    return SubscriptionOut.of(changed, warnings=await _warnings(shared, changed) if is_other else ())


async def _patched(existing: StoredSubscription, body: SubscriptionPatch, shared: ApiContext) -> StoredSubscription:
    """Changes the fields of a subscription that a body has."""
    supplied = body.model_fields_set - {"state"}
    if supplied:
        settings = existing.delivery
        if body.delivery is not None:
            settings = await body.delivery.checked(shared.urls)
            if settings.kind == existing.delivery.kind:
                left_out = {"secret", "previous_secret"} - body.delivery.model_fields_set
                settings = replace_fields(settings, **{name: getattr(existing.delivery, name) for name in left_out})
        existing = await shared.broker.replace(
            existing,
            query=existing.query if body.query is None else body.query,
            namespaces=existing.namespaces if body.namespaces is None else body.namespaces,
            dialect=existing.dialect if body.dialect is None else body.dialect,
            params=existing.params if body.params is None else body.params,
            delivery=settings,
            overflow=body.overflow,
            follow=body.follow if "follow" in supplied else existing.follow,
            window=window_of(body.when) if "when" in supplied else existing.window,
            urgency=urgency_of(body.urgency) if "urgency" in supplied else existing.urgency,
        )
    if body.state is not None:
        existing = await shared.broker.set_state(existing, SubscriptionState(body.state))
    return existing


@router.delete("/{key}", status_code=204, responses=problem_responses(400, 404, 412, 503, 507))
async def delete_subscription(key: PathName, principal: Subscriber, shared: Shared, conditions: Conditions) -> None:
    """Deletes a subscription, with its pending deliveries."""
    async with shared.locks.of(principal.tenant_id, "subscription", key):
        existing = await find(shared, principal, key)
        conditions.check(tag_of_subscription(existing))
        await shared.broker.unsubscribe(existing)


@router.get("/{key}/window", responses=problem_responses(400, 404, 503))
async def get_window(
    key: PathName,
    principal: Subscriber,
    shared: Shared,
    after: Annotated[str | None, Query(description="The last key of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> WindowOut:
    """Returns what is known for the window of a subscription now, by the value of `by`."""
    existing = await find(shared, principal, key)
    window = existing.window
    if window is None:
        raise UnknownObject(f"the subscription {key[:100]!r} is told of each message as it comes: it has no window")
    states = await asyncio.to_thread(shared.broker.store.window_states, existing.id, after=after, limit=limit)
    return WindowOut.of(window, states, following=states[-1].window_key if len(states) == limit else None)


@router.post("/{key}/pause", responses=problem_responses(404, 503, 507))
async def pause_subscription(key: PathName, principal: Subscriber, shared: Shared) -> SubscriptionOut:
    """Suspends matching and pushing for a subscription: pending deliveries wait, new messages do not count."""
    existing = await find(shared, principal, key)
    return SubscriptionOut.of(await shared.broker.set_state(existing, SubscriptionState.PAUSED))


@router.post("/{key}/resume", responses=problem_responses(404, 503, 507))
async def resume_subscription(key: PathName, principal: Subscriber, shared: Shared) -> SubscriptionOut:
    """Resumes a paused or suspended subscription, with the next message."""
    existing = await find(shared, principal, key)
    return SubscriptionOut.of(await shared.broker.set_state(existing, SubscriptionState.ACTIVE))


@router.post("/{key}/seek", responses=problem_responses(404, 409, 422, 503, 507))
async def seek(key: PathName, body: SeekIn, principal: Subscriber, shared: Shared) -> SubscriptionOut:
    """Begins anew with a stored message, or with the next one.

    All stored messages from there on are matched again and delivered; what came before counts as done. Open streams go
    on from there by themselves. The subscription must have a subscriber of its own.
    """
    existing = await find(shared, principal, key)
    return SubscriptionOut.of(await shared.broker.seek(existing, await seek_to(shared, principal, existing, body)))


@router.get("/{key}/errors", responses=problem_responses(404))
async def list_errors(
    key: PathName, principal: Subscriber, shared: Shared, limit: Annotated[int, Query(ge=1, le=1_000)] = 100
) -> ErrorsOut:
    """Returns the latest errors of a subscription, newest first."""
    result = await find(shared, principal, key)
    records = await asyncio.to_thread(shared.broker.store.errors, result.id, limit)
    return ErrorsOut(errors=[ErrorOut.of(record) for record in records])


@router.get("/{key}/deliveries", response_model=EnvelopesOut, responses=problem_responses(404))
async def list_recent_deliveries(
    key: PathName, principal: Subscriber, shared: Shared, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> Response:
    """Returns the latest deliveries of a subscription, acknowledged or not, newest first. Nothing changes by that."""
    result = await find(shared, principal, key)
    deliveries = await asyncio.to_thread(shared.broker.store.recent_deliveries, result.id, limit)
    return Response(b'{"deliveries":%b}' % shared.envelopes.array(deliveries), media_type="application/json")


# --- shared with other routes -----------------------------------------------------------------------------------------


async def find(shared: ApiContext, principal: Principal, key: str) -> StoredSubscription:
    """Returns a subscription of the sender; raises UnknownObject if there is none."""
    result = await asyncio.to_thread(shared.broker.store.subscription, principal.tenant_id, key)
    if result is None:
        raise UnknownObject(f"there is no subscription with the key {key[:100]!r}")
    return result


async def add(shared: ApiContext, principal: Principal, key: str, body: ReplacementIn) -> StoredSubscription:
    """Adds a subscription, or raises the error that refuses it."""
    (outcome,) = await shared.broker.subscribe([await new_subscription(shared, principal, key, body)])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


async def new_subscription(shared: ApiContext, principal: Principal, key: str, body: ReplacementIn) -> NewSubscription:
    """Returns the subscription that a request describes, or raises the error that refuses it."""
    delivery = await body.delivery.checked(shared.urls)
    start = None if body.from_ is None else await _replay_from(shared, principal, body.from_, "from")
    tenant_id = principal.tenant_id
    return NewSubscription(
        *(tenant_id, key, body.query, body.namespaces, body.dialect, body.subscriber, delivery),
        replay_from=start,
        overflow=body.overflow,
        params=body.params,
        follow=body.follow,
        window=window_of(body.when),
        urgency=urgency_of(body.urgency),
    )


def window_of(when: Mapping[str, Any] | None) -> Window | None:
    """Returns when a subscription is told, or raises the error that refuses it."""
    return None if when is None else read_window(when)


def urgency_of(asked: UrgencyIn | None) -> Urgency | None:
    """Returns how urgent the deliveries of a subscription are."""
    return None if asked is None else asked.urgency()


async def replace(shared: ApiContext, existing: StoredSubscription, body: ReplacementIn) -> StoredSubscription:
    """Replaces a subscription by the one of ``body``."""
    return await shared.broker.replace(
        existing,
        query=body.query,
        namespaces=body.namespaces,
        dialect=body.dialect,
        params=body.params,
        delivery=await body.delivery.checked(shared.urls),
        overflow=body.overflow,
        follow=body.follow,
        window=window_of(body.when),
        urgency=urgency_of(body.urgency),
    )


async def seek_to(shared: ApiContext, principal: Principal, existing: StoredSubscription, body: SeekIn) -> int | None:
    """Returns the message with which a subscription begins anew; ``None`` for the next one."""
    if body.now:
        return None
    if body.delivery is None:
        return await _replay_from(shared, principal, body, "seek")
    id_ = delivery_id(body.delivery)
    if id_.subscription_id != existing.id or id_.seq > await asyncio.to_thread(shared.broker.store.last_seq):
        last = await asyncio.to_thread(shared.broker.store.recent_deliveries, existing.id, 1)
        raise UnknownDelivery.of(body.delivery, str(last[0].id) if last else None)
    return id_.seq


async def _replay_from(shared: ApiContext, principal: Principal, start: Start, field: str) -> int:
    """Returns the sequence number of the first message from a start on, which a field of the body gives."""
    if start.seq is not None:
        return start.seq
    if start.after is not None:
        return start.after + 1
    store = shared.broker.store
    if start.message is not None:
        message = await asyncio.to_thread(store.message_by_id, principal.tenant_id, start.message)
        if message is None:
            raise UnknownObject(f"{field}: there is no message with the id {start.message!r}")
        return message.seq
    if start.time is None or start.time.tzinfo is None:
        raise Invalid(f"{field}: a time needs its offset from UTC, as in 2026-01-31T12:00:00Z")
    since = start.time.timestamp()
    if not math.isfinite(since):
        raise Invalid(f"{field}: the time is out of range")
    # Read first: a message that comes in between is newer than both.
    next_seq = await asyncio.to_thread(store.last_seq) + 1
    first = await asyncio.to_thread(store.first_seq_since, principal.tenant_id, since)
    return next_seq if first is None else first


async def _warnings(shared: ApiContext, subscription: StoredSubscription) -> tuple[str, ...]:
    """Returns what looks wrong with a subscription, which is found out in a turn of its tenant."""
    broker = shared.broker
    return await broker.questions.run(
        subscription.tenant_id, partial(_found_wrong, broker.source_schemas, subscription)
    )


def _found_wrong(schemas: SourceSchemas, subscription: StoredSubscription) -> tuple[str, ...]:
    s = subscription
    # To check a query in XQuery would mean to call Saxon, which has no warnings.
    is_external = s.dialect == "xquery"
    params = s.query_params
    found = () if is_external else check(s.query, namespaces=s.namespaces, dialect=s.dialect, params=params).warnings
    by_schema = schemas.warning(s.tenant_id, s.query, s.namespaces, s.dialect, params)
    return found if by_schema is None else (*found, by_schema)
