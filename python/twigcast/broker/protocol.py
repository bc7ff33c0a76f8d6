"""HTTP as uvicorn speaks it, but for one thing: the head of an answer waits for what follows it.

uvicorn writes head and body one after the other, each of which costs a system call, and often the client two. Here a
head goes out together with what is written next, or by itself in the next turn of the event loop.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD: Final = b"HTTP/1.1 "


class Protocol(HttpToolsProtocol):
    """A connection of a client."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(cast("asyncio.Transport", HoldingHeads(transport, self.loop)))


class HoldingHeads:
    """A transport that holds back heads; for the rest it is the one that it is made from.

    Args:
        transport: Where all is written.
        loop: Its event loop.
    """

    __slots__ = ("_held", "_loop", "_transport", "_write", "is_closing")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._write = transport.write
        self.is_closing = transport.is_closing
        self._loop = loop
        self._held = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, a head later."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.writelines((held, data))
        elif data.startswith(_HEAD):
            self._held = data
            self._loop.call_soon(self._release)
        else:
            self._write(data)

    def close(self) -> None:
        """End it, once all is written."""
        self._release()
        self._transport.close()

    def _release(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            if not self.is_closing():
                self._write(held)
