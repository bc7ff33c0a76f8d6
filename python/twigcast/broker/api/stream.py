"""``GET /deliveries/stream``: Server-Sent Events. The path of the highest throughput.

A group of deliveries is one write to the connection, made of parts that all connections share. Deliveries that come
while a stream waits for them are written at once, without waking a task. Back-pressure is that of the
connection: as long as its buffer is full, no more is read from its queue.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from twigcast.broker.api.access import Principal
from twigcast.broker.api.context import ApiContext, QueryName, Shared, certificate_of, context_of, sender_of
from twigcast.broker.api.deliveries import Visibility, acknowledge_through, queue_of
from twigcast.broker.api.models import delivery_id
from twigcast.broker.api.openapi import SECURITY, problem_responses
from twigcast.broker.errors import BrokerError, Invalid, UnknownDelivery
from twigcast.broker.model import QueuedDelivery, QueuePosition, QueueState
from twigcast.broker.queues.live import Offer
from twigcast.broker.tracing import tracing

router = APIRouter(prefix="/deliveries", tags=["deliveries"], responses=problem_responses(401, 403, 404))

_log = logging.getLogger("twigcast.api")

_WRITE_BYTES: Final = 512 << 10
"""Approximate size of one write in bytes."""

_AT_ONCE_MAX: Final = 16
"""Number of deliveries that are written at once; with more, others have their turn in between."""

_BEGIN: Final = b"retry: 1000\n\n"
_SIGN_OF_LIFE: Final = b":\n\n"
_RESTART: Final = b": restart\n\n"
"""Says that the stream begins anew with the oldest pending delivery; the Python client reads it."""
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

AckMode = Annotated[
    Literal["explicit", "auto"],
    Query(description="`auto`: a delivery is acknowledged as soon as it is passed to the connection."),
]
After = Annotated[
    str | None, Query(max_length=41, description="Begins after this delivery, without acknowledging earlier ones.")
]
IN_FLIGHT: Final = 100
"""Deliveries of a shared queue that a stream has at a time, unless it asks for another number."""

InFlight = Annotated[
    int | None,
    Query(
        ge=1,
        le=10_000,
        description=f"Of a shared queue: deliveries sent before some are acknowledged; by default {IN_FLIGHT}.",
    ),
]
Ticket = Annotated[str | None, Query(max_length=100, description="Instead of a token: see `POST /deliveries/tickets`.")]


@router.get(
    "/stream",
    response_class=Response,
    responses=problem_responses(422, 429) | {200: {"content": {"text/event-stream": {}}}},
    openapi_extra={
        "security": [*SECURITY, {}],
        "parameters": [
            {
                "name": "Last-Event-ID",
                "in": "header",
                "required": False,
                "description": "Go on after this delivery; all up to it count as done. With an id that this subscriber "
                "was not handed out, such as one from before the store was restored, the stream begins with the oldest "
                "pending delivery.",
                "schema": {"type": "string", "maxLength": 41},
            }
        ],
    },
)
async def stream(
    request: Request,
    shared: Shared,
    subscriber: QueryName,
    after: After = None,
    ack: AckMode = "explicit",
    bodies: Annotated[bool, Query(description="Whether to include messages that were not rewritten.")] = True,
    in_flight: InFlight = None,
    visibility: Visibility = None,
    ticket: Ticket = None,
) -> Response:
    """Streams the deliveries of a subscriber as Server-Sent Events: pending ones, then new ones.

    Each event has the id of the delivery as its `id`, the type `delivery`, and the delivery as JSON on one line.
    Processed deliveries are acknowledged by `POST /deliveries/ack`, or up to the `Last-Event-ID` of a client that
    connects again.

    Each stream of a shared queue is a worker: it gets deliveries that no other worker has, leased for `visibility`
    seconds, and acknowledges them by their receipts. There is no position, so `Last-Event-ID` counts for nothing.
    """
    principal = await admit(request, subscriber, ticket)
    queue = await queue_of(shared, principal, subscriber)
    source = source_of(shared, queue, in_flight, visibility, after)
    restarts = False
    if queue.sharing is None:
        source.position, restarts = await begin(shared, queue.id, request.headers.get("last-event-id"), after)
    source.is_automatic = ack == "auto"
    return EventStream(shared, principal, source, bodies=bodies, restarts=restarts)


@dataclass(slots=True)
class DeliverySource:
    """A queue from which a stream gets its deliveries, with what happens when they are handed over."""

    shared: ApiContext
    queue: QueueState
    in_flight: int = IN_FLIGHT
    visibility: float | None = None
    position: QueuePosition | None = None
    is_automatic: bool = False
    """Whether deliveries are acknowledged as soon as they are passed to the connection."""

    def groups(self, offer: Offer | None = None) -> AsyncGenerator[list[QueuedDelivery], None]:
        """Yields deliveries in groups; an empty one where the queue begins anew."""
        broker, queue = self.shared.broker, self.queue
        if queue.sharing is not None:
            return broker.work(queue.id, queue.sharing, in_flight_max=self.in_flight, seconds=self.visibility)
        return broker.read_queue(queue.id, self.position, offer=offer)

    async def handed_over(self, part: Sequence[QueuedDelivery], seeks: int) -> None:
        """Acknowledges deliveries that were passed to the connection, if that is automatic."""
        if self.is_automatic and self.queue.sharing is not None:
            await self.shared.broker.acknowledge(self.queue.id, [delivery.id for delivery in part], seeks)
        elif self.is_automatic:
            self.shared.automatic_acks.handed_over(self.queue.id, part, seeks)


def source_of(
    shared: ApiContext, queue: QueueState, in_flight: int | None, visibility: float | None, after: str | None
) -> DeliverySource:
    """Returns where a stream gets its deliveries from; raises Invalid for settings that its queue does not have."""
    if queue.sharing is None and (in_flight is not None or visibility is not None):
        raise Invalid(f"in_flight and visibility are for shared queues, and that of {queue.subscriber!r} is ordered")
    if queue.sharing is not None and after:
        raise Invalid(f"after is for ordered queues, and that of {queue.subscriber!r} is shared")
    return DeliverySource(shared, queue, in_flight or IN_FLIGHT, visibility)


async def admit(connection: HTTPConnection, subscriber: str, ticket: str | None) -> Principal:
    """Returns the sender that opens a stream, by token or by ticket; raises Unauthorized or Forbidden."""
    if ticket is not None:
        authenticator = context_of(connection).authenticator
        return authenticator.admit_ticket(ticket, subscriber, certificate_of(connection))
    principal = await sender_of(connection)
    principal.require_subscriber(subscriber)
    return principal


async def begin(
    shared: ApiContext, queue_id: int, last: str | None, after: str | None
) -> tuple[QueuePosition | None, bool]:
    """Returns the position where a stream begins, and acknowledges what its client says it has.

    Also returns whether the client's last delivery is unknown, so that the stream begins with what is pending.
    """
    try:
        if last:
            done = delivery_id(last)
            try:
                await acknowledge_through(shared, queue_id, done)
            except UnknownDelivery as error:
                _log.warning("a stream begins anew: %s", error)
                return None, True
            return QueuePosition(done.seq, done.subscription_id), False
        return QueuePosition(*delivery_id(after)) if after else None, False
    except ValueError as error:
        raise Invalid(str(error)) from None


OUTERMOST: Final = "twigcast.send"
"""Key of a scope that holds the server's own ``send``. After the first write the middleware around it adds nothing."""


