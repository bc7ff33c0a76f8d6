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

from fastapi import APIRouter, Depends, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twigcast.broker.api import (
    administration,
    bulk,
    consumers,
    deliveries,
    guard,
    messages,
    operation,
    overlay,
    problems,
    queries,
    sources,
    stream,
    subscriptions,
    tables,
    websocket,
)
from twigcast.broker.api.access import Authenticator
from twigcast.broker.api.bodies import LoopBreaks, read_json
from twigcast.broker.api.context import ApiContext
from twigcast.broker.api.openapi import DESCRIPTION, operation_id, problem_schema
from twigcast.broker.api.parameters import check_parameters
from twigcast.broker.api.stream import OUTERMOST
from twigcast.broker.broker import Broker
from twigcast.broker.config import Settings
from twigcast.broker.delivery.addresses import UrlPolicy
from twigcast.broker.door import RESERVED
from twigcast.broker.errors import Invalid, TooLarge
from twigcast.broker.logs import start_request

_log = logging.getLogger("twigcast.access")

_SHOWN_MAX: Final = 100
"""Characters of a host that a response repeats."""

_HOST: Final = re.compile(r"(\[[^\[\]]+\]|[^\[\]:@/?#\s]+)(?::[0-9]*)?")
"""A host, and perhaps its port."""

_HOSTS_REMEMBERED_MAX: Final = 1_000

_STREAMED: Final = frozenset({"/subscriptions/import"})
"""Paths whose bodies are processed as they come."""

_TABLES: Final = "/tables/"
"""Prefix of paths whose bodies are tables, which may be JSON lines."""

_VERSION: Final = "/v1/"
"""Prefix with which each path may be written: see the page on the interface."""

_DESCRIBED_AFTER_SECONDS: Final = 1.0

_SECRET_PATH = re.compile(r"(/feeds/)[^/]*")
"""A path that grants access: who has the address of a feed may read it."""


def create_app(broker: Broker, settings: Settings, urls: UrlPolicy, routers: Sequence[APIRouter] = ()) -> FastAPI:
    """Returns the application in front of a started broker, with further routers (WebSub, feeds, the console)."""
    context = ApiContext(broker, settings, Authenticator(broker.store, settings), urls)
    app = Application(
        Hosts.of(settings),
        settings.cors_origins,
        title="Twigcast",
        description=DESCRIPTION,
        version=metadata.version("twigcast"),
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
    )
    app.state.context = context
    problems.install(app)
    modules = [messages, bulk, subscriptions, queries, deliveries, consumers, stream, sources, tables]
    modules += [administration, operation, overlay]
    for router in (*(module.router for module in modules), deliveries.dead_letter_router, *routers):
        app.include_router(router, dependencies=[Depends(check_parameters)])
    app.include_router(websocket.router)
    _describe(app)
    return app


