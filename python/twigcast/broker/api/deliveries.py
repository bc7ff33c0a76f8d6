"""``/deliveries``: pulling, acknowledging, tickets for streams; ``/dead-letters``: deliveries that were given up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from twigcast.broker.api.access import TICKET_SECONDS, Principal
from twigcast.broker.api.bodies import page
from twigcast.broker.api.context import ApiContext, QueryName, Shared, Subscriber
from twigcast.broker.api.models import (
    AckIn,
    CountOut,
    DeadLetterOut,
    DeadLettersIn,
    DeadLettersOut,
    EnvelopesOut,
    NackIn,
    TicketIn,
    TicketOut,
    delivery_id,
)
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.errors import UnknownObject
from twigcast.broker.model import DeadLetter, DeliveryId, QueuedDelivery, QueuePosition, QueueState
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


@router.post("/ack", status_code=204, responses=problem_responses(409, 422, 503, 507))
async def acknowledge(body: AckIn, principal: Subscriber, shared: Shared) -> None:
    """Acknowledges deliveries: they are not handed out again.

    An id that this subscriber was not handed out is refused with the code `unknown-delivery`, and `newest` names the
    newest one that it was; then nothing is acknowledged.
    """
    queue = await queue_of(shared, principal, body.subscriber)
    if body.up_to is None:
        await acknowledge_each(shared, queue.id, [delivery_id(text) for text in body.ids])
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
    """Returns the queue of a subscriber; raises UnknownObject if there is none."""
    result = await asyncio.to_thread(shared.broker.store.queue, principal.tenant_id, subscriber)
    if result is None:
        raise UnknownObject(f"there is no subscriber {subscriber!r}")
    return result


async def acknowledge_each(shared: ApiContext, queue_id: int, ids: Sequence[DeliveryId]) -> None:
    """Acknowledges deliveries; raises UnknownDelivery if one was not handed out."""
    seeks = shared.broker.seek_count(queue_id)
    await shared.broker.require_handed_out(queue_id, ids)
    await shared.broker.acknowledge(queue_id, ids, seeks)


async def acknowledge_through(shared: ApiContext, queue_id: int, last: DeliveryId) -> None:
    """Acknowledges all deliveries of a queue up to one, including those of the same message that come before it.

    Raises UnknownDelivery if that one was not handed out.
    """
    seeks = shared.broker.seek_count(queue_id)
    await shared.broker.require_handed_out(queue_id, [last])
    await shared.broker.acknowledge_up_to(queue_id, last.seq - 1, seeks)
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
        await shared.broker.acknowledge(queue_id, same, seeks)


dead_letter_router = APIRouter(prefix="/dead-letters", tags=["dead letters"], responses=problem_responses(401, 403))

Number = Annotated[int | None, Query(ge=0, le=1 << 62)]


@dead_letter_router.get("")
async def list_dead_letters(
    principal: Subscriber,
    shared: Shared,
    before: Number = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    key: Annotated[QueryName | None, Query(description="Only those of this subscription.")] = None,
) -> DeadLettersOut:
    """Returns dead letters, newest first."""

    def read(last: DeadLetter | None, count: int) -> list[DeadLetter]:
        end = before if last is None else last.id
        return shared.broker.store.dead_letters(principal.tenant_id, before_id=end, limit=count, key=key)

    results, more = await asyncio.to_thread(page, limit, read, lambda letter: len(letter.body))
    return DeadLettersOut(
        dead_letters=[DeadLetterOut.of(letter) for letter in results], next=results[-1].id if more else None
    )


@dead_letter_router.post("/retry", responses=problem_responses(404, 422, 503, 507))
async def retry(body: DeadLettersIn, principal: Subscriber, shared: Shared) -> CountOut:
    """Redrives dead letters, and returns how many. One that arrives is no longer a dead letter."""
    letters = await find_dead_letters(shared, principal, body.dead_letters)
    return CountOut(count=len(await shared.broker.redrive([letter.id for letter in letters])))


@dead_letter_router.post("/delete", responses=problem_responses(404, 422, 503, 507))
async def delete(body: DeadLettersIn, principal: Subscriber, shared: Shared) -> CountOut:
    """Removes dead letters for good."""
    letters = await find_dead_letters(shared, principal, body.dead_letters)
    ids = [letter.id for letter in letters]
    return CountOut(count=await shared.broker.change(lambda transaction: transaction.remove_dead_letters(ids)))


async def find_dead_letters(shared: ApiContext, principal: Principal, numbers: Sequence[int]) -> list[DeadLetter]:
    """Returns the tenant's dead letters of these numbers; raises UnknownObject if one of them does not exist."""

    def find() -> list[DeadLetter]:
        letters = []
        for number in dict.fromkeys(numbers):
            result = shared.broker.store.dead_letters(principal.tenant_id, before_id=number + 1, limit=1)
            if not result or result[0].id != number:
                raise UnknownObject(f"there is no dead letter with the number {number}")
            letters.append(result[0])
        return letters

    return await asyncio.to_thread(find)
