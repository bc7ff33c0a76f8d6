"""gRPC streams behind one face, and the options of both sides.

There is one method, a stream of bytes in both directions; what the bytes are is :mod:`packets`' business. So no code is
generated, and a packet is not copied into another object on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import grpc
import grpc.aio

from twigcast._core import PACKET_BYTES_MAX
from twigcast.overlay.onyx.network.settings import NetworkSettings

SERVICE: Final = "twigcast.onyx.Overlay"
METHOD: Final = "Link"
PATH: Final = f"/{SERVICE}/{METHOD}"


def same(data: bytes) -> bytes:
    """Bytes as they are: neither written nor read in any form by gRPC."""
    return data


def options(settings: NetworkSettings) -> list[tuple[str, Any]]:
    """Options of gRPC, for both sides."""
    keepalive = round(1_000 * settings.keepalive_seconds)
    return [
        ("grpc.max_receive_message_length", PACKET_BYTES_MAX),
        ("grpc.max_send_message_length", PACKET_BYTES_MAX),
        # A host that has gone without a word is noticed below, whatever Python is busy with.
        ("grpc.keepalive_time_ms", keepalive),
        # Behind what a slow link still has to carry, an answer takes its time.
        ("grpc.keepalive_timeout_ms", 2 * keepalive),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", keepalive),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", keepalive // 2),
        ("grpc.http2.max_ping_strikes", 0),
        # Brokers are reached directly; two links of one process have a connection each.
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        # Two brokers that listen on one port would each get some of the calls.
        ("grpc.so_reuseport", 0),
    ]


class DialedStream:
    """The stream of the side that dialed.

    Args:
        call: It.
    """

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        self._call = call

    async def read(self) -> bytes | None:
        """The next packet; `None`: the stream has ended."""
        try:
            data: object = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise ConnectionError(error_text(error)) from None
        except (asyncio.InvalidStateError, grpc.aio.BaseError) as error:
            raise ConnectionError(str(error) or "the call has ended") from None
        return data if isinstance(data, bytes) else None

    async def write(self, data: bytes) -> None:
        """Send a packet; waits for room."""
        try:
            await self._call.write(data)
        except grpc.aio.AioRpcError as error:
            raise ConnectionError(error_text(error)) from None
        except (asyncio.InvalidStateError, grpc.aio.BaseError) as error:
            raise ConnectionError(str(error) or "the call has ended") from None

    def cancel(self) -> None:
        """End it."""
        self._call.cancel()


class AnsweredStream:
    """The stream of the side that was dialed.

    Args:
        context: Of the call.
    """

    def __init__(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        self._context = context

    async def read(self) -> bytes | None:
        """The next packet; `None`: the stream has ended."""
        try:
            data: object = await self._context.read()
        except grpc.aio.BaseError as error:
            raise ConnectionError(str(error) or "the call has ended") from None
        return data if isinstance(data, bytes) else None

    async def write(self, data: bytes) -> None:
        """Send a packet; waits for room."""
        try:
            await self._context.write(data)
        except grpc.aio.BaseError as error:
            raise ConnectionError(str(error) or "the call has ended") from None

    def cancel(self) -> None:
        """Nothing: the call ends with its handler."""


def error_text(error: grpc.aio.AioRpcError) -> str:
    """What went wrong with a call, in one line."""
    details = " ".join((error.details() or "").split())
    return details or error.code().name.lower().replace("_", " ")


def security_of(context: grpc.aio.ServicerContext[bytes, bytes]) -> Mapping[str, Iterable[bytes]]:
    """What gRPC says of the connection of a call."""
    return context.auth_context()
