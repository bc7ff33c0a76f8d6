"""Listening for brokers that dial."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio

from twigcast.overlay.errors import NetworkError, PeerRefused
from twigcast.overlay.onyx.network.frames import frame, packet
from twigcast.overlay.onyx.network.greeting import FRAME, GoAway, Greeting, Ready
from twigcast.overlay.onyx.network.links import Links
from twigcast.overlay.onyx.network.streams import METHOD, AnsweredStream, options, same, security_of, service_of
from twigcast.overlay.onyx.network.tls import Certificates, proven_names

logger = logging.getLogger(__name__)

_STOP_SECONDS = 1.0


class Listener:
    """A listener for links that others begin.

    Args:
        host: Address to listen on.
        port: Port; 0: any free one.
        links: Takes the links.
        certificates: Those of this broker; ``None``: it has none.
    """

    def __init__(self, host: str, port: int, links: Links, certificates: Certificates | None) -> None:
        self.host = host
        self.port = port
        self._links = links
        self._certificates = certificates
        self._server: grpc.aio.Server | None = None

    @property
    def address(self) -> str:
        """Host and port as one text."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    async def start(self) -> None:
        """Starts to listen.

        Raises:
            CertificateError: A file is unusable.
            NetworkError: The address is in use or unusable.
        """
        server = grpc.aio.server(options=options(self._links.settings))
        method = grpc.stream_stream_rpc_method_handler(
            self._answer, request_deserializer=same, response_serializer=same
        )
        service = service_of(self._links.protocol)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {METHOD: method}),))
        try:
            if self._certificates is None:
                port = server.add_insecure_port(self.address)
            else:
                port = server.add_secure_port(self.address, self._certificates.for_listening())
        except RuntimeError as error:
            raise NetworkError(f"cannot listen for brokers on {self.address}: {error}") from None
        if port == 0:
            raise NetworkError(f"cannot listen for brokers on {self.address}: the address is in use")
        await server.start()
        self.port = port
        self._server = server

    async def stop(self) -> None:
        """Stops listening, after all links have ended."""
        if self._server is not None:
            await self._server.stop(_STOP_SECONDS)

    async def _answer(self, _: Any, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        """Begins a link and waits for its end."""
        stream, where = AnsweredStream(context), _where(context)
        who = where
        try:
            async with asyncio.timeout(self._links.settings.greeting_seconds):
                peer = await _greeting(stream)
                if peer is None:
                    return
                who = peer.name
                proven = proven_names(security_of(context))
                if not await self._greet(stream, peer, proven):
                    return
            await self._links.keep(stream, peer, where=where, dialed=False, proven=proven)
        except PeerRefused as refusal:
            self._links.refused(who, refusal)
            with suppress(ConnectionError):
                await stream.write(packet([frame(GoAway(refusal.kind, refusal.reason))]))
        except (ConnectionError, TimeoutError) as error:
            logger.debug("%s went away while it greeted: %s", who, error)

    async def _greet(self, stream: AnsweredStream, peer: Greeting, proven: frozenset[str] | None) -> bool:
        """Answers a greeting. Returns whether the other side accepts."""
        self._links.admit(peer, dialed=False, proven=proven)
        await stream.write(packet([frame(self._links.greeting())]))
        answer = await stream.read_message()
        if isinstance(answer, GoAway):
            self._links.refused(peer.name, PeerRefused(answer.kind, answer.reason), by_them=True)
            return False
        if answer is None:
            # The other side has read the name of this broker, and dials again under it.
            return False
        if not isinstance(answer, Ready):
            raise PeerRefused(FRAME, f"{peer.name} says {type(answer).__name__} where it was to accept the greeting")
        return True


async def _greeting(stream: AnsweredStream) -> Greeting | None:
    """Returns the greeting of the broker that dials, or `None` if it has gone."""
    first = await stream.read_message()
    if first is not None and not isinstance(first, Greeting):
        raise PeerRefused(FRAME, f"it begins with {type(first).__name__} in place of a greeting")
    return first


def _where(context: grpc.aio.ServicerContext[bytes, bytes]) -> str:
    """Returns the address of the broker that dials, without the prefix of gRPC."""
    kind, _, address = str(context.peer()).partition(":")
    return unquote(address) if kind in ("ipv4", "ipv6") else str(context.peer())
