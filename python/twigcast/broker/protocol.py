"""HTTP as uvicorn implements it, with two changes.

The head of a response waits for what follows it. Uvicorn writes head and body one after the other, each of which costs
a system call, and often the client two. Here a head is sent with what is written next, or alone in the next turn of the
event loop.

The size of the head of a request, and of the fields behind its body, is bounded: the parser would keep all of that,
before a token is checked.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from twigcast.broker.api import problems

_HEAD: Final = b"HTTP/1.1 "

HEAD_BYTES_MAX: Final = 64 << 10
"""Size in bytes of an unfinished head of a request, or of the fields behind its body."""


class Protocol(HttpToolsProtocol):
    """A connection of a client."""

    _kept_bytes = 0
    """Bytes received since the parser last reported a head, a part of a body or an end."""
    _in_head = True

    def data_received(self, data: bytes) -> None:
        """Receives bytes."""
        self._kept_bytes += len(data)
        super().data_received(data)
        if self._kept_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            if self._in_head:
                self._refuse_head()
            else:
                # The response may have been sent already.
                self.transport.close()

    def on_headers_complete(self) -> None:
        """Begins a request."""
        self._in_head, self._kept_bytes = False, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Receives a part of the body."""
        self._kept_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends a request."""
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
        """Begins the connection."""
        super().connection_made(cast("asyncio.Transport", HoldingHeads(transport, self.loop)))


class HoldingHeads:
    """A transport that delays heads, and passes everything else to the transport that it wraps."""

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
        """Writes bytes, a head later."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.writelines((held, data))
        elif data.startswith(_HEAD):
            self._held = data
            self._loop.call_soon(self._release)
        else:
            self._write(data)

    def close(self) -> None:
        """Closes the transport once everything is written."""
        self._release()
        self._transport.close()

    def _release(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            if not self.is_closing():
                self._write(held)
