"""What waits at the door: half-sent requests, silence, too many connections, and what is said twice."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.broker.api.running import Party, RunningBroker, until
from twigcast.broker.config import load
from twigcast.broker.model import Scope
from twigcast.broker.store.store import open_store

OwnBroker = Callable[..., RunningBroker]

QUICK: dict[str, Any] = {
    "head_seconds_max": 0.2,
    "body_seconds_max": 0.2,
    "body_rate_min": 1_000_000,
    "unread_seconds_max": 0.2,
}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker that waits for nobody."""
    address = str(tmp_path_factory.mktemp("quick") / "store")
    broker = RunningBroker(open_store(address), load({"port": 0, "stop_seconds": 5, "store": address, **QUICK}))
    yield broker
    broker.stop()
    broker.store.close()


@contextmanager
def connected(url: str) -> Iterator[socket.socket]:
    address = urlsplit(url)
    with socket.create_connection((str(address.hostname), address.port or 0), timeout=20) as connection:
        yield connection


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the broker ends the connection."""
    answer = b""
    with contextlib.suppress(ConnectionError):
        while some := connection.recv(1 << 16):
            answer += some
    return answer


def head_of(url: str, line: str, **more: str) -> bytes:
    fields = {"Host": urlsplit(url).netloc, **more}
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in fields.items()), "", ""]).encode()


def problem_in(answer: bytes) -> tuple[int, dict[str, Any]]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    result: dict[str, Any] = json.loads(body)
    return int(head.split(b" ")[1]), result


def measured(broker: RunningBroker, name: str) -> float:
    for line in broker.operator.get("/metrics").text.splitlines():
        if line.startswith(f"{name} "):
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"there is no metric {name}")


def timed_out(broker: RunningBroker, part: str) -> float:
    return measured(broker, f'twigcast_connections_timed_out_total{{part="{part}"}}')


@pytest.mark.parametrize(
    "begun", [b"G", b"GET /health HTTP/1.1\r\n", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: 1\r\n"]
)
def test_a_head_that_does_not_come_ends_with_408(
    quick: RunningBroker, begun: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    broker, before = quick, timed_out(quick, "head")
    with caplog.at_level(logging.WARNING, "twigcast.door"), connected(broker.url) as connection:
        connection.sendall(begun)
        status, problem = problem_in(rest_of(connection))
    assert (status, problem["code"]) == (408, "timeout")
    assert "the head of the request was not complete" in caplog.text
    assert timed_out(broker, "head") == before + 1


def test_one_byte_now_and_then_keeps_no_connection(quick: RunningBroker) -> None:
    """As the tool *Slowloris* does: each byte begins the wait of a naive server anew."""
    broker, before = quick, timed_out(quick, "head")
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connected(broker.url)) for _ in range(20)]
        for connection in slow:
            connection.sendall(head_of(broker.url, "GET /health HTTP/1.1")[:-2])
            connection.settimeout(0.02)
        left = set(slow)
        while left:
            for connection in list(left):
                try:
                    connection.sendall(b"X-a: b\r\n")
                    if b" 408 " in connection.recv(1 << 12):
                        left.discard(connection)
                except TimeoutError:
                    continue
                except ConnectionError:
                    left.discard(connection)
    assert httpx2.get(f"{broker.url}/health").status_code == 200
    until(lambda: timed_out(broker, "head") == before + 20)


def test_a_connection_in_which_nothing_is_said_is_closed(quick: RunningBroker) -> None:
    broker, before = quick, timed_out(quick, "silent")
    with connected(broker.url) as connection:
        assert rest_of(connection) == b""
    assert timed_out(broker, "silent") == before + 1


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_does_not_come_ends_with_408_and_publishes_nothing(quick: RunningBroker, chunked: bool) -> None:
    broker, before = quick, timed_out(quick, "body")
    party = broker.party()
    size = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": "100"}
    head = head_of(broker.url, "POST /messages HTTP/1.1", **party.headers(Scope.PUBLISH), **size)
    with connected(broker.url) as connection:
        connection.sendall(head + (b"3\r\n<a>\r\n" if chunked else b"<a>"))
        status, problem = problem_in(rest_of(connection))
    assert (status, problem["code"]) == (408, "timeout")
    assert party.ok("GET", "/messages")["messages"] == []
    assert timed_out(broker, "body") == before + 1


def test_a_slow_body_has_the_more_time_the_more_has_come(own_broker: OwnBroker) -> None:
    broker = own_broker(**QUICK | {"body_rate_min": 10})
    party = broker.party()
    body = b"<a>" + b" " * 200 + b"</a>"
    size = {"Content-Length": str(len(body))}
    with connected(broker.url) as connection:
        connection.sendall(head_of(broker.url, "POST /messages HTTP/1.1", **party.headers(), **size) + body[:150])
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(20)
        connection.sendall(body[150:])
        assert connection.recv(1 << 12).startswith(b"HTTP/1.1 201 ")


def test_whoever_waits_for_a_response_or_reads_a_stream_is_not_silent(quick: RunningBroker) -> None:
    broker = quick
    party = broker.party()
    party.subscribe("k", "/a")
    with party.http.stream("GET", "/deliveries/stream", params={"subscriber": "k"}) as stream:
        assert party.ok("GET", "/deliveries", params={"subscriber": "k", "wait": 0.6})["deliveries"] == []
        party.publish("<a/>")
        assert any("<a/>" in line for line in stream.iter_lines())


def test_a_client_that_reads_nothing_is_cut_off(quick: RunningBroker) -> None:
    broker, before = quick, timed_out(quick, "unread")
    party = broker.party()
    party.subscribe("k", "/a")
    for _ in range(30):
        party.publish("<a>" + "x" * 900_000 + "</a>")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.settimeout(20)
        address = urlsplit(broker.url)
        connection.connect((str(address.hostname), address.port or 0))
        connection.sendall(head_of(broker.url, "GET /deliveries/stream?subscriber=k HTTP/1.1", **party.headers()))
        until(lambda: timed_out(broker, "unread") == before + 1, 20)
    assert len(party.pull("k", limit=1)) == 1, "what it did not read is delivered again"


def test_a_full_broker_serves_operators_and_tells_of_its_health(
    own_broker: OwnBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker = own_broker(connections_max=16, connections_reserved=4)
    party = broker.party()
    with contextlib.ExitStack() as stack:
        stack.enter_context(caplog.at_level(logging.WARNING, "twigcast.door"))
        others = [stack.enter_context(connected(broker.url)) for _ in range(14)]
        until(lambda: measured(broker, "twigcast_connections") >= 14)
        with httpx2.Client(base_url=broker.url, headers=party.headers()) as http:
            refused = http.get("/me")
            assert (refused.status_code, refused.json()["code"]) == (503, "too-many-connections")
            assert refused.headers["connection"] == "close"
            assert int(refused.headers["retry-after"]) > 0
            assert http.get("/health").status_code == 200
        with httpx2.Client(base_url=broker.url, headers=dict(broker.operator.headers)) as http:
            assert http.get("/me").json()["operator"] is True
        assert httpx2.get(f"{broker.url}/console/sign-in").status_code == 200
        # Silence takes no place away from those who say something, however much of it there is.
        more = [stack.enter_context(connected(broker.url)) for _ in range(30)]
        with httpx2.Client(base_url=broker.url, headers=dict(broker.operator.headers)) as http:
            assert http.get("/me").status_code == 200
        assert "only operators" in caplog.text
        assert timed_out(broker, "crowded") > 20
        for connection in others + more:
            connection.close()
    until(lambda: measured(broker, "twigcast_connections") < 10)
    assert party.http.get("/me").status_code == 200


def test_beyond_the_reserve_connections_are_refused_and_counted(own_broker: OwnBroker) -> None:
    broker = own_broker(connections_max=16, connections_reserved=0)
    with contextlib.ExitStack() as stack:
        for _ in range(15):
            stack.enter_context(connected(broker.url))
        until(lambda: measured(broker, "twigcast_connections") == 16)
        with connected(broker.url) as connection:
            status, problem = problem_in(rest_of(connection))
        assert (status, problem["code"]) == (503, "too-many-connections")
        assert measured(broker, "twigcast_connections_refused_total") == 1


def test_websockets_are_no_way_into_the_reserve(own_broker: OwnBroker) -> None:
    broker = own_broker(connections_max=16, connections_reserved=4)
    party = broker.party()
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    with contextlib.ExitStack() as stack:
        for _ in range(14):
            stack.enter_context(connected(broker.url))
        until(lambda: measured(broker, "twigcast_connections") >= 14)
        with connected(broker.url) as connection:
            line = "GET /deliveries/ws?subscriber=k HTTP/1.1"
            key = {"Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw=="}
            connection.sendall(head_of(broker.url, line, **party.headers(), **upgrade, **key))
            assert problem_in(rest_of(connection))[0] == 503


# --- what is said twice -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hosts", [[], ["127.0.0.1", "127.0.0.1"], ["127.0.0.1", "evil.example"]])
def test_a_request_has_one_host(party: Party, hosts: list[str]) -> None:
    lines = ["GET /health HTTP/1.1", "Connection: close", *(f"Host: {host}" for host in hosts), "", ""]
    with connected(party.url) as connection:
        connection.sendall("\r\n".join(lines).encode())
        status, problem = problem_in(rest_of(connection))
    assert (status, problem["code"]) == (400, "invalid-host")


@pytest.mark.parametrize(
    "host", ["[::1]evil", "localhost:evil", "localhost:80:80", "user@localhost", "[::1", "", "a/b"]
)
def test_what_is_no_host_is_refused(party: Party, host: str) -> None:
    problem = party.problem("GET", "/health", 400, "untrusted-host", headers={"Host": host})
    assert repr(host) in problem["detail"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:", "localhost:80", "[::1]", "[::1]:80", "127.0.0.1 "])
def test_hosts_may_have_ports(party: Party, host: str) -> None:
    with connected(party.url) as connection:
        connection.sendall(f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert rest_of(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://localhost/health", 200),
        ("HTTP://LocalHost/v1/health", 200),
        ("http://evil.example/health", 400),
        ("http://localhost:1/health", 400),
        ("http://localhost@evil.example/health", 400),
    ],
)
def test_the_host_of_an_address_is_that_of_the_header(party: Party, target: str, status: int) -> None:
    with connected(party.url) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = rest_of(connection)
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    if status != 200:
        assert problem_in(answer)[1]["code"] == "invalid-host"


@pytest.mark.parametrize("name", ["Authorization", "Content-Type"])
def test_a_header_that_is_given_twice_is_refused(party: Party, name: str) -> None:
    given = {**party.headers(Scope.SUBSCRIBE), "Content-Type": "application/json"}
    fields = [*given.items(), (name, "another")]
    problem = party.problem("POST", "/check", 422, "invalid", content='{"query": "//a"}', headers=fields)
    assert problem["detail"] == f"the header {name} is given twice"


@pytest.mark.parametrize(
    "path", ["/deliveries?subscriber=%ff", "/subscriptions?after=%e9", "/messages?source=%ff&limit=1"]
)
def test_a_parameter_that_is_no_utf8_is_refused(party: Party, path: str) -> None:
    assert "UTF-8" in party.problem("GET", path, 422, "invalid")["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/messages?limit=1&after=2&limit=3"),
        ("GET", "/messages?limit=1&l%69mit=1"),
        ("POST", "/messages?source=a&source=b"),
        ("GET", "/subscriptions?after=&after=k"),
    ],
)
def test_a_parameter_that_is_given_twice_is_refused(party: Party, method: str, path: str) -> None:
    problem = party.problem(method, path, 422, "invalid", content=b"<a/>" if method == "POST" else None)
    assert "is given twice" in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [
        '{"key": "k", "query": "/a", "query": "/b"}',
        '{"key": "k", "query": "/a", "qu\\u0065ry": "/b"}',
        '{"key": "k", "query": "/a", "namespaces": {"p": "urn:a", "p": "urn:b"}}',
    ],
)
def test_a_member_that_is_given_twice_is_refused(party: Party, body: str) -> None:
    json_ = {"Content-Type": "application/json"}
    problem = party.problem("POST", "/subscriptions", 422, "invalid", content=body, headers=json_)
    assert "is given twice" in problem["detail"]
    party.problem("GET", "/subscriptions/k", 404, "not-found")
    lines = {"Content-Type": "application/x-ndjson"}
    response = party.http.post("/subscriptions/import", content=f'{body}\n{{"key": "l", "query": "/a"}}', headers=lines)
    refused, counts = map(json.loads, response.text.splitlines())
    assert "is given twice" in refused["error"]["detail"]
    assert counts == {"lines": 2, "added": 1, "replaced": 0, "refused": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-be", "latin-1"])
def test_json_is_utf8_so_that_no_member_is_hidden(party: Party, encoding: str) -> None:
    json_ = {"Content-Type": "application/json"}
    body = '{"query": "//a", "query": "//\xe9"}'.encode(encoding)
    assert "UTF-8" in party.problem("POST", "/check", 422, "invalid", content=body, headers=json_)["detail"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("[" * 30_000, "nested too deeply"),
        ('{"query": "//a", "x": ' + '{"a":' * 19_000 + "1" + "}" * 19_001, "nested too deeply"),
        ('{"query": ' + "9" * 5_000 + "}", "too many digits"),
    ],
)
def test_json_that_cannot_be_looked_through_is_refused(party: Party, body: str, reason: str) -> None:
    json_ = {"Content-Type": "application/json"}
    assert reason in party.problem("POST", "/check", 422, "invalid", content=body, headers=json_)["detail"]


@pytest.mark.parametrize("line", ['{"xml": "<a/>", "xml": "<b/>"}', '{"xml": "<a/>", "id": "1", "\\u0069d": "2"}'])
def test_a_member_of_a_batch_that_is_given_twice_is_refused(party: Party, line: str) -> None:
    lines = {"Content-Type": "application/x-ndjson"}
    problem = party.problem("POST", "/messages", 422, "invalid", content=line, headers=lines)
    assert problem["detail"].startswith("line 1: ")
    assert "is given twice" in problem["detail"]
    ok = '{"xml": "<a x=\\"\\u00e9\\">the \\"id\\" and the \\"id\\"</a>", "id": "id", "source": "xml"}'
    assert party.ok("POST", "/messages", 200, content=ok, headers=lines)["accepted"] == 1
