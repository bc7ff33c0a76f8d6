"""Load on a broker, from processes of their own: publishers and readers over raw sockets.

They do as little as they can, since they share the processors with the broker: requests are put together once, answers
are searched for the few bytes that matter. A message's id begins with the time it was sent, on the clock that all
processes of the machine share; so each delivery tells how old it is.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from urllib.parse import quote

_READ_BYTES = 1 << 18
_SENT = re.compile(rb'"message":"(\d+)-')
_SENT_BYTES_MAX = 64


def connect(address: str) -> socket.socket:
    """A connection to ``host:port``."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


# --- readers ----------------------------------------------------------------------------------------------------------


@dataclass
class Reader:
    """One Server-Sent Events stream."""

    connection: socket.socket
    rest: bytes = b""

    def ages(self) -> list[float] | None:
        """Seconds between sending and now of the deliveries that have come; ``None``: the stream has ended."""
        data = self.connection.recv(_READ_BYTES)
        if not data:
            return None
        now = time.monotonic_ns()
        data = self.rest + data
        ages = []
        end = 0
        for result in _SENT.finditer(data):
            ages.append((now - int(result[1])) / 1e9)
            end = result.end()
        # What may be the beginning of the next one.
        self.rest = data[max(end, len(data) - _SENT_BYTES_MAX) :]
        return ages


def open_streams(address: str, token: str, subscribers: Iterable[str]) -> list[socket.socket]:
    """A stream for each subscriber; all have begun."""
    connections = []
    for subscriber in subscribers:
        connection = connect(address)
        connection.sendall(
            f"GET /deliveries/stream?subscriber={quote(subscriber, safe='')}&ack=auto HTTP/1.1\r\n"
            f"Host: {address}\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\r\n".encode()
        )
        connections.append(connection)
    for connection in connections:
        head = connection.recv(_READ_BYTES)
        if b" 200 " not in head[:20]:
            raise SystemExit(f"a stream was refused: {head[:500]!r}")
    return connections


def read(address: str, token: str, subscribers: list[str]) -> None:
    """Read streams; tell ``ready``, and at each line on standard input what came since the last, as JSON."""
    selector = selectors.DefaultSelector()
    for connection in open_streams(address, token, subscribers):
        selector.register(connection, selectors.EVENT_READ, Reader(connection))
    selector.register(sys.stdin, selectors.EVENT_READ, None)
    print("ready", flush=True)
    ages: list[float] = []
    while True:
        for key, _ in selector.select():
            if key.data is None:
                if not sys.stdin.readline():
                    return
                print(json.dumps(_latencies(ages)), flush=True)
                ages = []
            elif (some := key.data.ages()) is None:
                selector.unregister(key.fileobj)
            else:
                ages += some


