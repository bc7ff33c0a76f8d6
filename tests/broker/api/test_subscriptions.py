"""``/subscriptions``, ``/check`` and ``/explain``."""

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.broker.api.running import Party, RunningBroker, check_problem, until
from twigcast.broker import options
from twigcast.broker.api import queries
from twigcast.broker.model import Scope
from twigcast.client import Client

CAP = "urn:oasis:names:tc:emergency:cap:1.2"


def at(key: str) -> str:
    return f"/subscriptions/{quote(key, safe='')}"


def test_a_life(party_on_each_store: Party) -> None:
    party = party_on_each_store
    created = party.subscribe("k", "//c:info[c:event = 'Flood']", namespaces={"c": CAP})
    assert created["state"] == "active"
    assert created["subscriber"] == "k"
    assert created["delivery"] == {"kind": "pull", "url": None, "signed": False, "expires": None}
    party.problem("POST", "/subscriptions", 409, "conflict", json={"key": "k", "query": "/a"})
    party.publish(f"<info xmlns='{CAP}'><event>Flood</event></info>")
    assert party.ok("GET", at("k"))["pending"] == 1

    replaced = party.ok("PUT", at("k"), json={"query": "/b"})
    assert (replaced["query"], replaced["namespaces"]) == ("/b", {})
    party.publish("<b/>")
    assert len(party.pull("k", visibility=0.1)) == 2, "what was pending stays"

    assert party.ok("POST", f"{at('k')}/pause")["state"] == "paused"
    party.publish("<b>missed</b>")
    assert party.ok("POST", f"{at('k')}/resume")["state"] == "active"
    party.publish("<b>3</b>")
    assert party.ok("GET", at("k"))["pending"] == 3

    assert party.ok("PATCH", at("k"), json={"query": "/c", "state": "paused"})["state"] == "paused"
    assert party.ok("GET", at("k"))["query"] == "/c"
    assert party.http.delete(at("k")).status_code == 204
    for method, path in [("GET", at("k")), ("DELETE", at("k")), ("POST", f"{at('k')}/pause"), ("PATCH", at("k"))]:
        party.problem(method, path, 404, "not-found", **({"json": {}} if method == "PATCH" else {}))
    party.problem("GET", "/deliveries", 404, "not-found", params={"subscriber": "k"})


def test_numbers_with_exponents_are_asked_for_by_a_field(party: Party) -> None:
    heavy = {"query": "//planet[@mass > 1000000]", "numbers": "xs:double"}
    assert party.ok("POST", "/subscriptions", 201, json={"key": "read", **heavy})["dialect"] == "doubles"
    assert party.subscribe("unread", heavy["query"])["dialect"] == "xpath"
    party.publish("<planet mass='5.97e24'/>")
    assert [party.ok("GET", at(key))["pending"] for key in ("read", "unread")] == [1, 0]
    assert party.ok("PATCH", at("unread"), json={"numbers": "xs:double"})["dialect"] == "doubles"
    assert party.ok("PUT", at("read"), json={"query": heavy["query"]})["dialect"] == "xpath"
    assert "xs:double" in party.ok("POST", "/check", json=heavy)["normal_form"]
    explained = party.ok("POST", "/explain", json={**heavy, "xml": "<planet mass='5.97e24'/>"})
    assert [one["matches"] for one in explained["explanations"]] == [True]
    for wrong in ({"numbers": "double"}, {"numbers": "xs:double", "dialect": "legacy"}):
        party.problem("POST", "/subscriptions", 422, "invalid", json={"key": "k", "query": "//a", **wrong})


