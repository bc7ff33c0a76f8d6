"""Who may do what, and that tenants see only their own: every route is asked, as the description lists them."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from typer.testing import CliRunner

from tests.broker.api.running import Party, RunningBroker, check_problem
from twigcast.broker import logs
from twigcast.broker.model import Scope
from twigcast.broker.tokens import create_token
from twigcast.cli import app

# Routes that need no token, with what lets them be so.
OPEN = {
    ("GET", "/health"),
    ("GET", "/ready"),
    ("GET", "/feeds/{token}/{kind}/{name}"),  # its address is a secret
    ("POST", "/websub"),  # its topics are secrets
}
# What a token needs, for each route; ``None``: any token will do.
SCOPES: dict[tuple[str, str], Scope | str | None] = {
    ("POST", "/messages"): Scope.PUBLISH,
    ("GET", "/messages"): Scope.SUBSCRIBE,
    ("GET", "/messages/{seq}"): Scope.SUBSCRIBE,
    ("GET", "/messages/{seq}/lifecycle"): Scope.SUBSCRIBE,
    ("GET", "/messages/{seq}/xml"): Scope.SUBSCRIBE,
    ("GET", "/rejected"): Scope.PUBLISH,
    ("GET", "/rejected/{rejected}"): Scope.PUBLISH,
    ("GET", "/rejected/{rejected}/body"): Scope.PUBLISH,
    ("DELETE", "/rejected/{rejected}"): Scope.PUBLISH,
    ("POST", "/subscriptions"): Scope.SUBSCRIBE,
    ("GET", "/subscriptions"): Scope.SUBSCRIBE,
    ("POST", "/subscriptions/import"): Scope.SUBSCRIBE,
    ("GET", "/subscriptions/export"): Scope.SUBSCRIBE,
    ("GET", "/subscriptions/{key}"): Scope.SUBSCRIBE,
    ("PUT", "/subscriptions/{key}"): Scope.SUBSCRIBE,
    ("PATCH", "/subscriptions/{key}"): Scope.SUBSCRIBE,
    ("DELETE", "/subscriptions/{key}"): Scope.SUBSCRIBE,
    ("GET", "/subscriptions/{key}/window"): Scope.SUBSCRIBE,
    ("POST", "/subscriptions/{key}/pause"): Scope.SUBSCRIBE,
    ("POST", "/subscriptions/{key}/resume"): Scope.SUBSCRIBE,
    ("POST", "/subscriptions/{key}/seek"): Scope.SUBSCRIBE,
    ("GET", "/subscriptions/{key}/errors"): Scope.SUBSCRIBE,
    ("GET", "/subscriptions/{key}/deliveries"): Scope.SUBSCRIBE,
    ("GET", "/subscriptions/{key}/feed"): Scope.SUBSCRIBE,
    ("POST", "/check"): Scope.SUBSCRIBE,
    ("POST", "/explain"): Scope.SUBSCRIBE,
    ("GET", "/deliveries"): Scope.SUBSCRIBE,
    ("POST", "/deliveries/ack"): Scope.SUBSCRIBE,
    ("POST", "/deliveries/nack"): Scope.SUBSCRIBE,
    ("POST", "/deliveries/extend"): Scope.SUBSCRIBE,
    ("POST", "/deliveries/tickets"): Scope.SUBSCRIBE,
    ("GET", "/deliveries/stream"): Scope.SUBSCRIBE,
    ("GET", "/dead-letters"): Scope.SUBSCRIBE,
    ("GET", "/overlay"): "operator",
    ("GET", "/overlay/messages/{seq}"): Scope.SUBSCRIBE,
    ("GET", "/overlay/sources"): Scope.SUBSCRIBE,
    ("GET", "/overlay/sources/{name}"): Scope.SUBSCRIBE,
    ("PUT", "/overlay/sources/{name}"): Scope.PUBLISH,
    ("DELETE", "/overlay/sources/{name}"): Scope.PUBLISH,
    ("POST", "/overlay/choice"): Scope.SUBSCRIBE,
    ("PUT", "/overlay/profiles/{name}"): Scope.SUBSCRIBE,
    ("DELETE", "/overlay/profiles/{name}"): Scope.SUBSCRIBE,
    ("DELETE", "/overlay/brokers/{name}"): "operator",
    ("POST", "/dead-letters/retry"): Scope.SUBSCRIBE,
    ("POST", "/dead-letters/delete"): Scope.SUBSCRIBE,
    ("GET", "/consumers"): Scope.SUBSCRIBE,
    ("GET", "/consumers/{subscriber}"): Scope.SUBSCRIBE,
    ("POST", "/consumers/{subscriber}/purge"): Scope.SUBSCRIBE,
    ("POST", "/consumers/{subscriber}/skip"): Scope.SUBSCRIBE,
    ("POST", "/consumers/{subscriber}/seek"): Scope.SUBSCRIBE,
    ("POST", "/consumers/{subscriber}/redrive"): Scope.SUBSCRIBE,
    ("GET", "/sources"): None,
    ("GET", "/sources/{name}"): None,
    ("GET", "/sources/{name}/feed"): None,
    ("GET", "/sources/{name}/polls"): None,
    ("PUT", "/sources/{name}"): Scope.ADMIN,
    ("DELETE", "/sources/{name}"): Scope.ADMIN,
    ("POST", "/sources/{name}/pause"): Scope.ADMIN,
    ("POST", "/sources/{name}/resume"): Scope.ADMIN,
    ("GET", "/tables"): None,
    ("GET", "/tables/{name}"): None,
    ("GET", "/tables/{name}/rows"): None,
    ("PUT", "/tables/{name}"): Scope.ADMIN,
    ("DELETE", "/tables/{name}"): Scope.ADMIN,
    ("GET", "/me"): None,
    ("GET", "/statistics"): None,
    ("POST", "/tokens/{token}/rotate"): Scope.ADMIN,
    ("GET", "/tokens"): Scope.ADMIN,
    ("POST", "/tokens"): Scope.ADMIN,
    ("DELETE", "/tokens/{token}"): Scope.ADMIN,
    ("GET", "/tenants"): "operator",
    ("POST", "/tenants"): "operator",
    ("PATCH", "/tenants/{name}"): "operator",
    ("DELETE", "/tenants/{name}"): "operator",
    ("GET", "/clock"): "operator",
    ("POST", "/clock/confirm"): "operator",
    ("GET", "/metrics"): "operator",
}

# A body that passes validation, so that what is answered is about access.
BODIES: dict[tuple[str, str], Any] = {
    ("POST", "/subscriptions"): {"key": "theirs", "query": "/a"},
    ("PUT", "/subscriptions/{key}"): {"query": "/stolen"},
    ("PATCH", "/subscriptions/{key}"): {"query": "/stolen"},
    ("POST", "/subscriptions/{key}/seek"): {"seq": 0},
    ("POST", "/check"): {"query": "/a"},
    ("POST", "/explain"): {"key": "mine", "xml": "<a/>"},
    ("POST", "/deliveries/ack"): {"subscriber": "mine", "up_to": "4000000000-1"},
    ("POST", "/deliveries/nack"): {"subscriber": "mine", "ids": ["1-1"]},
    ("POST", "/deliveries/extend"): {"subscriber": "mine", "ids": ["1-1"], "seconds": 5},
    ("POST", "/deliveries/tickets"): {"subscriber": "mine"},
    ("POST", "/dead-letters/retry"): {"dead_letters": [1]},
    ("POST", "/dead-letters/delete"): {"dead_letters": [1]},
    ("PUT", "/sources/{name}"): {"kind": "push", "paused": True},
    ("POST", "/tokens"): {"name": "x", "scopes": ["publish"]},
    ("POST", "/tenants"): {"name": "made by a test"},
    ("PATCH", "/tenants/{name}"): {"limits": {}},
}


def routes(broker: RunningBroker) -> list[tuple[str, str]]:
    paths = broker.operator.get("/openapi.json").json()["paths"]
    results = [(method.upper(), path) for path, methods in paths.items() for method in methods]
    return [route for route in results if not route[1].startswith("/console")]


def ask(
    http: httpx2.Client, route: tuple[str, str], values: dict[str, str], headers: dict[str, str]
) -> httpx2.Response:
    method, path = route
    for name, value in values.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    more: dict[str, Any] = {}
    if route in BODIES:
        more["json"] = BODIES[route]
    elif method == "POST" and path in {"/messages", "/subscriptions/import"}:
        more["content"] = b'{"xml": "<a/>"}\n'
        headers = {**headers, "Content-Type": "application/x-ndjson"}
    if route == ("PUT", "/tables/{name}"):
        more["content"] = b"key\nstolen\n"
        headers = {**headers, "Content-Type": "text/csv"}
    if path.startswith("/deliveries") and method == "GET":
        more["params"] = {"subscriber": "mine"}
    return http.request(method, path, headers=headers, **more)


NOWHERE = {"seq": "1", "rejected": "1", "key": "nope", "name": "nope", "token": "1", "kind": "sources"}


def test_every_route_is_known_to_this_test(broker: RunningBroker) -> None:
    assert set(routes(broker)) == OPEN | set(SCOPES)


def test_no_route_answers_without_a_token(broker: RunningBroker) -> None:
    with httpx2.Client(base_url=broker.url) as http:
        for route in SCOPES:
            for headers in (
                {},
                {"Authorization": "Bearer tc_" + "x" * 43},
                {"Authorization": f"Basic {broker.operator_token}"},
                {"Authorization": "Bearer"},
                {"Authorization": broker.operator_token},
                {"Authorization": "Bearer \u20ac".encode()},
            ):
                response = ask(http, route, NOWHERE, headers)  # type: ignore[arg-type]
                check_problem(response, 401, "unauthorized")
                assert response.headers["www-authenticate"].startswith("Bearer")


def test_the_matrix_of_scopes(broker: RunningBroker) -> None:
    party = broker.party()
    with httpx2.Client(base_url=broker.url) as http:
        for route, needed in SCOPES.items():
            for scope in (Scope.PUBLISH, Scope.SUBSCRIBE, Scope.ADMIN):
                response = ask(http, route, NOWHERE, party.headers(scope))
                permitted = needed is None or needed == scope or (scope is Scope.ADMIN and needed != "operator")
                if permitted:
                    assert response.status_code not in (401, 403), (route, scope, response.text)
                else:
                    check_problem(response, 403, "forbidden")


def test_tenants_see_only_their_own(broker: RunningBroker) -> None:
    """One tenant has something of everything; another asks every route for it by name."""
    owner, other = broker.party(), broker.party()
    owner.subscribe("mine", "//secret-element")
    owner.ok("PUT", "/sources/mine", 201, json={"dtd": "<!ELEMENT secret-element ANY>"})
    seq = owner.publish("<secret-element>secret-text</secret-element>", id="secret-id", source="mine")["seq"]
    delivery = owner.pull("mine", visibility=0.05)[0]["id"]
    rejected = owner.problem(
        "POST", "/messages", 422, "message-malformed", content=b"<secret-element>", headers={"Content-Type": "text/xml"}
    )["rejected"]
    token = owner.ok("GET", "/tokens")["tokens"][0]["id"]
    before = state(owner)
    values = {
        "seq": str(seq), "rejected": str(rejected), "key": "mine", "name": "mine", "token": str(token),
        "kind": "sources",
    }  # fmt: skip
    # What makes something of the same name comes last.
    for route, needed in sorted(SCOPES.items(), key=lambda item: item[0][0] in {"PUT", "POST"}):
        response = ask(other.http, route, values, other.headers())
        assert "secret" not in response.text, route
        if needed == "operator":
            check_problem(response, 403, "forbidden")
        elif "{" in route[1] and route[0] not in {"PUT", "POST"}:
            check_problem(response, 404, "not-found")
    for query in ({"id": "secret-id"}, {"source": "mine"}, {"after": 0}, {"newest": True}):
        assert other.ok("GET", "/messages", params=query)["messages"] == [] or "secret" not in json.dumps(
            other.ok("GET", "/messages", params={**query, "xml": True})
        )
    for body in (
        {"query": "/a", "seq": seq},
        {"query": "/a", "message": "secret-id"},
        {"subscriber": "mine", "xml": "<a/>"},
    ):
        response = other.http.post("/explain", json=body)
        assert response.status_code == 404 or "secret" not in response.text
    # A start in another tenant's past is a place in one's own.
    other.subscribe("thief", "//*", **{"from": {"seq": seq}})
    other.problem(
        "POST", "/subscriptions", 404, "not-found", json={"key": "t2", "query": "/a", "from": {"message": "secret-id"}}
    )
    assert all("secret" not in item["xml"] for item in other.pull("thief", wait=0.3))
    # So is what a subscription begins anew with.
    for target, status, code in (
        ({"message": "secret-id"}, 404, "not-found"),
        ({"delivery": delivery}, 409, "unknown-delivery"),
    ):
        other.problem("POST", "/subscriptions/thief/seek", status, code, json=target)
    for target in ({"seq": 0}, {"seq": seq}):
        other.ok("POST", "/subscriptions/thief/seek", json=target)
        assert all("secret" not in item["xml"] for item in other.pull("thief", wait=0.3))
    for path in ("/tokens", "/statistics"):
        assert owner.name not in other.http.get(path).text
    other.problem("GET", "/tokens", 404, "not-found", params={"tenant": owner.name})
    other.problem("POST", "/tokens", 404, "not-found", json={"name": "x", "scopes": ["admin"], "tenant": owner.name})
    assert state(owner) == before, "nothing of the owner's has changed"


def state(party: Party) -> list[Any]:
    paths = [
        "/messages?xml=true",
        "/rejected",
        "/subscriptions",
        "/sources",
        "/tokens",
        "/dead-letters",
        "/subscriptions/mine",
    ]
    results = [party.ok("GET", path) for path in paths]
    results[0].pop("cursor")  # of all tenants
    return results


def test_ids_of_lanes_and_subscriptions_of_others_do_nothing(broker: RunningBroker) -> None:
    owner, other = broker.party(), broker.party()
    owner.subscribe("mine", "/a")
    other.subscribe("mine", "/a")
    owner.publish("<a/>")
    other.publish("<a/>")
    (theirs,) = owner.pull("mine", visibility=0.05)
    other.ok("POST", "/deliveries/nack", 204, json={"subscriber": "mine", "ids": [theirs["id"]]})
    for more in ({"ids": [theirs["id"]]}, {"up_to": theirs["id"]}):
        body = {"subscriber": "mine", **more}
        problem = other.problem("POST", "/deliveries/ack", 409, "unknown-delivery", json=body)
        assert problem["newest"] is None
    # Nor do they once the other has a delivery itself, which alone is named.
    (own,) = other.pull("mine", visibility=0.05)
    for more in ({"ids": [theirs["id"], own["id"]]}, {"up_to": theirs["id"]}):
        body = {"subscriber": "mine", **more}
        problem = other.problem("POST", "/deliveries/ack", 409, "unknown-delivery", json=body)
        assert problem["newest"] == own["id"]
    assert [item["id"] for item in other.pull("mine")] == [own["id"]]
    assert [item["id"] for item in owner.pull("mine")] == [theirs["id"]]


def test_tokens(broker: RunningBroker) -> None:
    party = broker.party(tokens_max=4)
    assert party.ok("GET", "/me")["tenant"] == party.name
    assert party.ok("GET", "/me")["operator"] is False
    created = party.ok("POST", "/tokens", 201, json={"name": "feeder", "scopes": ["publish"]})
    assert re.fullmatch(r"tc_[A-Za-z0-9_-]{43}", created["token"])
    listed = party.ok("GET", "/tokens")["tokens"]
    assert len(listed) == 4
    assert created["token"] not in json.dumps(listed)
    party.problem("POST", "/tokens", 409, "limit-reached", json={"name": "one more", "scopes": ["publish"]})
    party.problem("POST", "/tokens", 422, "invalid", json={"name": "x", "scopes": []})
    with httpx2.Client(base_url=broker.url, headers={"Authorization": f"bearer {created['token']}"}) as http:
        assert http.get("/me").json()["token"]["name"] == "feeder"
        assert party.http.delete(f"/tokens/{created['id']}").status_code == 204
        check_problem(http.get("/me"), 401, "unauthorized")
    party.problem("DELETE", f"/tokens/{created['id']}", 404, "not-found")


def test_many_requests_at_once_do_not_get_past_a_limit_together(broker: RunningBroker) -> None:
    party = broker.party(tokens_max=10, sources_max=5)
    with ThreadPoolExecutor(16) as pool:
        requested = [
            pool.submit(party.http.post, "/tokens", json={"name": f"t{n}", "scopes": ["publish"]}) for n in range(16)
        ]
        requested += [pool.submit(party.http.put, f"/sources/s{n}", json={}) for n in range(16)]
        statuses = Counter(future.result().status_code for future in requested)
    tokens, sources = (len(party.ok("GET", path)[path[1:]]) for path in ("/tokens", "/sources"))
    assert (tokens, sources) == (10, 5)
    assert statuses[409] == 32 - statuses[201] > 0, statuses


def test_operators_cannot_lock_themselves_out(own_broker: Any) -> None:
    operator = own_broker().operator
    own = operator.get("/me").json()["token"]["id"]
    operator.post("/tokens", json={"name": "feeder", "scopes": ["publish", "subscribe"]}).raise_for_status()
    check_problem(operator.delete(f"/tokens/{own}"), 409, "conflict")
    operator.post("/tokens", json={"name": "second", "scopes": ["admin"]}).raise_for_status()
    assert operator.delete(f"/tokens/{own}").status_code == 204


def test_only_digests_are_stored(broker: RunningBroker) -> None:
    party = broker.party()
    token = party.store_token = party.ok("POST", "/tokens", 201, json={"name": "x", "scopes": ["admin"]})["token"]  # type: ignore[attr-defined]
    kept = repr(broker.store.tokens(party.id))
    assert token not in kept
    assert token[3:20] not in kept


def test_tenants(broker: RunningBroker) -> None:
    party = broker.party()
    operator = broker.operator
    assert party.name in [tenant["name"] for tenant in operator.get("/tenants").json()["tenants"]]
    check_problem(operator.post("/tenants", json={"name": party.name}), 409, "conflict")
    check_problem(operator.post("/tenants", json={"name": "x", "limits": {"nope": 1}}), 422, "invalid")
    check_problem(operator.patch("/tenants/nope", json={"limits": {}}), 404, "not-found")
    path = f"/tenants/{quote(party.name)}"
    assert operator.patch(path, json={"limits": {"subscriptions_max": 0}}).json()["limits"] == {"subscriptions_max": 0}
    party.problem("POST", "/subscriptions", 409, "limit-reached", json={"key": "k", "query": "/a"})
    operator.patch(path, json={"limits": {}}).raise_for_status()
    party.subscribe("k", "/a")
    token = operator.post("/tokens", json={"name": "x", "scopes": ["subscribe"], "tenant": party.name}).json()["token"]
    with httpx2.Client(base_url=broker.url, headers={"Authorization": f"Bearer {token}"}) as http:
        assert http.get("/subscriptions/k").status_code == 200


def test_no_secret_gets_into_the_logs(own_broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    root.setLevel(logging.DEBUG)
    for logger in ("twigcast", "twigcast.access"):
        logging.getLogger(logger).setLevel(logging.DEBUG)
    try:
        broker: RunningBroker = own_broker(log_level="debug")
        party = broker.party()
        secret = "webhook-secret-4711"
        party.subscribe("k", "/a", delivery={"kind": "webhook", "url": "http://127.0.0.1:9/h", "secret": secret})
        party.subscribe("p", "/a")
        ticket = party.ok("POST", "/deliveries/tickets", 201, json={"subscriber": "p"})["ticket"]
        feed = party.ok("GET", "/subscriptions/p/feed")["url"]
        party.http.get(feed)
        with party.http.stream("GET", "/deliveries/stream", params={"subscriber": "p", "ticket": ticket}):
            pass
        new = party.ok("POST", "/tokens", 201, json={"name": "x", "scopes": ["admin"]})["token"]
        party.publish("<a>private-content</a>")
        httpx2.get(f"{broker.url}/me", headers={"Authorization": f"Bearer {new}"})
        httpx2.get(f"{broker.url}/tc_{'y' * 43}")
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
        for logger in ("twigcast", "twigcast.access"):
            logging.getLogger(logger).setLevel(logging.NOTSET)
    text = "\n".join(
        formatter.format(record)
        for record in caplog.records
        if record.name.startswith(("twigcast", "uvicorn"))
        for formatter in (logs.TextFormatter(), logs.JsonFormatter())
    )
    assert "/deliveries/stream" in text, "requests are logged at this level"
    capability = feed.split("/feeds/")[1].split("/")[0]
    for hidden in (
        secret,
        ticket,
        new,
        *party.tokens.values(),
        broker.operator_token,
        "y" * 43,
        "private-content",
        capability,
    ):
        assert hidden not in text


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_token_revoked_beside_the_broker_opens_nothing_any_more(kind: str, request: pytest.FixtureRequest) -> None:
    """By ``twigcast admin``, which works on the store; what the token has opened ends too."""
    broker: RunningBroker = request.getfixturevalue(f"{kind}_broker")
    party = broker.party()
    _, secret = create_token(broker.store, party.id, "leaked", frozenset({Scope.SUBSCRIBE}))
    headers = {"Authorization": f"Bearer {secret}"}
    party.subscribe("k", "/a")
    ticket = httpx2.post(f"{party.url}/deliveries/tickets", json={"subscriber": "k"}, headers=headers).json()["ticket"]
    with httpx2.stream(
        "GET", f"{party.url}/deliveries/stream", params={"subscriber": "k"}, headers=headers, timeout=20
    ) as stream:
        parts = stream.iter_bytes()
        next(parts)
        (leaked,) = [token for token in broker.store.tokens(party.id) if token.name == "leaked"]
        arguments = ["admin", "token", "revoke", str(leaked.id), "--store", broker.settings.store]
        assert CliRunner().invoke(app, arguments).exit_code == 0
        assert httpx2.get(f"{party.url}/me", headers=headers).status_code == 401
        list(parts)
    answer = httpx2.get(f"{party.url}/deliveries/stream", params={"subscriber": "k", "ticket": ticket})
    assert answer.status_code == 401
    party.ok("GET", "/me")
