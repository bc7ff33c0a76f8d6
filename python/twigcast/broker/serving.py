"""The broker as a process: its parts put together, and a server in front of them.

The address is taken first, so that a broker that cannot have it leaves no new store behind. Then the store is opened,
which fails for a second broker on it. Then the subscriptions are loaded, and only when all is ready requests are
answered.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvloop
from fastapi import FastAPI
from starlette.types import ASGIApp

from twigcast.broker import logs
from twigcast.broker.api.app import create_app
from twigcast.broker.api.atom import feed_router
from twigcast.broker.api.context import ApiContext
from twigcast.broker.api.operation import DoorCollector, LagCollector, OutboundCollector, fill
from twigcast.broker.api.websub import websub_router
from twigcast.broker.broker import Broker
from twigcast.broker.config import ConfigError, Settings
from twigcast.broker.console import console_router
from twigcast.broker.door import Door, DoorLimits
from twigcast.broker.errors import StoreInUse
from twigcast.broker.options import HubOptions
from twigcast.broker.outbound import OutboundServices, OutboundSettings
from twigcast.broker.proxies import ProxyFields
from twigcast.broker.standby import SignalledServer, TenureCollector, fenced, step_down, wait_for_tenure
from twigcast.broker.store.store import Store, open_store, watch_tenure
from twigcast.broker.tokens import first_start
from twigcast.broker.tracing import tracing
from twigcast.errors import OutputError

if TYPE_CHECKING:
    from twigcast.broker.overlay.service import Overlay

_log = logging.getLogger("twigcast.broker")

_BACKLOG: Final = 2_048
_FILES_WANTED: Final = 65_536
_KEEP_ALIVE_SECONDS: Final = 75
_FRAME_BYTES_MAX: Final = 1 << 20
"""Size in bytes of what clients send over WebSockets: acknowledgements."""


class Service:
    """The parts of a broker, for one event loop. The store is open, and stays so."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self.door = Door(_door_limits(settings))
        self.broker: Broker
        self.overlay: Overlay | None = None
        self.outbound: OutboundServices
        self.app: FastAPI

    @property
    def context(self) -> ApiContext:
        """The context of its routes."""
        result: ApiContext = self.app.state.context
        return result

    async def start(self) -> None:
        """Loads the subscriptions, and begins to work."""
        settings = self._settings
        self.broker = Broker(self._store, options_of(settings))
        await self.broker.start()
        # Before anything is published, so that no message that other brokers subscribe to is missed.
        try:
            self.overlay = await _overlay(settings, self.broker)
        except BaseException:
            await self.broker.stop()
            raise
        chosen = OutboundSettings.of(settings)
        self.outbound = outbound = OutboundServices(self.broker, chosen)
        await outbound.start()
        routers = [feed_router(outbound.capabilities), websub_router(outbound.websub)]
        if settings.console:
            routers.append(console_router(lambda: outbound.pusher.counts.delivered))
        self.app = create_app(self.broker, settings, chosen.policy, routers)
        streams = self.context.streams
        fill(self.context.registry, self.broker.metrics, lambda: len(streams))
        self.context.registry.register(OutboundCollector(outbound))
        self.context.registry.register(DoorCollector(self.door))
        self.context.registry.register(LagCollector(self.broker, names_tenants=not settings.metrics_public))
        if self._store.database.tenure is not None:
            self.context.registry.register(TenureCollector(self._store.database.tenure))
        if self.overlay is not None:
            from twigcast.broker.overlay.metrics import OverlayCollector

            self.context.overlay = self.overlay
            self.context.registry.register(OverlayCollector(self.overlay))
        self.context.pushing = outbound.pusher.pushing
        self.context.sources_changed = outbound.poller.sources_changed

    @property
    def answering(self) -> ASGIApp:
        """The application, which another broker's tenure ends."""
        tenure = self._store.database.tenure
        return self.app if tenure is None else fenced(self.app, tenure, is_paired=self._settings.standby)

    def drain(self) -> None:
        """Refuses new work, and ends streams and waiting pulls, which would not end by themselves."""
        self.broker.drain()
        self.context.streams.stop()

    async def stop(self) -> None:
        """Ends all work; what was accepted is stored."""
        await self.outbound.stop()
        if self.overlay is not None:
            await self.overlay.stop()
        await self.broker.stop()


async def _overlay(settings: Settings, broker: Broker) -> Overlay | None:
    """Returns the started overlay of the settings, whose modules are imported only here; raises if it cannot start."""
    if not settings.join and settings.overlay_listen is None:
        return None
    from twigcast.broker.overlay.service import Overlay
    from twigcast.broker.overlay.settings import OverlaySettings

    chosen = OverlaySettings.of(settings)
    assert chosen is not None, "there is something to join or to listen for"
    overlay = Overlay(broker, chosen)
    await overlay.start()
    return overlay


def options_of(settings: Settings) -> HubOptions:
    """Returns the part of the settings that concerns the hub."""
    return HubOptions(
        limits=settings.engine_limits,
        subscriptions_max=settings.subscriptions_max,
        pending_max=settings.pending_max,
        retention_seconds=settings.retention_seconds or None,
        retention_bytes=settings.retention_bytes or None,
        keep_pending=settings.keep_pending,
        lifecycle_seconds=settings.lifecycle_seconds,
    )


