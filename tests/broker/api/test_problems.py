"""Whatever goes wrong, the answer is a problem document; and what is for those who run a broker."""

from __future__ import annotations

import inspect
import json
import logging
import socket
import sqlite3
from typing import Any

import httpx2
import pytest

from tests.broker.api.running import Party, RunningBroker, check_problem, until
from twigcast.broker import errors, logs
from twigcast.broker.api import problems
from twigcast.broker.api.app import Hosts
from twigcast.broker.config import load
from twigcast.broker.errors import BrokerError, LimitReached, StoreFull, StoreUnavailable, TooMany
from twigcast.errors import (
    DuplicateKey,
    InternalError,
    MalformedMessage,
    MessageLimitExceeded,
    QueryLimitExceeded,
    QuerySyntaxError,
    UndecidedSubscription,
    UnknownKey,
)


def test_unknown_paths_and_methods(party: Party) -> None:
    party.problem("GET", "/nope", 404, "not-found")
    party.problem("GET", "/subscriptions/a/b", 404, "not-found")
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        for path in ("/subscriptions/", "/sources/"):
            result = party.problem(method, path, 404, "not-found", json={"query": "/a"})
            assert result["detail"] == f"there is nothing at {path!r}: the name after the last slash is empty"
    assert len(party.problem("GET", "/" + "x" * 5_000, 404, "not-found")["detail"]) < 300
    response = party.http.request("PUT", "/messages")
    check_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "GET, HEAD, POST"
    response = party.http.request("POST", "/subscriptions/a%2Fb")
    check_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"
    party.problem("GET", "/subscriptions/%ff", 422, "invalid")
    party.problem("GET", "/messages/x", 422, "invalid")
    party.problem("GET", f"/messages/{10**30}", 404, "not-found")
    party.problem("DELETE", f"/tokens/{10**30}", 404, "not-found")


def test_each_problem_names_its_request(party: Party) -> None:
    ids = {party.problem("GET", "/nope", 404, "not-found")["request_id"] for _ in range(3)}
    assert len(ids) == 3


BROKER_ERRORS = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, BrokerError) and error is not BrokerError
]


@pytest.mark.parametrize("error", BROKER_ERRORS)
def test_every_error_of_the_broker_is_a_problem(error: type[BrokerError]) -> None:
    response = problems.response_to(error("why"))
    result = json.loads(bytes(response.body))
    assert response.status_code == error.status
    assert (result["code"], result["detail"]) == (error.code, "why")


@pytest.mark.parametrize(
    ("error", "status", "members"),
    [
        (TooMany("why", 2.4), 429, {}),
        (LimitReached.of("tokens", "tokens_max", 4), 409, {"limit": "tokens_max", "value": 4}),
        (QuerySyntaxError("a[", 3, "why", ["]"]), 422, {"column": 3, "expected": ["]"], "caret": "    a[\n      ^"}),
        (QueryLimitExceeded("query_bytes_max", 5, "why", "//a"), 422, {"limit": "query_bytes_max", "value": 5}),
        (MalformedMessage(2, 3, "why"), 422, {"line": 2, "column": 3}),
        (MessageLimitExceeded("depth_max", 5, "why", 1, 2), 422, {"limit": "depth_max", "line": 1}),
        (UnknownKey("k"), 404, {}),
        (DuplicateKey("k"), 409, {}),
        (UndecidedSubscription("k", "why"), 422, {}),
    ],
)
def test_errors_of_the_library(error: Exception, status: int, members: dict[str, Any]) -> None:
    results = problems.of_error(error)
    assert results["status"] == status
    assert members.items() <= results.items()


@pytest.mark.parametrize(
    "error", [InternalError("secret inside"), RuntimeError("secret inside"), sqlite3.Error("secret inside")]
)
def test_faults_tell_nothing(error: Exception) -> None:
    result = problems.of_error(error)
    assert (result["status"], result["code"]) == (500, "internal")
    assert "secret inside" not in json.dumps(result)


