"""``/deliveries``: pulling, acknowledging, and tickets for streams."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from twigcast.broker.api.access import TICKET_SECONDS, Principal
from twigcast.broker.api.context import ApiContext, QueryName, Shared, Subscriber
from twigcast.broker.api.models.common import delivery_id
from twigcast.broker.api.models.deliveries import AckIn, EnvelopesOut, NackIn, TicketIn, TicketOut
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.errors import NotFound
from twigcast.broker.model import DeliveryId, QueuedDelivery
from twigcast.broker.store.records import QueuePosition, QueueState
from twigcast.broker.tracing import tracing

router = APIRouter(prefix="/deliveries", tags=["deliveries"], responses=problem_responses(401, 403, 404))

WAIT_SECONDS_MAX = 300
VISIBILITY_SECONDS = 30.0


@router.get("", response_model=EnvelopesOut, responses=problem_responses(422, 503))
async def pull(
    request: Request,
    principal: Subscriber,
    shared: Shared,
    subscriber: QueryName,
    wait: Annotated[float, Query(ge=0, le=WAIT_SECONDS_MAX, description="Seconds to wait for the first one.")] = 0.0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    visibility: Annotated[
        float, Query(gt=0, le=86_400, description="Seconds after which they are handed out again, unless acknowledged.")
    ] = VISIBILITY_SECONDS,
    bodies: Annotated[bool, Query(description="Whether to include messages that were not rewritten.")] = True,
) -> Response:
    """Pulls deliveries of a subscriber, in order. Those that are processed are to be acknowledged."""
    queue = await queue_of(shared, principal, subscriber)
    work = shared.broker.pull(queue.id, limit=limit, wait=wait, visibility=visibility)
    result = await (work if not wait else _unless_over(request, shared, work))
    tracing.handed_over(result, "pull")
    return Response(b'{"deliveries":%b}' % shared.envelopes.array(result, bodies=bodies), media_type="application/json")


@router.post("/ack", status_code=204, responses=problem_responses(422, 503, 507))
async def acknowledge(body: AckIn, principal: Subscriber, shared: Shared) -> None:
    """Acknowledges deliveries: they are not handed out again. Unknown ones are skipped."""
    queue = await queue_of(shared, principal, body.subscriber)
    if body.up_to is None:
        await shared.broker.acknowledge(queue.id, [delivery_id(text) for text in body.ids])
    else:
        await acknowledge_through(shared, queue.id, delivery_id(body.up_to))


@router.post("/nack", status_code=204, responses=problem_responses(422))
async def give_back(body: NackIn, principal: Subscriber, shared: Shared) -> None:
    """Releases deliveries that were pulled, to be handed out again, after a delay or at once."""
    queue = await queue_of(shared, principal, body.subscriber)
    await shared.broker.release(queue.id, [delivery_id(text) for text in body.ids], delay=body.delay)


@router.post("/tickets", status_code=201, responses=problem_responses(422, 429))
async def make_ticket(body: TicketIn, principal: Subscriber, shared: Shared) -> TicketOut:
    """Makes a ticket that opens streams of one subscriber, for clients that cannot send headers (`EventSource`).

    It is part of a URL, so it is valid for a short time only.
    """
    await queue_of(shared, principal, body.subscriber)
    return TicketOut(ticket=shared.authenticator.ticket(principal, body.subscriber), seconds=TICKET_SECONDS)


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _unless_over(
    request: Request, shared: ApiContext, work: Coroutine[Any, Any, list[QueuedDelivery]]
) -> list[QueuedDelivery]:
    """Returns the deliveries of a pull, or none as soon as its client is gone or the broker stops."""
    pulling = asyncio.create_task(work)
    others: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(_until_gone(request)),
        asyncio.ensure_future(shared.streams.stopping.wait()),
    ]
    try:
        await asyncio.wait([pulling, *others], return_when=asyncio.FIRST_COMPLETED)
        return pulling.result() if pulling.done() else []
    finally:
        for task in (pulling, *others):
            task.cancel()


# --- shared with streams ----------------------------------------------------------------------------------------------


async def queue_of(shared: ApiContext, principal: Principal, subscriber: str) -> QueueState:
    """Returns the queue of a subscriber.

    Raises:
        NotFound: There is none.
    """
    result = await asyncio.to_thread(shared.broker.store.queue, principal.tenant_id, subscriber)
    if result is None:
        raise NotFound(f"there is no subscriber {subscriber!r}")
    return result


async def acknowledge_through(shared: ApiContext, queue_id: int, last: DeliveryId) -> None:
    """Acknowledges all deliveries of a queue up to one, including those of the same message that come before it."""
    await shared.broker.acknowledge_up_to(queue_id, last.seq - 1)
    same: list[DeliveryId] = []
    position: QueuePosition | None = QueuePosition(last.seq - 1)
    while position is not None:
        results = await asyncio.to_thread(
            shared.broker.store.pending, queue_id, after=position, limit=100, bytes_max=1 << 20
        )
        same += [item.id for item in results if item.id <= last]
        goes_on = results and results[-1].id < last
        position = QueuePosition(results[-1].id.seq, results[-1].id.subscription_id) if goes_on else None
    if same:
        await shared.broker.acknowledge(queue_id, same)
