"""Tokens that expire, that are rotated, and that permit less than their scope does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from tests.broker.api.running import Party, RunningBroker, check_problem, until
from twigcast.broker.api import access
from twigcast.broker.errors import Forbidden
from twigcast.client import Client


def client_of(party: Party, secret: str) -> httpx2.Client:
    return httpx2.Client(base_url=party.url, headers={"Authorization": f"Bearer {secret}"}, timeout=20)


def test_a_token_opens_nothing_after_its_end_and_its_streams_end_with_it(party: Party) -> None:
    party.subscribe("k", "/a")
    end = datetime.now(UTC) + timedelta(seconds=0.8)
    with Client(party.url, party.http.headers["Authorization"].removeprefix("Bearer ")) as client:
        created = client.create_token("for a while", ["subscribe"], expires=end)
    assert created.expires is not None
    assert abs((created.expires - end).total_seconds()) < 0.01
    with client_of(party, created.token) as http:
        assert http.get("/me").json()["token"]["expires"]
        with http.stream("GET", "/deliveries/stream", params={"subscriber": "k"}) as stream:
            assert stream.status_code == 200
            list(stream.iter_lines())
        assert datetime.now(UTC) >= end, "the stream ends with the token, and not before"
        problem = check_problem(http.get("/me"), 401, "unauthorized")
    assert "expired" in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [
        {"scopes": ["publish"], "expires": "2020-01-01T00:00:00Z"},
        {"scopes": ["publish"], "expires": "2100-01-01T00:00:00"},
        {"scopes": ["publish"], "expires": "9999-12-31T23:59:59-14:00"},
        {"scopes": ["publish"], "subscribers": ["k"]},
        {"scopes": ["subscribe"], "sources": ["s"]},
        {"scopes": ["publish", "admin"], "sources": ["s"]},
        {"scopes": ["publish"], "sources": []},
    ],
)
def test_tokens_that_make_no_sense_are_refused(party: Party, body: dict[str, Any]) -> None:
    party.problem("POST", "/tokens", 422, "invalid", json={"name": "x", **body})


def test_after_a_rotation_both_secrets_open_for_a_while(party: Party) -> None:
    created = party.ok("POST", "/tokens", 201, json={"name": "feeder", "scopes": ["publish"]})
    rotated = party.ok("POST", f"/tokens/{created['id']}/rotate", 200, json={"keep_seconds": 0.8})
    assert rotated["token"] != created["token"]
    assert (rotated["id"], rotated["name"]) == (created["id"], "feeder")
    with client_of(party, created["token"]) as old, client_of(party, rotated["token"]) as new:
        assert (old.get("/me").status_code, new.get("/me").status_code) == (200, 200)
        until(lambda: old.get("/me").status_code == 401)
        assert new.get("/me").status_code == 200
        again = party.ok("POST", f"/tokens/{created['id']}/rotate", 200, json={"keep_seconds": 0})
        assert new.get("/me").status_code == 401
    with client_of(party, again["token"]) as http:
        assert http.get("/me").status_code == 200
    assert again["token"] not in json.dumps(party.ok("GET", "/tokens"))


def test_a_rotation_that_keeps_nothing_ends_streams(party: Party) -> None:
    party.subscribe("k", "/a")
    created = party.ok("POST", "/tokens", 201, json={"name": "x", "scopes": ["subscribe"]})
    subscriber = {"subscriber": "k"}
    with (
        client_of(party, created["token"]) as http,
        http.stream("GET", "/deliveries/stream", params=subscriber) as stream,
    ):
        party.ok("POST", f"/tokens/{created['id']}/rotate", 200, json={"keep_seconds": 0})
        list(stream.iter_lines())


def test_tokens_of_others_are_not_rotated(broker: RunningBroker) -> None:
    party, other = broker.party(), broker.party()
    created = other.ok("POST", "/tokens", 201, json={"name": "x", "scopes": ["subscribe"]})
    party.problem("POST", f"/tokens/{created['id']}/rotate", 404, "not-found", json={})
    operator = broker.operator.post(f"/tokens/{created['id']}/rotate")
    assert operator.status_code == 200


def test_the_last_use_is_noted(own_broker: Callable[..., RunningBroker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "USES_SECONDS", 0.05)
    party = own_broker().party()
    created = party.ok("POST", "/tokens", 201, json={"name": "x", "scopes": ["publish"]})

    def used() -> Any:
        return next(t for t in party.ok("GET", "/tokens")["tokens"] if t["id"] == created["id"])["used"]

    assert used() is None
    before = time.time()
    with client_of(party, created["token"]) as http:
        http.get("/me")
    until(used)
    assert abs(datetime.fromisoformat(used()).timestamp() - before) < 5


def test_a_token_of_some_sources_publishes_only_as_these(party: Party) -> None:
    created = party.ok("POST", "/tokens", 201, json={"name": "x", "scopes": ["publish"], "sources": ["s", "t"]})
    assert created["sources"] == ["s", "t"]
    with client_of(party, created["token"]) as http:
        xml = {"Content-Type": "application/xml"}
        assert http.post("/messages?source=s", content="<a/>", headers=xml).status_code == 201
        for path in ("/messages", "/messages?source=u"):
            problem = check_problem(http.post(path, content="<a/>", headers=xml), 403, "forbidden")
            assert "may not publish as the source" in problem["detail"]
        lines = {"Content-Type": "application/x-ndjson"}
        batch = '{"xml": "<a/>", "source": "t"}\n{"xml": "<a/>", "source": "u"}'
        check_problem(http.post("/messages", content=batch, headers=lines), 403, "forbidden")
        assert http.get("/me").json()["token"]["sources"] == ["s", "t"]
        for path in ("/rejected", "/statistics", "/sources", "/messages"):
            check_problem(http.get(path), 403, "forbidden")
    assert len(party.ok("GET", "/messages")["messages"]) == 1, "a batch is taken as a whole or not at all"


def test_a_token_of_some_subscribers_receives_only_what_these_get(party: Party) -> None:
    for key in ("mine", "other"):
        party.subscribe(key, "/a")
    party.publish("<a/>")
    secret = party.ok("POST", "/tokens", 201, json={"name": "x", "scopes": ["subscribe"], "subscribers": ["mine"]})[
        "token"
    ]
    with Client(party.url, secret) as client:
        (delivery,) = client.pull("mine", wait=5)
        client.acknowledge("mine", [delivery])
        with pytest.raises(Forbidden, match="may not receive the deliveries of 'other'"):
            client.pull("other")
        with pytest.raises(Forbidden, match="only receive the deliveries of some subscribers"):
            client.subscribe("k", "/a")
    (theirs,) = party.pull("other")
    with client_of(party, secret) as http:
        check_problem(http.get("/deliveries/stream", params={"subscriber": "other"}), 403, "forbidden")
        check_problem(http.post("/deliveries/tickets", json={"subscriber": "other"}), 403, "forbidden")
        ids = {"subscriber": "other", "ids": [theirs["id"]]}
        check_problem(http.post("/deliveries/ack", json=ids), 403, "forbidden")
        check_problem(http.post("/deliveries/nack", json=ids), 403, "forbidden")
        for path in ("/messages", "/messages/1", "/subscriptions", "/subscriptions/export", "/consumers", "/sources"):
            check_problem(http.get(path), 403, "forbidden")
        form = {"token": secret}
        assert http.post("/console/sign-in", data=form).status_code in (403, 422)


def test_operators_keep_a_token_that_does_not_expire(own_broker: Callable[..., RunningBroker]) -> None:
    broker = own_broker()
    end = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    body = {"name": "another", "scopes": ["admin"], "expires": end}
    assert broker.operator.post("/tokens", json=body).status_code == 201
    own = broker.operator.get("/me").json()["token"]["id"]
    check_problem(broker.operator.delete(f"/tokens/{own}"), 409, "conflict")


def test_a_token_that_has_expired_gets_no_other_secret(party: Party) -> None:
    end = datetime.now(UTC) + timedelta(seconds=0.3)
    body = {"name": "over", "scopes": ["publish"], "expires": end.isoformat()}
    created = party.ok("POST", "/tokens", 201, json=body)
    until(lambda: datetime.now(UTC) > end)
    party.problem("POST", f"/tokens/{created['id']}/rotate", 409, "conflict")
