"""HTTP as uvicorn speaks it, but for two things.

The head of an answer waits for what follows it: uvicorn writes head and body one after the other, each of which costs a
system call, and often the client two. Here a head goes out together with what is written next, or by itself in the next
turn of the event loop.

The head of a request may not go on for ever, nor may the fields behind its body: the parser would keep all of that,
before anybody is asked for a token.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from twigcast.broker.api import problems

_HEAD: Final = b"HTTP/1.1 "

HEAD_BYTES_MAX: Final = 64 << 10
"""Of a request's head, or of the fields behind its body, that have no end so far."""


class Protocol(HttpToolsProtocol):
    """A connection of a client."""

    _kept_bytes = 0
    """What came since the parser has last told of a head, a part of a body or an end."""
    _in_head = True

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._kept_bytes += len(data)
        super().data_received(data)
        if self._kept_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            if self._in_head:
                self._refuse_head()
            else:
                # It may have its answer already.
                self.transport.close()

    def on_headers_complete(self) -> None:
        """Begin with the request."""
        self._in_head, self._kept_bytes = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._kept_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The next request may follow."""
        self._in_head, self._kept_bytes = True, 0
        super().on_message_complete()

    def _refuse_head(self) -> None:
        detail = f"the head of the request has more than {HEAD_BYTES_MAX:,} bytes"
        answer = problems.response(431, "too-large", detail)
        lines = [b"HTTP/1.1 431 Request Header Fields Too Large", b"connection: close"]
        lines += [b"%b: %b" % header for header in answer.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()

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
