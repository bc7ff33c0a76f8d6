"""``/messages`` and ``/rejected``."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.broker.api.running import Party, RunningBroker, check_problem
from twigcast.broker.api import access
from twigcast.broker.model import Scope

XML = {"Content-Type": "application/xml"}
LINES = {"Content-Type": "application/x-ndjson"}


def lines(*items: Any) -> bytes:
    return b"\n".join(json.dumps(item).encode() for item in items)


def test_a_message_is_stored_and_delivered(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("floods", "//alert[event = 'Flood']")
    party.subscribe("quakes", "//alert[event = 'Quake']")
    response = party.http.post(
        "/messages",
        params={"id": "m 1", "source": "gauges"},
        content="<alert><event>Flood</event></alert>",
        headers=XML,
    )
    assert response.status_code == 201
    result = response.json()
    assert result == {"status": "accepted", "seq": result["seq"], "id": "m 1", "matches": 1}
    stored = party.ok("GET", response.headers["location"])
    assert stored["xml"] == "<alert><event>Flood</event></alert>"
    assert (stored["id"], stored["source"], stored["matches"]) == ("m 1", "gauges", 1)
    assert party.http.get(f"/messages/{result['seq']}/xml").content == b"<alert><event>Flood</event></alert>"
    (delivery,) = party.pull("floods")
    assert delivery["xml"] == stored["xml"]
    assert (delivery["key"], delivery["message"], delivery["seq"]) == ("floods", "m 1", result["seq"])
    assert delivery["received"] == stored["received"]
    assert party.pull("quakes", wait=0) == []


def test_the_same_id_is_accepted_once(party_on_each_store: Party) -> None:
    party = party_on_each_store
    party.subscribe("all", "/a")
    first = party.publish("<a/>", id="x")
    again = party.http.post("/messages", params={"id": "x"}, content="<a/>", headers=XML)
    assert again.status_code == 200
    assert again.json() == {**first, "status": "duplicate"}
    reused = party.problem(
        "POST", "/messages", 409, "id-reused", params={"id": "x"}, content="<a>other</a>", headers=XML
    )
    assert (reused["seq"], reused["id"]) == (first["seq"], "x")
    lines = "\n".join(json.dumps(item) for item in ({"xml": "<a>3</a>", "id": "x"}, {"xml": "<a/>", "id": "x"}))
    batch = party.ok("POST", "/messages", content=lines, headers={"Content-Type": "application/x-ndjson"})
    assert (batch["accepted"], batch["duplicates"], batch["rejected"], batch["refused"]) == (0, 1, 0, 1)
    assert batch["results"][0] == {
        "status": "refused",
        "code": "id-reused",
        "id": "x",
        "seq": first["seq"],
        "reason": reused["detail"],
    }
    assert party.publish("<a/>", id="x", source="another")["status"] == "accepted"
    assert len(party.pull("all")) == 2


def test_a_malformed_message_is_told_and_kept(party_on_each_store: Party) -> None:
    party = party_on_each_store
    body = b"<a>\n  <b></c>\n</a>"
    problem = party.problem(
        "POST", "/messages", 422, "message-malformed", content=body, params={"id": "bad"}, headers=XML
    )
    assert (problem["line"], problem["column"]) == (2, 6)
    kept = party.ok("GET", f"/rejected/{problem['rejected']}")
    assert (kept["id"], kept["line"], kept["reason"]) == ("bad", 2, problem["detail"])
    assert party.http.get(f"/rejected/{problem['rejected']}/body").content == body
    assert [item["rejected"] for item in party.ok("GET", "/rejected")["rejected"]] == [problem["rejected"]]
    assert party.ok("DELETE", f"/rejected/{problem['rejected']}") == {"count": 1}
    party.problem("GET", f"/rejected/{problem['rejected']}", 404, "not-found")


def test_a_batch_says_what_became_of_each(party: Party) -> None:
    party.subscribe("all", "//*")
    raw = b"\xff\xfe" + "<a>\u20ac</a>".encode("utf-16-le")
    response = party.http.post(
        "/messages",
        params={"source": "batch"},
        headers=LINES,
        content=lines(
            {"xml": "<a/>", "id": "1"},
            {"xml": "<a>", "id": "2"},
            {"xml": "<a/>", "id": "1"},
            {"xml_base64": base64.b64encode(raw).decode(), "source": "own"},
        )
        + b"\n\n",
    )
    assert response.status_code == 200
    result = response.json()
    assert (result["accepted"], result["duplicates"], result["rejected"]) == (2, 1, 1)
    assert [item["status"] for item in result["results"]] == ["accepted", "rejected", "duplicate", "accepted"]
    assert result["results"][1]["code"] == "message-malformed"
    assert result["results"][1]["line"] == 1
    assert [item["xml"] for item in party.pull("all")] == ["<a/>", "<a>\u20ac</a>"]
    sources = [item["source"] for item in party.ok("GET", "/messages")["messages"]]
    assert sources == ["batch", "own"]


def test_three_broken_ones_of_a_thousand_are_kept_whole(party: Party) -> None:
    broken = {100, 500, 900}
    batch = [{"xml": f"<a><n>{n}</n>" + ("" if n in broken else "</a>")} for n in range(1_000)]
    result = party.ok("POST", "/messages", headers=LINES, content=lines(*batch))
    assert (result["accepted"], result["rejected"]) == (997, 3)
    kept = party.ok("GET", "/rejected")["rejected"]
    bodies = {party.http.get(f"/rejected/{item['rejected']}/body").text for item in kept}
    assert bodies == {f"<a><n>{n}</n>" for n in broken}
    assert all(item["line"] == 1 and item["column"] for item in kept)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"{", "it is no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"xml": "<a/>", "key": 1}', "no member 'key'"),
        (b'{"xml": 1}', "give either xml or xml_base64"),
        (b"{}", "give either xml or xml_base64"),
        (b'{"xml": "<a/>", "xml_base64": "PGEvPg=="}', "give either xml or xml_base64"),
        (b'{"xml_base64": "*"}', "no base64"),
        (b'{"xml": "<a/>", "id": ""}', "id must be"),
        (b'{"xml": "<a/>", "id": 7}', "id must be"),
        (b'{"xml": "<a/>", "source": "' + b"s" * 513 + b'"}', "source must be"),
        (b'{"xml": "<a/>", "id": "a\\u0000"}', "U+0000"),
        (b'{"xml": "\\ud800"}', "no JSON"),
    ],
)
def test_a_line_that_is_no_message_refuses_the_batch(party: Party, line: bytes, told: str) -> None:
    problem = party.problem("POST", "/messages", 422, "invalid", headers=LINES, content=b'{"xml": "<a/>"}\n' + line)
    assert problem["detail"].startswith("line 2: ")
    assert told in problem["detail"]
    assert party.ok("GET", "/messages")["messages"] == []


def test_an_empty_batch_and_one_that_is_too_long_are_refused(party: Party) -> None:
    party.problem("POST", "/messages", 422, "invalid", headers=LINES, content=b"\n \n")
    problem = party.problem("POST", "/messages", 413, "too-large", headers=LINES, content=b'{"xml":"<a/>"}\n' * 1_001)
    assert "batch_messages_max = 1,000" in problem["detail"]


@pytest.mark.parametrize(
    ("body", "content_type", "xml"),
    [
        ("<a>\u00e4</a>".encode(), "application/xml", "<a>\u00e4</a>"),
        ("<a>\u00e4</a>".encode("latin-1"), "text/xml; charset=ISO-8859-1", "<a>\u00e4</a>"),
        # The header wins over the declaration, whichever is right.
        (
            "<?xml version='1.0' encoding='UTF-8'?><a>\u00e4</a>".encode("latin-1"),
            'application/atom+xml; charset="iso-8859-1"',
            "<a>\u00e4</a>",
        ),
        (
            "<?xml version='1.0' encoding='ISO-8859-1'?><a>\u00e4</a>".encode("latin-1"),
            "application/xml",
            "<a>\u00e4</a>",
        ),
        ("\ufeff<a>\u20ac</a>".encode("utf-16-le"), "application/xml", "<a>\u20ac</a>"),
        ("<a>\u20ac</a>".encode("utf-16-be"), "application/xml; Charset = utf-16be", "<a>\u20ac</a>"),
        (b"\xef\xbb\xbf<a/>", "application/xml", "<a/>"),
    ],
)
def test_charsets(party: Party, body: bytes, content_type: str, xml: str) -> None:
    party.subscribe("all", "/a")
    response = party.http.post("/messages", content=body, headers={"Content-Type": content_type})
    assert response.status_code == 201, response.text
    (delivery,) = party.pull("all")
    assert delivery["xml"].endswith(xml)


def test_bytes_that_do_not_fit_their_charset_are_rejected(party: Party) -> None:
    problem = party.problem(
        "POST",
        "/messages",
        422,
        "message-malformed",
        content=b"<a>\xe4</a>",
        headers={"Content-Type": "text/xml; charset=utf-8"},
    )
    assert problem["rejected"]
    party.problem(
        "POST",
        "/messages",
        422,
        "message-malformed",
        content=b"<a/>",
        headers={"Content-Type": "text/xml; charset=klingon"},
    )


def test_gzip(party: Party) -> None:
    body = gzip.compress(b"<a>") + gzip.compress(b"</a>")
    response = party.http.post("/messages", content=body, headers={**XML, "Content-Encoding": "gzip"})
    assert response.status_code == 201, response.text
    assert party.ok("GET", f"/messages/{response.json()['seq']}")["xml"] == "<a></a>"


@pytest.mark.parametrize(
    "body",
    [b"<a/>", gzip.compress(b"<a/>", mtime=0)[:-4], gzip.compress(b"<a/>", mtime=0) + b"x"],
    ids=["plain", "cut off", "more behind"],
)
def test_what_is_no_gzip_is_told(party: Party, body: bytes) -> None:
    party.problem("POST", "/messages", 422, "invalid", content=body, headers={**XML, "Content-Encoding": "gzip"})


def test_a_gzip_bomb_is_refused(party: Party) -> None:
    bomb = gzip.compress(b"<a>" + b" " * 200_000_000 + b"</a>", 1)
    assert len(bomb) < 1_000_000
    began = time.monotonic()
    party.problem("POST", "/messages", 413, "too-large", content=bomb, headers={**XML, "Content-Encoding": "gzip"})
    assert time.monotonic() - began < 1.0, "it is not unpacked to its end"


def test_other_encodings_and_types_are_refused(party: Party) -> None:
    party.problem(
        "POST", "/messages", 415, "unsupported-encoding", content=b"x", headers={**XML, "Content-Encoding": "br"}
    )
    party.problem(
        "POST", "/messages", 415, "unsupported-media-type", content=b"x", headers={"Content-Type": "image/png"}
    )


def test_a_body_over_the_limit_is_refused_before_it_is_read(party: Party, broker: RunningBroker) -> None:
    address = urlsplit(broker.url)
    with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
        token = party.tokens[Scope.PUBLISH]
        connection.sendall(
            f"POST /messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/xml\r\nContent-Length: 5000000000\r\n\r\n".encode()
        )
        answer = connection.recv(65_536)
        assert b" 413 " in answer.split(b"\r\n", 1)[0]
        assert b"body_bytes_max = 1,000,000" in answer


def test_a_body_without_a_length_is_refused_at_the_limit(party: Party) -> None:
    sent = 0

    def endless() -> Any:
        nonlocal sent
        while sent < 3_000_000:
            sent += 50_000
            yield b"<" * 50_000

    response = party.http.post("/messages", content=endless(), headers=XML)
    check_problem(response, 413, "too-large")
    # A message of just the limit passes.
    party.publish(b"<a>" + b" " * (1_000_000 - 7) + b"</a>")


def test_limits_of_messages_name_themselves(party: Party) -> None:
    depth = 2_001
    problem = party.problem(
        "POST", "/messages", 422, "message-limit", content=b"<a>" * depth + b"</a>" * depth, headers=XML
    )
    # Once: the engine says it by itself.
    assert problem["detail"].count("depth_max") == 1
    assert problem["detail"].endswith("the limit depth_max allows (2000)")
    bomb = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10}'>" for n in range(1, 12))
    bomb = f"<!DOCTYPE a [<!ENTITY e0 '{'x' * 20}'>{bomb}]><a>&e11;</a>"
    problem = party.problem("POST", "/messages", 422, "message-limit", content=bomb, headers=XML)
    assert "the limit is entity_amplification_max = 100" in problem["detail"]
    kept = party.ok("GET", f"/rejected/{problem['rejected']}")
    assert (kept["code"], kept["reason"]) == ("message-limit", problem["detail"])


@pytest.mark.parametrize(
    "query", [{"id": ""}, {"id": "i" * 513}, {"id": "\0"}, {"source": "s" * 513}, {"id": ".."}, {"source": "\0x"}]
)
def test_names_that_cannot_be_kept_are_refused(party: Party, query: dict[str, str]) -> None:
    party.problem("POST", "/messages", 422, "invalid", params=query, content=b"<a/>", headers=XML)


def test_names_may_hold_anything_else(party: Party) -> None:
    name = "a/b?c#d%2F \u20ac\U0001f600\n"
    party.publish("<a/>", id=name, source=name)
    (result,) = party.ok("GET", "/messages", params={"source": name})["messages"]
    assert (result["id"], result["source"]) == (name, name)
    assert party.ok("GET", "/messages", params={"id": name})["messages"] == [result]


def test_messages_are_listed_in_pages(party: Party) -> None:
    for n in range(5):
        party.publish(f"<a>{n}</a>", source="even" if n % 2 == 0 else "odd")
    seen, cursor, more = [], 0, True
    while more:
        page = party.ok("GET", "/messages", params={"after": cursor, "limit": 2, "xml": True})
        seen += [item["xml"] for item in page["messages"]]
        cursor, more = page["cursor"], page["more"]
    assert seen == [f"<a>{n}</a>" for n in range(5)]
    assert party.ok("GET", "/messages", params={"after": cursor}) == {"messages": [], "cursor": cursor, "more": False}
    newest = party.ok("GET", "/messages", params={"newest": True, "limit": 2})["messages"]
    assert [item["matches"] for item in newest] == [0, 0]
    assert newest[0]["seq"] > newest[1]["seq"]
    older = party.ok("GET", "/messages", params={"newest": True, "before": newest[1]["seq"]})["messages"]
    assert len(older) == 3
    assert len(party.ok("GET", "/messages", params={"source": "odd"})["messages"]) == 2


def test_the_rate_of_a_tenant_is_limited(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    # The clock stands still, however long publishing takes.
    now = time.monotonic()
    monkeypatch.setattr(access, "time", SimpleNamespace(monotonic=lambda: now, time=time.time))
    party = broker.party(publish_rate_max=5)
    for _ in range(5):
        party.publish("<a/>")
    response = party.http.post("/messages", content=b"<a/>", headers=XML)
    problem = check_problem(response, 429, "too-many")
    assert "publish_rate_max = 5" in problem["detail"]
    assert int(response.headers["retry-after"]) >= 1
    response = party.http.post("/messages", content=lines({"xml": "<a/>"}), headers=LINES)
    check_problem(response, 429, "too-many")
    broker.party().publish("<a/>")
    # A little more than a fifth of a second: sums of fifths are rounded.
    now += 0.21
    party.publish("<a/>")
    check_problem(party.http.post("/messages", content=b"<a/>", headers=XML), 429, "too-many")


def test_concurrent_publications_are_all_there(party: Party, broker: RunningBroker) -> None:
    party.subscribe("all", "/a")

    async def publish_all() -> list[int]:
        async with httpx2.AsyncClient(base_url=broker.url, headers=party.headers(), timeout=20) as http:
            answers = await asyncio.gather(
                *(http.post("/messages", content=f"<a>{n}</a>", headers=XML) for n in range(200))
            )
        return [answer.json()["seq"] for answer in answers]

    seqs = asyncio.run(publish_all())
    assert len(set(seqs)) == 200
    got: list[Any] = []
    while len(got) < 200:
        page = party.pull("all", limit=1_000)
        assert page
        got += page
        party.ok("POST", "/deliveries/ack", 204, json={"subscriber": "all", "ids": [item["id"] for item in page]})
    assert [item["seq"] for item in got] == sorted(seqs)


def test_a_page_is_bounded_by_its_bytes(party: Party) -> None:
    for n in range(40):
        party.publish(f"<a n='{n}'>" + "x" * 900_000 + "</a>")
    seen: list[int] = []
    more, cursor, pages = True, 0, 0
    while more:
        result = party.ok("GET", "/messages", params={"after": cursor, "limit": 1_000})
        assert result["messages"]
        assert sum(item["bytes"] for item in result["messages"]) < 40_000_000
        seen += [item["seq"] for item in result["messages"]]
        cursor, more = result["cursor"], result["more"]
        pages += 1
    assert len(seen) == 40
    assert seen == sorted(set(seen))
    assert pages > 1
    older: list[int] = []
    before: dict[str, int] = {}
    while len(older) < 40:
        result = party.ok("GET", "/messages", params={"newest": True, "limit": 1_000, **before})
        older += [item["seq"] for item in result["messages"]]
        before = {"before": older[-1]}
    assert older == seen[::-1]


def test_a_name_that_is_no_text_is_refused(party: Party) -> None:
    for query in ("source=caf%e9", "id=%ff"):
        party.problem("POST", f"/messages?{query}", 422, "invalid", content=b"<a/>")
    assert party.ok("GET", "/messages")["messages"] == []