def test_a_fault_is_a_problem_and_in_the_log(
    party: Party, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("secret inside")

    monkeypatch.setattr(broker.store, "statistics", broken)
    problem = party.problem("GET", "/statistics", 500, "internal")
    assert "secret inside" not in json.dumps(problem)
    until(lambda: "secret inside" in caplog.text)


@pytest.mark.parametrize(("error", "status"), [(StoreUnavailable("gone"), 503), (StoreFull("full"), 507)])
def test_a_store_that_does_not_answer(
    party: Party, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, error: BrokerError, status: int
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(broker.store, "subscription", broken)
    monkeypatch.setattr(broker.store, "last_seq", broken)
    response = party.http.get("/subscriptions/k")
    check_problem(response, status, error.code)
    assert response.headers["retry-after"] == "1"
    assert httpx2.get(f"{broker.url}/ready").status_code == 503
    assert httpx2.get(f"{broker.url}/health").status_code == 200


def test_health_and_readiness(broker: RunningBroker) -> None:
    assert httpx2.get(f"{broker.url}/health").json() == {"status": "ok"}
    assert httpx2.get(f"{broker.url}/ready").json() == {"status": "ready"}


def test_metrics_count(own_broker: Any) -> None:
    broker: RunningBroker = own_broker(metrics_public=True)
    party = broker.party()
    party.subscribe("k", "/a")
    for _ in range(3):
        party.publish("<a/>")
    party.http.post("/messages", content=b"<a", headers={"Content-Type": "text/xml"})
    party.pull("k")
    text = httpx2.get(f"{broker.url}/metrics").text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["twigcast_messages_accepted_total"]) == 3
    assert float(values["twigcast_messages_rejected_total"]) == 1
    assert float(values["twigcast_deliveries_total"]) == 3
    assert float(values["twigcast_subscriptions"]) == 1
    assert float(values["twigcast_commit_seconds_count"]) >= 3
    assert float(values["twigcast_streams"]) == 0
    assert float(values["process_resident_memory_bytes"]) > 1_000_000
    assert party.name not in text


def test_hosts_that_are_not_trusted(own_broker: Any) -> None:
    broker: RunningBroker = own_broker(trusted_hosts="127.0.0.1, news.example.org")
    assert httpx2.get(f"{broker.url}/health").status_code == 200
    assert httpx2.get(f"{broker.url}/health", headers={"Host": "News.example.org:8080"}).status_code == 200
    for host in ("evil.example.com", "news.example.org.evil.example.com", "", "[::1]", "[::1]:8080"):
        response = httpx2.get(f"{broker.url}/health", headers={"Host": host})
        check_problem(response, 400, "untrusted-host")


def test_by_default_names_of_others_are_not_trusted(broker: RunningBroker) -> None:
    """A page whose name was made to lead to the broker (DNS rebinding) gets nothing."""
    port = broker.url.rpartition(":")[2]
    for host in ("localhost", f"LOCALHOST:{port}", "127.0.0.1", "[::1]:8080", "10.1.2.3:80"):
        assert httpx2.get(f"{broker.url}/health", headers={"Host": host}).status_code == 200, host
    for host in (
        "evil.example.com",
        f"evil.example.com:{port}",
        "localhost.evil.example",
        "",
        "127.0.0.1.nip.io",
        "::1",
    ):
        result = check_problem(httpx2.get(f"{broker.url}/health", headers={"Host": host}), 400, "untrusted-host")
        told = "is no host" if host in {"", "::1"} else "trusted_hosts"
        assert told in result["detail"]
        assert host.partition(":")[0] in result["detail"]


def test_names_that_go_without_saying() -> None:
    def permits(name: str, **settings: object) -> bool:
        return Hosts.of(load(settings)).permit(name)

    me = socket.gethostname().lower()
    assert permits("news.example.org", public_url="https://News.example.org:8443/x")
    assert permits("broker.internal", host="Broker.internal")
    assert permits(me, host="0.0.0.0") or me == ""
    assert not permits("name-of-this-machine.example", host="0.0.0.0")
    assert permits(me) == (me in {"localhost", ""})
    assert permits("anything.example", trusted_hosts="*")


def test_logs_as_text_and_as_json() -> None:
    record = logging.LogRecord("twigcast.x", logging.WARNING, "x.py", 1, "a %s tc_%s", ("b", "z" * 43), None)
    record.status = 404
    logs.start_request()
    text = logs.TextFormatter().format(record)
    assert "WARNING twigcast.x: a b tc_... [status=404 request_id=" in text
    result = json.loads(logs.JsonFormatter().format(record))
    assert (result["level"], result["logger"], result["message"], result["status"]) == (
        "warning",
        "twigcast.x",
        "a b tc_...",
        404,
    )
    assert result["request_id"] == logs.request_id()
    try:
        raise ValueError("why")
    except ValueError:
        record.exc_info = (ValueError, ValueError("why"), None)
    assert "ValueError: why" in json.loads(logs.JsonFormatter().format(record))["exception"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"key": "k", "query": "/a", "from": 1}', "from: a JSON object is due here"),
        (b"[]", "a JSON object is due here"),
        (b"{bad", "this is no JSON: "),
        (b'{"key": "..", "query": "/a"}', "key: '..' cannot be written in the path of a URL"),
        (b'{"key": "k", "query": "/a", "querry": 1}', "querry: there is no such member; there are delivery, dialect, "),
        (
            b'{"key": "k", "query": "/a", "delivery": {"kind": "webhook", "url": "https://x.example/", "uri": 1}}',
            "uri: there is no such member",
        ),
    ],
)
def test_what_is_wrong_with_a_body_is_told_in_plain_words(party: Party, body: bytes, said: str) -> None:
    headers = {"Content-Type": "application/json"}
    problem = party.problem("POST", "/subscriptions", 422, "invalid", content=body, headers=headers)
    assert said in problem["detail"]
