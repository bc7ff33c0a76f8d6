"""The gRPC streams with one interface, and the options of both sides.

There is one method, a stream of bytes in both directions, whose content is up to :mod:`frames`. So no code is
generated, and a packet is not copied into another object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import grpc
import grpc.aio

from twigcast._core import PACKET_BYTES_MAX
from twigcast.overlay.errors import FrameError, PeerRefused
from twigcast.overlay.onyx.network.frames import read_packet
from twigcast.overlay.onyx.network.greeting import FRAME
from twigcast.overlay.onyx.network.settings import NetworkSettings

METHOD: Final = "Link"


def service_of(protocol: str) -> str:
    """Returns the gRPC service of a protocol. Nodes of different protocols do not reach each other."""
    return f"twigcast.{protocol}.Overlay"


def path_of(protocol: str) -> str:
    """Returns the path of the method of a protocol."""
    return f"/{service_of(protocol)}/{METHOD}"


def same(data: bytes) -> bytes:
    """Returns its argument. As a serializer, it leaves packets to the caller."""
    return data


def options(settings: NetworkSettings) -> list[tuple[str, Any]]:
    """Returns the options of gRPC for both sides."""
    keepalive = round(1_000 * settings.keepalive_seconds)
    return [
        ("grpc.max_receive_message_length", PACKET_BYTES_MAX),
        ("grpc.max_send_message_length", PACKET_BYTES_MAX),
        # gRPC itself notices a host that has vanished, whatever Python is busy with.
        ("grpc.keepalive_time_ms", keepalive),
        # On a slow link, answers wait behind other data.
        ("grpc.keepalive_timeout_ms", 2 * keepalive),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", keepalive),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", keepalive // 2),
        ("grpc.http2.max_ping_strikes", 0),
        # Brokers are reached directly, and each link of a process has a connection of its own.
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        # Otherwise two brokers could listen on one port and share its calls.
        ("grpc.so_reuseport", 0),
    ]


class AnsweredStream:
    """A gRPC stream of the side that was dialed."""

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes] | grpc.aio.ServicerContext[bytes, bytes]) -> None:
        self._call = call

    async def read(self) -> bytes | None:
        """Returns the next packet, or `None` at the end of the stream."""
        with _connection_errors():
            data: object = await self._call.read()
        return data if isinstance(data, bytes) else None

    async def read_message(self) -> Any:
        """Returns the only message of the next packet, or `None` at the end of the stream.

        Raises:
            PeerRefused: The packet is invalid, or holds several messages.
        """
        data = await self.read()
        if data is None:
            return None
        try:
            messages = read_packet(data)
        except FrameError as error:
            raise PeerRefused(FRAME, f"it sends what is no packet: {error.reason}") from None
        if len(messages) != 1:
            raise PeerRefused(FRAME, f"it sends {len(messages)} messages where one was to come")
        return messages[0]

    async def write(self, data: bytes) -> None:
        """Sends a packet; waits until the other side takes it."""
        with _connection_errors():
            await self._call.write(data)

    def cancel(self) -> None:
        """Does nothing: the call ends with its handler."""


class DialedStream(AnsweredStream):
    """A gRPC stream of the side that dialed."""

    _call: grpc.aio.StreamStreamCall[bytes, bytes]

    def cancel(self) -> None:
        """Ends the call."""
        self._call.cancel()


@contextmanager
def _connection_errors() -> Iterator[None]:
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise ConnectionError(error_text(error)) from None
    except (asyncio.InvalidStateError, grpc.aio.BaseError) as error:
        raise ConnectionError(str(error) or "the call has ended") from None


def error_text(error: grpc.aio.AioRpcError) -> str:
    """Returns the error of a call in one line."""
    details = " ".join((error.details() or "").split())
    return details or error.code().name.lower().replace("_", " ")


def security_of(context: grpc.aio.ServicerContext[bytes, bytes]) -> Mapping[str, Iterable[bytes]]:
    """Returns the security properties of the connection of a call."""
    return context.auth_context()