def test_parameters_are_beside_the_query(party_on_each_store: Party) -> None:
    party, query = party_on_each_store, "//a[@k = $k and @n >= $n]"
    params = {"k": ["storm", "it's"], "n": 2.5}
    assert (
        party.ok("POST", "/subscriptions", 201, json={"key": "k", "query": query, "params": params})["params"] == params
    )
    party.publish("<r><a k='storm' n='3'/></r>")
    party.publish("<r><a k='storm' n='2'/></r>")
    assert party.ok("GET", at("k"))["pending"] == 1
    assert party.ok("GET", at("k"))["params"] == params
    assert party.ok("PATCH", at("k"), json={"params": {"k": "storm", "n": 1}})["params"] == {"k": "storm", "n": 1}
    party.publish("<r><a k='storm' n='2'/></r>")
    assert party.ok("GET", at("k"))["pending"] == 2
    exported = [json.loads(line) for line in party.http.get("/subscriptions/export").text.splitlines()]
    assert [line["params"] for line in exported] == [{"k": "storm", "n": 1}]
    assert party.ok("POST", "/check", json={"query": query, "params": params})["valid"]
    assert "$n" in party.ok("POST", "/check", json={"query": query, "params": {"k": 1}})["reason"]
    explained = {"key": "k", "xml": "<r><a k='storm' n='2'/></r>"}
    assert party.ok("POST", "/explain", json=explained)["explanations"][0]["matches"]
    party.problem("PUT", at("k"), 422, "query-syntax", json={"query": "//a[@k = $k]"})


def test_put_makes_what_is_not_there(party: Party) -> None:
    assert party.http.put(at("new"), json={"query": "/a"}).status_code == 201
    assert party.http.put(at("new"), json={"query": "/b"}).status_code == 200
    party.problem("PUT", at("new"), 409, "conflict", json={"query": "/b", "subscriber": "other"})
    party.problem("PUT", at("new"), 409, "conflict", json={"query": "/b", "from": {"seq": 1}})


ODD_KEYS = [
    "a/b", "a//b", "/", "a?b", "a#b", "a%2Fb", "%", "100%", " ", "a b", "export", "import", "k/pause", "k/errors",
    "\u20ac", "\U0001f600", "e\u0301", "\n", "\x7f", "<a b='c'>&amp;", "'; DROP TABLE subscriptions; --",
    '"', "\\", "...",
    "a" * 512, "\u20ac" * 512, "\u202e", "+", "a+b", "null", "0", "~", ";", ":", "@",
]  # fmt: skip


@pytest.mark.slow
def test_keys_may_hold_any_text(party_on_each_store: Party) -> None:
    party = party_on_each_store
    for key in ODD_KEYS:
        response = party.http.post("/subscriptions", json={"key": key, "query": "/a"})
        assert response.status_code == 201, (key, response.text)
        location = response.headers["location"]
        if key not in {"export", "import"}:
            assert party.ok("GET", location)["key"] == key
        assert party.ok("PUT", at(key), json={"query": "/a[1]"})["key"] == key
        assert party.ok("POST", f"{at(key)}/pause")["state"] == "paused"
        assert party.ok("POST", f"{at(key)}/resume")["state"] == "active"
        assert party.ok("GET", "/subscriptions", params={"key": key})["subscriptions"][0]["key"] == key
    party.publish("<a/>")
    for key in ODD_KEYS:
        (delivery,) = party.pull(key)
        assert delivery["key"] == key
        party.ok("POST", "/deliveries/ack", 204, json={"subscriber": key, "ids": [delivery["id"]]})
    listed, after = [], None
    while True:
        page = party.ok("GET", "/subscriptions", params={"limit": 7} | ({"after": after} if after else {}))
        listed += [item["key"] for item in page["subscriptions"]]
        after = page["next"]
        if after is None:
            break
    assert sorted(listed) == sorted(ODD_KEYS)
    for key in ODD_KEYS:
        assert party.http.delete(at(key)).status_code == 204


@pytest.mark.parametrize("key", ["", ".", "..", "\0", "a\0b", "k" * 513])
def test_keys_that_cannot_be_kept_are_refused(party: Party, key: str) -> None:
    problem = party.problem("POST", "/subscriptions", 422, "invalid", json={"key": key, "query": "/a"})
    assert problem["errors"][0]["field"] == "key"


def test_half_of_a_surrogate_pair_is_refused(party: Party) -> None:
    for body in (b'{"key": "\\ud800", "query": "/a"}', b'{"key": "k", "query": "/a[. = \'\\ud800\']"}'):
        party.problem(
            "POST", "/subscriptions", 422, "invalid", content=body, headers={"Content-Type": "application/json"}
        )


