"""What HTTP promises: preconditions, HEAD, links to pages, other origins, a version."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.broker.api.running import Party, RunningBroker, check_problem
from twigcast.broker.api.preconditions import Preconditions
from twigcast.broker.config import ConfigError, load
from twigcast.broker.errors import PreconditionFailed
from twigcast.broker.model import Scope
from twigcast.client import Client

S = "/subscriptions/k"


def test_a_change_is_made_only_of_what_was_seen(party: Party) -> None:
    created = party.http.post("/subscriptions", json={"key": "k", "query": "/a"})
    first = created.headers["etag"]
    assert party.http.get(S).headers["etag"] == first
    party.publish("<a/>")
    assert party.http.get(S).headers["etag"] == first, "what is pending is no setting"
    changed = party.http.put(S, json={"query": "/b"}, headers={"If-Match": first})
    assert changed.status_code == 200
    second = changed.headers["etag"]
    assert second != first
    for method, more in (("PUT", {"json": {"query": "/c"}}), ("PATCH", {"json": {"query": "/c"}}), ("DELETE", {})):
        for tag in (first, f"W/{second}", f"{first}, W/{second}"):
            problem = party.problem(method, S, 412, "precondition-failed", headers={"If-Match": tag}, **more)
            assert problem["etag"] == second
    assert party.ok("GET", S)["query"] == "/b"
    patched = party.http.patch(S, json={"state": "paused"}, headers={"If-Match": f'"x", {second}'})
    assert patched.status_code == 200
    assert patched.headers["etag"] not in (first, second)
    assert party.http.delete(S, headers={"If-Match": "*"}).status_code == 204
    party.problem("PUT", S, 412, "precondition-failed", json={"query": "/a"}, headers={"If-Match": "*"})
    party.problem("GET", S, 404, "not-found")


def test_of_many_who_saw_the_same_one_changes_it(party: Party) -> None:
    tag = party.http.post("/subscriptions", json={"key": "k", "query": "/a"}).headers["etag"]

    def change(number: int) -> int:
        body = {"query": f"/a[@n = {number}]"}
        return party.http.put(S, json=body, headers={"If-Match": tag}).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(change, range(8))) == [200] + 7 * [412]


def test_if_none_match_creates_only_and_spares_what_is_known(party: Party) -> None:
    assert party.http.put(S, json={"query": "/a"}, headers={"If-None-Match": "*"}).status_code == 201
    party.problem("PUT", S, 412, "precondition-failed", json={"query": "/b"}, headers={"If-None-Match": "*"})
    tag = party.http.get(S).headers["etag"]
    for known in (tag, f"W/{tag}", f'"x" , {tag}', "*"):
        for method in ("GET", "HEAD"):
            answer = party.http.request(method, S, headers={"If-None-Match": known})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
    assert party.http.get(S, headers={"If-None-Match": '"x"'}).json()["query"] == "/a"
    party.problem("GET", S, 412, "precondition-failed", headers={"If-Match": '"x"'})


@pytest.mark.parametrize("path", ["/sources/s", "/messages/{seq}", "/messages/{seq}/xml"])
def test_other_things_have_tags(party: Party, path: str) -> None:
    party.ok("PUT", "/sources/s", 201, json={})
    address = path.format(seq=party.publish("<a/>")["seq"])
    tag = party.http.get(address).headers["etag"]
    assert party.http.get(address, headers={"If-None-Match": tag}).status_code == 304
    if path == "/sources/s":
        changed = party.http.put(address, json={"doctype": "refuse"}, headers={"If-Match": tag})
        assert changed.status_code == 200
        party.problem("PUT", address, 412, "precondition-failed", json={}, headers={"If-Match": tag})
        party.problem("DELETE", address, 412, "precondition-failed", headers={"If-Match": tag})
        party.problem("PUT", address, 412, "precondition-failed", json={}, headers={"If-None-Match": "*"})
        assert party.http.delete(address, headers={"If-Match": changed.headers["etag"]}).status_code == 204


@pytest.mark.parametrize("field", ["abc", '"a', '"a" "b"', "W/", 'w/"a"', '"a"; "b"', '"*', "*, *"])
@pytest.mark.parametrize("name", ["If-Match", "If-None-Match"])
def test_a_precondition_that_cannot_be_read_is_refused(party: Party, name: str, field: str) -> None:
    party.problem("PUT", S, 400, "invalid-precondition", json={"query": "/a"}, headers={name: field})
    party.problem("GET", S, 404, "not-found")


@pytest.mark.parametrize(
    "field", ['"a"' + ", " * 30_000 + "x", '"a"' + " " * 60_000 + "x", "," * 60_000, '"a",' * 15_000 + '"']
)
def test_a_field_that_invites_to_try_many_ways_is_read_once(party: Party, field: str) -> None:
    party.problem("GET", "/subscriptions/none", 400, "invalid-precondition", headers={"If-None-Match": field})


@pytest.mark.parametrize("field", ['"a"', ' ,, W/"b" ,\t"a",', '"b","a"', '"b"  ,  "a" , '])
def test_lists_of_tags_may_have_gaps(field: str) -> None:
    Preconditions(field).check('"a"')


@pytest.mark.parametrize(
    ("match", "none_match", "tag", "is_reading", "is_permitted"),
    [
        # RFC 9110, section 8.8.3.2: strong and weak comparison.
        ('"1"', None, '"1"', False, True),
        ('W/"1"', None, '"1"', False, False),
        ('W/"1"', None, 'W/"1"', False, False),
        ('"1"', None, '"2"', False, False),
        ('"1"', None, None, False, False),
        ("*", None, '"1"', False, True),
        (None, '"1"', '"1"', False, False),
        (None, 'W/"1"', '"1"', False, False),
        (None, '"2"', '"1"', False, True),
        (None, "*", '"1"', False, False),
        (None, "*", None, False, True),
        (None, '"1"', '"1"', True, True),
        ('"a,b"', None, '"a,b"', False, True),
        ('"a", "b"', None, '"a, b"', False, False),
    ],
)
def test_comparisons_of_tags(
    match: str | None, none_match: str | None, tag: str | None, is_reading: bool, is_permitted: bool
) -> None:
    conditions = Preconditions(match, none_match, is_reading)
    if is_permitted:
        conditions.check(tag)
    else:
        with pytest.raises(PreconditionFailed):
            conditions.check(tag)


def test_head_is_get_without_a_body(party: Party) -> None:
    party.subscribe("k", "/a")
    seq = party.publish("<a/>")["seq"]
    for path in ("/health", "/me", S, "/subscriptions", f"/messages/{seq}/xml", "/openapi.json"):
        got, head = party.http.get(path), party.http.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
        assert head.headers["content-length"] == got.headers["content-length"]
    assert party.http.head("/subscriptions/none").status_code == 404
    for path in ("/deliveries?subscriber=k", "/deliveries/stream?subscriber=k"):
        assert party.http.head(path).status_code == 405, "it would take deliveries, and show none"
    assert len(party.pull("k")) == 1
    assert "HEAD" in party.http.put("/me").headers["allow"]


@pytest.mark.parametrize("path", ["/subscriptions", "/messages", "/messages?newest=true", "/consumers", "/rejected"])
def test_pages_are_linked(party: Party, path: str) -> None:
    for number in range(5):
        party.subscribe(f"k &{number}", "/a", subscriber=f"s&= {number}")
        party.publish(f"<a>{number}</a>")
        party.http.post("/messages", content="<a>", headers={"Content-Type": "text/xml"})
    name = path.split("?")[0].strip("/")
    following: str | None = f"{path}{'&' if '?' in path else '?'}limit=2"
    seen: list[Any] = []
    pages = 0
    while following:
        answer = party.http.get(following)
        seen += answer.json()[name]
        following = answer.links.get("next", {}).get("url")
        pages += 1
    assert pages == 3
    assert len({json.dumps(item) for item in seen}) == len(seen) == 5


def test_each_path_can_be_written_with_the_version(party: Party) -> None:
    assert party.ok("GET", "/v1/me") == party.ok("GET", "/me")
    assert party.ok("POST", "/v1/messages?source=s", 201, content="<a/>", headers={"Content-Type": "text/xml"})
    party.ok("PUT", "/v1/subscriptions/a%2Fb", 201, json={"query": "/a"})
    assert party.ok("GET", "/subscriptions/a%2Fb")["key"] == "a/b"
    party.problem("GET", "/v2/me", 404, "not-found")
    party.problem("GET", "/v1/v1/me", 404, "not-found")


def test_pages_of_other_origins_may_ask_where_that_is_set(own_broker: Callable[..., RunningBroker]) -> None:
    origin = "https://app.example.org"
    broker = own_broker(cors_origins=[origin])
    party = broker.party()
    asked = {"Origin": origin, "Access-Control-Request-Method": "PUT"}
    asked["Access-Control-Request-Headers"] = "authorization, if-match, content-type"
    preflight = httpx2.options(f"{broker.url}{S}", headers=asked)
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == origin
    answer = party.http.get("/me", headers={"Origin": origin})
    assert answer.headers["access-control-allow-origin"] == origin
    assert "ETag" in answer.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    refused = httpx2.get(f"{broker.url}/me", headers={"Origin": origin})
    check_problem(refused, 401, "unauthorized")
    assert refused.headers["access-control-allow-origin"] == origin, "a page can read why"
    other = {"Origin": "https://evil.example"}
    assert "access-control-allow-origin" not in party.http.get("/me", headers=other).headers
    assert httpx2.options(f"{broker.url}{S}", headers={**asked, **other}).status_code == 400


def test_by_default_no_other_origin_may_ask(party: Party) -> None:
    answer = party.http.get("/me", headers={"Origin": "https://app.example.org"})
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", ["app.example.org", "https://app.example.org/", "https://a.example/x", "null"])
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match="is no origin"):
        load({"cors_origins": origin})


def test_operations_have_ids_of_a_verb_and_an_object(broker: RunningBroker) -> None:
    paths = broker.operator.get("/openapi.json").json()["paths"]
    ids = [operation["operationId"] for path in paths.values() for operation in path.values()]
    assert len(set(ids)) == len(ids)
    assert not [name for name in ids if "_" not in name]


def test_the_client_changes_only_what_it_has_seen(party: Party) -> None:
    with Client(party.url, party.tokens[Scope.ADMIN]) as client:
        seen = client.subscribe("k", "/a")
        changed = client.replace("k", "/b", only_if=seen)
        assert changed.etag != seen.etag
        for call in (client.replace, lambda key, _, only_if: client.unsubscribe(key, only_if=only_if)):
            with pytest.raises(PreconditionFailed, match="does not hold"):
                call("k", "/c", only_if=seen)
        client.unsubscribe("k", only_if=changed)
        source = client.put_source("s")
        client.put_source("s", doctype="refuse", only_if=source)
        with pytest.raises(PreconditionFailed):
            client.put_source("s", only_if=source)
        assert client.source("s").doctype == "refuse"
