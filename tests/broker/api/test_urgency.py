"""What goes first and what is too late, through a running broker."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.broker.api.running import Party, check_problem
from twigcast.broker.model import Scope
from twigcast.client import Client, Publication

URGENT = {"priority": 8, "deadline": "5 min", "overdue": "drop"}
BY_URGENCY = {"kind": "pull", "queue": "shared", "order": "urgency"}


def test_the_most_urgent_delivery_is_next(party_on_each_store: Party) -> None:
    party = party_on_each_store
    shown = party.subscribe("desk", "/*", delivery=BY_URGENCY, urgency={"priority": 1})
    assert shown["delivery"]["order"] == "urgency"
    assert shown["urgency"] == {"priority": 1, "deadline": None, "overdue": "mark"}
    for name, urgency in (("parking", {}), ("late", {"priority": "9", "deadline": "1999-01-01T00:00:00Z"})):
        party.publish(f"<{name}/>", **urgency)
    party.publish("<tornado/>", priority="9", deadline="5 min")
    first, second, third = party.pull("desk")
    assert [one["xml"] for one in (first, second, third)] == ["<tornado/>", "<parking/>", "<late/>"]
    assert (first["priority"], third["overdue"]) == (9, True)
    assert not {"overdue", "priority", "deadline"} & second.keys()
    until = datetime.fromisoformat(first["deadline"]) - datetime.now(UTC)
    assert timedelta(minutes=4) < until < timedelta(minutes=6)
    message = party.ok("GET", f"/messages/{first['seq']}")
    assert (message["priority"], message["deadline"]) == (9, first["deadline"])


def test_an_ordered_queue_keeps_its_order_and_marks_what_is_late(party: Party) -> None:
    party.subscribe("ordered", "/*", urgency={"deadline": "0.001 s"})
    party.publish("<a/>")
    party.publish("<b/>", priority="9")
    assert [(one["xml"], one["overdue"]) for one in party.pull("ordered")] == [("<a/>", True), ("<b/>", True)]


@pytest.mark.parametrize(
    ("urgency", "field"),
    [
        ({"priority": 10}, "priority"),
        ({"priority": "9"}, "priority"),
        ({"deadline": "soon"}, "deadline"),
        ({"overdue": "never"}, "overdue"),
        ({"speed": 1}, "speed"),
    ],
)
def test_what_is_wrong_with_the_urgency_of_a_subscription_is_said(
    party: Party, urgency: dict[str, object], field: str
) -> None:
    body = {"key": "bad", "query": "/a", "urgency": urgency}
    assert field in check_problem(party.http.post("/subscriptions", json=body), 422, "invalid")["detail"]


def test_an_ordered_queue_has_no_order_of_urgency(party: Party) -> None:
    body = {"key": "bad", "query": "/a", "delivery": {"kind": "pull", "order": "urgency"}}
    assert "shared" in check_problem(party.http.post("/subscriptions", json=body), 422, "invalid")["detail"]


@pytest.mark.parametrize("wrong", [{"priority": "10"}, {"priority": "-1"}, {"priority": "x"}, {"deadline": "5"}])
def test_what_is_wrong_with_the_urgency_of_a_message_is_said(party: Party, wrong: dict[str, str]) -> None:
    headers = {"Content-Type": "application/xml"}
    answer = party.http.post("/messages", params=wrong, content=b"<a/>", headers=headers)
    assert next(iter(wrong)) in check_problem(answer, 422, "invalid")["detail"]
    lines = json.dumps({"xml": "<a/>", **wrong})
    answer = party.http.post("/messages", content=lines.encode(), headers={"Content-Type": "application/x-ndjson"})
    assert "line 1: " in check_problem(answer, 422, "invalid")["detail"]


def test_urgency_is_changed_exported_and_imported(party: Party) -> None:
    with Client(party.url, party.tokens[Scope.ADMIN]) as client:
        first = client.subscribe("one", "/a", urgency=URGENT, delivery=BY_URGENCY)
        assert first.urgency == URGENT
        (line,) = client.export_subscriptions()
        assert line["urgency"] == URGENT
        assert line["delivery"]["order"] == "urgency"
        client.import_subscriptions([{**line, "key": "imported"}])
        assert client.subscription("imported").urgency == URGENT
        changed = {**line, "urgency": {"priority": 2}}
        assert client.import_subscriptions([changed], replace=True).replaced == 1
        assert client.subscription("one").urgency == {"priority": 2, "deadline": None, "overdue": "mark"}
        assert client.subscription("one").etag != first.etag
        assert party.ok("PATCH", "/subscriptions/one", json={"query": "//a"})["urgency"]["priority"] == 2
        assert party.ok("PATCH", "/subscriptions/one", json={"urgency": None})["urgency"] is None


def test_the_client_publishes_with_urgency_and_shows_it(party: Party) -> None:
    deadline = datetime(2999, 1, 1, tzinfo=UTC)
    with Client(party.url, party.tokens[Scope.ADMIN]) as client:
        client.subscribe("desk", "/*", delivery=BY_URGENCY)
        client.publish_many([Publication("<a/>"), Publication("<b/>", priority=3, deadline=deadline)], priority=2)
        client.publish("<c/>", priority=9, deadline="1 h")
        got = client.pull("desk")
        assert [(one.xml, one.priority, one.overdue) for one in got] == [
            ("<c/>", 9, False),
            ("<b/>", 3, False),
            ("<a/>", 2, False),
        ]
        assert got[1].deadline == deadline
        assert client.message(got[1].seq).deadline == deadline
        with pytest.raises(ValueError, match="offset"):
            client.publish("<d/>", deadline=datetime(2999, 1, 1))