def test_a_refused_query_points_at_the_place(party: Party) -> None:
    problem = party.problem("POST", "/subscriptions", 422, "query-syntax", json={"key": "k", "query": "//a[b = ]"})
    assert problem["column"] == 9
    assert problem["caret"] == "    //a[b = ]\n            ^"
    problem = party.problem(
        "POST", "/subscriptions", 422, "query-undeclared-prefix", json={"key": "k", "query": "/x:a"}
    )
    assert problem["column"] == 2
    # No code is run, whatever language it is in.
    for query in ("import os; os.system('id')", "${7*7}", "{{ 7 * 7 }}", "$doc/a/script()", "(function(){})()"):
        response = party.http.post("/subscriptions", json={"key": "k", "query": query})
        assert response.status_code == 422, query
        assert response.json()["code"].startswith("query"), query
    assert party.ok("GET", "/subscriptions")["subscriptions"] == []


def test_a_query_over_the_limit_is_refused(party: Party) -> None:
    query = "/a[" + " or ".join(f"b = {n}" for n in range(120_000)) + "]"
    problem = party.problem("POST", "/subscriptions", 422, "query-limit", json={"key": "k", "query": query})
    assert problem["limit"] == "query_bytes_max"
    checked = party.ok("POST", "/check", json={"query": query})
    assert (checked["valid"], checked["code"]) == (False, "query-limit")


def test_doubts_come_with_the_answer(party: Party) -> None:
    created = party.subscribe("k", "true()")
    assert created["warnings"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"query": "/a"}, "key"),
        ({"key": "k"}, "query"),
        ({"key": "k", "query": 7}, "query"),
        ({"key": "k", "query": "/a", "quary": "/b"}, "quary"),
        ({"key": "k", "query": "/a", "dialect": "sql"}, "dialect"),
        ({"key": "k", "query": "/a", "delivery": {"kind": "webhook"}}, "delivery.url"),
        ({"key": "k", "query": "/a", "delivery": {"kind": "websub", "url": "http://a.example/"}}, "delivery.kind"),
        ({"key": "k", "query": "/a", "delivery": {"url": "http://a.example/"}}, "delivery.url"),
        ({"key": "k", "query": "/a", "from": {}}, "from"),
        ({"key": "k", "query": "/a", "from": {"seq": 1, "after": 2}}, "from"),
        ({"key": "k", "query": "/a", "from": {"seq": -1}}, "from.seq"),
        ({"key": "k", "query": "/a", "from": {"time": "yesterday"}}, "from.time"),
        ({"key": "k", "query": "/a", "namespaces": {"p": 1}}, "namespaces.p"),
    ],
)
def test_what_is_wrong_in_a_body_is_named(party: Party, body: dict[str, Any], field: str) -> None:
    problem = party.problem("POST", "/subscriptions", 422, "invalid", json=body)
    assert problem["errors"][0]["field"] == field


@pytest.mark.parametrize("content", [b"", b"{", b"null", b"[]", b'"text"', b"\xff", b'{"key": "k", "key": 1}'])
def test_bodies_that_are_no_objects(party: Party, content: bytes) -> None:
    response = party.http.post("/subscriptions", content=content, headers={"Content-Type": "application/json"})
    check_problem(response, 422, "invalid")


def test_a_secret_is_never_shown(party: Party) -> None:
    delivery = {"kind": "webhook", "url": "http://127.0.0.1:9/hook", "secret": "very-secret-indeed"}
    created = party.subscribe("k", "/a", delivery=delivery)
    assert created["delivery"]["signed"] is True
    answers = [json.dumps(created), party.http.get(at("k")).text, party.http.get("/subscriptions").text]
    answers.append(party.http.get("/subscriptions/export").text)
    answers.append(
        party.http.patch(at("k"), json={"delivery": {"kind": "webhook", "url": "http://127.0.0.1:9/x"}}).text
    )
    assert json.loads(answers[-1])["delivery"]["signed"] is True, "the secret stays where none is given"
    assert json.loads(answers[-1])["delivery"]["url"].endswith("/x")
    assert all("very-secret" not in answer for answer in answers)


def test_the_address_of_an_inner_name_is_told_to_operators_only(own_broker: Any) -> None:
    broker: RunningBroker = own_broker(allow_private_urls=False)
    body = {"key": "k", "query": "/a", "delivery": {"kind": "webhook", "url": "http://localhost/"}}
    problem = broker.party().problem("POST", "/subscriptions", 422, "url-refused", json=body)
    assert "localhost leads to no public address" in problem["detail"]
    assert "address" not in problem
    assert "127.0.0.1" not in str(problem)
    assert broker.operator.post("/subscriptions", json=body).json()["address"] in ("127.0.0.1", "::1")


