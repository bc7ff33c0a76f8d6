"""Scenarios of delivery and operation that no other test of the broker is about, through its interface."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from lxml import etree

from tests.broker.api.running import Party
from tests.end_to_end.feed_server import FeedServer


def test_b01_what_comes_between_a_snapshot_and_its_subscription_is_delivered(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.publish("<a>before</a>")
    cursor = party.ok("GET", "/messages", params={"limit": 100})["cursor"]
    party.publish("<a>between</a>")
    party.subscribe("k", "/a", **{"from": {"after": cursor}})
    party.publish("<a>after</a>")
    got: list[str] = []
    while len(got) < 2:
        deliveries = party.pull("k")
        assert deliveries, got
        party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "k", "ids": [item["id"] for item in deliveries]})
        got += [item["xml"] for item in deliveries]
    assert got == ["<a>between</a>", "<a>after</a>"]


@pytest.mark.parametrize("dialect", ["javascript", "groovy", "jexl", "template", "python"])
def test_b06_expressions_in_other_languages_are_refused(party: Party, tmp_path: Path, dialect: str) -> None:
    sign = tmp_path / "ran"
    query = f"__import__('pathlib').Path('{sign}').touch()"
    party.problem("POST", "/subscriptions", 422, "invalid", json={"key": "k", "query": query, "dialect": dialect})
    assert party.http.post("/subscriptions", json={"key": "k", "query": query}).status_code == 422
    assert party.http.post("/subscriptions", json={"key": "k", "query": "${7*7}{{7*7}}"}).status_code == 422
    assert not sign.exists()


def test_b11_explaining_lists_each_rule_with_its_verdict(party: Party) -> None:
    party.subscribe("k1", "//item[title = 'a']", subscriber="s")
    party.subscribe("k2", "//item[title = 'b']", subscriber="s")
    seq = party.publish("<r><item><title>a</title></item></r>")["seq"]
    explanations = party.ok("POST", "/explain", json={"subscriber": "s", "seq": seq})["explanations"]
    assert {item["key"]: item["matches"] for item in explanations} == {"k1": True, "k2": False}
    assert all(item["text"] for item in explanations)


def test_b12_explaining_names_the_first_step_that_fails_and_the_nearest_miss(party: Party) -> None:
    body = {"query": "/feed/entry[author = 'Ann']/title", "xml": "<feed><entry><author>Anne</author></entry></feed>"}
    (explanation,) = party.ok("POST", "/explain", json=body)["explanations"]
    assert explanation["matches"] is False
    assert "entry" in explanation["text"]
    assert "Anne" in explanation["text"]


def test_n16_external_entities_are_refused_and_no_face_delivers_a_doctype(party: Party, tmp_path: Path) -> None:
    with FeedServer() as receiver:
        party.subscribe("hook", "/r", delivery={"kind": "webhook", "url": f"{receiver.url}/hook"})
        party.subscribe("pulled", "/r")
        external = '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///demo/none">]><r>&x;</r>'
        refused = party.http.post("/messages", content=external, headers={"Content-Type": "application/xml"})
        assert refused.status_code == 422
        assert "external" in refused.json()["detail"]
        inner = '<!DOCTYPE r [<!ENTITY x "good"><!ATTLIST r a CDATA "1">]><r>&x;</r>'
        party.publish(inner)
        (pulled,) = party.pull("pulled")
        (posted,) = receiver.wait_posted(1)
        address = party.ok("GET", "/subscriptions/pulled/feed")["url"]
        atom = httpx2.get(party.url + httpx2.URL(address).raw_path.decode()).text
    path = tmp_path / "m.xml"
    path.write_text(inner)
    command = [sys.executable, "-m", "twigcast", "deliver", "--whole", "-q", "/r", "-o", "-", str(path)]
    delivered = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    expected = pulled["xml"]
    assert "good" in expected
    assert posted.decode() == expected
    (content,) = etree.fromstring(atom.encode()).iter("{http://www.w3.org/2005/Atom}content")
    assert etree.tostring(content[0], method="c14n2") == etree.tostring(etree.fromstring(expected), method="c14n2")
    assert expected.replace('"', '\\"') in delivered
    assert not any("DOCTYPE" in text for text in (expected, atom, delivered))
