"""The application: all routes, behind what every request passes."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twigcast.broker.api import (
    administration,
    bulk,
    consumers,
    deliveries,
    messages,
    operation,
    overlay,
    problems,
    queries,
    sources,
    stream,
    subscriptions,
    websocket,
)
from twigcast.broker.api.access import Authenticator
from twigcast.broker.api.bodies import read_json
from twigcast.broker.api.context import ApiContext
from twigcast.broker.api.openapi import DESCRIPTION, problem_schema
from twigcast.broker.api.stream import OUTERMOST
from twigcast.broker.broker import Broker
from twigcast.broker.config import Settings
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.errors import TooLarge
from twigcast.broker.logs import start_request

_log = logging.getLogger("twigcast.access")

_SHOWN_MAX: Final = 100
"""Characters of a host that a response repeats."""

_HOSTS_REMEMBERED_MAX: Final = 1_000

_STREAMED: Final = frozenset({"/subscriptions/import"})
"""Paths whose bodies are processed as they come."""

_SECRET_PATH = re.compile(r"(/feeds/)[^/]*")
"""A path that grants access: who has the address of a feed may read it."""


def create_app(broker: Broker, settings: Settings, urls: UrlPolicy, routers: Sequence[APIRouter] = ()) -> FastAPI:
    """Returns the application in front of a started broker, with further routers (WebSub, feeds, the console)."""
    context = ApiContext(broker, settings, Authenticator(broker.store, settings), urls)
    app = Application(
        Hosts.of(settings),
        title="Twigcast",
        description=DESCRIPTION,
        version=metadata.version("twigcast"),
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
    )
    app.state.context = context
    problems.install(app)
    for module in (
        messages,
        bulk,
        subscriptions,
        queries,
        deliveries,
        consumers,
        stream,
        sources,
        administration,
        operation,
        overlay,
        websocket,
    ):
        app.include_router(module.router)
    app.include_router(deliveries.dead_letter_router)
    for router in routers:
        app.include_router(router)
    _describe(app)
    return app


class Application(FastAPI):
    """The routes, behind :class:`RequestMiddleware`."""

    def __init__(self, hosts: Hosts, **more: Any) -> None:
        super().__init__(**more)
        self._front = RequestMiddleware(
            super().__call__, ServerErrorMiddleware(self._publish, problems.on_unexpected), hosts
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        await self._front(scope, receive, send)

    async def _publish(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a publication, without the routing of other requests."""
        scope["app"] = self
        answer = await messages.answer_to(Request(scope, receive))
        await answer(scope, receive, send)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: ApiContext = app.state.context
    tasks = [
        # The first request for it, or one with a wrong method, would make the event loop wait.
        asyncio.create_task(asyncio.to_thread(app.openapi)),
        asyncio.create_task(context.streams.beat()),
        asyncio.create_task(context.automatic_acks.run()),
        asyncio.create_task(context.authenticator.watch(context.streams.end_without)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await context.automatic_acks.flush(everything=True)


def _describe(app: FastAPI) -> None:
    """Describes all errors as problem documents in the OpenAPI description."""
    make = app.openapi
    making = threading.Lock()
    made: list[dict[str, Any]] = []

    def openapi() -> dict[str, Any]:
        with making:
            if not made:
                results = make()
                schemas = results.setdefault("components", {}).setdefault("schemas", {})
                schemas["ProblemOut"] = problem_schema()
                for name in ("HTTPValidationError", "ValidationError"):
                    schemas.pop(name, None)
                for path in results["paths"].values():
                    for operation_ in path.values():
                        _replace_validation(operation_["responses"])
                made.append(results)
            return made[0]

    app.openapi = openapi  # type: ignore[method-assign]


def _replace_validation(responses: dict[str, Any]) -> None:
    """Replaces FastAPI's description of validation errors by that of problem documents."""
    result = responses.get("422", {}).get("content", {})
    if "HTTPValidationError" in str(result):
        responses["422"] = {
            "description": "Unprocessable Entity",
            "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemOut"}}},
        }


