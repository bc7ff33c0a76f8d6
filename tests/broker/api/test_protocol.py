"""Heads of answers go out with what follows them, and never later than the next turn of the loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import time
from collections.abc import Iterable
from typing import cast
from urllib.parse import urlsplit

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from tests.broker.api.running import Party
from twigcast.broker.model import Scope
from twigcast.broker.protocol import HoldingHeads

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Transport:
    """Notes what is written, a list for each system call."""

    def __init__(self) -> None:
        self.calls: list[list[bytes]] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.calls.append([data])

    def writelines(self, data: Iterable[bytes]) -> None:
        assert not self.closed
        self.calls.append(list(data))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def get_extra_info(self, name: str) -> str:
        return f"about {name}"


def held(inner: Transport) -> HoldingHeads:
    return HoldingHeads(cast("asyncio.Transport", inner), asyncio.get_running_loop())


def test_head_and_body_are_one_write() -> None:
    async def scene() -> None:
        inner = Transport()
        transport = held(inner)
        transport.write(HEAD)
        assert inner.calls == []
        transport.write(b"ab")
        transport.write(b"cd")
        await asyncio.sleep(0)
        assert inner.calls == [[HEAD, b"ab"], [b"cd"]]

    asyncio.run(scene())


def test_a_head_alone_goes_out_in_the_next_turn() -> None:
    async def scene() -> None:
        inner = Transport()
        transport = held(inner)
        transport.write(HEAD)
        await asyncio.sleep(0)
        assert inner.calls == [[HEAD]]
        transport.write(HEAD)
        transport.write(HEAD)
        await asyncio.sleep(0)
        assert inner.calls == [[HEAD], [HEAD, HEAD]]

    asyncio.run(scene())


def test_what_is_held_is_written_before_the_end_and_never_after_it() -> None:
    async def scene() -> None:
        inner = Transport()
        transport = held(inner)
        transport.write(HEAD)
        transport.close()
        assert inner.calls == [[HEAD]]
        assert inner.closed
        broken = Transport()
        transport = held(broken)
        transport.write(HEAD)
        broken.closed = True
        await asyncio.sleep(0)
        assert broken.calls == []

    asyncio.run(scene())


def test_it_is_the_transport_otherwise() -> None:
    async def scene() -> None:
        assert held(Transport()).get_extra_info("peername") == "about peername"

    asyncio.run(scene())


def test_pipelined_requests_are_answered_in_order(party: Party) -> None:
    address = urlsplit(party.url)
    head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": address.netloc, **party.headers()}.items())
    published = [f"POST /messages?id=p{n} HTTP/1.1\r\n{head}Content-Length: 4\r\n\r\n<a/>" for n in (1, 2)]
    health = f"GET /health HTTP/1.1\r\n{head}\r\n"
    requests = [health, published[0], health, published[1], f"GET /me HTTP/1.1\r\n{head}Connection: close\r\n\r\n"]
    with connected(party) as connection:
        connection.sendall("".join(requests).encode())
        answer = b""
        while some := connection.recv(1 << 16):
            answer += some
    positions = [answer.index(part) for part in (b'"status":"ok"', b'"id":"p1"', b'"id":"p2"', b'"tenant"')]
    assert positions == sorted(positions)
    assert answer.count(b"HTTP/1.1 201 ") == 2
    assert answer.count(b"HTTP/1.1 200 ") == 3


@pytest.mark.parametrize("path", ["/messages", "/subscriptions/import"])
def test_a_client_that_goes_away_within_its_body_is_no_failure(
    party: Party, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    address = urlsplit(party.url)
    head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": address.netloc, **party.headers()}.items())
    kind = "application/xml" if path == "/messages" else "application/x-ndjson"
    with connected(party) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\n{head}Content-Type: {kind}\r\nContent-Length: 1000\r\n\r\n<a>".encode()
        )
    # Its end is seen before what comes after it.
    for _ in range(20):
        party.publish("<a/>")
    assert not [record for record in caplog.records if record.levelname in {"ERROR", "CRITICAL"}], caplog.text


@pytest.mark.parametrize("begin", ["GET / HTTP/1.1\r\nHost: x\r\nX: ", "GET /", "GET / HTTP/1.1\r\n"])
def test_a_head_without_end_is_refused(party: Party, begin: str) -> None:
    with connected(party) as connection:
        connection.sendall(begin.encode())
        more = (b"A: b\r\n" if begin.endswith("\n") else b"a") * 8_000
        answer = b""
        # It may be refused before all is sent: far less than this is kept.
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                connection.sendall(more)
        with contextlib.suppress(ConnectionError):
            while some := connection.recv(1 << 16):
                answer += some
        assert answer == b"" or answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
        # Nobody listens any more.
        assert not sends(connection, more * 200)
    party.publish("<a/>")


def test_a_head_that_comes_in_pieces_is_refused_with_a_problem(party: Party) -> None:
    with connected(party) as connection:
        connection.sendall(b"GET /me HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 60_000)
        time.sleep(0.1)
        connection.sendall(b"a" * 8_000)
        answer = b""
        while some := connection.recv(1 << 16):
            answer += some
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["code"] == "too-large"


@pytest.mark.parametrize("begin", ["X: ", "A: b\r\n"])
def test_fields_without_end_behind_a_body_are_refused(party: Party, begin: str) -> None:
    more = begin.encode() * 8_000 if begin.endswith("\n") else b"a" * 48_000
    with connected(party) as connection:
        head = f"POST /messages HTTP/1.1\r\nHost: {urlsplit(party.url).netloc}\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(f"{head}4\r\n<a/>\r\n0\r\n{begin}".encode())
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                connection.sendall(more)
        with contextlib.suppress(ConnectionError):
            while connection.recv(1 << 16):
                pass
        assert not sends(connection, more * 200)
    party.publish("<a/>")


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize(("before", "behind"), [("wrong", "right"), ("right", "wrong")])
def test_fields_behind_a_body_are_none_of_the_head(party: Party, before: str, behind: str, is_whole: bool) -> None:
    tokens = {"right": party.tokens[Scope.PUBLISH], "wrong": "tc_none"}
    head = (
        "POST /messages HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
        f"Authorization: Bearer {tokens[before]}\r\n\r\n"
    )
    body = f"4\r\n<a/>\r\n0\r\nHost: evil.example\r\nAuthorization: Bearer {tokens[behind]}\r\n\r\n"
    with connected(party) as connection:
        for part in (head + body,) if is_whole else (head, body):
            connection.sendall(part.encode())
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 201 " if before == "right" else b"HTTP/1.1 401 "), answer


def test_bodies_in_many_parts_are_no_head(party: Party) -> None:
    address = urlsplit(party.url)
    head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": address.netloc, **party.headers()}.items())
    part = b"1000\r\n" + b"x" * 0x1000 + b"\r\n"
    with connected(party) as connection:
        connection.sendall(f"POST /messages HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n3\r\n<a>\r\n".encode())
        for _ in range(100):
            connection.sendall(part)
        connection.sendall(b"4\r\n</a>\r\n0\r\nX: y\r\n\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 201 ")


def test_large_bodies_and_many_requests_are_no_head(party: Party) -> None:
    for _ in range(3):
        party.publish("<a>" + "x" * 300_000 + "</a>")
    address = urlsplit(party.url)
    head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": address.netloc, **party.headers()}.items())
    request = f"GET /health HTTP/1.1\r\nX: {'x' * 10_000}\r\n{head}\r\n".encode()
    with connected(party) as connection:
        for _ in range(20):
            connection.sendall(request)
            answer = b""
            while b'"status":"ok"' not in answer:
                some = connection.recv(1 << 16)
                assert some, "the connection has ended"
                answer += some


def test_what_was_published_is_let_go_with_its_request(party: Party) -> None:
    """Without waiting for a look for cycles, which would take milliseconds in which nothing else goes on."""
    party.publish("<a/>")
    gc.collect()
    gc.disable()
    try:
        before = requests_held()
        for _ in range(50):
            party.publish("<a/>")
        # The latest of the connection stays with it, as may what others are about.
        assert requests_held() <= before + 5
    finally:
        gc.enable()


def sends(connection: socket.socket, data: bytes) -> bool:
    try:
        connection.sendall(data)
    except ConnectionError:
        return False
    return True


def requests_held() -> int:
    return sum(isinstance(result, RequestResponseCycle) for result in gc.get_objects())


def connected(party: Party) -> socket.socket:
    address = urlsplit(party.url)
    assert address.hostname is not None
    assert address.port is not None
    return socket.create_connection((address.hostname, address.port), timeout=30)