def test_webhooks_into_the_own_network_are_refused(own_broker: Any) -> None:
    broker: RunningBroker = own_broker(allow_private_urls=False)
    party = broker.party()
    for url in (
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/latest",
        "http://10.0.0.1/",
        "ftp://a.example/",
    ):
        body = {"key": "k", "query": "/a", "delivery": {"kind": "webhook", "url": url}}
        party.problem("POST", "/subscriptions", 422, "url-refused", json=body)
        party.problem("PUT", at("k"), 422, "url-refused", json={n: v for n, v in body.items() if n != "key"})
        party.problem("PUT", "/sources/s", 422, "url-refused", json={"kind": "rss", "url": url})
        lines = party.http.post(
            "/subscriptions/import", content=json.dumps(body), headers={"Content-Type": "application/x-ndjson"}
        ).text
        assert json.loads(lines.splitlines()[0])["error"]["code"] == "url-refused"


def test_subscriptions_share_a_subscriber(party_on_each_store: Party) -> None:
    party = party_on_each_store
    for key in ("b", "a", "c"):
        party.subscribe(key, "/m", subscriber="desk")
    party.publish("<m>1</m>")
    party.publish("<m>2</m>")
    results = party.pull("desk")
    assert [(item["seq"], item["key"]) for item in results] == sorted(
        [(item["seq"], item["key"]) for item in results], key=lambda pair: pair[0]
    )
    assert sorted(item["key"] for item in results) == ["a", "a", "b", "b", "c", "c"]
    assert [s["key"] for s in party.ok("GET", "/subscriptions", params={"subscriber": "desk"})["subscriptions"]] == [
        "a", "b", "c",
    ]  # fmt: skip


def test_the_number_of_subscriptions_is_limited(broker: RunningBroker) -> None:
    party = broker.party(subscriptions_max=2)
    party.subscribe("1", "/a")
    party.subscribe("2", "/a")
    problem = party.problem("POST", "/subscriptions", 409, "limit-reached", json={"key": "3", "query": "/a"})
    assert (problem["limit"], problem["value"]) == ("subscriptions_max", 2)
    party.http.delete(at("1"))
    party.subscribe("3", "/a")


# --- the past ---------------------------------------------------------------------------------------------------------


def test_b01_a_snapshot_and_a_subscription_from_its_cursor_miss_nothing(party_on_each_store: Party) -> None:
    """B-01: a message between reading a snapshot and subscribing."""
    party = party_on_each_store
    party.publish("<a>before</a>")
    cursor = party.ok("GET", "/messages")["cursor"]
    party.publish("<a>between</a>")
    party.subscribe("k", "/a", **{"from": {"after": cursor}})
    party.publish("<a>after</a>")
    got: list[str] = []
    while len(got) < 2:
        results = party.pull("k")
        assert results
        got += [item["xml"] for item in results]
        party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "k", "ids": [item["id"] for item in results]})
    assert got == ["<a>between</a>", "<a>after</a>"]
    assert party.pull("k", wait=0.1) == []


@pytest.mark.parametrize("kind", ["seq", "message", "time"])
def test_the_past_by_number_id_and_time(party: Party, kind: str) -> None:
    party.publish("<a>0</a>")
    since = datetime.now(UTC)
    first = party.publish("<a>1</a>", id="one")
    party.publish("<a>2</a>")
    start = {"seq": first["seq"], "message": "one", "time": since.isoformat()}[kind]
    party.subscribe("k", "/a", **{"from": {kind: start}})
    got: list[str] = []
    while len(got) < 2:
        results = party.pull("k")
        assert results
        got += [item["xml"] for item in results]
        party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "k", "ids": [item["id"] for item in results]})
    assert got == ["<a>1</a>", "<a>2</a>"]