@dataclass(frozen=True, slots=True)
class Hosts:
    """The hosts that requests may use, which protects the broker from pages of other sites.

    A page in a browser may send a request to its own name, and let that name resolve to this machine afterwards (*DNS
    rebinding*). Such a request has the name of the page, so names that are not the broker's are refused. Addresses are
    no names: nobody can let them resolve elsewhere.
    """

    names: frozenset[str]
    """Names in lower case."""
    any_name: bool = False
    any_address: bool = False

    @classmethod
    def of(cls, settings: Settings) -> Hosts:
        """Returns those of the setting ``trusted_hosts``, or the default."""
        if settings.trusted_hosts:
            chosen = frozenset(host.lower() for host in settings.trusted_hosts)
            return cls(chosen, any_name="*" in chosen)
        names = {"localhost", settings.host.lower()}
        if settings.public_url:
            names.add((urlsplit(settings.public_url).hostname or "").lower())
        if not _is_loopback(settings.host):
            own = socket.gethostname().lower()
            names |= {own, own.partition(".")[0]}
        return cls(frozenset(names - {""}), any_address=True)

    def permit(self, host: str) -> bool:
        """Returns whether a request may use this host, in lower case and without a port."""
        return self.any_name or host in self.names or (self.any_address and _is_address(host))


def _is_address(host: str) -> bool:
    is_bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if is_bracketed else host)
    except ValueError:
        return False
    return is_bracketed == (address.version == 6)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class RequestMiddleware:
    """The outermost middleware: a request gets an id, and its path is used as it was sent.

    So a name in a path may hold a percent-encoded slash. Publications, which come thousands of times a second, leave
    the other requests here: middleware, routing and injection would cost more than everything else done for a message.
    """

    def __init__(self, app: ASGIApp, publish: ASGIApp, hosts: Hosts) -> None:
        self._app = app
        self._publish = publish
        self._hosts = hosts
        self._permitted: set[bytes] = set()
        """Hosts in the spelling of requests that were permitted before."""
        self._is_logging = _log.isEnabledFor(logging.DEBUG)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        start_request()
        supplied = next((value for name, value in scope["headers"] if name == b"host"), b"")
        if supplied not in self._permitted and not self._permit(supplied):
            # A page of another site, whose name resolves to this address.
            shown = _host(supplied)[:_SHOWN_MAX]
            detail = f"{shown!r} is not known to be a name of this broker; the setting trusted_hosts adds it"
            await problems.response(400, "untrusted-host", detail)(scope, receive, send)
            return
        raw = scope.get("raw_path")
        if raw:
            scope["path"] = raw.decode("ascii", "replace")
        is_publication = scope["path"] == "/messages" and scope.get("method") == "POST"
        app = self._publish if is_publication else self._app
        scope[OUTERMOST] = send
        try:
            if not is_publication and _has_json(scope):
                receive = await _with_json(receive)
            if self._is_logging and scope["type"] == "http":
                await self._logged(app, scope, receive, send)
            else:
                await app(scope, receive, send)
        except (TooLarge, ClientDisconnect) as error:
            await problems.answer_to_error(error)(scope, receive, send)
        finally:
            # The server's `send` refers to the scope. As a cycle, each request with its body would stay until the next
            # search for cycles, which takes milliseconds in which nothing else runs.
            del scope[OUTERMOST]

    def _permit(self, supplied: bytes) -> bool:
        if not self._hosts.permit(_host(supplied)):
            return False
        if len(self._permitted) < _HOSTS_REMEMBERED_MAX:
            self._permitted.add(supplied)
        return True

    async def _logged(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        status = 0

        async def watching(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await app(scope, receive, watching)
        finally:
            # The query string is left out: it may hold a ticket.
            _log.debug(
                "%s %s",
                scope["method"],
                _SECRET_PATH.sub(r"\1...", scope["path"]),
                extra={"status": status, "seconds": round(time.perf_counter() - began, 6)},
            )


def _has_json(scope: Scope) -> bool:
    """Returns whether a request has a body that is read as one JSON value."""
    if scope["type"] != "http" or scope["method"] in {"GET", "HEAD"} or scope["path"] in _STREAMED:
        return False
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"").lower()
    return not kind or b"json" in kind.partition(b";")[0]


async def _with_json(receive: Receive) -> Receive:
    """Reads the body of a request, within limits, and returns a function that passes it on."""
    body: bytes | None = await read_json(receive)

    async def replayed() -> Message:
        nonlocal body
        if body is None:
            return await receive()
        said, body = body, None
        return {"type": "http.request", "body": said, "more_body": False}

    return replayed


def _host(supplied: bytes) -> str:
    """Returns the host of a request, without its port."""
    text = supplied.decode("latin-1").lower()
    return text[: text.find("]") + 1] if text.startswith("[") else text.partition(":")[0]