class Connection:
    """A connection that sends one message after the other, without a task for each; calls ``failed`` if it cannot.

    ASGI's ``send`` is a coroutine, but it waits only while the connection is full. So it is started at once, in any
    context, and mostly finishes at once. If it waits, a task finishes it, and until then the connection is *busy*.
    """

    def __init__(self, send: Send, failed: Callable[[], None]) -> None:
        self._send = send
        self._failed = failed
        self._rest: asyncio.Task[None] | None = None
        self.error: BaseException | None = None
        """The error of a failed message."""

    @property
    def busy(self) -> bool:
        """Returns whether a message waits for the connection."""
        return self._rest is not None

    def begin(self, message: Message, sent: Callable[[], None] = lambda: None) -> None:
        """Sends a message, in a task if the connection is full; must not be called while it is busy.

        It raises nothing: an error concerns this connection, and the caller may have others to serve. ``sent`` is
        called when the message is sent, now or later; never if that fails or is cancelled.
        """
        try:
            steps = self._send(message).__await__()
            waits_for = next(steps)
        except StopIteration:
            sent()
            return
        except (OSError, RuntimeError) as error:
            self._fail(error)
            return
        self._rest = asyncio.ensure_future(_finish(_Rest(steps, waits_for)))
        self._rest.add_done_callback(partial(self._finished, sent))

    async def send(self, message: Message) -> None:
        """Sends a message after the one that waits, and returns when it is sent. Raises what sending raises."""
        while self._rest is not None:
            await asyncio.wait([self._rest])
        if self.error is None:
            self.begin(message)
        if self._rest is not None:
            await asyncio.wait([self._rest])
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        """Cancels the message that waits."""
        if self._rest is not None:
            self._rest.cancel()

    def _finished(self, sent: Callable[[], None], rest: asyncio.Task[None]) -> None:
        self._rest = None
        if rest.cancelled():
            return
        error = rest.exception()
        if error is None:
            sent()
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.error = error
        self._failed()