def test_a_start_that_is_not_there(party: Party) -> None:
    party.problem(
        "POST", "/subscriptions", 404, "not-found", json={"key": "k", "query": "/a", "from": {"message": "nope"}}
    )
    party.problem(
        "POST",
        "/subscriptions",
        422,
        "invalid",
        json={"key": "k", "query": "/a", "from": {"time": "2026-01-01T00:00:00"}},
    )
    future = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    party.publish("<a>0</a>")
    party.subscribe("k", "/a", **{"from": {"time": future}})
    assert party.pull("k", wait=0.1) == []
    party.publish("<a>1</a>")
    assert [item["xml"] for item in party.pull("k")] == ["<a>1</a>"]


# --- bulk -------------------------------------------------------------------------------------------------------------


def test_an_import_tells_of_each_line_that_is_refused(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("taken", "/a")
    lines = [
        '{"key": "1", "query": "/a"}',
        '{"key": "2", "query": "//a["}',
        "",
        "no json",
        '{"key": "taken", "query": "/b"}',
        '{"key": "3", "query": "/p:a", "namespaces": {"p": "urn:x"}, "subscriber": "desk", "dialect": "legacy"}',
        '{"key": "4"}',
        '{"key": "5", "query": "/a", "from": {"seq": 1}}',
        '{"key": "1", "query": "/c"}',
    ]
    headers = {"Content-Type": "application/x-ndjson"}
    answer = party.http.post("/subscriptions/import", content="\n".join(lines), headers=headers)
    assert answer.status_code == 200
    *refused, counts = [json.loads(line) for line in answer.text.splitlines()]
    assert counts == {"lines": 8, "added": 2, "replaced": 0, "refused": 6}
    reported = {item["line"]: item["error"]["code"] for item in refused}
    assert reported == {2: "query-syntax", 4: "invalid", 5: "conflict", 7: "invalid", 8: "invalid", 9: "conflict"}
    assert next(item for item in refused if item["line"] == 2)["error"]["column"] == 5

    again = party.http.post(
        "/subscriptions/import", params={"replace": True}, content='{"key": "taken", "query": "/b"}', headers=headers
    )
    assert json.loads(again.text) == {"lines": 1, "added": 0, "replaced": 1, "refused": 0}
    exported = [json.loads(line) for line in party.http.get("/subscriptions/export").text.splitlines()]
    assert exported == [
        {"key": "1", "query": "/a"},
        {"key": "3", "query": "/p:a", "namespaces": {"p": "urn:x"}, "dialect": "legacy", "subscriber": "desk"},
        {"key": "taken", "query": "/b"},
    ]


def test_an_import_that_replaces_counts_from_the_next_message_on(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("same", "/a")
    party.subscribe("other", "/a")
    party.subscribe("paused", "/a")
    party.ok("POST", "/subscriptions/paused/pause")
    party.subscribe("wrong", "/a")
    party.subscribe("shared", "/a", subscriber="desk")
    party.subscribe("hook", "/a", delivery={"kind": "webhook", "url": "http://127.0.0.1:9/", "secret": "s"})
    party.publish("<a/>")
    lines = [
        '{"key": "same", "query": "/a"}',
        '{"key": "other", "query": "/p:b", "namespaces": {"p": "urn:p"}}',
        '{"key": "paused", "query": "/b"}',
        '{"key": "wrong", "query": "/b["}',
        '{"key": "shared", "query": "/b"}',
        '{"key": "shared", "query": "/b", "subscriber": "elsewhere"}',
        '{"key": "hook", "query": "/b"}',
        '{"key": "new", "query": "/c"}',
        '{"key": "new", "query": "/b"}',
    ]
    headers = {"Content-Type": "application/x-ndjson"}
    answer = party.http.post("/subscriptions/import?replace=true", content="\n".join(lines), headers=headers)
    *refused, counts = [json.loads(line) for line in answer.text.splitlines()]
    assert {item["line"]: item["error"]["code"] for item in refused} == {4: "query-syntax", 6: "conflict"}
    assert "'desk'" in next(item for item in refused if item["line"] == 6)["error"]["detail"]
    assert counts == {"lines": 9, "added": 1, "replaced": 6, "refused": 2}
    assert party.publish("<a/>")["matches"] == 2, "same and wrong"
    assert party.publish("<b/>")["matches"] == 3, "shared, hook and new"
    assert party.publish("<b xmlns='urn:p'/>")["matches"] == 1, "other"
    assert party.ok("GET", "/subscriptions/paused")["query"] == "/b"
    assert party.ok("GET", "/subscriptions/paused")["state"] == "paused"
    assert party.ok("GET", "/subscriptions/hook")["delivery"]["kind"] == "pull"
    assert [delivery["xml"] for delivery in party.pull("other")] == ["<a/>", "<b xmlns='urn:p'/>"]


@pytest.mark.slow
def test_what_is_exported_can_be_imported(party: Party, broker: RunningBroker) -> None:
    lines = "".join(json.dumps({"key": f"k{n:05}", "query": f"/a[b = {n}]"}) + "\n" for n in range(12_000))
    headers = {"Content-Type": "application/x-ndjson"}
    answer = party.http.post("/subscriptions/import", content=lines, headers=headers)
    assert json.loads(answer.text) == {"lines": 12_000, "added": 12_000, "replaced": 0, "refused": 0}
    exported = party.http.get("/subscriptions/export").content
    other = broker.party()
    answer = other.http.post("/subscriptions/import", content=exported, headers=headers)
    assert json.loads(answer.text)["added"] == 12_000
    assert other.http.get("/subscriptions/export").content == exported
    assert other.publish("<a><b>11999</b></a>")["matches"] == 1


# --- questions --------------------------------------------------------------------------------------------------------


def test_check(party: Party) -> None:
    result = party.ok("POST", "/check", json={"query": "//a[b = 'x']"})
    assert (result["valid"], result["normal_form"]) == (True, "/descendant::a[b = 'x']")
    assert result["route"]
    result = party.ok("POST", "/check", json={"query": "//a[b = 'x"})
    assert (result["valid"], result["column"], result["expected"]) == (False, 9, ["'"])
    assert result["caret"].splitlines()[1].index("^") == 4 + 9 - 1


def test_b12_explain_names_the_first_step_that_fails_and_what_comes_nearest(party_on_each_store: Party) -> None:
    party = party_on_each_store
    (result,) = party.ok(
        "POST",
        "/explain",
        json={"query": "//story[topic = 'Sport']/title", "xml": "<story><topic>sport</topic></story>"},
    )["explanations"]
    assert result["matches"] is False
    assert "topic" in result["text"]
    assert result["details"]["verdict"]["hints"] is not None
    (result,) = party.ok("POST", "/explain", json={"query": "//b", "xml": "<a><b/></a>"})["explanations"]
    assert result["matches"] is True


def test_b11_explain_lists_each_rule_of_a_subscriber(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("keep", "/item[price > 10]", subscriber="reader")
    party.subscribe("drop", "/item[title = 'Ad']", subscriber="reader")
    stored = party.publish("<item><title>News</title><price>12</price></item>", id="i1")
    for asked in ({"seq": stored["seq"]}, {"message": "i1"}):
        results = party.ok("POST", "/explain", json={"subscriber": "reader", **asked})["explanations"]
        assert {item["key"]: item["matches"] for item in results} == {"keep": True, "drop": False}
    (one,) = party.ok("POST", "/explain", json={"key": "drop", "message": "i1"})["explanations"]
    assert '"News"' in one["text"]


def test_xquery_is_refused_without_saxon_wherever_a_query_is_given(
    party: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "SAXON", "no_such_module")
    query = {"query": "for $a in /a order by $a return $a", "dialect": "xquery"}
    party.subscribe("there", "/a")
    for method, path, body in (
        ("POST", "/subscriptions", {"key": "k", **query}),
        ("PUT", "/subscriptions/k", query),
        ("PATCH", "/subscriptions/there", query),
        ("POST", "/check", query),
        ("POST", "/explain", {"xml": "<a/>", **query}),
    ):
        problem = party.problem(method, path, 422, "invalid", json=body)
        assert "twigcast[xquery]" in problem["detail"]
    line = json.dumps({"key": "k", **query})
    answer = party.http.post("/subscriptions/import", content=line, headers={"Content-Type": "application/x-ndjson"})
    assert "twigcast[xquery]" in answer.text.splitlines()[0]


@pytest.mark.skipif(importlib.util.find_spec("saxonche") is None, reason="Saxon is not installed")
def test_xquery(party_on_each_store: Party) -> None:
    party = party_on_each_store
    query = "for $a in /o/a group by $k := $a/@k order by $k return <k name='{$k}'>{ count($a) }</k>"
    party.subscribe("k", query, dialect="xquery")
    checked = party.ok("POST", "/check", json={"query": query, "dialect": "xquery"})
    assert (checked["valid"], checked["route"]) == (True, "automaton"), "the engine can read it"
    external = query.replace("count($a)", "format-integer(count($a), '1')")
    checked = party.ok("POST", "/check", json={"query": external, "dialect": "xquery"})
    assert (checked["valid"], checked["route"]) == (True, "xquery")
    wrong = party.ok("POST", "/check", json={"query": "for $a in /o group by", "dialect": "xquery"})
    assert (wrong["valid"], wrong["code"]) == (False, "query-syntax")
    party.problem(
        "POST", "/subscriptions", 422, "query-syntax", json={"key": "w", "query": "for $a in", "dialect": "xquery"}
    )
    party.problem("PATCH", "/subscriptions/k", 409, "conflict", json={"dialect": "xpath", "query": "/a"})
    assert party.publish("<o><a k='x'/><a k='y'/><a k='x'/></o>")["matches"] == 0
    (result,) = party.pull("k")
    assert (result["xml"], result["rewritten"]) == ("<k name='x'>2</k><k name='y'>1</k>".replace("'", '"'), True)
    exported = party.http.get("/subscriptions/export").content
    assert json.loads(exported)["dialect"] == "xquery"
    headers = {"Content-Type": "application/x-ndjson"}
    again = party.http.post("/subscriptions/import?replace=true", content=exported, headers=headers)
    assert json.loads(again.text) == {"lines": 1, "added": 0, "replaced": 1, "refused": 0}


@pytest.mark.parametrize("dialect", ["xpath", "legacy", "xquery", "javascript", "groovy", "python", "", None])
@pytest.mark.parametrize(
    "query",
    [
        "open('{path}', 'w')",
        "__import__('os').system('touch {path}')",
        "${{new java.io.File('{path}').createNewFile()}}",
        "#set($x = '{path}')",
        "<xsl:value-of select='document(\"{path}\")'/>",
        "file:write('{path}', 'x')",
        "doc('file://{path}')",
        "document('file://{path}')",
        "unparsed-text('file://{path}')",
        "java:java.io.File.new('{path}')",
        "function() {{ return require('fs').writeFileSync('{path}', '') }}",
    ],
)
def test_b06_what_is_no_query_is_refused_and_nothing_runs(
    party_on_each_store: Party, query: str, dialect: str | None, tmp_path: Path
) -> None:
    party, path = party_on_each_store, tmp_path / "written"
    body = {"key": "k", "query": query.format(path=path), "dialect": dialect}
    answer = party.http.post("/subscriptions", json=body)
    assert answer.status_code == 422, answer.text
    check_problem(answer, 422, answer.json()["code"])
    checked = party.http.post("/check", json={"query": body["query"]})
    assert checked.json()["valid"] is False
    assert party.publish("<a/>")["matches"] == 0
    assert party.ok("GET", "/subscriptions")["subscriptions"] == []
    assert not path.exists()


def test_explain_goes_through_all_rules_of_a_subscriber(party: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_EXPLAINED_MAX", 4)
    for number in range(10):
        party.subscribe(f"k{number}", f"/item[price > {number}]", subscriber="reader")
    asked = {"subscriber": "reader", "xml": "<item><price>6</price></item>"}
    first = party.ok("POST", "/explain", json=asked)
    assert ([item["key"] for item in first["explanations"]], first["next"]) == (["k0", "k1", "k2", "k3"], "k3")
    with Client(party.url, party.tokens[Scope.SUBSCRIBE]) as client:
        results = client.explain(subscriber="reader", xml=asked["xml"])
    assert {e.key: e.matches for e in results} == {f"k{n}": n < 6 for n in range(10)}
    party.problem("POST", "/explain", 422, "invalid", json={"query": "/a", "xml": "<a/>", "after": "k"})


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"query": "//a["}, 422, "invalid"),
        ({"query": "//a[", "xml": "<a/>"}, 422, "query-syntax"),
        ({"query": "//a", "xml": "<a>"}, 422, "message-malformed"),
        ({"query": "//a", "key": "k", "xml": "<a/>"}, 422, "invalid"),
        ({"query": "//a", "seq": 1 << 60}, 404, "not-found"),
        ({"key": "nope", "xml": "<a/>"}, 404, "not-found"),
        ({"subscriber": "nope", "xml": "<a/>"}, 404, "not-found"),
    ],
)
def test_questions_that_cannot_be_answered(party: Party, body: dict[str, Any], status: int, code: str) -> None:
    party.problem("POST", "/explain", status, code, json=body)


