"""``/deliveries/ws``: deliveries over a WebSocket, acknowledged over it too.

The broker sends each delivery as one text frame: the envelope, as in streams and pulls. The client sends
``{"ack": ["1234-56", ...]}`` or ``{"up_to": "1234-56"}``. A worker of a shared queue names receipts or ids, and also
sends ``{"nack": [...], "delay": 5, "reason": "..."}`` and ``{"extend": [...], "seconds": 60}``; the broker answers the
latter with ``{"extended": 1, "lost": []}``. It answers frames that it cannot read with ``{"error": problem}``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

import orjson
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import ValidationError
from starlette.datastructures import QueryParams

from twigcast.broker.api import problems
from twigcast.broker.api.context import ApiContext, check_name, context_of
from twigcast.broker.api.deliveries import acknowledge_each, acknowledge_through, prolong, queue_of, release
from twigcast.broker.api.guard import check_line
from twigcast.broker.api.models import ExtendIn, NackIn, delivery_id, receipt
from twigcast.broker.api.parameters import refuse_unknown
from twigcast.broker.api.stream import DeliverySource, admit, begin, in_writes, source_of
from twigcast.broker.config import first_mistake
from twigcast.broker.errors import BrokerError, Invalid
from twigcast.broker.model import Receipt
from twigcast.broker.tracing import tracing
from twigcast.errors import TwigcastError

router = APIRouter()

_log = logging.getLogger("twigcast.api")

_GOING_AWAY: Final = 1001
_FAILED: Final = 1011
_MEMBERS: Final = tuple(
    f'"{name}"'.encode() for name in ("ack", "up_to", "nack", "delay", "reason", "extend", "seconds")
)
_PARAMETERS: Final = frozenset(
    {"subscriber", "ticket", "in_flight", "visibility", "after", "last_event_id", "ack", "bodies"}
)
_FRAMES: Final = 'send {"ack": [ids]}, {"up_to": id}, {"nack": [ids]} or {"extend": [ids], "seconds": number}'


def _number(parameters: QueryParams, name: str, most: float) -> float | None:
    """Returns a number of the query string; raises Invalid if it is none, or out of range."""
    text = parameters.get(name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= most:
        raise Invalid(f"{name}: {text[:20]!r} is no number above 0 and up to {most:g}")
    return number


def _receipts(items: list[object]) -> list[Receipt]:
    return [receipt(str(item)) for item in items]


def _as_body(asked: dict[str, Any], verb: str, subscriber: str) -> dict[str, Any]:
    """Returns a frame of a worker in the form of the request that says the same."""
    if "subscriber" in asked:
        raise Invalid("subscriber: the connection has one already, so a frame names none")
    return {"subscriber": subscriber, "ids": asked[verb]} | {k: v for k, v in asked.items() if k != verb}


_YES: Final = ("true", "1", "yes")
_NO: Final = ("false", "0", "no")


def _choice(parameters: QueryParams, name: str, choices: Sequence[str]) -> str | None:
    """Returns a parameter of the query string; raises Invalid if it is none of the choices."""
    text = parameters.get(name)
    if text is not None and text not in choices:
        raise Invalid(f"{name}: {text[:100]!r} is not known; use {', '.join(choices)}, or leave it out")
    return text


@router.websocket("/deliveries/ws")
async def deliveries(websocket: WebSocket) -> None:
    """Sends deliveries until either side ends it."""
    shared = context_of(websocket)
    parameters = websocket.query_params
    try:
        refuse_unknown(parameters, _PARAMETERS)
        subscriber = parameters.get("subscriber") or ""
        check_name(subscriber)
        principal = await admit(websocket, subscriber, parameters.get("ticket"))
        queue = await queue_of(shared, principal, subscriber)
        in_flight, seconds = _number(parameters, "in_flight", 10_000), _number(parameters, "visibility", 86_400)
        most = None if in_flight is None else max(1, int(in_flight))
        source = source_of(shared, queue, most, seconds, parameters.get("after"))
        if queue.sharing is None:
            last = parameters.get("last_event_id")
            source.position, _ = await begin(shared, queue.id, last, parameters.get("after"))
        source.is_automatic = _choice(parameters, "ack", ("auto", "explicit")) == "auto"
        bodies = _choice(parameters, "bodies", (*_YES, *_NO)) not in _NO
        with shared.streams.one_more(principal) as is_open:
            await websocket.accept()
            socket = _Socket(shared, websocket, source, bodies=bodies)
            is_open(socket)
            await socket.run()
    except ValueError as error:
        await websocket.send_denial_response(problems.response_to(Invalid(f"subscriber: {error}")))
    except (TwigcastError, problems.Problem) as error:
        await websocket.send_denial_response(problems.response_to(error))


class _Socket:
    """A connection: a task that sends, and one that reads."""

    def __init__(self, shared: ApiContext, websocket: WebSocket, source: DeliverySource, *, bodies: bool) -> None:
        self.idle = False
        self._shared = shared
        self._websocket = websocket
        self._source = source
        self._queue = source.queue
        self._bodies = bodies
        self._sending: asyncio.Task[None] | None = None
        self._code = 1000

    async def run(self) -> None:
        """Runs until either side ends it."""
        self._sending = asyncio.create_task(self._send())
        reading = asyncio.create_task(self._read())
        try:
            await asyncio.wait([self._sending, reading], return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            elif not self._sending.cancelled() and (error := self._sending.exception()):
                self._code = _FAILED
                if not isinstance(error, BrokerError):
                    raise error
                _log.warning("a stream ended: %s", error)
        except WebSocketDisconnect:
            return
        finally:
            self._sending.cancel()
            reading.cancel()
            await asyncio.wait([self._sending, reading])
        with suppress(RuntimeError):  # the client was faster
            await self._websocket.close(self._code)

    async def _send(self) -> None:
        shared, send = self._shared, self._websocket.send
        async with aclosing(self._source.groups()) as groups:
            async for group in groups:
                seeks = shared.broker.seek_count(self._queue.id)
                for part in in_writes(group):
                    for delivery in part:
                        text = shared.envelopes.json(delivery, bodies=self._bodies).decode()
                        await send({"type": "websocket.send", "text": text})
                    await self._source.handed_over(part, seeks)
                    tracing.handed_over(part, "websocket")

    async def _read(self) -> None:
        while True:
            came = await self._websocket.receive()
            if came["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(came.get("code", 1005), came.get("reason"))
            text: str | None = came.get("text")
            try:
                if text is None:
                    raise Invalid(f"a binary frame is not understood; {_FRAMES} as text")
                await self._obey(text)
            except TwigcastError as error:
                await self._websocket.send_text(orjson.dumps({"error": problems.of_error(error)}).decode())

    async def _obey(self, text: str) -> None:
        try:
            check_line(text.encode(), _MEMBERS)
            asked = orjson.loads(text)
            if not isinstance(asked, dict):
                raise Invalid(_FRAMES)
            if asked.keys() == {"ack"} and isinstance(asked["ack"], list):
                await acknowledge_each(self._shared, self._queue.id, [item.id for item in _receipts(asked["ack"])])
            elif asked.keys() == {"up_to"} and self._queue.sharing is None:
                await acknowledge_through(self._shared, self._queue.id, delivery_id(str(asked["up_to"])))
            else:
                await self._obey_worker(asked)
        except ValidationError as error:
            raise Invalid(first_mistake(error)) from None
        except ValueError as error:
            raise Invalid(str(error)) from None

    async def _obey_worker(self, asked: dict[str, Any]) -> None:
        if "nack" in asked:
            nack = NackIn.model_validate(_as_body(asked, "nack", self._queue.subscriber))
            receipts = [receipt(text) for text in nack.ids]
            await release(self._shared, self._queue, receipts, nack.delay, nack.reason)
        elif "extend" in asked:
            more = ExtendIn.model_validate(_as_body(asked, "extend", self._queue.subscriber))
            outcome = await prolong(self._shared, self._queue, [receipt(text) for text in more.ids], more.seconds)
            await self._websocket.send_text(outcome.model_dump_json())
        else:
            raise Invalid(_FRAMES if self._queue.sharing is None else f"{_FRAMES}; up_to is for ordered queues")

    async def beat(self) -> None:
        """Does nothing: the protocol has pings of its own."""

    def stop(self) -> None:
        """Ends it: the broker stops."""
        self._code = _GOING_AWAY
        if self._sending is not None:
            self._sending.cancel()
