"""``/deliveries/ws``: deliveries over a WebSocket, acknowledged over it too.

The broker sends each delivery as one text frame: the envelope, as in streams and pulls. The client sends
``{"ack": ["1234-56", ...]}`` or ``{"up_to": "1234-56"}``; the broker answers frames that it cannot read with
``{"error": problem}``.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Final

import orjson
from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from twigcast.broker.api import problems
from twigcast.broker.api.context import ApiContext, check_name, context_of
from twigcast.broker.api.deliveries import acknowledge_each, acknowledge_through, queue_of
from twigcast.broker.api.models import delivery_id
from twigcast.broker.api.stream import admit, begin, in_writes
from twigcast.broker.errors import BrokerError, Invalid
from twigcast.broker.model import QueuePosition
from twigcast.broker.tracing import tracing
from twigcast.errors import TwigcastError

router = APIRouter()

_log = logging.getLogger("twigcast.api")

_GOING_AWAY: Final = 1001
_FAILED: Final = 1011


@router.websocket("/deliveries/ws")
async def deliveries(websocket: WebSocket) -> None:
    """Sends deliveries until either side ends it."""
    shared = context_of(websocket)
    parameters = websocket.query_params
    try:
        subscriber = parameters.get("subscriber") or ""
        check_name(subscriber)
        principal = await admit(websocket, subscriber, parameters.get("ticket"))
        queue = await queue_of(shared, principal, subscriber)
        position, _ = await begin(shared, queue.id, parameters.get("last_event_id"), parameters.get("after"))
        with shared.streams.one_more(principal) as is_open:
            await websocket.accept()
            socket = _Socket(shared, websocket, queue.id, position, parameters)
            is_open(socket)
            await socket.run()
    except ValueError as error:
        await websocket.send_denial_response(problems.response_to(Invalid(f"subscriber: {error}")))
    except TwigcastError as error:
        await websocket.send_denial_response(problems.response_to(error))


class _Socket:
    """A connection: a task that sends, and one that reads."""

    def __init__(
        self, shared: ApiContext, websocket: WebSocket, queue_id: int, position: QueuePosition | None, parameters: Any
    ) -> None:
        self.idle = False
        self._shared = shared
        self._websocket = websocket
        self._queue_id = queue_id
        self._position = position
        self._automatic = parameters.get("ack") == "auto"
        self._bodies = parameters.get("bodies") not in {"false", "0", "no"}
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
        shared, queue_id, send = self._shared, self._queue_id, self._websocket.send
        async for group in shared.broker.read_queue(queue_id, self._position):
            seeks = shared.broker.seek_count(queue_id)
            for part in in_writes(group):
                for delivery in part:
                    text = shared.envelopes.json(delivery, bodies=self._bodies).decode()
                    await send({"type": "websocket.send", "text": text})
                if self._automatic:
                    shared.automatic_acks.handed_over(queue_id, part, seeks)
                tracing.handed_over(part, "websocket")

    async def _read(self) -> None:
        while True:
            text = await self._websocket.receive_text()
            try:
                await self._obey(text)
            except TwigcastError as error:
                await self._websocket.send_text(orjson.dumps({"error": problems.of_error(error)}).decode())

    async def _obey(self, text: str) -> None:
        try:
            asked = orjson.loads(text)
            if isinstance(asked, dict) and asked.keys() == {"ack"} and isinstance(asked["ack"], list):
                ids = [delivery_id(str(item)) for item in asked["ack"]]
                await acknowledge_each(self._shared, self._queue_id, ids)
            elif isinstance(asked, dict) and asked.keys() == {"up_to"}:
                await acknowledge_through(self._shared, self._queue_id, delivery_id(str(asked["up_to"])))
            else:
                raise Invalid('send {"ack": [ids]} or {"up_to": id}')
        except ValueError as error:
            raise Invalid(str(error)) from None

    async def beat(self) -> None:
        """Does nothing: the protocol has pings of its own."""

    def stop(self) -> None:
        """Ends it: the broker stops."""
        self._code = _GOING_AWAY
        if self._sending is not None:
            self._sending.cancel()