class Application(FastAPI):
    """The routes, behind :class:`RequestMiddleware`."""

    def __init__(self, hosts: Hosts, origins: Sequence[str], **more: Any) -> None:
        super().__init__(**more)
        front: ASGIApp = RequestMiddleware(
            self, super().__call__, ServerErrorMiddleware(self._publish, problems.on_unexpected), hosts
        )
        self._front = _with_cors(front, origins) if origins else front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        await self._front(scope, receive, send)

    async def _publish(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a publication, without the routing of other requests."""
        scope["app"] = self
        answer = await messages.answer_to(Request(scope, receive))
        await answer(scope, receive, send)


_HEADERS_OF_PAGES: Final = (
    *("Authorization", "Content-Type", "Content-Encoding", "If-Match", "If-None-Match"),
    *("Last-Event-ID", "Twigcast-Source-Key"),
)
"""Fields that pages of other origins may send."""


def _with_cors(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Lets pages of other origins use the interface. They have no cookie of the console, only tokens of their own."""
    return CORSMiddleware(
        app,
        allow_origins=list(origins),
        allow_methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
        allow_headers=_HEADERS_OF_PAGES,
        expose_headers=["ETag", "Link", "Location", "Retry-After"],
    )


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    context: ApiContext = app.state.context
    tasks = [
        asyncio.create_task(_describe_later(app)),
        asyncio.create_task(context.streams.beat()),
        asyncio.create_task(context.automatic_acks.run()),
        asyncio.create_task(context.authenticator.watch(context.streams.end_without)),
        asyncio.create_task(context.authenticator.record_uses(context.broker.change)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await context.automatic_acks.flush(everything=True)


async def _describe_later(app: FastAPI) -> None:
    """Makes the OpenAPI description: the first request for it, or one with a wrong method, would have to wait.

    That takes as much processor time as a third of the start, so it is done after that.
    """
    await asyncio.sleep(_DESCRIBED_AFTER_SECONDS)
    await asyncio.to_thread(app.openapi)


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

    def __init__(self, owner: FastAPI, app: ASGIApp, publish: ASGIApp, hosts: Hosts) -> None:
        self._owner = owner
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
        try:
            supplied = guard.host_of(scope)
            guard.check_query(scope["query_string"])
        except (problems.Problem, Invalid) as error:
            await problems.answer_to_error(error)(scope, receive, send)
            return
        if supplied not in self._permitted and not self._permit(supplied):
            # A page of another site, whose name resolves to this address.
            if shown := _host(supplied)[:_SHOWN_MAX]:
                detail = f"{shown!r} is not known to be a name of this broker; the setting trusted_hosts adds it"
            else:
                detail = f"{supplied.decode('latin-1')[:_SHOWN_MAX]!r} is no host, perhaps with a port"
            await problems.response(400, "untrusted-host", detail)(scope, receive, send)
            return
        scope = _as_routed(scope)
        if RESERVED in scope and not await self._may_use_reserve(scope):
            await _too_many_connections()(scope, receive, send)
            return
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
        except (TooLarge, Invalid, ClientDisconnect) as error:
            await problems.answer_to_error(error)(scope, receive, send)
        finally:
            # The server's `send` refers to the scope. As a cycle, each request with its body would stay until the next
            # search for cycles, which takes milliseconds in which nothing else runs.
            del scope[OUTERMOST]

    async def _may_use_reserve(self, scope: Scope) -> bool:
        return await guard.may_use_reserve(Request({**scope, "app": self._owner}))

    def _permit(self, supplied: bytes) -> bool:
        host = _host(supplied)
        if not host or not self._hosts.permit(host):
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


def _as_routed(scope: Scope) -> Scope:
    """Returns a request with its path as it was sent, without the version, and HEAD as the GET that it stands for."""
    raw = scope.get("raw_path")
    if raw:
        scope["path"] = raw.decode("ascii", "replace")
    if scope["path"].startswith(_VERSION):
        scope["path"] = scope["path"][len(_VERSION) - 1 :]
    if scope.get("method") == "HEAD" and scope["path"] not in problems.WITH_EFFECT:
        # The server leaves the body out.
        return {**scope, "method": "GET"}
    return scope


def _too_many_connections() -> Response:
    detail = "there are too many connections: only operators are served in this one; try again later"
    headers = {"Connection": "close", "Retry-After": "5"}
    return problems.response(503, "too-many-connections", detail, headers=headers)


def _has_json(scope: Scope) -> bool:
    """Returns whether a request has a body that is read as one JSON value."""
    if scope["type"] != "http" or scope["method"] in {"GET", "HEAD"}:
        return False
    if scope["path"] in _STREAMED or scope["path"].startswith(_TABLES):
        return False
    kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"").lower()
    return not kind or b"json" in kind.partition(b";")[0]


async def _with_json(receive: Receive) -> Receive:
    """Reads the body of a request, within limits, and returns a function that passes it on."""
    came = await read_json(receive)
    breaks = LoopBreaks()
    guard.check_members(came)
    await breaks.if_due()
    body: bytes | None = came

    async def replayed() -> Message:
        nonlocal body
        if body is None:
            return await receive()
        said, body = body, None
        return {"type": "http.request", "body": said, "more_body": False}

    return replayed


def _host(supplied: bytes) -> str:
    """Returns the host of a request, without its port; nothing if it is malformed."""
    found = _HOST.fullmatch(supplied.decode("latin-1").lower())
    return "" if found is None else found[1]