# --- when too much waits ----------------------------------------------------------------------------------------------


def test_a_policy_is_set_changed_exported_and_imported(party: Party) -> None:
    assert party.subscribe("usual", "/a")["overflow"] == "suspend"
    assert party.subscribe("k", "/a", overflow="refuse")["overflow"] == "refuse"
    assert party.ok("PATCH", "/subscriptions/k", json={"overflow": "drop_oldest"})["overflow"] == "drop_oldest"
    assert party.ok("PATCH", "/subscriptions/k", json={"query": "/b"})["overflow"] == "drop_oldest"
    exported = party.http.get("/subscriptions/export").text
    assert [json.loads(line).get("overflow") for line in exported.splitlines()] == ["drop_oldest", None]
    changed = exported.replace("drop_oldest", "dead_letter")
    headers = {"Content-Type": "application/x-ndjson"}
    party.ok("POST", "/subscriptions/import?replace=true", content=changed, headers=headers)
    assert party.ok("GET", "/subscriptions/k")["overflow"] == "dead_letter"
    assert party.ok("PUT", "/subscriptions/k", json={"query": "/b"})["overflow"] == "suspend"
    party.problem("PATCH", "/subscriptions/k", 422, "invalid", json={"overflow": "explode"})


def test_a_publisher_is_told_that_a_subscriber_has_too_much(broker: RunningBroker) -> None:
    party = broker.party(pending_max=3)
    party.subscribe("k", "/a", overflow="refuse")
    for _ in range(4):
        party.publish("<a/>")
    response = party.http.post("/messages", content=b"<a/>", headers={"Content-Type": "application/xml"})
    assert check_problem(response, 429, "queue-full")["detail"].startswith("nothing was stored")
    assert response.headers["retry-after"] == "1"
    party.publish("<b/>")
    party.ok("POST", "/subscriptions/k/seek", json={"now": True})
    xml = {"Content-Type": "application/xml"}
    until(lambda: party.http.post("/messages", content=b"<a/>", headers=xml).status_code in (200, 201))


