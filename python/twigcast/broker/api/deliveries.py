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
from twigcast.broker.api.context import ApiContext, QueryName, Receiver, Shared, Subscriber
from twigcast.broker.api.models import (
    AckIn,
    CountOut,
    DeadLetterOut,
    DeadLettersIn,
    DeadLettersOut,
    EnvelopesOut,
    ExtendedOut,
    ExtendIn,
    NackIn,
    TicketIn,
    TicketOut,
    delivery_id,
    receipt,
)
from twigcast.broker.api.openapi import problem_responses
from twigcast.broker.api.preconditions import link_to_next
from twigcast.broker.broker import VISIBILITY_SECONDS
from twigcast.broker.errors import Conflict, UnknownObject
from twigcast.broker.model import DeadLetter, DeliveryId, QueuedDelivery, QueuePosition, QueueState, Receipt
from twigcast.broker.tracing import tracing

router = APIRouter(prefix="/deliveries", tags=["deliveries"], responses=problem_responses(401, 403, 404))

WAIT_SECONDS_MAX = 300


Visibility = Annotated[
    float | None,
    Query(
        gt=0,
        le=86_400,
        description="Seconds after which they are handed out again, unless acknowledged; by default "
        f"{VISIBILITY_SECONDS:g}, or `lease_seconds` of a shared queue.",
    ),
]


@router.get("", response_model=EnvelopesOut, responses=problem_responses(422, 503))
async def pull(
    request: Request,
    principal: Receiver,
    shared: Shared,
    subscriber: QueryName,
    wait: Annotated[float, Query(ge=0, le=WAIT_SECONDS_MAX, description="Seconds to wait for the first one.")] = 0.0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    visibility: Visibility = None,
    bodies: Annotated[bool, Query(description="Whether to include messages that were not rewritten.")] = True,
) -> Response:
    """Pulls deliveries of a subscriber, in order. Those that are processed are to be acknowledged.

    Workers of a shared queue pull beside each other, and each gets other deliveries.
    """
    queue = await queue_of(shared, principal, subscriber)
    work = shared.broker.pull(queue.id, limit=limit, wait=wait, visibility=visibility, sharing=queue.sharing)
    result = await (work if not wait else _unless_over(request, shared, work))
    tracing.handed_over(result, "pull")
    return Response(b'{"deliveries":%b}' % shared.envelopes.array(result, bodies=bodies), media_type="application/json")


@router.post("/ack", status_code=204, responses=problem_responses(409, 422, 503, 507))
async def acknowledge(body: AckIn, principal: Receiver, shared: Shared) -> None:
    """Acknowledges deliveries: they are not handed out again.

    An id that this subscriber was not handed out is refused with the code `unknown-delivery`, and `newest` names the
    newest one that it was; then nothing is acknowledged. In a shared queue, a worker whose lease is over may still
    acknowledge: what is done is done.
    """
    queue = await queue_of(shared, principal, body.subscriber)
    if body.up_to is None:
        await acknowledge_each(shared, queue.id, [receipt(text).id for text in body.ids])
    elif queue.sharing is not None:
        raise Conflict(f"the queue of {body.subscriber!r} is shared, so others have what comes before: name the ids")
    else:
        await acknowledge_through(shared, queue.id, delivery_id(body.up_to))


@router.post("/nack", status_code=204, responses=problem_responses(422))
async def give_back(body: NackIn, principal: Receiver, shared: Shared) -> None:
    """Releases deliveries that were pulled, to be handed out again, after a delay or at once.

    In an ordered queue, later deliveries of the subscription wait for them. In a shared queue they do not, and a
    delivery that was handed out `attempts_max` times becomes a dead letter. A lease that is over is left alone.
    """
    queue = await queue_of(shared, principal, body.subscriber)
    await release(shared, queue, [receipt(text) for text in body.ids], body.delay, body.reason)


@router.post("/extend", responses=problem_responses(409, 422, 503, 507))
async def extend(body: ExtendIn, principal: Receiver, shared: Shared) -> ExtendedOut:
    """Extends leases of a shared queue, counted from now. Those that are over already are listed, and stay so."""
    queue = await queue_of(shared, principal, body.subscriber)
    return await prolong(shared, queue, [receipt(text) for text in body.ids], body.seconds)


@router.post("/tickets", status_code=201, responses=problem_responses(422, 429))
async def make_ticket(body: TicketIn, principal: Receiver, shared: Shared) -> TicketOut:
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
    """Returns the queue of a subscriber; raises UnknownObject if there is none, Forbidden for a narrowed token."""
    principal.require_subscriber(subscriber)
    result = await asyncio.to_thread(shared.broker.store.queue, principal.tenant_id, subscriber)
    if result is None:
        raise UnknownObject(f"there is no subscriber {subscriber!r}")
    return result


async def release(
    shared: ApiContext, queue: QueueState, receipts: Sequence[Receipt], delay: float, reason: str | None = None
) -> None:
    """Gives deliveries back to their queue."""
    if queue.sharing is None:
        await shared.broker.release(queue.id, [id_ for id_, _ in receipts], delay=delay)
    else:
        await shared.broker.give_back(queue.id, receipts, delay=delay, reason=reason)


async def prolong(shared: ApiContext, queue: QueueState, receipts: Sequence[Receipt], seconds: float) -> ExtendedOut:
    """Extends leases; raises Conflict for an ordered queue."""
    if queue.sharing is None:
        raise Conflict(f"the queue of {queue.subscriber!r} is ordered, and only leases of shared queues are extended")
    lost = await shared.broker.extend(queue.id, receipts, seconds)
    return ExtendedOut(extended=len(receipts) - len(lost), lost=[str(item) for item in lost])


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
    request: Request,
    response: Response,
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
    if more:
        link_to_next(request, response, [("before", results[-1].id)])
    return DeadLettersOut(
        dead_letters=[DeadLetterOut.of(letter) for letter in results], next=results[-1].id if more else None
    )


@dead_letter_router.post("/retry", responses=problem_responses(404, 422, 503, 507))
async def retry(body: DeadLettersIn, principal: Subscriber, shared: Shared) -> CountOut:
    """Redrives dead letters, and returns how many. One that arrives is no longer a dead letter.

    Deliveries that are pulled wait in their queue again, and their attempts begin anew. Those whose message has expired
    stay dead letters and do not count.
    """
    letters = await find_dead_letters(shared, principal, body.dead_letters)
    return CountOut(count=await shared.broker.redrive([letter.id for letter in letters]))


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