class BrokerServer(SignalledServer):
    """The server, which ends streams when it stops, since they would never end by themselves."""

    def __init__(self, settings: Settings, service: Service, on_start: Callable[[], None]) -> None:
        super().__init__(
            ProxyFields(service.answering, settings.trusted_proxies, settings.client_certificate_header),
            service.door,
            ws="websockets-sansio",
            lifespan="on",
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(settings.stop_seconds)),
            ws_max_size=_FRAME_BYTES_MAX,
            ws_per_message_deflate=False,
        )
        self._service = service
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen, and says so."""
        await super().startup(sockets)
        self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops gracefully: running requests are answered, streams end."""
        self._service.drain()
        await super().shutdown(sockets)


def run(settings: Settings, token_file: Path | None = None) -> None:
    """Runs a broker until it is stopped by a signal. The first start writes the admin token to the file, or prints it.

    Raises BrokerError if it cannot start, and OutputError if the token cannot be written.
    """
    logs.configure(settings.log_level, settings.log_format)
    _allow_connections()
    with listening_socket(settings) as listener:
        keys = settings.secrets_keys()
        store = _open_in_tenure(settings, listener, keys)
        if store is None:
            return
        if not keys:
            _log.info("secrets of webhooks are stored as they are: set TWIGCAST_SECRETS_KEY or secrets_key_file")
        try:
            if settings.otel_endpoint:
                tracing.start_otlp(settings.otel_endpoint)
            uvloop.run(_serve(settings, store, listener, token_file))
        finally:
            tracing.stop()
            store.close()


def _open_in_tenure(settings: Settings, listener: socket.socket, keys: Sequence[str]) -> Store | None:
    """Opens the store; a standby does when no other tenure goes on. Returns ``None`` if a signal ended the wait."""
    where = settings.public_url or _address(listener)
    watch = watch_tenure(settings.store) if settings.standby else None
    while True:
        if watch is not None and not wait_for_tenure(watch, listener, where, _door_limits(settings)):
            return None
        try:
            store = open_store(settings.store, keys=keys, where=where)
        except StoreInUse as error:
            if watch is None:
                raise
            _log.info("another broker was faster: %s", error)
            continue
        if (tenure := store.database.tenure) is not None:
            tenure.on_lost = partial(step_down, again=settings.standby)
        return store


def _door_limits(settings: Settings) -> DoorLimits:
    return DoorLimits.of(settings, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _allow_connections() -> None:
    """Raises the limit of open files as far as the system permits: each subscriber with a stream needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    requested = _FILES_WANTED if most == resource.RLIM_INFINITY else min(most, _FILES_WANTED)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < requested:
        resource.setrlimit(resource.RLIMIT_NOFILE, (requested, most))


async def _serve(settings: Settings, store: Store, listener: socket.socket, token_file: Path | None) -> None:
    service = Service(settings, store)
    await service.start()
    tune()
    try:
        secret = await asyncio.to_thread(first_start, store)
        if secret and token_file:
            _write_token(token_file, secret)
        address = _address(listener)

        def on_start() -> None:
            count = service.broker.metrics.subscriptions
            _log.info("listening on %s, store %s, %s subscriptions", address, store.url, f"{count:,}")
            print(_greeting(address, store.url, count, secret, token_file, settings), flush=True)

        server = BrokerServer(settings, service, on_start)
        await server.serve(sockets=[listener])
    finally:
        await asyncio.shield(service.stop())
        _log.info("stopped")


SWITCH_SECONDS: Final = 0.0002
"""Time that a thread may keep the interpreter while another waits for it.

Event loop and writing thread wake each other thousands of times a second; with Python's 5 ms, publishing takes twice as
long.
"""

YOUNG_OBJECTS: Final = 20_000
"""Number of new objects after which cycles are searched among them.

Messages and deliveries form none, so that each search is useless: with Python's 700 they take a fifth of the processor
time.
"""


def tune() -> None:
    """Excludes the objects that exist after the start from later searches for cycles, and applies the settings."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 50)


def listening_socket(settings: Settings) -> socket.socket:
    """Returns a socket that has taken the broker's address, but does not listen yet; raises ConfigError."""
    host, port = settings.host, settings.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ConfigError(f"the setting 'host' cannot be used: {host}: {error.strerror}") from None
    result = socket.socket(family, kind, protocol)
    try:
        # A restarted broker does not wait for connections of its last run to time out.
        result.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        result.bind(address)
        # Clients that connect while subscriptions are loaded wait; another process on the same address fails at once.
        result.listen(_BACKLOG)
    except OSError as error:
        result.close()
        raise ConfigError(
            f"it cannot listen on {host} port {port}: {error.strerror}; another one is given with --port"
        ) from None
    return result


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _write_token(path: Path, secret: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secret + "\n")
    except OSError as error:
        raise OutputError(str(path), f"the token cannot be written: {error.strerror}") from None


def _greeting(
    address: str, store: str, subscriptions: int, secret: str | None, token_file: Path | None, settings: Settings
) -> str:
    lines = [
        f"Twigcast {metadata.version('twigcast')} at {address} "
        f"(store: {store}, {subscriptions:,} subscription{'' if subscriptions == 1 else 's'})"
    ]
    if secret and token_file:
        lines += ["", f"This is the first start: there is an admin token in {token_file}."]
    elif secret:
        lines += [
            "",
            "This is the first start, so here is an admin token. It is shown only now; keep it:",
            "",
            f"    export TOKEN={secret}",
            "",
            f"Open {address}/ in a browser and sign in with it, or try it:" if settings.console else "Try it:",
            "",
            f'    curl -H "Authorization: Bearer $TOKEN" {address}/me',
        ]
    return "\n".join([*lines, ""])