def test_a_subscription_shows_what_it_misses_until_it_has_it(broker: RunningBroker) -> None:
    party = broker.party(pending_max=3)
    party.subscribe("k", "/a")
    sent = [party.publish("<a/>")["seq"] for _ in range(8)]
    suspended = party.ok("GET", "/subscriptions/k")
    assert suspended["state"] == "suspended"
    assert suspended["missed_from"] in sent
    got: list[int] = []
    while len(got) < len(sent):
        some = party.pull("k", wait=10)
        party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "k", "ids": [item["id"] for item in some]})
        got += [item["seq"] for item in some]
    assert got == sent
    until(lambda: party.ok("GET", "/subscriptions/k")["state"] == "active")


@pytest.mark.parametrize("declaration", ["", "<?xml version='1.0'?>", "<?xml version='1.0'?>\n"])
def test_stored_messages_are_explained_with_their_ids_and_places_as_handed_out(party: Party, declaration: str) -> None:
    body = f"{declaration}<!DOCTYPE r [<!ATTLIST i k ID #IMPLIED>]><r><i k='x'>1</i></r>"
    seq = party.publish(body)["seq"]
    handed_out = body.replace("<!DOCTYPE r [<!ATTLIST i k ID #IMPLIED>]>", "")
    assert party.ok("GET", f"/messages/{seq}")["xml"] == handed_out
    for query in ("id('x')", "id('x')[. = '2']", "//i[@k = 'y']"):
        stored = party.ok("POST", "/explain", json={"query": query, "seq": seq})["explanations"][0]
        sent = party.ok("POST", "/explain", json={"query": query, "xml": body})["explanations"][0]
        assert stored["matches"] == sent["matches"] == (query == "id('x')")
        assert "DOCTYPE" not in json.dumps(stored)
    plain = party.ok("POST", "/explain", json={"query": query, "xml": handed_out})["explanations"][0]
    assert stored == plain
