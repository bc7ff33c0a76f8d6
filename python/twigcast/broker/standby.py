"""A broker that is not active: one that waits, or one whose store another broker has taken over.

A standby listens on its address and answers each request with the address of the active broker. It opens the store when
the tenure of the active broker is over (:mod:`twigcast.broker.store.tenure`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import orjson
import uvicorn
import uvloop
from prometheus_client import CONTENT_TYPE_LATEST
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from twigcast.broker.api import problems
from twigcast.broker.door import Door, DoorLimits
from twigcast.broker.errors import Standby
from twigcast.broker.metrics import metric_families
from twigcast.broker.protocol import Protocol
from twigcast.broker.store.database import WritingTenure

if TYPE_CHECKING:
    from twigcast.broker.store.tenure import TenureWatch

_log = logging.getLogger("twigcast.broker")

WATCHED_SECONDS: Final = 0.25
"""Time between two looks at the tenure of the active broker."""

_TRY_AGAIN_LATER: Final = 1013
_TAKEN_OVER: Final = 2
"""Exit status of a broker that another one has taken over from, and that is not to wait."""


class SignalledServer(uvicorn.Server):
    """A server behind a door, which a signal stops, and nothing else in the process."""

    def __init__(self, app: ASGIApp, door: Door, **options: Any) -> None:
        http = cast("type[asyncio.Protocol]", partial(Protocol, door=door))
        super().__init__(
            uvicorn.Config(app, http=http, log_config=None, access_log=False, server_header=False, **options)
        )
        self._door = door
        self._watch: asyncio.Task[None] | None = None
        door.open_connections = self._connections

    def _connections(self) -> list[Protocol]:
        """Returns the connections that speak HTTP; those of WebSockets are pinged by their own protocol."""
        return [one for one in self.server_state.connections if isinstance(one, Protocol)]

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen, and to look at connections."""
        await super().startup(sockets)
        self._watch = asyncio.create_task(self._door.watch())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops: running requests are answered."""
        if self._watch is not None:
            self._watch.cancel()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stops on SIGTERM and Ctrl-C; a second Ctrl-C does not wait for requests.

        Unlike the method that it replaces, it does not raise the signal again: the parts behind the server still run.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


def wait_for_tenure(watch: TenureWatch, listener: socket.socket, address: str, limits: DoorLimits) -> bool:
    """Answers as a standby until it is this broker's tenure; returns whether it is, and not a signal that ended it."""
    try:
        return watch.is_over() or uvloop.run(_stand_by(watch, listener, address, Door(limits)))
    finally:
        watch.close()


async def _stand_by(watch: TenureWatch, listener: socket.socket, address: str, door: Door) -> bool:
    app = _StandbyApp(lambda: watch.active)
    server = SignalledServer(app, door, lifespan="off", timeout_graceful_shutdown=1)
    # The server closes the socket that it is given; clients that come in between wait for the next one.
    serving = asyncio.create_task(server.serve(sockets=[listener.dup()]))
    _log.info("standby at %s: the broker at %s is active", address, watch.active)
    print(f"Twigcast at {address} is a standby: the broker at {watch.active} is active", flush=True)
    while not serving.done():
        if await asyncio.to_thread(watch.is_over):
            server.should_exit = True
            await serving
            _log.info("the tenure of the active broker is over: taking over")
            return True
        await asyncio.wait([serving], timeout=WATCHED_SECONDS)
    await serving
    return False


class _StandbyApp:
    """Answers each request with where the active broker is."""

    def __init__(self, active: Callable[[], str | None]) -> None:
        self._active = active

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": _TRY_AGAIN_LATER, "reason": "standby"})
            return
        await self._answer(scope["path"])(scope, receive, send)

    def _answer(self, path: str) -> Response:
        said: dict[str, Any] = {"status": "ok", "role": "standby", "active": self._active()}
        if path == "/health":
            return Response(orjson.dumps(said), 200, media_type="application/json")
        if path == "/ready":
            body = orjson.dumps(said | {"status": "not ready", "reason": "standby"})
            return Response(body, 503, {"Retry-After": "1"}, "application/json")
        if path == "/metrics":
            text = "# HELP twigcast_active 1 if the broker is active, 0 if it is a standby.\n"
            return Response(
                f"{text}# TYPE twigcast_active gauge\ntwigcast_active 0.0\n", 200, None, CONTENT_TYPE_LATEST
            )
        return problems.response_to(Standby.behind(self._active()))


def fenced(app: ASGIApp, tenure: WritingTenure, *, is_paired: bool) -> ASGIApp:
    """Returns an application that answers nothing once another broker may be active.

    A process that was stopped and goes on may get a request before anything else says that its tenure is over.
    One that is alone goes on while the database does not answer.
    """
    standby = _StandbyApp(lambda: None)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        is_refused = tenure.is_lost or (is_paired and not tenure.is_valid)
        await (standby if is_refused and scope["type"] != "lifespan" else app)(scope, receive, send)

    return answer


class TenureCollector:
    """A collector that says whether this broker is active."""

    def __init__(self, tenure: WritingTenure) -> None:
        self._turn = tenure

    def collect(self) -> Iterator[Metric]:
        """Yields the metrics as they are now."""
        gauges = (
            ("active", "1 if the broker is active, 0 if it is a standby.", float(self._turn.is_valid)),
            (
                "tenure",
                "The number of the tenure of the active broker: it grows when another one takes over.",
                self._turn.number,
            ),
        )
        yield from metric_families(GaugeMetricFamily, "twigcast_", gauges)


def step_down(*, again: bool) -> NoReturn:
    """Ends this process at once, since another broker has taken over; ``again`` starts it anew, as a standby.

    What it has in memory is of the past, and nothing of it may be stored, so that nothing is stopped in order.
    """
    logging.shutdown()
    sys.stdout.flush()
    if again:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - the same program
    os._exit(_TAKEN_OVER)
