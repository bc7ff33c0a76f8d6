"""``/dead-letters`` and ``/sources``, through the interface; and that the console is there."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.broker.api.running import Party, RunningBroker, until


class Receiver(http.server.ThreadingHTTPServer):
    """Takes posts, and answers as it is told."""

    status = 500

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as result:
        thread = threading.Thread(target=result.serve_forever)
        thread.start()
        yield result
        result.shutdown()
        thread.join()


def test_dead_letters_are_listed_retried_and_removed(own_broker: Any, receiver: Receiver) -> None:
    broker: RunningBroker = own_broker(push_attempts_max=1)
    party, other = broker.party(), broker.party()
    party.subscribe("hook", "/a", delivery={"kind": "webhook", "url": receiver.url, "secret": "s"})
    sent = [party.publish(f"<a>{n}</a>", id=f"m{n}") for n in range(3)]
    until(lambda: len(party.ok("GET", "/dead-letters")["dead_letters"]) == 3, 15)
    letters = party.ok("GET", "/dead-letters")["dead_letters"]
    assert [item["message"] for item in letters] == ["m2", "m1", "m0"]
    assert {item["seq"] for item in letters} == {item["seq"] for item in sent}
    assert (letters[0]["key"], letters[0]["xml"], letters[0]["attempts"]) == ("hook", "<a>2</a>", 1)
    assert "500" in letters[0]["reason"]
    page = party.ok("GET", "/dead-letters", params={"limit": 2, "key": "hook"})
    assert len(page["dead_letters"]) == 2
    rest = party.ok("GET", "/dead-letters", params={"before": page["next"]})
    assert [item["message"] for item in rest["dead_letters"]] == ["m0"]
    assert rest["next"] is None

    numbers = [item["dead_letter"] for item in letters]
    assert other.ok("GET", "/dead-letters")["dead_letters"] == []
    for verb in ("retry", "delete"):
        other.problem("POST", f"/dead-letters/{verb}", 404, "not-found", json={"dead_letters": numbers})
        party.problem("POST", f"/dead-letters/{verb}", 404, "not-found", json={"dead_letters": [numbers[0], 1 << 60]})
    assert len(party.ok("GET", "/dead-letters")["dead_letters"]) == 3

    receiver.status = 204
    assert party.ok("POST", "/dead-letters/retry", json={"dead_letters": numbers[:1]}) == {"count": 1}
    until(lambda: receiver.bodies[3:] == [b"<a>2</a>"], 10)
    until(lambda: len(party.ok("GET", "/dead-letters")["dead_letters"]) == 2)
    assert party.ok("POST", "/dead-letters/delete", json={"dead_letters": [*numbers[1:], numbers[1]]}) == {"count": 2}
    assert party.ok("GET", "/dead-letters") == {"dead_letters": [], "next": None}


def test_the_life_of_a_source(party_on_each_store: Party) -> None:
    party = party_on_each_store
    created = party.ok("PUT", "/sources/a%2Fb", 201, json={"dtd": "<!ELEMENT a ANY>"})
    assert (created["name"], created["kind"], created["paused"], created["failures"]) == ("a/b", "push", False, 0)
    changed = party.ok("PUT", "/sources/a%2Fb", json={})
    assert changed["dtd"] is None
    assert party.ok("POST", "/sources/a%2Fb/pause")["paused"] is True
    assert party.ok("GET", "/sources/a%2Fb")["paused"] is True
    assert party.ok("POST", "/sources/a%2Fb/resume")["paused"] is False
    assert [item["name"] for item in party.ok("GET", "/sources")["sources"]] == ["a/b"]
    party.publish("<a/>", source="a/b")
    party.ok("DELETE", "/sources/a%2Fb", 204)
    party.problem("GET", "/sources/a%2Fb", 404, "not-found")
    assert party.ok("GET", "/messages", params={"source": "a/b"})["messages"], "its messages stay"


def test_a_source_that_makes_no_sense(party: Party, broker: RunningBroker) -> None:
    for body in ({"kind": "rss"}, {"kind": "push", "url": "http://a.example/"}, {"interval": 0}, {"kind": "ftp"}):
        party.problem("PUT", "/sources/s", 422, "invalid", json=body)
    party.problem("PUT", "/sources/s", 422, "url-refused", json={"kind": "rss", "url": "file:///etc/passwd"})
    for dtd in ("<!ELEMENT", "", '<!ENTITY % x SYSTEM "/etc/hostname"> %x; <!ELEMENT a EMPTY>'):
        assert party.problem("PUT", "/sources/s", 422, "invalid", json={"dtd": dtd})["detail"].startswith("dtd: ")
    party.ok("PUT", "/sources/s", 201, json={"dtd": "<!ELEMENT a EMPTY>"})
    limited = broker.party(sources_max=1)
    limited.ok("PUT", "/sources/1", 201, json={})
    limited.problem("PUT", "/sources/2", 409, "limit-reached", json={})
    limited.ok("PUT", "/sources/1", 200, json={"paused": True})


def test_the_console_is_there_unless_it_is_switched_off(broker: RunningBroker, own_broker: Any) -> None:
    response = httpx2.get(broker.url, follow_redirects=True)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert httpx2.get(own_broker(console=False).url).status_code == 404