def _latencies(ages: list[float]) -> dict[str, float]:
    ages.sort()
    if not ages:
        return {"count": 0}
    return {
        "count": len(ages),
        "p50_ms": 1e3 * ages[len(ages) // 2],
        "p99_ms": 1e3 * ages[len(ages) * 99 // 100],
        "max_ms": 1e3 * ages[-1],
    }


# --- workers ----------------------------------------------------------------------------------------------------------

_RECEIPT = re.compile(rb'"receipt":("[0-9-]+")')
_EMPTY_SECONDS = 1.0
"""Time without a delivery after which a worker stops."""


def work(address: str, token: str, subscriber: str, workers: int, limit: int) -> dict[str, float]:
    """Empty a shared queue: workers that pull up to so many deliveries and acknowledge them, again and again."""
    ends: list[float] = []
    counts: list[int] = []

    def run() -> None:
        connection = HTTPConnection(address)
        head = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        count, last = 0, time.monotonic()
        while True:
            path = f"/deliveries?subscriber={subscriber}&limit={limit}&wait={_EMPTY_SECONDS}"
            connection.request("GET", path, headers=head)
            receipts = _RECEIPT.findall(connection.getresponse().read())
            if not receipts:
                break
            body = b'{"subscriber":"%b","ids":[%b]}' % (subscriber.encode(), b",".join(receipts))
            connection.request("POST", "/deliveries/ack", body, head)
            answer = connection.getresponse()
            if answer.status != 204:
                raise SystemExit(f"an acknowledgement was refused: {answer.read()!r}")
            answer.read()
            count, last = count + len(receipts), time.monotonic()
        counts.append(count)
        ends.append(last)

    threads = [threading.Thread(target=run) for _ in range(workers)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"count": sum(counts), "seconds": max(ends) - began}


# --- publishers -------------------------------------------------------------------------------------------------------


@dataclass
class Publisher:
    """A keep-alive connection that has one request under way at a time."""

    connection: socket.socket
    make: Callable[[int], bytes]
    """A request, from a number."""
    answer: bytes = b""
    busy: bool = False
    statuses: dict[bytes, int] = field(default_factory=dict)
    ages: list[float] = field(default_factory=list)
    """Seconds from each request to its answer."""
    _sent: float = 0.0

    def send(self, number: int) -> None:
        """Send a request."""
        self.busy = True
        self._sent = time.monotonic()
        self.connection.sendall(self.make(number))

    def receive(self) -> bool:
        """Take what has come; whether the answer is complete."""
        self.answer += self.connection.recv(_READ_BYTES)
        head, result, body = self.answer.partition(b"\r\n\r\n")
        if not result:
            return False
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if length is None:
            raise SystemExit(f"an answer without length: {head!r}")
        if len(body) < int(length[1]):
            return False
        status = head.split(b" ", 2)[1]
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.ages.append(time.monotonic() - self._sent)
        self.answer, self.busy = b"", False
        return True


def _single(address: str, token: str, bodies: list[bytes]) -> Callable[[int], bytes]:
    def make(number: int) -> bytes:
        body = bodies[number % len(bodies)]
        return (
            b"POST /messages?id=%d-%d HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\n"
            b"Content-Type: application/xml\r\nContent-Length: %d\r\n\r\n%b"
            % (time.monotonic_ns(), number, address.encode(), token.encode(), len(body), body)
        )

    return make


def _batch(address: str, token: str, bodies: list[bytes], size: int) -> Callable[[int], bytes]:
    texts = [json.dumps(body.decode()).encode() for body in bodies]

    def make(number: int) -> bytes:
        now = time.monotonic_ns()
        lines = b"".join(
            b'{"id":"%d-%d","xml":%b}\n' % (now, number * size + i, texts[(number * size + i) % len(texts)])
            for i in range(size)
        )
        return (
            b"POST /messages HTTP/1.1\r\nHost: %b\r\nAuthorization: Bearer %b\r\n"
            b"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n%b"
            % (address.encode(), token.encode(), len(lines), lines)
        )

    return make


@dataclass(frozen=True)
class Load:
    """What publishers do."""

    connections: int
    seconds: float
    rate: float = 0.0
    """Requests a second; 0: as many as are answered."""
    batch: int = 1
    """Messages in a request."""
    requests_max: int = 0
    """Requests after which they stop; 0: as many as there is time for."""


def publish(address: str, token: str, bodies: list[bytes], load: Load) -> dict[str, float]:
    """Publish for a while; how many messages were accepted in how many seconds."""
    make = _batch(address, token, bodies, load.batch) if load.batch > 1 else _single(address, token, bodies)
    publishers = [Publisher(connect(address), make) for _ in range(load.connections)]
    selector = selectors.DefaultSelector()
    for publisher in publishers:
        selector.register(publisher.connection, selectors.EVENT_READ, publisher)
    began = time.monotonic()
    sent = answered = 0
    idle = list(publishers)
    while (now := time.monotonic()) - began < load.seconds:
        due = int((now - began) * load.rate) + 1 if load.rate else sent + len(idle)
        if load.requests_max:
            if answered == load.requests_max:
                break
            due = min(due, load.requests_max)
        while idle and sent < due:
            idle.pop().send(sent)
            sent += 1
        for key, _ in selector.select(0.0005 if load.rate and idle else 0.1):
            if key.data.receive():
                answered += 1
                idle.append(key.data)
    seconds = time.monotonic() - began
    wrong = {s.decode(): n for p in publishers for s, n in p.statuses.items() if s not in {b"200", b"201"}}
    if wrong:
        raise SystemExit(f"some were not accepted: {wrong}")
    latencies = _latencies([age for publisher in publishers for age in publisher.ages])
    return {**latencies, "accepted": answered * load.batch, "seconds": seconds, "sent": sent * load.batch}


def main() -> None:
    """``python -m benchmarks.broker_load read|idle|work|publish``, with its arguments as JSON on standard input."""
    supplied = json.loads(sys.stdin.readline())
    address, token = supplied["address"], supplied["token"]
    match sys.argv[1]:
        case "read":
            read(address, token, supplied["subscribers"])
        case "idle":
            held = open_streams(address, token, supplied["subscribers"])
            print("ready", flush=True)
            sys.stdin.readline()
            print(len(held), flush=True)
        case "work":
            about = supplied["subscriber"], supplied["workers"], supplied["limit"]
            print(json.dumps(work(address, token, *about)), flush=True)
        case "publish":
            bodies = [body.encode() for body in supplied["bodies"]]
            print(json.dumps(publish(address, token, bodies, Load(**supplied["load"]))), flush=True)


if __name__ == "__main__":
    main()
