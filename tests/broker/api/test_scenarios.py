"""Scenarios of delivery and operation that no other test of the broker is about, through its interface."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from lxml import etree

from tests.broker.api.running import Party
from tests.end_to_end.feed_server import FeedServer
from twigcast.broker.model import Scope
from twigcast.client import Client


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


WITH_DOCTYPE = '<!DOCTYPE r [\n<!ENTITY x "good"><!ATTLIST r a CDATA "1">\n]>\n<r>&x;</r>'


def faces(party: Party, receiver: FeedServer, count: int) -> dict[str, str]:
    """The last message as each face delivers it. There have been so many."""
    posted = receiver.wait_posted(count)[-1].decode()
    seq = party.ok("GET", "/messages", params={"newest": True, "limit": 1, "xml": True})["messages"][0]
    with party.http.stream("GET", "/deliveries/stream", params={"subscriber": "streamed"}) as stream:
        data = next(line for line in stream.iter_lines() if line.startswith("data:"))
    party.ok("POST", "/subscriptions/replayed/seek", 200, json={"seq": seq["seq"]})
    return {
        "hook": posted,
        "stored": seq["xml"],
        "body": party.http.get(f"/messages/{seq['seq']}/xml").text,
        "pull": party.pull("pulled")[-1]["xml"],
        "stream": json.loads(data.removeprefix("data:"))["xml"],
        "replay": party.pull("replayed")[-1]["xml"],
    }


@pytest.mark.parametrize(("policy", "is_kept"), [("strip", False), ("allow", True)])
def test_the_doctype_of_a_source_is_on_every_face_or_on_none(party: Party, policy: str, is_kept: bool) -> None:
    party.ok("PUT", "/sources/s", 201, json={"doctype": policy})
    with FeedServer() as receiver:
        party.subscribe("hook", "/r[@a = '1']", delivery={"kind": "webhook", "url": f"{receiver.url}/hook"})
        for key in ("pulled", "streamed", "replayed"):
            party.subscribe(key, "/r[@a = '1'][. = 'good']")
        party.publish(WITH_DOCTYPE, source="s")
        shown = faces(party, receiver, 1)
    assert len(set(shown.values())) == 1, shown
    assert ("<!DOCTYPE" in shown["pull"]) is is_kept
    assert shown["pull"].endswith("<r>&x;</r>" if is_kept else '<r a="1">good</r>')
    address = party.ok("GET", "/subscriptions/pulled/feed")["url"]
    atom = httpx2.get(party.url + httpx2.URL(address).raw_path.decode()).text
    assert "DOCTYPE" not in atom, "a message in a feed is an element of it"
    assert "good" in atom


def test_a_source_may_refuse_doctypes(party: Party) -> None:
    party.ok("PUT", "/sources/s", 201, json={"doctype": "refuse"})
    party.subscribe("k", "/r")
    body = f"<?xml version='1.0'?><!-- <!DOCTYPE -->\n  {WITH_DOCTYPE}"
    problem = party.problem("POST", "/messages?source=s", 422, "message-disallowed", content=body)
    assert (problem["line"], problem["column"]) == (2, 3)
    (kept,) = party.ok("GET", "/rejected")["rejected"]
    assert kept["code"] == "message-disallowed"
    party.publish("<r><![CDATA[<!DOCTYPE]]></r>", source="s")
    party.publish(WITH_DOCTYPE, source="another")
    party.ok("PUT", "/sources/s", 200, json={})
    party.publish(WITH_DOCTYPE, source="s")
    assert len(party.pull("k")) == 3


DTD = "<!ELEMENT alert (area+, severity?)> <!ELEMENT area (#PCDATA)> <!ELEMENT severity (#PCDATA)>\n"
DTD += '<!ATTLIST alert id CDATA #REQUIRED status (draft|final) "final">'
INVALID = '<alert id="1">\n <severity>3</severity>\n</alert>'


def test_messages_that_the_dtd_of_their_source_does_not_allow_are_rejected(party: Party) -> None:
    party.ok("PUT", "/sources/s", 201, json={"dtd": DTD, "validation": "reject"})
    party.subscribe("k", "/alert")
    valid = '<alert id="1"><area>harbour</area></alert>'
    for body in (INVALID, '<alert id="1" status="x"><area/></alert>', "<alert><area/></alert>", "<other/>"):
        problem = party.problem("POST", "/messages?source=s", 422, "message-disallowed", content=body)
        assert problem["detail"].startswith("the DTD does not allow it: ")
        assert problem["line"] == 1
    party.problem("POST", "/messages?source=s", 422, "message-malformed", content="<alert><area></alert>")
    assert "invalid" not in party.publish(valid, source="s")
    # A DOCTYPE of the message itself is another matter: the entities that it declares are expanded before.
    party.publish('<!DOCTYPE alert [<!ENTITY a "north">]>' + valid.replace("harbour", "&a;"), source="s")
    party.publish(INVALID, source="another")
    assert len(party.pull("k")) == 3
    lines = "\n".join(json.dumps({"xml": xml, "source": "s"}) for xml in (valid, INVALID))
    batch = party.ok("POST", "/messages", 200, content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert [result["status"] for result in batch["results"]] == ["accepted", "rejected"]


def test_publishers_are_told_what_the_dtd_does_not_allow(party: Party) -> None:
    with Client(party.url, party.tokens[Scope.ADMIN]) as client:
        client.put_source("s", dtd=DTD, validation="annotate")
        client.subscribe("k", "/alert")
        told = client.publish(INVALID, source="s")
        assert told.invalid is not None
        assert "severity" in told.invalid
        assert client.publish('<alert id="1"><area/></alert>', source="s").invalid is None
        assert len(client.pull("k", wait=5)) == 2
        client.put_source("s", dtd=DTD)
        assert client.publish(INVALID, source="s").invalid is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"validation": "reject"}, "validation needs a dtd"),
        ({"validation": "reject", "dtd": "<!ELEMENT"}, "not a DTD"),
        ({"validation": "reject", "dtd": "<!ELEMENT a EMPTY><!ELEMENT p:b ((a, a) | a)>"}, "not deterministic"),
        ({"validation": "reject", "dtd": '<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;'}, "refers to"),
    ],
)
def test_validation_needs_a_dtd_that_can_be_used(party: Party, body: dict[str, str], told: str) -> None:
    assert told in party.problem("PUT", "/sources/s", 422, "invalid", json=body)["detail"]