class _Rest:
    """The rest of an awaitable that was started outside of a task."""

    def __init__(self, steps: Generator[Any, Any, None], waits_for: Any) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, None]:
        try:
            yield self._waits_for
        except BaseException as error:
            # Such as the cancellation of the task: the awaitable inside has to see it.
            self._steps.throw(error)
            raise
        yield from self._steps


async def _finish(rest: _Rest) -> None:
    await rest


def in_writes(deliveries: list[QueuedDelivery]) -> Iterator[list[QueuedDelivery]]:
    """Yields deliveries in groups that are written at a time."""
    first = size = 0
    for index, delivery in enumerate(deliveries):
        size += len(delivery.body)
        if size >= _WRITE_BYTES:
            yield deliveries[first : index + 1]
            first, size = index + 1, 0
    if first < len(deliveries):
        yield deliveries[first:]


class EventStream(Response):
    """A response that goes on until its client or the broker ends it."""

    def __init__(
        self,
        shared: ApiContext,
        principal: Principal,
        source: DeliverySource,
        *,
        bodies: bool,
        restarts: bool = False,
    ) -> None:
        # Nothing is prepared as a Response would: head and body are sent below.
        self.status_code = 200
        self.background = None
        self.idle = False
        self._shared = shared
        self._principal = principal
        self._source = source
        self._queue_id = source.queue.id
        self._bodies = bodies
        self._restarts = restarts
        self._pump: asyncio.Task[None] | None = None
        self._connection: Connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends until the client or the broker ends it."""
        with self._shared.streams.one_more(self._principal) as is_open:
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await send(_body(_BEGIN + _RESTART if self._restarts else _BEGIN))
            self._connection = Connection(scope.get(OUTERMOST, send), self.stop)
            self._pump = asyncio.create_task(self._deliver())
            watch = asyncio.create_task(self._until_gone(receive))
            is_open(self)
            try:
                await asyncio.wait([self._pump])
                error = self._connection.error or (None if self._pump.cancelled() else self._pump.exception())
                if error is not None:
                    if not isinstance(error, BrokerError):
                        raise error
                    # Its client connects again, and finds what is pending.
                    _log.warning("a stream ended: %s", error)
                await self._connection.send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                self._connection.close()
                self._pump.cancel()
                watch.cancel()

    async def _deliver(self) -> None:
        connection = self._connection
        async with aclosing(self._source.groups(self._deliver_at_once)) as groups:
            async for group in groups:
                seeks = self._shared.broker.seek_count(self._queue_id)
                if not group:
                    await connection.send(_body(_RESTART))
                for part in in_writes(group):
                    await connection.send(_body(self._shared.envelopes.events(part, bodies=self._bodies)))
                    self._note(part)
                    await self._source.handed_over(part, seeks)

    def _deliver_at_once(self, group: Sequence[QueuedDelivery]) -> bool:
        connection = self._connection
        if connection.busy or len(group) > _AT_ONCE_MAX:
            return False
        # A delivery that has to wait is handed over only when it is written: its client may go away first.
        events = self._shared.envelopes.events(group, bodies=self._bodies)
        seeks = self._shared.broker.seek_count(self._queue_id)
        connection.begin(_body(events), partial(self._handed_over, group, seeks))
        return connection.error is None

    def _handed_over(self, part: Sequence[QueuedDelivery], seeks: int) -> None:
        self._note(part)
        if self._source.is_automatic:
            self._shared.automatic_acks.handed_over(self._queue_id, part, seeks)

    def _note(self, part: Sequence[QueuedDelivery]) -> None:
        self.idle = False
        if tracing.is_on:
            tracing.handed_over(part, "stream")

    async def _until_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        # Otherwise a waiting message would seem to be sent: the server ends the wait, and drops it.
        self._connection.close()
        self.stop()

    async def beat(self) -> None:
        """Sends a comment, unless a write is waiting already."""
        if not self._connection.busy:
            self._connection.begin(_body(_SIGN_OF_LIFE))

    def stop(self) -> None:
        """Ends the stream."""
        if self._pump is not None:
            self._pump.cancel()


def _body(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}
