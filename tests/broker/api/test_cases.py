"""Cases from the trackers of other projects that are about asking: B-06, B-11, B-12. Others are where they belong."""

from __future__ import annotations

import json

import pytest

from tests.broker.api.running import Party

DESK = "/nitf[head/pubdata/@edition.area = 'SF'][body//hedline]"


@pytest.mark.parametrize("dialect", ["javascript", "groovy", "simple", "spel", "xslt", "xquery", ""])
def test_b06_another_language_is_refused(party: Party, dialect: str) -> None:
    """B-06: an expression in a language of scripts or templates."""
    asked = {"key": "k", "query": "T(java.lang.Runtime).getRuntime().exec('id')", "dialect": dialect}
    found = party.problem("POST", "/subscriptions", 422, "invalid", json=asked)
    assert [error["field"] for error in found["errors"]] == ["dialect"]
    party.problem("GET", "/subscriptions/k", 404, "not-found")
    headers = {"Content-Type": "application/x-ndjson"}
    answer = party.http.post("/subscriptions/import", content=json.dumps(asked), headers=headers)
    assert json.loads(answer.text.splitlines()[0])["error"]["code"] == "invalid"


@pytest.mark.parametrize(
    "query",
    [
        "doc('file:///etc/passwd')//x",
        "document('http://127.0.0.1/')",
        "unparsed-text('/etc/passwd')",
        "java:java.lang.System.exit(0)",
        "${7 * 7}",
        "{{ 7 * 7 }}",
        "<% 7 %>",
        "system-property('user.home')",
        "current-dateTime()",
    ],
)
def test_b06_a_query_that_reaches_out_is_refused_and_nothing_runs(party: Party, query: str) -> None:
    """B-06: a query is data, whatever it looks like."""
    answer = party.http.post("/subscriptions", json={"key": "k", "query": query})
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"].startswith("query-")
    assert answer.json()["column"] >= 1
    assert party.publish("<a/>")["matches"] == 0


def test_b11_explain_tells_of_each_rule_and_its_verdict(party: Party) -> None:
    """B-11: a reader who blocks items asks why one is still there."""
    rules = {
        "flood": ("//alert[event = 'Flood']", True),
        "severe": ("//alert[severity > 2]", False),
        "area": ("//area", True),
    }
    for key, (query, _) in rules.items():
        party.subscribe(key, query, subscriber="reader")
    seq = party.publish("<alert><event>Flood</event><severity>1</severity><area/></alert>")["seq"]
    found = party.ok("POST", "/explain", json={"subscriber": "reader", "seq": seq})["explanations"]
    assert {item["key"]: item["matches"] for item in found} == {key: matches for key, (_, matches) in rules.items()}
    assert all(item["text"] for item in found)


def test_b12_explain_names_the_first_step_that_failed_and_the_nearest_miss(party: Party) -> None:
    """B-12: an editor asks why a story was not routed."""
    party.subscribe("sf", DESK)
    story = "<nitf><head><pubdata edition.area='LA'/></head><body><hedline/></body></nitf>"
    seq = party.publish(story)["seq"]
    (found,) = party.ok("POST", "/explain", json={"key": "sf", "seq": seq})["explanations"]
    assert not found["matches"]
    assert "edition.area" in found["text"]
    assert "LA" in found["text"]
    assert "hedline" not in found["text"].split("edition.area")[0].replace(DESK, "")
