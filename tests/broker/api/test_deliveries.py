"""``/deliveries``: pulls, streams, WebSockets."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.broker.api.running import Party, RunningBroker, check_problem, until
from twigcast.broker.errors import StoreUnavailable
from twigcast.broker.model import Scope


class Events:
    """Reads a stream of Server-Sent Events as a browser does, on a plain connection."""

    def __init__(self, response: httpx2.Response) -> None:
        self._lines = self._split(response)
        self.last = ""

    @staticmethod
    def _split(response: httpx2.Response) -> Iterator[str]:
        rest = b""
        for part in response.iter_raw():
            *whole, rest = (rest + part).split(b"\n")
            yield from (line.decode() for line in whole)

    def next(self) -> dict[str, Any]:
        data: list[str] = []
        kind = ""
        for line in self._lines:
            if line == "":
                if data:
                    assert kind == "delivery"
                    (one,) = data
                    result: dict[str, Any] = json.loads(one)
                    assert result["id"] == self.last
                    return result
                kind = ""
            elif line.startswith("id: "):
                self.last = line[4:]
            elif line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                data.append(line[6:])
            else:
                assert line.startswith((":", "retry: ")), line
        raise EOFError


@contextlib.contextmanager
def events(party: Party, subscriber: str, headers: dict[str, str] | None = None, **query: Any) -> Iterator[Events]:
    with (
        httpx2.Client(base_url=party.url, timeout=30) as http,
        http.stream(
            "GET",
            "/deliveries/stream",
            params={"subscriber": subscriber, **query},
            headers={**party.headers(Scope.SUBSCRIBE), **(headers or {})},
        ) as response,
    ):
        if response.status_code != 200:
            response.read()
            raise AssertionError(response.text)
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-store"
        yield Events(response)


def ack(party: Party, subscriber: str, *ids: str) -> None:
    party.ok("POST", "/deliveries/ack", 204, json={"subscriber": subscriber, "ids": list(ids)})


def pending(party: Party, key: str) -> int:
    result: int = party.ok("GET", f"/subscriptions/{key}")["pending"]
    return result


# --- pulls ------------------------------------------------------------------------------------------------------------


def test_a_pull_leases_and_an_acknowledgement_ends_it(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("k", "/a")
    for n in range(3):
        party.publish(f"<a>{n}</a>")
    first = party.pull("k", limit=2, visibility=0.3)
    assert [item["xml"] for item in first] == ["<a>0</a>", "<a>1</a>"]
    assert not first[0]["redelivered"]
    assert party.pull("k", wait=0) == [], "order holds: what comes later waits"
    ack(party, "k", first[0]["id"])
    again = party.pull("k", visibility=30)
    assert [item["xml"] for item in again] == ["<a>1</a>", "<a>2</a>"]
    assert [item["redelivered"] for item in again] == [True, False]
    party.ok("POST", "/deliveries/nack", 204, json={"subscriber": "k", "ids": [item["id"] for item in again]})
    assert [item["xml"] for item in party.pull("k")] == ["<a>1</a>", "<a>2</a>"]
    party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "k", "up_to": again[-1]["id"]})
    assert pending(party, "k") == 0


def test_a_pull_waits_for_what_comes(party: Party) -> None:
    party.subscribe("k", "/a")
    timer = threading.Timer(0.2, lambda: party.publish("<a/>"))
    timer.start()
    began = time.monotonic()
    assert len(party.pull("k", wait=10)) == 1
    assert 0.15 < time.monotonic() - began < 5
    timer.join()


def test_a_client_that_is_gone_leases_nothing(party: Party) -> None:
    party.subscribe("k", "/a")
    with (
        httpx2.Client(base_url=party.url, headers=party.headers(), timeout=0.2) as http,
        pytest.raises(httpx2.ReadTimeout),
    ):
        http.get("/deliveries", params={"subscriber": "k", "wait": 30})
    time.sleep(0.2)
    party.publish("<a/>")
    assert len(party.pull("k", wait=2)) == 1


def test_up_to_one_of_several_of_the_same_message(party: Party) -> None:
    for key in ("1", "2", "3"):
        party.subscribe(key, "/a", subscriber="desk")
    party.publish("<a/>")
    party.publish("<a/>")
    result = party.pull("desk", visibility=0.1)
    party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "desk", "up_to": result[4]["id"]})
    assert [item["id"] for item in party.pull("desk", wait=5)] == [result[5]["id"]]


def test_messages_can_be_left_out(party: Party) -> None:
    party.subscribe("plain", "/a")
    party.subscribe("made", "for $a in /a return <b>{ $a/text() }</b>")
    party.publish("<a>x</a>")
    (plain,) = party.pull("plain", bodies=False)
    assert "xml" not in plain
    (created,) = party.pull("made", bodies=False)
    assert (created["xml"], created["rewritten"]) == ("<b>x</b>", True)


@pytest.mark.parametrize(
    ("method", "path", "more"),
    [
        ("GET", "/deliveries", {"params": {}}),
        ("GET", "/deliveries", {"params": {"subscriber": "k", "wait": -1}}),
        ("GET", "/deliveries", {"params": {"subscriber": "k", "wait": "nan"}}),
        ("GET", "/deliveries", {"params": {"subscriber": "k", "limit": 0}}),
        ("GET", "/deliveries", {"params": {"subscriber": "k", "visibility": 0}}),
        ("GET", "/deliveries", {"params": {"subscriber": "\0"}}),
        ("POST", "/deliveries/ack", {"json": {"subscriber": "k"}}),
        ("POST", "/deliveries/ack", {"json": {"subscriber": "k", "ids": ["x"]}}),
        ("POST", "/deliveries/ack", {"json": {"subscriber": "k", "ids": ["9" * 20 + "-1"]}}),
        ("POST", "/deliveries/ack", {"json": {"subscriber": "k", "ids": ["1-1"], "up_to": "1-1"}}),
        ("POST", "/deliveries/nack", {"json": {"subscriber": "k", "ids": []}}),
        ("POST", "/deliveries/nack", {"json": {"subscriber": "k", "ids": ["1-1"], "delay": -1}}),
        ("GET", "/deliveries/stream", {"params": {"subscriber": "k", "after": "x"}}),
        ("GET", "/deliveries/stream", {"params": {"subscriber": "k", "ack": "maybe"}}),
        ("GET", "/deliveries/stream", {"params": {"subscriber": "k"}, "headers": {"Last-Event-ID": "-"}}),
    ],
)
def test_what_makes_no_sense_is_refused(party: Party, method: str, path: str, more: dict[str, Any]) -> None:
    party.subscribe("k", "/a")
    party.problem(method, path, 422, "invalid", **more)


def test_n12_acknowledging_what_was_not_handed_out_is_refused(party: Party) -> None:
    party.subscribe("k", "/a")
    party.subscribe("other", "/a")
    for _ in range(2):
        party.publish("<a/>")
    (mine,) = party.pull("k", limit=1)
    foreign = party.pull("other")[0]["id"]
    for wrong in ("4611686018427387904-1", "0-0", foreign):
        for body in ({"ids": [mine["id"], wrong]}, {"up_to": wrong}):
            problem = party.problem(
                "POST", "/deliveries/ack", 409, "unknown-delivery", json={"subscriber": "k", **body}
            )
            assert problem["newest"] == mine["id"]
    assert pending(party, "k") == 2


def test_a_subscription_begins_anew(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("k", "/a")
    for n in range(3):
        party.publish(f"<a>{n}</a>", id=f"m{n}")
    first, second, third = party.pull("k")
    ack(party, "k", *(item["id"] for item in (first, second, third)))

    def seek(**target: Any) -> list[str]:
        party.ok("POST", "/subscriptions/k/seek", json=target)
        return [item["xml"] for item in party.pull("k", wait=0 if "now" in target else 5)]

    assert seek(delivery=second["id"]) == ["<a>1</a>", "<a>2</a>"]
    assert seek(now=True) == []
    assert seek(seq=0) == ["<a>0</a>", "<a>1</a>", "<a>2</a>"]
    assert seek(message="m2") == ["<a>2</a>"]
    assert seek(after=first["seq"]) == ["<a>1</a>", "<a>2</a>"]
    assert seek(time=first["received"])[-1] == "<a>2</a>"
    party.problem("POST", "/subscriptions/k/seek", 422, "invalid", json={})
    party.problem("POST", "/subscriptions/k/seek", 422, "invalid", json={"now": True, "seq": 1})
    party.problem("POST", "/subscriptions/k/seek", 404, "not-found", json={"message": "none"})
    for wrong in (f"7{third['id']}", f"{third['id']}7"):
        problem = party.problem("POST", "/subscriptions/k/seek", 409, "unknown-delivery", json={"delivery": wrong})
        assert problem["newest"] == third["id"]


# --- Server-Sent Events -----------------------------------------------------------------------------------------------


def test_a_stream_with_an_id_from_another_life_of_the_store_begins_with_what_is_pending(party: Party) -> None:
    party.subscribe("k", "/a")
    for n in range(2):
        party.publish(f"<a>{n}</a>")
    number = party.pull("k", limit=1, visibility=0.01)[0]["id"].partition("-")[2]
    for last in ("4000000000-1", f"4000000000-{number}", "1-4000000000"):
        with events(party, "k", {"Last-Event-ID": last}) as stream:
            assert stream.next()["xml"] == "<a>0</a>", last
    with open_socket(party, "k", last_event_id="4000000000-1") as websocket:
        assert json.loads(websocket.recv(timeout=30))["xml"] == "<a>0</a>"
    assert pending(party, "k") == 2


def test_a_stream_gives_what_is_pending_and_what_comes(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("k", "/a")
    party.publish("<a>\n0\u2028</a>")
    with events(party, "k") as stream:
        first = stream.next()
        assert first["xml"] == "<a>\n0\u2028</a>"
        party.publish("<a>1</a>")
        assert stream.next()["xml"] == "<a>1</a>"
        assert pending(party, "k") == 2, "nothing is acknowledged by being sent"
        ack(party, "k", first["id"])
    with events(party, "k") as stream:
        again = stream.next()
        assert (again["xml"], again["redelivered"]) == ("<a>1</a>", True)


def test_a_stream_goes_on_after_the_last_event(party_on_each_store: Party) -> None:
    party = party_on_each_store
    for key in ("1", "2"):
        party.subscribe(key, "/a", subscriber="desk")
    for n in range(3):
        party.publish(f"<a>{n}</a>")
    with events(party, "desk") as stream:
        got = [stream.next() for _ in range(3)]
    # The first of the two deliveries of the second message was the last one: its twin is still due.
    with events(party, "desk", {"Last-Event-ID": got[2]["id"]}) as stream:
        rest = [stream.next() for _ in range(3)]
    ids = [item["id"] for item in [*got, *rest]]
    assert len(set(ids)) == 6
    until(lambda: [item["id"] for item in party.pull("desk", wait=0, visibility=0.05)][:1] == [rest[0]["id"]])
    with events(party, "desk", after=rest[0]["id"]) as stream:
        assert stream.next()["id"] == rest[1]["id"]
    assert party.pull("desk", wait=5)[0]["id"] == rest[0]["id"], "`after` acknowledges nothing"


def test_automatic_acknowledgement(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("k", "/a")
    party.subscribe("l", "/a", subscriber="k2")
    party.subscribe("m", "/a", subscriber="k2")
    for n in range(10):
        party.publish(f"<a>{n}</a>")
    with events(party, "k", ack="auto") as stream, events(party, "k2", ack="auto") as other:
        assert [stream.next()["xml"] for _ in range(10)] == [f"<a>{n}</a>" for n in range(10)]
        for _ in range(20):
            other.next()
        until(lambda: pending(party, "k") == 0 and pending(party, "l") == 0)


def test_many_keys_of_one_message_come_in_one_stream(party: Party) -> None:
    """B-09, in small."""
    lines = "".join(json.dumps({"key": f"k{n}", "query": "/a", "subscriber": "all"}) + "\n" for n in range(3_000))
    party.http.post("/subscriptions/import", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert party.publish("<a/>")["matches"] == 3_000
    with events(party, "all", bodies=False, ack="auto") as stream:
        assert len({stream.next()["key"] for _ in range(3_000)}) == 3_000


def test_a_ticket_opens_a_stream_of_its_subscriber_only(party: Party) -> None:
    party.subscribe("k", "/a")
    party.subscribe("other", "/a")
    party.publish("<a/>")
    ticket = party.ok("POST", "/deliveries/tickets", 201, json={"subscriber": "k"})["ticket"]
    with httpx2.Client(base_url=party.url, timeout=30) as http:
        with http.stream("GET", "/deliveries/stream", params={"subscriber": "k", "ticket": ticket}) as response:
            assert Events(response).next()["xml"] == "<a/>"
        for query in (
            {"subscriber": "other", "ticket": ticket},
            {"subscriber": "k", "ticket": "x"},
            {"subscriber": "k"},
        ):
            check_problem(http.get("/deliveries/stream", params=query), 401, "unauthorized")
        check_problem(http.get("/deliveries", params={"subscriber": "k", "ticket": ticket}), 422, "invalid")
    party.problem("POST", "/deliveries/tickets", 404, "not-found", json={"subscriber": "nope"})


def test_the_number_of_streams_is_limited(broker: RunningBroker) -> None:
    party = broker.party(streams_max=2)
    party.subscribe("k", "/a")
    with events(party, "k"), events(party, "k"):
        response = party.http.get("/deliveries/stream", params={"subscriber": "k"})
        check_problem(response, 429, "too-many")
    until(lambda: len(broker.service.context.streams) == 0)
    with events(party, "k"):
        pass


def test_a_stream_ends_when_its_client_goes(party: Party, broker: RunningBroker) -> None:
    party.subscribe("k", "/a")
    with events(party, "k"):
        until(lambda: broker.service.broker.metrics.listeners >= 1)
    until(lambda: len(broker.service.context.streams) == 0)
    until(lambda: broker.service.broker.metrics.listeners == 0)


@pytest.mark.slow
def test_a_slow_client_does_not_fill_the_memory_or_hold_up_others(party: Party, broker: RunningBroker) -> None:
    party.subscribe("slow", "/a")
    party.subscribe("fast", "/a")
    address = urlsplit(broker.url)
    text = "x" * 20_000
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect((address.hostname, address.port))
        slow.sendall(
            f"GET /deliveries/stream?subscriber=slow HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {party.tokens[Scope.SUBSCRIBE]}\r\n\r\n".encode()
        )
        with events(party, "fast") as stream:
            for n in range(200):
                party.publish(f"<a n='{n}'>{text}</a>")
                assert f"n='{n}'" in stream.next()["xml"]
        # When it reads at last, everything is there, in order.
        data = b""
        slow.settimeout(60)
        while b"n='199'" not in data:
            part = slow.recv(1 << 20)
            assert part
            data += part
    assert data.count(b"event: delivery") == 200
    positions = [data.find(f"n='{n}'".encode()) for n in range(200)]
    assert positions == sorted(positions)
    assert -1 not in positions


def test_a_stop_ends_streams_and_waits(own_broker: Any) -> None:
    broker: RunningBroker = own_broker()
    party = broker.party()
    party.subscribe("k", "/a")
    ended: list[str] = []

    def listen() -> None:
        with events(party, "k") as stream, contextlib.suppress(EOFError):
            stream.next()
        ended.append("stream")

    def wait() -> None:
        assert party.pull("k", wait=30) == []
        ended.append("pull")

    threads = [threading.Thread(target=work) for work in (listen, wait)]
    for thread in threads:
        thread.start()
    until(lambda: len(broker.service.context.streams) == 1)
    time.sleep(0.2)
    began = time.monotonic()
    broker.stop()
    assert time.monotonic() - began < 4
    for thread in threads:
        thread.join(timeout=5)
    assert sorted(ended) == ["pull", "stream"]


def test_a_store_that_goes_away_ends_streams_quietly(
    party: Party, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def listen(*_: Any, **__: Any) -> AsyncIterator[list[Any]]:
        raise StoreUnavailable("the store is away")
        yield []

    party.subscribe("k", "/a")
    monkeypatch.setattr(broker.service.broker, "read_queue", listen)
    with events(party, "k") as stream, pytest.raises(EOFError):
        stream.next()
    with open_socket(party, "k") as ws, pytest.raises(ConnectionClosed) as closed:
        ws.recv(timeout=30)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    until(lambda: caplog.text.count("a stream ended: the store is away") == 2)
    assert "Traceback" not in caplog.text


# --- WebSockets -------------------------------------------------------------------------------------------------------


def open_socket(party: Party, subscriber: str, **query: str) -> ClientConnection:
    url = party.url.replace("http://", "ws://") + "/deliveries/ws?" + urlencode({"subscriber": subscriber, **query})
    return connect(url, additional_headers=party.headers(Scope.SUBSCRIBE), open_timeout=30)


def test_a_websocket_delivers_and_acknowledges(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("k", "/a")
    party.publish("<a>0</a>")
    with open_socket(party, "k") as ws:
        first = json.loads(ws.recv(timeout=30))
        party.publish("<a>1</a>")
        second = json.loads(ws.recv(timeout=30))
        assert [first["xml"], second["xml"]] == ["<a>0</a>", "<a>1</a>"]
        assert first.keys() == party.pull("k", visibility=0.05)[0].keys()
        ws.send(json.dumps({"ack": [first["id"]]}))
        until(lambda: pending(party, "k") == 1)
        party.publish("<a>2</a>")
        third = json.loads(ws.recv(timeout=30))
        ws.send(json.dumps({"up_to": third["id"]}))
        until(lambda: pending(party, "k") == 0)


def test_a_websocket_goes_on_where_another_ended(party: Party) -> None:
    party.subscribe("k", "/a")
    for n in range(4):
        party.publish(f"<a>{n}</a>")
    with open_socket(party, "k") as ws:
        first = json.loads(ws.recv(timeout=30))
    with open_socket(party, "k", last_event_id=first["id"]) as ws:
        second = json.loads(ws.recv(timeout=30))
        assert second["xml"] == "<a>1</a>"
        assert pending(party, "k") == 3
    with open_socket(party, "k", after=second["id"], ack="auto", bodies="false") as ws:
        assert "xml" not in json.loads(ws.recv(timeout=30))


@pytest.mark.parametrize(
    "text", ["x", "{}", "[]", '{"ack": "1-1"}', '{"ack": ["x"]}', '{"up_to": 5}', '{"ack": [], "x": 1}']
)
def test_a_websocket_says_what_it_does_not_understand(party: Party, text: str) -> None:
    party.subscribe("k", "/a")
    with open_socket(party, "k") as ws:
        ws.send(text)
        assert json.loads(ws.recv(timeout=30))["error"]["code"] == "invalid"
        party.publish("<a/>")
        assert json.loads(ws.recv(timeout=30))["xml"] == "<a/>"


def test_a_websocket_is_refused_with_a_problem(party: Party, broker: RunningBroker) -> None:
    party.subscribe("k", "/a")
    cases: list[tuple[str, dict[str, str], int, str]] = [
        ("subscriber=k", {}, 401, "unauthorized"),
        ("subscriber=k", party.headers(Scope.PUBLISH), 403, "forbidden"),
        ("subscriber=nope", party.headers(), 404, "not-found"),
        ("subscriber=%00", party.headers(), 422, "invalid"),
        ("subscriber=k&after=x", party.headers(), 422, "invalid"),
        ("subscriber=k&in_fligth=5", party.headers(), 422, "invalid"),
        ("subscriber=k", broker.party().headers(), 404, "not-found"),
    ]
    for query, headers, status, code in cases:
        with pytest.raises(InvalidStatus) as refused:
            connect(
                f"{party.url.replace('http', 'ws')}/deliveries/ws?{query}", additional_headers=headers, open_timeout=30
            )
        assert refused.value.response.status_code == status
        assert json.loads(refused.value.response.body or b"")["code"] == code


def test_a_websocket_is_closed_when_its_subscriber_is_deleted(party: Party) -> None:
    party.subscribe("k", "/a")
    with open_socket(party, "k") as ws:
        party.http.delete("/subscriptions/k")
        with pytest.raises(ConnectionClosed):
            ws.recv(timeout=30)
