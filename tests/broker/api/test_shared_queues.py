"""Shared queues over HTTP: pulls, streams and WebSockets as workers, what they may say, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.broker.api.running import Party, check_problem
from twigcast.broker.model import Scope
from twigcast.client import AsyncClient, Client

SHARED = {"kind": "pull", "queue": "shared", "attempts_max": 2}


@pytest.fixture
def client(party: Party) -> Iterator[Client]:
    with Client(party.url, party.tokens[Scope.ADMIN]) as client:
        yield client


def nack(party: Party, receipts: list[str], **more: Any) -> None:
    party.ok("POST", "/deliveries/nack", 204, json={"subscriber": "jobs", "ids": receipts, **more})


def extend(party: Party, receipts: list[str], seconds: float = 60) -> dict[str, Any]:
    body = {"subscriber": "jobs", "ids": receipts, "seconds": seconds}
    result: dict[str, Any] = party.ok("POST", "/deliveries/extend", json=body)
    return result


def test_two_workers_pull_beside_each_other(party_on_each_store: Party) -> None:
    party = party_on_each_store
    shown = party.subscribe("jobs", "//job", delivery=SHARED | {"lease_seconds": 60})["delivery"]
    assert {name: shown[name] for name in ("queue", "lease_seconds", "attempts_max")} == {
        "queue": "shared",
        "lease_seconds": 60.0,
        "attempts_max": 2,
    }
    for number in range(3):
        party.publish(f"<job>{number}</job>")
    (first,), (second,) = party.pull("jobs", limit=1), party.pull("jobs", limit=1)
    assert (first["xml"], second["xml"], first["attempt"]) == ("<job>0</job>", "<job>1</job>", 1)
    assert first["receipt"] == f"{first['id']}-1"
    nack(party, [first["receipt"]])
    (again,) = party.pull("jobs", limit=1)
    assert (again["id"], again["attempt"], again["redelivered"]) == (first["id"], 2, True)
    # The first worker is late: what it says does not concern the second one.
    nack(party, [first["receipt"]])
    assert extend(party, [first["receipt"], again["receipt"]]) == {"extended": 1, "lost": [first["receipt"]]}
    consumer = party.ok("GET", "/consumers/jobs")
    assert (consumer["queue"], consumer["in_flight"], consumer["attempts"]) == ("shared", 2, 2)
    nack(party, [again["receipt"]], reason="no such account")
    (letter,) = party.ok("GET", "/dead-letters")["dead_letters"]
    assert (letter["key"], letter["attempts"]) == ("jobs", 2)
    assert "no such account" in letter["reason"]
    assert party.ok("POST", "/consumers/jobs/redrive") == {"count": 1}
    assert {d["xml"] for d in party.pull("jobs")} == {"<job>0</job>", "<job>2</job>"}


def test_what_does_not_fit_a_kind_of_queue_is_refused(party: Party) -> None:
    party.subscribe("jobs", "//job", delivery=SHARED)
    party.subscribe("line", "//job")
    party.publish("<job/>")
    (delivery,) = party.pull("jobs")
    (other,) = party.pull("line")
    assert "attempt" not in other
    refused = party.http.post("/deliveries/ack", json={"subscriber": "jobs", "up_to": delivery["id"]})
    assert "name the ids" in check_problem(refused, 409, "conflict")["detail"]
    refused = party.http.post("/deliveries/extend", json={"subscriber": "line", "ids": [other["id"]], "seconds": 9})
    assert "ordered" in check_problem(refused, 409, "conflict")["detail"]
    refused = party.http.get("/deliveries/stream", params={"subscriber": "line", "in_flight": 5})
    check_problem(refused, 422, "invalid")
    refused = party.http.get("/deliveries/stream", params={"subscriber": "jobs", "after": delivery["id"]})
    check_problem(refused, 422, "invalid")
    wrong = {"kind": "pull", "attempts_max": 3}
    refused = party.http.post("/subscriptions", json={"key": "x", "query": "//a", "delivery": wrong})
    assert "shared" in check_problem(refused, 422, "invalid")["detail"]
    refused = party.http.post("/subscriptions", json={"key": "x", "query": "//a", "subscriber": "jobs"})
    assert "is shared" in check_problem(refused, 409, "conflict")["detail"]


def test_an_export_brings_a_shared_queue_elsewhere(client: Client, party: Party) -> None:
    party.subscribe("jobs", "//job", delivery=SHARED | {"lease_seconds": 9})
    lines = list(client.export_subscriptions())
    client.unsubscribe("jobs")
    client.import_subscriptions(lines)
    assert client.subscription("jobs").delivery["lease_seconds"] == 9.0
    assert client.consumer("jobs").queue == "shared"


def test_streams_share_and_get_more_when_they_acknowledge(client: Client, party: Party) -> None:
    party.subscribe("jobs", "//job", delivery=SHARED)
    for number in range(4):
        party.publish(f"<job>{number}</job>")
    one = client.stream("jobs", in_flight=2)
    assert next(one).xml == "<job>0</job>"
    # The other worker has what is left beside the two of the first.
    other = client.pull("jobs", wait=5)
    assert [d.xml for d in other] == ["<job>2</job>", "<job>3</job>"]
    client.acknowledge("jobs", other)
    second = next(one)
    assert (second.xml, second.attempt) == ("<job>1</job>", 1)
    one.close()
    client.give_back("jobs", [second])
    (again,) = client.pull("jobs", wait=5)
    assert (again.xml, again.attempt) == ("<job>1</job>", 2)


def test_the_client_for_event_loops_extends(party: Party) -> None:
    async def play() -> None:
        async with AsyncClient(party.url, party.tokens[Scope.ADMIN]) as client:
            await client.subscribe("jobs", "//job", delivery=SHARED)
            await client.publish("<job/>")
            batch = await client.pull("jobs", wait=5)
            outcome = await client.extend("jobs", batch, 60)
            assert (outcome.extended, list(outcome.lost)) == (1, [])
            await client.acknowledge("jobs", batch)
            assert list((await client.extend("jobs", batch, 60)).lost) == [batch[0].receipt]

    asyncio.run(play())


def test_a_stream_may_acknowledge_by_itself(party: Party) -> None:
    party.subscribe("jobs", "//job", delivery=SHARED)
    party.publish("<job/>")
    query = {"subscriber": "jobs", "ack": "auto"}
    with httpx2.stream("GET", f"{party.url}/deliveries/stream", params=query, headers=party.headers()) as response:
        lines = response.iter_lines()
        assert any(line.startswith("data: ") for line in lines)
        party.publish("<job/>")
        assert any(line.startswith("data: ") for line in lines)
    assert party.ok("GET", "/subscriptions/jobs")["pending"] <= 1


def test_a_worker_over_a_websocket_says_it_all_there(party: Party) -> None:
    party.subscribe("jobs", "//job", delivery=SHARED)
    party.publish("<job>0</job>")
    party.publish("<job>1</job>")
    url = f"{party.url.replace('http', 'ws')}/deliveries/ws?subscriber=jobs&in_flight=1"
    with connect(url, additional_headers=party.headers()) as socket:
        first = json.loads(socket.recv(10))
        socket.send(json.dumps({"extend": [first["receipt"]], "seconds": 60}))
        assert json.loads(socket.recv(10)) == {"extended": 1, "lost": []}
        socket.send(json.dumps({"nack": [first["receipt"]], "delay": 600, "reason": "later"}))
        second = json.loads(socket.recv(10))
        assert (second["xml"], second["attempt"]) == ("<job>1</job>", 1)
        socket.send(json.dumps({"up_to": second["id"]}))
        assert "ordered" in json.loads(socket.recv(10))["error"]["detail"]
        socket.send(json.dumps({"ack": [second["receipt"]]}))
        party.publish("<job>2</job>")
        assert json.loads(socket.recv(10))["xml"] == "<job>2</job>"


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (b"\x00\x01", "binary"),
        ('{"ack": ["1-1"], "ack": ["2-1"]}', "'ack' is given twice"),
        ('{"nack": ["1-1"], "n\\u0061ck": ["2-1"]}', "'nack' is given twice"),
        ('{"nack": "1-1"}', "ids: Input should be a valid list"),
        ('{"nack": ["1-1"], "reason": "a\\u0000"}', "reason: the character U+0000 cannot be kept"),
        ('{"nack": ["1-1"], "subscriber": "others"}', "subscriber: "),
        ('{"extend": ["1-1"], "seconds": 1e9}', "seconds: "),
    ],
)
def test_a_frame_that_is_not_understood_is_answered_and_the_connection_goes_on(
    party: Party, frame: str | bytes, told: str
) -> None:
    party.subscribe("jobs", "//job", delivery=SHARED)
    url = f"{party.url.replace('http', 'ws')}/deliveries/ws?subscriber=jobs"
    with connect(url, additional_headers=party.headers()) as socket:
        socket.send(frame)
        problem = json.loads(socket.recv(10))["error"]
        assert problem["code"] == "invalid"
        assert told in problem["detail"]
        assert "\n" not in problem["detail"]
        socket.send('{"extend": ["1-1-1"], "seconds": 5}')
        assert json.loads(socket.recv(10)) == {"extended": 0, "lost": ["1-1-1"]}


@pytest.mark.parametrize("query", ["ack=maybe", "bodies=maybe", "bodies="])
def test_a_word_that_is_not_known_opens_no_websocket(party: Party, query: str) -> None:
    party.subscribe("jobs", "//job", delivery=SHARED)
    url = f"{party.url.replace('http', 'ws')}/deliveries/ws?subscriber=jobs&{query}"
    with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers=party.headers()):
        pass
    assert refused.value.response.status_code == 422


def test_a_reason_that_no_store_can_keep_is_refused_before_anything_changes(party: Party) -> None:
    party.subscribe("jobs", "//job", delivery=SHARED)
    party.publish("<job/>")
    (delivery,) = party.pull("jobs")
    body = {"subscriber": "jobs", "ids": [delivery["receipt"]], "reason": "a\0b"}
    assert "U+0000" in party.problem("POST", "/deliveries/nack", 422, "invalid", json=body)["detail"]
    assert extend(party, [delivery["receipt"]])["extended"] == 1
