"""``/consumers``: how far each subscriber is behind, and what to do about it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from twigcast.broker.api.access import Principal
from twigcast.broker.api.context import ApiContext, PathName, QueryName, Shared, Subscriber
from twigcast.broker.api.deliveries import queue_of
from twigcast.broker.api.models import ConsumerOut, ConsumersOut, CountOut, SeekIn, SkipIn, SubscriptionOut
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.api.preconditions import link_to_next
from twigcast.broker.api.subscriptions import seek_to
from twigcast.broker.errors import Conflict, UnknownObject
from twigcast.broker.model import SHARED, QueueLag, QueueState, StoredSubscription
from twigcast.broker.store.store import Store

router = APIRouter(prefix="/consumers", tags=["consumers"], responses=problem_responses(401, 403))

COUNTED_SECONDS: Final = 0.5
"""Time in which the queues of a page are counted; those with much pending take time."""

_READ_AT_ONCE: Final = 10
_LETTERS_AT_ONCE: Final = 1_000
_SUBSCRIPTIONS_MAX: Final = 1_000


@router.get("")
async def list_consumers(
    request: Request,
    response: Response,
    principal: Subscriber,
    shared: Shared,
    after: Annotated[
        str | None, Query(max_length=512, description="The subscriber after which the page begins.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    subscriber: Annotated[QueryName | None, Query(description="Only this one.")] = None,
    behind: Annotated[
        bool,
        Query(description="Those furthest behind, as of a few seconds ago, in this order; `next` is null."),
    ] = False,
) -> ConsumersOut:
    """Returns the subscribers in order, each with what waits for it, since when, and who fetches it."""
    if subscriber is not None:
        one = await asyncio.to_thread(shared.broker.store.queue, principal.tenant_id, subscriber)
        return ConsumersOut(consumers=await describe(shared, [] if one is None else [one]), next=None)
    if behind:
        return ConsumersOut(consumers=await furthest_behind(shared, principal, limit), next=None)
    queues = await asyncio.to_thread(shared.broker.store.subscribers, principal.tenant_id, after=after, limit=limit + 1)
    page = queues[:limit]
    if len(queues) > limit:
        link_to_next(request, response, [("after", page[-1].subscriber)])
    return ConsumersOut(
        consumers=await describe(shared, page), next=page[-1].subscriber if len(queues) > limit else None
    )


@router.get("/{subscriber}", responses=problem_responses(404))
async def get_consumer(subscriber: PathName, principal: Subscriber, shared: Shared) -> ConsumerOut:
    """Returns one subscriber."""
    (result,) = await describe(shared, [await queue_of(shared, principal, subscriber)], seconds=None)
    return result


@router.post("/{subscriber}/purge", responses=problem_responses(404, 503, 507))
async def purge_consumer(subscriber: PathName, principal: Subscriber, shared: Shared) -> CountOut:
    """Counts all that is pending as done, and returns how many deliveries that were. They do not come again."""
    return CountOut(count=await shared.broker.purge(await queue_of(shared, principal, subscriber)))


@router.post("/{subscriber}/skip", responses=problem_responses(404, 422, 503, 507))
async def skip_deliveries(subscriber: PathName, body: SkipIn, principal: Subscriber, shared: Shared) -> CountOut:
    """Takes the oldest pending deliveries out of the way, as dead letters or for good; returns how many there were."""
    queue = await queue_of(shared, principal, subscriber)
    return CountOut(count=await shared.broker.skip(queue, body.count, as_dead_letters=body.dead_letter))


@router.post("/{subscriber}/seek", responses=problem_responses(404, 409, 422, 503, 507))
async def seek_consumer(subscriber: PathName, body: SeekIn, principal: Subscriber, shared: Shared) -> SubscriptionOut:
    """Lets the one subscription of a subscriber begin anew, as `POST /subscriptions/{key}/seek`."""
    subscription = await only_subscription(shared, await queue_of(shared, principal, subscriber))
    first = await seek_to(shared, principal, subscription, body)
    return SubscriptionOut.of(await shared.broker.seek(subscription, first))


@router.post("/{subscriber}/redrive", responses=problem_responses(404, 409, 503, 507))
async def redrive_consumer(subscriber: PathName, principal: Subscriber, shared: Shared) -> CountOut:
    """Redrives all dead letters of a subscriber, and returns how many.

    Those that are pulled wait in their queue again. Those whose message has expired stay dead letters.
    """
    return CountOut(count=await redrive(shared, await queue_of(shared, principal, subscriber)))


# --- shared with the console ------------------------------------------------------------------------------------------


async def furthest_behind(shared: ApiContext, principal: Principal, limit: int) -> list[ConsumerOut]:
    """Returns the subscribers with the oldest pending messages, the oldest first."""
    store, lag = shared.broker.store, shared.broker.lag
    ids = await asyncio.to_thread(lag.furthest_behind, principal.tenant_id, limit)
    queues = {queue.id: queue for queue in await asyncio.to_thread(store.queues, ids)}
    described = await describe(shared, [queues[number] for number in ids if number in queues])
    return [consumer for consumer in described if consumer.pending != 0]


async def describe(
    shared: ApiContext, queues: Sequence[QueueState], *, seconds: float | None = COUNTED_SECONDS
) -> list[ConsumerOut]:
    """Returns subscribers as the API shows them; what cannot be counted in some seconds is left out."""
    store = shared.broker.store
    lags, counted = await asyncio.to_thread(_lags, store, [queue.id for queue in queues], seconds)
    return [_consumer(shared, queue, lags.get(queue.id), is_counted=queue.id in counted) for queue in queues]


def _lags(store: Store, queue_ids: Sequence[int], seconds: float | None) -> tuple[dict[int, QueueLag], set[int]]:
    """Returns the lags of queues, and the queues that there was time to count. Blocks."""
    end = None if seconds is None else time.monotonic() + seconds
    waiting = set(store.queues_with_pending(queue_ids))
    lags: dict[int, QueueLag] = {}
    counted = set(queue_ids) - waiting
    left = [number for number in queue_ids if number in waiting]
    while left and (end is None or time.monotonic() < end):
        some, left = left[:_READ_AT_ONCE], left[_READ_AT_ONCE:]
        lags.update((lag.queue_id, lag) for lag in store.lags(some))
        counted.update(some)
    return lags, counted


def _consumer(shared: ApiContext, queue: QueueState, lag: QueueLag | None, *, is_counted: bool) -> ConsumerOut:
    reading = shared.broker.reading(queue.id)
    push = shared.pushing(queue.id) if queue.sharing is None else shared.broker.attempts(queue.id)
    return ConsumerOut.model_validate(
        {
            "subscriber": queue.subscriber,
            "kind": queue.kind,
            "queue": "ordered" if queue.sharing is None else SHARED,
            "pending": (0 if lag is None else lag.pending) if is_counted else None,
            "oldest": None if lag is None else lag.oldest_seq,
            "oldest_pending_seconds": None if lag is None else max(0.0, time.time() - lag.oldest_received),
            "in_flight": reading.in_flight if push is None else push.in_flight,
            "attempts": 0 if push is None else push.attempts,
            "next_retry": None if push is None else push.next_retry,
            "readers": reading.readers,
            "connected_since": reading.since,
        }
    )


async def only_subscription(shared: ApiContext, queue: QueueState) -> StoredSubscription:
    """Returns the one subscription of a subscriber; raises Conflict if it has several."""
    results = await asyncio.to_thread(
        shared.broker.store.subscriptions, queue.tenant_id, limit=2, subscriber=queue.subscriber
    )
    if not results:
        raise UnknownObject(f"there is no subscriber {queue.subscriber!r} any more")
    if len(results) > 1:
        raise Conflict(f"{queue.subscriber!r} has several subscriptions, and only one that is alone can begin anew")
    return results[0]


async def redrive(shared: ApiContext, queue: QueueState) -> int:
    """Redrives all dead letters of a subscriber, the oldest first, and returns how many."""
    subscriptions = await asyncio.to_thread(
        shared.broker.store.subscriptions, queue.tenant_id, limit=_SUBSCRIPTIONS_MAX, subscriber=queue.subscriber
    )
    if len(subscriptions) == _SUBSCRIPTIONS_MAX:
        raise Conflict(f"{queue.subscriber!r} has many subscriptions: redrive dead letters by POST /dead-letters/retry")
    return sum([await _redrive_of(shared, subscription) for subscription in subscriptions])


async def _redrive_of(shared: ApiContext, subscription: StoredSubscription) -> int:
    count, last = 0, 0
    while True:
        letters = await asyncio.to_thread(
            shared.broker.store.dead_letters,
            subscription.tenant_id,
            after_id=last,
            limit=_LETTERS_AT_ONCE,
            key=subscription.key,
        )
        if not letters:
            return count
        last = letters[-1].id
        count += await shared.broker.redrive([letter.id for letter in letters])
