"""A web server under the control of a test: what it got, and what it is to answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

HANG = -1
"""Status that means: never answer."""
DROP = -2
"""Status that means: close the connection."""


@dataclass(frozen=True)
class Got:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))


@dataclass
class Reply:
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    delay: float = 0.0


class Receiver:
    """Serves HTTP/1.1 on a free port of the loopback interface."""

    def __init__(self, reply: Callable[[Got], Reply] | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.reply = reply or (lambda got: Reply())
        self.got: list[Got] = []
        self.active = 0
        self.active_most = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._more = asyncio.Event()

    async def __aenter__(self) -> Receiver:
        self._server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def wait(self, until: Callable[[list[Got]], bool], seconds: float = 10.0) -> None:
        """Until what it got is as expected."""
        async with asyncio.timeout(seconds):
            while not until(self.got):
                self._more.clear()
                await self._more.wait()

    async def count(self, number: int, seconds: float = 10.0) -> None:
        """Until it got so many requests."""
        await self.wait(lambda got: len(got) >= number, seconds)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, ssl.SSLError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        got = Got(method, target, headers, await reader.readexactly(int(headers.get("content-length", 0))))
        self.active += 1
        self.active_most = max(self.active_most, self.active)
        self.got.append(got)
        self._more.set()
        reply = self.reply(got)
        try:
            if reply.status == HANG:
                await asyncio.sleep(3600)
            if reply.status == DROP:
                return False
            await asyncio.sleep(reply.delay)
        finally:
            self.active -= 1
        lines = [f"HTTP/1.1 {reply.status} X", *(f"{name}: {value}" for name, value in reply.headers.items())]
        if reply.status not in (204, 304):
            lines.append(f"Content-Length: {len(reply.body)}")
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (reply.body if reply.status != 304 else b""))
        await writer.drain()
        return True


def answers(*statuses: int) -> Callable[[Got], Reply]:
    """One status after the other, the last one for good."""
    left = list(statuses)
    return lambda got: Reply(left.pop(0) if len(left) > 1 else left[0])
