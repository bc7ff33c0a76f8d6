"""HTTP as uvicorn implements it, with four changes.

The head of a response waits for what follows it. Uvicorn writes head and body one after the other, each of which costs
a system call, and often the client two. Here a head is sent with what is written next, or alone in the next turn of the
event loop.

The size of the head of a request, and of the fields behind its body, is bounded: the parser would keep all of that,
before a token is checked.

Fields behind a body are not added to those of the head, or a token could come after what it is for.

A request has to come in time, and a response to be read: see :mod:`~twigcast.broker.door`. The time of a part is taken
only where it did not come at once, so that an ordinary request costs nothing.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from twigcast.broker.api import problems
from twigcast.broker.door import RESERVED, TARGET, Door, DoorAnswer, Reason

_HEAD: Final = b"HTTP/1.1 "

HEAD_BYTES_MAX: Final = 64 << 10
"""Size in bytes of an unfinished head of a request, or of the fields behind its body."""


class Protocol(HttpToolsProtocol):
    """A connection of a client."""

    _kept_bytes = 0
    """Bytes received since the parser last reported a head, a part of a body or an end."""
    _in_head = True
    _part: Reason | None = Reason.SILENT
    """The part of a request that is being waited for; ``None`` if nothing is begun."""
    _since: float | None = None
    """When the wait for it began, in the time of the event loop."""
    _body_bytes = 0
    _unread: tuple[float, int] | None = None
    """Since when so many bytes wait for the client to read them."""
    _is_reserved = False
    _made = 0.0
    """When the connection was made, in the time of the event loop."""

    def __init__(self, *values: Any, door: Door, **more: Any) -> None:
        super().__init__(*values, **more)
        self._door = door

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins the connection, if there is a place for it."""
        place = self._door.admit(self, len(self.connections))
        self._is_reserved = place is DoorAnswer.RESERVED
        self._since = self._made = self.loop.time()
        super().connection_made(cast("asyncio.Transport", HoldingHeads(transport, self.loop)))
        if place is DoorAnswer.NONE:
            self._part = None
            self._refuse(503, "too-many-connections", "there are too many connections; try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the connection."""
        self._door.left(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """Hands the connection over to the protocol of WebSockets, which pings its clients."""
        if self._is_reserved:
            self._refuse(503, "too-many-connections", "there are too many connections; try again later")
            return
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        """Receives bytes."""
        if self.transport.is_closing():
            # What a refused client still sends.
            return
        self._kept_bytes += len(data)
        super().data_received(data)
        if self._kept_bytes > HEAD_BYTES_MAX and not self.transport.is_closing():
            if self._in_head:
                self._refuse(431, "too-large", f"the head of the request has more than {HEAD_BYTES_MAX:,} bytes")
            else:
                # The response may have been sent already.
                self.transport.close()
        if self._part is None:
            if self.timeout_keep_alive_task is None and not self._is_answering:
                # Line ends before a request, which the parser does not mention.
                self._part, self._since = Reason.HEAD, self.loop.time()
        elif self._since is None:
            self._since = self.loop.time()

    @property
    def _is_answering(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def on_message_begin(self) -> None:
        """Begins the head of a request."""
        if self._part is not Reason.SILENT:
            self._since = None
        self._part = Reason.HEAD
        super().on_message_begin()
        if self._is_reserved:
            cast("dict[str, Any]", self.scope)[RESERVED] = True

    def on_headers_complete(self) -> None:
        """Begins a request."""
        self._in_head, self._kept_bytes = False, 0
        self._part, self._since, self._body_bytes = Reason.BODY, None, 0
        if not self.url.startswith(b"/"):
            cast("dict[str, Any]", self.scope)[TARGET] = self.url
        super().on_headers_complete()
        # The parser reports the fields behind a body like those of the head. They are none (RFC 9110, section 6.5.1).
        self.headers = list(self.headers)

    def on_body(self, body: bytes) -> None:
        """Receives a part of the body."""
        self._kept_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Ends a request."""
        self._in_head, self._kept_bytes = True, 0
        self._part = self._since = None
        super().on_message_complete()

    # What the door asks for

    def judge(self, now: float) -> None:
        """Ends the connection if it has kept the broker waiting for too long."""
        if self.transport.is_closing():
            return
        if self.flow.write_paused:
            self._judge_reading(now)
            return
        self._unread = None
        if self._part is None or self._since is None:
            return
        limits = self._door.limits
        if self._part is Reason.BODY:
            if self.flow.read_paused:
                # The broker takes its time, not the client.
                self._since = now - self._body_bytes / limits.body_rate_min
            elif now - self._since > limits.body_seconds + self._body_bytes / limits.body_rate_min:
                self._end(now)
        elif self._is_answering:
            # Whoever waits for a response may begin the next request.
            self._since = now
        elif now - self._since > limits.head_seconds:
            self._end(now)

    def _judge_reading(self, now: float) -> None:
        waiting = self.transport.get_write_buffer_size()
        if self._unread is None or waiting != self._unread[1]:
            self._unread = now, waiting
        elif now - self._unread[0] > self._door.limits.unread_seconds:
            self._door.note(Reason.UNREAD, self._peer, now - self._unread[0])
            self.transport.abort()

    def _end(self, now: float) -> None:
        assert self._part is not None
        assert self._since is not None
        self._door.note(self._part, self._peer, now - self._since)
        may_answer = not (self.pipeline or (bool(self.cycle) and self.cycle.response_started))
        if self._part is Reason.SILENT or (self._part is Reason.BODY and not may_answer):
            self.transport.close()
            return
        part = "head" if self._part is Reason.HEAD else "body"
        self._refuse(408, "timeout", f"the {part} of the request was not complete after {now - self._since:.0f} s")

    def end_unused(self) -> bool:
        """Ends a connection in which no request is being answered; returns whether it did."""
        if self._is_answering or self._part is Reason.BODY or self.transport.is_closing():
            return False
        self._door.left(self)
        self._door.note(Reason.CROWDED, self._peer, self.loop.time() - self._made)
        self.transport.abort()
        return True

    @property
    def _peer(self) -> str:
        return "{}:{}".format(*self.client) if self.client else "an unknown address"

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Answers with a problem what is no request yet, and ends the connection."""
        answer = problems.response(status, code, detail)
        lines = [b"HTTP/1.1 %d %b" % (status, HTTPStatus(status).phrase.encode()), b"connection: close"]
        lines += [b"%b: %b" % header for header in answer.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()


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
