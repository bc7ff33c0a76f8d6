"""When subscribers are told, through a running broker."""

from __future__ import annotations

from typing import Any

from tests.broker.api.running import Party, check_problem
from twigcast.broker.model import Scope
from twigcast.client import Client

THREE = {"at_least": 3, "within": "10 min", "by": "/gauge/@river"}


def gauge(river: str, state: str = "calm") -> str:
    return f"<gauge river='{river}' state='{state}'/>"


def test_a_subscription_is_told_of_the_third_message(party_on_each_store: Party) -> None:
    party = party_on_each_store
    shown = party.subscribe("high", "/gauge", when=THREE)
    assert shown["when"] == THREE
    published = [party.publish(gauge(river)) for river in ("Lea", "Lea", "Wye")]
    assert [one["matches"] for one in published] == [0, 0, 0]
    known = party.ok("GET", "/subscriptions/high/window")
    assert [(one["key"], one["state"].split(" since")[0]) for one in known["keys"]] == [
        ("Lea", "2 of 3"),
        ("Wye", "1 of 3"),
    ]
    page = party.ok("GET", "/subscriptions/high/window?limit=1")
    assert (len(page["keys"]), page["next"]) == (1, "Lea")
    assert [one["key"] for one in party.ok("GET", "/subscriptions/high/window?after=Lea")["keys"]] == ["Wye"]
    published.append(party.publish(gauge("Lea")))
    assert published[3]["matches"] == 1
    (delivery,) = party.pull("high")
    messages = [published[number]["seq"] for number in (0, 1, 3)]
    assert delivery["window"] == {"kind": "at_least", "key": "Lea", "messages": messages}
    assert "window" not in (party.subscribe("all", "/gauge"), party.publish(gauge("Wye")), party.pull("all"))[2][0]


def test_results_have_the_value_before_and_the_value_now(party: Party) -> None:
    query = "for $g in /gauge return <change from='{$old}' to='{$new}'>{$g/@river}</change>"
    party.subscribe("changes", query, when={"changed": "/gauge/@state", "by": "/gauge/@river"})
    for river, state in (("Lea", "calm"), ("Wye", "high"), ("Lea", "calm"), ("Lea", "a<b")):
        party.publish(gauge(river, state.replace("<", "&lt;")))
    (delivery,) = party.pull("changes")
    assert delivery["xml"] == '<change from="calm" to="a&lt;b" river=\'Lea\'/>'
    assert (delivery["window"]["old"], delivery["window"]["new"]) == ("calm", "a<b")


def test_silence_and_a_digest_are_told_though_no_message_comes(party: Party) -> None:
    party.subscribe("silent", "/gauge", when={"absence": 0.2})
    party.subscribe("all", "/gauge", when={"digest": 0.5})
    # From the subscription on.
    (first,) = party.pull("silent", wait=10)
    assert first["source"] == "twigcast:windows"
    assert "last" not in first["xml"]
    party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "silent", "ids": [first["id"]]})
    party.publish(gauge("Lea"), id="g-1")
    (second,) = party.pull("silent", wait=10)
    assert 'last="g-1"' in second["xml"]
    assert second["window"]["kind"] == "absence"
    (digest,) = party.pull("all", wait=10)
    assert f'<message id="g-1" at="{digest["xml"].split(chr(34) + " at=" + chr(34))[1][:20]}' in digest["xml"]
    assert gauge("Lea") in digest["xml"]
    # Nobody else gets what the broker has written, not even by replay.
    party.subscribe("replayed", "/*", **{"from": {"seq": 1}})
    assert [one["message"] for one in party.pull("replayed", wait=5)] == ["g-1"]


def test_what_is_wrong_with_a_window_is_said(party: Party) -> None:
    for when, status, word in (
        ({"at_least": 3}, "invalid", "within"),
        ({"digest": "1 h", "throttle": "1 h"}, "invalid", "when"),
        ({"changed": "//u:x"}, "window", "prefix"),
    ):
        body = {"key": "bad", "query": "/gauge", "when": when}
        problem = check_problem(party.http.post("/subscriptions", json=body), 422, status)
        assert word in problem["detail"]
    body = {"key": "bad", "query": "for $g in /gauge where $g/@x = $old return <r/>", "when": {"changed": "/gauge/@x"}}
    problem = check_problem(party.http.post("/subscriptions", json=body), 422, "window")
    assert "return" in problem["detail"]
    party.subscribe("plain", "/gauge")
    party.problem("GET", "/subscriptions/plain/window", 404, "not-found")


def test_another_window_forgets_what_was_known_and_another_query_does_not(party: Party) -> None:
    party.subscribe("high", "/gauge", when=THREE)
    party.publish(gauge("Lea"))
    party.ok("PATCH", "/subscriptions/high", json={"query": "//gauge"})
    assert len(party.ok("GET", "/subscriptions/high/window")["keys"]) == 1
    party.ok("PATCH", "/subscriptions/high", json={"when": {**THREE, "at_least": 2}})
    assert party.ok("GET", "/subscriptions/high/window")["keys"] == []
    assert party.ok("PATCH", "/subscriptions/high", json={"when": None})["when"] is None
    assert party.publish(gauge("Lea"))["matches"] == 1


def test_windows_are_exported_and_the_client_shows_them(party: Party) -> None:
    with Client(party.url, party.tokens[Scope.ADMIN]) as client:
        client.subscribe("high", "/gauge", when=THREE)
        (line,) = client.export_subscriptions()
        assert line["when"] == THREE
        client.import_subscriptions([{**line, "key": "imported"}])
        assert client.subscription("imported").when == THREE
        changed: dict[str, Any] = {**line, "when": {**THREE, "at_least": 2}}
        assert client.import_subscriptions([changed], replace=True).replaced == 1
        first = client.publish(gauge("Lea"))
        (known,) = client.window("high")
        assert (known.key, known.state.split(" since")[0]) == ("Lea", "1 of 2")
        second = client.publish(gauge("Lea"))
        (delivery,) = client.pull("high")
        assert delivery.window is not None
        assert delivery.window["messages"] == [first.seq, second.seq]


def test_explanations_say_what_a_window_holds_and_why_its_subscriber_is_told(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("high", "/gauge", when=THREE)
    party.subscribe("plain", "/gauge", subscriber="high")
    first, second = (party.publish(gauge("Lea")) for _ in range(2))

    def explained(**asked: object) -> dict[str, Any]:
        answer = party.ok("POST", "/explain", json=asked)
        (found,) = [one for one in answer["explanations"] if one["key"] == "high"]
        assert found["details"]["window"]["reason"] in found["text"]
        window: dict[str, Any] = found["details"]["window"]
        return window

    now = explained(key="high", xml=gauge("Lea"))
    assert (now["when"], now["key"], now["delivers"]) == (THREE, "Lea", True)
    assert now["holds"].startswith("2 of 3 since")
    assert now["reason"].endswith(f"it stands for {first['seq']}, {second['seq']}, this message")
    assert explained(subscriber="high", xml=gauge("Wye"))["reason"].startswith("it counts: with it, 1 of 3")
    assert explained(key="high", xml="<other/>")["delivers"] is False
    waiting = explained(key="high", seq=first["seq"])
    assert (waiting["delivers"], waiting["reason"].partition(",")[0]) == (None, "it counts")
    party.publish(gauge("Lea"))
    assert explained(key="high", seq=first["seq"])["reason"].startswith("nothing is known of it any more")
    (plain,) = party.ok("POST", "/explain", json={"key": "plain", "xml": gauge("Lea")})["explanations"]
    assert "window" not in plain["details"]
